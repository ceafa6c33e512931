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

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

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
