//! Streaming, distributed Bayesian nonparametric clustering.
//!
//! Workers leave the central posterior with a minibatch of data, learn on their own, and rejoin it: without a learning
//! rate, without a fixed number of clusters, and without waiting for each other (Campbell, Straub, Fisher and How,
//! *Streaming, Distributed Variational Inference for Bayesian Nonparametrics*, 2015).

pub mod batch;
pub mod central;
pub mod engine;
pub mod family;
pub mod identify;
pub mod infer;
pub mod math;
pub mod metric;
pub mod posterior;
pub mod process;
mod sync;
