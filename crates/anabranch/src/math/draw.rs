//! Drawing an index by weight.

use rand::{Rng, RngExt};

/// An index with probability proportional to its weight; `None` when every weight is 0.
pub fn draw_proportional(weights: &[f64], rng: &mut impl Rng) -> Option<usize> {
    let total: f64 = weights.iter().sum();
    if !(total > 0.0 && total.is_finite()) {
        return None;
    }
    let mut left = rng.random::<f64>() * total;
    for (ix, weight) in weights.iter().enumerate() {
        left -= weight;
        if left < 0.0 && *weight > 0.0 {
            return Some(ix);
        }
    }
    weights.iter().rposition(|weight| *weight > 0.0)
}

/// The same from weights whose sums over blocks of `len` are known: only one block is looked through.
pub fn draw_from_blocks(weights: &[f64], sums: &[f64], len: usize, rng: &mut impl Rng) -> Option<usize> {
    let total: f64 = sums.iter().sum();
    if !(total > 0.0 && total.is_finite()) {
        return None;
    }
    let mut left = rng.random::<f64>() * total;
    let mut last = None;
    for (block, sum) in sums.iter().enumerate().filter(|(_, sum)| **sum > 0.0) {
        last = Some(block);
        if left < *sum {
            break;
        }
        left -= sum;
    }
    let first = last? * len;
    let weights = &weights[first..weights.len().min(first + len)];
    let mut drawn = None;
    for (ix, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
        drawn = Some(first + ix);
        left -= weight;
        if left < 0.0 {
            break;
        }
    }
    drawn
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    #[test]
    fn blocks_draw_what_their_weights_draw() {
        let weights: Vec<f64> = (0..23).map(|ix| if ix % 5 == 0 { 0.0 } else { f64::from(ix % 7) }).collect();
        let sums: Vec<f64> = weights.chunks(4).map(|block| block.iter().sum()).collect();
        for seed in 0..200 {
            let [one, other] = [0, 0].map(|_| Xoshiro256PlusPlus::seed_from_u64(seed));
            let all = draw_proportional(&weights, &mut { one });
            assert_eq!(draw_from_blocks(&weights, &sums, 4, &mut { other }), all);
        }
        let rng = &mut Xoshiro256PlusPlus::seed_from_u64(1);
        assert_eq!(draw_from_blocks(&[0.0; 8], &[0.0; 2], 4, rng), None);
    }

    #[test]
    fn drawing_skips_weights_of_zero() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        for _ in 0..1000 {
            let drawn = draw_proportional(&[0.0, 1.0, 0.0, 3.0, 0.0], &mut rng).unwrap();
            assert!(drawn == 1 || drawn == 3);
        }
        assert_eq!(draw_proportional(&[0.0, 0.0], &mut rng), None);
    }
}
