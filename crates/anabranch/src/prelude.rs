//! What most programs need: `use anabranch::prelude::*;`.

pub use crate::batch::Batch;
pub use crate::identify::ComponentId;
pub use crate::learner::{LearnError, Learner, Mixture, Model};
