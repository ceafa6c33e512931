//! Clusters of any shape: which components are parts of the same hill of the density.
//!
//! A crescent takes many normal components, and a person sees one cluster. The density has the answer: two components belong
//! together when there is no valley between them. [`Tree`] holds at which height components join, from the highest pass down: the
//! level-set tree of the mixture. [`Cut`] says which valleys count, and [`Clusters`] is what it leaves, each cluster
//! with a name that stays as the stream goes on.
//!
//! ```text
//! Posterior ──▶ Tree ──Cut──▶ Clusters ──of(component)──▶ name
//!                                └──▶ RowClusters ──of(component, row)──▶ name
//! ```

mod cut;
mod differ;
mod follow;
mod normals;
mod ridge;
mod rows;
mod saddles;
mod tree;
mod union;

pub use cut::{Cluster, Clusters, Cut, CutError, Rule};
pub use differ::{Difference, differences};
pub use follow::{Event, follow};
pub use rows::RowClusters;
pub use tree::{Join, Leaf, Measure, Tree};

#[cfg(test)]
mod tests;
