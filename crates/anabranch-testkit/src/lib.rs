//! Oracles for the tests of anabranch: nothing here shares code with what it checks.

pub mod assignment;
pub mod expectation;
pub mod generators;
pub mod partitions;
pub mod pictures;
pub mod quadrature;
pub mod random;
pub mod streams;
