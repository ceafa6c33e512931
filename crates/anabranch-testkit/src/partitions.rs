//! All partitions and all label vectors of a few data, and the exact probability of a partition (its EPPF).
//!
//! ```text
//! seat the data block by block:   P(new block) = (α + K d) / (α + n)     P(block of size c) = (c − d) / (α + n)
//! ```
//!
//! The probability is a product of seats (Pitman–Yor with discount `d`; `d = 0` is the Dirichlet process), so that no
//! gamma function is shared with the formulas under test.

/// All set partitions of `n` data, each as the block of every datum; blocks are numbered as they appear.
///
/// There are 1, 1, 2, 5, 15, 52, 203, 877 … of them (Bell's numbers).
pub fn set_partitions(n: usize) -> Vec<Vec<usize>> {
    let mut partitions = vec![Vec::new()];
    for _ in 0..n {
        partitions = partitions.iter().flat_map(|partition| with_one_more(partition)).collect();
    }
    partitions
}

/// The partition with one more datum, in each of its blocks or in a new one.
fn with_one_more(partition: &[usize]) -> impl Iterator<Item = Vec<usize>> + use<> {
    let n_blocks = partition.iter().max().map_or(0, |last| last + 1);
    let partition = partition.to_vec();
    (0..=n_blocks).map(move |block| partition.iter().copied().chain([block]).collect())
}

/// All `k^n` vectors of `n` labels in `0..k`.
pub fn label_vectors(n: usize, k: usize) -> impl Iterator<Item = Vec<usize>> {
    let n_vectors = k.pow(u32::try_from(n).expect("few data"));
    (0..n_vectors).map(move |mut code| {
        let mut digit = || {
            let label = code % k;
            code /= k;
            label
        };
        (0..n).map(|_| digit()).collect()
    })
}

/// How many data have each of the labels `0..k`.
pub fn counts(labels: &[usize], k: usize) -> Vec<usize> {
    let mut counts = vec![0; k];
    labels.iter().for_each(|&label| counts[label] += 1);
    counts
}

/// Log-probability under a Dirichlet process of a partition with these block sizes (zeros are ignored).
pub fn ln_eppf_dirichlet(counts: &[usize], alpha: f64) -> f64 {
    ln_eppf_pitman_yor(counts, alpha, 0.0)
}

/// The same under a Pitman–Yor process, `0 ≤ d < 1`, `α > −d`.
pub fn ln_eppf_pitman_yor(counts: &[usize], alpha: f64, discount: f64) -> f64 {
    let (mut ln_p, mut seated) = (0.0, 0.0);
    for (block, &count) in counts.iter().filter(|count| **count > 0).enumerate() {
        for in_block in 0..count {
            // The very first datum has nowhere else to go; α may be negative then.
            if seated > 0.0 {
                let weight =
                    if in_block == 0 { alpha + block as f64 * discount } else { in_block as f64 - discount };
                ln_p += (weight / (alpha + seated)).ln();
            }
            seated += 1.0;
        }
    }
    ln_p
}

/// Log-density under a beta process of mass `α` and concentration `c` of which data have which feature: `columns[k][n]`. The
/// features carry marks, so that equal columns are told apart; columns of nobody are ignored.
///
/// ```text
/// datum n opens a feature at rate αc/(c + n − 1), and has one that m data before it had with probability m/(c + n − 1)
/// ```
pub fn ln_density_beta(columns: &[Vec<bool>], n_data: usize, alpha: f64, c: f64) -> f64 {
    let seats = |n: usize| c + n as f64;
    let mut ln_p: f64 = (0..n_data).map(|n| -alpha * c / seats(n)).sum();
    for column in columns {
        let mut before = 0.0;
        for (n, has) in column.iter().enumerate() {
            ln_p += match (before > 0.0, *has) {
                (false, false) => 0.0,
                (false, true) => (alpha * c / seats(n)).ln(),
                (true, true) => (before / seats(n)).ln(),
                (true, false) => ((seats(n) - before) / seats(n)).ln(),
            };
            before += f64::from(u8::from(*has));
        }
    }
    ln_p
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Summed over all columns of two data, one feature at a time: the number of features is Poisson.
    #[test]
    fn beta_densities_of_one_feature_sum_to_the_expected_number() {
        let (alpha, c) = (0.7, 1.4);
        let nobody = ln_density_beta(&[], 2, alpha, c);
        let columns = [vec![true, true], vec![true, false], vec![false, true]];
        let rate: f64 = columns
            .iter()
            .map(|column| (ln_density_beta(std::slice::from_ref(column), 2, alpha, c) - nobody).exp())
            .sum();
        assert!((rate - (alpha + alpha * c / (c + 1.0))).abs() < 1e-12, "{rate}");
        assert!((nobody + rate).abs() < 1e-12, "the number of features is Poisson with mean {rate}");
    }

    #[test]
    fn there_are_as_many_partitions_as_bell_says() {
        let bell = [1, 1, 2, 5, 15, 52, 203, 877];
        assert!(bell.iter().enumerate().all(|(n, count)| set_partitions(n).len() == *count));
    }

    #[test]
    fn label_vectors_are_all_different() {
        let mut vectors: Vec<_> = label_vectors(4, 3).collect();
        vectors.sort();
        vectors.dedup();
        assert_eq!(vectors.len(), 81);
        assert_eq!(label_vectors(0, 3).count(), 1);
    }

    #[test]
    fn pitman_yor_probabilities_sum_to_one_also_for_negative_alpha() {
        for (alpha, discount) in [(1.5, 0.0), (0.7, 0.3), (-0.2, 0.5)] {
            let ln_p = |z: &Vec<usize>| ln_eppf_pitman_yor(&counts(z, 7), alpha, discount);
            let total: f64 = set_partitions(7).iter().map(|z| ln_p(z).exp()).sum();
            assert!((total - 1.0).abs() < 1e-12, "{total}");
        }
    }

    #[test]
    fn the_probability_does_not_depend_on_the_order_of_blocks() {
        let one = ln_eppf_pitman_yor(&[3, 1, 2], 0.7, 0.3);
        let other = ln_eppf_pitman_yor(&[2, 0, 3, 1], 0.7, 0.3);
        assert!((one - other).abs() < 1e-14);
    }
}
