//! How probable rows usually are: a histogram of the log densities of rows, each before it was learned.
//!
//! ```text
//! place of a density    ⌊256 asinh(log p / 4)⌋,     a nat is 64 places near 0 and 256/|log p| far out
//! tail of a density     (1 + weight of the rows at or below it) / (1 + weight of all)
//! ```
//!
//! Histograms add up, in any order. A density under a model that knows little says little about one that knows more, so that rows
//! count by the doubling of the data that they came in: those of the last one, and of the one before as far as the last has
//! fewer.
//!
//! ```text
//! weight of an older row    max(0, 1 − n/o),     n and o rows of the last doubling and of the one before
//! ```

use std::ops::AddAssign;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

/// Log densities up to which places are even.
const EVEN: f64 = 4.0;

/// Places of a factor `e` far out.
const PLACES: f64 = 256.0;

/// Log densities beyond this size are taken for this one: there are no more than some ten thousand places.
const LARGEST: f64 = 1e9;

/// The last place on either side.
const LAST: i32 = 5200;

/// Log densities of some rows: places, ascending, and the weight of the rows at each.
pub type Densities = Vec<(i32, f32)>;

/// What a minibatch says of its rows before they are learned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Told {
    /// Median log density under the snapshot that it was learned from, up to the base measure.
    pub median: f64,
    /// Their log densities.
    #[serde(skip)]
    pub densities: Densities,
}

impl Told {
    /// A median and no more.
    pub fn of_median(median: f64) -> Self {
        Self { median, densities: Vec::new() }
    }

    /// False for numbers that no minibatch tells.
    pub(crate) fn is_possible(&self) -> bool {
        self.median.is_finite() && are_possible(&self.densities)
    }
}

/// Ascending places with weights that are positive numbers.
fn are_possible(densities: &[(i32, f32)]) -> bool {
    densities.windows(2).all(|pair| pair[0].0 < pair[1].0)
        && densities.iter().all(|(place, weight)| place.abs() <= LAST && *weight >= 0.0 && weight.is_finite())
}

/// The place of a log density.
pub(crate) fn place(ln_density: f64) -> i32 {
    // What is not a number is as low as can be.
    let bounded = if ln_density >= -LARGEST { ln_density.min(LARGEST) } else { -LARGEST };
    (PLACES * (bounded / EVEN).asinh()).floor() as i32
}

/// Where a place begins.
fn edge(place: i32) -> f64 {
    EVEN * (f64::from(place) / PLACES).sinh()
}

/// Puts densities of rows with their weights together.
pub(crate) fn densities<W: Copy + AddAssign>(rows: &mut [(i32, W)]) -> Vec<(i32, W)> {
    rows.sort_unstable_by_key(|(place, _)| *place);
    let mut all: Vec<(i32, W)> = Vec::with_capacity(rows.len());
    for (place, weight) in rows.iter() {
        match all.last_mut() {
            Some((last, sum)) if last == place => *sum += *weight,
            _ => all.push((*place, *weight)),
        }
    }
    all
}

/// Rows of two doublings of the data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Doublings {
    /// Binary logarithm of the data before the rows of `newer`.
    doubling: u32,
    older: Vec<(i32, f64)>,
    newer: Vec<(i32, f64)>,
}

/// How probable rows usually are. Cheap to clone.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Doublings", into = "Doublings")]
pub struct Tail {
    doublings: Arc<Doublings>,
    /// Made when it is first asked for.
    table: Arc<OnceLock<Table>>,
}

/// Both doublings together: places, ascending, with the weight at each and the weight before it.
#[derive(Debug)]
struct Table {
    places: Vec<(i32, f64, f64)>,
    total: f64,
}

impl PartialEq for Tail {
    fn eq(&self, other: &Self) -> bool {
        self.doublings == other.doublings
    }
}

impl From<Doublings> for Tail {
    fn from(doublings: Doublings) -> Self {
        Self { doublings: Arc::new(doublings), table: Arc::default() }
    }
}

impl From<Tail> for Doublings {
    fn from(tail: Tail) -> Self {
        Arc::unwrap_or_clone(tail.doublings)
    }
}

impl Tail {
    /// True when no row has told.
    pub fn is_empty(&self) -> bool {
        self.doublings.older.is_empty() && self.doublings.newer.is_empty()
    }

    /// Weight of the rows that count.
    pub fn mass(&self) -> f64 {
        let Doublings { older, newer, .. } = &*self.doublings;
        self.weight_of_older() * weight(older) + weight(newer)
    }

    fn weight_of_older(&self) -> f64 {
        let older = weight(&self.doublings.older);
        if older > 0.0 { (1.0 - weight(&self.doublings.newer) / older).max(0.0) } else { 0.0 }
    }

    fn table(&self) -> &Table {
        self.table.get_or_init(|| {
            let mut total = 0.0;
            let with_sum = |(place, weight): (i32, f64)| {
                total += weight;
                (place, weight, total - weight)
            };
            let share = self.weight_of_older();
            let older: Vec<_> = self.doublings.older.iter().map(|(place, w)| (*place, share * w)).collect();
            let both = sum(&older, self.doublings.newer.iter().copied());
            let places = both.into_iter().map(with_sum).collect();
            Table { places, total }
        })
    }

    /// The tail of a row that is less likely than every ordinary one: no smaller share can be told.
    pub fn smallest_share(&self) -> f64 {
        1.0 / (1.0 + self.table().total)
    }

    /// The share of ordinary rows that are as unlikely or more.
    ///
    /// ```
    /// use anabranch::posterior::Tail;
    /// assert_eq!(Tail::default().share_below(-3.0), 1.0, "nothing is known to be unusual");
    /// ```
    pub fn share_below(&self, ln_density: f64) -> f64 {
        let at = place(ln_density);
        let Table { places, total } = self.table();
        let next = places.partition_point(|(place, ..)| *place < at);
        let below = match places.get(next) {
            Some((place, weight, before)) if *place == at => {
                let (from, to) = (edge(*place), edge(place + 1));
                before + weight * ((ln_density - from) / (to - from)).clamp(0.0, 1.0)
            }
            Some((_, _, before)) => *before,
            None => *total,
        };
        (1.0 + below) / (1.0 + total)
    }

    /// The lowest log density whose tail is at least this share.
    pub fn quantile(&self, share: f64) -> f64 {
        let (mut low, mut high) = (-LARGEST, LARGEST);
        for _ in 0..100 {
            let middle = 0.5 * (low + high);
            (low, high) = if self.share_below(middle) < share { (middle, high) } else { (low, middle) };
        }
        high
    }

    /// After rows with these densities, which came when the data had doubled so often.
    pub(crate) fn add(&mut self, densities: &[(i32, f32)], doubling: u32) {
        if densities.is_empty() {
            return;
        }
        self.table = Arc::default();
        let all = Arc::make_mut(&mut self.doublings);
        if doubling > all.doubling {
            let newer = std::mem::take(&mut all.newer);
            all.older = if doubling == all.doubling + 1 { newer } else { Vec::new() };
            all.doubling = doubling;
        }
        all.newer = sum(&all.newer, densities.iter().map(|(place, weight)| (*place, f64::from(*weight))));
    }

    /// Takes in what the rows of another stream have told.
    pub(crate) fn join(&mut self, other: &Self) {
        self.table = Arc::default();
        let (all, theirs) = (Arc::make_mut(&mut self.doublings), &other.doublings);
        all.doubling = all.doubling.max(theirs.doubling);
        all.older = sum(&all.older, theirs.older.iter().copied());
        all.newer = sum(&all.newer, theirs.newer.iter().copied());
    }

    /// For a later model: the same rows are as probable as it finds them. `before` and `after` are log densities of a sample of rows
    /// under the model that the last rows were told by and under the later one, each ascending.
    ///
    /// ```text
    /// a row below which a share u lies    log p + mean of (after − before) of the sample between its shares u ± min(u, 1 − u)/2
    /// ```
    pub(crate) fn moved(&self, before: &[f64], after: &[f64]) -> Self {
        if before.is_empty() || self.is_empty() {
            return self.clone();
        }
        let Table { places, total } = self.table();
        let mut sums = vec![0.0];
        sums.extend(after.iter().zip(before).scan(0.0, |sum, (after, before)| {
            let gain = after - before;
            *sum += if gain.is_finite() { gain } else { 0.0 };
            Some(*sum)
        }));
        let n = before.len();
        let gain = |share: f64| {
            let rank = share * n as f64;
            let half = 0.5 * rank.min(n as f64 - rank);
            let from = ((rank - half) as usize).min(n - 1);
            let to = ((rank + half).ceil() as usize).clamp(from + 1, n);
            (sums[to] - sums[from]) / (to - from) as f64
        };
        let shifted = |histogram: &[(i32, f64)]| {
            let mut rows: Vec<(i32, f64)> = histogram
                .iter()
                .map(|(at, weight)| {
                    let next = places.partition_point(|(place, ..)| place < at);
                    let (_, here, below) = places[next.min(places.len() - 1)];
                    let middle = 0.5 * (edge(*at) + edge(at + 1));
                    (place(middle + gain((below + 0.5 * here) / total)), *weight)
                })
                .collect();
            densities(&mut rows)
        };
        let Doublings { doubling, older, newer } = &*self.doublings;
        Doublings { doubling: *doubling, older: shifted(older), newer: shifted(newer) }.into()
    }

    /// False for numbers that no rows have told.
    pub fn is_possible(&self) -> bool {
        let possible = |part: &[(i32, f64)]| {
            part.windows(2).all(|pair| pair[0].0 < pair[1].0)
                && part
                    .iter()
                    .all(|(place, weight)| place.abs() <= LAST && *weight >= 0.0 && weight.is_finite())
        };
        possible(&self.doublings.older) && possible(&self.doublings.newer)
    }
}

fn weight(histogram: &[(i32, f64)]) -> f64 {
    histogram.iter().map(|(_, weight)| weight).sum()
}

/// Both histograms together.
fn sum(one: &[(i32, f64)], other: impl ExactSizeIterator<Item = (i32, f64)>) -> Vec<(i32, f64)> {
    let mut all = Vec::with_capacity(one.len() + other.len());
    let (mut one, mut other) = (one.iter().peekable(), other.peekable());
    loop {
        let next = match (one.peek(), other.peek()) {
            (Some((a, _)), Some((b, _))) => *a.min(b),
            (Some((a, _)), None) => *a,
            (None, Some((b, _))) => *b,
            (None, None) => return all,
        };
        let mine = one.next_if(|(place, _)| *place == next).map_or(0.0, |(_, weight)| *weight);
        let theirs = other.next_if(|(place, _)| *place == next).map_or(0.0, |(_, weight)| weight);
        all.push((next, mine + theirs));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(values: &[f64]) -> Densities {
        let mut rows: Vec<(i32, f32)> = values.iter().map(|value| (place(*value), 1.0)).collect();
        densities(&mut rows)
    }

    #[test]
    fn the_tail_is_the_share_of_rows_below() {
        let values: Vec<f64> = (0..10_000).map(|ix| -50.0 + 0.007 * f64::from(ix)).collect();
        let mut tail = Tail::default();
        tail.add(&told(&values), 2);
        // At the sharp edge of these densities a place holds 28 rows: below that nothing is told apart.
        for share in [0.01, 0.05, 0.5, 0.999] {
            let at = -50.0 + 70.0 * share;
            assert!((tail.share_below(at) / share - 1.0).abs() < 0.11, "{share}: {}", tail.share_below(at));
            assert!((tail.quantile(share) - at).abs() < 0.1, "{share}: {}", tail.quantile(share));
        }
        // Rows that come later count as well, at places of their own and at others.
        tail.add(&told(&[-60.0, -50.0, 30.0]), 2);
        assert_eq!(tail.share_below(-55.0), 2.0 / 10_004.0);
        assert_eq!(tail.share_below(25.0), 10_003.0 / 10_004.0);
        assert_eq!(tail.share_below(f64::NEG_INFINITY), 1.0 / 10_004.0);
        assert_eq!(tail.share_below(f64::INFINITY), 1.0);
    }

    /// The later model finds every row twice as far from 0 and one nat more probable: quantiles follow.
    #[test]
    fn a_later_model_moves_each_row_by_what_it_gains_on_rows_like_it() {
        let before: Vec<f64> = (0..5_000).map(|ix| -40.0 + 0.007 * f64::from(ix)).collect();
        let later = |value: &f64| 2.0 * value + 1.0;
        let after: Vec<f64> = before.iter().map(later).collect();
        // Rows that the sample does not hold, in both doublings.
        let told_by: Vec<f64> = (0..20_000).map(|ix| -40.0 + 0.00175 * f64::from(ix)).collect();
        let mut tail = Tail::default();
        tail.add(&told(&told_by), 2);
        tail.add(&told(&told_by.iter().copied().step_by(10).collect::<Vec<_>>()), 3);
        let moved = tail.moved(&before, &after);
        assert!((moved.mass() - tail.mass()).abs() < 1e-6);
        for share in [0.01, 0.05, 0.3, 0.6] {
            let (was, is) = (tail.quantile(share), moved.quantile(share));
            assert!((is - later(&was)).abs() < 0.5, "{share}: {was} became {is}");
        }
        assert_eq!(tail.moved(&[], &[]), tail);
        assert_eq!(Tail::default().moved(&before, &after), Tail::default());
        assert!(tail.moved(&[f64::NEG_INFINITY], &[0.0]).is_possible(), "what is infinite moves nothing");
    }

    #[test]
    fn histograms_add_up_in_any_order() {
        let (a, b) = (told(&[-3.0, 4.0, -3.0]), told(&[1e300, -3.0, f64::NEG_INFINITY]));
        let (mut one, mut other) = (Tail::default(), Tail::default());
        one.add(&a, 2);
        one.add(&b, 2);
        other.add(&b, 2);
        other.add(&a, 2);
        assert_eq!(one, other);
        assert_eq!(one.mass(), 6.0);
        assert!(one.is_possible());
    }

    #[test]
    fn rows_count_until_as_many_came_after_the_data_had_doubled() {
        let mut tail = Tail::default();
        // Older rows and newer ones: (0, 1), (0, 2), (2, 1), (2, 2), (2, 3), (3, 1), (0, 1).
        let steps = [
            (100.0, 1.0),
            (127.0, 2.0),
            (128.0, 2.0),
            (129.0, 2.0),
            (130.0, 3.0),
            (256.0, 3.0),
            (5000.0, 1.0),
        ];
        for (mass, left) in steps {
            tail.add(&told(&[-1.0]), f64::log2(mass) as u32);
            assert!((tail.mass() - left).abs() < 1e-12, "at {mass}: {}", tail.mass());
            assert!((tail.share_below(-9.0) - 1.0 / (1.0 + left)).abs() < 1e-12, "at {mass}");
        }
    }

    #[test]
    fn every_number_has_a_place() {
        for value in [0.0, -3.7, 12.0, -1e9, 1e9, f64::MAX, f64::NEG_INFINITY, f64::NAN] {
            assert!(place(value).abs() <= LAST);
            assert!(
                value.is_nan()
                    || value.abs() > 1e8
                    || (edge(place(value)) <= value && value < edge(place(value) + 1))
            );
        }
        assert!(!are_possible(&[(3, 1.0), (3, 1.0)]) && !are_possible(&[(LAST + 1, 1.0)]));
        assert!(!are_possible(&[(1, f32::NAN)]) && !are_possible(&[(1, -1.0)]));
    }
}
