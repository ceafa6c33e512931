//! A model file is input: what deserialises is valid, what is not valid does not deserialise.

use anabranch::batch::Batch;
use anabranch::family::{
    AnyFamily, Block, Conjugate, Family, Frame, Gaussian, NormalInverseWishart, Poisson, PriorError, Product,
    Spherical, SphericalPrior,
};

use crate::cases::{self, cases};

#[test]
fn every_family_survives_a_round_trip() {
    for case in cases() {
        let text = serde_json::to_string(&case.family).unwrap();
        assert!(text.starts_with(&format!("{{\"{}\":", case.family.name())), "{text}");
        let back: AnyFamily = serde_json::from_str(&text).unwrap();
        assert_eq!(back, case.family);
        let stats = case.weighted_stats();
        assert_eq!(back.log_partition(&stats), case.family.log_partition(&stats));
    }
}

#[test]
fn invalid_families_do_not_deserialise() {
    let frame = r#""frame": {"shift": [0.0, 0.0], "scale": [1.0, 1.0]}"#;
    let niw = |mean: &str, kappa: &str, psi: &str, dof: &str| {
        let prior = format!(r#"{{"mean": {mean}, "kappa": {kappa}, "psi": {psi}, "dof": {dof}}}"#);
        format!(r#"{{"gaussian": {{{frame}, "prior": {prior}}}}}"#)
    };
    let refused = [
        niw("[0.0]", "1.0", "[1.0, 0.0, 1.0]", "4.0"),
        niw("[0.0, 0.0]", "-1.0", "[1.0, 0.0, 1.0]", "4.0"),
        niw("[0.0, 0.0]", "1e-320", "[1.0, 0.0, 1.0]", "4.0"),
        niw("[0.0, 0.0]", "1.0", "[1.0, 2.0, 1.0]", "4.0"),
        niw("[0.0, 0.0]", "1.0", "[1.0, 0.0]", "4.0"),
        niw("[0.0, 0.0]", "1.0", "[1.0, 0.0, 1.0]", "1.0"),
        niw("[0.0, 1e300]", "1.0", "[1.0, 0.0, 1.0]", "4.0"),
        r#"{"spherical": {"frame": {"shift": [0, 0], "scale": [1, 2]},
            "prior": {"mean": [0, 0], "kappa": 1, "a": 1, "b": 1}}}"#.into(),
        r#"{"diagonal": {"frame": {"shift": [0], "scale": [0]}, "prior": [{"mean": 0, "kappa": 1, "a": 1, "b": 1}]}}"#
            .into(),
        r#"{"diagonal": {"frame": {"shift": [0], "scale": [1]}, "prior": []}}"#.into(),
        r#"{"bernoulli": {"ones": [1.0], "zeros": [0.0]}}"#.into(),
        r#"{"bernoulli": {"ones": [], "zeros": []}}"#.into(),
        r#"{"categorical": {"pseudo_counts": [[1.0], []]}}"#.into(),
        r#"{"poisson": {"shape": [1.0, 1.0], "rate": [1.0]}}"#.into(),
        r#"{"multinomial": {"pseudo_counts": [1.0], "typical_total": 0.5}}"#.into(),
        r#"{"multinomial": {"pseudo_counts": [1.0], "typical_total": 1.0, "surprise": 1}}"#.into(),
        r#"{"product": {"blocks": []}}"#.into(),
        r#"{"product": {"blocks": [{"columns": [7], "family": {"poisson": {"shape": [1], "rate": [1]}}}]}}"#.into(),
        r#"{"product": {"blocks": [{"columns": [0, 1], "family": {"poisson": {"shape": [1], "rate": [1]}}}]}}"#.into(),
    ];
    for text in &refused {
        assert!(serde_json::from_str::<AnyFamily>(text).is_err(), "accepted: {text}");
    }
    let accepted = niw("[0.0, 0.0]", "1.0", "[1.0, 0.5, 1.0]", "4.0");
    assert!(serde_json::from_str::<AnyFamily>(&accepted).is_ok());
}

#[test]
fn errors_name_what_is_wrong() {
    let prior = NormalInverseWishart { dof: 1.0, ..cases::niw(2) };
    let error = Gaussian::new(Frame::identity(2), prior).unwrap_err();
    assert_eq!(error.to_string(), "1 degrees of freedom are too few for 2 columns: more than 1 are needed");
    let prior = NormalInverseWishart { psi: vec![1.0, 3.0, 1.0], ..cases::niw(2) };
    assert_eq!(Gaussian::new(Frame::identity(2), prior), Err(PriorError::NotPositiveDefinite));
    let frame = Frame::new(vec![0.0; 2], vec![1.0, 2.0]).unwrap();
    let prior = SphericalPrior { mean: vec![0.0; 2], kappa: 1.0, a: 1.0, b: 1.0 };
    assert_eq!(Spherical::new(frame, prior), Err(PriorError::NotIsotropic { column: 1 }));
    let rows = Batch::new(2, vec![0.0, 1.0, 2.0, -1.0]).unwrap();
    assert_eq!(
        Poisson::from_rows(&rows).unwrap_err().to_string(),
        "row 1, column 1: -1 is not a whole number of at least 0"
    );
}

#[test]
fn a_product_takes_every_column_once_and_names_the_column_of_the_row() {
    let block =
        |columns: &[usize]| Block { columns: columns.to_vec(), family: cases::poisson(columns.len()).into() };
    assert_eq!(Product::new(vec![block(&[0, 1]), block(&[1])]), Err(PriorError::Partition { column: 1 }));
    let product = Product::new(vec![block(&[2, 0]), block(&[1])]).unwrap();
    assert_eq!(product.check(&[0.0, 1.0, 0.5]).unwrap_err().column, 2);
    assert_eq!(product.check(&[0.0, 1.5, 1.0]).unwrap_err().column, 1);
}
