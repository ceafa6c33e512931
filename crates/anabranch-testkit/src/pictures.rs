//! Small pictures made of blocks, each there or not (Griffiths and Ghahramani's test of latent features).

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Cells on a side.
pub const SIDE: usize = 6;

/// The four blocks, one in each corner: a cross, a ring, a step and a peg.
const SHAPES: [&str; SIDE] = [".#.###", "####.#", ".#.###", "#..###", "##..#.", "###.#."];

/// The blocks as rows of `SIDE²` numbers.
pub fn blocks() -> Vec<Vec<f64>> {
    let half = SIDE / 2;
    let corner = |top: usize, left: usize| -> Vec<f64> {
        let cell = |y: usize, x: usize| {
            let inside = (top..top + half).contains(&y) && (left..left + half).contains(&x);
            f64::from(u8::from(inside && SHAPES[y].as_bytes()[x] == b'#'))
        };
        (0..SIDE).flat_map(|y| (0..SIDE).map(move |x| (y, x))).map(|(y, x)| cell(y, x)).collect()
    };
    vec![corner(0, 0), corner(0, half), corner(half, 0), corner(half, half)]
}

/// Pictures in which each block is there with probability one half, under noise; with which blocks each has.
pub fn block_pictures(n: usize, noise: f64, seed: u64) -> (Vec<f64>, Vec<Vec<bool>>) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let blocks = blocks();
    let mut values = Vec::with_capacity(n * SIDE * SIDE);
    let mut truth = Vec::with_capacity(n);
    for _ in 0..n {
        let has: Vec<bool> = blocks.iter().map(|_| rng.random()).collect();
        for cell in 0..SIDE * SIDE {
            let sum: f64 =
                has.iter().zip(&blocks).filter(|(has, _)| **has).map(|(_, block)| block[cell]).sum();
            let epsilon: f64 = StandardNormal.sample(&mut rng);
            values.push(sum + noise * epsilon);
        }
        truth.push(has);
    }
    (values, truth)
}
