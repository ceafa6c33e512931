//! Splits: components that hide several clusters, found on a sample of the rows.
//!
//! The rows of a component are clustered as if they were all there is, under the prior of today. When that makes several
//! components with a larger objective than one, the sample alone shows that the component hides them: no row is weighed
//! for more than itself, so that a split is never made of chance.
//!
//! ```text
//! S_i = p_i S + c (Ŝ_i − p_i Ŝ),    p_i = n̂_i / n̂,    c = t / n̂
//! ```
//!
//! `Ŝ_i` are the sample's statistics of part `i`, `Ŝ` those of all parts, `S` and `t` what the component holds. The parts
//! add up to the component, whatever has joined it in the meantime.

use rand::Rng;

use super::bootstrap::{objective, split_stage};
use super::labels::Labels;
use super::{Increment, Settings, Workspace, upkeep};
use crate::batch::Batch;
use crate::central::Part;
use crate::family::Family;
use crate::identify::ComponentId;
use crate::posterior::{Evidence, Posterior};
use crate::process::Process;

/// Seeds of a component that may hide several.
const SEEDS: usize = 6;

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
    let (labels, living) = upkeep::labels_of(posterior, sample);
    let mut rows = vec![Vec::new(); living.len()];
    for (row, labels) in Labels::rows(&labels).enumerate() {
        for (ix, _) in labels.filter(|(_, probability)| *probability > MAJORITY) {
            rows[ix].push(row);
        }
    }
    let prior = Posterior::prior(family.clone(), posterior.process().clone());
    let mut found = Vec::new();
    for (position, rows) in living.iter().zip(rows) {
        let seeds = ((rows.len() as f64 / upkeep::enough_to_tell(family)) as usize).min(SEEDS);
        if seeds < 2 {
            continue;
        }
        let component = &posterior.components()[*position];
        let own = sample.select(&rows);
        let several = split_stage(&prior, &own, settings, seeds, rng, workspace);
        if several.increment.new.len() < 2 {
            continue;
        }
        let one = as_one(family, &several.increment);
        if several.objective > objective(family, posterior.process(), &one, 1.0) {
            found.push((component.id(), parts(component.evidence(), &several.increment.new)));
        }
    }
    found
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
