//! Rows that were absorbed long ago, looked at again: what they say to the posterior of today about the components it knows.
//!
//! The first look compares each row with every component and notes those that are possible for it; further looks, while
//! parameters move and components stay, compare it with those alone. That is the E-step of the ascent, for rows whose
//! features need not fit into memory at once.

use super::ascent::{Ascent, fill_features};
use super::labels::Labels;
use super::missing::Holes;
use super::narrow::Scored;
use super::{Increment, Look, Precision, Workspace};
use crate::batch::Batch;
use crate::family::Family;
use crate::identify::ComponentId;
use crate::math::special::digamma;
use crate::parallel;
use crate::posterior::{Evidence, Posterior};
use crate::process::{LabelStatistics, Process};

/// Rows whose features are held at a time.
pub(super) const PIECE_ROWS: usize = 2500;

/// Evidence of these rows for known components alone.
///
/// [`Look::WherePossible`] goes on from the last look everywhere with the same rows, components and workspace.
pub(super) fn look_again<F: Family, P: Process>(
    posterior: &Posterior<F, P>,
    rows: &Batch,
    look: Look,
    precision: Precision,
    workspace: &mut Workspace,
) -> Vec<(ComponentId, Evidence)> {
    let where_possible = match look {
        Look::WherePossible => look_where_possible(posterior, rows, workspace),
        Look::Everywhere => None,
    };
    where_possible.unwrap_or_else(|| look_everywhere(posterior, rows, precision, workspace))
}

fn look_everywhere<F: Family, P: Process>(
    posterior: &Posterior<F, P>,
    rows: &Batch,
    precision: Precision,
    workspace: &mut Workspace,
) -> Vec<(ComponentId, Evidence)> {
    let look = |piece: Batch, workspace: &mut Workspace| {
        let mut ascent = Ascent::start(posterior, &piece, precision, workspace);
        ascent.accumulate();
        (ascent.labels_of_known(), ascent.export())
    };
    let pieces = rows.pieces(PIECE_ROWS);
    let looked: Vec<(Labels, Increment)> = if parallel::shared() {
        parallel::map(pieces, |piece| look(piece, &mut Workspace::default()))
    } else {
        pieces.map(|piece| look(piece, workspace)).collect()
    };
    let mut found: Vec<(ComponentId, Evidence)> = Vec::new();
    let mut possible = Vec::with_capacity(looked.len());
    for (labels, Increment { existing, .. }) in looked {
        possible.push(labels);
        for (id, evidence) in existing {
            match found.binary_search_by_key(&id, |(known, _)| *known) {
                Ok(ix) => found[ix].1.absorb(&evidence),
                Err(ix) => found.insert(ix, (id, evidence)),
            }
        }
    }
    workspace.possible = possible;
    found
}

/// `None` when there was no look everywhere before, or a row has lost all components that were possible.
fn look_where_possible<F: Family, P: Process>(
    posterior: &Posterior<F, P>,
    rows: &Batch,
    workspace: &mut Workspace,
) -> Option<Vec<(ComponentId, Evidence)>> {
    let (family, components) = (posterior.family(), posterior.components());
    let (k, f) = (components.len(), family.n_features());
    if workspace.possible.len() != rows.n_rows().div_ceil(PIECE_ROWS) {
        return None;
    }
    let Workspace { possible, phi, ln_weights, changed, features, sums, statistics, hidden, .. } = workspace;
    hidden.clear();
    hidden.resize(k, 0.0);
    phi.clear();
    components.iter().for_each(|component| phi.extend_from_slice(&component.expectation(family).phi));
    ln_weights.clear();
    ln_weights.extend(components.iter().map(|component| {
        let mass = posterior.process().existing_mass(&component.evidence().labels);
        if mass > 0.0 { digamma(mass) } else { f64::NEG_INFINITY }
    }));
    changed.clear();
    changed.resize(k, true);
    sums.clear();
    sums.resize(k * f, 0.0);
    statistics.clear();
    statistics.resize(k, LabelStatistics::default());
    for (piece, labels) in rows.pieces(PIECE_ROWS).zip(possible) {
        fill_features(family, &piece, features);
        let holes = Holes::of(&piece);
        holes.assign_again(family, Scored { features, phi, ln_weights, n_features: f }, changed, labels);
        if !labels.ln_totals().iter().all(|total| total.is_finite()) {
            return None;
        }
        labels.accumulate(features, &piece, holes.flags(), f, sums);
        holes.accumulate(family, labels, (features, phi), &piece, (sums, hidden));
        labels.count(&piece, statistics);
    }
    statistics.iter_mut().zip(&*hidden).for_each(|(labels, e)| labels.label_entropy += e);
    let each = components.iter().zip(sums.chunks_exact(f)).zip(&*statistics);
    let of_rows = each.filter(|(_, labels)| labels.expected_count > 0.0);
    let evidence = of_rows.map(|((component, stats), labels)| {
        (component.id(), Evidence { stats: stats.to_vec(), labels: *labels })
    });
    Some(evidence.collect())
}
