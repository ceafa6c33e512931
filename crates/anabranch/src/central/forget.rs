//! Forgetting: what the evidence so far counts when a minibatch joins.
//!
//! By the clock, everything fades alike. Left to the data, each component `k` keeps the share `ρ` of its past `S`, `t` that explains
//! best what the minibatch brings, `ΔS` and `n_k` of its `n` rows (power priors, Ibrahim and Chen 2000; Masegosa et al. 2017):
//!
//! ```text
//! gain(ρ)   = ℓ(ρ) − ℓ(1)
//! ℓ(ρ)      = A(η₀ + ρS + ΔS) − A(η₀ + ρS)  +  log B(ρt + n_k, R + n − n_k) − log B(ρt, R),      R = N − t + new mass
//! doubt(ρ) ← max(0, doubt(ρ) + gain(ρ))
//! ```
//!
//! `ℓ` is the probability of what came, were `ρ` of the past known: `e^gain` is a ratio of likelihoods, whose mean is at most 1 while
//! nothing changes. The past fades when one doubt exceeds `DOUBT` (Page 1954): without cause once in `e^DOUBT` minibatches at most.

use std::sync::Arc;

use super::journal::{Absorb, Aside, Fold};
use crate::family::Conjugate;
use crate::identify::{ComponentId, Target};
use crate::math::special::ln_gamma;
use crate::posterior::{Component, Evidence, HalfLife, Past, SHARES};
use crate::process::Process;

/// A component that counts less than this many rows has ended.
const LEAST: f64 = 0.5;

/// Nats of evidence that a part of a component's past is to go.
const DOUBT: f64 = 14.0;

impl<F: Conjugate, P: Process> Fold<F, P> {
    /// The same fold, with this past.
    pub fn with_past(mut self, past: Past) -> Self {
        self.posterior.past = past;
        self
    }

    /// The same fold, whose seconds are those of this column.
    pub fn timed_by(mut self, column: Option<String>) -> Self {
        self.posterior.past.time = column;
        self
    }

    /// Forgets like this from now on. Another kind of clock begins anew.
    pub fn forget(&mut self, half_life: HalfLife) {
        let past = &mut self.posterior.past;
        if past.half_life.is_none_or(|before| !before.same_clock(half_life)) {
            // What is there already is as old as the newest of it.
            let rows = self.posterior.mass + past.forgotten;
            past.clock = (rows > 0.0 && matches!(half_life, HalfLife::Rows(_))).then_some(rows);
        }
        past.half_life = Some(half_life);
    }

    /// Lets the past fade before this minibatch joins; returns how much the minibatch itself counts.
    pub(super) fn age(&mut self, entry: &Absorb, clock: Option<f64>) -> f64 {
        match self.posterior.past.half_life {
            None => 1.0,
            Some(HalfLife::Auto) => {
                self.doubt(entry);
                1.0
            }
            Some(HalfLife::Rows(_) | HalfLife::Seconds(_)) => self.fade_until(clock),
        }
    }

    /// Lets everything fade until this clock, or returns how much what was then counts now.
    fn fade_until(&mut self, clock: Option<f64>) -> f64 {
        let past = &mut self.posterior.past;
        let since = past.since(clock);
        if since < 0.0 {
            return since.exp2();
        }
        past.clock = clock.or(past.clock);
        if since > 0.0 {
            past.halvings += since;
            let share = (-since).exp2();
            let components = &mut self.posterior.components;
            components.iter_mut().for_each(|c| *c = Arc::new(c.faded(share)));
            self.now_counts(share);
        }
        1.0
    }

    /// Meets a model of other rows at the newest time of both; returns how much that one counts then. Streams whose clock is rows have
    /// none in common.
    pub(super) fn meet(&mut self, theirs: &Past) -> f64 {
        match self.posterior.past.half_life {
            Some(HalfLife::Seconds(_)) => self.fade_until(theirs.clock),
            Some(HalfLife::Rows(_) | HalfLife::Auto) | None => 1.0,
        }
    }

    /// All evidence together counts this share of what it did.
    fn now_counts(&mut self, share: f64) {
        let posterior = &mut self.posterior;
        let kept = share * posterior.mass;
        posterior.past.forgotten += posterior.mass - kept;
        posterior.mass = kept;
        posterior.familiarity = posterior.familiarity.faded(share);
        self.count_aside();
    }

    /// What was set aside fades with the rest.
    fn count_aside(&mut self) {
        let passing = |component: &Arc<Component>| component.passing().map(|e| e.labels.expected_count);
        if let Some(Aside { share, .. }) = self.aside {
            let mass: f64 = self.posterior.components.iter().filter_map(passing).sum();
            self.aside = (mass > 0.0).then_some(Aside { mass, share });
        }
    }

    /// Ends components that have faded. Their ids stay theirs: a minibatch that knew one may bring it back.
    pub(super) fn end_faded(&mut self) {
        let faded = |component: &Component| component.expected_count() < LEAST;
        let posterior = &mut self.posterior;
        if posterior.past.half_life.is_none() || !posterior.components.iter().any(|c| faded(c)) {
            return;
        }
        let mut ended = 0.0;
        posterior.components.retain(|component| {
            let ends = faded(component);
            ended += if ends { component.expected_count() } else { 0.0 };
            !ends
        });
        posterior.mass = (posterior.mass - ended).max(0.0);
        posterior.past.forgotten += ended;
        let living: Vec<ComponentId> = posterior.components.iter().map(|c| c.id()).collect();
        let lives = |id: &ComponentId| living.binary_search(id).is_ok();
        posterior.past.doubts.retain(|id, _| lives(id));
        let ends: Vec<ComponentId> =
            posterior.redirects.keys().filter(|id| !lives(&posterior.resolve(**id))).copied().collect();
        if !ends.is_empty() {
            let redirects = Arc::make_mut(&mut posterior.redirects);
            redirects.retain(|id, _| ends.binary_search(id).is_err());
        }
        self.count_aside();
    }

    /// Whether this id was given away once and nobody has it now, for it has faded.
    pub(super) fn has_faded(&self, id: ComponentId) -> bool {
        let posterior = &self.posterior;
        posterior.past.half_life.is_some()
            && id.0 < self.next_id
            && posterior.position(posterior.resolve(id)).is_none()
    }

    /// Doubts the past of each component that the minibatch speaks against, and lets fade what is doubted enough.
    fn doubt(&mut self, entry: &Absorb) {
        let posterior = &self.posterior;
        let (mass, family) = (posterior.mass, &*posterior.family);
        if mass <= 0.0 || entry.mass <= 0.0 {
            return;
        }
        let labels = posterior.components.iter().map(|c| &c.evidence().labels);
        let new = posterior.process.new_mass(labels).max(f64::MIN_POSITIVE);
        let matched = entry.new.iter().filter_map(|(target, evidence)| match target {
            Target::Existing(id) => Some((*id, evidence)),
            Target::New => None,
        });
        let mut brought: Vec<Option<Evidence>> = vec![None; posterior.components.len()];
        for (id, evidence) in entry.existing.iter().map(|(id, evidence)| (*id, evidence)).chain(matched) {
            let Some(at) = posterior.position(posterior.resolve(id)) else { continue };
            match &mut brought[at] {
                Some(sum) => sum.absorb(evidence),
                none => *none = Some(evidence.clone()),
            }
        }
        let mut doubts = posterior.past.doubts.clone();
        let mut fading = Vec::new();
        for (at, (component, brought)) in posterior.components.iter().zip(&brought).enumerate() {
            let before = doubts.remove(&component.id()).unwrap_or_default();
            let gains = gains(family, component, brought.as_ref(), [mass, new, entry.mass]);
            let mut now = before;
            now.iter_mut().zip(gains).for_each(|(doubt, gain)| *doubt = (*doubt + gain).max(0.0));
            let most = (0..SHARES.len()).max_by(|a, b| now[*a].total_cmp(&now[*b])).unwrap_or(0);
            if now[most] > DOUBT {
                fading.push((at, SHARES[most]));
            } else if now.iter().any(|doubt| *doubt > 0.0) {
                doubts.insert(component.id(), now);
            }
        }
        self.posterior.past.doubts = doubts;
        let components = &mut self.posterior.components;
        let gone: f64 =
            fading.iter().map(|(at, share)| (1.0 - share) * components[*at].expected_count()).sum();
        for (at, share) in fading {
            components[at] = Arc::new(components[at].faded(share));
        }
        if gone > 0.0 {
            let share = (1.0 - gone / mass).max(0.0);
            self.posterior.past.halvings -= share.max(f64::MIN_POSITIVE).log2();
            self.now_counts(share);
        }
    }
}

/// What it gains in likelihood to know only each of [`SHARES`] of a component's past. `of` all components, of new ones and of the
/// minibatch are the masses.
fn gains<F: Conjugate>(
    family: &F,
    component: &Component,
    brought: Option<&Evidence>,
    [all, new, minibatch]: [f64; 3],
) -> [f64; 3] {
    let Evidence { stats, labels } = component.evidence();
    let t = labels.expected_count.max(f64::MIN_POSITIVE);
    let rows = brought.map_or(0.0, |evidence| evidence.labels.expected_count);
    let others = (all - t).max(0.0) + new;
    let of_count =
        |t: f64| ln_gamma(t + rows) - ln_gamma(t) - ln_gamma(t + others + minibatch) + ln_gamma(t + others);
    let of_rows = |share: f64| {
        let Some(brought) = brought.filter(|_| rows > 0.0) else { return 0.0 };
        let mut kept: Vec<f64> = stats.iter().map(|s| share * s).collect();
        let before = if share == 1.0 {
            component.expectation(family).log_partition
        } else {
            family.log_partition(&kept)
        };
        kept.iter_mut().zip(&brought.stats).for_each(|(s, more)| *s += more);
        family.log_partition(&kept) - before
    };
    let whole = of_rows(1.0) + of_count(t);
    SHARES.map(|share| {
        let gain = of_rows(share) + of_count(share * t) - whole;
        if gain.is_finite() { gain } else { 0.0 }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::Bernoulli;
    use crate::process::LabelStatistics;

    /// ∫ θ^a (1 − θ)^b dθ by the midpoint rule.
    fn integral(a: f64, b: f64) -> f64 {
        const STEPS: u32 = 200_000;
        let at = |ix: u32| (f64::from(ix) + 0.5) / f64::from(STEPS);
        (0..STEPS).map(|ix| at(ix).powf(a) * (1.0 - at(ix)).powf(b)).sum::<f64>() / f64::from(STEPS)
    }

    fn coin(rows: f64, ones: f64) -> Evidence {
        let labels =
            LabelStatistics { log_p_empty: f64::NEG_INFINITY, expected_count: rows, label_entropy: 0.0 };
        Evidence { stats: vec![rows, ones], labels }
    }

    #[test]
    fn gains_are_ratios_of_likelihoods_that_integrals_give() {
        let family = Bernoulli::new(vec![2.0], vec![3.0]).unwrap();
        let (all, new, minibatch) = (100.0, 1.5, 20.0);
        for (rows, ones) in [(8.0, 6.0), (3.0, 0.0), (0.0, 0.0)] {
            let component = Component::new(ComponentId(0), 0, coin(40.0, 10.0));
            let brought = (rows > 0.0).then(|| coin(rows, ones));
            let found = gains(&family, &component, brought.as_ref(), [all, new, minibatch]);
            // Rows given the coin, and which of the minibatch's rows are this component's, each under a power of the past.
            let ln_likelihood = |share: f64| {
                let (heads, tails) = (1.0 + share * 10.0, 2.0 + share * 30.0);
                let of_rows = integral(heads + ones, tails + rows - ones) / integral(heads, tails);
                let (mine, others) = (share * 40.0 - 1.0, 60.0 + new - 1.0);
                let of_count = integral(mine + rows, others + minibatch - rows) / integral(mine, others);
                of_rows.ln() + of_count.ln()
            };
            // Below one row of the past the integrand has a pole, which midpoints do not see.
            for (gain, share) in found.iter().zip(SHARES).take(2) {
                let expected = ln_likelihood(share) - ln_likelihood(1.0);
                assert!((gain - expected).abs() < 1e-6, "{rows} rows, {share}: {gain} for {expected}");
            }
        }
    }
}
