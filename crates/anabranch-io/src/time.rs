//! When a row was: seconds, or a timestamp.

use std::time::{SystemTime, UNIX_EPOCH};

use anabranch::batch::{Batch, BatchError};

/// Clocks may differ by so many seconds.
const CLOCKS_DIFFER: f64 = 86_400.0;

/// Rows that count less do not count.
const LEAST_WEIGHT: f64 = 1e-15;

/// Seconds since 1970 of this machine's clock.
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Later than this nothing was, as far as anybody can tell now.
pub fn latest() -> f64 {
    now() + CLOCKS_DIFFER
}

/// Rows of these times count by how much older they are than the newest of them, which comes second; without times, all are of this
/// moment.
pub fn weigh(batch: Batch, times: &[f64], half_life: f64) -> Result<(Batch, f64), BatchError> {
    let clock = times.iter().copied().reduce(f64::max).unwrap_or_else(now);
    if times.iter().all(|time| *time == clock) {
        return Ok((batch, clock));
    }
    let weight = |time: &f64| Some(((time - clock) / half_life).exp2()).filter(|w| *w >= LEAST_WEIGHT);
    let mut weights: Vec<f64> = times.iter().map(|time| weight(time).unwrap_or(0.0)).collect();
    if let Some(own) = batch.weights() {
        weights.iter_mut().zip(own).for_each(|(weight, own)| *weight *= own);
    }
    Ok((batch.with_weights(weights)?, clock))
}

/// Seconds of a number, or since 1970 of an ISO 8601 timestamp: `2024-05-01`, `2024-05-01T12:30Z`, `2024-05-01 12:30:05.25+02:00`.
/// Without a zone it is that of UTC.
pub(crate) fn parse(cell: &str) -> Option<f64> {
    let cell = cell.trim();
    if let Ok(seconds) = cell.parse::<f64>() {
        return seconds.is_finite().then_some(seconds);
    }
    let (date, rest) = (cell.get(..10)?, cell.get(10..)?);
    let days = days(date)?;
    if rest.is_empty() {
        return Some(days * 86_400.0);
    }
    let rest = rest.strip_prefix(['T', 't', ' '])?;
    let zone_at = rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len());
    let (clock, zone) = rest.split_at(zone_at);
    Some(days * 86_400.0 + seconds_of_day(clock.trim_end())? - offset(zone)?)
}

/// `number` digits and nothing else, within these bounds.
fn digits(text: &str, number: usize, within: std::ops::RangeInclusive<i64>) -> Option<i64> {
    let good = text.len() == number && text.bytes().all(|byte| byte.is_ascii_digit());
    good.then(|| text.parse().ok()).flatten().filter(|value| within.contains(value))
}

/// Days since 1970 of `YYYY-MM-DD`, in the calendar that has always been Gregorian.
fn days(date: &str) -> Option<f64> {
    let mut parts = date.splitn(3, '-');
    let year = digits(parts.next()?, 4, 0..=9999)?;
    let month = digits(parts.next()?, 2, 1..=12)?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let lengths = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let day = digits(parts.next()?, 2, 1..=lengths[month as usize - 1])?;
    // Leap days before the year.
    let before = year - 1;
    let leaps = before.div_euclid(4) - before.div_euclid(100) + before.div_euclid(400);
    let of_year: i64 = lengths[..month as usize - 1].iter().sum();
    const TO_1970: i64 = 1970 * 365 + 477;
    Some((year * 365 + leaps + of_year + day - 1 - TO_1970) as f64)
}

/// `HH:MM`, `HH:MM:SS` or with a fraction of a second.
fn seconds_of_day(clock: &str) -> Option<f64> {
    let mut parts = clock.splitn(3, ':');
    let hours = digits(parts.next()?, 2, 0..=23)?;
    let minutes = digits(parts.next()?, 2, 0..=59)?;
    let seconds = match parts.next() {
        None => 0.0,
        Some(text) => {
            let (whole, fraction) = text.split_once('.').map_or((text, None), |(a, b)| (a, Some(b)));
            // A leap second is the first of the next minute.
            let whole = digits(whole, 2, 0..=60)? as f64;
            match fraction {
                None => whole,
                Some(fraction) => {
                    let good = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
                    whole + good.then(|| format!("0.{fraction}").parse::<f64>().ok()).flatten()?
                }
            }
        }
    };
    Some((hours * 3600 + minutes * 60) as f64 + seconds)
}

/// Seconds that a zone is ahead of UTC.
fn offset(zone: &str) -> Option<f64> {
    if zone.is_empty() || zone.eq_ignore_ascii_case("z") {
        return Some(0.0);
    }
    let sign = if zone.starts_with('-') { -1.0 } else { 1.0 };
    let zone: String = zone[1..].chars().filter(|c| *c != ':').collect();
    let hours = digits(zone.get(..2)?, 2, 0..=23)?;
    let minutes = match zone.get(2..)? {
        "" => 0,
        minutes => digits(minutes, 2, 0..=59)?,
    };
    Some(sign * (hours * 3600 + minutes * 60) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_seconds_since_1970() {
        // As GNU date tells them.
        for (text, seconds) in [
            ("0", 0.0),
            (" 1714566605.5 ", 1_714_566_605.5),
            ("1970-01-01", 0.0),
            ("1969-12-31T23:59:59Z", -1.0),
            ("2000-02-29", 951_782_400.0),
            ("2000-03-01T00:00", 951_868_800.0),
            ("2024-05-01T12:30:05", 1_714_566_605.0),
            ("2024-05-01 12:30:05.25Z", 1_714_566_605.25),
            ("2024-05-01T14:30:05+02:00", 1_714_566_605.0),
            ("2024-05-01T07:00:05-0530", 1_714_566_605.0),
            ("2100-03-01", 4_107_542_400.0),
        ] {
            assert_eq!(parse(text), Some(seconds), "{text}");
        }
        for wrong in [
            "",
            "soon",
            "nan",
            "inf",
            "2024-13-01",
            "2023-02-29",
            "2024-05-01T",
            "2024-05-01T25:00",
            "2024-5-1",
        ]
        .into_iter()
        .chain([
            "2024-05-01T12:30:05.",
            "2024-05-01T12:30+2",
            "12:30",
            "2024-05-01T12:30 +02:00x",
            "ä024-05-01",
        ]) {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
