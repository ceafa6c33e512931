//! Sums in one frame as sums in another, so that models whose first rows differed can be put together.
//!
//! ```text
//! x″ = a x′ + b,   a = s′/s″,   b = (m′ − m″)/s″          (per column; m, s: shift and scale of the frame)
//! Σ x″ = a Σ x′ + n b
//! Σ x″ᵢ x″ⱼ = aᵢ aⱼ Σ x′ᵢ x′ⱼ + aᵢ bⱼ Σ x′ᵢ + aⱼ bᵢ Σ x′ⱼ + n bᵢ bⱼ
//! ```

use super::{AnyFamily, Conjugate, Family, Frame, Product};

/// Why sums of one family are no sums of another one.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OtherFamily {
    /// Another kind of component.
    #[error("{0} is not {1}")]
    Kind(&'static str, &'static str),
    /// Other columns, categories or words.
    #[error("their columns or categories differ")]
    Columns,
    /// Values that stand for intervals of another width.
    #[error("values of column {column} are rounded to {one} in one and to {other} in the other")]
    Resolution {
        /// The column, from 0.
        column: usize,
        /// A width; 0 for exact values.
        one: f64,
        /// The other one.
        other: f64,
    },
}

/// A shift and a scale from one frame to another.
struct Change {
    scale: Vec<f64>,
    shift: Vec<f64>,
}

impl Change {
    fn between(from: &Frame, to: &Frame) -> Self {
        let columns = || from.shift().iter().zip(from.scale()).zip(to.shift().iter().zip(to.scale()));
        Self {
            scale: columns().map(|((_, from), (_, to))| from / to).collect(),
            shift: columns().map(|((from, _), (to, scale))| (from - to) / scale).collect(),
        }
    }

    fn sums(&self, count: f64, sums: &[f64]) -> Vec<f64> {
        let columns = sums.iter().zip(&self.scale).zip(&self.shift);
        columns.map(|((sum, a), b)| a * sum + count * b).collect()
    }

    /// `Σ x″ᵢ x″ⱼ`.
    fn product(&self, count: f64, sums: &[f64], (i, j): (usize, usize), product: f64) -> f64 {
        let (a, b) = (&self.scale, &self.shift);
        a[i] * a[j] * product + a[i] * b[j] * sums[i] + a[j] * b[i] * sums[j] + count * b[i] * b[j]
    }
}

impl AnyFamily {
    /// The sums `stats` of rows under this family as the sums of the same rows under `to`.
    pub fn reframed(&self, stats: &[f64], to: &AnyFamily) -> Result<Vec<f64>, OtherFamily> {
        if self.name() != to.name() {
            return Err(OtherFamily::Kind(self.name(), to.name()));
        }
        let same = self.dimensions() == to.dimensions()
            && self.n_features() == to.n_features()
            && stats.len() == self.n_features();
        if !same {
            return Err(OtherFamily::Columns);
        }
        let width = |family: &AnyFamily, column| family.resolution(column).unwrap_or(0.0);
        for column in 0..self.dimensions() {
            let (one, other) = (width(self, column), width(to, column));
            if one != other {
                return Err(OtherFamily::Resolution { column, one, other });
            }
        }
        match (self, to) {
            (AnyFamily::Gaussian(from), AnyFamily::Gaussian(to)) => {
                let change = Change::between(from.frame(), to.frame());
                Ok(framed(&change, stats, |sums, squares| {
                    let d = sums.len();
                    let pairs = (0..d).flat_map(|i| (i..d).map(move |j| (i, j)));
                    pairs.zip(squares).map(|(ij, sum)| change.product(stats[0], sums, ij, *sum)).collect()
                }))
            }
            (AnyFamily::Diagonal(from), AnyFamily::Diagonal(to)) => {
                let change = Change::between(from.frame(), to.frame());
                Ok(framed(&change, stats, |sums, squares| {
                    let columns = squares.iter().enumerate();
                    columns.map(|(i, sum)| change.product(stats[0], sums, (i, i), *sum)).collect()
                }))
            }
            (AnyFamily::Spherical(from), AnyFamily::Spherical(to)) => {
                let change = Change::between(from.frame(), to.frame());
                Ok(framed(&change, stats, |sums, squares| {
                    // One scale for all columns: the sum of the squares is scaled as a whole, the rest column by column.
                    let a = change.scale.first().copied().unwrap_or(1.0);
                    let others = (0..sums.len()).map(|i| change.product(stats[0], sums, (i, i), 0.0));
                    vec![a * a * squares[0] + others.sum::<f64>()]
                }))
            }
            (AnyFamily::Product(from), AnyFamily::Product(to)) => blocks(from, stats, to),
            // Counts are counted as they are; families of as many columns and features have the same ones.
            _ => Ok(stats.to_vec()),
        }
    }
}

/// Count, sums and squares, of which the last are computed from the sums before.
fn framed(change: &Change, stats: &[f64], squares: impl FnOnce(&[f64], &[f64]) -> Vec<f64>) -> Vec<f64> {
    let d = change.scale.len();
    let (sums, rest) = stats[1..].split_at(d);
    let mut all = vec![stats[0]];
    all.extend(change.sums(stats[0], sums));
    all.extend(squares(sums, rest));
    all
}

fn blocks(from: &Product, stats: &[f64], to: &Product) -> Result<Vec<f64>, OtherFamily> {
    let (mut rest, mut all) = (stats, Vec::with_capacity(stats.len()));
    if from.blocks().len() != to.blocks().len() {
        return Err(OtherFamily::Columns);
    }
    for (one, other) in from.blocks().iter().zip(to.blocks()) {
        if one.columns != other.columns {
            return Err(OtherFamily::Columns);
        }
        let (part, after) = rest.split_at(one.family.n_features());
        all.extend(one.family.reframed(part, &other.family)?);
        rest = after;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Batch;
    use crate::family::{Block, Diagonal, Gaussian, Poisson, Spherical};

    fn rows(shift: f64, scale: f64, columns: usize) -> Batch {
        let value = |i: usize| shift + scale * ((i * i % 17) as f64 - 0.3 * (i % 5) as f64);
        Batch::new(columns, (0..60 * columns).map(value).collect()).unwrap()
    }

    fn sums(family: &AnyFamily, rows: &Batch) -> Vec<f64> {
        let (mut all, mut one) = (vec![0.0; family.n_features()], vec![0.0; family.n_features()]);
        for row in rows.rows() {
            family.features(row, &mut one);
            all.iter_mut().zip(&one).for_each(|(sum, value)| *sum += 0.7 * value);
        }
        all
    }

    /// The sums in another frame are those that the rows have there.
    #[test]
    fn sums_in_another_frame_are_the_sums_of_the_same_rows() {
        let makers: [fn(&Batch) -> AnyFamily; 4] = [
            |rows| Gaussian::from_rows(rows).unwrap().into(),
            |rows| Diagonal::from_rows(rows).unwrap().into(),
            |rows| Spherical::from_rows(rows).unwrap().into(),
            |rows| {
                let only = |columns: &[usize]| {
                    let values =
                        rows.rows().flat_map(|row| columns.iter().map(|c| row[*c]).collect::<Vec<_>>());
                    Batch::new(columns.len(), values.collect()).unwrap()
                };
                let gaussian = Gaussian::from_rows(&only(&[2, 0])).unwrap();
                let counts = Poisson::new(vec![1.0], vec![1.0]).unwrap();
                let blocks = vec![
                    Block { columns: vec![2, 0], family: gaussian.into() },
                    Block { columns: vec![1], family: counts.into() },
                ];
                Product::new(blocks).unwrap().into()
            },
        ];
        let (one, other) = (rows(3.0, 0.37, 3), rows(-40.0, 5.3, 3));
        for make in makers {
            let exact = |family: AnyFamily| family.with_resolution(&[0.0; 3]).unwrap();
            let (from, to) = (exact(make(&one)), exact(make(&other)));
            assert_ne!(from, to);
            let (found, expected) = (from.reframed(&sums(&from, &one), &to).unwrap(), sums(&to, &one));
            for (found, expected) in found.iter().zip(&expected) {
                // A few roundings of sums that are no larger than the largest.
                let size = expected.abs().max(1.0) * 1e-11;
                assert!((found - expected).abs() < size, "{}: {found} {expected}", from.name());
            }
        }
    }

    #[test]
    fn sums_of_another_family_are_refused() {
        let (two, three) = (rows(0.0, 1.0, 2), rows(0.0, 1.0, 3));
        let gaussian = |rows: &Batch| -> AnyFamily { Gaussian::from_rows(rows).unwrap().into() };
        let diagonal: AnyFamily = Diagonal::from_rows(&two).unwrap().into();
        let stats = sums(&gaussian(&two), &two);
        assert_eq!(
            gaussian(&two).reframed(&stats, &diagonal),
            Err(OtherFamily::Kind("gaussian", "diagonal"))
        );
        assert_eq!(gaussian(&two).reframed(&stats, &gaussian(&three)), Err(OtherFamily::Columns));
        let exact = gaussian(&two).with_resolution(&[0.0, 0.0]).unwrap();
        let rounded = gaussian(&two).with_resolution(&[0.0, 0.5]).unwrap();
        let expected = OtherFamily::Resolution { column: 1, one: 0.0, other: 0.5 };
        assert_eq!(exact.reframed(&stats, &rounded), Err(expected));
    }
}
