//! Splits: components that hide several clusters, found on a sample of the rows.
//!
//! The rows of a component are clustered as if they were all there is, under the prior of today. When that makes several
//! components with a larger objective than one, the sample alone shows that the component hides them: no row is weighed
//! for more than itself, so that a split is never made of chance. The parts must then raise the objective of all data too.
//!
//! ```text
//! S_i = p_i S + c (Ŝ_i − p_i Ŝ),    p_i = n̂_i / n̂,    c = t / n̂
//! ```
//!
//! `Ŝ_i` are the sample's statistics of part `i`, `Ŝ` those of all parts, `S` and `t` what the component holds. The parts
//! add up to the component, whatever has joined it in the meantime.

use rand::Rng;

use super::bootstrap::{objective, split_stages};
use super::labels::Labels;
use super::{Increment, Settings, Workspace, repeats, upkeep};
use crate::batch::Batch;
use crate::central::Part;
use crate::family::Family;
use crate::identify::ComponentId;
use crate::posterior::{Evidence, Posterior};
use crate::process::Process;

/// Seeds of a component that may hide several.
const SEEDS: usize = 6;

/// What several components must be better by than one: the best of so many seeds in so many components is better by chance
/// by a few nats.
const MARGIN: f64 = 10.0;

/// A row is a row of the component that it belongs to with more than this probability.
const MAJORITY: f64 = 0.5;

/// The components that hide several according to the sample, with their parts.
pub(super) fn splits<F: Family, P: Process>(
    posterior: &Posterior<F, P>,
    sample: &Batch,
    settings: &Settings,
    rng: &mut impl Rng,
    workspace: &mut Workspace,
) -> Vec<(ComponentId, Vec<Part>)> {
    let family = posterior.family();
    let (sample, copies) = &repeats::different(family, sample, posterior.mass());
    let (labels, living) = upkeep::labels_of(posterior, sample, settings.precision);
    let mut rows = vec![Vec::new(); living.len()];
    for (row, labels) in Labels::rows(&labels).enumerate() {
        for (ix, _) in labels.filter(|(_, probability)| *probability > MAJORITY) {
            rows[ix].push(row);
        }
    }
    let prior = Posterior::prior(family.clone(), posterior.process().clone());
    let seeds = |rows: &[usize]| ((rows.len() as f64 / upkeep::enough_to_tell(family)) as usize).min(SEEDS);
    let (positions, rows): (Vec<usize>, Vec<Vec<usize>>) =
        living.iter().copied().zip(rows).filter(|(_, rows)| seeds(rows) >= 2).unzip();
    let batches = rows.iter().map(|rows| (sample.select(rows), seeds(rows)));
    let parted = split_stages(&prior, batches, settings, rng, workspace);
    // What missing values are expected to be in parts would count against the whole.
    let whole = sample.has_missing().then(|| {
        let batches = rows.iter().map(|rows| (sample.select(rows), 1));
        split_stages(&prior, batches, settings, rng, workspace)
    });
    let mut found = Vec::new();
    for (ix, (position, several)) in positions.into_iter().zip(parted).enumerate() {
        let component = &posterior.components()[position];
        if several.increment.new.len() < 2 {
            continue;
        }
        let one = match &whole {
            Some(whole) => whole[ix].increment.clone(),
            None => as_one(family, &several.increment),
        };
        let objective = |increment| objective(family, posterior.process(), increment);
        if objective(&several.increment) <= objective(&one) + MARGIN {
            continue;
        }
        let parts = parts(component.evidence(), &several.increment.new);
        if gain(posterior, component.evidence(), &parts) > MARGIN * copies {
            found.push((component.id(), parts));
        }
    }
    found
}

/// What the split does to the objective of all data. Where the sample is not like what the component once took in, the parts
/// are smeared and this falls.
fn gain<F: Family, P: Process>(posterior: &Posterior<F, P>, whole: &Evidence, parts: &[Part]) -> f64 {
    let (family, process, all) = (posterior.family(), posterior.process(), posterior.population());
    let empty = family.log_partition(&vec![0.0; whole.stats.len()]);
    let of = |evidence: &Evidence| {
        if !family.admits(&evidence.stats) {
            return f64::NEG_INFINITY;
        }
        family.log_partition(&evidence.stats) - empty + process.score(&evidence.labels, all)
    };
    let part = |part: &Part| {
        let mut evidence = whole.scaled(part.share);
        evidence.stats.iter_mut().zip(&part.offset).for_each(|(s, offset)| *s += offset);
        of(&evidence)
    };
    parts.iter().map(part).sum::<f64>() - of(whole)
}

/// The same rows, all certain to be of one component.
fn as_one<F: Family>(family: &F, several: &Increment) -> Increment {
    let mut whole = Evidence::empty(family.n_features());
    several.new.iter().for_each(|part| whole.absorb(part));
    whole.labels.log_p_empty = f64::NEG_INFINITY;
    whole.labels.label_entropy = 0.0;
    Increment { new: vec![whole], ..several.clone() }
}

/// The largest part first.
fn parts(whole: &Evidence, sampled: &[Evidence]) -> Vec<Part> {
    let mut sampled: Vec<&Evidence> = sampled.iter().collect();
    sampled.sort_by(|a, b| b.stats[0].total_cmp(&a.stats[0]));
    let mut sum = vec![0.0; whole.stats.len()];
    for part in &sampled {
        sum.iter_mut().zip(&part.stats).for_each(|(sum, s)| *sum += s);
    }
    let scale = whole.labels.expected_count / sum[0];
    let part = |evidence: &&Evidence| {
        let share = evidence.stats[0] / sum[0];
        let offset = evidence.stats.iter().zip(&sum).map(|(s, sum)| scale * (s - share * sum)).collect();
        Part { share, offset }
    };
    sampled.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_distr::{Distribution, StandardNormal};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;
    use crate::central::{Absorb, BatchId, Entry, Fold, Void};
    use crate::family::{Conjugate, Gaussian};
    use crate::identify::Target;
    use crate::process::{Bound, Dirichlet, LabelStatistics};

    /// Rows around each of these centres in turn, all of one component.
    fn one_component_of(centres: &[f64]) -> (Fold<Gaussian, Dirichlet>, Batch) {
        let rng = &mut Xoshiro256PlusPlus::seed_from_u64(5);
        let mut normal = || -> f64 { StandardNormal.sample(rng) };
        let values = (0..600).flat_map(|ix| [centres[ix % centres.len()] + normal(), normal()]).collect();
        let rows = Batch::new(2, values).unwrap();
        // A prior that expects clusters of about this width.
        let family = Gaussian::from_rows(&rows.head(600)).unwrap();
        let mut whole = Evidence::empty(family.n_features());
        let mut features = vec![0.0; family.n_features()];
        let mut certain = LabelStatistics::default();
        certain.observe(1.0, 1.0);
        for row in rows.rows() {
            family.features(row, &mut features);
            whole.absorb(&Evidence { stats: features.clone(), labels: certain });
        }
        let mut fold = Fold::new(family, Dirichlet::new(5.0, Bound::Paper).unwrap());
        let new = vec![(Target::New, whole)];
        let entry = Absorb {
            batch: BatchId(0),
            base: 0,
            pass: 0,
            mass: 600.0,
            familiarity: None,
            existing: vec![],
            new,
        };
        fold.apply(&Entry::Absorb(entry)).unwrap();
        (fold, rows)
    }

    fn find(fold: &Fold<Gaussian, Dirichlet>, rows: &Batch) -> Vec<(ComponentId, Vec<Part>)> {
        let rng = &mut Xoshiro256PlusPlus::seed_from_u64(1);
        splits(fold.posterior(), rows, &Settings::default(), rng, &mut Workspace::default())
    }

    #[test]
    fn a_component_that_hides_two_clusters_is_split_and_nothing_is_lost() {
        let (mut fold, rows) = one_component_of(&[0.0, 30.0]);
        // Half of the rows stand for all of them.
        let sample = rows.head(300);
        let found = find(&fold, &sample);
        assert_eq!(found.len(), 1);
        let (id, parts) = found[0].clone();
        assert_eq!(parts.len(), 2);
        let before = fold.posterior().clone();
        fold.apply(&Entry::Split { id, parts }).unwrap();
        let after = fold.posterior();
        assert!(after.objective() > before.objective());
        assert_eq!(after.components()[0].id(), id, "the first part keeps the id");
        assert!(after.components()[1].born() > before.version());
        assert!((after.expected_mass() - 600.0).abs() < 1e-9);
        for i in 0..after.family().n_features() {
            let sum: f64 = after.components().iter().map(|c| c.evidence().stats[i]).sum();
            let whole = before.components()[0].evidence().stats[i];
            assert!((sum - whole).abs() < 1e-9 * (1.0 + whole.abs()));
        }
        let mut centres: Vec<f64> =
            after.components().iter().map(|c| after.family().summary(&c.evidence().stats).mean[0]).collect();
        centres.sort_by(f64::total_cmp);
        assert!(centres[0].abs() < 0.5 && (centres[1] - 30.0).abs() < 0.5, "{centres:?}");
        assert!(find(&fold, &sample).is_empty(), "what is one cluster stays one");
    }

    #[test]
    fn one_cluster_stays_one() {
        let (fold, rows) = one_component_of(&[3.0]);
        assert!(find(&fold, &rows).is_empty());
    }

    #[test]
    fn parts_that_are_not_the_whole_are_void() {
        let (mut fold, _) = one_component_of(&[0.0, 30.0]);
        let f = fold.posterior().family().n_features();
        let part = |share: f64, offset: f64| Part { share, offset: vec![offset; f] };
        let id = fold.posterior().components()[0].id();
        for parts in [
            vec![part(1.0, 0.0)],
            vec![part(0.5, 0.0), part(0.4, 0.0)],
            vec![part(1.5, 0.0), part(-0.5, 0.0)],
            vec![part(0.5, 1.0), part(0.5, 1.0)],
        ] {
            let error = fold.apply(&Entry::Split { id, parts }).unwrap_err();
            assert!(matches!(error, Void::NotTheWhole { .. }), "{error}");
        }
        // Balanced, and yet no rows have such sums.
        let improper = vec![part(0.5, 1e6), part(0.5, -1e6)];
        assert_eq!(fold.apply(&Entry::Split { id, parts: improper }), Err(Void::Improper));
        assert_eq!(fold.posterior().components().len(), 1);
    }
}
