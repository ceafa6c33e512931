//! What joining two components is worth, compared with leaving them apart.
//!
//! ```text
//! g_kj = r_kj − r_k∅ − r_∅j + r_∅∅
//! ```
//!
//! `r_kj` is the score of minibatch component `k` joined with central component `j`, `r_k∅` of `k` as a new component,
//! `r_∅j` of `j` left as it is, and `r_∅∅ = A(η₀) + score(0)` of a component that nobody uses.

use super::Gains;

/// Gains of joining each minibatch component (rows) with each central one (columns).
///
/// ```
/// use anabranch::identify::{gains, solve};
/// // Toy scores: joining the numbers a and b is worth 1 − |a − b| more than keeping both.
/// let matrix = gains(&[0.0, 5.0], &[5.1, 9.0], |_| 0.0, |_| 0.0, |a, b| 1.0 - f64::abs(a - b), 0.0);
/// assert_eq!(solve(&matrix), vec![None, Some(0)]);
/// ```
pub fn gains<A, B>(
    minibatch: &[A],
    central: &[B],
    alone_in_minibatch: impl Fn(&A) -> f64,
    alone_in_centre: impl Fn(&B) -> f64,
    mut joined: impl FnMut(&A, &B) -> f64,
    empty: f64,
) -> Gains {
    // A score alone is as dear as a joined one (a log-partition function): once per column, not once per pair.
    let central_alone: Vec<f64> = central.iter().map(alone_in_centre).collect();
    let mut values = Vec::with_capacity(minibatch.len() * central.len());
    for a in minibatch {
        let a_alone = alone_in_minibatch(a);
        values.extend(central.iter().zip(&central_alone).map(|(b, b_alone)| {
            let apart = (a_alone - empty) + b_alone;
            joined(a, b) - apart
        }));
    }
    Gains::new(minibatch.len(), central.len(), values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_score_of_an_unused_component_is_added_back() {
        let matrix = gains(&[1.0], &[2.0], |a| 10.0 * a, |b| 100.0 * b, |_, _| 1000.0, 7.0);
        assert_eq!(matrix.get(0, 0), 1000.0 - 10.0 - 200.0 + 7.0);
    }

    #[test]
    fn an_empty_side_makes_an_empty_matrix() {
        let none: [f64; 0] = [];
        let matrix = gains(&none, &[2.0], |_| 0.0, |_| 0.0, |_, _| 0.0, 0.0);
        assert_eq!((matrix.n_rows, matrix.n_cols, matrix.values.len()), (0, 1, 0));
    }
}
