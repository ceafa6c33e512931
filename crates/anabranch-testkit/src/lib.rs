//! Oracles for the tests of anabranch: nothing here shares code with what it checks.

pub mod quadrature;
