//! The frame is a matter of precision only: densities and summaries in data units do not depend on it.

use anabranch::batch::Batch;
use anabranch::family::{AnyFamily, Conjugate, Diagonal, Family, Frame, Gaussian, Spherical};

use crate::cases::{self, stats_of};

/// Roundings, relative to `1 + |value|`.
const ROUNDING: f64 = 1e-9;
/// Rows at offset 1e8 are themselves rounded to 1.5e-8, and densities have slopes of a few.
const OFFSET_ROUNDING: f64 = 1e-5;

const OFFSET: f64 = 1e8;

fn families(frame: &Frame, isotropic: &Frame, offset: f64) -> Vec<AnyFamily> {
    let d = frame.dimensions();
    let mut niw = cases::niw(d);
    let mut columns = cases::normal_gammas(d);
    let mut sphere = cases::spherical_prior(d);
    niw.mean.iter_mut().for_each(|m| *m += offset);
    columns.iter_mut().for_each(|c| c.mean += offset);
    sphere.mean.iter_mut().for_each(|m| *m += offset);
    vec![
        Gaussian::with_prior_in_data_units(frame.clone(), niw).unwrap().into(),
        Diagonal::with_prior_in_data_units(frame.clone(), columns).unwrap().into(),
        Spherical::with_prior_in_data_units(isotropic.clone(), sphere).unwrap().into(),
    ]
}

fn from_rows(rows: &[Vec<f64>]) -> (Frame, Frame) {
    let batch = Batch::new(rows[0].len(), rows.concat()).unwrap();
    (Frame::from_rows(&batch).unwrap(), Frame::isotropic_from_rows(&batch).unwrap())
}

/// Log densities of the rows, the log marginal likelihood of all, and the summary's numbers less the offset.
fn numbers(family: &AnyFamily, rows: &[Vec<f64>], offset: f64) -> Vec<f64> {
    let stats = stats_of(family, rows, &vec![1.0; rows.len()]);
    let none = vec![0.0; stats.len()];
    let predictive = family.predictive(&stats);
    let mut numbers: Vec<f64> = rows.iter().map(|row| predictive.ln_density(row)).collect();
    numbers.push(family.log_partition(&stats) - family.log_partition(&none));
    let mut phi = none;
    family.expected_natural(&stats, &mut phi);
    for row in rows {
        let features = cases::features_of(family, row);
        numbers.push(phi.iter().zip(&features).map(|(p, f)| p * f).sum());
    }
    let summary = family.summary(&stats);
    numbers.extend(summary.mean.iter().map(|m| m - offset));
    numbers.extend(summary.spread);
    numbers
}

fn assert_same(left: &[f64], right: &[f64], tolerance: f64, what: &str) {
    for (left, right) in left.iter().zip(right) {
        assert!((left - right).abs() < tolerance * (1.0 + right.abs()), "{what}: {left} {right}");
    }
}

#[test]
fn densities_in_data_units_are_the_same_in_every_frame() {
    for d in [1, 2, 3, 5] {
        let rows = cases::real_rows(d);
        let (framed, isotropic) = from_rows(&rows);
        let plain = families(&Frame::identity(d), &Frame::identity(d), 0.0);
        for (plain, framed) in plain.iter().zip(families(&framed, &isotropic, 0.0)) {
            assert_same(&numbers(&framed, &rows, 0.0), &numbers(plain, &rows, 0.0), ROUNDING, plain.name());
        }
    }
}

#[test]
fn an_offset_of_a_hundred_million_changes_nothing_but_the_mean() {
    for d in [1, 3] {
        let rows = cases::real_rows(d);
        let far: Vec<Vec<f64>> = rows.iter().map(|row| row.iter().map(|v| v + OFFSET).collect()).collect();
        let (frame, isotropic) = from_rows(&far);
        let plain = families(&Frame::identity(d), &Frame::identity(d), 0.0);
        for (plain, framed) in plain.iter().zip(families(&frame, &isotropic, OFFSET)) {
            let (found, expected) = (numbers(&framed, &far, OFFSET), numbers(plain, &rows, 0.0));
            assert_same(&found, &expected, OFFSET_ROUNDING, plain.name());
        }
    }
}

#[test]
fn the_unit_of_measurement_changes_densities_by_the_volume_only() {
    for unit in [1e-12, 1e12] {
        let rows = cases::real_rows(3);
        let scaled: Vec<Vec<f64>> = rows.iter().map(|row| row.iter().map(|v| v * unit).collect()).collect();
        let density = |rows: &[Vec<f64>]| {
            let batch = Batch::new(3, rows.concat()).unwrap();
            let family = Gaussian::from_rows(&batch).unwrap();
            let stats = stats_of(&family, rows, &vec![1.0; rows.len()]);
            family.predictive(&stats).ln_density(&rows[0])
        };
        let expected = density(&rows) - 3.0 * f64::ln(unit);
        assert!((density(&scaled) - expected).abs() < ROUNDING * expected.abs());
    }
}
