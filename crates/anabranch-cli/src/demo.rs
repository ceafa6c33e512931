//! `anabranch demo`: the paper's synthetic stream, generated while it is fitted.
//!
//! A mixture of Gaussians in the plane whose parameters come from a normal-inverse-Wishart distribution with mean 0,
//! κ = 10⁻³, Ψ = I and 4 degrees of freedom; weights are uniform and then normalised (paper §4). The mixture is known, so
//! the report can show how far from the truth the model is.

use std::io::Write;

use anabranch::batch::Batch;
use anabranch::clusters::{Clusters, Tree};
use anabranch::family::{AnyFamily, Frame, Gaussian, NormalInverseWishart};
use anabranch::infer::PriorChoice;
use anabranch_io::{Column, OnBadRow, ReadError, Schema, Source};
use rand::{RngExt, SeedableRng};
use rand_distr::{ChiSquared, Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::args::{DISCOUNT, DemoArgs, ModelKind};
use crate::evaluate::agreement_of_rows;
use crate::failure::Failure;
use crate::features;
use crate::fit::{Method, Outcome, Setup, print_outcome, run, said_of_data, write_report};
use crate::reading::DomainFilter;
use crate::topics;

/// Held-out rows, drawn like the others.
const TEST_ROWS: usize = 10_000;

/// Spread of the cluster centres against that of a cluster: `1/√κ`.
const KAPPA: f64 = 1e-3;
/// Degrees of freedom of the covariances.
const DOF: f64 = 4.0;

/// Runs the command.
pub fn command(args: &DemoArgs) -> Result<(), Failure> {
    let discount = match args.model {
        ModelKind::Dp => None,
        ModelKind::Py => Some(DISCOUNT),
        ModelKind::Hdp => return topics::demo(args),
        ModelKind::Bp => return features::demo(args),
    };
    let mut output = args.output.clone();
    let folder = output.report.get_or_insert_with(|| "anabranch-report".into()).clone();
    let mixture = Mixture::draw(args.clusters as usize, args.engine.seed);
    let (test, labels) = mixture.rows(TEST_ROWS, args.engine.seed ^ 0x7E57);
    let truth = test.rows().map(|row| mixture.ln_density(row)).sum::<f64>() / TEST_ROWS as f64;
    if !output.quiet {
        eprintln!("generating and fitting {} rows from {} clusters", args.rows, args.clusters);
    }
    let build = |first: &Batch, _: &Schema| true_family(first);
    let setup = Setup {
        source: Box::new(Stream::new(mixture, u64::from(args.rows), args.engine.seed)),
        filter: DomainFilter::new(&[], None, Vec::new(), OnBadRow::Fail),
        method: Method::Sda,
        process: args.engine.process(discount)?,
        family: &build,
        prior: PriorChoice::Given,
        test: Some(test.clone()),
        checkpoints: None,
        further: None,
        polish: None,
        resumed: None,
        begun: None,
        max_components: None,
        half_life: None,
        time: None,
        events: None,
        first_after: None,
        out_every: None,
    };
    let mut finished = run(setup, &args.engine, &output)?;
    let mut tried = std::mem::take(&mut finished.tried);
    let tree = Tree::of(finished.posterior());
    let clusters = Clusters::new(finished.posterior(), &tree, finished.model.provenance.cut);
    let threads = args.engine.parallelism().0;
    let agreement = agreement_of_rows(finished.posterior(), &clusters, &test, &labels, threads)?;
    let outcome = Outcome::new(&finished, &clusters, &args.engine, Some(agreement));
    let title = "The paper's synthetic stream";
    tried.note(write_report(&folder, title, &finished, (&tree, &clusters), &outcome, Some(truth)));
    tried.done()?;
    print_outcome(&outcome, &said_of_data(&finished), &output)?;
    if !output.json {
        writeln!(
            std::io::stdout().lock(),
            "the mixture that made the data scores {truth:.4} and has {} clusters",
            args.clusters
        )?;
    }
    Ok(())
}

/// The family with the prior that the clusters were drawn from, framed by these rows.
pub(crate) fn true_family(rows: &Batch) -> Result<AnyFamily, Failure> {
    let prior = NormalInverseWishart::with_diagonal_psi(vec![0.0; 2], KAPPA, &[1.0, 1.0], DOF);
    Ok(AnyFamily::Gaussian(Gaussian::with_prior_in_data_units(Frame::from_rows(rows)?, prior)?))
}

/// A mixture of Gaussians in the plane.
#[derive(Clone, Debug)]
pub(crate) struct Mixture {
    /// Running sums of the weights, ending at 1.
    cumulative: Vec<f64>,
    clusters: Vec<Cluster>,
}

#[derive(Clone, Debug)]
struct Cluster {
    ln_weight: f64,
    mean: [f64; 2],
    /// Lower Cholesky factor of the covariance: (l₁₁, l₂₁, l₂₂).
    factor: [f64; 3],
}

impl Mixture {
    /// Draws the clusters and their weights.
    pub(crate) fn draw(n_clusters: usize, seed: u64) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let weights: Vec<f64> = (0..n_clusters).map(|_| rng.random::<f64>()).collect();
        let total: f64 = weights.iter().sum();
        let mut sum = 0.0;
        let mut mixture = Self { cumulative: Vec::new(), clusters: Vec::new() };
        for weight in weights {
            sum += weight / total;
            mixture.cumulative.push(sum);
            mixture.clusters.push(Cluster::draw((weight / total).ln(), &mut rng));
        }
        mixture
    }

    fn draw_row(&self, rng: &mut Xoshiro256PlusPlus, out: &mut Vec<f64>) -> usize {
        let at = rng.random::<f64>();
        let label = self.cumulative.partition_point(|sum| *sum < at).min(self.clusters.len() - 1);
        let Cluster { mean, factor, .. } = &self.clusters[label];
        let (a, b): (f64, f64) = (StandardNormal.sample(rng), StandardNormal.sample(rng));
        out.push(mean[0] + factor[0] * a);
        out.push(mean[1] + factor[1] * a + factor[2] * b);
        label
    }

    /// Rows and the clusters they come from.
    pub(crate) fn rows(&self, n: usize, seed: u64) -> (Batch, Vec<i64>) {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut values = Vec::with_capacity(2 * n);
        let labels = (0..n).map(|_| self.draw_row(&mut rng, &mut values) as i64).collect();
        (Batch::new(2, values).expect("draws are finite"), labels)
    }

    /// Log density of a row.
    pub(crate) fn ln_density(&self, x: &[f64]) -> f64 {
        let terms: Vec<f64> =
            self.clusters.iter().map(|cluster| cluster.ln_weight + cluster.ln_density(x)).collect();
        anabranch::math::log_sum_exp::log_sum_exp(&terms)
    }
}

impl Cluster {
    /// Draws the precision from a Wishart distribution by Bartlett's decomposition, then the mean.
    fn draw(ln_weight: f64, rng: &mut Xoshiro256PlusPlus) -> Self {
        let chi = |dof: f64, rng: &mut Xoshiro256PlusPlus| -> f64 {
            ChiSquared::new(dof).expect("degrees of freedom are positive").sample(rng).sqrt()
        };
        let (a, c) = (chi(DOF, rng), chi(DOF - 1.0, rng));
        let b: f64 = StandardNormal.sample(rng);
        // With A = (a 0; b c) the precision is AAᵀ and the covariance A⁻ᵀA⁻¹; this is its lower Cholesky factor.
        let covariance = [(b * b + c * c) / (a * a * c * c), -b / (a * c * c), 1.0 / (c * c)];
        let l11 = covariance[0].sqrt();
        let l21 = covariance[1] / l11;
        let factor = [l11, l21, (covariance[2] - l21 * l21).sqrt()];
        let (x, y): (f64, f64) = (StandardNormal.sample(rng), StandardNormal.sample(rng));
        let spread = 1.0 / KAPPA.sqrt();
        let mean = [spread * factor[0] * x, spread * (factor[1] * x + factor[2] * y)];
        Self { ln_weight, mean, factor }
    }

    fn ln_density(&self, x: &[f64]) -> f64 {
        let [l11, l21, l22] = self.factor;
        let a = (x[0] - self.mean[0]) / l11;
        let b = (x[1] - self.mean[1] - l21 * a) / l22;
        -0.5 * (a * a + b * b) - (l11 * l22).ln() - (2.0 * std::f64::consts::PI).ln()
    }
}

/// The mixture as a stream of rows that exist only while they are looked at.
struct Stream {
    mixture: Mixture,
    rng: Xoshiro256PlusPlus,
    schema: Schema,
    rows: u64,
    left: u64,
}

impl Stream {
    fn new(mixture: Mixture, rows: u64, seed: u64) -> Self {
        let columns = vec![Column::number("x"), Column::number("y")];
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed.wrapping_add(1));
        Self { mixture, rng, schema: Schema { columns, named: true }, rows, left: rows }
    }
}

impl Source for Stream {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn next_batch(&mut self, max_rows: usize) -> Result<Option<Batch>, ReadError> {
        let n = self.left.min(max_rows as u64);
        if n == 0 {
            return Ok(None);
        }
        let mut values = Vec::with_capacity(2 * n as usize);
        for _ in 0..n {
            self.mixture.draw_row(&mut self.rng, &mut values);
        }
        self.left -= n;
        Ok(Some(Batch::new(2, values).expect("draws are finite")))
    }

    fn rows_hint(&self) -> Option<u64> {
        Some(self.rows)
    }

    fn skip_rows(&mut self, n: u64) -> Result<u64, ReadError> {
        let passed = n.min(self.left);
        let mut values = Vec::new();
        for _ in 0..passed {
            values.clear();
            self.mixture.draw_row(&mut self.rng, &mut values);
        }
        self.left -= passed;
        Ok(passed)
    }

    fn skipped_rows(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_has_the_covariance_its_factor_says() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
        let cluster = Cluster::draw(0.0, &mut rng);
        let mixture = Mixture { cumulative: vec![1.0], clusters: vec![cluster.clone()] };
        let (rows, _) = mixture.rows(40_000, 5);
        let n = rows.n_rows() as f64;
        let mean = |column: usize| rows.rows().map(|row| row[column]).sum::<f64>() / n;
        let (mx, my) = (mean(0), mean(1));
        let covariance = rows.rows().map(|row| (row[0] - mx) * (row[1] - my)).sum::<f64>() / n;
        let variance = rows.rows().map(|row| (row[0] - mx).powi(2)).sum::<f64>() / n;
        // Five standard errors of 40,000 draws.
        assert!((variance / cluster.factor[0].powi(2) - 1.0).abs() < 5.0 * (2.0 / n).sqrt());
        assert!((covariance - cluster.factor[0] * cluster.factor[1]).abs() < 0.05 * variance.max(1.0));
    }

    #[test]
    fn the_density_of_the_mixture_integrates_to_one() {
        let mixture = Mixture::draw(3, 1);
        let (mut total, step) = (0.0, 0.05);
        for cluster in &mixture.clusters {
            // A grid around each centre, in the cluster's own coordinates, of that cluster's own density.
            let alone = Cluster { ln_weight: 0.0, ..cluster.clone() };
            let [l11, l21, l22] = alone.factor;
            let mut sum = 0.0;
            for i in -160..=160 {
                for j in -160..=160 {
                    let (a, b) = (f64::from(i) * step, f64::from(j) * step);
                    let x = [alone.mean[0] + l11 * a, alone.mean[1] + l21 * a + l22 * b];
                    sum += alone.ln_density(&x).exp() * step * step * l11 * l22;
                }
            }
            total += cluster.ln_weight.exp() * sum;
        }
        assert!((total - 1.0).abs() < 1e-6, "{total}");
    }
}
