//! The models beyond the Dirichlet process: identification on and off over workers, and the small clusters of power laws.
//!
//! Identification: the paper's method alone (no bootstrap, no upkeep), minibatches of 50 rows, as in its Figure 3. The
//! Pitman–Yor mixture learns clusters whose sizes come from PY(1, 0.7), well apart in the plane; the beta process learns
//! pictures of 6 × 6 cells that are made of four blocks.

use std::sync::Arc;

use anabranch::batch::Batch;
use anabranch::central::Central;
use anabranch::engine::{Config, Schedule};
use anabranch::family::{AnyFamily, Conjugate, Frame, Gaussian, LinearGaussian, NormalInverseWishart};
use anabranch::identify::Identification;
use anabranch::infer::{FeatureSettings, Inference, PriorChoice, Settings};
use anabranch::learner::run::Run;
use anabranch::posterior::{FeaturePredictor, Posterior, Predictor};
use anabranch::process::{AnyProcess, Beta, Bound, Process};
use anabranch_io::Source;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::json;

use super::contest::minibatches;
use super::folder::{Claim, Evidence, Table};
use super::spread::Spread;
use super::{check_stop, say, threads};
use crate::args::ExperimentArgs;
use crate::failure::Failure;
use crate::features::Pictures;
use crate::picture::{Axis, Bar, Colour, Figure, Layer, LegendEntry, LegendMark, Panel, Path, Stroke, Ticks};
use crate::report::WIDTH;

/// Rows of a minibatch.
const BATCH_ROWS: usize = 50;
/// The process that the sizes come from.
const ALPHA: f64 = 1.0;
const DISCOUNT: f64 = 0.7;
/// Distance of neighbouring clusters, whose deviation is 1.
const APART: f64 = 10.0;
/// Classes of cluster sizes, from and below.
const CLASSES: [(usize, usize, &str); 4] =
    [(2, 5, "2–4"), (5, 10, "5–9"), (10, 20, "10–19"), (20, usize::MAX, "20 +")];

/// Sizes of the experiment.
struct Plan {
    trials: u32,
    workers: Vec<usize>,
    rows: usize,
    pictures: usize,
}

/// One run: with or without identification, by so many workers.
struct Measured {
    on: bool,
    workers: usize,
    /// Held-out log density of a row, or error of a cell.
    quality: f64,
    components: usize,
}

/// Clusters found, and there, in each class of sizes.
struct Found {
    model: &'static str,
    classes: [(usize, usize); CLASSES.len()],
}

/// Runs the experiment.
pub(super) fn run(args: &ExperimentArgs) -> Result<Evidence, Failure> {
    let plan = match args.quick {
        true => Plan { trials: args.trials.unwrap_or(1), workers: vec![1, 16], rows: 1500, pictures: 600 },
        false => Plan {
            trials: args.trials.unwrap_or(5),
            workers: vec![1, 2, 4, 8, 16, 32],
            rows: 10_000,
            pictures: 4000,
        },
    };
    let (mut pitman_yor, mut beta, mut found) = (Vec::new(), Vec::new(), Vec::new());
    for trial in 0..plan.trials {
        let seed = args.seed.wrapping_add(u64::from(trial));
        for workers in &plan.workers {
            for on in [true, false] {
                check_stop()?;
                pitman_yor.push(mixture(args, &plan, *workers, on, seed)?);
                beta.push(features(args, &plan, *workers, on, seed)?);
            }
        }
        found.extend(small_clusters(args, &plan, seed)?);
        say(args, format_args!("trial {} of {} is done", trial + 1, plan.trials));
    }
    Ok(evidence(&plan, &pitman_yor, &beta, &found))
}

/// Rows in the plane with their clusters: sizes from a Pitman–Yor process, centres on a grid.
struct PowerLaw {
    rows: Batch,
    labels: Vec<usize>,
    sizes: Vec<usize>,
}

fn power_law(n: usize, seed: u64) -> PowerLaw {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut sizes: Vec<usize> = Vec::new();
    let mut labels: Vec<usize> = Vec::with_capacity(n);
    for seat in 0..n {
        let mut at = rng.random::<f64>() * (ALPHA + seat as f64);
        let found = sizes.iter().position(|size| {
            at -= *size as f64 - DISCOUNT;
            at < 0.0
        });
        let label = found.unwrap_or(sizes.len());
        match found {
            Some(label) => sizes[label] += 1,
            None => sizes.push(1),
        }
        labels.push(label);
    }
    let side = (sizes.len() as f64).sqrt().ceil() as usize;
    let mut places: Vec<usize> = (0..side * side).collect();
    for ix in (1..places.len()).rev() {
        places.swap(ix, rng.random_range(0..=ix));
    }
    // The stream is shuffled: otherwise early rows would all be of large clusters.
    for ix in (1..n).rev() {
        labels.swap(ix, rng.random_range(0..=ix));
    }
    let mut values = Vec::with_capacity(2 * n);
    for label in &labels {
        for centre in [places[*label] % side, places[*label] / side] {
            let epsilon: f64 = StandardNormal.sample(&mut rng);
            values.push(APART * centre as f64 + epsilon);
        }
    }
    PowerLaw { rows: Batch::new(2, values).expect("draws are finite"), labels, sizes }
}

/// Round clusters of deviation about 1, anywhere among the rows.
fn true_family(rows: &Batch) -> Result<AnyFamily, Failure> {
    let frame = Frame::from_rows(rows)?;
    let mean = frame.shift().to_vec();
    let spread = frame.scale().iter().sum::<f64>() / 2.0;
    let prior = NormalInverseWishart::with_diagonal_psi(mean, 1.0 / (spread * spread), &[3.0, 3.0], 6.0);
    Ok(AnyFamily::Gaussian(Gaussian::with_prior_in_data_units(frame, prior)?))
}

fn identification(on: bool) -> Identification {
    if on { Identification::Optimal } else { Identification::ByPosition }
}

/// The paper's method with this inference.
fn paper<I>(args: &ExperimentArgs, inference: I, workers: usize, on: bool, seed: u64) -> Config<I> {
    Config {
        threads: threads(args),
        workers,
        schedule: Schedule::Deterministic,
        seed,
        identification: identification(on),
        prior: PriorChoice::Given,
        bootstrap_rows: 0,
        upkeep: false,
        ..Config::new(inference)
    }
}

/// What a whole run learns.
fn learned<F: Conjugate, P: Process, I: Inference<F, P, Batch = Batch>>(
    family: F,
    process: P,
    config: Config<I>,
    minibatches: impl Iterator<Item = Batch> + Send,
) -> Arc<Posterior<F, P>> {
    let run = Run::new(Central::new(family, process), config);
    let Ok(()) = run.through(&mut minibatches.enumerate(), &mut ());
    run.centre().snapshot()
}

fn mixture(
    args: &ExperimentArgs,
    plan: &Plan,
    workers: usize,
    on: bool,
    seed: u64,
) -> Result<Measured, Failure> {
    let data = power_law(plan.rows + plan.rows / 5, seed);
    let (rows, test) = (data.rows.head(plan.rows), data.rows.tail(plan.rows));
    let process = AnyProcess::new(ALPHA, Some(DISCOUNT.into()), Bound::Paper).map_err(Failure::input)?;
    let config = paper(args, Settings { surprise: false, ..Settings::default() }, workers, on, seed);
    let posterior = learned(true_family(&rows)?, process, config, minibatches(&rows, 0, BATCH_ROWS));
    let quality = Predictor::new(&posterior).mean_ln_density(&test).unwrap_or(f64::NAN);
    Ok(Measured { on, workers, quality, components: posterior.components().len() })
}

fn pictures(n: usize, seed: u64) -> Result<Batch, Failure> {
    let all = Pictures::new(n as u64, seed).next_batch(n)?;
    all.ok_or_else(|| Failure::Internal { message: "there are no pictures".into() })
}

fn features(
    args: &ExperimentArgs,
    plan: &Plan,
    workers: usize,
    on: bool,
    seed: u64,
) -> Result<Measured, Failure> {
    let (rows, test) = (pictures(plan.pictures, seed)?, pictures(500, seed ^ 0x7E57)?);
    let family = LinearGaussian::new(rows.dimensions(), 0.25, 0.25)?;
    let process = Beta::new(1.0, 1.0, Bound::Paper).map_err(Failure::input)?;
    let config = paper(args, FeatureSettings::default(), workers, on, seed);
    let posterior = learned(family, process, config, minibatches(&rows, 0, BATCH_ROWS));
    let predictor = FeaturePredictor::new(&posterior);
    let quality = crate::features::reconstruction_error(&predictor, &test).unwrap_or(f64::NAN);
    Ok(Measured { on, workers, quality, components: posterior.components().len() })
}

/// The same rows with all defaults but the process.
fn small_clusters(args: &ExperimentArgs, plan: &Plan, seed: u64) -> Result<[Found; 2], Failure> {
    let data = power_law(plan.rows, seed);
    let fit = |model: &'static str, alpha: f64, discount: Option<f64>| -> Result<Found, Failure> {
        let process =
            AnyProcess::new(alpha, discount.map(Into::into), Bound::Paper).map_err(Failure::input)?;
        let first = data.rows.head(data.rows.n_rows() / 4);
        let family = AnyFamily::Gaussian(Gaussian::from_rows(&first)?);
        let config = Config {
            threads: threads(args),
            workers: 8,
            schedule: Schedule::Deterministic,
            seed,
            bootstrap_rows: first.n_rows(),
            ..Config::default()
        };
        let posterior = learned(family, process, config, minibatches(&data.rows, first.n_rows(), 256));
        Ok(Found { model, classes: found(&posterior, &data) })
    };
    Ok([fit("dp", ALPHA, None)?, fit("py", ALPHA, Some(DISCOUNT))?])
}

/// A cluster is found when one component has more than half of its rows, and they are more than half of the component's.
fn found(posterior: &Posterior<AnyFamily, AnyProcess>, data: &PowerLaw) -> [(usize, usize); CLASSES.len()] {
    use std::collections::BTreeMap;
    let predictor = Predictor::new(posterior);
    let mut pairs: BTreeMap<(usize, u64), usize> = BTreeMap::new();
    let mut of_component: BTreeMap<u64, usize> = BTreeMap::new();
    for (row, label) in data.rows.rows().zip(&data.labels) {
        let component = predictor.label(row).map_or(u64::MAX, |id| id.0);
        *pairs.entry((*label, component)).or_default() += 1;
        *of_component.entry(component).or_default() += 1;
    }
    let is_found = |label: usize| {
        let own = pairs.range((label, 0)..=(label, u64::MAX));
        own.max_by_key(|(_, count)| **count).is_some_and(|((_, component), count)| {
            2 * count > data.sizes[label] && 2 * count > of_component[component]
        })
    };
    CLASSES.map(|(from, below, _)| {
        let of_class = (0..data.sizes.len()).filter(|label| (from..below).contains(&data.sizes[*label]));
        let there: Vec<usize> = of_class.collect();
        (there.iter().filter(|label| is_found(**label)).count(), there.len())
    })
}

fn spread(measured: &[Measured], on: bool, workers: usize, value: impl Fn(&Measured) -> f64) -> Spread {
    let same = measured.iter().filter(|run| run.on == on && run.workers == workers);
    Spread::of(same.map(value))
}

fn evidence(plan: &Plan, pitman_yor: &[Measured], beta: &[Measured], small: &[Found]) -> Evidence {
    let (one, most) = (plan.workers[0], plan.workers[plan.workers.len() - 1]);
    let at = |measured: &[Measured], on: bool, workers: usize| {
        spread(measured, on, workers, |run| run.quality).mean
    };
    let claim = |name: &str, measured: &[Measured], worse: f64| {
        // How much worse the most workers are than one: with identification, and without.
        let lost = |on: bool| worse * (at(measured, on, most) - at(measured, true, one));
        Claim {
            text: format!("{name}: identification holds what many workers lose without it"),
            measured: format!(
                "from {one} to {most} workers {:.3} worse with it, {:.3} without",
                lost(true),
                lost(false)
            ),
            holds: lost(true) < lost(false),
        }
    };
    let total = |model: &str| -> usize {
        small.iter().filter(|f| f.model == model).flat_map(|f| &f.classes[..3]).map(|(found, _)| found).sum()
    };
    Evidence {
        title: "Pitman–Yor mixtures and beta-process features".into(),
        lead: format!(
            "The paper's method, {BATCH_ROWS} rows a minibatch, {} trials. Clusters in the plane with sizes from PY({ALPHA}, {DISCOUNT}); pictures of 6 × 6 cells made of four blocks.",
            plan.trials
        ),
        claims: vec![
            claim("Pitman–Yor mixture", pitman_yor, -1.0),
            claim("Beta-process features", beta, 1.0),
            Claim {
                text:
                    "A Pitman–Yor mixture finds more of the small clusters than a Dirichlet process mixture"
                        .into(),
                measured: format!("{} of fewer than 20 rows against {}", total("py"), total("dp")),
                holds: total("py") > total("dp"),
            },
        ],
        tables: vec![
            table("pitman-yor", "held-out log-likelihood", plan, pitman_yor),
            table("beta", "error of a held-out cell", plan, beta),
            small_table(small),
        ],
        figures: vec![
            figure("pitman-yor", "Pitman–Yor mixture", "held-out log-likelihood of a row", plan, pitman_yor),
            figure("beta", "Beta-process features", "error of a held-out cell (noise: 0.5)", plan, beta),
            small_figure(small),
        ],
        images: Vec::new(),
        results: json!({
            "pitman_yor": summary(plan, pitman_yor), "beta": summary(plan, beta),
            "small_clusters": { "dp": total("dp"), "py": total("py") },
        }),
    }
}

fn summary(plan: &Plan, measured: &[Measured]) -> Vec<serde_json::Value> {
    let both = plan.workers.iter().flat_map(|workers| [(*workers, true), (*workers, false)]);
    both.map(|(workers, on)| {
        json!({
            "workers": workers, "identify": if on { "on" } else { "off" },
            "quality": spread(measured, on, workers, |run| run.quality),
            "components": spread(measured, on, workers, |run| run.components as f64),
        })
    })
    .collect()
}

fn table(name: &'static str, quality: &str, plan: &Plan, measured: &[Measured]) -> Table {
    let both = plan.workers.iter().flat_map(|workers| [(*workers, true), (*workers, false)]);
    let row = |(workers, on): (usize, bool)| {
        vec![
            workers.to_string(),
            if on { "on" } else { "off" }.to_owned(),
            spread(measured, on, workers, |run| run.quality).text(3),
            spread(measured, on, workers, |run| run.components as f64).text(0),
        ]
    };
    Table {
        name,
        caption: format!("{name}: {quality}, and components"),
        header: vec!["workers", "identify", "quality", "components"],
        rows: both.map(row).collect(),
        on_page: true,
    }
}

fn small_sums(small: &[Found], model: &str) -> [(usize, usize); CLASSES.len()] {
    let mut sums = [(0, 0); CLASSES.len()];
    for found in small.iter().filter(|found| found.model == model) {
        for (sum, (found, there)) in sums.iter_mut().zip(found.classes) {
            *sum = (sum.0 + found, sum.1 + there);
        }
    }
    sums
}

fn small_table(small: &[Found]) -> Table {
    let (dp, py) = (small_sums(small, "dp"), small_sums(small, "py"));
    let row = |ix: usize| {
        vec![CLASSES[ix].2.to_owned(), dp[ix].1.to_string(), dp[ix].0.to_string(), py[ix].0.to_string()]
    };
    Table {
        name: "small-clusters",
        caption: "Clusters found, by their sizes, over all trials".into(),
        header: vec!["rows of the cluster", "there", "found by dp", "found by py"],
        rows: (0..CLASSES.len()).map(row).collect(),
        on_page: true,
    }
}

fn small_figure(small: &[Found]) -> Figure {
    let bars = |model: &str, shift: f64, colour: Colour| -> Vec<Bar> {
        let share = |(found, there): (usize, usize)| 100.0 * found as f64 / there.max(1) as f64;
        let sums = small_sums(small, model);
        (0..CLASSES.len())
            .map(|ix| Bar {
                across: (ix as f64 + shift, ix as f64 + shift + 0.35),
                value: share(sums[ix]),
                colour,
                label: format!("{:.0} %", share(sums[ix])),
            })
            .collect()
    };
    let mut all = bars("dp", 0.1, Colour::CONTRAST);
    all.extend(bars("py", 0.5, Colour::ACCENT));
    Figure {
        name: "small-clusters".into(),
        title: "Clusters found, by their sizes".into(),
        subtitle: format!(
            "Sizes from PY({ALPHA}, {DISCOUNT}): per cent of the clusters of each class of sizes."
        ),
        description: "Bars: share of clusters found by a Dirichlet and by a Pitman–Yor process mixture."
            .into(),
        width: WIDTH,
        legend: [("Dirichlet process", Colour::CONTRAST), ("Pitman–Yor process", Colour::ACCENT)]
            .map(|(text, colour)| LegendEntry { mark: LegendMark::Dot, colour, text: text.into() })
            .into(),
        panels: vec![Panel {
            height: 240.0,
            x: Axis::linear("rows of a cluster").with_range(0.0, CLASSES.len() as f64).with_ticks(
                Ticks::Named(
                    (0..).zip(CLASSES).map(|(ix, c)| (f64::from(ix) + 0.475, c.2.to_owned())).collect(),
                ),
            ),
            y: Axis::linear("found, per cent").with_range(0.0, 100.0),
            layers: vec![Layer::Bars { bars: all, direction: crate::picture::Direction::Vertical }],
        }],
        notes: Vec::new(),
    }
}

fn figure(name: &str, title: &str, quality: &str, plan: &Plan, measured: &[Measured]) -> Figure {
    let layers = |value: &dyn Fn(&Measured) -> f64| -> Vec<Layer> {
        let mut layers = Vec::new();
        for (on, colour) in [(false, Colour::CONTRAST), (true, Colour::ACCENT)] {
            let points: Vec<(f64, Spread)> = plan
                .workers
                .iter()
                .map(|workers| (*workers as f64, spread(measured, on, *workers, value)))
                .collect();
            let line = |points: Vec<(f64, f64)>| Layer::Line {
                points,
                path: Path::Straight,
                colour,
                stroke: Stroke::Solid,
            };
            layers.push(line(points.iter().map(|(x, s)| (*x, s.mean)).collect()));
            layers.extend(
                points
                    .iter()
                    .map(|(x, s)| line(vec![(*x, s.mean - s.deviation), (*x, s.mean + s.deviation)])),
            );
        }
        layers
    };
    let most = plan.workers[plan.workers.len() - 1] as f64 + 1.0;
    let axis = |label: &str| Axis::linear(label).with_ticks(Ticks::Whole).with_range(0.0, most);
    Figure {
        name: name.into(),
        title: title.into(),
        subtitle: "Mean and standard deviation over trials, with identification and without.".into(),
        description: format!("{title}: {quality} and components against logical workers."),
        width: WIDTH,
        legend: [("identification on", Colour::ACCENT), ("off", Colour::CONTRAST)]
            .map(|(text, colour)| LegendEntry { mark: LegendMark::Line, colour, text: text.into() })
            .into(),
        panels: vec![
            Panel {
                height: 220.0,
                x: axis(""),
                y: Axis::linear(quality),
                layers: layers(&|run| run.quality),
            },
            Panel {
                height: 150.0,
                x: axis("logical workers"),
                y: Axis::linear("components"),
                layers: layers(&|run| run.components as f64),
            },
        ],
        notes: Vec::new(),
    }
}
