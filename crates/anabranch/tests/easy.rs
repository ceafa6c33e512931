//! Data whose number of clusters anybody can see: every family, few rows and many, in any order, finds that number.

mod support;

use anabranch::batch::Batch;
use anabranch::central::Central;
use anabranch::engine::{self, Config, Schedule};
use anabranch::family::{AnyFamily, Block, Product};
use anabranch::infer::PriorChoice;
use anabranch::metric::Contingency;
use anabranch::posterior::Predictor;
use anabranch::process::{AnyProcess, Bound};
use rand::{Rng, RngExt, SeedableRng};
use rand_distr::{Distribution, Poisson, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;
use support::default_family;

/// Components that count hold at least this share of the rows.
const SHARE: f64 = 0.005;

/// Rows of known clusters.
struct Drawn {
    rows: Batch,
    labels: Vec<usize>,
}

fn normal(rng: &mut impl Rng) -> f64 {
    StandardNormal.sample(rng)
}

fn generator(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

/// Rows of `k` clusters, each drawn by `row(label, rng)`.
fn drawn(
    n: usize,
    k: usize,
    seed: u64,
    mut row: impl FnMut(usize, &mut Xoshiro256PlusPlus) -> Vec<f64>,
) -> Drawn {
    let rng = &mut generator(seed);
    let labels: Vec<usize> = (0..n).map(|_| rng.random_range(0..k)).collect();
    let rows: Vec<Vec<f64>> = labels.iter().map(|label| row(*label, rng)).collect();
    Drawn { rows: Batch::new(rows[0].len(), rows.concat()).unwrap(), labels }
}

/// Round clusters in a row, ten standard deviations apart.
fn blobs(n: usize, k: usize, d: usize, seed: u64) -> Drawn {
    drawn(n, k, seed, |label, rng| {
        (0..d).map(|column| normal(rng) + if column == 0 { 10.0 * label as f64 } else { 0.0 }).collect()
    })
}

/// Clusters that are clearly different in the kind of columns that the family is for.
fn clusters_for(family: &str, n: usize, k: usize, seed: u64) -> Drawn {
    let choices = &mut generator(seed ^ 0xabcd);
    let mut pattern = |columns: usize, values: usize| -> Vec<Vec<usize>> {
        (0..k).map(|_| (0..columns).map(|_| choices.random_range(0..values)).collect()).collect()
    };
    match family {
        "gaussian" | "diagonal" | "spherical" => blobs(n, k, 3, seed),
        "bernoulli" => {
            let likely = pattern(24, 2);
            drawn(n, k, seed, |label, rng| {
                likely[label].iter().map(|one| f64::from(rng.random_bool(0.05 + 0.9 * *one as f64))).collect()
            })
        }
        "categorical" => {
            let likely = pattern(12, 4);
            drawn(n, k, seed, |label, rng| {
                let cell = |own: &usize, rng: &mut Xoshiro256PlusPlus| {
                    if rng.random_bool(0.9) { *own } else { rng.random_range(0..4) }
                };
                likely[label].iter().map(|own| cell(own, rng) as f64).collect()
            })
        }
        "poisson" => {
            let likely = pattern(10, 2);
            drawn(n, k, seed, |label, rng| {
                likely[label]
                    .iter()
                    .map(|many| Poisson::new([2.0, 25.0][*many]).unwrap().sample(rng))
                    .collect()
            })
        }
        "multinomial" => drawn(n, k, seed, |label, rng| {
            let mut counts = vec![0.0; 30];
            for _ in 0..60 {
                let own = rng.random_bool(0.9);
                let word = if own { 3 * label + rng.random_range(0..3) } else { rng.random_range(0..30) };
                counts[word] += 1.0;
            }
            counts
        }),
        "product" => {
            let (likely, many) = (pattern(8, 2), pattern(2, 2));
            drawn(n, k, seed, |label, rng| {
                let mut row = vec![normal(rng) + 10.0 * label as f64, normal(rng)];
                row.extend(
                    likely[label].iter().map(|one| f64::from(rng.random_bool(0.1 + 0.8 * *one as f64))),
                );
                row.extend(
                    many[label].iter().map(|many| Poisson::new([2.0, 20.0][*many]).unwrap().sample(rng)),
                );
                row
            })
        }
        other => panic!("no family {other}"),
    }
}

fn family_for(name: &str, rows: &Batch) -> AnyFamily {
    if name != "product" {
        return default_family(name, rows);
    }
    let block = |name: &str, columns: std::ops::Range<usize>| {
        let values = rows.rows().flat_map(|row| row[columns.clone()].to_vec()).collect();
        let rows = Batch::new(columns.len(), values).unwrap();
        Block { columns: columns.collect(), family: default_family(name, &rows) }
    };
    Product::new(vec![block("gaussian", 0..2), block("bernoulli", 2..10), block("poisson", 10..12)])
        .unwrap()
        .into()
}

/// Learns as the command does by default, with another first minibatch and number of workers if told.
struct Learning {
    process: AnyProcess,
    prior: PriorChoice,
    first: usize,
    workers: usize,
    seed: u64,
}

impl Default for Learning {
    fn default() -> Self {
        let process = AnyProcess::new(5.0, None, Bound::Paper).unwrap();
        Self { process, prior: PriorChoice::Estimated, first: 20_000, workers: 2, seed: 0 }
    }
}

impl Learning {
    fn learn(&self, family: AnyFamily, rows: &Batch) -> Central<AnyFamily, AnyProcess> {
        let central = Central::new(family, self.process);
        let config = Config {
            threads: 2,
            workers: self.workers,
            schedule: Schedule::Deterministic,
            bootstrap_rows: self.first,
            prior: self.prior,
            seed: self.seed,
            ..Config::default()
        };
        let later = rows.tail(self.first);
        let batches = std::iter::once(rows.head(self.first)).chain(later.pieces(256));
        let mut source = batches.collect::<Vec<_>>().into_iter().enumerate();
        let Ok(_) = engine::bootstrap(&central, &mut source, &config, &mut ());
        let Ok(()) = engine::run(&central, &mut source, &config, &mut ());
        engine::finish(&central, &config);
        central
    }
}

fn count(central: &Central<AnyFamily, AnyProcess>) -> usize {
    let posterior = central.snapshot();
    posterior.components().iter().filter(|c| c.expected_count() >= SHARE * posterior.mass()).count()
}

fn agreement(central: &Central<AnyFamily, AnyProcess>, data: &Drawn) -> f64 {
    let predictor = Predictor::new(&central.snapshot());
    let mut table = Contingency::default();
    for (row, label) in data.rows.rows().zip(&data.labels) {
        table.add(predictor.label(row).unwrap().0, *label as i64);
    }
    table.adjusted_rand().unwrap_or(1.0)
}

fn assert_found(name: &str, data: &Drawn, k: usize, learning: &Learning) {
    let central = learning.learn(family_for(name, &data.rows), &data.rows);
    assert_eq!(count(&central), k, "{name}, {} rows, {} columns", data.rows.n_rows(), data.rows.dimensions());
    assert!(agreement(&central, data) >= 0.99, "{name}");
}

#[test]
fn blobs_in_a_row_are_counted_whatever_the_draw() {
    for seed in 0..6 {
        for k in [1, 2, 4] {
            assert_found("gaussian", &blobs(4000, k, 2, seed), k, &Learning { seed, ..Learning::default() });
        }
    }
}

#[test]
fn blobs_are_counted_when_the_stream_goes_on() {
    for (seed, k) in [(0, 2), (1, 4), (2, 3)] {
        let learning = Learning { first: 3000, seed, ..Learning::default() };
        assert_found("gaussian", &blobs(12_000, k, 2, 10 + seed), k, &learning);
    }
}

/// A hundred and a thousand standard deviations away, among the rows that the first minibatch is fitted to and among those that only join.
#[test]
fn a_row_far_out_is_no_reason_to_count_otherwise() {
    for (n, far) in [(1000, 1e2), (1000, 1e3), (9000, 1e2), (9000, 1e3)] {
        for (seed, place) in [(0, 5), (1, n / 2), (2, n - 1)] {
            let mut data = blobs(n, 4, 2, 20 + seed);
            let mut values = data.rows.values().to_vec();
            values[2 * place] = far;
            data.rows = Batch::new(2, values).unwrap();
            assert_found("gaussian", &data, 4, &Learning { seed, ..Learning::default() });
        }
    }
}

#[test]
fn one_gaussian_in_many_columns_is_one_component() {
    for seed in 0..2 {
        assert_found("gaussian", &blobs(3000, 1, 30, seed), 1, &Learning { seed, ..Learning::default() });
    }
}

#[test]
fn one_gaussian_of_few_rows_is_one_component() {
    for d in [1, 2, 5] {
        for n in [10, 20, 50, 200].into_iter().filter(|n| *n >= 5 * d) {
            for seed in 0..5 {
                assert_found("gaussian", &blobs(n, 1, d, 100 + seed), 1, &Learning::default());
            }
        }
    }
}

#[test]
fn every_family_counts_clusters_that_are_clearly_different() {
    for name in support::ALL_FAMILIES {
        for k in [1, 2, 5, 10] {
            assert_found(name, &clusters_for(name, 3000, k, k as u64), k, &Learning::default());
        }
    }
}

#[test]
fn a_given_prior_counts_too() {
    for k in [1, 4] {
        let learning = Learning { prior: PriorChoice::Given, ..Learning::default() };
        assert_found("gaussian", &blobs(3000, k, 2, k as u64), k, &learning);
    }
}

#[test]
fn pitman_yor_keeps_small_clusters_and_invents_none() {
    // One large cluster and nine of thirty rows.
    let rng = &mut generator(5);
    let labels: Vec<usize> = (0..3000).map(|ix| if ix < 270 { 1 + ix / 30 } else { 0 }).collect();
    let values = labels.iter().flat_map(|label| [normal(rng) + 15.0 * *label as f64, normal(rng)]).collect();
    let data = Drawn { rows: Batch::new(2, values).unwrap(), labels };
    let process = AnyProcess::new(5.0, Some(0.5.into()), Bound::Paper).unwrap();
    assert_found("gaussian", &data, 10, &Learning { process, ..Learning::default() });
}

#[test]
fn clusters_that_come_one_after_the_other_are_counted() {
    let mut data = blobs(10_000, 5, 2, 3);
    let mut order: Vec<usize> = (0..data.labels.len()).collect();
    order.sort_by_key(|row| data.labels[*row]);
    let values = order.iter().flat_map(|row| data.rows.row(*row).to_vec()).collect();
    data = Drawn {
        rows: Batch::new(2, values).unwrap(),
        labels: order.iter().map(|row| data.labels[*row]).collect(),
    };
    for workers in [1, 8] {
        let learning = Learning { first: 2500, workers, ..Learning::default() };
        let central = learning.learn(family_for("gaussian", &data.rows), &data.rows);
        assert_eq!(count(&central), 5, "{workers} workers");
    }
}

#[test]
fn rounded_clusters_are_counted_as_if_they_were_not() {
    for (seed, deviation) in [0.7, 1.0, 2.0, 5.0].into_iter().enumerate() {
        let exact = blobs(4000, 4, 2, 60 + seed as u64);
        let values = exact.rows.values().iter().map(|value| (deviation * value).round()).collect();
        let rounded = Drawn { rows: Batch::new(2, values).unwrap(), labels: exact.labels };
        assert_found("gaussian", &rounded, 4, &Learning::default());
        assert_found("diagonal", &rounded, 4, &Learning::default());
    }
}

#[test]
fn rows_that_repeat_make_no_clusters_of_their_own() {
    for (different, copies) in [(800, 5), (100, 50)] {
        let once = blobs(different, 4, 2, 70);
        let order: Vec<usize> = (0..different * copies).map(|ix| ix * 7919 % different).collect();
        let labels = order.iter().map(|row| once.labels[*row]).collect();
        let repeated = Drawn { rows: once.rows.select(&order), labels };
        assert_found("gaussian", &repeated, 4, &Learning::default());
        let streamed = Learning { first: 2000, ..Learning::default() };
        assert_found("gaussian", &repeated, 4, &streamed);
    }
}

#[test]
fn the_number_is_certain_where_anybody_sees_it_and_uncertain_where_nobody_does() {
    let between = |data: &Drawn| {
        let central = Learning::default().learn(family_for("gaussian", &data.rows), &data.rows);
        central.between().unwrap()
    };
    let clear = between(&blobs(3000, 4, 2, 80));
    assert_eq!((clear.fewest, clear.most), (4, 4));
    // Two clusters three standard deviations apart, of a hundred rows each: some draws show them, some hardly.
    let doubtful = (0..12).filter(|draw| {
        let close = drawn(200, 2, 90 + draw, |label, rng| vec![normal(rng) + 3.0 * label as f64]);
        let found = between(&close);
        found.fewest < found.most
    });
    assert!(doubtful.count() >= 2);
}
