//! Whether a worker is well: that it lives, and that rows which wait move.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use async_nats::jetstream::stream::{State, Stream};

use super::Crew;
use crate::error::{in_words, server_code};
use crate::job::NO_STREAM;
use crate::kind::Kind;
use crate::metrics::get;
use crate::operate::is_paused;
use crate::protocol::Replica;
use crate::web::Page;

/// How often a worker looks at the queue.
const LOOK: Duration = Duration::from_secs(2);
/// A worker that has not looked for this long stands still.
const STILL: Duration = Duration::from_secs(60);
/// The server's code for a consumer that is not there.
const NO_CONSUMER: u64 = 10014;

/// The queues as they were seen last, together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Queue {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    pub(crate) held: u64,
    pub(crate) oldest_seconds: f64,
}

/// What a worker knows of its own health.
#[derive(Debug)]
pub(crate) struct Pulse {
    seen: Mutex<Seen>,
}

#[derive(Clone, Debug)]
pub(crate) struct Seen {
    looked: Instant,
    moved: Instant,
    /// Seconds since 1970.
    pub(crate) moved_at: f64,
    /// Last journal message read, and minibatches finished.
    at: (u64, u64),
    pub(crate) queue: Queue,
    fault: Option<String>,
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

impl Default for Pulse {
    fn default() -> Self {
        let seen = Seen {
            looked: Instant::now(),
            moved: Instant::now(),
            moved_at: now(),
            at: (0, 0),
            queue: Queue::default(),
            fault: None,
        };
        Self { seen: Mutex::new(seen) }
    }
}

impl Pulse {
    pub(crate) fn seen(&self) -> Seen {
        self.seen.lock().expect("no holder panics").clone()
    }

    fn look(&self, at: (u64, u64), found: Result<Queue, String>, is_paused: bool) {
        let mut seen = self.seen.lock().expect("no holder panics");
        seen.looked = Instant::now();
        match found {
            Ok(queue) => (seen.queue, seen.fault) = (queue, None),
            Err(fault) => seen.fault = Some(fault),
        }
        let nothing_waits = seen.fault.is_none() && (seen.queue.messages == 0 || is_paused);
        if nothing_waits || seen.at != at {
            (seen.at, seen.moved, seen.moved_at) = (at, Instant::now(), now());
        }
    }
}

impl Seen {
    /// Why rows do not move, where they do not.
    fn trouble(&self, stalled_after: Duration) -> Option<String> {
        if let Some(fault) = &self.fault {
            return Some(fault.clone());
        }
        let still = self.moved.elapsed();
        (self.queue.messages > 0 && still > stalled_after).then(|| {
            format!(
                "{} minibatches wait, and nothing has moved for {} s",
                self.queue.messages,
                still.as_secs()
            )
        })
    }
}

/// Looks for as long as the worker runs.
pub(super) async fn watch<K: Kind>(crew: Arc<Crew<K>>) {
    let mut said = None;
    loop {
        let found = crew.look_at_queue().await;
        if let Err(fault) = &found
            && said.as_ref() != Some(fault)
        {
            (crew.config.say)(&format!("warning: {fault}"));
        }
        said = found.as_ref().err().cloned();
        if let Ok(paused) = is_paused(&crew.job).await
            && crew.paused.swap(paused, Ordering::Relaxed) != paused
        {
            (crew.config.say)(if paused { "the job is paused" } else { "the job goes on" });
        }
        let at = (crew.central.with(Replica::position), get(&crew.metrics.minibatches));
        crew.pulse.look(at, found, crew.paused.load(Ordering::Relaxed));
        tokio::time::sleep(LOOK).await;
    }
}

impl<K: Kind> Crew<K> {
    async fn look_at_queue(&self) -> Result<Queue, String> {
        state_of(&self.job.journal).await?;
        let mut all = Queue::default();
        for (stream, consumer) in self.job.batches.iter().zip(&self.queues) {
            let state = state_of(stream).await?;
            all.held += match consumer.load().get_info().await {
                Ok(info) => info.num_ack_pending as u64,
                Err(error) if server_code(&error) == Some(NO_CONSUMER) => {
                    // What others hold comes once more, and counts once.
                    let again = self.job.queue(stream).await.map_err(|error| error.to_string())?;
                    consumer.store(Arc::new(again));
                    (self.config.say)("the consumer of the queue was gone and is there again");
                    0
                }
                Err(error) => return Err(format!("the queue does not answer: {}", in_words(&error))),
            };
            all.messages += state.messages;
            all.bytes += state.bytes;
            if state.messages > 0 {
                let first = state.first_timestamp.unix_timestamp_nanos() as f64 / 1e9;
                all.oldest_seconds = all.oldest_seconds.max(now() - first);
            }
        }
        Ok(all)
    }

    fn trouble(&self) -> Option<String> {
        match self.job.client.connection_state() == async_nats::connection::State::Connected {
            true => self.pulse.seen().trouble(self.config.stalled_after),
            false => Some("disconnected".into()),
        }
    }
}

/// How a stream of the job stands, or what is wrong with it.
async fn state_of(stream: &Stream) -> Result<State, String> {
    let name = &stream.cached_info().config.name;
    stream.get_info().await.map(|info| info.state).map_err(|error| match server_code(&error) {
        Some(NO_STREAM) => {
            format!("stream `{name}` is gone: restore it from a backup, or delete the job and submit again")
        }
        _ => format!("stream `{name}` does not answer: {}", in_words(&error)),
    })
}

/// What the endpoint shows of a worker.
pub(super) struct Shown<K: Kind>(pub(super) Arc<Crew<K>>);

fn said(trouble: Option<String>) -> (bool, String) {
    let body = serde_json::json!({ "status": trouble.as_deref().unwrap_or("ok") });
    (trouble.is_none(), body.to_string())
}

impl<K: Kind> Page for Shown<K> {
    fn live(&self) -> (bool, String) {
        let still = self.0.pulse.seen().looked.elapsed();
        said((still > STILL).then(|| format!("the worker has stood still for {} s", still.as_secs())))
    }

    fn ready(&self) -> (bool, String) {
        said(self.0.trouble())
    }

    fn health(&self) -> (bool, String) {
        let crew = &self.0;
        let trouble = crew.trouble();
        let replica = crew.central.replica();
        let body = serde_json::json!({
            "status": trouble.as_deref().unwrap_or("ok"),
            "worker": crew.me,
            "job": crew.job.name.to_string(),
            "begun": replica.posterior().is_some(),
            "journal_position": replica.position(),
            "fingerprint": replica.fingerprint(),
            "version": env!("CARGO_PKG_VERSION"),
        });
        (trouble.is_none(), body.to_string())
    }

    fn metrics(&self) -> String {
        let crew = &self.0;
        let is_ready = crew.trouble().is_none();
        crew.metrics.render(&crew.job.name.to_string(), &crew.central.replica(), &crew.pulse.seen(), is_ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_wait_must_move() {
        let pulse = Pulse::default();
        let waiting = || Ok(Queue { messages: 3, ..Queue::default() });
        let trouble = || pulse.seen().trouble(Duration::ZERO);
        pulse.look((1, 0), waiting(), false);
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(trouble().as_deref(), Some("3 minibatches wait, and nothing has moved for 0 s"));
        assert_eq!(pulse.seen().trouble(Duration::from_secs(3600)), None);
        // An empty queue has nothing to move; what is gone is named at once, and forgotten when it is back.
        pulse.look((1, 0), Ok(Queue::default()), false);
        assert_eq!(trouble(), None);
        pulse.look((1, 0), Err("it is gone".into()), false);
        assert_eq!(pulse.seen().trouble(Duration::from_secs(3600)).as_deref(), Some("it is gone"));
        let before = pulse.seen().moved;
        pulse.look((1, 0), waiting(), false);
        assert_eq!(pulse.seen().moved, before);
        pulse.look((2, 0), waiting(), false);
        let before = pulse.seen().moved;
        assert!(before < Instant::now());
        pulse.look((2, 0), waiting(), true);
        assert!(pulse.seen().moved > before, "what is paused does not stall");
    }
}
