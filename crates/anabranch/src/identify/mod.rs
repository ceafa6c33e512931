//! Which new component of a minibatch is which new component of the centre (paper §3.2, eqs. bnpopt and R_kj).
//!
//! ```text
//! σ* = argmax_σ  Σ_k A(η̃_k^σ) + E^σ[log p(z)]        gains → assignment → correspondence
//! ```
//!
//! Nothing here knows a family or a process: [`gains`] takes scores, [`solve`] matches, [`match_components`] does so for each
//! tangent of a process, [`Correspondence`] keeps the promise that no two components go to one place. The derivation is in the README beside this file.

mod assignment;
mod correspondence;
mod gain;
mod identification;
mod tangent;

pub use assignment::{Gains, solve};
pub use correspondence::{ComponentId, Correspondence, CorrespondenceError, Target};
pub use gain::gains;
pub use identification::{Found, Identification, correspond};
pub use tangent::{Labels, match_components};
