//! The life of one minibatch in a worker: decoded, learned from, appended, acknowledged.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anabranch::batch::Minibatch;
use anabranch::central::BatchId;
use anabranch::engine::minibatch_rng;
use anabranch::infer::{Increment, Inference};
use anabranch_io::printable::printable;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::{AckKind, Message};

use super::Crew;
use super::keep::Kept;
use super::sums::{Joined, Learning};
use crate::error::ClusterError;
use crate::job::last_sequence;
use crate::kind::{Count, Kind};
use crate::metrics::{Spent, add};
use crate::names::batch_id;
use crate::protocol::{Append, Event, Expectation, Record};
use crate::submit::NUMBER_HEADER;

/// A minibatch that failed is tried again after this.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// While the server has no room or does not answer.
const PAUSE: Duration = Duration::from_millis(250);
/// What the headers of a minibatch that was set aside say.
pub(crate) const REASON_HEADER: &str = "Anabranch-Reason";
pub(crate) const SUBJECT_HEADER: &str = "Anabranch-Subject";
pub(crate) const MINIBATCH_HEADER: &str = "Anabranch-Minibatch";

/// Why a minibatch was not absorbed.
enum Failure {
    /// It can never be.
    Poison(String),
    /// Something broke while learning from it; it may do better elsewhere.
    Broke(String),
    /// Another minibatch of its sum was settled by somebody else.
    Overtaken,
    /// The worker goes before it has begun with it.
    Leaving,
}

impl<K: Kind> Crew<K> {
    /// The name of a message's minibatch, and how often it was delivered.
    pub(super) fn name_of(&self, message: &Message) -> Option<(BatchId, u64)> {
        let info = message.info().ok()?;
        let source = self.job.name.source_of(&message.subject)?;
        let number = match source {
            0 => info.stream_sequence,
            _ => message.headers.as_ref()?.get(NUMBER_HEADER)?.as_str().parse().ok()?,
        };
        Some((batch_id(source, number)?, u64::try_from(info.delivered).unwrap_or(1)))
    }

    pub(super) async fn minibatch(self: Arc<Self>, message: Message, learning: Learning) {
        let Some((batch, delivered)) = self.name_of(&message) else {
            return self.without_name(message).await;
        };
        let mut kept =
            self.hands.take(batch, message, Duration::from_secs(u64::from(self.job.spec.ack_wait)));
        if delivered > 1 {
            add(&self.metrics.redelivered, 1);
        }
        let most = u64::from(self.job.spec.max_deliver.max(1));
        let tries = self.tries(batch, delivered).await;
        let failure = if self.central.with(|replica| replica.is_absorbed(batch)) {
            None
        } else if self.central.with(|replica| replica.aside().contains(batch)) {
            Some(Failure::Poison(
                "it was set aside before, by a worker that did not get to publish it".into(),
            ))
        } else if tries > most {
            Some(Failure::Poison(unfinished(tries)))
        } else {
            self.learn(batch, &mut kept, learning).await.err()
        };
        match failure {
            None => kept.ack().await,
            Some(Failure::Poison(reason)) => self.set_aside(batch, &reason, kept).await,
            Some(Failure::Broke(reason)) if tries >= most => {
                self.set_aside(batch, &format!("it failed {tries} times: {reason}"), kept).await;
            }
            Some(Failure::Broke(_)) => kept.fail(TRY_AGAIN).await,
            Some(Failure::Overtaken) => self.hand_back(vec![kept]).await,
            // It stays in our hands, which are emptied at the end.
            Some(Failure::Leaving) => {}
        }
    }

    async fn learn(
        self: &Arc<Self>,
        batch: BatchId,
        kept: &mut Kept,
        learning: Learning,
    ) -> Result<(), Failure> {
        let (crew, payload) = (Arc::clone(self), kept.message().payload.clone());
        let learned = self.threads.run(move || {
            if crew.ends() {
                return Err(Failure::Leaving);
            }
            let learned = catch_unwind(AssertUnwindSafe(|| crew.infer(batch, &payload)));
            learned.unwrap_or_else(|panic| Err(Failure::Broke(words(&*panic))))
        });
        let (increment, count) = learned.await.unwrap_or(Err(Failure::Leaving))?;
        kept.let_rows_go();
        match self.join(batch, increment, count, learning).await {
            Joined::In => Ok(()),
            Joined::Overtaken if self.central.with(|replica| replica.is_absorbed(batch)) => Ok(()),
            Joined::Overtaken => Err(Failure::Overtaken),
            Joined::Rejected => Err(Failure::Broke("the journal does not take what it taught".into())),
        }
    }

    /// Steps 1 and 2 of the paper's Figure 1: the posterior as it is now, and what the minibatch adds to it.
    fn infer(&self, batch: BatchId, payload: &[u8]) -> Result<(Increment, Count), Failure> {
        let started = Instant::now();
        let posterior =
            self.central.posterior().expect("nothing is taken from the queue before the journal has begun");
        let about = self.central.with(|replica| replica.about().cloned()).expect("it has begun");
        let spec = &self.job.spec;
        let (mut data, left_out) =
            K::decode(payload, &about, posterior.family(), spec).map_err(Failure::Poison)?;
        let mut workspace = self.workspaces.lock().expect("no holder panics").pop().unwrap_or_default();
        let mut rng = minibatch_rng(spec.seed, batch);
        let inference = &self.learning.inference;
        inference.prepare(posterior.family(), &mut data, &mut rng);
        let increment = inference.infer(&posterior, &data, &mut rng, &mut workspace);
        self.workspaces.lock().expect("no holder panics").push(workspace);
        self.sample.lock().expect("no holder panics").offer(batch, &data);
        self.metrics.spent(Spent::Inferring, started.elapsed());
        Ok((increment, Count { rows: data.n_rows() as u64, left_out }))
    }

    /// Appends a record; while the server has no room it waits for the journal to be trimmed.
    pub(super) async fn send(&self, bytes: &[u8], lane: Append, expect: Expectation) -> Event {
        loop {
            match crate::append::append(&self.job, bytes, lane, expect).await {
                Ok(event) => {
                    add(&self.metrics.journal_bytes, bytes.len() as u64);
                    return event;
                }
                Err(ClusterError::OutOfSpace { .. }) => tokio::time::sleep(PAUSE).await,
                Err(_) => return Event::Unknown,
            }
        }
    }

    /// Waits until the replica has read the journal as it is now.
    pub(super) async fn read_all(&self) {
        loop {
            match last_sequence(&self.job.journal).await {
                Ok(end) => return self.central.reaches(end).await,
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Writes into the journal that the minibatch is void from now on, and keeps it where people can look at it.
    pub(super) async fn set_aside(&self, batch: BatchId, reason: &str, kept: Kept) {
        let record = Record::<K>::Aside { batch, reason: reason.to_owned() }.to_bytes();
        while !self.central.with(|replica| replica.is_settled(batch)) {
            match self.send(&record, Append::Plain, Expectation::None).await {
                Event::Appended(at) => self.central.reaches(at).await,
                _ => self.read_all().await,
            }
        }
        if self.central.with(|replica| replica.is_absorbed(batch)) {
            return kept.ack().await;
        }
        add(&self.metrics.set_aside, 1);
        (self.config.say)(&format!("minibatch {} set aside: {reason}", batch.0));
        match self.bury(kept.message(), Some(batch), reason).await {
            true => kept.ack().await,
            // It is void already; whoever gets it next publishes it.
            false => kept.fail(TRY_AGAIN).await,
        }
    }

    /// A copy for people to look at.
    async fn bury(&self, message: &async_nats::Message, batch: Option<BatchId>, reason: &str) -> bool {
        let dead = PublishMessage::build()
            .payload(message.payload.clone())
            .header(SUBJECT_HEADER, message.subject.as_str())
            .header(REASON_HEADER, &*printable(reason));
        let dead = match batch {
            Some(batch) => {
                dead.message_id(format!("dead-{}", batch.0)).header(MINIBATCH_HEADER, batch.0.to_string())
            }
            None => dead,
        };
        match self.job.context.send_publish(self.job.name.dead_subject(), dead).await {
            Ok(answer) => answer.await.is_ok(),
            Err(_) => false,
        }
    }

    /// Somebody published to a subject of `submit` without saying which minibatch it is.
    pub(super) async fn without_name(&self, message: Message) {
        let reason = "it is no message of `submit`; publish rows to the job's subject for rows";
        (self.config.say)(&format!("a message on {} set aside: {reason}", message.subject));
        let how = match self.bury(&message, None, reason).await {
            true => AckKind::Ack,
            false => AckKind::Nak(Some(TRY_AGAIN)),
        };
        let _ = message.ack_with(how).await;
    }
}

/// What is said of a minibatch that was delivered too often.
pub(super) fn unfinished(tries: u64) -> String {
    format!("it was delivered {tries} times and no worker finished it")
}

/// What a panic said.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "inference panicked".into())
}
