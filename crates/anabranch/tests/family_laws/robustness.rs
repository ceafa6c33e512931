//! PROPER: no rows of the domain, however degenerate, lead to a NaN or an infinity.

use anabranch::batch::Batch;
use anabranch::family::{
    AnyFamily, Bernoulli, Categorical, Conjugate, Diagonal, Family, Frame, Gaussian, Multinomial,
    NormalInverseWishart, Poisson, Spherical,
};
use proptest::prelude::*;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::cases::stats_of;

fn assert_proper(family: &AnyFamily, rows: &[Vec<f64>], weight: f64) {
    let name = family.name();
    let rows: Vec<Vec<f64>> = rows.iter().filter(|row| family.check(row).is_ok()).cloned().collect();
    let stats = stats_of(family, &rows, &vec![weight; rows.len()]);
    let mut phi = vec![f64::NAN; stats.len()];
    assert!(family.log_partition(&stats).is_finite(), "{name}: A");
    assert!(family.expected_natural(&stats, &mut phi).is_finite(), "{name}: A beside φ");
    assert!(phi.iter().all(|value| value.is_finite()), "{name}: φ {phi:?}");
    let predictive = family.predictive(&stats);
    for row in &rows {
        assert!(predictive.ln_density(row).is_finite(), "{name}: density of {row:?}");
        assert!(family.ln_base(row).is_finite(), "{name}: base of {row:?}");
        assert!(family.seed_distance(row, &rows[0]) >= 0.0, "{name}: distance of {row:?}");
    }
    let summary = family.summary(&stats);
    assert!(summary.mean.iter().chain(&summary.spread).all(|v| v.is_finite()), "{name}: {summary:?}");
    let mut row = vec![f64::NAN; family.dimensions()];
    family.sample(&stats, &mut Xoshiro256PlusPlus::seed_from_u64(1), &mut row);
    assert!(row.iter().all(|v| v.is_finite()), "{name}: sample {row:?}");
}

fn batch(rows: &[Vec<f64>]) -> Batch {
    Batch::new(rows[0].len(), rows.concat()).unwrap()
}

/// The real families, their frames taken from the first row(s) only.
fn real_families(first: &[Vec<f64>]) -> Vec<AnyFamily> {
    let first = batch(first);
    vec![
        Gaussian::from_rows(&first).unwrap().into(),
        Diagonal::from_rows(&first).unwrap().into(),
        Spherical::from_rows(&first).unwrap().into(),
    ]
}

fn count_families(first: &[Vec<f64>]) -> Vec<AnyFamily> {
    let first = batch(first);
    vec![
        Categorical::from_rows(&first).unwrap().into(),
        Poisson::from_rows(&first).unwrap().into(),
        Multinomial::from_rows(&first).unwrap().into(),
    ]
}

/// Weights of a row: a responsibility that all but vanishes, an ordinary one, a row that came a billion times.
const WEIGHTS: [f64; 5] = [5e-324, 1e-200, 0.3, 1.0, 1e9];

fn a_value() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => -5.0..5.0,
        1 => Just(0.0),
        1 => Just(1e8 + 0.25),
        1 => (-300.0..300.0_f64).prop_map(|power| 10.0_f64.powf(power)),
        1 => Just(f64::MAX),
    ]
}

/// Up to 12 rows of 1 to 6 columns: some constant columns, some rows duplicated, often fewer rows than columns.
fn some_rows(value: impl Strategy<Value = f64>) -> impl Strategy<Value = Vec<Vec<f64>>> {
    let table = (prop::collection::vec(value, 72), 1..=6_usize, 1..=12_usize);
    (table, any::<u8>(), any::<bool>()).prop_map(|((values, d, n), constant, duplicate)| {
        let cell = |row: usize, column: usize| {
            let row = if duplicate { row / 4 * 4 } else { row };
            let row = if constant >> column & 1 == 1 { 0 } else { row };
            values[row * 6 + column]
        };
        (0..n).map(|row| (0..d).map(|column| cell(row, column)).collect()).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn real_rows_of_any_kind_keep_every_number_finite(rows in some_rows(a_value()), weight in 0..5_usize) {
        for first in [&rows[..1], &rows[..]] {
            for family in real_families(first) {
                assert_proper(&family, &rows, WEIGHTS[weight]);
            }
        }
    }

    #[test]
    fn counts_of_any_kind_keep_every_number_finite(
        rows in some_rows(prop_oneof![4 => 0..5_u64, 1 => 0..100_000_u64, 1 => Just(1 << 53)].prop_map(|v| v as f64)),
        weight in 0..5_usize,
    ) {
        for first in [&rows[..1], &rows[..]] {
            for family in count_families(first) {
                assert_proper(&family, &rows, WEIGHTS[weight]);
            }
        }
    }

    #[test]
    fn bits_of_any_kind_keep_every_number_finite(
        rows in some_rows((0..2_u8).prop_map(f64::from)),
        weight in 0..5_usize,
    ) {
        for first in [&rows[..1], &rows[..]] {
            assert_proper(&Bernoulli::from_rows(&batch(first)).unwrap().into(), &rows, WEIGHTS[weight]);
        }
    }
}

#[test]
fn a_billion_copies_of_a_row_far_from_the_frame_stay_proper() {
    // Of the irregular distances some round the sum of squares below the square of the sum.
    for distance in (0..40).map(|power| 3.7 * 7.3_f64.powi(power)) {
        let first = vec![vec![-1.0, 0.5, 3.0], vec![1.0, -0.5, 1.0], vec![0.2, 0.1, 0.0]];
        let far = vec![vec![distance, distance / 3.0, -distance / 7.0]; 3];
        // A prior so weak that nothing but the arithmetic keeps the scatter matrix positive.
        let weak = NormalInverseWishart::with_diagonal_psi(vec![0.0; 3], 1e-30, &[1e-6; 3], 5.0);
        let weak = Gaussian::new(Frame::identity(3), weak).unwrap();
        for family in real_families(&first).into_iter().chain([weak.into()]) {
            assert_proper(&family, &far, 1e9 / 3.0);
        }
    }
}

#[test]
fn columns_that_are_copies_of_each_other_stay_proper() {
    let rows: Vec<Vec<f64>> = (0..2000).map(|ix| vec![f64::from(ix) * 0.37 - 370.0; 4]).collect();
    for family in real_families(&rows) {
        assert_proper(&family, &rows, 1e6);
    }
}
