//! The families against vectors computed in another language (`tests/data/expfam.json`, an extract of `vectors.json`).

use anabranch::family::{
    Bernoulli, Diagonal, Family, Frame, Gaussian, Multinomial, NormalGamma, NormalInverseWishart, Poisson,
};
use serde_json::Value;

use crate::cases::features_of;

/// The vectors carry every digit of a double; this leaves room for another order of summation.
const AGREEMENT: f64 = 1e-9;

fn vectors(family: &str) -> Vec<Value> {
    let all: Vec<Value> = serde_json::from_str(include_str!("../data/expfam.json")).unwrap();
    let found: Vec<_> = all.into_iter().filter(|entry| entry["family"] == family).collect();
    assert_eq!(found.len(), 5, "{family}");
    found
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn list(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(number).collect()
}

fn packed(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().enumerate().flat_map(|(i, row)| list(row).split_off(i)).collect()
}

fn assert_agree(what: &str, found: f64, expected: f64) {
    let error = (found - expected).abs() / (1.0 + expected.abs());
    assert!(error < AGREEMENT, "{what}: {found}, expected {expected}");
}

/// Checks `A`, the predictive and `E log p(x|θ)` of a family whose prior holds the vector's parameters.
fn check(what: &str, family: &impl Family, entry: &Value) -> Vec<f64> {
    let stats = vec![0.0; family.n_features()];
    let mut phi = vec![0.0; family.n_features()];
    assert_agree(what, family.expected_natural(&stats, &mut phi), number(&entry["A"]));
    assert_agree(what, family.log_partition(&stats), number(&entry["A"]));
    let x = list(&entry["x"]);
    let density = family.predictive(&stats).ln_density(&x);
    let key = if entry.get("log_pred").is_some() { "log_pred" } else { "log_pred_multinomial" };
    assert_agree(what, density, number(&entry[key]));
    if let Some(expected) = entry.get("E_loglik") {
        let features = features_of(family, &x);
        let found = phi.iter().zip(&features).map(|(p, f)| p * f).sum::<f64>() + family.ln_base(&x);
        assert_agree(what, found, number(expected));
    }
    phi
}

fn assert_all_agree(what: &str, found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    found.iter().zip(expected).for_each(|(found, expected)| assert_agree(what, *found, *expected));
}

#[test]
fn niw_vectors_agree() {
    for entry in vectors("niw") {
        let mean = list(&entry["m"]);
        let d = mean.len();
        let prior = NormalInverseWishart {
            mean,
            kappa: number(&entry["kappa"]),
            psi: packed(&entry["Psi"]),
            dof: number(&entry["nu"]),
        };
        let phi = check("niw", &Gaussian::new(Frame::identity(d), prior).unwrap(), &entry);
        assert_all_agree("niw E[Σ⁻¹μ]", &phi[1..=d], &list(&entry["ET"][0]));
    }
}

#[test]
fn normal_gamma_vectors_agree() {
    for entry in vectors("normal_gamma") {
        let (m, kappa, a, b) =
            (list(&entry["m"]), list(&entry["kappa"]), list(&entry["a"]), list(&entry["b"]));
        let d = m.len();
        let prior = (0..d).map(|d| NormalGamma { mean: m[d], kappa: kappa[d], a: a[d], b: b[d] }).collect();
        let phi = check("normal-gamma", &Diagonal::new(Frame::identity(d), prior).unwrap(), &entry);
        assert_all_agree("normal-gamma E[λμ]", &phi[1..=d], &list(&entry["ET"][0]));
        let halved: Vec<f64> = list(&entry["ET"][2]).iter().map(|v| 0.5 * v).collect();
        assert_all_agree("normal-gamma E[−λ/2]", &phi[d + 1..], &halved);
    }
}

#[test]
fn dirichlet_vectors_agree() {
    for entry in vectors("dirichlet") {
        let family = Multinomial::new(list(&entry["lam"]), 6.0).unwrap();
        let phi = check("dirichlet", &family, &entry);
        assert_all_agree("E log θ", &phi[1..], &list(&entry["ET"]));
        let x = list(&entry["x"]);
        let sequence = family.predictive(&vec![0.0; phi.len()]).ln_density(&x) - family.ln_base(&x);
        assert_agree("a sequence of tokens", sequence, number(&entry["log_pred_sequence"]));
    }
}

#[test]
fn beta_bernoulli_vectors_agree() {
    for entry in vectors("beta_bernoulli") {
        let family = Bernoulli::new(list(&entry["a"]), list(&entry["b"])).unwrap();
        let phi = check("beta-bernoulli", &family, &entry);
        let (of_one, of_zero) = (list(&entry["ET"][0]), list(&entry["ET"][1]));
        let log_odds: Vec<f64> = of_one.iter().zip(&of_zero).map(|(one, zero)| one - zero).collect();
        assert_all_agree("E log odds", &phi[1..], &log_odds);
        assert_agree("E log(1 − p)", phi[0], of_zero.iter().sum());
    }
}

#[test]
fn gamma_poisson_vectors_agree() {
    for entry in vectors("gamma_poisson") {
        let family = Poisson::new(list(&entry["a"]), list(&entry["b"])).unwrap();
        let phi = check("gamma-poisson", &family, &entry);
        assert_all_agree("E log λ", &phi[1..], &list(&entry["ET"][0]));
        assert_agree("−E λ", phi[0], list(&entry["ET"][1]).iter().sum());
    }
}
