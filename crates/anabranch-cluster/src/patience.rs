//! Asking again: servers restart, elect leaders and make room.

use std::time::Duration;

use crate::error::ClusterError;

/// Times that a server is asked before its refusal is believed.
const ATTEMPTS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(150);

/// Asks until there is an answer, or a refusal that waiting does not help against; a few seconds at most.
pub(crate) async fn patiently<T, A>(mut ask: impl FnMut() -> A) -> Result<T, ClusterError>
where
    A: Future<Output = Result<T, ClusterError>>,
{
    let mut attempt = 1;
    loop {
        match ask().await {
            Err(error) if error.passes() && attempt < ATTEMPTS => {
                tokio::time::sleep(PAUSE * attempt).await;
                attempt += 1;
            }
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn away() -> ClusterError {
        ClusterError::Server { doing: "asking", reason: "no leader".into() }
    }

    /// How often it is asked for an answer that comes with the `nth` question, and what comes of it.
    async fn asked(nth: u32, error: fn() -> ClusterError) -> (u32, bool) {
        let asked = Cell::new(0);
        let answer = patiently(|| {
            asked.set(asked.get() + 1);
            std::future::ready(if asked.get() < nth { Err(error()) } else { Ok(()) })
        });
        let is_answered = answer.await.is_ok();
        (asked.get(), is_answered)
    }

    #[tokio::test]
    async fn what_passes_is_asked_again_and_what_does_not_is_not() {
        assert_eq!(asked(3, away).await, (3, true));
        assert_eq!(asked(u32::MAX, away).await, (ATTEMPTS, false));
        assert_eq!(asked(3, || ClusterError::NoJob("j".into())).await, (1, false));
    }
}
