//! One record into the journal: cut into messages, published, and what the server said translated for the author.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::PublishMessage;

use crate::error::{ClusterError, fault, server_code};
use crate::job::Job;
use crate::protocol::{Append, Event, Expectation, Sequence, split};

/// Codes of a stale expectation: the first is that of the stream or subject, the second a 2.12 server's for subjects.
const STALE: [u64; 2] = [10071, 10164];

/// A name that no other record has: time, process and a counter, mixed.
pub(crate) fn record_name() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
    let mut z =
        time ^ u64::from(std::process::id()).rotate_left(40) ^ NEXT.fetch_add(1, Ordering::Relaxed) << 20;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Appends a record. `Err` only when there is no room: everything else is an event that the author can live with.
pub(crate) async fn append(
    job: &Job,
    record: &[u8],
    lane: Append,
    expect: Expectation,
) -> Result<Event, ClusterError> {
    let messages = split(record, record_name(), job.message_limit());
    let last = messages.len() - 1;
    let mut at = 0;
    for (ix, message) in messages.into_iter().enumerate() {
        // Only the last part takes effect, so only it has the lane and the condition.
        let (lane, expect) = if ix == last { (lane, expect) } else { (Append::Plain, Expectation::None) };
        match publish(job, message, lane, expect).await? {
            Event::Appended(sequence) => at = sequence,
            other => return Ok(other),
        }
    }
    Ok(Event::Appended(at))
}

async fn publish(
    job: &Job,
    message: Vec<u8>,
    lane: Append,
    expect: Expectation,
) -> Result<Event, ClusterError> {
    let mut publish = PublishMessage::build().payload(message.into());
    if let Expectation::LastBirth(at) = expect {
        publish = publish.expected_last_subject_sequence(at);
    }
    let answer = match job.context.send_publish(job.name.journal_subject(lane), publish).await {
        Ok(answer) => answer.await,
        Err(error) => Err(error),
    };
    match answer {
        Ok(ack) => Ok(Event::Appended(ack.sequence as Sequence)),
        Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => Ok(Event::Refused),
        Err(error) if server_code(&error).is_some_and(|code| STALE.contains(&code)) => Ok(Event::Refused),
        Err(error) => match fault("appending to the journal")(error.into()) {
            full @ ClusterError::OutOfSpace { .. } => Err(full),
            _ => Ok(Event::Unknown),
        },
    }
}
