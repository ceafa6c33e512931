//! Exact maximum-weight matching in which leaving a component alone is free (paper §3.2).
//!
//! ```text
//! maximise  Σ_{(k,j) joined} g_kj     each row and each column in at most one pair, pairs with g ≤ 0 never used
//! ```
//!
//! Pairs that may be used connect rows and columns into blocks; blocks are independent and solved one by one. Within a
//! block, rows enter one at a time along a shortest augmenting path under dual potentials (the method of Jonker and
//! Volgenant in its rectangular form). Besides the columns, each row has an exit of cost 0 that is its own: "stay alone".

use std::cmp::Ordering;

/// No gain counts for more than this, so that sums of gains stay finite. Beyond it gains are infinite for our purpose.
const LARGEST_GAIN: f64 = 1e300;

/// A dense matrix of gains, row after row.
#[derive(Clone, Debug, PartialEq)]
pub struct Gains {
    /// Number of rows: new components of the minibatch.
    pub n_rows: usize,
    /// Number of columns: new components of the centre.
    pub n_cols: usize,
    /// `n_rows · n_cols` gains.
    pub values: Vec<f64>,
}

impl Gains {
    /// A matrix from its rows, one after another.
    ///
    /// # Panics
    /// When the number of values is not `n_rows · n_cols`.
    pub fn new(n_rows: usize, n_cols: usize, values: Vec<f64>) -> Self {
        assert_eq!(values.len(), n_rows * n_cols, "{n_rows} × {n_cols} gains");
        Self { n_rows, n_cols, values }
    }

    /// The gain of joining `row` with `col`.
    pub fn get(&self, row: usize, col: usize) -> f64 {
        self.values[row * self.n_cols + col]
    }

    fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.n_cols..(row + 1) * self.n_cols]
    }

    /// Sum of the gains of the pairs in a matching: what [`solve`] maximises.
    pub fn total(&self, columns: &[Option<usize>]) -> f64 {
        columns.iter().enumerate().filter_map(|(row, col)| col.map(|col| self.get(row, col))).sum()
    }
}

/// For each row the column it is joined with, or `None` when it stays alone.
///
/// Equal optima are told apart by order alone (lower indices first), so the same gains give the same answer everywhere.
/// A gain of `+∞` is used whenever it can be; `−∞` and NaN (which is a bug of the caller) never are.
///
/// ```
/// use anabranch::identify::{Gains, solve};
/// // Taking 5 for row 0 would leave row 1 with nothing: 4 + 3 is better.
/// let gains = Gains::new(2, 2, vec![5.0, 4.0, 3.0, -1.0]);
/// assert_eq!(solve(&gains), vec![Some(1), Some(0)]);
/// ```
pub fn solve(gains: &Gains) -> Vec<Option<usize>> {
    debug_assert!(gains.values.iter().all(|gain| !gain.is_nan()), "a gain is NaN");
    let mut column_of = vec![None; gains.n_rows];
    for block in blocks(gains) {
        let solved = Solver::new(&block, gains).solve();
        for (row_ix, col_ix) in solved.into_iter().enumerate() {
            column_of[block.rows[row_ix]] = col_ix.map(|ix| block.cols[ix]);
        }
    }
    column_of
}

/// Rows and columns that positive gains connect, in ascending order.
#[derive(Debug, Default, PartialEq)]
struct Block {
    rows: Vec<usize>,
    cols: Vec<usize>,
}

/// Splits the matrix; rows and columns without any positive gain are in no block.
fn blocks(gains: &Gains) -> Vec<Block> {
    let mut forest = Forest::new(gains.n_rows + gains.n_cols);
    for row in 0..gains.n_rows {
        for (col, gain) in gains.row(row).iter().enumerate() {
            if *gain > 0.0 {
                forest.join(row, gains.n_rows + col);
            }
        }
    }
    let mut block_at_root = vec![usize::MAX; gains.n_rows + gains.n_cols];
    let mut blocks: Vec<Block> = Vec::new();
    for node in 0..gains.n_rows + gains.n_cols {
        let root = forest.root(node);
        if block_at_root[root] == usize::MAX {
            block_at_root[root] = blocks.len();
            blocks.push(Block::default());
        }
        let block = &mut blocks[block_at_root[root]];
        if node < gains.n_rows { block.rows.push(node) } else { block.cols.push(node - gains.n_rows) }
    }
    blocks.retain(|block| !block.rows.is_empty() && !block.cols.is_empty());
    blocks
}

/// Disjoint sets; the lowest member is the root, so that the order of blocks is the order of rows.
struct Forest {
    parent: Vec<usize>,
}

impl Forest {
    fn new(n_nodes: usize) -> Self {
        Self { parent: (0..n_nodes).collect() }
    }

    fn root(&mut self, mut node: usize) -> usize {
        while self.parent[node] != node {
            self.parent[node] = self.parent[self.parent[node]];
            node = self.parent[node];
        }
        node
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.parent[a.max(b)] = a.min(b);
    }
}

/// The state of one block: costs (negated gains), dual potentials and the matching so far.
struct Solver {
    n_rows: usize,
    n_cols: usize,
    /// `−g`, or `+∞` for a pair that is never used.
    cost: Vec<f64>,
    row_potential: Vec<f64>,
    col_potential: Vec<f64>,
    col_of: Vec<Option<usize>>,
    row_of: Vec<Option<usize>>,
}

/// Where a shortest augmenting path ends.
enum End {
    /// At a column that has no row yet.
    FreeColumn(usize),
    /// At a row that stays alone from now on.
    Alone(usize),
}

/// The columns around one search, Dijkstra's labels.
struct Search {
    distance: Vec<f64>,
    reached_from: Vec<usize>,
    /// Columns that have not been settled.
    open: Vec<usize>,
    /// Columns that have, with their rows: all matched.
    settled: Vec<(usize, usize)>,
}

impl Solver {
    fn new(block: &Block, gains: &Gains) -> Self {
        let (n_rows, n_cols) = (block.rows.len(), block.cols.len());
        let mut cost: Vec<f64> = Vec::with_capacity(n_rows * n_cols);
        for &row in &block.rows {
            let gains_of_row = gains.row(row);
            cost.extend(block.cols.iter().map(|&col| cost_of(gains_of_row[col])));
        }
        replace_infinite_gains(&mut cost, n_rows.min(n_cols));
        Self {
            n_rows,
            n_cols,
            cost,
            row_potential: vec![0.0; n_rows],
            col_potential: vec![0.0; n_cols],
            col_of: vec![None; n_rows],
            row_of: vec![None; n_cols],
        }
    }

    fn solve(mut self) -> Vec<Option<usize>> {
        let mut search = Search {
            distance: vec![0.0; self.n_cols],
            reached_from: vec![0; self.n_cols],
            open: Vec::with_capacity(self.n_cols),
            settled: Vec::with_capacity(self.n_cols),
        };
        for row in 0..self.n_rows {
            let (end, length) = self.shortest_path(row, &mut search);
            self.update_potentials(row, length, &search);
            self.augment(row, end, &search);
        }
        self.col_of
    }

    /// Dijkstra from a row that enters, until a free column or an exit is nearest.
    fn shortest_path(&self, entering: usize, search: &mut Search) -> (End, f64) {
        search.distance.fill(f64::INFINITY);
        search.open.clear();
        search.open.extend(0..self.n_cols);
        search.settled.clear();
        let (mut row, mut so_far) = (entering, 0.0);
        let (mut exit, mut exit_distance) = (entering, f64::INFINITY);
        loop {
            let distance_alone = so_far - self.row_potential[row];
            if distance_alone < exit_distance {
                (exit, exit_distance) = (row, distance_alone);
            }
            let nearest = self.relax(row, so_far, search);
            let Some(open_ix) = nearest.filter(|ix| search.distance[search.open[*ix]] < exit_distance) else {
                return (End::Alone(exit), exit_distance);
            };
            let col = search.open.swap_remove(open_ix);
            so_far = search.distance[col];
            let Some(next) = self.row_of[col] else { return (End::FreeColumn(col), so_far) };
            search.settled.push((col, next));
            row = next;
        }
    }

    /// Shortens the way to the open columns through `row` and finds the nearest: its position in `open`.
    fn relax(&self, row: usize, so_far: f64, search: &mut Search) -> Option<usize> {
        let costs = &self.cost[row * self.n_cols..(row + 1) * self.n_cols];
        let base = so_far - self.row_potential[row];
        let mut nearest: Option<usize> = None;
        let mut shortest = f64::INFINITY;
        for (open_ix, &col) in search.open.iter().enumerate() {
            let through_row = base + costs[col] - self.col_potential[col];
            if through_row < search.distance[col] {
                search.distance[col] = through_row;
                search.reached_from[col] = row;
            }
            let distance = search.distance[col];
            let closer = match distance.total_cmp(&shortest) {
                Ordering::Less => true,
                Ordering::Greater => false,
                Ordering::Equal => nearest.is_some_and(|ix| self.goes_first(col, search.open[ix])),
            };
            if closer {
                (nearest, shortest) = (Some(open_ix), distance);
            }
        }
        nearest
    }

    /// Breaks ties: a free column ends the search, otherwise the lower index.
    fn goes_first(&self, col: usize, other: usize) -> bool {
        (self.row_of[col].is_some(), col) < (self.row_of[other].is_some(), other)
    }

    /// Restores `u + v ≤ cost`, with equality along the pairs of the matching and of the path.
    fn update_potentials(&mut self, entering: usize, length: f64, search: &Search) {
        self.row_potential[entering] += length;
        for &(col, row) in &search.settled {
            let shift = length - search.distance[col];
            self.row_potential[row] += shift;
            self.col_potential[col] -= shift;
        }
    }

    /// Swaps pairs along the path, from its end back to the row that enters.
    fn augment(&mut self, entering: usize, end: End, search: &Search) {
        let mut freed = match end {
            End::FreeColumn(col) => Some(col),
            // Only this row can use its exit, so no later path comes by: it stays alone for good.
            End::Alone(row) => self.col_of[row].take(),
        };
        while let Some(col) = freed {
            let row = search.reached_from[col];
            self.row_of[col] = Some(row);
            freed = self.col_of[row].replace(col);
            if row == entering {
                break;
            }
        }
    }
}

/// NaN compares false and so is no pair, like every gain that is not positive.
fn cost_of(gain: f64) -> f64 {
    if gain > 0.0 { -gain } else { f64::INFINITY }
}

/// Replaces gains of `+∞` by one that outweighs all finite gains of a matching together.
fn replace_infinite_gains(cost: &mut [f64], most_pairs: usize) {
    let finite_max = cost.iter().filter(|cost| cost.is_finite()).fold(0.0, |max, cost| -cost.min(-max));
    let outweighs = 1.0 + 2.0 * most_pairs as f64 * finite_max;
    for cost in cost {
        if *cost == f64::NEG_INFINITY {
            *cost = -outweighs;
        }
        *cost = cost.max(-LARGEST_GAIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positive_gains_split_the_matrix_into_blocks() {
        #[rustfmt::skip]
        let gains = Gains::new(4, 4, vec![
             1.0, -1.0, -1.0, -1.0,
            -1.0, -1.0,  0.0, -1.0,
            -1.0,  2.0, -1.0,  2.0,
             3.0, -1.0, -1.0, -1.0,
        ]);
        let expected = [Block { rows: vec![0, 3], cols: vec![0] }, Block { rows: vec![2], cols: vec![1, 3] }];
        assert_eq!(blocks(&gains), expected);
        assert_eq!(solve(&gains), vec![None, None, Some(1), Some(0)]);
    }

    #[test]
    fn ties_go_to_the_lowest_index() {
        assert_eq!(solve(&Gains::new(3, 3, vec![1.0; 9])), vec![Some(0), Some(1), Some(2)]);
        assert_eq!(solve(&Gains::new(3, 2, vec![1.0; 6])), vec![Some(0), Some(1), None]);
    }

    #[test]
    fn a_gain_of_zero_is_no_pair() {
        assert_eq!(solve(&Gains::new(2, 2, vec![0.0, -0.0, -1.0, f64::NEG_INFINITY])), vec![None, None]);
    }

    #[test]
    fn an_infinite_gain_is_taken_first_and_the_rest_stays_optimal() {
        let infinite = f64::INFINITY;
        let gains = Gains::new(3, 3, vec![infinite, 9.0, 1.0, 9.0, 2.0, 3.0, 1.0, 4.0, 1.5]);
        assert_eq!(solve(&gains), vec![Some(0), Some(2), Some(1)]);
        let gains = Gains::new(2, 2, vec![infinite, infinite, infinite, 5.0]);
        assert_eq!(solve(&gains), vec![Some(1), Some(0)]);
    }

    #[test]
    fn huge_gains_do_not_overflow() {
        let gains = Gains::new(2, 2, vec![f64::MAX, f64::MAX, f64::MAX, 1.0]);
        assert_eq!(solve(&gains), vec![Some(1), Some(0)]);
    }

    #[test]
    #[cfg_attr(debug_assertions, should_panic = "a gain is NaN")]
    fn a_nan_is_reported_in_development_and_no_pair_in_release() {
        assert_eq!(solve(&Gains::new(1, 2, vec![f64::NAN, 1.0])), vec![Some(1)]);
    }
}
