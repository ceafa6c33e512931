//! Rows that judge components by their predictive density.
//!
//! A row that the components have not learned from says what they predict. One that they have learned from says it when it
//! is left out: of a component with statistics `S` that holds it with probability `r`, `S − r T(x)` is what the others
//! taught, and
//!
//! ```text
//! log p(x | S − r T(x)) = A(S − r T(x) + T(x)) − A(S − r T(x)) + log h(x)
//! ```

use super::Precision;
use super::ascent::fill_features;
use super::labels::Labels;
use super::missing::{Holes, Tables};
use super::narrow::Scored;
use super::path::Bench;
use crate::batch::Batch;
use crate::family::Family;
use crate::math::cholesky::with_scratch;
use crate::math::log_sum_exp::log_sum_exp;
use crate::parallel;
use crate::process::{LabelStatistics, Process};

/// Rows that are scored at a time.
const ROWS: usize = 64;

/// A component that a row belongs to with less than this probability has learned nothing from it.
const MINORITY: f64 = 0.02;

/// A component that a row belongs to with less than this probability adds nothing to its density.
const IMPROBABLE: f64 = 1e-5;

/// One row tells two densities apart by so many nats at most: else an outlier would decide, or hide what all others say.
const FAR: f64 = 20.0;

/// Differences within so many standard errors are chance, when all rows have been seen.
pub(super) const STANDARD_ERRORS: f64 = 2.0;

/// What judges components: rows that they have not learned from, or learned ones left out; rows that they have learned from, as
/// they are; and how many times as many rows there will be.
///
/// ```text
/// fresh rows    d_f = loss − noise        loss: what the family loses for ever by fewer components
/// learned rows  d_l = loss + noise        noise: what it loses by not knowing the parameters of more
/// later         d_h = loss − noise/h = ½(1 + 1/h) d_f + ½(1 − 1/h) d_l
/// ```
pub(super) struct Court {
    fresh: Judges,
    /// Where there will be more rows.
    learned: Option<Judges>,
    horizon: f64,
}

/// The log predictive density of each judge.
#[derive(Clone, Debug, Default)]
pub(super) struct Scores {
    fresh: Vec<f64>,
    learned: Vec<f64>,
}

/// Components as the judges see them.
pub(super) struct Components<'a, F, P> {
    pub(super) family: &'a F,
    pub(super) process: &'a P,
    pub(super) sums: &'a [f64],
    pub(super) phi: &'a [f64],
    pub(super) ln_weights: &'a [f64],
    pub(super) labels: &'a [LabelStatistics],
    /// Weight of the rows that they have learned from.
    pub(super) mass: f64,
    pub(super) precision: Precision,
}

impl Court {
    /// Rows that were spared, and of those that are learned from as many.
    pub(super) fn of_spared<F: Family>(family: &F, spared: Batch, learned: &Batch, horizon: f64) -> Self {
        let some = every_so_many(learned, spared.n_rows());
        Self {
            fresh: Judges::new(family, spared, Standing::Fresh),
            learned: (horizon > 1.0).then(|| Judges::new(family, some, Standing::Learned)),
            horizon,
        }
    }

    /// Rows that have been learned from, each so many times, whatever it weighs as a judge.
    pub(super) fn of_learned<F: Family>(family: &F, rows: Batch, copies: f64, horizon: f64) -> Self {
        let learned = (horizon > 1.0).then(|| Judges::new(family, rows.clone(), Standing::Learned));
        Self { fresh: Judges::new(family, rows, Standing::LeftOut { copies }), learned, horizon }
    }

    /// The log predictive density of each row without what it taught.
    pub(super) fn left_out<F: Family, P: Process>(
        rows: Batch,
        components: &Components<'_, F, P>,
    ) -> Vec<f64> {
        Judges::new(components.family, rows, Standing::LeftOut { copies: 1.0 }).scores(components)
    }

    pub(super) fn scores<F: Family, P: Process>(&self, components: &Components<'_, F, P>) -> Scores {
        Scores {
            fresh: self.fresh.scores(components),
            learned: self.learned.as_ref().map(|judges| judges.scores(components)).unwrap_or_default(),
        }
    }
}

impl Bench for Court {
    type Scores = Scores;

    /// How much better the first is for a row, once there are `horizon` times the rows, and the standard error of that.
    fn difference(&self, one: &Scores, other: &Scores) -> (f64, f64) {
        let (fresh, fresh_error) = self.fresh.difference(&one.fresh, &other.fresh);
        let Some(judges) = &self.learned else { return (fresh, fresh_error) };
        let (learned, learned_error) = judges.difference(&one.learned, &other.learned);
        let (a, b) = (0.5 + 0.5 / self.horizon, 0.5 - 0.5 / self.horizon);
        (a * fresh + b * learned, (a * fresh_error).hypot(b * learned_error))
    }

    /// How much better the first is for a row now.
    fn difference_now(&self, one: &Scores, other: &Scores) -> (f64, f64) {
        self.fresh.difference(&one.fresh, &other.fresh)
    }

    /// Differences within so many standard errors are chance.
    fn doubt(&self) -> f64 {
        if self.expects_more() { 0.5 * STANDARD_ERRORS } else { STANDARD_ERRORS }
    }

    /// Whether more rows are to come.
    fn expects_more(&self) -> bool {
        self.learned.is_some()
    }
}

/// About so many of the rows, evenly spaced.
fn every_so_many(rows: &Batch, at_most: usize) -> Batch {
    let n = rows.n_rows();
    rows.select(&(0..n).step_by(n.div_ceil(at_most.max(1)).max(1)).collect::<Vec<_>>())
}

/// What the components know of the judges.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Standing {
    /// Nothing.
    Fresh,
    /// They have learned from them.
    Learned,
    /// They have learned from them, and each is scored without what it and its copies taught.
    LeftOut { copies: f64 },
}

struct Judges {
    rows: Batch,
    holes: Holes,
    features: Vec<f64>,
    standing: Standing,
}

impl Judges {
    fn new<F: Family>(family: &F, rows: Batch, standing: Standing) -> Self {
        let mut features = Vec::new();
        fill_features(family, &rows, &mut features);
        Self { holes: Holes::of(&rows), rows, features, standing }
    }

    fn weight(&self, row: usize) -> f64 {
        self.rows.weights().map_or(1.0, |weights| weights[row])
    }

    /// The mean of the differences of two scores of each row, and its standard error.
    fn difference(&self, one: &[f64], other: &[f64]) -> (f64, f64) {
        let far = |a: f64, b: f64| (a - b).clamp(-FAR, FAR);
        let terms = || one.iter().zip(other).enumerate().map(|(row, (a, b))| (self.weight(row), far(*a, *b)));
        let total: f64 = terms().map(|(weight, _)| weight).sum();
        let mean = terms().map(|(weight, d)| weight * d).sum::<f64>() / total;
        let squares: f64 = terms().map(|(weight, d)| (weight * (d - mean)).powi(2)).sum();
        (mean, squares.sqrt() / total)
    }

    /// The log predictive density of each row.
    fn scores<F: Family, P: Process>(&self, components: &Components<'_, F, P>) -> Vec<f64> {
        let Components { family, process, sums, phi, ln_weights, labels, mass, precision } = *components;
        let f = family.n_features();
        let mut possible = Labels::default();
        let scored = Scored { features: &self.features, phi, ln_weights, n_features: f };
        self.holes.assign(family, scored, precision, &mut possible);
        let tables = (!self.holes.is_empty()).then(|| Tables::new(family, phi));
        let predictives = parallel::map(sums.chunks_exact(f), |stats| family.predictive(stats));
        let prior = family.predictive(&vec![0.0; f]);
        let new_mass = process.new_mass(labels.iter());
        let left_out = match self.standing {
            Standing::LeftOut { copies } => copies,
            Standing::Fresh | Standing::Learned => 0.0,
        };
        let ln_all = (mass + new_mass - left_out).ln();
        let ln_mass = |ix: usize, without: f64| {
            let expected_count = (labels[ix].expected_count - without).max(0.0);
            process.existing_mass(&LabelStatistics { expected_count, ..labels[ix] }).ln()
        };
        let ln_masses: Vec<f64> = (0..labels.len()).map(|ix| ln_mass(ix, 0.0)).collect();
        let mut scores = vec![0.0; self.rows.n_rows()];
        parallel::each(scores.chunks_mut(ROWS).enumerate(), 1, |(piece, scores)| {
            let mut terms = Vec::new();
            for (row, score) in (piece * ROWS..).zip(scores) {
                let (x, features) = (self.rows.row(row), &self.features[row * f..(row + 1) * f]);
                terms.clear();
                terms.push(new_mass.ln() + prior.ln_density(x));
                let probable = possible.row(row).filter(|(_, probability)| *probability > IMPROBABLE);
                terms.extend(probable.map(|(ix, probability)| {
                    if left_out > 0.0 && probability > MINORITY {
                        let (stats, taught) = (&sums[ix * f..(ix + 1) * f], left_out * probability);
                        let ln_density = predictives[ix]
                            .ln_density_left_out(x, features, taught)
                            .unwrap_or_else(|| match &tables {
                                Some(tables) if x.iter().any(|x| x.is_nan()) => {
                                    let mut expected = features.to_vec();
                                    let phi = &phi[ix * f..(ix + 1) * f];
                                    Holes::expect(family, phi, &tables[ix], x, &mut expected);
                                    ln_density_of_known_left_out(family, stats, &expected, x, taught)
                                }
                                _ => ln_density_left_out(family, stats, features, x, taught),
                            });
                        return ln_mass(ix, taught) + ln_density;
                    }
                    ln_masses[ix] + predictives[ix].ln_density(x)
                }));
                *score = log_sum_exp(&terms) - ln_all;
            }
        });
        scores
    }
}

/// `log p(x | S − r T(x))`.
fn ln_density_left_out<F: Family>(family: &F, stats: &[f64], features: &[f64], x: &[f64], share: f64) -> f64 {
    if stats[0] <= share {
        // Nobody is left.
        return f64::NEG_INFINITY;
    }
    with_scratch(stats.len(), |others| {
        let mut ln_partition = |taken: f64| {
            others.iter_mut().zip(stats.iter().zip(features)).for_each(|(o, (s, f))| *o = s - taken * f);
            family.log_partition(others)
        };
        ln_partition(share - 1.0) - ln_partition(share) + family.ln_base(x)
    })
}

/// The same of what is known of a row, which taught what its features are expected to be.
fn ln_density_of_known_left_out<F: Family>(
    family: &F,
    stats: &[f64],
    expected: &[f64],
    x: &[f64],
    share: f64,
) -> f64 {
    if stats[0] <= share {
        return f64::NEG_INFINITY;
    }
    let others: Vec<f64> = stats.iter().zip(expected).map(|(s, e)| s - share * e).collect();
    let others = if family.admits(&others) { &others } else { stats };
    family.predictive(others).ln_density(x)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_distr::{Distribution, StandardNormal};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;
    use crate::family::{Conjugate, Gaussian};

    /// Log-partitions of hundreds, subtracted.
    const ROUNDING: f64 = 1e-9;

    #[test]
    fn a_row_that_is_left_out_is_scored_by_what_the_others_taught() {
        let rng = &mut Xoshiro256PlusPlus::seed_from_u64(1);
        let values = (0..300).map(|_| StandardNormal.sample(rng)).collect();
        let rows = Batch::new(3, values).unwrap();
        let family = Gaussian::from_rows(&rows).unwrap();
        let f = family.n_features();
        let mut features = vec![0.0; f];
        let mut stats = vec![0.0; f];
        for row in rows.rows() {
            family.features(row, &mut features);
            stats.iter_mut().zip(&features).for_each(|(s, x)| *s += x);
        }
        for (row, share) in rows.rows().zip([1.0, 0.7, 0.1]) {
            family.features(row, &mut features);
            let others: Vec<f64> = stats.iter().zip(&features).map(|(s, x)| s - share * x).collect();
            let expected = family.predictive(&others).ln_density(row);
            let short = family.predictive(&stats).ln_density_left_out(row, &features, share).unwrap();
            let long = ln_density_left_out(&family, &stats, &features, row, share);
            assert!((short - expected).abs() < ROUNDING && (long - expected).abs() < ROUNDING);
        }
    }

    #[test]
    fn judges_do_not_believe_what_they_taught() {
        // Twenty rows of one Gaussian, each a component of its own, or all of them one.
        let rng = &mut Xoshiro256PlusPlus::seed_from_u64(2);
        let rows = Batch::new(1, (0..20).map(|_| StandardNormal.sample(rng)).collect()).unwrap();
        let family = Gaussian::from_rows(&rows).unwrap();
        let process = crate::process::Dirichlet::new(1.0, crate::process::Bound::Paper).unwrap();
        let f = family.n_features();
        let mut each = vec![0.0; 20 * f];
        rows.rows().zip(each.chunks_exact_mut(f)).for_each(|(row, out)| family.features(row, out));
        let mut one = vec![0.0; f];
        each.chunks_exact(f).for_each(|stats| one.iter_mut().zip(stats).for_each(|(sum, s)| *sum += s));
        let court = Court::of_learned(&family, rows.clone(), 1.0, 1.0);
        let score = |sums: &[f64]| {
            let mut phi = vec![0.0; sums.len()];
            sums.chunks_exact(f).zip(phi.chunks_exact_mut(f)).for_each(|(stats, phi)| {
                family.expected_natural(stats, phi);
            });
            let mut labels = vec![LabelStatistics::default(); sums.len() / f];
            sums.iter().step_by(f).zip(&mut labels).for_each(|(count, labels)| labels.observe(1.0, *count));
            let ln_weights: Vec<f64> = labels.iter().map(|labels| labels.expected_count.ln()).collect();
            court.scores(&Components {
                family: &family,
                process: &process,
                sums,
                phi: &phi,
                ln_weights: &ln_weights,
                labels: &labels,
                mass: 20.0,
                precision: Precision::Double,
            })
        };
        let (mean, error) = court.difference(&score(&one), &score(&each));
        assert!(mean > 2.0 * error, "{mean} ± {error}");
    }
}
