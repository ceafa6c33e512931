//! The library and the command learn the same model from the same rows.

use anabranch::prelude::*;
use anabranch_io::model;

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

        let mut learner = Mixture::gaussian().seed(3).threads(1).first_rows(first).learner().unwrap();
        for piece in [0..10, 10..500, 500..n].map(|rows| values[2 * rows.start..2 * rows.end].to_vec()) {
            learner.learn(&Batch::new(2, piece).unwrap()).unwrap();
            learner.model().expect("there are rows");
        }
        let learned = learner.model().expect("there are rows");
        let (one, other) = (fitted.fold.posterior(), learned.posterior());
        assert_eq!(one.mass(), other.mass());
        assert!(one.components().len() >= 3, "too little happens to show anything");
        assert_eq!(one.components().len(), other.components().len());
        for (a, b) in one.components().iter().zip(other.components()) {
            assert_eq!((a.id(), a.evidence()), (b.id(), b.evidence()));
        }
        assert_eq!(format!("{:?}", one.family()), format!("{:?}", other.family()));
    }
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
