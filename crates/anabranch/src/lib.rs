//! Streaming, distributed Bayesian nonparametric clustering.
//!
//! Workers leave the central posterior with a minibatch of data, learn on their own, and rejoin it: without a learning
//! rate, without a fixed number of clusters, and without waiting for each other (Campbell, Straub, Fisher and How,
//! *Streaming, Distributed Variational Inference for Bayesian Nonparametrics*, 2015).
//!
//! This crate is the mathematics and the in-process engine: synchronous, no files, no sockets, no clock. Files are read
//! and models are stored by `anabranch-io`; the command is `anabranch-cli`.
//!
//! # Quick start
//!
//! ```
//! use anabranch::prelude::*;
//!
//! let mut learner = Mixture::gaussian().seed(1).learner()?;
//! for day in 0..3 {
//!     // Two clusters on a line, near 0 and near 20.
//!     let noise = |t: f64| t.sin() + (1.7 * t).sin() + (2.3 * t).sin();
//!     let rows = (0..100).map(|i| f64::from(i % 2) * 20.0 + noise(f64::from(100 * day + i)));
//!     learner.learn(&Batch::new(1, rows.collect())?)?;
//! }
//! let model = learner.model().expect("there are rows");
//! assert_eq!(model.n_components(), 2);
//! assert_ne!(model.label(&[0.5]), model.label(&[20.5]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The [`engine`] takes streams of any source, shows each minibatch to an observer, and can be stopped and resumed.
//!
//! # Architecture
//!
//! ```text
//! source ──minibatch──▶ worker ─────────────────────────▶ central
//! (engine)              1. take a snapshot q_o            3. identify: which new component is which   σ*
//!                          posterior/  (never waits)         identify/
//!                       2. infer an increment Δ           4. absorb: q ← q_i + Δ through σ*
//!                          infer/                            central/
//! ```
//!
//! The four steps are those of the paper's Figure 1. A model is a family (what a component is), a process (how many there
//! are) and a minibatch inference ([`Inference`]); everything else is generic over the three. Mixtures of dense rows need
//! only the first two: their inference is that of [`infer::Settings`].
//!
//! # Map
//!
//! | module | the question it answers |
//! |---|---|
//! | [`batch`] | what is a row, and is it fit to be learned from? |
//! | [`documents`] | what is a bag of words? |
//! | [`family`] | what is a component? |
//! | [`process`] | how many components are there? |
//! | [`posterior`] | what is known so far, and what does it predict? |
//! | [`infer`] | what does one minibatch teach? |
//! | [`identify`] | which new component of a worker is which new component of the centre? |
//! | [`central`] | in which order do increments join, and which of them count? |
//! | [`learner`] | how is a model learned from rows in pieces? |
//! | [`engine`] | who runs when? |
//! | [`clusters`] | which components are parts of one hill of the density? |
//! | [`diagnose`] | what is doubtful about a posterior? |
//! | [`metric`] | how well does a clustering agree with known labels? |
//! | [`math`] | what is computed in the innermost loops? |
//!
//! # Promises
//!
//! - **MASS** the expected counts add up to the weight of the rows absorbed ([`Posterior::expected_mass`]).
//! - **ONCE** a minibatch counts once, however often it is delivered ([`BatchSet`]).
//! - **SIGMA** no two components of a worker join the same one of the centre ([`Correspondence`]).
//! - **ORDER** entries that touch only existing components commute ([`Evidence::absorb`]).
//! - **IDENT** an id never changes its meaning; a retired id redirects ([`Posterior::resolve`]).
//! - **PROPER** parameters stay in the family's domain ([`Conjugate`]).
//! - **BOUND** the score of a partition is a lower bound ([`Dirichlet`]).
//! - **ELBO** the objective of a minibatch never falls while its components stay the same ([`InferenceReport`]).
//!
//! [`Posterior::expected_mass`]: posterior::Posterior::expected_mass
//! [`Posterior::resolve`]: posterior::Posterior::resolve
//! [`BatchSet`]: central::BatchSet
//! [`Correspondence`]: identify::Correspondence
//! [`Evidence::absorb`]: posterior::Evidence::absorb
//! [`Conjugate`]: family::Conjugate
//! [`Inference`]: infer::Inference
//! [`Dirichlet`]: process::Dirichlet
//! [`InferenceReport`]: infer::InferenceReport

pub mod batch;
pub mod central;
pub mod clusters;
pub mod diagnose;
pub mod documents;
pub mod engine;
pub mod family;
pub mod identify;
pub mod infer;
pub mod learner;
pub mod math;
pub mod metric;
mod parallel;
pub mod posterior;
pub mod prelude;
pub mod process;
pub mod subjects;
mod sync;
