//! Splits and merges along sub-clusters, accepted by Metropolis and Hastings' rule.
//!
//! ```text
//!                    α Γ(n_l) Γ(n_r) f(x_l) f(x_r)     1
//! ratio of a split = ───────────────────────────── · ─────        f: marginal likelihood,  q: probability of this split
//!                          Γ(n) f(x)                   q           merge: the inverse
//! ```
//!
//! A proposal begins with two rows `i` and `j`, chosen by position alone: `j` is the nearest to `i` of a few random rows. If
//! they are in one cluster, it is split; if in two, these are merged. Either way the rows of both, without `i` and `j`, get
//! sub-clusters: first each joins the nearer of the two rows, then weights, parameters and labels of two sub-clusters are
//! drawn a few times, `i` staying left and `j` right. A last draw of weights and parameters gives each row its probability
//! to lie left; a split draws its labels from them, a merge asks for the probability of the labels there are.
//! Proposals whose clusters differ do not see each other, so they run on several threads and the result is that of one
//! after another.

use std::collections::BTreeSet;

use anabranch::family::DrawNatural;
use anabranch::math::special::ln_gamma;
use rand::{Rng, RngExt};

use super::{Chain, ln_gamma_draw};
use crate::sweep::{Parameters, Scores, in_parallel};

/// Sweeps over the sub-clusters before the last one.
const LAUNCH: usize = 4;

/// Proposals of a sweep: as many as clusters, within these.
const PROPOSALS: (usize, usize) = (8, 256);

/// The second row is the nearest of this many random ones, each of these as often.
const NEAREST_OF: [usize; 4] = [1, 8, 64, 512];

/// Rows whose scores are computed at once.
const CHUNK: usize = 512;

/// Jobs of a sweep have different generators.
const PAIRS: u64 = 3;
const MOVES: u64 = 4;

/// What a proposal that was accepted does.
enum Change {
    /// These rows leave `cluster` for a new one.
    Split { cluster: usize, leaving: Vec<usize> },
    /// `from` joins `into`.
    Merge { into: usize, from: usize },
}

/// Two sub-clusters of some rows.
struct Halves {
    /// Everything but the two rows that the proposal began with.
    rows: Vec<usize>,
    /// True for rows on the right.
    right: Vec<bool>,
}

impl<F: DrawNatural> Chain<'_, F> {
    /// A number of proposals, each of which may split a cluster or merge two.
    pub(super) fn split_and_merge(&mut self) {
        if self.rows.n_rows() < 2 {
            return;
        }
        let proposals = self.k().clamp(PROPOSALS.0, PROPOSALS.1);
        let mut rng = self.rng(PAIRS, 0);
        let pairs: Vec<(usize, usize)> = (0..proposals).map(|_| self.draw_pair(&mut rng)).collect();
        let mut next = 0;
        while next < pairs.len() {
            let round = self.independent(&pairs[next..]);
            let members = self.members(&pairs[next..next + round]);
            let changes = in_parallel(round, self.threads, |ix| {
                let mut rng = self.rng(MOVES, (next + ix) as u64);
                self.propose(pairs[next + ix], &members[ix], &mut rng)
            });
            self.apply(changes.into_iter().flatten().collect());
            next += round;
        }
    }

    fn draw_pair(&self, rng: &mut impl Rng) -> (usize, usize) {
        let n = self.rows.n_rows();
        let i = rng.random_range(0..n);
        let candidates = NEAREST_OF[rng.random_range(0..NEAREST_OF.len())].min(n - 1);
        let x = self.embedded(i);
        let mut best = (f64::INFINITY, usize::from(i == 0));
        for _ in 0..candidates {
            let j = (i + rng.random_range(1..n)) % n;
            let distance = x.iter().zip(&self.embedded(j)).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
            if distance < best.0 {
                best = (distance, j);
            }
        }
        (i, best.1)
    }

    fn embedded(&self, row: usize) -> Vec<f64> {
        let mut point = vec![0.0; self.family.embedding_len()];
        self.family.embed(self.rows.row(row), &mut point);
        point
    }

    fn cluster(&self, row: usize) -> usize {
        self.labels[row] as usize
    }

    /// How many of these pairs, from the first, have clusters of their own.
    fn independent(&self, pairs: &[(usize, usize)]) -> usize {
        let mut taken = BTreeSet::new();
        let free = pairs.iter().take_while(|(i, j)| {
            let clusters = BTreeSet::from([self.cluster(*i), self.cluster(*j)]);
            let free = taken.is_disjoint(&clusters);
            taken.extend(clusters);
            free
        });
        free.count()
    }

    /// For each pair the rows of its clusters.
    fn members(&self, pairs: &[(usize, usize)]) -> Vec<Vec<usize>> {
        let mut pair_of = vec![None; self.k()];
        for (ix, (i, j)) in pairs.iter().enumerate() {
            pair_of[self.cluster(*i)] = Some(ix);
            pair_of[self.cluster(*j)] = Some(ix);
        }
        let mut members = vec![Vec::new(); pairs.len()];
        for (row, label) in self.labels.iter().enumerate() {
            if let Some(pair) = pair_of[*label as usize] {
                members[pair].push(row);
            }
        }
        members
    }

    fn propose(&self, (i, j): (usize, usize), members: &[usize], rng: &mut impl Rng) -> Option<Change> {
        let (left, right) = (self.cluster(i), self.cluster(j));
        let rows: Vec<usize> = members.iter().copied().filter(|row| *row != i && *row != j).collect();
        let (a, b) = (self.embedded(i), self.embedded(j));
        let distance = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| (x - y) * (x - y)).sum::<f64>();
        let nearer = |row: &usize| {
            let x = self.embedded(*row);
            distance(&x, &b) < distance(&x, &a)
        };
        let mut halves = Halves { right: rows.iter().map(nearer).collect(), rows };
        for _ in 0..LAUNCH {
            let parameters = self.draw_halves((i, j), &halves, rng);
            self.draw_sides(&mut halves, &parameters, rng);
        }
        let parameters = self.draw_halves((i, j), &halves, rng);
        if left == right {
            let ln_q = self.draw_sides(&mut halves, &parameters, rng);
            let accepted = rng.random::<f64>().ln() < self.ln_ratio((i, j), &halves) - ln_q;
            let leaving = || {
                let on_right = halves.rows.iter().zip(&halves.right).filter(|(_, right)| **right);
                on_right.map(|(row, _)| *row).chain([j]).collect()
            };
            accepted.then(|| Change::Split { cluster: left, leaving: leaving() })
        } else {
            halves.right = halves.rows.iter().map(|row| self.cluster(*row) == right).collect();
            let ln_q = self.ln_probability(&halves, &parameters);
            let accepted = rng.random::<f64>().ln() < ln_q - self.ln_ratio((i, j), &halves);
            accepted.then_some(Change::Merge { into: left, from: right })
        }
    }

    /// Sums of the left and of the right, `i` and `j` included.
    fn half_sums(&self, (i, j): (usize, usize), halves: &Halves) -> [Vec<f64>; 2] {
        let f = self.family.n_features();
        let mut sums = [vec![0.0; f], vec![0.0; f]];
        let mut features = vec![0.0; f];
        let sides = halves.rows.iter().copied().zip(halves.right.iter().copied());
        for (row, right) in sides.chain([(i, false), (j, true)]) {
            self.family.features(self.rows.row(row), &mut features);
            let sums = &mut sums[usize::from(right)];
            sums.iter_mut().zip(&features).for_each(|(sum, value)| *sum += value);
        }
        sums
    }

    /// Weights from Dirichlet(n_l + α/2, n_r + α/2) and parameters of both halves.
    fn draw_halves(&self, pair: (usize, usize), halves: &Halves, rng: &mut impl Rng) -> Parameters {
        let f = self.family.n_features();
        let mut phi = vec![0.0; 2 * f];
        let mut ln_weights = Vec::with_capacity(2);
        for (stats, phi) in self.half_sums(pair, halves).iter().zip(phi.chunks_exact_mut(f)) {
            ln_weights.push(ln_gamma_draw(stats[0] + 0.5 * self.alpha, rng));
            self.family.draw_natural(stats, rng, phi);
        }
        Parameters { phi, ln_weights }
    }

    /// Draws a side for each row and returns the log-probability of what was drawn.
    fn draw_sides(&self, halves: &mut Halves, parameters: &Parameters, rng: &mut impl Rng) -> f64 {
        let ln_odds = self.ln_odds(&halves.rows, parameters);
        let mut ln_q = 0.0;
        for (right, ln_odds) in halves.right.iter_mut().zip(ln_odds) {
            *right = rng.random::<f64>() < 1.0 / (1.0 + (-ln_odds).exp());
            ln_q += ln_probability_of(*right, ln_odds);
        }
        ln_q
    }

    /// Log-probability of drawing the sides there are.
    fn ln_probability(&self, halves: &Halves, parameters: &Parameters) -> f64 {
        let ln_odds = self.ln_odds(&halves.rows, parameters);
        halves.right.iter().zip(ln_odds).map(|(right, ln_odds)| ln_probability_of(*right, ln_odds)).sum()
    }

    /// For each row the log-odds of the right against the left.
    fn ln_odds(&self, rows: &[usize], parameters: &Parameters) -> Vec<f64> {
        let mut chunk = Scores::default();
        let mut ln_odds = Vec::with_capacity(rows.len());
        for some in rows.chunks(CHUNK) {
            chunk.fill(self.family, some.iter().map(|row| self.rows.row(*row)), parameters);
            ln_odds.extend(chunk.scores.chunks_exact(2).map(|pair| pair[1] - pair[0]));
        }
        ln_odds
    }

    /// `log` of the posterior odds of two halves against one cluster.
    fn ln_ratio(&self, pair: (usize, usize), halves: &Halves) -> f64 {
        let [left, right] = self.half_sums(pair, halves);
        let joined: Vec<f64> = left.iter().zip(&right).map(|(l, r)| l + r).collect();
        let cluster = |stats: &[f64]| ln_gamma(stats[0]) + self.family.log_partition(stats) - self.empty;
        self.alpha.ln() + cluster(&left) + cluster(&right) - cluster(&joined)
    }

    /// Carries changes out, those after the last possible split left out, and sums anew.
    fn apply(&mut self, changes: Vec<Change>) {
        let mut ended = Vec::new();
        let mut living = self.k();
        for change in &changes {
            match change {
                Change::Split { cluster, leaving } if living < self.truncation => {
                    let new = self.ids.len() as u32;
                    debug_assert!(leaving.iter().all(|row| self.cluster(*row) == *cluster));
                    leaving.iter().for_each(|row| self.labels[*row] = new);
                    self.ids.push(self.next_id);
                    self.next_id += 1;
                    living += 1;
                }
                Change::Split { .. } => {}
                Change::Merge { into, from } => {
                    ended.push((*from, *into));
                    living -= 1;
                }
            }
        }
        if changes.is_empty() {
            return;
        }
        let mut target: Vec<usize> = (0..self.ids.len()).collect();
        ended.iter().for_each(|(from, into)| target[*from] = *into);
        let mut position = vec![0; self.ids.len()];
        let mut ids = Vec::with_capacity(living);
        for (ix, id) in self.ids.iter().enumerate().filter(|(ix, _)| target[*ix] == *ix) {
            position[ix] = ids.len() as u32;
            ids.push(*id);
        }
        self.labels.iter_mut().for_each(|label| *label = position[target[*label as usize]]);
        self.ids = ids;
        self.totals = self.sums();
    }
}

/// `log P` of a side that the log-odds of the right decide.
fn ln_probability_of(right: bool, ln_odds: f64) -> f64 {
    let against = if right { -ln_odds } else { ln_odds };
    // −log(1 + e^a), without overflow.
    if against > 0.0 { -against - (-against).exp().ln_1p() } else { -against.exp().ln_1p() }
}
