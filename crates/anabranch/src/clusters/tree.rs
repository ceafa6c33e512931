//! The tree of the density's level sets: which components join at which height, from the highest pass down.
//!
//! Pairs that lie near each other are taken in the order of a bound on their pass, from above: a pair that is connected by
//! then is never looked at closely, and one whose exact pass turns out lower waits again for its turn (Kruskal's order,
//! with the exact heights).

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::normals::Normals;
use super::ridge::{self, Lowest};
use super::saddles::{self, Saddle};
use super::union::Groups;
use crate::diagnose::neighbours::{nearest, neighbours};
use crate::diagnose::overlap::overlap;
use crate::family::Family;
use crate::identify::ComponentId;
use crate::posterior::Posterior;
use crate::process::Process;

/// Neighbours of a component whose ridges are looked at.
const NEAR: usize = 12;
/// Ridges of many columns are dear; with this many operations there are fewer of them.
const OPERATIONS: f64 = 2e10;
/// Ridges that are tried between groups that no neighbours connect.
const BRIDGES: usize = 3;
/// The pass between two equal normals, of their peaks, for each part of their rows that they share: within a fifth of it
/// from two and a half standard deviations to four.
const PASS_OF_SHARED: f64 = 3.5;

/// What heights are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Log density of the mixture, relative to its highest peak.
    Density,
    /// Log of the part of their rows that components share, for families whose rows are no points of a space: every component
    /// is a peak of height 0.
    Overlap,
}

/// A component, as a leaf of the tree.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Leaf {
    /// Which component.
    pub component: ComponentId,
    /// Expected number of its rows.
    pub rows: f64,
    /// Log density at its mean.
    pub height: f64,
    /// Log density of the peak uphill of its mean.
    pub peak: f64,
    /// Narrower leaves whose means lie among its rows, by their places.
    #[serde(skip)]
    pub holds: Vec<usize>,
}

/// Two leaves whose groups join.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Join {
    /// A leaf of one group, by its place.
    pub left: usize,
    /// A leaf of the other.
    pub right: usize,
    /// Log density of the pass between them; `-∞` where nothing connects them.
    pub height: f64,
    /// True where there is no valley: both lie on the slopes of one peak.
    pub slope: bool,
}

/// The tree of a snapshot: its leaves in the order of their ids, and one join fewer than there are leaves, slopes first and then
/// from the highest pass down.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Tree {
    /// What heights are.
    pub measure: Measure,
    /// Components with rows.
    pub leaves: Vec<Leaf>,
    /// How they join.
    pub joins: Vec<Join>,
}

impl Tree {
    /// The tree of a snapshot. Nothing is drawn at random but for families that are compared by their overlap, and there
    /// from a fixed seed: the same snapshot has the same tree.
    pub fn of<F: Family, P: Process>(posterior: &Posterior<F, P>) -> Self {
        let components = posterior.components();
        let live: Vec<usize> =
            (0..components.len()).filter(|ix| components[*ix].expected_count() > 0.0).collect();
        match Normals::of(posterior, &live) {
            Some(normals) => of_density(posterior, &live, &normals),
            None => of_overlap(posterior, &live),
        }
    }

    /// Rows of all leaves.
    pub fn rows(&self) -> f64 {
        self.leaves.iter().map(|leaf| leaf.rows).sum()
    }
}

/// A pair that may join, by height: the highest first, then the first.
struct Candidate {
    height: f64,
    pair: (usize, usize),
    known: Known,
}

/// How closely a ridge was looked at: what is known of its pass is lower each time.
enum Known {
    Bound,
    Looked(Lowest),
    Pass,
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.height.total_cmp(&other.height).then(other.pair.cmp(&self.pair))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

fn of_density<F: Family, P: Process>(posterior: &Posterior<F, P>, live: &[usize], normals: &Normals) -> Tree {
    let tops = ridge::tops(normals);
    let place = places(posterior.components().len(), live);
    let ridge_cost = (normals.dimensions() as f64).powi(3) * 6.0 * live.len().max(1) as f64;
    let mut most = ((OPERATIONS / ridge_cost) as usize).clamp(2, NEAR);
    let mut near = neighbours(posterior);
    let mut joined = Joining::new(live.len());
    let mut candidates = pairs(live, &place, &near, most, |a, b| tops[a].first != tops[b].first);
    for (ix, top) in tops.iter().enumerate() {
        if top.first != ix {
            joined.join(ix, top.first, normals.heights()[ix].min(normals.heights()[top.first]), true);
        }
    }
    if normals.dimensions() <= saddles::MOST_COLUMNS {
        for Saddle { pair: (a, b), height } in saddles::saddles(normals, &tops, &candidates) {
            joined.join(a, b, height, false);
        }
    }
    while joined.groups.len() > 1 && !candidates.is_empty() {
        joined.connect(normals, &candidates);
        // What is left lies too far apart to be neighbours: the nearest outside of each group, those of each group first that
        // are nearest.
        let group: Vec<Option<usize>> =
            place.iter().map(|leaf| leaf.map(|leaf| joined.groups.find(leaf))).collect();
        near = nearest(posterior, 1, |a, b| group[a] != group[b]);
        near = bridges(normals, live, &place, &near, &mut joined.groups);
        most = BRIDGES;
        candidates = pairs(live, &place, &near, most, |a, b| joined.groups.find(a) != joined.groups.find(b));
    }
    let highest = tops.iter().map(|top| top.height).fold(f64::NEG_INFINITY, f64::max);
    let mut holds = normals.holds();
    let leaf = |ix: usize| Leaf {
        component: posterior.components()[live[ix]].id(),
        rows: posterior.components()[live[ix]].expected_count(),
        height: normals.heights()[ix] - highest,
        peak: tops[ix].height.max(normals.heights()[ix]) - highest,
        holds: std::mem::take(&mut holds[ix]),
    };
    let leaves = (0..live.len()).map(leaf).collect();
    joined.finished(Measure::Density, leaves, highest)
}

/// Of each group only the few bridges to others that are highest at their ends and shortest.
fn bridges(
    normals: &Normals,
    live: &[usize],
    place: &[Option<usize>],
    near: &[Vec<usize>],
    groups: &mut Groups,
) -> Vec<Vec<usize>> {
    let mut by_group: std::collections::BTreeMap<usize, Vec<(f64, usize, usize)>> = Default::default();
    for (own, others) in near.iter().enumerate() {
        let Some(leaf) = place[own] else { continue };
        for other in others {
            let Some(target) = place[*other] else { continue };
            let apart = normals.distance(leaf, normals.mean(leaf), normals.mean(target));
            by_group.entry(groups.find(leaf)).or_default().push((apart, own, *other));
        }
    }
    let mut kept = vec![Vec::new(); near.len()];
    for (_, mut all) in by_group {
        all.sort_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        all.iter().take(BRIDGES).for_each(|(_, own, other)| kept[*own].push(*other));
    }
    debug_assert!(live.len() <= near.len());
    kept
}

/// Where each component stands among the leaves.
fn places(n_components: usize, live: &[usize]) -> Vec<Option<usize>> {
    let mut place = vec![None; n_components];
    live.iter().enumerate().for_each(|(leaf, ix)| place[*ix] = Some(leaf));
    place
}

/// Pairs of leaves of different groups in which either is a neighbour of the other, the smaller first.
fn pairs(
    live: &[usize],
    place: &[Option<usize>],
    near: &[Vec<usize>],
    most: usize,
    mut apart: impl FnMut(usize, usize) -> bool,
) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    for (leaf, ix) in live.iter().enumerate() {
        for other in near[*ix].iter().take(most).filter_map(|other| place[*other]) {
            if apart(leaf, other) {
                pairs.push((leaf.min(other), leaf.max(other)));
            }
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// Groups that grow together.
struct Joining {
    groups: Groups,
    joins: Vec<Join>,
}

impl Joining {
    fn new(n_leaves: usize) -> Self {
        Self { groups: Groups::new(n_leaves), joins: Vec::new() }
    }

    fn join(&mut self, left: usize, right: usize, height: f64, slope: bool) {
        if self.groups.unite(left, right) {
            self.joins.push(Join { left, right, height, slope });
        }
    }

    /// Joins over the highest passes of these pairs.
    fn connect(&mut self, normals: &Normals, pairs: &[(usize, usize)]) {
        let candidate =
            |(pair, height): (&(usize, usize), f64)| Candidate { height, pair: *pair, known: Known::Bound };
        let bounds = ridge::bounds(normals, pairs);
        let mut waiting: BinaryHeap<Candidate> = pairs.iter().zip(bounds).map(candidate).collect();
        while let Some(Candidate { height, pair, known }) = waiting.pop() {
            if self.groups.find(pair.0) == self.groups.find(pair.1) {
                continue;
            }
            waiting.push(match known {
                Known::Bound => {
                    let found = ridge::first_look(normals, pair);
                    Candidate { height: height.min(found.height), pair, known: Known::Looked(found) }
                }
                Known::Looked(found) => {
                    let pass = ridge::pass(normals, pair, &found);
                    Candidate { height: height.min(pass), pair, known: Known::Pass }
                }
                Known::Pass => {
                    self.join(pair.0, pair.1, height, false);
                    continue;
                }
            });
        }
    }

    /// The tree, with heights above `zero`; what nothing connects joins last.
    fn finished(mut self, measure: Measure, leaves: Vec<Leaf>, zero: f64) -> Tree {
        self.joins.iter_mut().for_each(|join| join.height -= zero);
        for leaf in 1..leaves.len() {
            self.join(0, leaf, f64::NEG_INFINITY, false);
        }
        self.joins.sort_by(|a, b| b.slope.cmp(&a.slope).then(b.height.total_cmp(&a.height)));
        Tree { measure, leaves, joins: self.joins }
    }
}

fn of_overlap<F: Family, P: Process>(posterior: &Posterior<F, P>, live: &[usize]) -> Tree {
    let components = posterior.components();
    let near = neighbours(posterior);
    let shared = overlap(posterior, &near, &mut Xoshiro256PlusPlus::seed_from_u64(0));
    let place = places(components.len(), live);
    let rows = |ix: usize| components[ix].expected_count();
    let mut passes: Vec<(f64, usize, usize)> = shared
        .shared()
        .iter()
        .filter_map(|((a, b), both)| {
            // Two components that are the same share `t_a t_b / (t_a + t_b)` rows.
            let part = both * (rows(*a) + rows(*b)) / (rows(*a) * rows(*b));
            Some(((PASS_OF_SHARED * part).min(1.0).ln(), place[*a]?, place[*b]?))
        })
        .collect();
    passes.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let mut joined = Joining::new(live.len());
    for (height, a, b) in passes {
        joined.join(a, b, height, false);
    }
    let leaf = |ix: &usize| Leaf {
        component: components[*ix].id(),
        rows: rows(*ix),
        height: 0.0,
        peak: 0.0,
        holds: Vec::new(),
    };
    joined.finished(Measure::Overlap, live.iter().map(leaf).collect(), 0.0)
}
