//! Loops that several threads share where there are several: the first minibatch, and the end of a run.
//!
//! Whoever has threads to spare runs its work [`on`] them; inside, [`each`] and [`map`] divide a loop among them
//! and [`both`] does two things at once.
//! Outside of a pool, as in the workers of a stream, the same loops run on the calling thread and allocate nothing. No sum's
//! terms or their order depend on the number of threads: results are the same, bit for bit, on any number.

use std::cell::Cell;

use rayon::ThreadPoolBuilder;
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};

/// Runs `work` with this many threads for the loops inside it.
pub(crate) fn on<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> R {
    if threads <= 1 {
        return work();
    }
    match ThreadPoolBuilder::new().num_threads(threads).build() {
        Ok(pool) => pool.install(work),
        // The system gives no more threads: then this one does it.
        Err(_) => work(),
    }
}

/// Whether there are threads to share a loop with.
pub(crate) fn shared() -> bool {
    rayon::current_thread_index().is_some() && rayon::current_num_threads() > 1
}

/// Pieces to divide a loop into whose every piece costs something beside its share.
pub(crate) fn pieces() -> usize {
    if shared() { 2 * rayon::current_num_threads() } else { 1 }
}

/// Does `work` for each item, in any order. Fewer than `together` of them are not worth another thread.
pub(crate) fn each<T: Send>(items: impl Iterator<Item = T>, together: usize, work: impl Fn(T) + Sync + Send) {
    if shared() {
        items.collect::<Vec<T>>().into_par_iter().with_min_len(together).for_each(work);
    } else {
        items.for_each(work);
    }
}

/// What `work` makes of each item, in their order.
pub(crate) fn map<T: Send, R: Send>(
    items: impl Iterator<Item = T>,
    work: impl Fn(T) -> R + Sync + Send,
) -> Vec<R> {
    if shared() {
        items.collect::<Vec<T>>().into_par_iter().map(work).collect()
    } else {
        items.map(work).collect()
    }
}

/// Does both, next to each other where there are threads.
pub(crate) fn both<A: Send, B: Send>(
    one: impl FnOnce() -> A + Send,
    other: impl FnOnce() -> B + Send,
) -> (A, B) {
    if shared() { rayon::join(one, other) } else { (one(), other()) }
}

thread_local! {
    static BUFFERS: Cell<Vec<Vec<f64>>> = const { Cell::new(Vec::new()) };
}

/// Calls `work` with memory that this thread keeps for such calls; it holds anything.
pub(crate) fn with_buffer<R>(len: usize, work: impl FnOnce(&mut [f64]) -> R) -> R {
    // Calls within calls have memory of their own, each that of its depth.
    let mut buffers = BUFFERS.take();
    let mut buffer = buffers.pop().unwrap_or_default();
    BUFFERS.set(buffers);
    if buffer.len() < len {
        buffer.resize(len, 0.0);
    }
    let result = work(&mut buffer[..len]);
    let mut buffers = BUFFERS.take();
    buffers.push(buffer);
    BUFFERS.set(buffers);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_kept_and_every_item_is_done_on_any_number_of_threads() {
        for threads in [0, 1, 3] {
            let (doubled, flags) = on(threads, || {
                let mut flags = vec![false; 100];
                each(flags.iter_mut(), 3, |flag| *flag = true);
                (map(0..100, |ix| 2 * ix), flags)
            });
            assert_eq!(doubled, (0..100).map(|ix| 2 * ix).collect::<Vec<_>>());
            assert!(flags.iter().all(|flag| *flag));
        }
        assert!(!shared(), "threads are shared only inside");
    }

    #[test]
    fn a_buffer_is_as_long_as_asked_also_inside_of_another() {
        with_buffer(10, |outer| {
            outer.fill(1.0);
            with_buffer(20, |inner| {
                assert_eq!(inner.len(), 20);
                inner.fill(2.0);
            });
            assert!(outer.iter().all(|value| *value == 1.0));
        });
    }
}
