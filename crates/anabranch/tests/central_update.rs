//! The central update (paper eqs. centralupdate and stupdate) against test vectors, and the rules of the journal: merges
//! redirect, void entries change nothing, entries about existing components commute.

mod support;

use anabranch::central::{Absorb, BatchId, Entry, Fold, Void};
use anabranch::family::{
    AnyFamily, Bernoulli, Diagonal, Family, Frame, Gaussian, Multinomial, NormalGamma, NormalInverseWishart,
};
use anabranch::identify::{ComponentId, Identification, Target, correspond, gains};
use anabranch::posterior::{Evidence, Posterior};
use anabranch::process::{Bound, Dirichlet, LabelStatistics, Process};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::Value;
use support::{assert_snapshot_invariants, certain, fingerprint, process};

/// The vectors come from another implementation; numbers are of order one to a hundred.
const VECTOR_TOLERANCE: f64 = 1e-9;

type Journal<F> = Fold<F, Dirichlet>;
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

fn absorb(batch: u64, base: u64, existing: Vec<(u64, Evidence)>, new: Vec<(Target, Evidence)>) -> Absorb {
    let counts = existing.iter().map(|(_, e)| e).chain(new.iter().map(|(_, e)| e));
    let mass = counts.map(|e| e.labels.expected_count).sum();
    let existing = existing.into_iter().map(|(id, e)| (ComponentId(id), e)).collect();
    Absorb { batch: BatchId(batch), base, mass, existing, new }
}

/// A journal whose first entry creates these components.
fn founded<F: Family>(family: F, process: Dirichlet, components: Vec<Evidence>) -> Journal<F> {
    let mut fold = Fold::new(family, process);
    let new = components.into_iter().map(|e| (Target::New, e)).collect();
    fold.apply(&Entry::Absorb(absorb(0, 0, vec![], new))).unwrap();
    fold
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

    let score = |e: &Evidence| family.log_partition(&e.stats) + process.score(&e.labels);
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
    let found = correspond(fold.posterior(), 0, &new, Identification::Optimal).correspondence;
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

/// Three components of coins with 4, 8 and 16 rows: whole numbers, so that sums are exact in any order.
fn coins() -> Journal<Bernoulli> {
    let family = Bernoulli::new(vec![0.5], vec![0.5]).unwrap();
    founded(family, process(), vec![certain(4.0, &[1.0]), certain(8.0, &[8.0]), certain(16.0, &[0.0])])
}

fn count<F: Family>(posterior: &Posterior<F, Dirichlet>, id: u64) -> f64 {
    let position = posterior.position(posterior.resolve(ComponentId(id))).unwrap();
    posterior.components()[position].expected_count()
}

fn retire<F, P>(id: u64, into: u64) -> Entry<F, P> {
    Entry::Retire { id: ComponentId(id), into: ComponentId(into) }
}

#[test]
fn a_merge_adds_the_evidence_and_redirects_the_id() {
    let mut fold = coins();
    fold.apply(&retire(1, 0)).unwrap();
    let posterior = fold.posterior();
    assert_eq!(posterior.components()[0].evidence(), &certain(12.0, &[9.0]));
    assert_eq!(posterior.resolve(ComponentId(1)), ComponentId(0));
    assert_eq!((posterior.mass(), posterior.version()), (28.0, 2));
    assert_snapshot_invariants(posterior);
}

#[test]
fn an_increment_computed_before_merges_lands_in_the_survivor() {
    let mut fold = coins();
    let base = fold.posterior().version();
    fold.apply(&retire(1, 2)).unwrap();
    fold.apply(&retire(2, 0)).unwrap();
    let existing = (0..3).map(|id| (id, certain(2.0, &[1.0]))).collect();
    let opened =
        vec![(Target::Existing(ComponentId(1)), certain(32.0, &[0.0])), (Target::New, certain(1.0, &[1.0]))];
    fold.apply(&Entry::Absorb(absorb(7, base, existing, opened))).unwrap();
    assert_eq!(count(fold.posterior(), 0), 4.0 + 8.0 + 16.0 + 3.0 * 2.0 + 32.0);
    assert_eq!(count(fold.posterior(), 3), 1.0);
    assert_snapshot_invariants(fold.posterior());
}

#[test]
fn a_new_prior_keeps_the_evidence_and_forgets_what_was_derived_from_the_old_one() {
    let mut fold = coins();
    let before = fold.posterior().clone();
    assert_snapshot_invariants(&before);
    let (family, process) = (Bernoulli::new(vec![30.0], vec![2.0]).unwrap(), process());
    fold.apply(&Entry::Prior { family, process }).unwrap();
    for (now, then) in fold.posterior().components().iter().zip(before.components()) {
        assert_eq!(now.evidence(), then.evidence());
        let fresh = now.expectation(fold.posterior().family()).log_partition;
        assert_ne!(fresh, then.expectation(before.family()).log_partition);
    }
    assert_snapshot_invariants(fold.posterior());
    assert_snapshot_invariants(&before);
}

#[test]
fn void_entries_change_nothing_at_all() {
    let mut fold = coins();
    fold.apply(&retire(0, 1)).unwrap();
    let one = || certain(1.0, &[1.0]);
    let wide = certain(1.0, &[1.0, 1.0]);
    let new = |e: Evidence| vec![(Target::New, e)];
    let named = |id: u64| vec![(Target::Existing(ComponentId(id)), one())];
    let entry = |a: Absorb| Entry::Absorb(a);
    let unknown = Void::UnknownComponent(ComponentId(9));
    let features = Void::Features { expected: 2, found: 3 };
    let cases: Vec<(Entry<Bernoulli, Dirichlet>, Void)> = vec![
        (entry(absorb(0, 2, vec![(1, one())], vec![])), Void::AlreadyAbsorbed(BatchId(0))),
        (entry(absorb(5, 0, vec![(1, one())], new(one()))), Void::Superseded { created: 1, base: 0 }),
        (entry(absorb(5, 0, vec![], named(2))), Void::Superseded { created: 1, base: 0 }),
        // The good part comes first: a void entry must not be applied up to its bad part.
        (entry(absorb(5, 2, vec![(1, one()), (9, one())], new(one()))), unknown.clone()),
        (entry(absorb(5, 2, vec![(1, one())], named(9))), unknown.clone()),
        (entry(absorb(5, 2, vec![(1, one()), (2, wide.clone())], vec![])), features.clone()),
        (entry(absorb(5, 2, vec![(1, one())], new(wide))), features),
        (retire(9, 1), unknown.clone()),
        (retire(1, 9), unknown),
        (retire(2, 2), Void::IntoItself(ComponentId(2))),
        (retire(0, 1), Void::IntoItself(ComponentId(0))),
    ];
    let (before, batches, next) = (fingerprint(fold.posterior()), fold.absorbed().clone(), fold.next_id());
    for (entry, why) in cases {
        assert_eq!(fold.apply(&entry), Err(why), "{entry:?}");
        assert_eq!(fingerprint(fold.posterior()), before, "{entry:?}");
        assert_eq!((fold.absorbed(), fold.next_id()), (&batches, next), "{entry:?}");
    }
}

#[test]
fn an_entry_without_new_components_is_valid_whatever_happened_since() {
    let mut fold = coins();
    fold.apply(&Entry::Absorb(absorb(1, 1, vec![], vec![(Target::New, certain(2.0, &[2.0]))]))).unwrap();
    fold.apply(&Entry::Absorb(absorb(2, 0, vec![(0, certain(1.0, &[0.0]))], vec![]))).unwrap();
    assert_eq!(count(fold.posterior(), 0), 5.0);
}

proptest! {
    #[test]
    fn entries_that_touch_only_existing_components_commute(
        touched in proptest::collection::vec((0u64..3, 1u32..50, 0u32..50), 1..12),
        order in Just((0..12usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let entries: Vec<Entry<Bernoulli, Dirichlet>> = touched.iter().enumerate().map(|(ix, (id, n, ones))| {
            let evidence = certain(f64::from(*n), &[f64::from(*ones.min(n))]);
            Entry::Absorb(absorb(100 + ix as u64, 0, vec![(*id, evidence)], vec![]))
        }).collect();
        let (mut in_order, mut shuffled) = (coins(), coins());
        entries.iter().for_each(|entry| in_order.apply(entry).unwrap());
        for ix in order.into_iter().filter(|ix| *ix < entries.len()) {
            shuffled.apply(&entries[ix]).unwrap();
        }
        prop_assert_eq!(fingerprint(in_order.posterior()), fingerprint(shuffled.posterior()));
        prop_assert_eq!(in_order.absorbed(), shuffled.absorbed());
    }
}
