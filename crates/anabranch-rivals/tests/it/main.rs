//! The algorithms from the outside: laws that hold for each of them and every family, and what their papers promise.

mod bounds;
mod laws;
mod quality;
mod support;
