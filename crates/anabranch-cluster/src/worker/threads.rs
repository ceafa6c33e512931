//! The threads that infer. Each takes the next minibatch by itself: between two of them nobody has to be woken.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

type Task = Box<dyn FnOnce() + Send>;

/// Threads that live as long as this does.
pub(super) struct Threads {
    tasks: Sender<Task>,
}

impl Threads {
    pub(super) fn start(n: usize) -> io::Result<Self> {
        let (tasks, waiting) = channel::<Task>();
        let waiting = Arc::new(Mutex::new(waiting));
        for ix in 0..n.max(1) {
            let waiting = Arc::clone(&waiting);
            std::thread::Builder::new().name(format!("infer {ix}")).spawn(move || {
                loop {
                    let next = waiting.lock().expect("no holder panics").recv();
                    let Ok(task) = next else { break };
                    task();
                }
            })?;
        }
        Ok(Self { tasks })
    }

    /// What a task comes to, which does not panic; tasks begin in their order.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        task: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        let task = Box::new(move || _ = answer.send(task()));
        self.tasks.send(task).ok()?;
        answered.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tasks_run_side_by_side_on_as_many_threads_and_no_more() {
        let threads = Threads::start(2).unwrap();
        let name = || std::thread::current().name().map(str::to_owned);
        // Two that wait for each other need two threads.
        let here = Arc::new(std::sync::Barrier::new(2));
        let other = Arc::clone(&here);
        let pair = tokio::join!(
            threads.run(move || (here.wait().is_leader(), name())),
            threads.run(move || (other.wait().is_leader(), name()))
        );
        let ((a, one), (b, two)) = (pair.0.unwrap(), pair.1.unwrap());
        assert!(a != b && one != two, "{one:?} {two:?}");
        let mut names = std::collections::BTreeSet::new();
        for _ in 0..20 {
            names.insert(threads.run(name).await.unwrap());
        }
        assert!(names.len() <= 2, "{names:?}");
    }
}
