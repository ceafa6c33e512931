//! A model of every family with rows for it, and a run with everything fixed.

use anabranch::batch::Batch;
use anabranch::family::{
    AnyFamily, Bernoulli, Block, Categorical, Diagonal, Gaussian, Multinomial, Poisson, Product, Spherical,
};
use anabranch::process::{Bound, Dirichlet};
use anabranch_rivals::{Algorithm, Config, Fitted, fit};
use anabranch_testkit::streams::{Columns, stream};

pub(crate) const FAMILIES: [&str; 8] =
    ["gaussian", "diagonal", "spherical", "bernoulli", "categorical", "poisson", "multinomial", "product"];

fn rows_of(columns: Columns, seed: u64, n: usize, k: usize, d: usize) -> Batch {
    Batch::new(d, stream(columns, seed, n, k, d)).unwrap()
}

/// The family with this name and a default prior, with `n` rows from `k` groups.
pub(crate) fn model(name: &str, seed: u64, n: usize, k: usize) -> (AnyFamily, Batch) {
    let reals = || rows_of(Columns::Reals, seed, n, k, 2);
    let counts = || rows_of(Columns::Counts, seed, n, k, 6);
    match name {
        "gaussian" => (Gaussian::from_rows(&reals()).unwrap().into(), reals()),
        "diagonal" => (Diagonal::from_rows(&reals()).unwrap().into(), reals()),
        "spherical" => (Spherical::from_rows(&reals()).unwrap().into(), reals()),
        "bernoulli" => {
            let rows = rows_of(Columns::Bits, seed, n, k, 6);
            (Bernoulli::from_rows(&rows).unwrap().into(), rows)
        }
        "categorical" => {
            let rows = rows_of(Columns::Codes, seed, n, k, 6);
            (Categorical::from_rows(&rows).unwrap().into(), rows)
        }
        "poisson" => (Poisson::from_rows(&counts()).unwrap().into(), counts()),
        "multinomial" => (Multinomial::from_rows(&counts()).unwrap().into(), counts()),
        "product" => product(seed, n, k),
        other => panic!("no family {other}"),
    }
}

/// Two real columns and three bits.
fn product(seed: u64, n: usize, k: usize) -> (AnyFamily, Batch) {
    let (reals, bits) = (rows_of(Columns::Reals, seed, n, k, 2), rows_of(Columns::Bits, seed + 1, n, k, 3));
    let values = reals.rows().zip(bits.rows()).flat_map(|(reals, bits)| [reals, bits].concat()).collect();
    let blocks = vec![
        Block { columns: vec![0, 1], family: Gaussian::from_rows(&reals).unwrap().into() },
        Block { columns: vec![2, 3, 4], family: Bernoulli::from_rows(&bits).unwrap().into() },
    ];
    (Product::new(blocks).unwrap().into(), Batch::new(5, values).unwrap())
}

pub(crate) fn process(alpha: f64) -> Dirichlet {
    Dirichlet::new(alpha, Bound::Paper).unwrap()
}

/// A run that nobody watches.
pub(crate) fn quiet(
    algorithm: Algorithm,
    rows: &Batch,
    family: AnyFamily,
    alpha: f64,
    config: &Config,
) -> Fitted<AnyFamily> {
    fit(algorithm, rows, family, process(alpha), config, &mut ()).unwrap()
}
