//! The tree against what a fine grid shows, and cuts and names on mixtures that are put together by hand.

use std::collections::{BTreeMap, BTreeSet};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;
use crate::diagnose::overlap::tests::line;
use crate::family::{Bernoulli, Categorical, Conjugate, Family, Frame, Gaussian, NormalInverseWishart};
use crate::identify::ComponentId;
use crate::posterior::{Component, Evidence, Parts, Posterior, Predictor};
use crate::process::{Bound, Dirichlet, LabelStatistics};

/// Valleys that are shallower than this, in logarithms, are lost between the points of a grid.
const SHALLOW: f64 = 0.03;
/// The pass between two points of a grid is higher than both by the square of their distance.
const GRID: f64 = 0.01;

fn posterior<F: Family>(family: F, stats: Vec<Vec<f64>>) -> Posterior<F, Dirichlet> {
    let mass = stats.iter().map(|stats| stats[0]).sum();
    let components = stats.into_iter().zip(0..).map(|(stats, id)| {
        let labels =
            LabelStatistics { log_p_empty: f64::NEG_INFINITY, expected_count: stats[0], label_entropy: 0.0 };
        Component::new(ComponentId(id), 0, Evidence { stats, labels })
    });
    Posterior::restore(Parts {
        version: 0,
        family,
        process: Dirichlet::new(5.0, Bound::Paper).unwrap(),
        components: components.collect(),
        redirects: BTreeMap::new(),
        mass,
    })
    .unwrap()
}

/// Normal components with these rows, means and covariances (row after row).
fn normals(d: usize, parts: &[(f64, Vec<f64>, Vec<f64>)]) -> Posterior<Gaussian, Dirichlet> {
    let psi = vec![1e-6; d];
    let prior = NormalInverseWishart::with_diagonal_psi(vec![0.0; d], 1e-6, &psi, d as f64 + 2.0);
    let family = Gaussian::new(Frame::identity(d), prior).unwrap();
    let stats = parts.iter().map(|(rows, mean, covariance)| {
        let mut stats = vec![0.0; family.n_features()];
        family.features(mean, &mut stats);
        let mut at = 1 + d;
        for i in 0..d {
            for j in i..d {
                stats[at] += covariance[i * d + j];
                at += 1;
            }
        }
        stats.iter_mut().for_each(|s| *s *= rows);
        stats
    });
    let stats = stats.collect();
    posterior(family, stats)
}

/// Density of the mixture of the components' expected normals: the same question, another way.
fn density(posterior: &Posterior<Gaussian, Dirichlet>) -> impl Fn(&[f64]) -> f64 {
    let known = |component: &Component| {
        let summary = posterior.family().summary(&component.evidence().stats);
        let s = summary.covariance.unwrap();
        let (determinant, inverse) = match s.as_slice() {
            [a] => (*a, [1.0 / a, 0.0, 0.0]),
            [a, b, _, c] => {
                let determinant = a * c - b * b;
                (determinant, [c / determinant, -b / determinant, a / determinant])
            }
            _ => panic!("one or two columns"),
        };
        (component.expected_count() / determinant.sqrt(), summary.mean, inverse)
    };
    let known: Vec<_> = posterior.components().iter().map(|component| known(component)).collect();
    move |x| {
        let of = |(height, mean, [a, b, c]): &(f64, Vec<f64>, [f64; 3])| {
            let (one, two) = (x[0] - mean[0], x.get(1).map_or(0.0, |x| x - mean[1]));
            height * (-0.5 * (a * one * one + 2.0 * b * one * two + c * two * two)).exp()
        };
        known.iter().map(of).sum()
    }
}

/// Peaks and passes of a grid of densities: cells from the highest down, each joined to the neighbours that are there already.
/// Returns the log heights of the passes, over the highest peak, at which two peaks meet that both rise above it: of all peaks,
/// and of those that are uphill of a mean. Now and then a mixture has more of them, between its components.
fn passes_of_grid(
    values: &[f64],
    means: &[usize],
    neighbours: impl Fn(usize) -> Vec<usize>,
) -> (Vec<f64>, Vec<f64>) {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
    let highest = values[order[0]].ln();
    let uphill = |mean: &usize| {
        let mut cell = *mean;
        loop {
            let next = neighbours(cell).into_iter().max_by(|a, b| values[*a].total_cmp(&values[*b])).unwrap();
            if values[next] <= values[cell] {
                return cell;
            }
            cell = next;
        }
    };
    let of_means: BTreeSet<usize> = means.iter().map(uphill).collect();
    let mut groups = union::Groups::new(values.len());
    let mut peaks: Vec<Option<[f64; 2]>> = vec![None; values.len()];
    let mut passes = [Vec::new(), Vec::new()];
    for cell in order {
        let height = values[cell].ln() - highest;
        peaks[cell] = Some([height, if of_means.contains(&cell) { height } else { f64::NEG_INFINITY }]);
        for other in neighbours(cell) {
            let (a, b) = (groups.find(cell), groups.find(other));
            let (Some(one), Some(two)) = (peaks[a], peaks[b]) else { continue };
            if a != b {
                groups.unite(a, b);
                for which in 0..2 {
                    if one[which].min(two[which]) - height > SHALLOW {
                        passes[which].push(height);
                    }
                }
                peaks[groups.find(a)] = Some([one[0].max(two[0]), one[1].max(two[1])]);
            }
        }
    }
    passes.into()
}

/// The same of all peaks and saddles that were looked for.
fn passes_of_saddles(posterior: &Posterior<Gaussian, Dirichlet>) -> Vec<f64> {
    let k = posterior.components().len();
    let normals = normals::Normals::of(posterior, &(0..k).collect::<Vec<_>>()).unwrap();
    let tops = ridge::tops(&normals);
    let pairs: Vec<(usize, usize)> = (0..k).flat_map(|a| (a + 1..k).map(move |b| (a, b))).collect();
    let (peaks, saddles) = saddles::peaks_and_saddles(&normals, &tops, &pairs);
    let highest = peaks.iter().map(|peak| peak.height).fold(f64::NEG_INFINITY, f64::max);
    let mut groups = union::Groups::new(peaks.len());
    let mut peak: Vec<f64> = peaks.iter().map(|peak| peak.height).collect();
    let mut passes = Vec::new();
    for (height, one, other) in saddles {
        let [a, b] = [one, other].map(|peak| groups.find(peak));
        if groups.unite(a, b) {
            if peak[a].min(peak[b]) - height > SHALLOW {
                passes.push(height - highest);
            }
            peak[a.min(b)] = peak[a].max(peak[b]);
        }
    }
    passes
}

/// The same of a tree.
fn passes_of_tree(tree: &Tree) -> Vec<f64> {
    let mut groups = union::Groups::new(tree.leaves.len());
    let mut peak: Vec<f64> = tree.leaves.iter().map(|leaf| leaf.peak).collect();
    let mut passes = Vec::new();
    for join in &tree.joins {
        let (a, b) = (groups.find(join.left), groups.find(join.right));
        let (one, two) = (peak[a], peak[b]);
        if !join.slope && one.min(two) - join.height > SHALLOW {
            passes.push(join.height);
        }
        groups.unite(a, b);
        peak[groups.find(a)] = one.max(two);
    }
    passes
}

/// The tree has the passes between the peaks that are uphill of means, and the saddles are those between all peaks.
fn assert_tree(
    posterior: &Posterior<Gaussian, Dirichlet>,
    (all, of_means): (Vec<f64>, Vec<f64>),
    what: &str,
) {
    assert_same(passes_of_tree(&Tree::of(posterior)), of_means, what);
    assert_same(passes_of_saddles(posterior), all, &format!("{what}, all peaks"));
}

fn assert_same(mut found: Vec<f64>, mut wanted: Vec<f64>, what: &str) {
    let about = |v: &f64| (*v > -12.0).then_some(*v);
    // Passes of next to no density are far beyond what a cut looks at.
    found = found.iter().filter_map(about).collect();
    wanted = wanted.iter().filter_map(about).collect();
    found.sort_by(f64::total_cmp);
    wanted.sort_by(f64::total_cmp);
    let close = found.len() == wanted.len() && found.iter().zip(&wanted).all(|(f, w)| (f - w).abs() < GRID);
    assert!(close, "{what}: found {found:?}, the grid has {wanted:?}");
}

#[test]
fn passes_on_a_line_are_those_of_a_fine_grid() {
    for seed in (0..200).chain([1051]) {
        let rng = &mut Xoshiro256PlusPlus::seed_from_u64(seed);
        let n = rng.random_range(2..7);
        let part = |rng: &mut Xoshiro256PlusPlus| {
            let spread: f64 = rng.random_range(0.3..1.5);
            (1e5 * rng.random_range(0.2..1.0), vec![rng.random_range(-6.0..6.0)], vec![spread * spread])
        };
        let parts: Vec<_> = (0..n).map(|_| part(rng)).collect();
        let posterior = normals(1, &parts);
        let n_cells = 24_001;
        let density = density(&posterior);
        let values: Vec<f64> = (0..n_cells).map(|ix| density(&[-12.0 + 0.001 * ix as f64])).collect();
        let beside = |ix: usize| [ix.checked_sub(1), Some(ix + 1).filter(|ix| *ix < n_cells)];
        let means: Vec<usize> = parts.iter().map(|part| ((part.1[0] + 12.0) / 0.001) as usize).collect();
        let wanted = passes_of_grid(&values, &means, |ix| beside(ix).into_iter().flatten().collect());
        assert_tree(&posterior, wanted, &format!("seed {seed}"));
    }
}

#[test]
fn passes_in_the_plane_are_those_of_a_fine_grid() {
    for seed in (0..25).chain([272, 282]) {
        let rng = &mut Xoshiro256PlusPlus::seed_from_u64(1000 + seed);
        let n = rng.random_range(2..8);
        let part = |rng: &mut Xoshiro256PlusPlus| {
            let (a, b, turn): (f64, f64, f64) =
                (rng.random_range(0.3..1.3), rng.random_range(0.3..1.3), rng.random_range(0.0..3.0));
            let (sin, cos) = turn.sin_cos();
            let (a, b) = (a * a, b * b);
            let mixed = (a - b) * sin * cos;
            let covariance = vec![a * cos * cos + b * sin * sin, mixed, mixed, a * sin * sin + b * cos * cos];
            let mean = vec![rng.random_range(-3.0..3.0), rng.random_range(-3.0..3.0)];
            (1e5 * rng.random_range(0.2..1.0), mean, covariance)
        };
        let parts: Vec<_> = (0..n).map(|_| part(rng)).collect();
        let posterior = normals(2, &parts);
        let side = 600;
        let at = |ix: usize| -6.0 + 12.0 * ix as f64 / (side - 1) as f64;
        let density = density(&posterior);
        let values: Vec<f64> = (0..side * side).map(|ix| density(&[at(ix / side), at(ix % side)])).collect();
        let around = |ix: usize| {
            let (x, y) = ((ix / side) as i64, (ix % side) as i64);
            let steps = (-1..=1).flat_map(|i| (-1..=1).map(move |j| (x + i, y + j)));
            let inside = |(i, j): &(i64, i64)| (0..side as i64).contains(i) && (0..side as i64).contains(j);
            steps.filter(inside).map(|(i, j)| i as usize * side + j as usize).filter(|n| *n != ix).collect()
        };
        let cell = |x: f64| ((x + 6.0) / 12.0 * (side - 1) as f64) as usize;
        let means: Vec<usize> = parts.iter().map(|part| cell(part.1[0]) * side + cell(part.1[1])).collect();
        let wanted = passes_of_grid(&values, &means, around);
        assert_tree(&posterior, wanted, &format!("seed {seed}"));
    }
}

fn cut_of<F: Family>(posterior: &Posterior<F, Dirichlet>, rule: Rule) -> Clusters {
    Clusters::of_snapshot(posterior, Cut { rule, ..Cut::default() })
}

/// The pass between equal normals is 0.43 of their peaks at a distance of 3.5 standard deviations, and 0.27 at 4.
#[test]
fn a_valley_counts_below_its_part_of_the_lower_peak() {
    for (distance, clusters) in [(3.5, 1), (4.0, 2)] {
        let posterior = line(&[(1e5, 0.0), (1e5, distance)]);
        assert_eq!(cut_of(&posterior, Rule::Valley(0.4)).len(), clusters, "at {distance}");
    }
}

/// At a distance of 4 the depth is 1.307, and −log 0.7 + 0.1 log 2 + 3√(2 log 2)√(2/t) is less from 31 rows on.
#[test]
fn a_valley_that_sampling_could_have_made_is_none() {
    for (rows, clusters) in [(20.0, 1), (60.0, 2), (1e5, 2)] {
        let posterior = line(&[(rows, 0.0), (rows, 4.0)]);
        assert_eq!(cut_of(&posterior, Rule::Auto).len(), clusters, "{rows} rows");
    }
}

#[test]
fn a_chain_of_components_is_one_cluster_and_a_gap_parts_it() {
    let places: Vec<(f64, f64)> =
        (0..8).map(|i| (500.0, 2.0 * f64::from(i) + if i < 5 { 0.0 } else { 6.0 })).collect();
    let found = cut_of(&line(&places), Rule::Auto);
    let components: Vec<Vec<u64>> =
        found.clusters().iter().map(|c| c.components.iter().map(|id| id.0).collect()).collect();
    assert_eq!(components, [vec![0, 1, 2, 3, 4], vec![5, 6, 7]]);
    assert_eq!(found.of(ComponentId(7)), Some(ComponentId(5)));
    assert_eq!(found.of(ComponentId(99)), None);
    assert_eq!((found.clusters()[0].rows, found.clusters()[1].rows), (2500.0, 1500.0));
}

#[test]
fn as_many_clusters_are_left_as_were_asked_for() {
    let places: Vec<(f64, f64)> = [0.0, 3.0, 20.0, 23.0, 60.0].map(|x| (500.0, x)).into();
    let posterior = line(&places);
    for (n, wanted) in [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (9, 5)] {
        assert_eq!(cut_of(&posterior, Rule::Count(n)).len(), wanted);
    }
    let three = cut_of(&posterior, Rule::Count(3));
    assert_eq!(three.of(ComponentId(1)), Some(ComponentId(0)));
    assert_eq!(three.of(ComponentId(3)), Some(ComponentId(2)));
    assert_eq!(three.of(ComponentId(4)), Some(ComponentId(4)));
}

#[test]
fn small_clusters_go_uphill_or_are_noise() {
    let posterior = line(&[(500.0, 0.0), (500.0, 40.0), (4.0, 52.0)]);
    let found = cut_of(&posterior, Rule::Valley(0.5));
    assert_eq!(found.of(ComponentId(2)), Some(ComponentId(1)));
    let kept =
        Clusters::of_snapshot(&posterior, Cut { rule: Rule::Valley(0.5), min_size: Some(0.0), noise: false });
    assert_eq!(kept.len(), 3);
    let noisy =
        Clusters::of_snapshot(&posterior, Cut { rule: Rule::Valley(0.5), min_size: None, noise: true });
    assert_eq!((noisy.len(), noisy.of(ComponentId(2))), (2, None));
    assert!(noisy.cluster(ComponentId(2)).unwrap().noise);
    // Of few rows, a few are a cluster.
    assert_eq!(cut_of(&line(&[(8.0, 0.0), (8.0, 40.0), (8.0, 80.0), (2.0, 120.0)]), Rule::Auto).len(), 3);
}

/// A row a million deviations away has a component that is wide and thin: the ridge to it leaves the narrow one late.
#[test]
fn what_lies_far_away_is_apart_and_noise_where_it_is_asked_for() {
    for far in [1e3, 1e6, 1e9] {
        let narrow = |at: f64| (500.0, vec![at], vec![1.0]);
        let posterior = normals(1, &[narrow(0.0), narrow(8.0), (1.0, vec![far], vec![(0.04 * far).powi(2)])]);
        let tree = Tree::of(&posterior);
        let last = tree.joins.last().unwrap();
        let pass = last.height - tree.leaves[2].peak;
        assert!(last.left.max(last.right) == 2 && pass < -20.0, "{far}: {last:?}");
        assert_eq!(cut_of(&posterior, Rule::Auto).of(ComponentId(2)), Some(ComponentId(1)), "{far}");
        let noisy = Clusters::of_snapshot(&posterior, Cut { noise: true, ..Cut::default() });
        assert_eq!((noisy.len(), noisy.of(ComponentId(2))), (2, None), "{far}");
    }
}

/// A thin component on the slope of one hill reaches to the foot of the other.
#[test]
fn rows_of_thin_components_belong_to_the_hill_at_whose_foot_they_are() {
    let parts = [(300.0, vec![0.0], vec![1.0]), (300.0, vec![10.0], vec![1.0]), (30.0, vec![4.0], vec![4.0])];
    let posterior = normals(1, &parts);
    let clusters = cut_of(&posterior, Rule::Auto);
    assert_eq!((clusters.len(), clusters.of(ComponentId(2))), (2, Some(ComponentId(0))));
    assert!(clusters.common().is_empty());
    let predictor = Predictor::new(&posterior);
    let of_rows = RowClusters::new(&posterior, clusters);
    for (x, cluster) in [(3.4, 0), (4.5, 0), (6.6, 1), (7.0, 1)] {
        let component = predictor.label(&[x]).unwrap();
        assert_eq!(component, ComponentId(2), "{x}");
        assert_eq!(of_rows.of(component, &[x]), Some(ComponentId(cluster)), "{x}");
    }
    // Beside a hill of its own height it is a hill itself.
    let broad = normals(1, &[(300.0, vec![0.0], vec![1.0]), (300.0, vec![10.0], vec![4.0])]);
    let clusters = cut_of(&broad, Rule::Auto);
    assert!((0..2).all(|id| !clusters.lies_low(ComponentId(id))));
}

/// Heavy tails that three clusters share: the component is part of the middle one, its rows are not.
#[test]
fn rows_of_common_ground_belong_to_the_nearest_hill() {
    let parts = [
        (300.0, vec![0.0], vec![1.0]),
        (300.0, vec![20.0], vec![1.0]),
        (300.0, vec![-20.0], vec![1.0]),
        (100.0, vec![1.0], vec![400.0]),
    ];
    let posterior = normals(1, &parts);
    let clusters = cut_of(&posterior, Rule::Auto);
    assert_eq!((clusters.len(), clusters.common()), (3, &[ComponentId(3)][..]));
    assert_eq!(clusters.of(ComponentId(3)), Some(ComponentId(0)));
    let predictor = Predictor::new(&posterior);
    let of_rows = RowClusters::new(&posterior, clusters);
    for (x, cluster) in [(-4.5, 0), (5.0, 0), (14.0, 1), (26.0, 1), (-14.0, 2), (-60.0, 2), (20.0, 1)] {
        let component = predictor.label(&[x]).unwrap();
        assert_eq!(of_rows.of(component, &[x]), Some(ComponentId(cluster)), "{x}");
    }
    // A wide cluster beside a narrow one, and one around a narrow one, are no common ground.
    let beside = normals(1, &[(300.0, vec![0.0], vec![1.0]), (300.0, vec![20.0], vec![25.0])]);
    assert!(cut_of(&beside, Rule::Auto).common().is_empty());
    assert!(cut_of(&normals(1, &[parts[0].clone(), parts[3].clone()]), Rule::Auto).common().is_empty());
}

#[test]
fn the_same_snapshot_has_the_same_tree() {
    let rng = &mut Xoshiro256PlusPlus::seed_from_u64(5);
    let places: Vec<(f64, f64)> =
        (0..40).map(|_| (rng.random_range(5.0..500.0), rng.random_range(0.0..80.0))).collect();
    let posterior = line(&places);
    let tree = Tree::of(&posterior);
    assert_eq!(tree, Tree::of(&posterior));
    assert_eq!(tree.joins.len(), 39);
    assert!(tree.joins.windows(2).all(|pair| pair[0].slope || pair[0].height >= pair[1].height));
}

#[test]
fn clusters_that_no_neighbours_connect_join_last() {
    // Two crowds, each with more components than have neighbours.
    let crowd = |from: f64| (0..40).map(move |i| (100.0, from + 0.5 * f64::from(i)));
    let posterior = line(&crowd(0.0).chain(crowd(1e4)).collect::<Vec<_>>());
    let tree = Tree::of(&posterior);
    assert_eq!(tree.joins.len(), 79);
    assert_eq!(cut_of(&posterior, Rule::Auto).len(), 2);
    assert_eq!(cut_of(&posterior, Rule::Count(1)).len(), 1);
}

#[test]
fn nothing_has_no_clusters_and_one_component_is_one() {
    assert!(cut_of(&line(&[]), Rule::Auto).is_empty());
    let one = cut_of(&line(&[(50.0, 3.0)]), Rule::Auto);
    assert_eq!((one.len(), one.clusters()[0].valley), (1, None));
    // A component without rows is in none.
    assert_eq!(cut_of(&line(&[(50.0, 3.0), (0.0, 3.0)]), Rule::Auto).of(ComponentId(1)), None);
}

#[test]
fn a_cluster_keeps_the_name_of_its_oldest_component_when_that_becomes_part_of_another() {
    let before = cut_of(&line(&[(500.0, 0.0), (500.0, 30.0), (500.0, 32.0)]), Rule::Auto);
    let mut later = line(&[(500.0, 0.0), (500.0, 30.0), (1000.0, 32.0)]);
    later.redirects = BTreeMap::from([(ComponentId(1), ComponentId(2))]).into();
    later.components.remove(1);
    let after = cut_of(&later, Rule::Auto);
    assert_eq!(before.of(ComponentId(2)), Some(ComponentId(1)));
    assert_eq!(after.of(ComponentId(2)), Some(ComponentId(1)));
    assert_eq!(after.of(ComponentId(1)), Some(ComponentId(1)));
    assert!(follow(&before, &after).is_empty());
}

#[test]
fn who_is_too_small_to_be_a_cluster_gives_no_name() {
    let faded = cut_of(&line(&[(4.0, 0.0), (500.0, 30.0)]), Rule::Auto);
    assert_eq!(faded.len(), 1);
    assert_eq!(faded.of(ComponentId(1)), Some(ComponentId(1)));
    assert_eq!(faded.of(ComponentId(0)), Some(ComponentId(1)));
    let small = cut_of(&line(&[(2.0, 0.0), (2.5, 30.0)]), Rule::Auto);
    assert_eq!(small.of(ComponentId(1)), Some(ComponentId(0)), "somebody has to");
}

/// A small old component that moves from one cluster to another takes no name along.
#[test]
fn who_is_small_for_its_cluster_gives_no_name() {
    let before = cut_of(&line(&[(500.0, 0.0), (30.0, 3.0), (500.0, 30.0), (500.0, 32.0)]), Rule::Auto);
    let after = cut_of(&line(&[(500.0, 0.0), (30.0, 28.0), (500.0, 30.0), (500.0, 32.0)]), Rule::Auto);
    assert_eq!(before.of(ComponentId(1)), Some(ComponentId(0)));
    assert_eq!(after.of(ComponentId(1)), Some(ComponentId(2)));
    assert_eq!(
        (before.of(ComponentId(3)), after.of(ComponentId(3))),
        (Some(ComponentId(2)), Some(ComponentId(2)))
    );
}

#[test]
fn joining_parting_and_appearing_are_told() {
    let apart = cut_of(&line(&[(500.0, 0.0), (500.0, 9.0), (500.0, 60.0)]), Rule::Auto);
    let joined = cut_of(&line(&[(500.0, 0.0), (500.0, 2.0), (500.0, 60.0), (500.0, 90.0)]), Rule::Auto);
    let [a, b, d] = [0, 1, 3].map(ComponentId);
    assert_eq!(
        follow(&apart, &joined),
        [Event::Joined { clusters: vec![a, b], into: a }, Event::Appeared { cluster: d }]
    );
    assert_eq!(follow(&joined, &apart), [Event::Parted { cluster: a, into: vec![a, b] }]);
}

#[test]
fn families_without_distances_are_judged_by_what_they_share() {
    let family = Bernoulli::new(vec![1.0; 12], vec![1.0; 12]).unwrap();
    let stats = |ones: [f64; 12]| {
        let mut stats = vec![0.0; family.n_features()];
        stats[0] = 400.0;
        stats[1..].iter_mut().zip(ones).for_each(|(s, p)| *s = 400.0 * p);
        stats
    };
    let (mut one, mut like_it) = ([0.9; 12], [0.88; 12]);
    (one[11], like_it[11]) = (0.2, 0.3);
    let posterior = posterior(family.clone(), vec![stats(one), stats([0.1; 12]), stats(like_it)]);
    let tree = Tree::of(&posterior);
    assert_eq!(tree.measure, Measure::Overlap);
    let found = Clusters::new(&posterior, &tree, Cut::default());
    assert_eq!(found.len(), 2);
    assert_eq!(found.of(ComponentId(2)), found.of(ComponentId(0)));
}

#[test]
fn the_column_that_sets_a_cluster_apart_comes_first() {
    let round = vec![1.0, 0.0, 0.0, 1.0];
    let posterior =
        normals(2, &[(900.0, vec![0.0, 1.0], round.clone()), (300.0, vec![0.5, 9.0], round.clone())]);
    let clusters = cut_of(&posterior, Rule::Auto);
    let found = differences(&posterior, &clusters);
    assert_eq!(found.len(), 2);
    assert_eq!(found[1][0].column, 1);
    // Eight from the others, whose standard deviation is one, to the digits of the prior.
    assert!((found[1][0].deviations - 8.0).abs() < 0.05, "{found:?}");
    assert!((found[0][0].deviations + 8.0).abs() < 0.1, "{found:?}");
}

#[test]
fn of_categories_the_one_that_is_commoner_tells() {
    // Two columns, of two and of three categories; the second column sets the clusters apart.
    let family = Categorical::new(vec![vec![1e-9; 2], vec![1e-9; 3]]).unwrap();
    let stats = |rows: f64, first: [f64; 2], second: [f64; 3]| {
        let shares = first.iter().chain(&second).map(|share| rows * share);
        std::iter::once(rows).chain(shares).collect::<Vec<f64>>()
    };
    let posterior = posterior(
        family,
        vec![stats(100.0, [0.5, 0.5], [0.1, 0.0, 0.9]), stats(300.0, [0.5, 0.5], [0.6, 0.4, 0.0])],
    );
    let found = differences(&posterior, &cut_of(&posterior, Rule::Count(2)));
    let told: Vec<_> = found.iter().map(|columns| (columns[0].column, columns[0].category)).collect();
    assert_eq!(told, [(1, Some(0)), (1, Some(2))], "the largest cluster first");
    assert!((found[0][0].mean - 0.6).abs() < 1e-6 && (found[1][0].mean - 0.9).abs() < 1e-6, "{found:?}");
    // Half more than the others, of whom one in ten has it, and 0.475 of all: √(0.475 · 0.525) is the larger deviation. All others
    // that lack a category make no difference infinite.
    let of_all = |share: f64| (share * (1.0 - share)).sqrt();
    assert!((found[0][0].deviations - 0.5 / of_all(0.475)).abs() < 1e-6, "{found:?}");
    assert!((found[1][0].deviations - 0.9 / of_all(0.225)).abs() < 1e-4, "{found:?}");
    assert!(found[0][1].deviations.abs() < 1e-6, "{found:?}");
}

#[test]
fn a_way_to_cut_that_is_none_is_refused() {
    let refused =
        |rule: Rule, min_size: Option<f64>| Cut { rule, min_size, noise: false }.checked().unwrap_err();
    assert_eq!(refused(Rule::Valley(0.0), None), CutError::Valley(0.0));
    assert_eq!(refused(Rule::Valley(1.5), None), CutError::Valley(1.5));
    assert_eq!(refused(Rule::Count(0), None), CutError::NoClusters);
    assert_eq!(refused(Rule::Auto, Some(-1.0)), CutError::Size(-1.0));
    assert!(Cut { rule: Rule::Count(3), min_size: Some(4.0), noise: true }.checked().is_ok());
}
