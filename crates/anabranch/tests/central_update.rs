//! The central update (paper eqs. centralupdate and stupdate), identification and merges against test vectors.

mod support;

use anabranch::central::Entry;
use anabranch::family::{
    AnyFamily, Conjugate, Diagonal, Family, Frame, Gaussian, Multinomial, NormalGamma, NormalInverseWishart,
};
use anabranch::identify::{ComponentId, Identification, Target, correspond, gains};
use anabranch::posterior::Evidence;
use anabranch::process::{Bound, Dirichlet, LabelStatistics, Process};
use serde::Deserialize;
use serde_json::Value;
use support::{absorb, founded};

/// The vectors come from another implementation; numbers are of order one to a hundred.
const VECTOR_TOLERANCE: f64 = 1e-9;

/// Statistics of a natural parameter and the prior's.
type ReadStatistics = fn(&Value, &Value) -> Vec<f64>;

#[derive(Deserialize)]
struct Labels {
    s: Value,
    t: f64,
}

impl Labels {
    fn statistics(&self) -> LabelStatistics {
        // JSON has no infinity: it is written as the string "-inf".
        let log_p_empty = self.s.as_f64().unwrap_or(f64::NEG_INFINITY);
        LabelStatistics { log_p_empty, expected_count: self.t, label_entropy: 0.0 }
    }
}

#[derive(Deserialize)]
struct Identified {
    family: String,
    bound: String,
    alpha: f64,
    eta0: Value,
    eta_i: Vec<Value>,
    eta_m: Vec<Value>,
    stats_i: Vec<Labels>,
    stats_m: Vec<Labels>,
    sigma: Vec<i64>,
    gain: Vec<Vec<f64>>,
    objective: Option<f64>,
    #[serde(rename = "K_after")]
    k_after: usize,
    merged_eta: Vec<Value>,
    merged_stats: Vec<Labels>,
}

/// All numbers of a nested list, in order.
fn flatten(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(items) => items.iter().flat_map(flatten).collect(),
        number => vec![number.as_f64().unwrap()],
    }
}

/// `η − η₀` as the family of the vectors keeps it.
fn excess(eta: &Value, eta0: &Value) -> Vec<f64> {
    flatten(eta).iter().zip(flatten(eta0)).map(|(eta, eta0)| eta - eta0).collect()
}

/// `(κm, κ, Ψ + κmmᵀ, ν)` in two dimensions to `(n, Σx, upper triangle of Σxxᵀ)`.
fn wishart_stats(eta: &Value, eta0: &Value) -> Vec<f64> {
    let e = excess(eta, eta0);
    vec![e[2], e[0], e[1], e[3], e[4], e[6]]
}

/// `(κm, κ, b + ½κm², a)` per column of two to `(n, Σx, Σx²)`.
fn normal_gamma_stats(eta: &Value, eta0: &Value) -> Vec<f64> {
    let e = excess(eta, eta0);
    vec![e[2], e[0], e[1], 2.0 * e[4], 2.0 * e[5]]
}

fn wishart_family(eta0: &Value) -> AnyFamily {
    let e = flatten(eta0);
    // The vectors' prior mean is 0, so the third part is Ψ₀ itself.
    let prior =
        NormalInverseWishart { mean: vec![0.0; 2], kappa: e[2], psi: vec![e[3], e[4], e[6]], dof: e[7] };
    Gaussian::new(Frame::identity(2), prior).unwrap().into()
}

fn normal_gamma_family(eta0: &Value) -> Diagonal {
    let e = flatten(eta0);
    let column = |d: usize| NormalGamma { mean: 0.0, kappa: e[2 + d], a: e[6 + d], b: e[4 + d] };
    Diagonal::new(Frame::identity(2), vec![column(0), column(1)]).unwrap()
}

fn evidence(stats: Vec<f64>, labels: &Labels) -> Evidence {
    Evidence { stats, labels: labels.statistics() }
}

fn assert_close(what: &str, found: f64, expected: f64) {
    let close = found == expected || (found - expected).abs() <= VECTOR_TOLERANCE * expected.abs().max(1.0);
    assert!(close, "{what}: found {found}, expected {expected}");
}

fn assert_evidence(what: &str, found: &Evidence, expected: &Evidence) {
    for (found, expected) in found.stats.iter().zip(&expected.stats) {
        assert_close(what, *found, *expected);
    }
    assert_close(what, found.labels.log_p_empty, expected.labels.log_p_empty);
    assert_close(what, found.labels.expected_count, expected.labels.expected_count);
}

fn check_identified(v: &Identified) {
    let (family, stats): (AnyFamily, ReadStatistics) = match v.family.as_str() {
        "niw" => (wishart_family(&v.eta0), wishart_stats),
        _ => (Multinomial::new(flatten(&v.eta0), 1.0).unwrap().into(), |eta, eta0| {
            // The vectors keep only the counts of words; the number of rows does not matter to a multinomial.
            std::iter::once(0.0).chain(excess(eta, eta0)).collect()
        }),
    };
    let bound = if v.bound == "paper" { Bound::Paper } else { Bound::Conditional };
    let process = Dirichlet::new(v.alpha, bound).unwrap();
    let read = |etas: &[Value], labels: &[Labels]| -> Vec<Evidence> {
        etas.iter().zip(labels).map(|(eta, labels)| evidence(stats(eta, &v.eta0), labels)).collect()
    };
    let (central, new) = (read(&v.eta_i, &v.stats_i), read(&v.eta_m, &v.stats_m));
    let mut fold = founded(family.clone(), process, central.clone());

    let all = fold.posterior().population();
    let score = |e: &Evidence| family.log_partition(&e.stats) + process.score(&e.labels, all);
    let joined = |a: &Evidence, b: &Evidence| {
        let mut sum = a.clone();
        sum.absorb(b);
        score(&sum)
    };
    let empty = family.log_partition(&vec![0.0; family.n_features()]);
    let matrix = gains(&new, &central, score, score, joined, empty);
    for (k, row) in v.gain.iter().enumerate() {
        row.iter().enumerate().for_each(|(j, gain)| assert_close("gain", matrix.get(k, j), *gain));
    }
    let found = correspond(fold.posterior(), 0, 0.0, &new, Identification::Optimal).correspondence;
    let sigma =
        v.sigma.iter().map(|j| u64::try_from(*j).map_or(Target::New, |j| Target::Existing(ComponentId(j))));
    assert_eq!(found.targets(), sigma.collect::<Vec<_>>());
    let n_matched = found.n_matched() as f64;
    let entry = absorb(1, 1, vec![], found.targets().iter().copied().zip(new).collect());
    fold.apply(&Entry::Absorb(entry)).unwrap();

    let merged = read(&v.merged_eta, &v.merged_stats);
    let components = fold.posterior().components();
    assert_eq!((components.len(), merged.len()), (v.k_after, v.k_after));
    for (component, expected) in components.iter().zip(&merged) {
        assert_evidence("merged", component.evidence(), expected);
    }
    if let Some(objective) = v.objective {
        // Ours counts −½D log 2π for each row, which the vectors leave to log h.
        let constant = |e: &Evidence| e.stats[0] * std::f64::consts::TAU.ln();
        let found: f64 = components.iter().map(|c| score(c.evidence()) + constant(c.evidence())).sum();
        // Each matched pair leaves a pair of unused components in the paper's square problem.
        assert_close("objective", found + n_matched * empty, objective);
    }
}

#[test]
fn components_are_identified_and_merged_as_in_the_test_vectors() {
    let vectors: Vec<Identified> = serde_json::from_str(include_str!("data/identification.json")).unwrap();
    assert_eq!(vectors.iter().filter(|v| v.family == "niw").count(), 8);
    assert_eq!(vectors.iter().filter(|v| v.family == "dirichlet").count(), 4);
    vectors.iter().for_each(check_identified);
}

#[derive(Deserialize)]
struct Update {
    alpha: f64,
    #[serde(rename = "Ko")]
    k_known: usize,
    eta0: Value,
    eta_o: Vec<Value>,
    eta_i: Vec<Value>,
    eta_m: Vec<Value>,
    stats_central: Vec<Labels>,
    stats_m: Vec<Labels>,
    sigma: Vec<usize>,
    eta_updated: Vec<Value>,
    stats_updated: Vec<Labels>,
}

#[test]
fn increments_update_the_centre_as_in_the_test_vectors() {
    let vectors: Vec<Update> = serde_json::from_str(include_str!("data/central_update.json")).unwrap();
    assert_eq!(vectors.len(), 3);
    for v in vectors {
        let process = Dirichlet::new(v.alpha, Bound::Paper).unwrap();
        let central = v.eta_i.iter().zip(&v.stats_central);
        let central = central.map(|(eta, l)| evidence(normal_gamma_stats(eta, &v.eta0), l)).collect();
        let mut fold = founded(normal_gamma_family(&v.eta0), process, central);
        let (mut existing, mut new) = (Vec::new(), Vec::new());
        for (k, (eta, labels)) in v.eta_m.iter().zip(&v.stats_m).enumerate() {
            // A shared component subtracts what the worker started from, a new one the prior.
            let before = if k < v.k_known { &v.eta_o[k] } else { &v.eta0 };
            let learned = evidence(normal_gamma_stats(eta, before), labels);
            match (k < v.k_known, v.sigma[k] < v.eta_i.len()) {
                (true, _) => existing.push((v.sigma[k] as u64, learned)),
                (false, true) => new.push((Target::Existing(ComponentId(v.sigma[k] as u64)), learned)),
                (false, false) => new.push((Target::New, learned)),
            }
        }
        fold.apply(&Entry::Absorb(absorb(1, 1, existing, new))).unwrap();
        let components = fold.posterior().components();
        assert_eq!(components.len(), v.eta_updated.len());
        for (component, (eta, labels)) in components.iter().zip(v.eta_updated.iter().zip(&v.stats_updated)) {
            let expected = evidence(normal_gamma_stats(eta, &v.eta0), labels);
            assert_evidence("updated", component.evidence(), &expected);
        }
    }
}

#[derive(Deserialize)]
struct Merge {
    #[serde(rename = "X")]
    rows: Vec<Vec<f64>>,
    pi: Vec<Vec<f64>>,
    alpha: f64,
    eta0: Value,
    j: u64,
    l: u64,
    lik_gain: f64,
    reg_gain_paper_additive: f64,
}

#[test]
fn retiring_a_component_changes_the_objective_as_in_the_test_vectors() {
    let vectors: Vec<Merge> = serde_json::from_str(include_str!("data/merge.json")).unwrap();
    assert_eq!(vectors.len(), 12);
    for v in vectors {
        let family = normal_gamma_family(&v.eta0);
        let mut components = vec![Evidence::empty(family.n_features()); v.pi[0].len()];
        for (x, pi) in v.rows.iter().zip(&v.pi) {
            let mut features = vec![0.0; family.n_features()];
            family.features(x, &mut features);
            for (component, p) in components.iter_mut().zip(pi) {
                component.stats.iter_mut().zip(&features).for_each(|(sum, value)| *sum += p * value);
                component.labels.observe(*p, 1.0);
            }
        }
        let mut fold = founded(family, Dirichlet::new(v.alpha, Bound::Paper).unwrap(), components);
        let before = fold.posterior().objective();
        fold.apply(&Entry::Retire { id: ComponentId(v.l), into: ComponentId(v.j) }).unwrap();
        // The additive entropy of the two is kept, so only likelihood and regulariser change.
        assert_close("merge", fold.posterior().objective() - before, v.lik_gain + v.reg_gain_paper_additive);
    }
}
