//! The families under test, each with an irregular prior and rows of its domain.

use anabranch::family::{
    AnyFamily, Bernoulli, Block, Categorical, Diagonal, Family, Frame, Gaussian, Multinomial, NormalGamma,
    NormalInverseWishart, Poisson, Product, Spherical, SphericalPrior,
};

/// A family and rows that it takes.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) family: AnyFamily,
    pub(crate) rows: Vec<Vec<f64>>,
}

impl Case {
    fn new(family: impl Into<AnyFamily>, rows: Vec<Vec<f64>>) -> Self {
        let family = family.into();
        for row in &rows {
            family.check(row).expect("the rows of a case are in its domain");
        }
        Self { name: format!("{} of {} columns", family.name(), family.dimensions()), family, rows }
    }

    /// Statistics of the rows with irregular weights between 0 and 1.
    pub(crate) fn weighted_stats(&self) -> Vec<f64> {
        let weights: Vec<f64> = (0..self.rows.len()).map(|ix| 0.05 + 0.9 * fraction(ix, 77)).collect();
        stats_of(&self.family, &self.rows, &weights)
    }
}

/// `Σ_j weight_j T(x_j)`.
pub(crate) fn stats_of(family: &impl Family, rows: &[Vec<f64>], weights: &[f64]) -> Vec<f64> {
    let mut stats = vec![0.0; family.n_features()];
    for (row, weight) in rows.iter().zip(weights) {
        let features = features_of(family, row);
        stats.iter_mut().zip(&features).for_each(|(s, f)| *s += weight * f);
    }
    stats
}

/// `T(x)`.
pub(crate) fn features_of(family: &impl Family, row: &[f64]) -> Vec<f64> {
    let mut features = vec![f64::NAN; family.n_features()];
    family.features(row, &mut features);
    features
}

/// An irregular number in `[0, 1)`, the same on every run.
pub(crate) fn fraction(ix: usize, salt: usize) -> f64 {
    let x = ((ix * 7919 + salt * 104_729 + 13) as f64 * 0.618_033_988_749_894_9).sin() * 43_758.545_3;
    x - x.floor()
}

const ROWS: usize = 12;

fn table(dimensions: usize, salt: usize, value: impl Fn(usize, f64) -> f64) -> Vec<Vec<f64>> {
    let entry = |row: usize, column: usize| value(column, fraction(row * 31 + column, salt));
    (0..ROWS).map(|row| (0..dimensions).map(|column| entry(row, column)).collect()).collect()
}

pub(crate) fn real_rows(dimensions: usize) -> Vec<Vec<f64>> {
    table(dimensions, 3, |column, u| 4.0 * u - 2.0 + 0.5 * column as f64)
}

fn frame(dimensions: usize) -> Frame {
    let shift = (0..dimensions).map(|d| 0.3 - 0.2 * d as f64).collect();
    let scale = (0..dimensions).map(|d| 0.8 + 0.35 * d as f64).collect();
    Frame::new(shift, scale).unwrap()
}

/// A prior with correlations, in data units.
pub(crate) fn niw(dimensions: usize) -> NormalInverseWishart {
    let mut psi = Vec::new();
    for i in 0..dimensions {
        psi.push(1.5 + 0.4 * i as f64);
        psi.extend((i + 1..dimensions).map(|j| 0.3 / (1.0 + (j - i) as f64)));
    }
    let mean = (0..dimensions).map(|d| 0.4 - 0.3 * d as f64).collect();
    NormalInverseWishart { mean, kappa: 0.7, psi, dof: dimensions as f64 + 1.3 }
}

pub(crate) fn gaussian(dimensions: usize) -> Gaussian {
    Gaussian::with_prior_in_data_units(frame(dimensions), niw(dimensions)).unwrap()
}

pub(crate) fn normal_gammas(dimensions: usize) -> Vec<NormalGamma> {
    let column = |d: usize| {
        let d = d as f64;
        NormalGamma { mean: 0.3 - 0.2 * d, kappa: 0.5 + 0.3 * d, a: 1.2 + 0.25 * d, b: 0.9 + 0.1 * d }
    };
    (0..dimensions).map(column).collect()
}

pub(crate) fn diagonal(dimensions: usize) -> Diagonal {
    Diagonal::with_prior_in_data_units(frame(dimensions), normal_gammas(dimensions)).unwrap()
}

pub(crate) fn spherical_prior(dimensions: usize) -> SphericalPrior {
    SphericalPrior {
        mean: (0..dimensions).map(|d| 0.2 * d as f64 - 0.1).collect(),
        kappa: 0.6,
        a: 1.4,
        b: 1.1,
    }
}

pub(crate) fn spherical(dimensions: usize) -> Spherical {
    let frame = Frame::new(vec![0.25; dimensions], vec![1.7; dimensions]).unwrap();
    Spherical::with_prior_in_data_units(frame, spherical_prior(dimensions)).unwrap()
}

fn positive(n: usize, salt: usize) -> Vec<f64> {
    (0..n).map(|ix| 0.3 + 2.0 * fraction(ix, salt)).collect()
}

pub(crate) fn bernoulli(dimensions: usize) -> Bernoulli {
    Bernoulli::new(positive(dimensions, 5), positive(dimensions, 6)).unwrap()
}

pub(crate) fn bits(dimensions: usize) -> Vec<Vec<f64>> {
    table(dimensions, 11, |_, u| f64::from(u8::from(u > 0.45)))
}

pub(crate) fn category_counts(dimensions: usize) -> Vec<usize> {
    (0..dimensions).map(|d| 2 + d % 3).collect()
}

pub(crate) fn categorical(dimensions: usize) -> Categorical {
    let columns = category_counts(dimensions).into_iter().enumerate();
    Categorical::new(columns.map(|(d, n)| positive(n, 20 + d)).collect()).unwrap()
}

pub(crate) fn codes(dimensions: usize) -> Vec<Vec<f64>> {
    // Some codes lie above the last category: they are "other".
    let categories = category_counts(dimensions);
    table(dimensions, 12, |d, u| (u * (categories[d] as f64 + 1.0)).floor())
}

pub(crate) fn poisson(dimensions: usize) -> Poisson {
    Poisson::new(positive(dimensions, 7), positive(dimensions, 8)).unwrap()
}

pub(crate) fn counts(dimensions: usize) -> Vec<Vec<f64>> {
    table(dimensions, 13, |d, u| (u * (3.0 + 2.0 * d as f64)).floor())
}

pub(crate) fn multinomial(dimensions: usize) -> Multinomial {
    Multinomial::new(positive(dimensions, 9), 6.0).unwrap()
}

/// Rows of six words each.
pub(crate) fn words(dimensions: usize) -> Vec<Vec<f64>> {
    let mut rows = vec![vec![0.0; dimensions]; ROWS];
    for (ix, row) in rows.iter_mut().enumerate() {
        for word in 0..6 {
            row[(fraction(ix * 6 + word, 14) * dimensions as f64) as usize] += 1.0;
        }
    }
    rows
}

pub(crate) fn product() -> Product {
    let block = |columns: &[usize], family: AnyFamily| Block { columns: columns.to_vec(), family };
    Product::new(vec![
        block(&[4, 0], gaussian(2).into()),
        block(&[1], poisson(1).into()),
        block(&[3], categorical(1).into()),
        block(&[2, 5, 6], diagonal(3).into()),
    ])
    .unwrap()
}

pub(crate) fn mixed_rows() -> Vec<Vec<f64>> {
    let (real, count, code) = (real_rows(5), counts(1), codes(1));
    let row = |ix: usize| {
        let r = &real[ix];
        vec![r[0], count[ix][0], r[1], code[ix][0], r[2], r[3], r[4]]
    };
    (0..ROWS).map(row).collect()
}

/// Every family in 1, 2, 3 and 5 columns, and a product of four kinds of columns.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for d in [1, 2, 3, 5] {
        cases.push(Case::new(gaussian(d), real_rows(d)));
        cases.push(Case::new(diagonal(d), real_rows(d)));
        cases.push(Case::new(spherical(d), real_rows(d)));
        cases.push(Case::new(bernoulli(d), bits(d)));
        cases.push(Case::new(categorical(d), codes(d)));
        cases.push(Case::new(poisson(d), counts(d)));
        cases.push(Case::new(multinomial(d), words(d)));
    }
    cases.push(Case::new(product(), mixed_rows()));
    cases
}
