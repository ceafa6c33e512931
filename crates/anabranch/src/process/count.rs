//! Lower bounds of `E[w_d(n); n > 0]`, the term that the size of a cluster adds under a Pitman–Yor process.
//!
//! ```text
//! w_d(n) = log Γ(n − d) − log Γ(1 − d)                        w_0 = log Γ: the Dirichlet process
//!
//! paper         m_d(t) = t/2 · log(1 − d)  for t < 2,  w_d(t)  from 2 on
//! conditional   P·W_d(t / P),   P = 1 − e^s,   W_d = linear interpolation of w_d at the integers
//! ```
//!
//! `w_d(0) = w_d(1) = 0` and `w_d(2) = log(1 − d) ≤ 0`: the points are not convex at 1, and the lowest convex curve below
//! them starts with the chord from 0 to 2. Conditioning on `n > 0` first avoids the kink. At `d = 0` the first is
//! `log Γ(max{2, t})`, as published.

use super::{Bound, LabelStatistics};
use crate::math::special::ln_gamma;

/// The bound of this kind for a component with these statistics.
pub(super) fn count_term(bound: Bound, stats: &LabelStatistics, discount: f64) -> f64 {
    match bound {
        Bound::Paper => smooth(stats.expected_count, discount),
        Bound::Conditional => conditional(stats, discount),
    }
}

/// `w_d(n)` for `n ≥ 1`.
fn ln_seats(n: f64, discount: f64) -> f64 {
    // log Γ(1) = 0, but only up to rounding once something was subtracted: without a discount it is log Γ itself.
    if discount == 0.0 { ln_gamma(n) } else { ln_gamma(n - discount) - ln_gamma(1.0 - discount) }
}

fn smooth(count: f64, discount: f64) -> f64 {
    if count < 2.0 { 0.5 * count * (-discount).ln_1p() } else { ln_seats(count, discount) }
}

fn conditional(stats: &LabelStatistics, discount: f64) -> f64 {
    let occupied = stats.probability_occupied();
    // Below 2 the chord is (t/P − 1)·log(1 − d): a component that is all but empty needs no quotient of tiny numbers.
    if stats.expected_count <= 2.0 * occupied {
        return (stats.expected_count - occupied).max(0.0) * (-discount).ln_1p();
    }
    occupied * interpolated(stats.expected_count / occupied, discount)
}

/// `W_d(c) = w_d(⌊c⌋) + (c − ⌊c⌋) log(⌊c⌋ − d)` for `c ≥ 1`, the chord between neighbouring integers.
fn interpolated(count: f64, discount: f64) -> f64 {
    let below = count.floor();
    ln_seats(below, discount) + (count - below) * (below - discount).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interpolation_meets_the_curve_at_the_integers_and_is_continuous() {
        for discount in [0.0, 0.3, 0.9] {
            for integer in 2..200 {
                let count = f64::from(integer);
                let exact = ln_seats(count, discount);
                assert_eq!(interpolated(count, discount), exact);
                let below = interpolated(count.next_down(), discount);
                assert!((below - exact).abs() <= 1e-12 * (1.0 + exact.abs()), "{count} {discount}");
            }
        }
    }

    #[test]
    fn without_a_discount_the_smooth_term_is_the_published_one() {
        for count in [0.0, 0.3, 1.0, 1.99, 2.0, 2.5, 17.25, 4e5] {
            assert_eq!(smooth(count, 0.0), ln_gamma(f64::max(2.0, count)));
        }
    }

    #[test]
    fn both_are_continuous_where_their_pieces_meet() {
        for discount in [0.1, 0.5, 0.99] {
            assert!((smooth(2.0_f64.next_down(), discount) - smooth(2.0, discount)).abs() < 1e-12);
            let stats = |count: f64| LabelStatistics {
                log_p_empty: f64::NEG_INFINITY,
                expected_count: count,
                label_entropy: 0.0,
            };
            let (low, high) = (stats(2.0), stats(2.0_f64.next_up()));
            assert!((conditional(&low, discount) - conditional(&high, discount)).abs() < 1e-12);
        }
    }
}
