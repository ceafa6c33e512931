//! A posterior that has seen rows of each of its components.

use anabranch::central::{Absorb, BatchId, Entry, Fold};
use anabranch::family::{Conjugate, Family, Gaussian};
use anabranch::identify::Target;
use anabranch::posterior::Evidence;
use anabranch::process::{Bound, Dirichlet, LabelStatistics};

/// `k` components with `rows_each` rows that `row` draws for each of them.
pub fn fold(
    family: &Gaussian,
    k: usize,
    rows_each: usize,
    mut row: impl FnMut(usize) -> Vec<f64>,
) -> Fold<Gaussian, Dirichlet> {
    let mut features = vec![0.0; family.n_features()];
    let mut evidence = |component| {
        let mut evidence = Evidence::empty(family.n_features());
        for _ in 0..rows_each {
            family.features(&row(component), &mut features);
            evidence.stats.iter_mut().zip(&features).for_each(|(sum, value)| *sum += value);
            evidence.labels += LabelStatistics { log_p_empty: -9.0, expected_count: 1.0, label_entropy: 0.0 };
        }
        evidence
    };
    let new = (0..k).map(|component| (Target::New, evidence(component))).collect();
    let mass = (k * rows_each) as f64;
    let mut fold = Fold::new(family.clone(), Dirichlet::new(5.0, Bound::Paper).expect("positive"));
    let entry =
        Absorb { batch: BatchId(0), base: 0, pass: 0, mass, familiarity: None, existing: vec![], new };
    fold.apply(&Entry::Absorb(entry)).expect("the journal is empty");
    fold
}
