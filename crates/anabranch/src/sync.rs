//! The lock of the central posterior: the standard one, or that of the model checker.

#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::Mutex;

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::Mutex;
