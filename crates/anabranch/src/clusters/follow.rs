//! What became of clusters while the stream went on.
//!
//! Components keep their ids, and one that became part of another says of which. So each component of the earlier snapshot has a
//! place in the later one, and clusters that share components are the same, joined or parted.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::Clusters;
use crate::identify::ComponentId;

/// A change of clusters between two snapshots of a stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A cluster whose components are all younger than the earlier snapshot.
    Appeared {
        /// Its name.
        cluster: ComponentId,
    },
    /// Clusters that are one now.
    Joined {
        /// Their names before.
        clusters: Vec<ComponentId>,
        /// The name now.
        into: ComponentId,
    },
    /// A cluster that is several now.
    Parted {
        /// Its name before.
        cluster: ComponentId,
        /// The names now.
        into: Vec<ComponentId>,
    },
}

/// What happened between two snapshots of the same stream, by the names of the later clusters.
pub fn follow(before: &Clusters, after: &Clusters) -> Vec<Event> {
    let mut went: BTreeMap<ComponentId, BTreeSet<ComponentId>> = BTreeMap::new();
    let mut came: BTreeMap<ComponentId, BTreeSet<ComponentId>> = BTreeMap::new();
    for cluster in before.clusters() {
        for component in &cluster.components {
            if let Some(now) = after.cluster(*component) {
                went.entry(cluster.name).or_default().insert(now.name);
                came.entry(now.name).or_default().insert(cluster.name);
            }
        }
    }
    let mut events = Vec::new();
    for (cluster, into) in &went {
        if into.len() > 1 {
            events.push(Event::Parted { cluster: *cluster, into: into.iter().copied().collect() });
        }
    }
    for (into, clusters) in &came {
        if clusters.len() > 1 {
            events.push(Event::Joined { clusters: clusters.iter().copied().collect(), into: *into });
        }
    }
    let appeared =
        after.clusters().iter().map(|cluster| cluster.name).filter(|name| !came.contains_key(name));
    events.extend(appeared.map(|cluster| Event::Appeared { cluster }));
    events
}
