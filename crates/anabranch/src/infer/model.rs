//! What the engine asks of a minibatch inference: with a family and a process it makes a model.
//!
//! ```text
//! prepare      rows as they come, made ready
//! infer        one minibatch, from a snapshot            (paper Figure 1b)
//! bootstrap    the first minibatch, large and alone
//! refit, merges, look_again    what can be better about the model; the engine makes journal entries of it
//! ```

use std::fmt::Debug;

use rand::Rng;

use super::upkeep::Merges;
use super::{
    Bootstrap, Increment, Look, Outlook, PriorChoice, Settings, Workspace, cells, look, mixture, ordinary,
    split, upkeep,
};
use crate::batch::{Batch, Minibatch};
use crate::central::Part;
use crate::family::{Conjugate, Family};
use crate::identify::ComponentId;
use crate::posterior::{Component, Evidence, Posterior, Tail};
use crate::process::Process;

/// Minibatch inference for components of family `F` whose number follows the process `P`.
///
/// An implementation is the settings of that inference. [`Settings`] is the inference of mixtures, for every family of
/// dense rows and every process.
pub trait Inference<F: Conjugate, P: Process>: Clone + Debug + Send + Sync + 'static {
    /// What it learns from.
    type Batch: Minibatch;

    /// Memory that one worker reuses from minibatch to minibatch.
    type Workspace: Default;

    /// Makes a minibatch ready to be learned from and remembered, once, whoever does it.
    fn prepare(&self, _family: &F, _batch: &mut Self::Batch, _rng: &mut impl Rng) {}

    /// Computes what every minibatch asks of a component, for all who read it.
    fn make_ready(&self, _family: &F, _component: &Component) {}

    /// Learns from one minibatch with the central posterior as prior.
    fn infer(
        &self,
        posterior: &Posterior<F, P>,
        batch: &Self::Batch,
        rng: &mut impl Rng,
        workspace: &mut Self::Workspace,
    ) -> Increment;

    /// Learns components, and the prior if it is to be estimated, from the first minibatch; also the process where only the
    /// data can tell its parameters.
    fn bootstrap(
        &self,
        prior: &Posterior<F, P>,
        batch: &Self::Batch,
        choice: PriorChoice,
        outlook: Outlook,
        rng: &mut impl Rng,
        workspace: &mut Self::Workspace,
    ) -> (Bootstrap<F>, Option<P>);

    /// The family and the process with their priors estimated anew; `None` when the components cannot tell.
    fn refit(&self, posterior: &Posterior<F, P>) -> Option<(F, P)>;

    /// Merges that are right for `horizon` times the data, with the prior of what is left if it is estimated. The sample
    /// stands for all data; `later` says which of it came after the first minibatch, where that is known.
    fn merges(
        &self,
        posterior: &Posterior<F, P>,
        sample: &Self::Batch,
        later: Option<&[bool]>,
        choice: PriorChoice,
        horizon: f64,
    ) -> Merges<F>;

    /// Components of which the sample shows that they hide several, with their parts. A model that knows none proposes none.
    fn splits(
        &self,
        _posterior: &Posterior<F, P>,
        _sample: &Self::Batch,
        _rng: &mut impl Rng,
        _workspace: &mut Self::Workspace,
    ) -> Vec<(ComponentId, Vec<Part>)> {
        Vec::new()
    }

    /// How probable rows usually are for a posterior that came of another, as a sample of rows tells that both have learned from.
    /// `None` where nobody asks.
    fn ordinary(
        &self,
        _before: &Posterior<F, P>,
        _after: &Posterior<F, P>,
        _sample: &Self::Batch,
    ) -> Option<Tail> {
        None
    }

    /// What data that were absorbed long ago say to the posterior of today: evidence for known components alone.
    fn look_again(
        &self,
        posterior: &Posterior<F, P>,
        batch: &Self::Batch,
        look: Look,
        workspace: &mut Self::Workspace,
    ) -> Vec<(ComponentId, Evidence)>;
}

/// The inference of mixtures.
impl<F: Family, P: Process> Inference<F, P> for Settings {
    type Batch = Batch;
    type Workspace = Workspace;

    fn prepare(&self, family: &F, batch: &mut Batch, rng: &mut impl Rng) {
        cells::spread(family, batch, rng);
    }

    fn make_ready(&self, family: &F, component: &Component) {
        if family.screen_len() > 0 {
            component.screen(family);
        }
        component.predictive(family);
    }

    fn infer(
        &self,
        posterior: &Posterior<F, P>,
        batch: &Batch,
        rng: &mut impl Rng,
        workspace: &mut Workspace,
    ) -> Increment {
        mixture::infer(posterior, batch, self, rng, workspace).0
    }

    fn bootstrap(
        &self,
        prior: &Posterior<F, P>,
        batch: &Batch,
        choice: PriorChoice,
        outlook: Outlook,
        rng: &mut impl Rng,
        workspace: &mut Workspace,
    ) -> (Bootstrap<F>, Option<P>) {
        (super::bootstrap(prior, batch, self, choice, outlook, rng, workspace), None)
    }

    fn refit(&self, posterior: &Posterior<F, P>) -> Option<(F, P)> {
        Some((upkeep::refit(posterior)?, posterior.process().clone()))
    }

    fn merges(
        &self,
        posterior: &Posterior<F, P>,
        sample: &Batch,
        later: Option<&[bool]>,
        choice: PriorChoice,
        horizon: f64,
    ) -> Merges<F> {
        upkeep::merges(posterior, sample, later, choice, horizon, self.precision)
    }

    fn splits(
        &self,
        posterior: &Posterior<F, P>,
        sample: &Batch,
        rng: &mut impl Rng,
        workspace: &mut Workspace,
    ) -> Vec<(ComponentId, Vec<Part>)> {
        split::splits(posterior, sample, self, rng, workspace)
    }

    fn ordinary(&self, before: &Posterior<F, P>, after: &Posterior<F, P>, sample: &Batch) -> Option<Tail> {
        ordinary::moved(before, after, sample, self.precision)
    }

    fn look_again(
        &self,
        posterior: &Posterior<F, P>,
        batch: &Batch,
        look: Look,
        workspace: &mut Workspace,
    ) -> Vec<(ComponentId, Evidence)> {
        look::look_again(posterior, batch, look, self.precision, workspace)
    }
}
