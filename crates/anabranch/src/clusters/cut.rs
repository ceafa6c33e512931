//! Which valleys of the tree count, and the clusters that they leave.
//!
//! Two groups that meet at a pass of density `s` stay two clusters when the valley is deep enough for both, `h` being the mean
//! density at the centres of a group's components, weighed by rows:
//!
//! ```text
//! log h − log s  ≥  −log 0.7  +  3 √(2 log K) √(1/t_i + 1/t_j)  +  0.1 log(N/n)
//! ```
//!
//! The first term asks for a valley of 0.7 of the height. The second says what sampling could have made: the standard error of the
//! logarithm of a ratio of two counts, those of the components on both sides of the pass, three times that because a valley holds
//! only about a ninth of their rows, and `√(2 log K)` of these for the deepest of as many valleys as `K` components have. The third
//! asks more of a group with a small share of the rows, `n` of `N`.
//! Passes are taken from the highest down, so that groups have grown to their full size when their valley is judged.
//!
//! A number of clusters that is not that of the default is reached from finer groups: shallower valleys count, and then the
//! smallest joins the one over its highest pass until there are not too many. So a large group cannot hide a deep valley behind
//! what is small.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::tree::{Join, Tree};
use super::union::Groups;
use crate::family::Conjugate;
use crate::identify::ComponentId;
use crate::math::log_sum_exp::log_sum_exp;
use crate::posterior::Posterior;
use crate::process::Process;

/// A valley counts below this part of the height.
const VALLEY: f64 = 0.7;
/// Standard errors of a valley, in those of the components beside it: it holds about a ninth of their rows.
const FEWER_ROWS: f64 = 3.0;
/// How much more is asked of a small share of the rows.
const SHARE_POWER: f64 = 0.1;
/// Components with less than this part of the mean rows of those of their cluster give it no name.
const NAMING: f64 = 0.5;
/// A cluster rises out of a component that holds at least this part of it.
const RISES: f64 = 0.5;
/// A component whose centre is below this part of the peak of its cluster lies low.
const LOW: f64 = 0.1;
/// Where a number of clusters is asked for, valleys count that are as many times higher.
const FINER: f64 = 4.0;
/// Steps in which shallower valleys count where more clusters are asked for, up to parts beyond what errors and small shares
/// take away.
const SHALLOWER: f64 = 1.03;
const SHALLOWEST: f64 = 1e6;
/// Fewer rows than this are too thin to say; where there are few in all, a small part of them and at least a few.
const MIN_SIZE: f64 = 10.0;
const MIN_PART: f64 = 0.02;
const LEAST_SIZE: f64 = 3.0;

/// How the tree is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Valleys that are deep for the rows there are.
    #[default]
    Auto,
    /// Valleys below this part of the lower of two peaks.
    Valley(f64),
    /// As many clusters.
    Count(usize),
}

/// How a tree is cut, and what becomes of small clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cut {
    /// Which valleys count.
    #[serde(default)]
    pub rule: Rule,
    /// Clusters with fewer rows belong to the one over the highest pass; unless told, 10 rows, or 2 % of all where that is less, and at least 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_size: Option<f64>,
    /// Small clusters are noise instead.
    #[serde(default)]
    pub noise: bool,
}

/// Why a tree cannot be cut like this.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum CutError {
    /// A part that is none.
    #[error("a valley of {0} is no part of a peak: choose one above 0 and at most 1")]
    Valley(f64),
    /// No cluster at all.
    #[error("0 clusters cannot hold the rows: ask for at least 1")]
    NoClusters,
    /// A size that is none.
    #[error("a smallest size of {0} rows: it is a number from 0 on")]
    Size(f64),
}

impl Cut {
    /// Refuses what is no way to cut.
    pub fn checked(self) -> Result<Self, CutError> {
        match self.rule {
            Rule::Valley(part) if !(part > 0.0 && part <= 1.0) => return Err(CutError::Valley(part)),
            Rule::Count(0) => return Err(CutError::NoClusters),
            _ => {}
        }
        match self.min_size {
            Some(size) if !(size >= 0.0 && size.is_finite()) => Err(CutError::Size(size)),
            _ => Ok(self),
        }
    }
}

/// A cluster: components that are parts of one hill.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cluster {
    /// Its name: the oldest component whose rows it holds, even when that one has since become part of another; of those that have
    /// at least half of the mean rows of its components, since small ones at its edge may come and go.
    pub name: ComponentId,
    /// Its components, in the order of their ids.
    pub components: Vec<ComponentId>,
    /// Expected number of its rows.
    pub rows: f64,
    /// Log density of its peak, as the tree measures it.
    pub peak: f64,
    /// The highest pass to another cluster, as a part of its peak; `None` where it is alone or nothing connects it.
    pub valley: Option<f64>,
    /// True for clusters that are too small where small ones are noise.
    pub noise: bool,
}

/// The clusters of a snapshot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clusters {
    clusters: Vec<Cluster>,
    of: BTreeMap<ComponentId, usize>,
    redirects: BTreeMap<ComponentId, ComponentId>,
    common: Vec<ComponentId>,
    /// Log density at the centre of each component, above the peak of its cluster.
    heights: BTreeMap<ComponentId, f64>,
}

impl Clusters {
    /// Cuts the tree of a snapshot.
    pub fn new<F: Conjugate, P: Process>(posterior: &Posterior<F, P>, tree: &Tree, cut: Cut) -> Self {
        let thin = cut.min_size.unwrap_or((MIN_PART * tree.rows()).clamp(LEAST_SIZE, MIN_SIZE));
        let mut groups = match cut.rule {
            Rule::Count(n) => by_number(tree, n),
            Rule::Auto => {
                // Too few rows to say where they are noise: the valley alone parts them.
                let parted = if cut.noise { thin } else { 0.0 };
                by_depth(tree, &Judge::auto(tree, VALLEY, parted))
            }
            Rule::Valley(part) => by_depth(tree, &Judge::Valley(part.ln())),
        };
        let min_size = match cut.rule {
            // Who asks for a number gets it.
            Rule::Count(_) => cut.min_size.unwrap_or(0.0),
            _ => thin,
        };
        let rows = sizes(tree, &mut groups);
        let small: Vec<bool> =
            (0..tree.leaves.len()).map(|leaf| rows[groups.find(leaf)] < min_size).collect();
        if !cut.noise {
            absorb_small(tree, &mut groups, min_size);
        }
        let mut oldest: BTreeMap<ComponentId, ComponentId> = BTreeMap::new();
        for retired in posterior.redirects().keys() {
            oldest.entry(posterior.resolve(*retired)).or_insert(*retired);
        }
        let rows = sizes(tree, &mut groups);
        let mut members = vec![0.0; tree.leaves.len()];
        (0..members.len()).for_each(|leaf| members[groups.find(leaf)] += 1.0);
        let mut clusters: BTreeMap<usize, Cluster> = BTreeMap::new();
        // Who is too small to be a cluster, or small for its own, gives it a name only if all are.
        let mut eldests: BTreeMap<usize, (bool, ComponentId)> = BTreeMap::new();
        for (place, leaf) in tree.leaves.iter().enumerate() {
            let eldest = oldest.get(&leaf.component).map_or(leaf.component, |old| leaf.component.min(*old));
            let cluster = clusters.entry(groups.find(place)).or_insert_with(|| Cluster {
                name: eldest,
                components: Vec::new(),
                rows: 0.0,
                peak: f64::NEG_INFINITY,
                valley: None,
                noise: cut.noise && small[place],
            });
            let group = groups.find(place);
            let is_minor = small[place] || leaf.rows < NAMING * rows[group] / members[group];
            let best = eldests.entry(group).or_insert((is_minor, eldest));
            *best = (*best).min((is_minor, eldest));
            cluster.name = best.1;
            cluster.components.push(leaf.component);
            cluster.rows += leaf.rows;
            cluster.peak = cluster.peak.max(leaf.peak);
        }
        for Join { left, right, height, .. } in &tree.joins {
            let (a, b) = (groups.find(*left), groups.find(*right));
            for own in [a, b].into_iter().filter(|_| a != b && height.is_finite()) {
                if let Some(cluster) = clusters.get_mut(&own) {
                    let part = (height - cluster.peak).exp();
                    cluster.valley = Some(cluster.valley.map_or(part, |highest: f64| highest.max(part)));
                }
            }
        }
        let mut clusters: Vec<Cluster> = clusters.into_values().collect();
        clusters.sort_by(|a, b| b.rows.total_cmp(&a.rows).then(a.name.cmp(&b.name)));
        let of = clusters.iter().enumerate();
        let of = of.flat_map(|(ix, cluster)| cluster.components.iter().map(move |id| (*id, ix))).collect();
        let redirects = posterior.redirects().keys().map(|id| (*id, posterior.resolve(*id))).collect();
        let mut found = Self { clusters, of, redirects, common: Vec::new(), heights: BTreeMap::new() };
        found.common = found.common_of(tree);
        let height = |leaf: &super::Leaf| {
            found.cluster(leaf.component).map(|cluster| (leaf.component, leaf.height - cluster.peak))
        };
        found.heights = tree.leaves.iter().filter_map(height).collect();
        found
    }

    /// The tree of a snapshot, cut.
    pub fn of_snapshot<F: crate::family::Family, P: Process>(posterior: &Posterior<F, P>, cut: Cut) -> Self {
        Self::new(posterior, &Tree::of(posterior), cut)
    }

    /// The clusters, the largest first; noise, where there is any, among them.
    pub fn clusters(&self) -> &[Cluster] {
        &self.clusters
    }

    /// How many clusters there are, noise not counted.
    pub fn len(&self) -> usize {
        self.clusters.iter().filter(|cluster| !cluster.noise).count()
    }

    /// True without any cluster.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The cluster of a component, noise or not; a component that became part of another is that one.
    pub fn cluster(&self, component: ComponentId) -> Option<&Cluster> {
        let component = self.redirects.get(&component).unwrap_or(&component);
        self.of.get(component).map(|ix| &self.clusters[*ix])
    }

    /// Wide components that at least half of each of two clusters lies in, unless a cluster has no other, in the order of their ids.
    fn common_of(&self, tree: &Tree) -> Vec<ComponentId> {
        let place = |leaf: usize| {
            let ix = *self.of.get(&tree.leaves[leaf].component)?;
            (!self.clusters[ix].noise).then_some(ix)
        };
        let is_common = |(ix, leaf): (usize, &super::Leaf)| {
            let mut inside: BTreeMap<usize, f64> = BTreeMap::new();
            for other in &leaf.holds {
                if let Some(cluster) = place(*other) {
                    *inside.entry(cluster).or_default() += tree.leaves[*other].rows;
                }
            }
            let rises = |(cluster, rows): &(&usize, &f64)| {
                let own = if place(ix) == Some(**cluster) { leaf.rows } else { 0.0 };
                **rows >= RISES * (self.clusters[**cluster].rows - own)
            };
            (inside.iter().filter(rises).count() > 1).then_some(leaf.component)
        };
        let wide: Vec<ComponentId> = tree.leaves.iter().enumerate().filter_map(is_common).collect();
        let is_hill = |id: &ComponentId| wide.binary_search(id).is_err();
        let has_hill: Vec<bool> = self.clusters.iter().map(|c| c.components.iter().any(is_hill)).collect();
        wide.iter().copied().filter(|id| self.of.get(id).is_some_and(|ix| has_hill[*ix])).collect()
    }

    /// Components that are common ground of several clusters, in the order of their ids: their rows are divided among these.
    pub fn common(&self) -> &[ComponentId] {
        &self.common
    }

    /// How much a component says of the cluster of a row, as a logarithm; `None` for common ground.
    pub(super) fn say(&self, component: ComponentId) -> Option<f64> {
        let is_hill = self.common.binary_search(&component).is_err();
        is_hill.then(|| self.heights.get(&component).map_or(0.0, |height| height.min(0.0)))
    }

    /// Whether a component is too low to say what cluster its rows belong to.
    pub(super) fn lies_low(&self, component: ComponentId) -> bool {
        let component = self.redirects.get(&component).unwrap_or(&component);
        self.say(*component).is_none_or(|say| say < LOW.ln())
    }

    /// The name of the cluster that a component is part of; `None` for noise and for components without rows.
    pub fn of(&self, component: ComponentId) -> Option<ComponentId> {
        self.cluster(component).filter(|cluster| !cluster.noise).map(|cluster| cluster.name)
    }
}

/// Rows of each group, at the place of its name.
fn sizes(tree: &Tree, groups: &mut Groups) -> Vec<f64> {
    let mut rows = vec![0.0; tree.leaves.len()];
    for (place, leaf) in tree.leaves.iter().enumerate() {
        rows[groups.find(place)] += leaf.rows;
    }
    rows
}

/// Whether a valley counts.
enum Judge {
    Auto { rows: f64, errors: f64, ln_part: f64, thin: f64 },
    Valley(f64),
}

/// What is known of a group while passes are taken from the highest down.
#[derive(Clone, Copy)]
struct Group {
    rows: f64,
    /// `log Σ t_k p(μ_k)`.
    ln_sum: f64,
    peak: f64,
}

impl Judge {
    /// Valleys below this part of the height, and deeper where there are few rows, but for groups of fewer than `thin`.
    fn auto(tree: &Tree, part: f64, thin: f64) -> Self {
        let errors = FEWER_ROWS * (2.0 * (tree.leaves.len() as f64).ln()).sqrt();
        Self::Auto { rows: tree.rows(), errors, ln_part: part.ln(), thin }
    }

    fn counts(&self, tree: &Tree, join: &Join, sides: [Group; 2]) -> bool {
        if join.slope {
            return false;
        }
        match self {
            Self::Valley(ln_part) => sides.iter().all(|side| join.height < side.peak + ln_part),
            Self::Auto { rows, errors, ln_part, thin } => {
                let [i, j] = [join.left, join.right].map(|leaf| tree.leaves[leaf].rows);
                let error = errors * (1.0 / i + 1.0 / j).sqrt();
                let is_thin = sides.iter().any(|side| side.rows < *thin);
                sides.iter().all(|side| {
                    let few = if is_thin { 0.0 } else { error + SHARE_POWER * (rows / side.rows).ln() };
                    side.ln_sum - side.rows.ln() - join.height >= few - ln_part
                })
            }
        }
    }
}

fn by_depth(tree: &Tree, judge: &Judge) -> Groups {
    let mut groups = Groups::new(tree.leaves.len());
    let leaf =
        |leaf: &super::Leaf| Group { rows: leaf.rows, ln_sum: leaf.rows.ln() + leaf.height, peak: leaf.peak };
    let mut known: Vec<Group> = tree.leaves.iter().map(leaf).collect();
    for join in &tree.joins {
        let sides = [join.left, join.right].map(|leaf| groups.find(leaf));
        let [a, b] = sides.map(|name| known[name]);
        if !judge.counts(tree, join, [a, b]) {
            groups.unite(join.left, join.right);
            known[groups.find(join.left)] = Group {
                rows: a.rows + b.rows,
                ln_sum: log_sum_exp(&[a.ln_sum, b.ln_sum]),
                peak: a.peak.max(b.peak),
            };
        }
    }
    groups
}

/// Clusters with fewer rows join the one over their highest pass, the smallest first.
fn absorb_small(tree: &Tree, groups: &mut Groups, min_size: f64) {
    while let Some((least, rows)) = smallest(tree, groups)
        && rows < min_size
        && absorb(tree, groups, least)
    {}
}

/// The group with the fewest rows.
fn smallest(tree: &Tree, groups: &mut Groups) -> Option<(usize, f64)> {
    let rows = sizes(tree, groups);
    let names: Vec<usize> = (0..rows.len()).filter(|leaf| groups.find(*leaf) == *leaf).collect();
    let least = names.into_iter().min_by(|a, b| rows[*a].total_cmp(&rows[*b]).then(a.cmp(b)))?;
    Some((least, rows[least]))
}

/// Joins a group with the one over its highest pass; false where there is no other.
fn absorb(tree: &Tree, groups: &mut Groups, name: usize) -> bool {
    let mut leads_out = |join: &&Join| (groups.find(join.left) == name) != (groups.find(join.right) == name);
    let Some(join) = tree.joins.iter().find(|join| leads_out(join)) else { return false };
    groups.unite(join.left, join.right)
}

/// The default cut where it has `n` groups; otherwise shallower valleys, as many as it takes, and then the smallest absorbed.
fn by_number(tree: &Tree, n: usize) -> Groups {
    let mut groups = by_depth(tree, &Judge::auto(tree, VALLEY, 0.0));
    if groups.len() == n {
        return groups;
    }
    let mut part = FINER * VALLEY;
    groups = by_depth(tree, &Judge::auto(tree, part, 0.0));
    while groups.len() < n && part < SHALLOWEST {
        part *= SHALLOWER;
        groups = by_depth(tree, &Judge::auto(tree, part, 0.0));
    }
    while groups.len() > n.max(1)
        && let Some((least, _)) = smallest(tree, &mut groups)
        && absorb(tree, &mut groups, least)
    {}
    groups
}
