//! What the engine's tests share: a model of every family with rows for it, batches, and the invariants as assertions.
#![allow(dead_code, reason = "each test binary uses its own part")]

pub(crate) mod hooked;

use std::collections::BTreeSet;

use anabranch::batch::Batch;
use anabranch::central::{Absorb, BatchId, Entry, Fold};
use anabranch::engine::BatchSource;
use anabranch::family::{
    AnyFamily, Bernoulli, Block, Categorical, Conjugate, Diagonal, Family, Gaussian, Multinomial, Poisson,
    Product, Spherical,
};
use anabranch::identify::{ComponentId, Target};
use anabranch::posterior::{Evidence, Posterior};
use anabranch::process::{Bound, Dirichlet, LabelStatistics, Process};
use anabranch_testkit::streams::{Columns, stream};

/// Sums of tens of thousands of responsibilities, each rounded to 1e-16, in different orders.
pub(crate) const MASS_ROUNDING: f64 = 1e-9;

/// A log-partition on its own and one that comes with the expectations are summed in different orders.
const REMEMBERED_ROUNDING: f64 = 1e-12;

/// A family and rows of its domain.
pub(crate) struct Model {
    pub(crate) family: AnyFamily,
    pub(crate) rows: Batch,
}

pub(crate) fn rows_of(columns: Columns, seed: u64, n: usize, k: usize, d: usize) -> Batch {
    Batch::new(d, stream(columns, seed, n, k, d)).unwrap()
}

/// The family with this name, with a default prior for `n` rows from `k` groups, and the rows.
pub(crate) fn model(name: &str, seed: u64, n: usize, k: usize) -> Model {
    let columns = match name {
        "gaussian" | "diagonal" | "spherical" => Columns::Reals,
        "bernoulli" => Columns::Bits,
        "categorical" => Columns::Codes,
        "poisson" | "multinomial" => Columns::Counts,
        "product" => return product_model(seed, n, k),
        other => panic!("no family {other}"),
    };
    let d = if columns == Columns::Reals { 2 } else { 6 };
    let rows = rows_of(columns, seed, n, k, d);
    Model { family: default_family(name, &rows), rows }
}

pub(crate) fn default_family(name: &str, rows: &Batch) -> AnyFamily {
    match name {
        "gaussian" => Gaussian::from_rows(rows).unwrap().into(),
        "diagonal" => Diagonal::from_rows(rows).unwrap().into(),
        "spherical" => Spherical::from_rows(rows).unwrap().into(),
        "bernoulli" => Bernoulli::from_rows(rows).unwrap().into(),
        "categorical" => Categorical::from_rows(rows).unwrap().into(),
        "poisson" => Poisson::from_rows(rows).unwrap().into(),
        "multinomial" => Multinomial::from_rows(rows).unwrap().into(),
        other => panic!("no family {other}"),
    }
}

pub(crate) const ALL_FAMILIES: [&str; 8] =
    ["gaussian", "diagonal", "spherical", "bernoulli", "categorical", "poisson", "multinomial", "product"];

/// Two real columns, three bits and one count, out of order.
fn product_model(seed: u64, n: usize, k: usize) -> Model {
    let parts = [
        ("gaussian", rows_of(Columns::Reals, seed, n, k, 2), vec![4, 0]),
        ("bernoulli", rows_of(Columns::Bits, seed + 1, n, k, 3), vec![1, 2, 5]),
        ("poisson", rows_of(Columns::Counts, seed + 2, n, k, 1), vec![3]),
    ];
    let mut values = vec![0.0; n * 6];
    for (_, rows, columns) in &parts {
        for (row_ix, row) in rows.rows().enumerate() {
            row.iter().zip(columns).for_each(|(value, column)| values[row_ix * 6 + column] = *value);
        }
    }
    let blocks = parts.map(|(name, rows, columns)| Block { columns, family: default_family(name, &rows) });
    Model { family: Product::new(blocks.into()).unwrap().into(), rows: Batch::new(6, values).unwrap() }
}

pub(crate) fn process() -> Dirichlet {
    Dirichlet::new(1.0, Bound::Paper).unwrap()
}

/// The rows cut into minibatches.
pub(crate) fn cut(rows: &Batch, size: usize) -> Vec<Batch> {
    let d = rows.dimensions();
    rows.values().chunks(size * d).map(|chunk| Batch::new(d, chunk.to_vec()).unwrap()).collect()
}

/// A source of named minibatches that counts what was taken, and fails in the end if told to.
pub(crate) struct Numbered {
    pub(crate) batches: Vec<(BatchId, Batch)>,
    pub(crate) taken: usize,
    pub(crate) fails_after: Option<usize>,
}

/// The failure of [`Numbered`].
#[derive(Debug, PartialEq)]
pub(crate) struct BrokenSource;

impl Numbered {
    pub(crate) fn new(batches: Vec<(BatchId, Batch)>) -> Self {
        Self { batches, taken: 0, fails_after: None }
    }

    pub(crate) fn in_order(batches: &[Batch]) -> Self {
        Self::new((0..).map(BatchId).zip(batches.iter().cloned()).collect())
    }

    pub(crate) fn taken(&self) -> &[(BatchId, Batch)] {
        &self.batches[..self.taken]
    }
}

impl BatchSource for Numbered {
    type Batch = Batch;
    type Error = BrokenSource;

    fn next(&mut self) -> Result<Option<(BatchId, Batch)>, BrokenSource> {
        if self.fails_after == Some(self.taken) {
            return Err(BrokenSource);
        }
        let next = self.batches.get(self.taken).cloned();
        self.taken += usize::from(next.is_some());
        Ok(next)
    }
}

/// Evidence of `count` rows that certainly belong to the component: whole numbers, so that sums are exact.
pub(crate) fn certain(count: f64, rest: &[f64]) -> Evidence {
    let mut labels = LabelStatistics::default();
    labels.observe(1.0, count);
    Evidence { stats: std::iter::once(count).chain(rest.iter().copied()).collect(), labels }
}

/// An entry whose mass is that of its evidence.
pub(crate) fn absorb(
    batch: u64,
    base: u64,
    existing: Vec<(u64, Evidence)>,
    new: Vec<(Target, Evidence)>,
) -> Absorb {
    let counts = existing.iter().map(|(_, e)| e).chain(new.iter().map(|(_, e)| e));
    let mass = counts.map(|e| e.labels.expected_count).sum();
    let existing = existing.into_iter().map(|(id, e)| (ComponentId(id), e)).collect();
    Absorb { batch: BatchId(batch), base, pass: 0, mass, familiarity: None, existing, new }
}

/// A journal whose first entry creates these components.
pub(crate) fn founded<F: Family>(
    family: F,
    process: Dirichlet,
    components: Vec<Evidence>,
) -> Fold<F, Dirichlet> {
    let mut fold = Fold::new(family, process);
    let new = components.into_iter().map(|e| (Target::New, e)).collect();
    fold.apply(&Entry::Absorb(absorb(0, 0, vec![], new))).unwrap();
    fold
}

/// MASS, IDENT and PROPER of a snapshot.
pub(crate) fn assert_snapshot_invariants<F: Family, P: Process>(posterior: &Posterior<F, P>) {
    let (mass, sum) = (posterior.mass(), posterior.expected_mass());
    assert!((mass - sum).abs() <= MASS_ROUNDING * (1.0 + mass), "MASS: absorbed {mass}, expected {sum}");
    let ids: Vec<ComponentId> = posterior.components().iter().map(|c| c.id()).collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "IDENT: {ids:?} are not ascending");
    for (retired, target) in posterior.redirects() {
        assert!(posterior.position(*retired).is_none(), "IDENT: {retired} is retired and lives");
        assert!(posterior.position(posterior.resolve(*target)).is_some(), "IDENT: {retired} leads nowhere");
    }
    for component in posterior.components() {
        let (id, evidence) = (component.id(), component.evidence());
        assert!(component.born() <= posterior.version(), "IDENT: {id} is born in the future");
        assert!(evidence.stats.iter().all(|s| s.is_finite()), "PROPER: statistics of {id}");
        assert!(evidence.labels.log_p_empty <= 0.0 && evidence.labels.label_entropy >= 0.0, "PROPER: {id}");
        let fresh = posterior.family().log_partition(&evidence.stats);
        let expectation = component.expectation(posterior.family());
        assert!(fresh.is_finite() && expectation.phi.iter().all(|v| v.is_finite()), "PROPER: {id}");
        let drift = (fresh - expectation.log_partition).abs();
        let remembered = drift <= REMEMBERED_ROUNDING * (1.0 + fresh.abs());
        assert!(remembered, "{id}: what is remembered is not what the evidence says");
    }
}

/// The snapshot's invariants, ids never reused, and ONCE: exactly these minibatches are in, with their whole mass.
pub(crate) fn assert_holds<F: Family, P: Process>(fold: &Fold<F, P>, batches: &[(BatchId, Batch)]) {
    let posterior = fold.posterior();
    assert_snapshot_invariants(posterior);
    assert!(posterior.components().iter().all(|c| c.id().0 < fold.next_id()), "IDENT: an id may come again");
    let ids: BTreeSet<u64> = batches.iter().map(|(id, _)| id.0).collect();
    assert_eq!(fold.absorbed().len(), ids.len() as u64, "ONCE");
    assert!(ids.iter().all(|id| fold.absorbed().contains(BatchId(*id))), "ONCE");
    let mut seen = BTreeSet::new();
    let mass: f64 = batches.iter().filter(|(id, _)| seen.insert(id.0)).map(|(_, b)| b.mass()).sum();
    let difference = (posterior.mass() - mass).abs();
    assert!(difference <= MASS_ROUNDING * (1.0 + mass), "MASS: {} of {mass}", posterior.mass());
}

/// Every number of a posterior, bit for bit.
pub(crate) fn fingerprint<F: Conjugate, P: Process>(posterior: &Posterior<F, P>) -> Vec<u64> {
    let mut bits = vec![posterior.version(), posterior.mass().to_bits()];
    for component in posterior.components() {
        let labels = component.evidence().labels;
        bits.extend([component.id().0, component.born()]);
        bits.extend(
            [labels.log_p_empty, labels.expected_count, labels.label_entropy].map(|v: f64| v.to_bits()),
        );
        bits.extend(component.evidence().stats.iter().map(|v| v.to_bits()));
    }
    bits.extend(posterior.redirects().iter().flat_map(|(from, to)| [from.0, to.0]));
    bits
}
