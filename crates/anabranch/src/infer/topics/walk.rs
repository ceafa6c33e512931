//! Topics on the merge path (`infer/path.rs`): how many there are, judged together with their prior by words that they have
//! not learned from.

use super::ascent::{Ascent, Taught};
use super::judges::{Judges, Scores};
use super::pairs;
use crate::identify::ComponentId;
use crate::infer::PriorChoice;
use crate::infer::court::STANDARD_ERRORS;
use crate::infer::path::{Bench, Walker};

/// Sweeps after each step down.
const SWEEPS: usize = 6;
const STEPS: usize = 2;
/// Steps of the words' prior at a time.
const PRIOR_STEPS: usize = 3;

/// What becomes of the documents when topics merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The topics learn from them anew.
    Learning,
    /// The topics have learned from them, and from many others, long ago: they only say who has which, and the prior stays.
    Looking,
}

/// Topics on their way down.
pub(super) struct Walk<'a> {
    pub(super) ascent: Ascent<'a>,
    pub(super) judges: Option<&'a Judges>,
    pub(super) mode: Mode,
    pub(super) choice: PriorChoice,
    /// The documents stand for so many times as many.
    pub(super) scale: f64,
    /// A document forgets a topic with fewer words than this.
    pub(super) least_words: f64,
    /// Merges of known topics so far.
    pub(super) pairs: Vec<(ComponentId, ComponentId)>,
}

/// All that it takes to come back.
pub(super) struct Place {
    taught: Taught,
    pairs: Vec<(ComponentId, ComponentId)>,
}

impl Walk<'_> {
    /// Lets topics, documents and prior agree with each other.
    pub(super) fn settle(&mut self, sweeps: usize) {
        self.ascent.reopen();
        for _ in 0..sweeps {
            match self.mode {
                Mode::Learning => self.ascent.sweep(STEPS, self.least_words),
                Mode::Looking => self.ascent.look(STEPS, self.least_words),
            }
            self.ascent.weigh();
        }
        if self.mode == Mode::Learning {
            if self.choice == PriorChoice::Estimated {
                self.ascent.learn_eta(PRIOR_STEPS);
            }
            self.ascent.learn_concentrations();
        }
    }

    /// Whether other topics of the same documents are worse: for words that neither has learned from, and by the objective where those cannot
    /// tell.
    pub(super) fn is_better_than(&self, other: &Self) -> bool {
        match self.ahead_of(other) {
            Some((mean, error)) if mean.abs() > STANDARD_ERRORS * error => mean > 0.0,
            _ => self.is_more_probable_than(other),
        }
    }

    /// Whether other topics of the same documents predict words that neither has learned from clearly worse; by the objective where there are
    /// none.
    pub(super) fn predicts_better_than(&self, other: &Self) -> bool {
        match self.ahead_of(other) {
            Some((mean, error)) => mean > self.judges.map_or(0.0, Bench::doubt) * error,
            None => self.is_more_probable_than(other),
        }
    }

    /// How much better a document is predicted, and the standard error of that.
    fn ahead_of(&self, other: &Self) -> Option<(f64, f64)> {
        self.judges.map(|judges| {
            let (one, two) = (judges.scores(&self.ascent), judges.scores(&other.ascent));
            judges.difference(&one, &two)
        })
    }

    fn is_more_probable_than(&self, other: &Self) -> bool {
        pairs::objective(&self.ascent, self.scale) > pairs::objective(&other.ascent, other.scale)
    }
}

impl Walker for Walk<'_> {
    type Place = Place;
    type Court = Judges;

    fn n_components(&self) -> usize {
        self.ascent.columns.len()
    }

    fn descend(&mut self, merges: usize) {
        let k = self.ascent.columns.len();
        let (mut into, mut taken): (Vec<usize>, _) = ((0..k).collect(), vec![false; k]);
        let mut left = merges;
        for (_, one, other) in pairs::gains(&self.ascent, self.scale) {
            if left == 0 {
                break;
            }
            if taken[one] || taken[other] {
                continue;
            }
            (taken[one], taken[other]) = (true, true);
            let (large, small) = if self.ascent.tokens(one) >= self.ascent.tokens(other) {
                (one, other)
            } else {
                (other, one)
            };
            into[small] = large;
            self.pairs.extend(self.ascent.id(small).zip(self.ascent.id(large)));
            left -= 1;
        }
        self.ascent.join(&into);
        self.settle(SWEEPS);
    }

    fn place(&self) -> (Place, f64, Scores) {
        let place = Place { taught: self.ascent.taught(), pairs: self.pairs.clone() };
        let scores = self.judges.map(|judges| judges.scores(&self.ascent)).unwrap_or_default();
        (place, pairs::objective(&self.ascent, self.scale), scores)
    }

    fn come_back(&mut self, place: &Place) {
        self.ascent.come_back(&place.taught);
        self.pairs = place.pairs.clone();
    }
}
