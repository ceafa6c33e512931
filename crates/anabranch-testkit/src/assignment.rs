//! The best matching by trying all of them: over one-to-one partial maps, and over permutations of a square matrix.

/// The largest `Σ gain(row, col)` over all partial one-to-one maps, with a map that attains it. Pairs that lose are tried too.
pub fn best_partial(
    n_rows: usize,
    n_cols: usize,
    gain: &impl Fn(usize, usize) -> f64,
) -> (f64, Vec<Option<usize>>) {
    let mut best = (f64::NEG_INFINITY, Vec::new());
    let mut map = Vec::with_capacity(n_rows);
    extend(&mut map, n_rows, n_cols, 0.0, gain, &mut best);
    best
}

fn extend(
    map: &mut Vec<Option<usize>>,
    n_rows: usize,
    n_cols: usize,
    so_far: f64,
    gain: &impl Fn(usize, usize) -> f64,
    best: &mut (f64, Vec<Option<usize>>),
) {
    let row = map.len();
    if row == n_rows {
        if so_far > best.0 {
            *best = (so_far, map.clone());
        }
        return;
    }
    for choice in std::iter::once(None).chain((0..n_cols).map(Some)) {
        if choice.is_some() && map.contains(&choice) {
            continue;
        }
        map.push(choice);
        extend(map, n_rows, n_cols, so_far + choice.map_or(0.0, |col| gain(row, col)), gain, best);
        map.pop();
    }
}

/// The largest `Σ score(k, σ(k))` over all permutations σ of `0..n`: the paper's square problem as it stands.
pub fn best_square(n: usize, score: &impl Fn(usize, usize) -> f64) -> (f64, Vec<usize>) {
    let mut best = (f64::NEG_INFINITY, Vec::new());
    permute(&mut Vec::with_capacity(n), n, 0.0, score, &mut best);
    best
}

fn permute(
    sigma: &mut Vec<usize>,
    n: usize,
    so_far: f64,
    score: &impl Fn(usize, usize) -> f64,
    best: &mut (f64, Vec<usize>),
) {
    let row = sigma.len();
    if row == n {
        if so_far > best.0 {
            *best = (so_far, sigma.clone());
        }
        return;
    }
    for col in 0..n {
        if !sigma.contains(&col) {
            sigma.push(col);
            permute(sigma, n, so_far + score(row, col), score, best);
            sigma.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losing_pairs_are_left_alone() {
        assert_eq!(best_partial(2, 1, &|row, _| row as f64 - 0.5), (0.5, vec![None, Some(0)]));
        assert_eq!(best_partial(0, 3, &|_, _| 1.0), (0.0, vec![]));
    }

    #[test]
    fn the_square_problem_must_match_everything() {
        assert_eq!(best_square(2, &|row, col| if row == col { -1.0 } else { -2.0 }), (-2.0, vec![0, 1]));
    }
}
