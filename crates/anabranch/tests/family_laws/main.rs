//! Laws that hold for every family, run on every family.
//!
//! One file per law; [`cases`] lists the families, in several numbers of columns, with rows of their domains.

mod absence;
mod algebra;
mod cases;
mod frames;
mod hostile_input;
mod marginal_likelihood;
mod missing;
mod normalisation;
mod robustness;
mod sampling;
mod vectors;
