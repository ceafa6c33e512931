//! What a model says of one row: its component, the probabilities of all, and its density.

use super::predict::Predictor;
use crate::identify::ComponentId;
use crate::math::log_sum_exp::log_sum_exp;

/// The answer for one row, made of the components that matter to it.
pub struct Answer<'a> {
    predictor: &'a Predictor,
    /// Components by their place, and one after the last for a new one …
    members: &'a [u32],
    /// … with `log weight + log density` of each.
    scores: &'a [f64],
}

impl<'a> Answer<'a> {
    pub(super) fn new(predictor: &'a Predictor, members: &'a [u32], scores: &'a [f64]) -> Self {
        Self { predictor, members, scores }
    }

    /// Components that exist, with their scores.
    fn known(&self) -> impl Iterator<Item = (usize, f64)> {
        let k = self.predictor.ids().len();
        let pairs = self.members.iter().zip(self.scores).map(|(ix, score)| (*ix as usize, *score));
        pairs.filter(move |(ix, _)| *ix < k)
    }

    /// The place of the most probable component among [`Predictor::ids`]; of equal ones the first.
    pub fn place(&self) -> Option<usize> {
        let mut best: Option<(usize, f64)> = None;
        for (ix, score) in self.known() {
            if best.is_none_or(|(first, highest)| score > highest || (score == highest && ix < first)) {
                best = Some((ix, score));
            }
        }
        best.map(|(ix, _)| ix)
    }

    /// The most probable component; `None` when the model has none yet.
    pub fn label(&self) -> Option<ComponentId> {
        self.place().map(|ix| self.predictor.ids()[ix])
    }

    /// Log predictive density, where it was asked for.
    pub fn ln_density(&self) -> f64 {
        log_sum_exp(self.scores)
    }

    /// The highest score of a component that exists: far out, scores are large numbers, and their differences keep more digits than
    /// their logarithms.
    fn highest(&self) -> f64 {
        self.known().map(|(_, score)| score).fold(f64::NEG_INFINITY, f64::max)
    }

    /// Where every density underflows to −∞, the weights are left.
    fn weights(&self) -> impl Iterator<Item = f64> {
        let weights = self.predictor.ln_weights();
        let total = log_sum_exp(weights);
        weights.iter().map(move |w| (w - total).exp())
    }

    /// Writes the probability of each component, in the order of [`Predictor::ids`]; they sum to 1.
    pub fn probabilities(&self, out: &mut [f64]) {
        let highest = self.highest();
        if highest == f64::NEG_INFINITY {
            out.iter_mut().zip(self.weights()).for_each(|(out, weight)| *out = weight);
            return;
        }
        out.fill(0.0);
        let mut sum = 0.0;
        for (ix, score) in self.known() {
            out[ix] = (score - highest).exp();
            sum += out[ix];
        }
        self.known().for_each(|(ix, _)| out[ix] /= sum);
    }

    /// The most probable components, the most probable first, as places among [`Predictor::ids`] with their
    /// probabilities: at most `count`, and none that has none.
    pub fn top(&self, count: usize, out: &mut Vec<(usize, f64)>) {
        out.clear();
        let highest = self.highest();
        if highest == f64::NEG_INFINITY {
            self.weights().enumerate().for_each(|weight| keep_largest(weight, count, out));
        } else {
            let mut sum = 0.0;
            for (ix, score) in self.known() {
                let share = (score - highest).exp();
                sum += share;
                keep_largest((ix, share), count, out);
            }
            out.iter_mut().for_each(|(_, share)| *share /= sum);
        }
        out.retain(|(_, probability)| *probability > 0.0);
    }
}

/// Puts a component in its place among the most probable ones, of which `count` are kept; of equal ones the first goes before.
fn keep_largest(new: (usize, f64), count: usize, out: &mut Vec<(usize, f64)>) {
    let before = |other: &(usize, f64)| other.1 > new.1 || (other.1 == new.1 && other.0 < new.0);
    if out.len() < count {
        out.push(new);
    } else if let Some(last) = out.last_mut().filter(|last| !before(last)) {
        *last = new;
    } else {
        return;
    }
    let mut at = out.len() - 1;
    while at > 0 && !before(&out[at - 1]) {
        out.swap(at, at - 1);
        at -= 1;
    }
}
