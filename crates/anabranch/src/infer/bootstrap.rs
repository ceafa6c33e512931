//! The first minibatch, large and alone: components and their prior are found together, in rounds.
//!
//! ```text
//! seeds (many) → { ascent → prior by type-II maximum likelihood → merges } until nothing changes
//! ```
//!
//! It is seeded far beyond the clusters it can hold, because a cluster without a seed is not found later, and then merges
//! what the data do not keep apart. A merge is final and more data will come, so it is judged for more data than there are
//! (`merge_horizon`). The prior decides what a cluster costs, and the clusters decide the prior: hence the rounds.

use rand::Rng;

use super::ascent::Ascent;
use super::{Increment, Settings, Workspace, birth, merge};
use crate::batch::Batch;
use crate::family::{Family, Partition};
use crate::posterior::{Evidence, Posterior};
use crate::process::{LabelStatistics, Process};

/// Rows of the first of the two stages of an estimated prior.
const SCOUT_ROWS: usize = 2500;
/// One seed for this many rows …
const ROWS_PER_SEED: usize = 16;
/// … but at least and at most this many.
const SEEDS: (usize, usize) = (6, 320);
/// Numbers of seeds that the first stage tries besides, for data of few clusters.
const FEW_SEEDS: [usize; 3] = [1, 6, 30];
/// Seeds of the second stage for each cluster that the first one found.
const SEEDS_PER_CLUSTER: usize = 4;
/// While more data are to come, merges must still be right with this many times the data: 1 loses small clusters beside large ones, 4 keeps clusters
/// apart that differ by chance.
const MERGE_HORIZON: f64 = 2.0;
/// Rounds at most; the rest is left to the stream.
const MAX_ROUNDS: usize = 25;
/// Iterations of the ascent between two looks at the prior and at merges.
const ITERATIONS_PER_ROUND: usize = 5;
/// Steps of type-II maximum likelihood in a round, and on the seeds.
const STEPS: usize = 3;
const FIRST_STEPS: usize = 20;
/// The prior has settled when a round moves its log-partition by less than this share.
const SETTLED: f64 = 2e-3;
/// Rounds that settle the prior before the first merge, at most.
const ROUNDS_BEFORE_MERGES: usize = 10;

/// Where the prior comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PriorChoice {
    /// Estimated from the components.
    #[default]
    Estimated,
    /// As given.
    Given,
}

/// Whether the stream goes on after the first minibatch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outlook {
    /// More rows will come, and a merge is final.
    #[default]
    MoreToCome,
    /// These are all rows.
    Everything,
}

impl Outlook {
    /// Merges must be right for this many times the data.
    fn merge_horizon(self) -> f64 {
        match self {
            Self::MoreToCome => MERGE_HORIZON,
            Self::Everything => 1.0,
        }
    }
}

/// What the first minibatch taught.
#[derive(Clone, Debug)]
pub struct Bootstrap<F> {
    /// The family with the prior that was given or estimated.
    pub family: F,
    /// The components.
    pub increment: Increment,
    /// Rounds that were needed.
    pub rounds: usize,
    /// The evidence lower bound of the rows under that family, up to terms of the rows alone.
    pub objective: f64,
}

/// Learns components, and the prior if it is to be estimated, from the rows of the first minibatch.
///
/// An estimated prior also says in which coordinates clusters are round, and seeds are best drawn there: a first stage on
/// some of the rows finds the prior, a second one starts from it on all of them. The first stage is tried several times:
/// with many seeds and the prior of the pieces around them, which suits many small clusters and would keep a wide one in
/// pieces for ever, and from the guess at hand with few seeds and with many. The second stage starts from the prior that
/// wins, with many seeds and with a few for each cluster found. What wins is the better objective, judged like a merge for
/// more data than there are.
pub fn bootstrap<F: Family, P: Process>(
    prior: &Posterior<F, P>,
    batch: &Batch,
    settings: &Settings,
    choice: PriorChoice,
    outlook: Outlook,
    rng: &mut impl Rng,
    workspace: &mut Workspace,
) -> Bootstrap<F> {
    debug_assert!(prior.components().is_empty(), "a bootstrap starts from nothing");
    if batch.mass() <= 0.0 {
        let increment = Increment { base: prior.version(), mass: 0.0, existing: vec![], new: vec![] };
        return Bootstrap { family: prior.family().clone(), increment, rounds: 0, objective: 0.0 };
    }
    let mut learn = |prior: &Posterior<F, P>, batch: &Batch, start: Start, seeds: usize| {
        stage(prior, batch, settings, Plan { choice, start, outlook, seeds }, rng, workspace)
    };
    if choice == PriorChoice::Given {
        return learn(prior, batch, Start::Prior, seeds_of(batch));
    }
    let scout = batch.head(SCOUT_ROWS);
    let mut found = learn(prior, &scout, Start::Pieces, seeds_of(&scout));
    for seeds in FEW_SEEDS.into_iter().filter(|few| *few < seeds_of(&scout)).chain([seeds_of(&scout)]) {
        let other = learn(prior, &scout, Start::Prior, seeds);
        if other.objective > found.objective {
            found = other;
        }
    }
    let few = (SEEDS_PER_CLUSTER * found.increment.new.len()).min(seeds_of(batch));
    let mut better = Posterior::prior(found.family, prior.process().clone());
    better.version = prior.version();
    let many = learn(&better, batch, Start::Prior, seeds_of(batch));
    if few == seeds_of(batch) {
        return many;
    }
    let few = learn(&better, batch, Start::Prior, few);
    if few.objective > many.objective { few } else { many }
}

fn seeds_of(batch: &Batch) -> usize {
    (batch.n_rows() / ROWS_PER_SEED).clamp(SEEDS.0, SEEDS.1)
}

/// What the prior is when the first two components are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// The one at hand.
    Prior,
    /// That of the pieces around the seeds.
    Pieces,
}

/// How a stage is carried out.
#[derive(Clone, Copy, Debug)]
struct Plan {
    choice: PriorChoice,
    start: Start,
    outlook: Outlook,
    seeds: usize,
}

fn stage<F: Family, P: Process>(
    prior: &Posterior<F, P>,
    batch: &Batch,
    settings: &Settings,
    Plan { choice, start, outlook, seeds }: Plan,
    rng: &mut impl Rng,
    workspace: &mut Workspace,
) -> Bootstrap<F> {
    let mut family = prior.family().clone();
    let settings = Settings { max_new: seeds, max_iterations: ITERATIONS_PER_ROUND, ..settings.clone() };
    let mut ascent = Ascent::start(prior, batch, workspace);
    let births = birth::propose(&ascent, &settings, rng);
    ascent.open(&births);
    if start == Start::Pieces {
        // The partition around the seeds is a better first guess of what a cluster is than any constant.
        ascent.refresh();
        refit_prior(&mut ascent, &mut family, Partition::Pieces, FIRST_STEPS);
    }
    let mut rounds = 0;
    let mut settled = start == Start::Prior;
    // What there is at first are pieces; when no two of them merge any more, they are clusters.
    let mut partition = Partition::Pieces;
    while rounds < MAX_ROUNDS {
        rounds += 1;
        ascent.climb(&settings, &mut Vec::new());
        let mut changed = ascent.empty_surplus(super::mixture::MIN_NEW_COUNT) > 0;
        if changed {
            ascent.climb(&settings, &mut Vec::new());
        }
        let adapts = start == Start::Pieces || partition == Partition::Clusters;
        if choice == PriorChoice::Estimated && adapts {
            let moved = refit_prior(&mut ascent, &mut family, partition, STEPS);
            settled |= rounds >= ROUNDS_BEFORE_MERGES || moved < SETTLED;
        }
        if !settled {
            continue;
        }
        changed |= merge::merge_new(&mut ascent, outlook.merge_horizon()) > 0;
        match (changed, partition) {
            (true, _) => {}
            (false, Partition::Pieces) => partition = Partition::Clusters,
            (false, Partition::Clusters) => break,
        }
    }
    if choice == PriorChoice::Estimated {
        // Whatever ended the rounds: the prior that stays is that of clusters.
        refit_prior(&mut ascent, &mut family, Partition::Clusters, STEPS);
    }
    ascent.climb(&settings, &mut Vec::new());
    while ascent.empty_surplus(super::mixture::MIN_NEW_COUNT) > 0 {
        ascent.climb(&settings, &mut Vec::new());
    }
    let increment = ascent.export();
    let objective = objective(&family, prior.process(), &increment, outlook.merge_horizon());
    Bootstrap { family, increment, rounds, objective }
}

/// The collapsed evidence lower bound of `horizon` times the rows, up to terms of the rows alone.
fn objective<F: Family, P: Process>(family: &F, process: &P, increment: &Increment, horizon: f64) -> f64 {
    let empty = family.log_partition(&vec![0.0; family.n_features()]);
    let of = |evidence: &Evidence| {
        let stats: Vec<f64> = evidence.stats.iter().map(|s| horizon * s).collect();
        let LabelStatistics { log_p_empty, expected_count, label_entropy } = evidence.labels;
        let labels = LabelStatistics {
            log_p_empty: horizon * log_p_empty,
            expected_count: horizon * expected_count,
            label_entropy: horizon * label_entropy,
        };
        family.log_partition(&stats) - empty + process.score(&labels) + labels.label_entropy
    };
    increment.new.iter().map(of).sum()
}

/// Re-estimates the prior from the components that are large enough to tell; returns how far it went.
fn refit_prior<F: Family, P: Process>(
    ascent: &mut Ascent<'_, F, P>,
    family: &mut F,
    partition: Partition,
    steps: usize,
) -> f64 {
    let enough = 3.0 + family.dimensions() as f64 / 2.0;
    let sums = ascent.memory.sums.chunks_exact(family.n_features());
    let components: Vec<&[f64]> = sums.filter(|stats| stats[0] >= enough).collect();
    let mut fitted = family.clone();
    for _ in 0..steps {
        let Some(next) = fitted.refit(&components, partition) else { break };
        fitted = next;
    }
    let distance = moved(family, &fitted);
    family.clone_from(&fitted);
    let process = ascent.posterior().process().clone();
    let mut under_new_prior = Posterior::prior(fitted, process);
    under_new_prior.version = ascent.posterior().version();
    ascent.rebase(under_new_prior);
    ascent.refresh();
    distance
}

/// How far the prior went, as a share of its log-partition.
fn moved<F: Family>(before: &F, after: &F) -> f64 {
    let nothing = vec![0.0; before.n_features()];
    let (before, after) = (before.log_partition(&nothing), after.log_partition(&nothing));
    (after - before).abs() / (1.0 + before.abs())
}
