//! The library and the command learn the same model from the same rows.

use anabranch::engine::Config;
use anabranch::family::{AnyFamily, Gaussian};
use anabranch::learner::MINIBATCH_ROWS;
use anabranch::learner::course::Course;
use anabranch::prelude::*;
use anabranch::process::{AnyProcess, Bound, Parameter};
use anabranch_io::model;
use rand::SeedableRng;
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::support::Sandbox;

/// Three clusters in the plane; the fourth comes late.
fn rows(n: usize) -> Vec<f64> {
    let noise = |t: f64| t.sin() + (1.7 * t).sin() + (2.3 * t).sin();
    let row = |ix: usize| {
        let t = ix as f64;
        let place = if ix > 4 * n / 5 { ix % 4 } else { ix % 3 } as f64;
        [12.0 * place + noise(t), 20.0 * (place % 2.0) + noise(3.1 * t + 0.5)]
    };
    (0..n).flat_map(row).collect()
}

#[test]
fn the_learner_in_any_pieces_gives_the_model_of_the_command() {
    // One minibatch and less; several and a rest.
    for (n, first) in [(700, 1000), (9100, 2000)] {
        let values = rows(n);
        let csv: String = values.chunks(2).map(|row| format!("{},{}\n", row[0], row[1])).collect();
        let sandbox = Sandbox::with("rows.csv", csv);
        let first_rows = first.to_string();
        let flags =
            ["fit", "rows.csv", "--header", "no", "--out", "m.anabranch", "--seed", "3", "--threads", "2"];
        let run = sandbox.run(&[&flags[..], &["--bootstrap", &first_rows, "--quiet"]].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
        let fitted = model::Model::load(&sandbox.path("m.anabranch")).unwrap();

        let pieces = [0..10, 10..500, 500..n].map(|rows| values[2 * rows.start..2 * rows.end].to_vec());
        for looks in [false, true] {
            let mut learner = Mixture::gaussian().seed(3).threads(1).first_rows(first).learner().unwrap();
            for piece in &pieces {
                learner.learn(&Batch::new(2, piece.clone()).unwrap()).unwrap();
                if looks {
                    learner.model().expect("there are rows");
                }
            }
            let learned = learner.model().expect("there are rows");
            let (one, other) = (fitted.fold.posterior(), learned.posterior());
            assert_eq!(one.mass(), other.mass());
            assert!(one.components().len() >= 3, "too little happens to show anything");
            // Whoever looked keeps the names that were shown.
            let evidence = |posterior: &anabranch::posterior::Posterior<_, _>| {
                let mut all: Vec<(u64, String)> = Vec::new();
                for component in posterior.components() {
                    all.push((component.id().0, format!("{:?}", component.evidence())));
                }
                all
            };
            let (mut one_has, mut other_has) = (evidence(one), evidence(other));
            if looks {
                for all in [&mut one_has, &mut other_has] {
                    all.iter_mut().for_each(|(id, _)| *id = 0);
                    all.sort();
                }
            }
            assert_eq!(one_has, other_has);
            assert_eq!(format!("{:?}", one.family()), format!("{:?}", other.family()));
        }
    }
}

#[test]
fn further_passes_with_or_without_a_first_minibatch_alone_are_those_of_the_command() {
    let n = 3100;
    let values = rows(n);
    let csv: String = values.chunks(2).map(|row| format!("{},{}\n", row[0], row[1])).collect();
    let sandbox = Sandbox::with("rows.csv", csv);
    for first in [0, 1000] {
        let flags = ["fit", "rows.csv", "--header", "no", "--out", "m.anabranch", "--seed", "3", "--quiet"];
        let run = sandbox.run(&[&flags[..], &["--bootstrap", &first.to_string(), "--passes", "2"]].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
        let fitted = model::Model::load(&sandbox.path("m.anabranch")).unwrap();

        let family = |rows: &Batch| Ok(AnyFamily::from(Gaussian::from_rows(rows)?));
        let process = AnyProcess::new(Parameter::Given(5.0), None, Bound::Paper).unwrap();
        let config = Config { seed: 3, threads: 1, bootstrap_rows: first, ..Config::default() };
        let mut course = Course::new(family, process, config, MINIBATCH_ROWS);
        let whole = Batch::new(2, values.clone()).unwrap();
        course.learn(&whole, &mut ()).unwrap();
        course.again(&mut ()).unwrap();
        course.learn(&whole, &mut ()).unwrap();
        let learned = course.ended().unwrap().expect("there are rows").snapshot();
        let evidence = |posterior: &anabranch::posterior::Posterior<AnyFamily, AnyProcess>| {
            let of_each = posterior.components().iter().map(|c| (c.id(), format!("{:?}", c.evidence())));
            of_each.collect::<Vec<_>>()
        };
        assert!(learned.components().len() >= 3 && learned.pass() == 1, "too little happens");
        assert_eq!(evidence(fitted.fold.posterior()), evidence(&learned), "--bootstrap {first}");
    }
}

#[test]
fn a_model_after_one_more_row_costs_one_row() {
    let values = rows(5000);
    let learn = |learner: &mut Learner, rows: std::ops::Range<usize>| {
        learner.learn(&Batch::new(2, values[2 * rows.start..2 * rows.end].to_vec()).unwrap()).unwrap();
        learner.model().expect("there are rows")
    };
    // Before the first minibatch is complete, and after it.
    for (n, first) in [(400, 20_000), (3000, 1000)] {
        let mut learner = Mixture::gaussian().first_rows(first).learner().unwrap();
        let before = learn(&mut learner, 0..n);
        let after = learn(&mut learner, n..n + 1);
        assert_eq!(after.posterior().mass(), (n + 1) as f64);
        let version = before.posterior().version();
        assert_eq!(after.posterior().version(), version + 1, "nothing but the row was learned");
        assert_eq!(learner.model().unwrap().posterior().version(), version + 1);
        // When the rows have grown by a sixteenth, the run is ended again.
        let grown = n + n / 16;
        learn(&mut learner, n + 1..grown);
        let again = learn(&mut learner, grown..grown + 1);
        let anew = learn(&mut Mixture::gaussian().first_rows(first).learner().unwrap(), 0..grown + 1);
        assert_eq!(again.posterior().mass(), anew.posterior().mass());
        assert_eq!(again.ln_density(&values[..2]), anew.ln_density(&values[..2]));
    }
}

/// Three round clusters, and a fourth that comes late.
fn blobs(n: usize) -> Vec<f64> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut values = Vec::with_capacity(2 * n);
    for ix in 0..n {
        let place = if ix > 4 * n / 5 { ix % 4 } else { ix % 3 } as f64;
        for at in [12.0 * place, 20.0 * (place % 2.0)] {
            let noise: f64 = StandardNormal.sample(&mut rng);
            values.push(at + noise);
        }
    }
    values
}

/// Share of the first rows that have the same name in both models.
fn kept(one: &Model, other: &Model, rows: &[f64]) -> f64 {
    let same = rows.chunks(2).filter(|row| one.label(row) == other.label(row)).count();
    same as f64 / (rows.len() / 2) as f64
}

#[test]
fn names_that_were_shown_last() {
    let values = blobs(20_000);
    let mut learner = Mixture::gaussian().first_rows(6000).learner().unwrap();
    let mut shown: Vec<(usize, Model)> = Vec::new();
    let mut at = 0;
    for n in [50, 500, 520, 2000, 5990, 6100, 9000, 20_000] {
        learner.learn(&Batch::new(2, values[2 * at..2 * n].to_vec()).unwrap()).unwrap();
        at = n;
        let now = learner.model().unwrap();
        for (rows, before) in &shown {
            let kept = kept(before, &now, &values[..2 * rows]);
            assert!(kept > 0.99, "{kept} of {rows} rows keep their name at {n} rows");
        }
        shown.push((n, now));
    }
    // The cluster that came late has a name of its own.
    let names = |model: &Model| -> std::collections::BTreeSet<_> {
        values.chunks(2).filter_map(|row| model.label(row)).collect()
    };
    assert_eq!(names(&shown[0].1).len(), 3);
    assert_eq!(names(&shown.last().unwrap().1).len(), 4);
}

#[test]
fn rows_that_cannot_be_learned_from_change_nothing() {
    let mut learner = Mixture::bernoulli().first_rows(20).learner().unwrap();
    let batch = |columns: usize, values: &[f64]| Batch::new(columns, values.to_vec()).unwrap();
    assert!(learner.model().is_none());
    assert!(learner.learn(&batch(2, &[0.0, 3.0])).is_err());
    learner.learn(&batch(2, &[0.0, 1.0, 1.0, 1.0].repeat(15))).unwrap();
    let before = format!("{:?}", learner.model().unwrap());
    let error = learner.learn(&batch(1, &[1.0])).unwrap_err();
    assert_eq!(error.to_string(), "the rows have 1 columns, those before had 2");
    let error = learner.learn(&batch(2, &[1.0, 0.0, 1.0, 7.0])).unwrap_err();
    assert!(matches!(error, LearnError::Domain { row: 1, .. }), "{error}");
    assert_eq!(before, format!("{:?}", learner.model().unwrap()));
    assert!(Mixture::gaussian().alpha(-1.0).learner().is_err());
}

#[test]
fn missing_values_and_a_first_minibatch_that_makes_no_family_lose_no_row() {
    let mut learner = Mixture::gaussian().first_rows(50).learner().unwrap();
    let mut values = rows(200);
    values[7] = f64::NAN;
    learner.learn(&Batch::with_missing(2, values).unwrap()).unwrap();
    assert_eq!(learner.model().unwrap().posterior().mass(), 200.0);
    let weightless = Batch::new(1, vec![1.0; 5]).unwrap().with_weights(vec![0.0; 5]).unwrap();
    let mut learner = Mixture::gaussian().first_rows(20).learner().unwrap();
    assert!(learner.learn(&weightless).is_err());
    learner.learn(&Batch::new(1, rows(15)).unwrap()).unwrap();
    assert_eq!(learner.model().unwrap().posterior().mass(), 30.0);
}
