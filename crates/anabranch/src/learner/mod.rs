//! A whole run in one place: rows in, a model out at any moment.
//!
//! ```text
//! rows ──▶ buffer ──full minibatches──▶ centre           (`learn`)
//!             └──what is left──▶ a copy of the centre     (`model`), ended as a run ends
//! ```
//!
//! Looking changes nothing of what will be learned, and rows in pieces give the model of all of them at once. A model that
//! was shown a few rows ago is brought up to date instead of ended anew ([`look`]).

pub mod course;
pub mod look;
pub mod run;

use std::fmt;
use std::sync::{Arc, Mutex};

use thiserror::Error;

use crate::batch::{Batch, Minibatch};
use crate::engine::Config;
use crate::family::{
    AnyFamily, Bernoulli, Categorical, Diagonal, DomainError, Family, Gaussian, Multinomial, Poisson,
    PriorError, Spherical,
};
use crate::identify::ComponentId;
use crate::infer::Settings;
use crate::posterior::{Posterior, Predictor};
use crate::process::{AnyProcess, Bound, Parameter, ProcessError};
use course::{Course, Maker};
use look::Shown;

/// Rows of a minibatch, unless told.
pub const MINIBATCH_ROWS: usize = 256;

/// What is to be learned, and how: everything has a default that works on data nobody has seen.
///
/// ```
/// use anabranch::prelude::*;
///
/// let mut learner = Mixture::gaussian().alpha(5.0).seed(1).learner()?;
/// for day in 0..3 {
///     // Two clusters on a line, near 0 and near 20.
///     let noise = |t: f64| t.sin() + (1.7 * t).sin() + (2.3 * t).sin();
///     let rows = (0..100).map(|i| f64::from(i % 2) * 20.0 + noise(f64::from(100 * day + i)));
///     learner.learn(&Batch::new(1, rows.collect())?)?;
/// }
/// let model = learner.model().expect("there are rows");
/// assert_eq!(model.n_components(), 2);
/// assert_ne!(model.label(&[0.5]), model.label(&[20.5]));
/// assert!(model.ln_density(&[0.5]) > model.ln_density(&[10.0]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Mixture<F = AnyFamily> {
    family: Arc<Maker<F, Batch>>,
    alpha: f64,
    discount: Option<f64>,
    minibatch_rows: usize,
    config: Config,
}

impl<F> fmt::Debug for Mixture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { family: _, alpha, discount, minibatch_rows, config } = self;
        f.debug_struct("Mixture")
            .field("alpha", alpha)
            .field("discount", discount)
            .field("minibatch_rows", minibatch_rows)
            .field("config", config)
            .finish_non_exhaustive()
    }
}

/// The families, each with a prior that is learned from the rows.
impl Mixture {
    /// Gaussians with full covariance.
    pub fn gaussian() -> Self {
        Self::of(|rows| Ok(Gaussian::from_rows(rows)?.into()))
    }

    /// Gaussians whose columns are independent.
    pub fn diagonal() -> Self {
        Self::of(|rows| Ok(Diagonal::from_rows(rows)?.into()))
    }

    /// Round Gaussians.
    pub fn spherical() -> Self {
        Self::of(|rows| Ok(Spherical::from_rows(rows)?.into()))
    }

    /// Columns of zeros and ones.
    pub fn bernoulli() -> Self {
        Self::of(|rows| Ok(Bernoulli::from_rows(rows)?.into()))
    }

    /// Columns of codes 0, 1, 2, …
    pub fn categorical() -> Self {
        Self::of(|rows| Ok(Categorical::from_rows(rows)?.into()))
    }

    /// Columns of counts.
    pub fn poisson() -> Self {
        Self::of(|rows| Ok(Poisson::from_rows(rows)?.into()))
    }

    /// Rows of counts that share a total.
    pub fn multinomial() -> Self {
        Self::of(|rows| Ok(Multinomial::from_rows(rows)?.into()))
    }

    /// Learns whether values are missing too, as a column of zeros and ones for each column.
    pub fn missing_informative(self) -> Self {
        let family = Arc::clone(&self.family);
        let make = move |rows: &Batch| family(rows)?.with_absence((0..rows.dimensions()).collect(), rows);
        Self { family: Arc::new(make), ..self }
    }
}

impl<F: Family> Mixture<F> {
    /// Components of a family that is made from the first rows: any that is here, or your own.
    pub fn of(family: impl Fn(&Batch) -> Result<F, PriorError> + Send + Sync + 'static) -> Self {
        let (alpha, discount, minibatch_rows) = (5.0, None, MINIBATCH_ROWS);
        Self { family: Arc::new(family), alpha, discount, minibatch_rows, config: Config::default() }
    }

    /// Concentration of the process: larger expects more components. 5 unless told.
    pub fn alpha(self, alpha: f64) -> Self {
        Self { alpha, ..self }
    }

    /// A Pitman–Yor process of this discount: a power law of small components.
    pub fn pitman_yor(self, discount: f64) -> Self {
        Self { discount: Some(discount), ..self }
    }

    /// Seed of everything random. It alone fixes the result. 0 unless told.
    pub fn seed(mut self, seed: u64) -> Self {
        self.config.seed = seed;
        self
    }

    /// Threads; they change no bit of the result. All cores unless told.
    pub fn threads(mut self, threads: usize) -> Self {
        self.config.threads = threads.max(1);
        self
    }

    /// Rows of a minibatch after the first. [`MINIBATCH_ROWS`] unless told.
    pub fn minibatch_rows(self, rows: usize) -> Self {
        Self { minibatch_rows: rows.max(1), ..self }
    }

    /// Rows of the first minibatch, which is learned alone. [`BOOTSTRAP_ROWS`](crate::engine::BOOTSTRAP_ROWS) unless told.
    pub fn first_rows(mut self, rows: usize) -> Self {
        self.config.bootstrap_rows = rows.max(1);
        self
    }

    /// Somebody who has learned nothing yet.
    pub fn learner(self) -> Result<Learner<F>, ProcessError> {
        let discount = self.discount.map(Parameter::Given);
        let process = AnyProcess::new(Parameter::Given(self.alpha), discount, Bound::Paper)?;
        let Self { family, minibatch_rows, config, .. } = self;
        let make = Arc::clone(&family);
        let course = Course::new(move |rows: &Batch| make(rows), process, config, minibatch_rows);
        Ok(Learner { family, course, minibatch_rows, domain: None, look: Mutex::default() })
    }
}

/// Why rows were not learned from. Nothing of them was.
///
/// ```
/// use anabranch::prelude::*;
///
/// let mut coins = Mixture::bernoulli().learner()?;
/// coins.learn(&Batch::new(1, vec![0.0, 1.0, 1.0])?)?;
/// let wrong = coins.learn(&Batch::new(1, vec![1.0, 2.0])?);
/// assert!(matches!(wrong, Err(LearnError::Domain { row: 1, .. })));
/// assert!(matches!(coins.learn(&Batch::new(2, vec![0.0; 4])?), Err(LearnError::Columns { .. })));
/// assert_eq!(coins.model().expect("three rows were good").posterior().mass(), 3.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum LearnError {
    /// Not the columns of the rows before.
    #[error("the rows have {found} columns, those before had {expected}")]
    Columns {
        /// Columns of the rows before.
        expected: usize,
        /// Columns of these.
        found: usize,
    },
    /// A row is not in the family's domain.
    #[error("row {row}: {source}")]
    Domain {
        /// The row, from 0, of those that were handed over.
        row: usize,
        /// What is wrong with it.
        source: DomainError,
    },
    /// The first rows make no prior.
    #[error("the first rows make no prior: {0}")]
    Prior(#[from] PriorError),
}

/// Learns from rows in any pieces.
///
/// ```
/// use anabranch::prelude::*;
///
/// let noise = |t: f64| t.sin() + (1.7 * t).sin() + (2.3 * t).sin();
/// let rows = Batch::new(1, (0..300).map(|i| f64::from(i % 2) * 20.0 + noise(f64::from(i))).collect())?;
/// let mut whole = Mixture::gaussian().learner()?;
/// whole.learn(&rows)?;
/// let mut in_pieces = Mixture::gaussian().learner()?;
/// for piece in rows.pieces(7) {
///     in_pieces.learn(&piece)?;
/// }
/// // However the rows come, and however often somebody looks: the same model to the bit.
/// let (one, other) = (whole.model().expect("rows"), in_pieces.model().expect("rows"));
/// assert_eq!(one.ln_density(&[3.0]).to_bits(), other.ln_density(&[3.0]).to_bits());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Learner<F: Family = AnyFamily> {
    family: Arc<Maker<F, Batch>>,
    course: Course<F, AnyProcess, Settings>,
    minibatch_rows: usize,
    /// A family that knows which rows can be learned from.
    domain: Option<F>,
    look: Mutex<Option<Look<F>>>,
}

/// What was shown last, and the rows since, unless they are too many to bring it up to date.
struct Look<F> {
    shown: Shown<F, AnyProcess>,
    since: Since,
}

/// Rows since a look.
enum Since {
    None,
    Some(Batch),
    TooMany,
}

impl<F: Family> fmt::Debug for Learner<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mass = self.course.centre().map_or(0.0, |centre| centre.snapshot().mass());
        f.debug_struct("Learner")
            .field("mass", &mass)
            .field("waiting", &self.course.waiting())
            .finish_non_exhaustive()
    }
}

impl<F: Family> Learner<F> {
    /// Learns from the rows; those that do not fill a minibatch wait for the next ones.
    pub fn learn(&mut self, rows: &Batch) -> Result<(), LearnError> {
        if rows.is_empty() {
            return Ok(());
        }
        self.check(rows)?;
        self.course.learn(rows, &mut ())?;
        if let Some(Look { shown, since }) = self.look.get_mut().expect("no holder of this lock panics") {
            *since = match std::mem::replace(since, Since::TooMany) {
                Since::None if shown.takes(rows.n_rows()) => Since::Some(rows.clone()),
                Since::Some(mut since) if shown.takes(since.n_rows() + rows.n_rows()) => {
                    since.append(rows);
                    Since::Some(since)
                }
                _ => Since::TooMany,
            };
        }
        Ok(())
    }

    /// The model of all rows so far, as if they were all; `None` before the first.
    ///
    /// It costs as much as the end of a run, and after few rows more as much as these. Components keep their ids from one
    /// model to the next.
    pub fn model(&self) -> Option<Model<F>> {
        let mut look = self.look.lock().expect("no holder of this lock panics");
        match &mut *look {
            Some(Look { since: Since::None, .. }) => {}
            Some(Look { shown, since: since @ Since::Some(_) }) => {
                if let Since::Some(rows) = std::mem::replace(since, Since::None) {
                    shown.catch_up(&rows, self.minibatch_rows, None, self.course.config());
                }
            }
            before => {
                let earlier = before.take().map(|look| look.shown);
                // They made a family when they were checked.
                let ended = self.course.ended().ok().flatten()?;
                let shown = Shown::new(ended, self.course.centre().map(|centre| &**centre), earlier.as_ref());
                *before = Some(Look { shown, since: Since::None });
            }
        }
        look.as_ref().map(|look| Model::new(look.shown.posterior()))
    }

    fn check(&mut self, rows: &Batch) -> Result<(), LearnError> {
        let domain = match self.domain.take() {
            Some(domain) => domain,
            None => (self.family)(rows)?,
        };
        let (expected, found) = (domain.dimensions(), rows.dimensions());
        let wrong = || rows.rows().enumerate().find_map(|(row, x)| Some((row, domain.check(x).err()?)));
        let checked = match expected == found {
            false => Err(LearnError::Columns { expected, found }),
            true => wrong().map_or(Ok(()), |(row, source)| Err(LearnError::Domain { row, source })),
        };
        // Only rows that can be learned from say what can be.
        if checked.is_ok() || self.course.centre().is_some() || self.course.waiting() > 0 {
            self.domain = Some(domain);
        }
        checked
    }
}

/// What has been learned: answers, on any number of threads, while the learner goes on.
///
/// ```
/// use anabranch::prelude::*;
///
/// let noise = |t: f64| t.sin() + (1.7 * t).sin() + (2.3 * t).sin();
/// let mut learner = Mixture::gaussian().learner()?;
/// learner.learn(&Batch::new(1, (0..300).map(|i| f64::from(i % 2) * 20.0 + noise(f64::from(i))).collect())?)?;
/// let model = learner.model().expect("there are rows");
/// std::thread::scope(|scope| {
///     let here = scope.spawn(|| model.label(&[0.5]));
///     let there = scope.spawn(|| model.label(&[20.5]));
///     assert_ne!(here.join().unwrap(), there.join().unwrap());
/// });
/// let sizes: f64 = model.posterior().components().iter().map(|c| c.evidence().labels.expected_count).sum();
/// assert!((sizes - 300.0).abs() < 1e-6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Model<F = AnyFamily> {
    posterior: Arc<Posterior<F, AnyProcess>>,
    predictor: Predictor,
}

impl<F: Family> fmt::Debug for Model<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("posterior", &self.posterior).finish_non_exhaustive()
    }
}

impl<F: Family> Model<F> {
    fn new(posterior: Arc<Posterior<F, AnyProcess>>) -> Self {
        Self { predictor: Predictor::new(&posterior), posterior }
    }

    /// How many components there are.
    pub fn n_components(&self) -> usize {
        self.posterior.components().len()
    }

    /// The most probable component of a row; `None` when a new one is.
    pub fn label(&self, x: &[f64]) -> Option<ComponentId> {
        self.predictor.label(x)
    }

    /// The log of the predictive density of a row.
    pub fn ln_density(&self, x: &[f64]) -> f64 {
        self.predictor.ln_density(x)
    }

    /// Everything else that can be asked of rows, in blocks and on threads.
    pub fn predictor(&self) -> &Predictor {
        &self.predictor
    }

    /// Everything that is known.
    pub fn posterior(&self) -> &Posterior<F, AnyProcess> {
        &self.posterior
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coins(n: usize) -> Batch {
        Batch::new(1, (0..n).map(|row| f64::from(u8::from(row % 3 == 0))).collect()).unwrap()
    }

    fn mass(learner: &Learner<Bernoulli>) -> f64 {
        learner.model().map_or(0.0, |model| model.posterior().mass())
    }

    fn mixture() -> Mixture<Bernoulli> {
        let family = |_: &Batch| Bernoulli::new(vec![0.5], vec![0.5]);
        Mixture::of(family).first_rows(100).minibatch_rows(40).threads(1)
    }

    #[test]
    fn what_a_program_holds_can_go_to_another_thread_and_be_shared() {
        fn is_both<T: Send + Sync + 'static>() {}
        is_both::<Mixture>();
        is_both::<Learner>();
        is_both::<Model>();
        is_both::<LearnError>();
        is_both::<Batch>();
        is_both::<ComponentId>();
        is_both::<Course<AnyFamily, AnyProcess, Settings>>();
        is_both::<run::Run<AnyFamily, AnyProcess, Settings>>();
    }

    #[test]
    fn what_went_wrong_below_is_the_source_of_an_error() {
        use std::error::Error;
        let mut learner = mixture().learner().unwrap();
        let strange = learner.learn(&Batch::new(1, vec![7.0]).unwrap()).unwrap_err();
        assert!(strange.source().is_some_and(|source| source.is::<DomainError>()), "{strange:?}");
        let none = LearnError::from(Bernoulli::new(vec![-1.0], vec![0.5]).unwrap_err());
        assert!(none.source().is_some_and(|source| source.is::<PriorError>()), "{none:?}");
    }

    #[test]
    fn every_row_counts_once_whatever_the_pieces() {
        let mut learner = mixture().learner().unwrap();
        let mut seen = 0;
        for piece in [1, 60, 38, 1, 120, 7, 40] {
            learner.learn(&coins(piece)).unwrap();
            seen += piece;
            assert_eq!(
                learner.course.minibatches(),
                if seen < 100 { 0 } else { 1 + (seen as u64 - 100) / 40 }
            );
            assert!((mass(&learner) - seen as f64).abs() < 1e-6, "{} of {seen}", mass(&learner));
        }
    }

    #[test]
    fn rows_with_weights_behind_rows_without_count_their_weights() {
        let mut learner = mixture().learner().unwrap();
        learner.learn(&coins(50)).unwrap();
        learner.learn(&coins(30).with_weights(vec![2.5; 30]).unwrap()).unwrap();
        assert!((mass(&learner) - 125.0).abs() < 1e-6, "{}", mass(&learner));
    }

    #[test]
    fn rows_that_are_refused_leave_the_learner_as_it_was() {
        // So many first rows make no prior.
        let family =
            |rows: &Batch| Bernoulli::new(vec![if rows.n_rows() < 100 { 0.5 } else { -1.0 }], vec![0.5]);
        let mut learner = Mixture::of(family).first_rows(100).threads(1).learner().unwrap();
        learner.learn(&coins(60)).unwrap();
        assert!(matches!(learner.learn(&coins(60)), Err(LearnError::Prior(_))));
        let two_columns = Batch::new(2, vec![0.0; 6]).unwrap();
        assert_eq!(learner.learn(&two_columns), Err(LearnError::Columns { expected: 1, found: 2 }));
        let strange = Batch::new(1, vec![0.0, 1.0, 7.0]).unwrap();
        assert!(matches!(learner.learn(&strange), Err(LearnError::Domain { row: 2, .. })));
        assert_eq!(learner.course.waiting(), 60);
        assert!((mass(&learner) - 60.0).abs() < 1e-6);
    }
}
