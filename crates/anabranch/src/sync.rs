//! The lock of the central posterior: the standard one, or that of the model checker.

#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::Mutex;

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::Mutex;

/// Where the model checker may switch threads although no lock is touched: around the snapshot swap, which it cannot see.
#[cfg(feature = "shuttle")]
pub(crate) fn switch_point() {
    shuttle::thread::yield_now();
}

/// Nothing outside the model checker.
#[cfg(not(feature = "shuttle"))]
pub(crate) fn switch_point() {}
