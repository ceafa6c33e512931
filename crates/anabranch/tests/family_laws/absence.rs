//! Whether values are missing: against the family without it, sums over all patterns, and rows one after another.

use anabranch::batch::Batch;
use anabranch::family::{AnyFamily, Block, Conjugate, Family, Gap, Product};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::cases::{Case, bernoulli, bits, cases, features_of, stats_of};

/// Sums of a few terms, each about as large as itself.
const ROUNDING: f64 = 1e-10;

/// Rows with this pattern of bits missing, column by column.
fn holed(rows: &[Vec<f64>], pattern: impl Fn(usize) -> usize) -> Vec<Vec<f64>> {
    let hole = |row: usize, column: usize, value: f64| {
        if pattern(row) >> column & 1 == 1 { f64::NAN } else { value }
    };
    let columns = |(ix, row): (usize, &Vec<f64>)| (0..row.len()).map(|c| hole(ix, c, row[c])).collect();
    rows.iter().enumerate().map(columns).collect()
}

/// A family, the same with the absence of all its columns but the first, and rows of both with holes.
fn informed(case: &Case) -> (AnyFamily, Vec<usize>, Vec<Vec<f64>>) {
    let d = case.family.dimensions();
    let rows = holed(&case.rows, |row| (row * row + 3 * row) % 11);
    let batch = Batch::with_missing(d, rows.concat()).unwrap();
    let columns: Vec<usize> = (1..d).rev().collect();
    (case.family.clone().with_absence(columns.clone(), &batch).unwrap(), columns, rows)
}

fn several() -> Vec<Case> {
    let mut all = cases();
    all.retain(|case| !case.name.starts_with("multinomial") && (2..=6).contains(&case.family.dimensions()));
    all
}

#[test]
fn a_row_has_the_density_of_its_values_times_the_probability_of_what_is_missing() {
    for case in several() {
        let (family, columns, rows) = informed(&case);
        let weights = vec![1.0; rows.len()];
        let (stats, own) = (stats_of(&family, &rows, &weights), stats_of(&case.family, &rows, &weights));
        let (with, without) = (family.predictive(&stats), case.family.predictive(&own));
        let n = rows.len() as f64;
        // Beta(p, 1 − p) with p = (missing + ½) / (n + 1), and n rows more.
        let share = |column: usize| {
            let missing = rows.iter().filter(|row| row[column].is_nan()).count() as f64;
            ((missing + 0.5) / (n + 1.0) + missing) / (1.0 + n)
        };
        for row in &rows {
            let pattern = columns.iter().map(|column| match row[*column].is_nan() {
                true => share(*column).ln(),
                false => (1.0 - share(*column)).ln(),
            });
            let expected = without.ln_density(row) + pattern.sum::<f64>();
            let found = with.ln_density(row);
            assert!((found - expected).abs() < ROUNDING, "{}: {found} {expected}", case.name);
        }
        let told = family.absent(&stats);
        assert_eq!(told.len(), columns.len(), "{}", case.name);
        told.iter().for_each(|(column, found)| assert!((found - share(*column)).abs() < ROUNDING));
        assert_eq!(case.family.summary(&own), family.summary(&stats), "{}", case.name);
    }
}

/// Σ over all patterns of ∫ over the values that are there: of bits, all 3^D rows.
#[test]
fn rows_with_all_patterns_add_up_to_one() {
    let case = Case { name: "bernoulli".to_owned(), family: bernoulli(3).into(), rows: bits(3) };
    let rows = holed(&case.rows, |row| row % 8);
    let batch = Batch::with_missing(3, rows.concat()).unwrap();
    let family = case.family.clone().with_absence(vec![2, 0, 1], &batch).unwrap();
    let predictive = family.predictive(&stats_of(&family, &rows, &vec![0.7; rows.len()]));
    let value = |digit: usize| [0.0, 1.0, f64::NAN][digit];
    let all = (0..27).map(|ix| [value(ix % 3), value(ix / 3 % 3), value(ix / 9)]);
    let total: f64 = all.map(|row| predictive.ln_density(&row).exp()).sum();
    assert!((total - 1.0).abs() < ROUNDING, "{total}");
}

#[test]
fn the_evidence_of_patterns_is_that_of_rows_one_after_another() {
    for case in several() {
        let (family, _, rows) = informed(&case);
        // The part of the patterns alone: that of the values needs integrals.
        let AnyFamily::Product(product) = &family else { panic!() };
        let block = product.blocks().last().unwrap();
        let own: Vec<Vec<f64>> =
            rows.iter().map(|row| block.columns.iter().map(|column| row[*column]).collect()).collect();
        let mut chain = 0.0;
        for n in 0..own.len() {
            let stats = stats_of(&block.family, &own[..n], &vec![1.0; n]);
            chain += block.family.predictive(&stats).ln_density(&own[n]);
        }
        let nothing = vec![0.0; block.family.n_features()];
        let all = stats_of(&block.family, &own, &vec![1.0; own.len()]);
        let evidence = block.family.log_partition(&all) - block.family.log_partition(&nothing);
        assert!((chain - evidence).abs() < 1e-8, "{}: {chain} {evidence}", case.name);
    }
}

#[test]
fn patterns_enter_scores_and_sums_beside_what_is_integrated_out() {
    for case in several() {
        let (family, columns, rows) = informed(&case);
        let stats = stats_of(&family, &rows, &vec![1.0; rows.len()]);
        let n = case.family.n_features();
        let mut phi = vec![0.0; family.n_features()];
        family.expected_natural(&stats, &mut phi);
        let (mut table, mut own_table) = (Vec::new(), Vec::new());
        family.missing_table(&phi, &mut table);
        case.family.missing_table(&phi[..n], &mut own_table);
        for row in rows.iter().filter(|row| row.iter().any(|x| x.is_nan())) {
            let missing: Vec<usize> = (0..row.len()).filter(|column| row[*column].is_nan()).collect();
            let features = features_of(&family, row);
            let gap = |features| Gap { features, missing: &missing, share: 0.5 };
            let mut score = [0.0; 2];
            family.ln_integrals(&phi, &table, &[gap(&features)], &mut score[..1]);
            case.family.ln_integrals(&phi[..n], &own_table, &[gap(&features[..n])], &mut score[1..]);
            let marks = phi[n]
                + columns
                    .iter()
                    .zip(&phi[n + 1..])
                    .filter(|(c, _)| row[**c].is_nan())
                    .map(|(_, phi)| phi)
                    .sum::<f64>();
            assert!((score[0] - score[1] - marks).abs() < ROUNDING, "{}", case.name);
            let (mut sums, mut own_sums) = (vec![0.0; phi.len()], vec![0.0; n]);
            let entropy = family.add_expected(&phi, &table, &[gap(&features)], &mut sums);
            let own = case.family.add_expected(&phi[..n], &own_table, &[gap(&features[..n])], &mut own_sums);
            assert!((entropy - own).abs() < ROUNDING, "{}", case.name);
            own_sums.extend(features[n..].iter().map(|mark| 0.5 * mark));
            assert_eq!(sums, own_sums, "{}", case.name);
        }
    }
}

#[test]
fn drawn_rows_lack_values_as_often_as_those_that_were_learned() {
    const DRAWS: usize = 4000;
    let rng = &mut Xoshiro256PlusPlus::seed_from_u64(5);
    for case in several() {
        let (family, columns, rows) = informed(&case);
        let stats = stats_of(&family, &rows, &vec![1000.0; rows.len()]);
        let mut drawn = vec![0.0; case.family.dimensions()];
        let mut missing = vec![0; drawn.len()];
        for _ in 0..DRAWS {
            family.sample(&stats, rng, &mut drawn);
            family.check(&drawn).unwrap();
            missing.iter_mut().zip(&drawn).for_each(|(n, x)| *n += usize::from(x.is_nan()));
        }
        assert_eq!(missing[0], 0, "{}", case.name);
        for column in columns {
            let share = rows.iter().filter(|row| row[column].is_nan()).count() as f64 / rows.len() as f64;
            let off = missing[column] as f64 / DRAWS as f64 - share;
            // Four standard errors of a share.
            assert!(off.abs() < 4.0 * (0.25 / DRAWS as f64).sqrt(), "{}: {off}", case.name);
        }
    }
}

#[test]
fn absence_is_a_block_beside_those_of_the_values() {
    let rows = Batch::new(2, vec![1.0, 0.0, 1.0, 1.0]).unwrap();
    let family: AnyFamily = bernoulli(2).into();
    let of = |columns: Vec<usize>| family.clone().with_absence(columns, &rows);
    assert!(of(vec![1]).is_ok() && of(vec![1, 0]).is_ok());
    assert!(of(vec![2]).is_err() && of(vec![1, 1]).is_err() && of(vec![]).is_err());
    assert!(of(vec![1]).unwrap().with_absence(vec![1], &rows).is_err());
    let AnyFamily::Product(product) = of(vec![1]).unwrap() else { panic!() };
    let alone: Vec<Block> = product.blocks()[1..].to_vec();
    assert!(Product::new(alone).is_err());
    // Stored and read again.
    let text = serde_json::to_string(&of(vec![1]).unwrap()).unwrap();
    assert!(text.contains(r#"{"columns":[1],"family":{"absence":{"ones":"#), "{text}");
    assert_eq!(serde_json::from_str::<AnyFamily>(&text).unwrap(), of(vec![1]).unwrap());
}
