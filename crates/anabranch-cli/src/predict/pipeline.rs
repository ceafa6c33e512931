//! Rows through several threads and out again in order, with a bounded number on the way.
//!
//! Block after block goes to the workers in turn and is taken from them in the same turn, so that nothing has to be sorted. A worker
//! has one block in hand and one before and behind it at most.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

use anabranch_io::{Rows, Source};

use crate::failure::Failure;
use crate::stop;

/// Whether another block is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Another follows at once.
    More,
    /// None is ready: what there is should be shown.
    Last,
}

/// Nobody wants any more rows.
static OVER: AtomicBool = AtomicBool::new(false);

/// Asked while standard input is quiet.
pub fn ended() -> bool {
    OVER.load(Ordering::Relaxed) || stop::asked()
}

/// A block on its way: the number of its first row, or why there is none.
type Task = Result<(u64, Rows), Failure>;

/// Works on each block of a source, on so many threads, and hands the results over in order on the calling thread.
pub fn in_order<T: Send>(
    mut source: Box<dyn Source>,
    rows_at_once: usize,
    threads: usize,
    work: impl Fn(u64, Rows) -> Result<T, Failure> + Sync,
    mut take: impl FnMut(T, Order) -> Result<(), Failure>,
) -> Result<(), Failure> {
    OVER.store(false, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let (mut workers, mut results) = (Vec::new(), Vec::new());
        for _ in 0..threads.max(1) {
            let (to_worker, tasks) = sync_channel::<Task>(1);
            let (to_taker, done) = sync_channel::<Result<T, Failure>>(1);
            let work = &work;
            scope.spawn(move || {
                for task in tasks {
                    let result = task.and_then(|(first, rows)| work(first, rows));
                    if to_taker.send(result).is_err() {
                        return;
                    }
                }
            });
            workers.push(to_worker);
            results.push(done);
        }
        scope.spawn(move || {
            let mut first = 1;
            for worker in workers.iter().cycle() {
                let task = match source.next_rows(rows_at_once) {
                    Ok(None) => return,
                    Ok(Some(_)) if stop::asked() => return,
                    Ok(Some(rows)) => Ok((first, rows)),
                    Err(error) => Err(error.into()),
                };
                first += task.as_ref().map_or(0, |(_, rows): &(u64, Rows)| rows.len() as u64);
                let failed = task.is_err();
                if worker.send(task).is_err() || failed {
                    return;
                }
            }
        });
        let taken = take_all(&results, &mut take);
        OVER.store(true, Ordering::Relaxed);
        taken
    })
}

fn take_all<T>(
    results: &[Receiver<Result<T, Failure>>],
    take: &mut impl FnMut(T, Order) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut ready = None;
    for (turn, result) in results.iter().enumerate().cycle() {
        let Some(block) = ready.take().or_else(|| result.recv().ok()) else { return Ok(()) };
        let block = block?;
        let next = &results[(turn + 1) % results.len()];
        let order = match next.try_recv() {
            Ok(block) => {
                ready = Some(block);
                Order::More
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => Order::Last,
        };
        take(block, order)?;
    }
    Ok(())
}
