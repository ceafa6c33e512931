//! The first minibatch, large and alone: components and their prior are found together, in rounds.
//!
//! ```text
//! seeds (many) → { ascent → prior by type-II maximum likelihood → merges } until nothing changes
//! ```
//!
//! It is seeded far beyond the clusters it can hold, because a cluster without a seed is not found later, and then merges
//! what the data do not keep apart. A merge is final and more data will come, so it is judged for more data than there are
//! (`MERGE_HORIZON`). The prior decides what a cluster costs, and the clusters decide the prior: hence the rounds.

use rand::{Rng, RngExt};

use std::borrow::Cow;
use std::sync::Arc;

use super::ascent::Ascent;
use super::birth::{Births, Seeds};
use super::court::{Components, Court, STANDARD_ERRORS, Scores};
use super::path::{self, Bench, Between, Objective, STRONG, Walker};
use super::{Increment, Look, Precision, Settings, Workspace, birth, infer, look, repeats, upkeep};
use crate::batch::Batch;
use crate::family::{Family, Partition};
use crate::identify::ComponentId;
use crate::parallel;
use crate::posterior::{Component, Posterior};
use crate::process::{LabelStatistics, Population, Process};

/// Rows of the first of the two stages.
const SCOUT_ROWS: usize = 2500;
/// One seed for this many rows in the first stage …
const ROWS_PER_SEED: usize = 16;
/// … but at least this many.
const LEAST_SEEDS: usize = 6;
/// Numbers of seeds that the first stage tries besides, for data of few clusters.
const FEW_SEEDS: [usize; 3] = [1, 6, 30];
/// Clusters that are few.
const FEW_CLUSTERS: usize = 8;
/// Rows of the second stage for each cluster that the first one found, which sees about half of many that overlap …
const ROWS_PER_CLUSTER: usize = 600;
/// … but at least this many, and at most what there is.
const LEAST_ROWS: usize = 5000;
/// Features that the second stage may hold in memory.
const MOST_FEATURES: usize = 25_000_000;
/// Seeds of the second stage for each cluster that the first one found …
const SEEDS_PER_CLUSTER: usize = 6;
/// … but at most one for this many rows.
const LEAST_ROWS_PER_SEED: usize = 50;
/// Merges of a round must still be right with this many times the data: 1 loses small clusters beside large ones, 2 keeps
/// clusters apart that differ by chance.
const MERGE_HORIZON: f64 = std::f64::consts::SQRT_2;
/// Where hardly any pieces merge, they are no pieces of a few clusters: the data have more structure than these rows can
/// show, and more will come. Then merges of a round must be right for this many times the data …
const FAR_MERGE_HORIZON: f64 = 4.0;
/// … when fewer than one component in so many finds a partner at first.
const RARE_MERGES: usize = 8;
/// While more rows are to come, the number of components is judged for this many times the rows.
const HORIZON: f64 = 4.0;
/// Fewer rows are all learned from.
const LEAST_TO_SPARE: usize = 2000;
/// One of so many rows is spared from a stage to judge it, but at most so many.
const SPARED: usize = 5;
const MOST_SPARED: usize = 2000;
/// A row that belongs to a component with more than this probability is typical of it.
const CERTAIN: f64 = 0.9;
/// Small components that each round tries to do without.
const DISSOLVED: usize = 16;
/// Rounds at most; the rest is left to the stream.
const MAX_ROUNDS: usize = 25;
/// Iterations of the ascent between two looks at the prior and at merges.
const ITERATIONS_PER_ROUND: usize = 5;
/// Where values are missing, every so many rounds all components are looked at for each row, and those that were possible in between.
const ROUNDS_PER_LOOK: usize = 3;
/// Steps of type-II maximum likelihood in a round, and on the seeds.
const STEPS: usize = 3;
const FIRST_STEPS: usize = 20;
/// The prior has settled when a round moves its log-partition by less than this share.
const SETTLED: f64 = 2e-3;
/// Steps of ascent after the merges of a level of the merge path, over the labels that are possible.
const STEPS_AFTER_MERGES: usize = 2;
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
    /// The number of components is judged for this many times the rows.
    fn horizon(self) -> f64 {
        match self {
            Self::MoreToCome => HORIZON,
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
    /// The evidence lower bound of the rows under that family and the concentration that suits it, up to terms of the rows alone.
    pub objective: f64,
    /// Between how many components the rows cannot tell, where they were asked.
    pub between: Option<Between>,
}

/// Learns components, and the prior if it is to be estimated, from the rows of the first minibatch.
///
/// A first stage on some of the rows finds how many clusters there are, about, and the prior if it is to be estimated; a
/// second one starts from that on as many rows as so many clusters need, with a few seeds for each. An estimated prior
/// also says in which coordinates clusters are round, and seeds are best drawn there. The first stage is tried several
/// times: with many seeds and the prior of the pieces around them, which suits many small clusters and would keep a wide
/// one in pieces for ever, and from the guess at hand with few seeds and with many. What wins is the better objective,
/// judged like a merge for more data than there are. Rows beyond those of the second stage join what was found.
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
        let increment = Increment::nothing(prior.version());
        return Bootstrap {
            family: prior.family().clone(),
            increment,
            rounds: 0,
            objective: 0.0,
            between: None,
        };
    }
    // Rows without weight show nothing, and must not be all that a stage sees.
    let weighty = batch.weighty();
    match repeats::groups(prior.family(), &weighty) {
        None => learn(prior, &weighty, settings, choice, outlook, rng, workspace),
        Some(groups) => {
            let copies = groups.copies(1.0);
            let different = groups.different(&weighty, copies);
            let mut found = learn(prior, &different, settings, choice, outlook, rng, workspace);
            found.increment.new.iter_mut().for_each(|evidence| *evidence = evidence.scaled(copies));
            found.increment.mass = batch.mass();
            found
        }
    }
}

/// The same, of rows that are all different.
fn learn<F: Family, P: Process>(
    prior: &Posterior<F, P>,
    batch: &Batch,
    settings: &Settings,
    choice: PriorChoice,
    outlook: Outlook,
    rng: &mut impl Rng,
    workspace: &mut Workspace,
) -> Bootstrap<F> {
    let batch = &shuffled(batch, rng);
    let n = batch.n_rows();
    let spared = if n < LEAST_TO_SPARE { 0 } else { (n / SPARED).min(MOST_SPARED) };
    let mut best_of = |prior: &Posterior<F, P>, rows: usize, horizon: f64, tries: Vec<Try>| {
        let fresh = batch.slice(rows..(rows + spared).min(n));
        let batch = batch.head(rows);
        let court = (!fresh.is_empty() && fresh.mass() > 0.0)
            .then(|| Court::of_spared(prior.family(), fresh, &batch, horizon));
        let seeded: Vec<Seeded<'_>> = tries
            .into_iter()
            .map(|Try { start, first, seeds }| {
                seed(prior, Cow::Borrowed(&batch), Plan { choice, start, outlook, seeds }, &first, rng)
            })
            .collect();
        let found = grow_all(prior, seeded, court.as_ref(), settings, workspace);
        // Of equal ones the first.
        let better = |best: (Bootstrap<F>, Scores), other: (Bootstrap<F>, Scores)| {
            if is_better(&other, &best, court.as_ref()) { other } else { best }
        };
        found.into_iter().reduce(better).expect("there is a try").0
    };
    let scout = SCOUT_ROWS.min(n - spared);
    let many = (scout / ROWS_PER_SEED).max(LEAST_SEEDS);
    let mut tries = vec![Try::of(many)];
    if choice == PriorChoice::Estimated {
        tries.extend(FEW_SEEDS.into_iter().filter(|few| *few < many).map(Try::of));
        tries.push(Try { start: Start::Pieces, ..Try::of(many) });
    }
    // How many there are is judged for the rows at hand: each stage has more.
    let found = best_of(prior, scout, 1.0, tries);
    let most = (MOST_FEATURES / prior.family().n_features()).max(LEAST_ROWS).min(n - spared);
    let mut found = found;
    let mut rows;
    loop {
        let clusters = found.increment.new.len();
        rows = (ROWS_PER_CLUSTER * clusters).max(LEAST_ROWS).min(most);
        let few = (SEEDS_PER_CLUSTER * clusters).min(rows / LEAST_ROWS_PER_SEED).max(LEAST_SEEDS);
        // Where clusters are few, or rows, other numbers of seeds cost little.
        let others =
            FEW_SEEDS.into_iter().filter(|seeds| *seeds < few && few <= FEW_CLUSTERS * SEEDS_PER_CLUSTER);
        let others = others.chain((rows <= SCOUT_ROWS && many > few).then_some(many));
        // Each cluster that was found gets a seed: of many columns, as many drawn at random could miss it.
        let first = typical_rows(&found, prior.process(), &batch.head(rows), settings.precision);
        let tries = std::iter::once(Try { first, ..Try::of(few) }).chain(others.map(Try::of));
        let mut better = Posterior::prior(found.family, prior.process().clone());
        better.version = prior.version();
        found = best_of(&better, rows, outlook.horizon(), tries.collect());
        // Where most seeds have become clusters, more seeds would have become more.
        if 2 * found.increment.new.len() <= few || rows == most && few >= rows / LEAST_ROWS_PER_SEED {
            break;
        }
    }
    join_rest(&mut found, prior, batch, rows, settings, rng, workspace);
    found
}

/// The rows in random order: those that are spared are like those that are learned from, whatever the stream is sorted by.
fn shuffled(batch: &Batch, rng: &mut impl Rng) -> Batch {
    let mut order: Vec<usize> = (0..batch.n_rows()).collect();
    for ix in (1..order.len()).rev() {
        order.swap(ix, rng.random_range(0..=ix));
    }
    batch.select(&order)
}

/// Whether what one try found is better than what another one did: on rows that neither has learned from, and by the
/// objective where those cannot tell.
fn is_better<F>(
    (one, scores): &(Bootstrap<F>, Scores),
    (other, others): &(Bootstrap<F>, Scores),
    court: Option<&Court>,
) -> bool {
    let by_chance = |(mean, error): (f64, f64)| mean.abs() <= STANDARD_ERRORS * error;
    match court.map(|court| court.difference(scores, others)) {
        Some(difference) if !by_chance(difference) => difference.0 > 0.0,
        _ => {
            let more = one.increment.new.len().cmp(&other.increment.new.len());
            one.objective > other.objective + STRONG * f64::from(more as i8)
        }
    }
}

/// What was found as a posterior; a component's id is its place.
fn posterior_of<F: Family, P: Process>(found: &Bootstrap<F>, process: &P) -> Posterior<F, P> {
    let known = found.increment.new.iter().enumerate();
    let components =
        known.map(|(ix, evidence)| Arc::new(Component::new(ComponentId(ix as u64), 0, evidence.clone())));
    let mut posterior = Posterior::prior(found.family.clone(), process.clone());
    posterior.components = components.collect();
    posterior
}

/// The first row that certainly belongs to each component that was found, where there is one.
fn typical_rows<F: Family, P: Process>(
    found: &Bootstrap<F>,
    process: &P,
    rows: &Batch,
    precision: Precision,
) -> Vec<usize> {
    let (labels, living) = upkeep::labels_of(&posterior_of(found, process), rows, precision);
    let mut typical = vec![None; living.len()];
    for (row, labels) in labels.rows().enumerate() {
        for (ix, _) in labels.filter(|(_, probability)| *probability > CERTAIN) {
            typical[ix].get_or_insert(row);
        }
    }
    typical.into_iter().flatten().collect()
}

/// Adds what the rows from `first` on say of the components that were found. Those that none of them explains are learned from like a minibatch
/// of the stream, and may open others: a row far out would stretch whatever it joined.
fn join_rest<F: Family, P: Process>(
    found: &mut Bootstrap<F>,
    prior: &Posterior<F, P>,
    batch: &Batch,
    first: usize,
    settings: &Settings,
    rng: &mut impl Rng,
    workspace: &mut Workspace,
) {
    let rest = batch.tail(first);
    if rest.mass() <= 0.0 {
        return;
    }
    let posterior = posterior_of(found, prior.process());
    let novel = birth::novel_among(&posterior, &rest, settings, workspace);
    let (strange, usual): (Vec<usize>, Vec<usize>) =
        (0..rest.n_rows()).partition(|row| novel.binary_search(row).is_ok());
    let usual = rest.select(&usual);
    let explained = look::look_again(&posterior, &usual, Look::Everywhere, settings.precision, workspace);
    let learned = infer(&posterior, &rest.select(&strange), settings, rng, workspace).0;
    for (ComponentId(ix), evidence) in explained.into_iter().chain(learned.existing) {
        found.increment.new[ix as usize].absorb(&evidence);
    }
    found.increment.new.extend(learned.new);
    found.increment.mass += rest.mass();
}

/// One of several ways to carry a stage out.
#[derive(Clone, Debug)]
struct Try {
    start: Start,
    /// Rows that are seeds, before others are drawn.
    first: Vec<usize>,
    /// Seeds in all.
    seeds: usize,
}

impl Try {
    /// With so many seeds, from the prior at hand.
    fn of(seeds: usize) -> Self {
        Self { start: Start::Prior, first: Vec::new(), seeds }
    }
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

/// For each batch, rows that are all there is: clustered under a given prior from so many seeds.
pub(super) fn split_stages<F: Family, P: Process>(
    prior: &Posterior<F, P>,
    batches: impl Iterator<Item = (Batch, usize)>,
    settings: &Settings,
    rng: &mut impl Rng,
    workspace: &mut Workspace,
) -> Vec<Bootstrap<F>> {
    let seeded = batches.map(|(batch, seeds)| {
        let plan =
            Plan { choice: PriorChoice::Given, start: Start::Prior, outlook: Outlook::Everything, seeds };
        seed(prior, Cow::Owned(batch), plan, &[], rng)
    });
    let seeded = seeded.collect();
    grow_all(prior, seeded, None, settings, workspace).into_iter().map(|(found, _)| found).collect()
}

/// Carries stages out that do not depend on each other.
fn grow_all<F: Family, P: Process>(
    prior: &Posterior<F, P>,
    seeded: Vec<Seeded<'_>>,
    court: Option<&Court>,
    settings: &Settings,
    workspace: &mut Workspace,
) -> Vec<(Bootstrap<F>, Scores)> {
    // Each has its features in memory: side by side only if all of them are no more than one may be.
    let features = seeded.iter().map(|one| one.batch.n_rows()).sum::<usize>() * prior.family().n_features();
    if seeded.len() > 1 && parallel::shared() && features <= MOST_FEATURES {
        parallel::map(seeded.into_iter(), |one| grow(prior, one, court, settings, &mut Workspace::default()))
    } else {
        seeded.into_iter().map(|one| grow(prior, one, court, settings, workspace)).collect()
    }
}

/// Rows with the seeds that a stage starts from.
struct Seeded<'a> {
    plan: Plan,
    batch: Cow<'a, Batch>,
    seeds: Seeds,
}

/// Draws the seeds of a stage: all that is random about it.
fn seed<'a, F: Family, P: Process>(
    prior: &Posterior<F, P>,
    batch: Cow<'a, Batch>,
    plan: Plan,
    first: &[usize],
    rng: &mut impl Rng,
) -> Seeded<'a> {
    let seeds = birth::draw_for_all(prior.family(), &batch, first, plan.seeds, rng);
    Seeded { plan, batch, seeds }
}

/// The rows in another order, with the pieces around the seeds.
fn pieces(batch: &Batch, seeds: Seeds, precision: Precision) -> (Batch, Births) {
    let mut births = birth::births_of_all(seeds, precision);
    // Rows of the same piece stand together: then most components are impossible for most blocks of rows.
    births.novel.sort_by_key(|novel| novel.component);
    let order: Vec<usize> = births.novel.iter().map(|novel| novel.row).collect();
    births.novel.iter_mut().enumerate().for_each(|(ix, novel)| novel.row = ix);
    (batch.select(&order), births)
}

/// Carries a stage out; also returns what it scores on the fresh rows.
fn grow<F: Family, P: Process>(
    prior: &Posterior<F, P>,
    Seeded { plan: Plan { choice, start, outlook, .. }, batch, seeds }: Seeded<'_>,
    court: Option<&Court>,
    settings: &Settings,
    workspace: &mut Workspace,
) -> (Bootstrap<F>, Scores) {
    let mut family = prior.family().clone();
    let least = prior.process().least_count();
    let settings = Settings { max_iterations: ITERATIONS_PER_ROUND, ..settings.clone() };
    let (batch, births) = pieces(&batch, seeds, settings.precision);
    let batch = &batch;
    let mut ascent = Ascent::start(prior, batch, settings.precision, workspace);
    ascent.open(&births);
    if start == Start::Pieces {
        // The partition around the seeds is a better first guess of what a cluster is than any constant.
        refit_prior(&mut ascent, &mut family, Partition::Pieces, FIRST_STEPS);
    }
    let mut rounds = 0;
    let mut settled = start == Start::Prior;
    let mut horizon = MERGE_HORIZON;
    let mut first_merges = outlook == Outlook::MoreToCome;
    // What there is at first are pieces; when no two of them merge any more, they are clusters.
    let mut partition = Partition::Pieces;
    while rounds < MAX_ROUNDS {
        rounds += 1;
        if batch.has_missing() && rounds % ROUNDS_PER_LOOK != 1 {
            ascent.stay();
        }
        ascent.climb(&settings, &mut Vec::new());
        let mut changed = ascent.empty_surplus(least) > 0;
        if changed {
            if batch.has_missing() {
                ascent.stay();
            }
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
        let mut pairs = ascent.mergeable(horizon);
        if std::mem::take(&mut first_merges) && pairs.len() * RARE_MERGES < ascent.n_columns() {
            horizon = FAR_MERGE_HORIZON;
            pairs = ascent.mergeable(horizon);
        }
        ascent.merge(&pairs);
        changed |= !pairs.is_empty();
        if !changed && partition == Partition::Clusters {
            changed |= ascent.dissolve(DISSOLVED, upkeep::enough_to_tell(&family), horizon) > 0;
        }
        match (changed, partition) {
            (true, _) => {}
            (false, Partition::Pieces) => partition = Partition::Clusters,
            (false, Partition::Clusters | Partition::Level) => break,
        }
    }
    if choice == PriorChoice::Estimated {
        // Whatever ended the rounds: the prior that stays is that of clusters.
        refit_prior(&mut ascent, &mut family, Partition::Clusters, STEPS);
    }
    ascent.climb(&settings, &mut Vec::new());
    while ascent.empty_surplus(least) > 0 {
        ascent.climb(&settings, &mut Vec::new());
    }
    if choice == PriorChoice::Estimated {
        let steps = upkeep::prior_steps(ascent.n_columns());
        refit_prior(&mut ascent, &mut family, Partition::Level, steps);
    }
    let mut walker = Learning { ascent, family, choice, court, precision: settings.precision };
    let between = Some(path::walk(&mut walker, court, Objective::Exact));
    let Learning { mut ascent, mut family, .. } = walker;
    ascent.climb(&settings, &mut Vec::new());
    while ascent.empty_surplus(least) > 0 {
        ascent.climb(&settings, &mut Vec::new());
    }
    let (objective, scores) = judged(&ascent, &family, court, settings.precision);
    if choice == PriorChoice::Estimated {
        refit_prior(&mut ascent, &mut family, Partition::Clusters, STEPS);
    }
    let increment = ascent.export();
    (Bootstrap { family, increment, rounds, objective, between }, scores)
}

/// The components of a stage on the merge path: rows and prior follow each merge.
struct Learning<'a, 'b, F: Family, P: Process> {
    ascent: Ascent<'b, F, P>,
    family: F,
    choice: PriorChoice,
    court: Option<&'a Court>,
    precision: Precision,
}

impl<F: Family, P: Process> Walker for Learning<'_, '_, F, P> {
    type Place = (F, Vec<f64>);
    type Court = Court;

    fn n_components(&self) -> usize {
        self.ascent.n_columns()
    }

    fn descend(&mut self, merges: usize) {
        let pairs = self.ascent.best_pairs(merges);
        self.ascent.merge(&pairs);
        self.ascent.step_where_possible(STEPS_AFTER_MERGES);
        if self.choice == PriorChoice::Estimated {
            let steps = upkeep::prior_steps(self.ascent.n_columns());
            refit_prior(&mut self.ascent, &mut self.family, Partition::Level, steps);
        }
    }

    fn place(&self) -> (Self::Place, f64, Scores) {
        let (objective, scores) = judged(&self.ascent, &self.family, self.court, self.precision);
        ((self.family.clone(), self.ascent.memory.sums.clone()), objective, scores)
    }

    fn come_back(&mut self, (family, sums): &Self::Place) {
        self.family.clone_from(family);
        rebase(&mut self.ascent, family.clone());
        self.ascent.restore(sums);
    }
}

/// The objective of the components at hand, and their scores.
fn judged<F: Family, P: Process>(
    ascent: &Ascent<'_, F, P>,
    family: &F,
    court: Option<&Court>,
    precision: Precision,
) -> (f64, Scores) {
    let (labels, mass) = (&ascent.label_statistics(), ascent.batch().mass());
    let Workspace { sums, phi, ln_weights, .. } = &*ascent.memory;
    let process = ascent.posterior().process();
    let stats = sums.chunks_exact(family.n_features());
    let objective = objective_of(family, &process.suited(labels.iter()), stats.zip(labels), mass);
    let components = Components { family, process, sums, phi, ln_weights, labels, mass, precision };
    (objective, court.map(|court| court.scores(&components)).unwrap_or_default())
}

/// The collapsed evidence lower bound of the rows, up to terms of the rows alone.
pub(super) fn objective<F: Family, P: Process>(family: &F, process: &P, increment: &Increment) -> f64 {
    let components = increment.new.iter().map(|evidence| (evidence.stats.as_slice(), &evidence.labels));
    objective_of(family, process, components, increment.mass)
}

/// The same, of components with these sums and labels.
pub(super) fn objective_of<'a, F: Family, P: Process>(
    family: &F,
    process: &P,
    components: impl Iterator<Item = (&'a [f64], &'a LabelStatistics)> + Clone,
    mass: f64,
) -> f64 {
    let empty = family.log_partition(&vec![0.0; family.n_features()]);
    let all = Population::of(components.clone().map(|(_, labels)| labels), mass);
    let of = |(stats, labels): (&[f64], &LabelStatistics)| {
        family.log_partition(stats) - empty + process.score(labels, all) + labels.label_entropy
    };
    process.normaliser(all) + components.map(of).sum::<f64>()
}

/// Re-estimates the prior from the components that are large enough to tell; returns how far it went.
fn refit_prior<F: Family, P: Process>(
    ascent: &mut Ascent<'_, F, P>,
    family: &mut F,
    partition: Partition,
    steps: usize,
) -> f64 {
    let enough = upkeep::enough_to_tell(family);
    let sums = ascent.memory.sums.chunks_exact(family.n_features());
    let components: Vec<&[f64]> = sums.filter(|stats| stats[0] >= enough).collect();
    let mut fitted = family.clone();
    for _ in 0..steps {
        let Some(next) = fitted.refit(&components, partition) else { break };
        fitted = next;
    }
    let distance = moved(family, &fitted);
    family.clone_from(&fitted);
    rebase(ascent, fitted);
    ascent.maximise();
    distance
}

/// Goes on under the prior of this family.
fn rebase<F: Family, P: Process>(ascent: &mut Ascent<'_, F, P>, family: F) {
    let mut under_new_prior = Posterior::prior(family, ascent.posterior().process().clone());
    under_new_prior.version = ascent.posterior().version();
    ascent.rebase(under_new_prior);
}

/// How far the prior went, as a share of its log-partition.
fn moved<F: Family>(before: &F, after: &F) -> f64 {
    let nothing = vec![0.0; before.n_features()];
    let (before, after) = (before.log_partition(&nothing), after.log_partition(&nothing));
    (after - before).abs() / (1.0 + before.abs())
}
