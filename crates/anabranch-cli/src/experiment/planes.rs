//! Lines through trajectories of aircraft: the table, the flights of ten clusters on a map, and their weights.

use std::collections::BTreeMap;

use anabranch::batch::Batch;
use anabranch::posterior::Predictor;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::contest::{Task, Trial};
use super::folder::Evidence;
use super::table::{Contest, Data, Whereabouts, estimated_family, read};
use super::threads;
use crate::args::ExperimentArgs;
use crate::failure::Failure;
use crate::picture::{
    Axis, Bar, Direction, Figure, Layer, LegendEntry, LegendMark, Panel, Path, Stroke, Ticks, compact,
    component_colour,
};
use crate::report::WIDTH;

const DATA: Whereabouts = Whereabouts {
    name: "planes",
    hint: "the Python package traffic holds flights in traffic.data.samples; bench/planes.py makes train.npy, test.npy and \
           tracks.csv of their positions",
};

/// The paper's minibatches and workers.
const BATCH_SIZE: usize = 100;
const WORKERS: usize = 16;
const ALPHA: f64 = 1.0;

/// Clusters on the map, and the flights of each, the most probable first.
const CLUSTERS: usize = 10;
const EACH: usize = 15;

/// Longitude and latitude along each flight.
type Tracks = BTreeMap<usize, Vec<(f64, f64)>>;

pub(super) fn run(args: &ExperimentArgs) -> Result<Evidence, Failure> {
    let (data, tracks) = if args.quick { quick(args.seed) } else { (DATA.load(args)?, tracks(args)?) };
    let task = Task {
        family: estimated_family(&data.train, ALPHA, args.seed)?,
        rows: data.train,
        test: data.test,
        alpha: ALPHA,
        batch_size: BATCH_SIZE,
        max_new: 50,
        truncation: if args.quick { 30 } else { 200 },
        workers: WORKERS,
        threads: threads(args),
        effort: if args.quick { 0.2 } else { 1.0 },
    };
    let contest = Contest::hold(args, &task, 500)?;
    let lead = format!(
        "{} flights, {} held out, a direction and an offset for each, minibatches of {BATCH_SIZE}, {WORKERS} logical workers, \
         α = {ALPHA}, one prior for all, estimated from the rows.",
        task.rows.n_rows(),
        task.test.n_rows()
    );
    let mut evidence = contest.evidence("planes", "Trajectories of aircraft", lead);
    if let Some(trial) = contest.first("sda with bootstrap") {
        evidence.figures = pictures(trial, &task.rows, &tracks);
    }
    Ok(evidence)
}

fn tracks(args: &ExperimentArgs) -> Result<Tracks, Failure> {
    let path = DATA.folder(args)?.join("tracks.csv");
    let mut tracks = Tracks::new();
    if path.exists() {
        let positions = read(&path)?;
        if positions.dimensions() != 3 {
            return Err(Failure::input(format!("{}: expected flight, longitude, latitude", path.display())));
        }
        for row in positions.rows() {
            tracks.entry(row[0] as usize).or_default().push((row[1], row[2]));
        }
    }
    Ok(tracks)
}

/// The largest clusters: their ids, expected counts, and flights from the most probable on.
fn clusters(trial: &Trial, rows: &Batch) -> Vec<(u64, f64, Vec<usize>)> {
    let posterior = &trial.posterior;
    let predictor = Predictor::new(posterior);
    let mut members: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (ix, row) in rows.rows().enumerate() {
        if let Some(id) = predictor.label(row) {
            members.entry(id.0).or_default().push(ix);
        }
    }
    let mut largest: Vec<_> = posterior.components().iter().collect();
    largest.sort_by(|a, b| b.expected_count().total_cmp(&a.expected_count()));
    let of = |component: &&std::sync::Arc<anabranch::posterior::Component>| {
        let density = component.predictive(posterior.family());
        let mut own = members.get(&component.id().0).cloned().unwrap_or_default();
        own.sort_by(|a, b| density.ln_density(rows.row(*b)).total_cmp(&density.ln_density(rows.row(*a))));
        (component.id().0, component.expected_count(), own)
    };
    largest.iter().take(CLUSTERS).map(of).collect()
}

fn pictures(trial: &Trial, rows: &Batch, tracks: &Tracks) -> Vec<Figure> {
    let clusters = clusters(trial, rows);
    let mut layers = Vec::new();
    for (rank, (_, _, flights)) in clusters.iter().enumerate().rev() {
        for flight in flights.iter().take(EACH) {
            let points = tracks.get(flight).cloned().unwrap_or_default();
            let colour = component_colour(rank as u64);
            layers.push(Layer::Line { points, path: Path::Straight, colour, stroke: Stroke::Solid });
        }
    }
    let entry = |(rank, (_, count, _)): (usize, &(u64, f64, Vec<usize>))| LegendEntry {
        mark: LegendMark::Line,
        colour: component_colour(rank as u64),
        text: format!("{}: {} flights", rank + 1, compact(count.round())),
    };
    let map = Figure {
        name: "map".into(),
        title: "Flights of the ten largest clusters".into(),
        subtitle: format!("Up to {EACH} flights of each, the most probable ones."),
        description: "Trajectories on a map of longitude and latitude, coloured by cluster.".into(),
        width: WIDTH,
        legend: clusters.iter().enumerate().map(entry).collect(),
        panels: vec![Panel {
            height: 520.0,
            x: Axis::linear("longitude"),
            y: Axis::linear("latitude"),
            layers,
        }],
        notes: Vec::new(),
    };
    let bar = |(rank, (_, count, _)): (usize, &(u64, f64, Vec<usize>))| Bar {
        across: (-(rank as f64) - 0.36, -(rank as f64) + 0.36),
        value: *count,
        colour: component_colour(rank as u64),
        label: compact(count.round()),
    };
    let names = (0..clusters.len()).map(|rank| (-(rank as f64), format!("cluster {}", rank + 1))).collect();
    let most = clusters.first().map_or(1.0, |(_, count, _)| *count);
    let weights = Figure {
        name: "weights".into(),
        title: "How many flights the clusters have".into(),
        subtitle: format!("The ten largest of {} clusters.", trial.components),
        description: "Bars of the expected number of flights of ten clusters.".into(),
        width: WIDTH,
        legend: Vec::new(),
        panels: vec![Panel {
            height: 260.0,
            x: Axis::linear("expected number of flights").with_range(0.0, most * 1.1),
            y: Axis::default().with_ticks(Ticks::Named(names)).with_range(0.4 - clusters.len() as f64, 0.6),
            layers: vec![Layer::Bars {
                bars: clusters.iter().enumerate().map(bar).collect(),
                direction: Direction::Horizontal,
            }],
        }],
        notes: Vec::new(),
    };
    vec![map, weights]
}

/// Flights along six airways that cross near the origin.
fn quick(seed: u64) -> (Data, Tracks) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut tracks = Tracks::new();
    let mut lines = |n: usize, keep: bool| {
        let mut values = Vec::with_capacity(3 * n);
        for flight in 0..n {
            let airway = rng.random_range(0..6);
            let mut noise = || -> f64 { StandardNormal.sample(&mut rng) };
            let angle = f64::from(airway) * 1.05 + 0.03 * noise();
            let offset = 0.3 * f64::from(airway % 3) - 0.3 + 0.03 * noise();
            let (x, y) = (angle.cos(), angle.sin());
            values.extend([x, y, offset]);
            if keep {
                let along =
                    |step: i32| (step as f64 * 0.3 * x - offset * y, step as f64 * 0.3 * y + offset * x);
                tracks.insert(flight, (-5..=5).map(along).collect());
            }
        }
        Batch::new(3, values).expect("draws are finite")
    };
    let data = Data { train: lines(900, true), test: lines(200, false) };
    (data, tracks)
}
