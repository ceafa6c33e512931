//! The prior that suits topics and documents: fixed points for the parameters of Dirichlet–multinomial counts.
//!
//! ```text
//! words       η  ← η  Σ_kw [ψ(η + S_kw) − ψ(η)] / (V Σ_k [ψ(Vη + S_k) − ψ(Vη)])
//! documents   α₀ ← α₀ Σ_jk β_k P_jk [ψ(α₀β_k + n_jk / P_jk) − ψ(α₀β_k)] / (Σ_j [ψ(α₀ + N_j) − ψ(α₀)] + rate)
//! ```
//!
//! `P_jk` is the probability that the document has any word of the topic: what it has a tenth of a word of is most probably not
//! there at all.
//!
//! Each step raises the likelihood of the counts (of the documents with a weak exponential prior of `α₀`: one topic alone says
//! nothing of it).

use super::mixed::present;
use crate::math::special::digamma;

/// Rate of the prior of `α₀`, as that of the other concentrations.
const RATE: f64 = 0.2;
/// Where the two are sought.
const ETAS: (f64, f64) = (1e-3, 100.0);
const ALPHA0S: (f64, f64) = (0.01, 1000.0);
/// Steps to the fixed point at most.
const MOST_STEPS: usize = 2000;
/// Counts below this are nothing.
const NOTHING: f64 = 1e-9;

/// `η` after some steps from where it is: `counts` are the words of all topics, `totals` of each.
pub(super) fn eta(
    n_words: usize,
    mut eta: f64,
    counts: impl Iterator<Item = f64> + Clone,
    totals: impl Iterator<Item = f64> + Clone,
    steps: usize,
) -> f64 {
    let v = n_words as f64;
    for _ in 0..steps {
        let (absent, empty) = (digamma(eta), digamma(v * eta));
        let counted = counts.clone().filter(|s| *s > NOTHING);
        let up: f64 = counted.map(|s| digamma(eta + s) - absent).sum();
        let down: f64 = totals.clone().map(|s| digamma(v * eta + s) - empty).sum();
        if up > 0.0 && down > 0.0 {
            eta = (eta * up / (v * down)).clamp(ETAS.0, ETAS.1);
        }
    }
    eta
}

/// `α₀` after as many steps from where it is as it takes to settle: `counts` are `(β_k, n_jk)` of all documents, `lengths` their words.
pub(super) fn alpha0(
    mut alpha0: f64,
    counts: impl Iterator<Item = (f64, f64)> + Clone,
    lengths: impl Iterator<Item = f64> + Clone,
    settled: f64,
) -> f64 {
    for _ in 0..MOST_STEPS {
        let before = alpha0;
        let empty = digamma(alpha0);
        let counted = counts.clone().filter(|(beta, _)| *beta > NOTHING);
        let up: f64 = counted
            .map(|(beta, n)| {
                let present = present(n).max(NOTHING);
                beta * present * (digamma(alpha0 * beta + n / present) - digamma(alpha0 * beta))
            })
            .sum();
        let down: f64 = lengths.clone().map(|n| digamma(alpha0 + n) - empty).sum();
        if up > 0.0 {
            alpha0 = (alpha0 * up / (down + RATE)).clamp(ALPHA0S.0, ALPHA0S.1);
        }
        if (alpha0 / before - 1.0).abs() <= settled {
            break;
        }
    }
    alpha0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::special::ln_gamma;

    /// The place of the largest value on a fine grid of logarithms.
    fn highest(function: impl Fn(f64) -> f64) -> f64 {
        let grid = (0..4000).map(|ix| (-6.0 + 9.0 * f64::from(ix) / 4000.0_f64).exp());
        grid.max_by(|a, b| function(*a).total_cmp(&function(*b))).unwrap()
    }

    #[test]
    fn the_fixed_point_of_the_words_is_where_they_are_most_probable() {
        let topics = [[30.0, 3.0, 0.0, 1.0], [0.0, 12.0, 5.0, 0.0], [2.0, 0.5, 40.0, 7.0]];
        let likelihood = |eta: f64| -> f64 {
            let of = |words: &[f64; 4]| {
                let total: f64 = words.iter().sum();
                words.iter().map(|s| ln_gamma(eta + s) - ln_gamma(eta)).sum::<f64>() + ln_gamma(4.0 * eta)
                    - ln_gamma(4.0 * eta + total)
            };
            topics.iter().map(of).sum()
        };
        let totals = topics.iter().map(|words| words.iter().sum());
        let found = eta(4, 0.05, topics.iter().flatten().copied(), totals, 2000);
        let best = highest(likelihood);
        assert!((found / best - 1.0).abs() < 0.01, "{found} {best}");
    }

    #[test]
    fn the_fixed_point_of_the_documents_is_where_they_are_most_probable() {
        let beta = [0.5, 0.3, 0.15];
        let documents = [[20.0, 1.0, 0.0], [3.0, 9.0, 2.0], [0.0, 0.0, 14.0], [8.0, 8.0, 0.0]];
        let likelihood = |alpha0: f64| -> f64 {
            let of = |counts: &[f64; 3]| {
                let total: f64 = counts.iter().sum();
                let each = counts.iter().zip(beta);
                let there = |n: f64| 1.0 - (-n).exp();
                each.filter(|(n, _)| **n > 0.0)
                    .map(|(n, b)| there(*n) * (ln_gamma(alpha0 * b + n / there(*n)) - ln_gamma(alpha0 * b)))
                    .sum::<f64>()
                    + ln_gamma(alpha0)
                    - ln_gamma(alpha0 + total)
            };
            documents.iter().map(of).sum::<f64>() - RATE * alpha0
        };
        let counts = documents.iter().flat_map(|counts| beta.into_iter().zip(counts.iter().copied()));
        let found = alpha0(1.0, counts, documents.iter().map(|counts| counts.iter().sum()), 0.0);
        let best = highest(likelihood);
        assert!((found / best - 1.0).abs() < 0.01, "{found} {best}");
    }
}
