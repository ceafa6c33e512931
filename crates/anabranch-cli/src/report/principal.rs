//! From D columns to the plane: the two leading principal directions of the rows.
//!
//! ```text
//! C = 1/n Σ (y − ȳ)(y − ȳ)ᵀ,    W = (w₁, w₂) leading eigenvectors of C
//! y ↦ Wᵀ(y − ȳ),    Σ ↦ Wᵀ Σ W
//! ```
//!
//! One or two columns are left as they are. More go through subspace iteration on the rows themselves, which
//! never forms `C`, and a small Jacobi eigenproblem at the end.

/// Directions carried along; more than two make the two converge quickly.
const BLOCK: usize = 6;
const ITERATIONS: usize = 40;

/// A covariance matrix of D columns in one of its usual shapes.
#[derive(Clone, Copy, Debug)]
pub enum Covariance<'a> {
    /// D variances.
    Diagonal(&'a [f64]),
    /// The lower triangle row by row: `D(D+1)/2` numbers.
    Packed(&'a [f64]),
    /// All `D²` numbers.
    Full(&'a [f64]),
}

impl Covariance<'_> {
    /// The entry at `row`, `column`; zero where the matrix is too short to have it.
    fn at(&self, row: usize, column: usize, dimensions: usize) -> f64 {
        let (high, low) = (row.max(column), row.min(column));
        let found = match self {
            Self::Diagonal(values) if row == column => values.get(row),
            Self::Diagonal(_) => None,
            Self::Packed(values) => values.get(high * (high + 1) / 2 + low),
            Self::Full(values) => values.get(row * dimensions + column),
        };
        found.copied().unwrap_or(0.0)
    }
}

/// A map from D columns to the plane.
#[derive(Clone, Debug, PartialEq)]
pub struct Projection {
    centre: Vec<f64>,
    directions: [Vec<f64>; 2],
    explained: Option<[f64; 2]>,
}

impl Projection {
    /// The projection for rows of `dimensions` columns, one after another. Rows with NaN or infinities are left
    /// out. `None` when there are no columns.
    pub fn fit(dimensions: usize, values: &[f64]) -> Option<Self> {
        match dimensions {
            0 => None,
            1 => Some(Self::axes(vec![1.0], vec![0.0])),
            2 => Some(Self::axes(vec![1.0, 0.0], vec![0.0, 1.0])),
            _ => Some(Self::principal(dimensions, values)),
        }
    }

    /// A row in the plane; the second number is 0 for one column.
    pub fn point(&self, row: &[f64]) -> [f64; 2] {
        let along = |w: &[f64]| row.iter().zip(&self.centre).zip(w).map(|((y, c), w)| (y - c) * w).sum();
        [along(&self.directions[0]), along(&self.directions[1])]
    }

    /// A covariance in the plane: variance of x, covariance, variance of y.
    pub fn covariance(&self, covariance: Covariance<'_>) -> [f64; 3] {
        let n = self.centre.len();
        let [a, b] = &self.directions;
        let form = |left: &[f64], right: &[f64]| {
            let mut sum = 0.0;
            for (row, l) in left.iter().enumerate() {
                for (column, r) in right.iter().enumerate() {
                    sum += l * r * covariance.at(row, column, n);
                }
            }
            sum
        };
        [form(a, a), form(a, b), form(b, b)]
    }

    /// The shares of the variance along the two directions; `None` when the columns were left as they are.
    pub fn explained(&self) -> Option<[f64; 2]> {
        self.explained
    }

    /// Names of the two coordinates: those of the columns, or the directions with their share of the variance.
    pub fn labels(&self, column_names: &[String]) -> [String; 2] {
        let column = |ix: usize| match column_names.get(ix) {
            Some(name) if !name.is_empty() => name.clone(),
            _ => format!("column {}", ix + 1),
        };
        match self.explained {
            None => [column(0), if self.centre.len() > 1 { column(1) } else { String::new() }],
            Some([first, second]) => [
                format!("first principal direction ({:.0} % of the variance)", first * 100.0),
                format!("second principal direction ({:.0} % of the variance)", second * 100.0),
            ],
        }
    }

    fn axes(first: Vec<f64>, second: Vec<f64>) -> Self {
        Self { centre: vec![0.0; first.len()], directions: [first, second], explained: None }
    }

    fn principal(dimensions: usize, values: &[f64]) -> Self {
        let rows: Vec<&[f64]> =
            values.chunks_exact(dimensions).filter(|row| row.iter().all(|v| v.is_finite())).collect();
        let centre = mean(&rows, dimensions);
        let mut block = start(dimensions);
        for _ in 0..ITERATIONS {
            let next: Vec<Vec<f64>> = block.iter().map(|w| times_covariance(&rows, &centre, w)).collect();
            block = orthonormal(next);
        }
        let (first, second, variances) = leading(&rows, &centre, &block);
        let total: f64 =
            rows.iter().map(|row| squared_distance(row, &centre)).sum::<f64>() / rows.len().max(1) as f64;
        let share = |variance: f64| if total > 0.0 { variance / total } else { 0.0 };
        Self { centre, directions: [upright(first), upright(second)], explained: Some(variances.map(share)) }
    }
}

fn mean(rows: &[&[f64]], dimensions: usize) -> Vec<f64> {
    let mut mean = vec![0.0; dimensions];
    for row in rows {
        mean.iter_mut().zip(*row).for_each(|(m, v)| *m += v);
    }
    mean.iter_mut().for_each(|m| *m /= rows.len().max(1) as f64);
    mean
}

fn squared_distance(row: &[f64], centre: &[f64]) -> f64 {
    row.iter().zip(centre).map(|(y, c)| (y - c).powi(2)).sum()
}

/// Directions to start from: fixed, and dense enough not to be orthogonal to the leading ones.
fn start(dimensions: usize) -> Vec<Vec<f64>> {
    let entry =
        |row: usize, column: usize| ((row * 7919 + column * 104_729 + 17) as f64 * 0.618_033_988).sin();
    let block =
        (0..BLOCK.min(dimensions)).map(|row| (0..dimensions).map(|c| entry(row, c)).collect()).collect();
    orthonormal(block)
}

/// `C w`, from the rows.
fn times_covariance(rows: &[&[f64]], centre: &[f64], w: &[f64]) -> Vec<f64> {
    let mut product = vec![0.0; w.len()];
    for row in rows {
        let along: f64 = row.iter().zip(centre).zip(w).map(|((y, c), w)| (y - c) * w).sum();
        product.iter_mut().zip(row.iter().zip(centre)).for_each(|(p, (y, c))| *p += along * (y - c));
    }
    product.iter_mut().for_each(|p| *p /= rows.len().max(1) as f64);
    product
}

/// Gram–Schmidt, twice for accuracy; a direction that vanishes is replaced by the next axis that does not.
fn orthonormal(block: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let dimensions = block.first().map_or(0, Vec::len);
    let mut done: Vec<Vec<f64>> = Vec::with_capacity(block.len());
    for vector in block {
        let axes = (0..dimensions).map(|ix| (0..dimensions).map(|c| f64::from(u8::from(c == ix))).collect());
        let found =
            std::iter::once(vector).chain(axes).find_map(|candidate: Vec<f64>| reduced(candidate, &done));
        done.extend(found);
    }
    done
}

/// The part of a vector across the given ones, of length one; `None` when there is next to nothing.
fn reduced(mut vector: Vec<f64>, done: &[Vec<f64>]) -> Option<Vec<f64>> {
    let before = norm(&vector);
    for other in done.iter().chain(done) {
        let along = dot(&vector, other);
        vector.iter_mut().zip(other).for_each(|(v, o)| *v -= along * o);
    }
    let after = norm(&vector);
    if !(after.is_finite() && after > before * 1e-10 && after > 0.0) {
        return None;
    }
    vector.iter_mut().for_each(|v| *v /= after);
    Some(vector)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

/// The two leading eigenvectors within the block, and their variances.
fn leading(rows: &[&[f64]], centre: &[f64], block: &[Vec<f64>]) -> (Vec<f64>, Vec<f64>, [f64; 2]) {
    let images: Vec<Vec<f64>> = block.iter().map(|w| times_covariance(rows, centre, w)).collect();
    let small = block.iter().map(|a| images.iter().map(|b| dot(a, b)).collect()).collect();
    let (variances, vectors) = jacobi(small);
    let mut order: Vec<usize> = (0..variances.len()).collect();
    order.sort_by(|a, b| variances[*b].total_cmp(&variances[*a]));
    let direction = |ix: usize| {
        let mut sum = vec![0.0; centre.len()];
        for (row, w) in block.iter().enumerate() {
            sum.iter_mut().zip(w).for_each(|(s, w)| *s += vectors[row][ix] * w);
        }
        sum
    };
    (direction(order[0]), direction(order[1]), [variances[order[0]], variances[order[1]]])
}

/// Eigenvalues and eigenvectors (in columns) of a small symmetric matrix, by Jacobi rotations.
fn jacobi(mut a: Vec<Vec<f64>>) -> (Vec<f64>, Vec<Vec<f64>>) {
    let n = a.len();
    let mut v: Vec<Vec<f64>> =
        (0..n).map(|r| (0..n).map(|c| f64::from(u8::from(r == c))).collect()).collect();
    for _ in 0..30 {
        for p in 0..n {
            for q in p + 1..n {
                let (sin, cos) = (0.5 * (2.0 * a[p][q]).atan2(a[q][q] - a[p][p])).sin_cos();
                rotate(&mut a, &mut v, (p, q), (sin, cos));
            }
        }
    }
    ((0..n).map(|ix| a[ix][ix]).collect(), v)
}

fn rotate(a: &mut [Vec<f64>], v: &mut [Vec<f64>], (p, q): (usize, usize), (sin, cos): (f64, f64)) {
    for row in a.iter_mut().chain(v.iter_mut()) {
        (row[p], row[q]) = (cos * row[p] - sin * row[q], sin * row[p] + cos * row[q]);
    }
    let (upper, lower) = a.split_at_mut(q);
    for (x, y) in upper[p].iter_mut().zip(&mut lower[0]) {
        (*x, *y) = (cos * *x - sin * *y, sin * *x + cos * *y);
    }
}

/// The sign is free: the entry of the largest size is made positive (the first of them, within round-off).
fn upright(mut direction: Vec<f64>) -> Vec<f64> {
    let largest = direction.iter().fold(0.0f64, |largest, v| largest.max(v.abs()));
    let leader = direction.iter().find(|v| v.abs() >= largest * (1.0 - 1e-9)).copied().unwrap_or(1.0);
    if leader < 0.0 {
        direction.iter_mut().for_each(|v| *v = -*v);
    }
    direction
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Round-off of forty iterations on numbers near one.
    const CLOSE: f64 = 1e-9;

    /// Rows ±3 along (1, 1, 0)/√2 and ±1 along (0, 0, 1): C = diag(4.5, 0.5, 0) in that basis.
    fn cross() -> Vec<f64> {
        let s = 3.0 / 2f64.sqrt();
        vec![s, s, 0.0, -s, -s, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, -1.0]
    }

    #[test]
    fn the_leading_directions_match_the_hand_computed_ones() {
        let projection = Projection::fit(3, &cross()).unwrap();
        let half = 0.5f64.sqrt();
        for (found, wanted) in projection.directions.iter().flatten().zip([half, half, 0.0, 0.0, 0.0, 1.0]) {
            assert!((found - wanted).abs() < CLOSE, "{projection:?}");
        }
        let [first, second] = projection.explained().unwrap();
        assert!((first - 0.9).abs() < CLOSE && (second - 0.1).abs() < CLOSE);
        let [x, y] = projection.point(&[1.0, 1.0, 5.0]);
        assert!((x - 2f64.sqrt()).abs() < CLOSE && (y - 5.0).abs() < CLOSE);
    }

    #[test]
    fn a_covariance_is_projected_alike_in_every_shape() {
        let projection = Projection::fit(3, &cross()).unwrap();
        let full = [2.0, 0.5, 0.1, 0.5, 1.0, 0.2, 0.1, 0.2, 3.0];
        let packed = [2.0, 0.5, 1.0, 0.1, 0.2, 3.0];
        // w₁ᵀΣw₁ = (2 + 1 + 2·0.5)/2 = 2, w₁ᵀΣw₂ = 0.3/√2, w₂ᵀΣw₂ = 3.
        let wanted = [2.0, 0.3 / 2f64.sqrt(), 3.0];
        for shape in [Covariance::Full(&full), Covariance::Packed(&packed)] {
            let found = projection.covariance(shape);
            assert!(found.iter().zip(wanted).all(|(f, w)| (f - w).abs() < CLOSE), "{found:?}");
        }
        let found = projection.covariance(Covariance::Diagonal(&[2.0, 1.0, 3.0]));
        assert!((found[0] - 1.5).abs() < CLOSE && found[1].abs() < CLOSE);
    }

    #[test]
    fn two_columns_are_left_as_they_are() {
        let projection = Projection::fit(2, &[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!(projection.point(&[7.0, -8.0]), [7.0, -8.0]);
        assert_eq!(projection.covariance(Covariance::Full(&[4.0, 1.0, 1.0, 9.0])), [4.0, 1.0, 9.0]);
        assert_eq!(projection.labels(&["a".into(), "b".into()]), ["a", "b"]);
    }

    #[test]
    fn one_column_lies_on_a_line() {
        let projection = Projection::fit(1, &[1.0, 2.0]).unwrap();
        assert_eq!(projection.point(&[7.0]), [7.0, 0.0]);
    }

    #[test]
    fn rows_that_are_equal_missing_or_not_finite_are_no_trouble() {
        for values in [vec![], vec![1.0; 30], vec![f64::NAN; 30]] {
            let projection = Projection::fit(5, &values).unwrap();
            assert!(projection.directions.iter().flatten().all(|v| v.is_finite()));
            assert_eq!(projection.explained(), Some([0.0, 0.0]));
        }
        assert_eq!(Projection::fit(0, &[]), None);
    }

    #[test]
    fn many_columns_give_orthonormal_directions() {
        let values: Vec<f64> =
            (0..40 * 50).map(|ix| f64::from((ix * ix) % 97) * f64::from(ix % 40)).collect();
        let [a, b] = Projection::fit(40, &values).unwrap().directions;
        assert!(
            (norm(&a) - 1.0).abs() < CLOSE && (norm(&b) - 1.0).abs() < CLOSE && dot(&a, &b).abs() < CLOSE
        );
    }
}
