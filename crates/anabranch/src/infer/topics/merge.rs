//! Which topics of a posterior are one: merges that raise the objective (math as for mixtures, over tables).
//!
//! ```text
//! Δ = A(S_j + S_l) + A(0) − A(S_j) − A(S_l)                     the words of one topic
//!   + score(tables of both) − score(j) − score(l) + ΔC          the tables, of which a document with both loses one
//!   + Σ_documents [seating of n_j + n_l − seating of each]      the words at those tables
//!   + ΔH                                                        the entropy of the words' labels, which falls
//! ```

use std::collections::BTreeSet;

use super::ascent::{Ascent, ln_seating};
use super::mixed::{Scratch, View};
use crate::family::Conjugate;
use crate::identify::ComponentId;
use crate::posterior::Evidence;
use crate::process::{Population, Process};

/// Each topic is compared with the ones whose word probabilities have the largest cosine, this many of them …
const NEIGHBOURS: usize = 3;
/// … unless it is smaller than this: what such topics share are common words.
const LEAST_COSINE: f64 = 0.7;

/// What the sample says of one pair.
#[derive(Clone, Copy, Debug, Default)]
struct Together {
    seating: f64,
    entropy: f64,
    /// Tables that documents with both lose.
    tables: f64,
}

/// Merges `(ends, into)` of known topics that raise the objective of `horizon` times the data, the best first; a topic
/// takes part in one. The documents of the ascent stand for `scale` times as many.
pub(super) fn merges(ascent: &Ascent<'_>, scale: f64, horizon: f64) -> Vec<(ComponentId, ComponentId)> {
    let posterior = ascent.posterior;
    let (family, process) = (posterior.family(), posterior.process());
    let evidence: Vec<&Evidence> = ascent
        .columns
        .iter()
        .filter_map(|column| Some(posterior.components()[column.known?].evidence()))
        .collect();
    let pairs = alike(ascent);
    let together = look_at(ascent, &pairs);
    let empty = family.log_partition(&vec![0.0; family.n_features()]);
    let all = posterior.population();
    let value = |e: &Evidence| {
        let e = e.scaled(horizon);
        family.log_partition(&e.stats) + process.score(&e.labels, all)
    };
    let tables: f64 = evidence.iter().map(|e| e.labels.expected_count).sum();
    let normaliser =
        |lost: f64| process.normaliser(Population { observations: horizon * (tables - lost), ..all });
    let mut alone: Vec<Option<f64>> = vec![None; evidence.len()];
    let mut gains: Vec<(f64, usize, usize)> = Vec::new();
    for ((j, l), together) in pairs.iter().zip(&together) {
        let mut joined = evidence[*j].clone();
        joined.absorb(evidence[*l]);
        // A document that has one of the two has a table of both.
        let most = evidence[*j].labels.expected_count.min(evidence[*l].labels.expected_count);
        let lost = (scale * together.tables).min(most);
        joined.labels.expected_count -= lost;
        let of =
            |ix: usize, alone: &mut Vec<Option<f64>>| *alone[ix].get_or_insert_with(|| value(evidence[ix]));
        let apart = of(*j, &mut alone) + of(*l, &mut alone);
        let gain = value(&joined) + empty - apart + normaliser(lost) - normaliser(0.0)
            + horizon * scale * (together.seating + together.entropy);
        if gain > 0.0 {
            gains.push((gain, *j, *l));
        }
    }
    gains.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut taken = vec![false; evidence.len()];
    let mut merged = Vec::new();
    for (_, j, l) in gains {
        if !std::mem::replace(&mut taken[j], true) {
            if std::mem::replace(&mut taken[l], true) {
                taken[j] = false;
                continue;
            }
            let id = |ix: usize| ascent.columns[ix].known.map(|known| posterior.components()[known].id());
            let (large, small) = if evidence[j].stats[0] >= evidence[l].stats[0] { (j, l) } else { (l, j) };
            merged.extend(id(small).zip(id(large)));
        }
    }
    merged
}

/// Pairs of topics with much the same words.
fn alike(ascent: &Ascent<'_>) -> Vec<(usize, usize)> {
    let k = ascent.columns.len();
    let mut squares = vec![0.0; k * k];
    for row in ascent.theta.chunks_exact(k.max(1)) {
        for j in 0..k {
            let theta = row[j];
            let products = &mut squares[j * k..(j + 1) * k];
            products[j..].iter_mut().zip(&row[j..]).for_each(|(sum, other)| *sum += theta * other);
        }
    }
    let cosine = |j: usize, l: usize| squares[j * k + l] / (squares[j * k + j] * squares[l * k + l]).sqrt();
    let mut pairs = BTreeSet::new();
    for j in 0..k {
        let mut others: Vec<(f64, usize)> =
            (0..k).filter(|l| *l != j).map(|l| (cosine(j.min(l), j.max(l)), l)).collect();
        others.retain(|(cosine, _)| *cosine > LEAST_COSINE);
        others.sort_by(|a, b| b.0.total_cmp(&a.0));
        pairs.extend(others.iter().take(NEIGHBOURS).map(|(_, l)| (j.min(*l), j.max(*l))));
    }
    pairs.into_iter().collect()
}

fn look_at(ascent: &Ascent<'_>, pairs: &[(usize, usize)]) -> Vec<Together> {
    let alpha0 = ascent.posterior.process().alpha0();
    let topics = View { theta: &ascent.theta, weights: &ascent.weights };
    let mut together = vec![Together::default(); pairs.len()];
    let mut scratch = Scratch::default();
    for (ix, mixed) in ascent.documents.iter().enumerate() {
        let place = |topic: usize| mixed.topics.binary_search(&(topic as u32)).ok();
        let here: Vec<(usize, usize, usize)> = pairs
            .iter()
            .enumerate()
            .filter_map(|(pair, (j, l))| Some((pair, place(*j)?, place(*l)?)))
            .collect();
        if here.is_empty() {
            continue;
        }
        for (pair, j, l) in &here {
            let (a, b) = (mixed.counts[*j], mixed.counts[*l]);
            let present = |n: f64| -(-n).exp_m1();
            together[*pair].seating += ln_seating(alpha0, present(a + b), a + b)
                - ln_seating(alpha0, present(a), a)
                - ln_seating(alpha0, present(b), b);
            together[*pair].tables += present(a) + present(b) - present(a + b);
        }
        // The labels of one word come one after another, so that a word is over when the last topic was seen.
        let mut shares = vec![0.0; mixed.topics.len()];
        let last = shares.len() - 1;
        let entropy = |z: f64| if z > 0.0 { z * z.ln() } else { 0.0 };
        mixed.labels(
            ascent.corpus.document(ix),
            &topics,
            &mut scratch,
            |place, _, count, zeta| {
                shares[place] = zeta;
                if place == last {
                    for (pair, j, l) in &here {
                        let (a, b) = (shares[*j], shares[*l]);
                        together[*pair].entropy += count * (entropy(a) + entropy(b) - entropy(a + b));
                    }
                }
            },
            |_, _| {},
        );
    }
    together
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seating_is_worth_nothing_in_a_document_without_the_topic() {
        assert_eq!(ln_seating(2.0, 0.0, 0.0), 0.0);
        // Three words surely there: log α₀ + log Γ(3).
        assert!((ln_seating(2.0, 1.0, 3.0) - (2f64.ln() + 2f64.ln())).abs() < 1e-12);
    }
}
