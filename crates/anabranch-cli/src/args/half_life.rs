//! How long the past counts.

use anabranch::engine::BOOTSTRAP_ROWS;
use anabranch::posterior::HalfLife;

use super::every::{Every, Span};

/// The least rows of a first minibatch and of further ones that are cut to a half-life.
const LEAST_FIRST: f64 = 1000.0;
const LEAST: f64 = 32.0;

/// A number of rows, a time, or `auto`.
pub fn half_life(text: &str) -> Result<HalfLife, String> {
    if text.trim() == "auto" {
        return Ok(HalfLife::Auto);
    }
    match text.parse() {
        Ok(Every::Rows(rows)) => Ok(HalfLife::Rows(rows as f64)),
        Ok(Every::Span(Span(span))) if !span.is_zero() => Ok(HalfLife::Seconds(span.as_secs_f64())),
        Ok(Every::Span(_)) | Err(_) => {
            Err("a number of rows, a time such as 30s, 5m, 1h or 7d, or auto".to_owned())
        }
    }
}

/// The half-life as `--half-life` says it.
pub fn as_flag(half_life: Option<HalfLife>) -> String {
    match half_life {
        None => "none".to_owned(),
        Some(HalfLife::Auto) => "auto".to_owned(),
        Some(HalfLife::Rows(rows)) => rows.to_string(),
        Some(HalfLife::Seconds(seconds)) => {
            let units = [(86_400.0, "d"), (3600.0, "h"), (60.0, "m")];
            let whole = units.iter().find(|(unit, _)| seconds >= *unit && seconds % unit == 0.0);
            whole.map_or_else(|| format!("{seconds}s"), |(unit, name)| format!("{}{name}", seconds / unit))
        }
    }
}

/// Rows of the first minibatch, and of each further one, that suit a half-life; `None` where it says nothing of rows.
pub fn minibatches(half_life: Option<HalfLife>, usual: u32) -> Option<(u32, u32)> {
    let Some(HalfLife::Rows(rows)) = half_life else { return None };
    let first = rows.clamp(LEAST_FIRST, BOOTSTRAP_ROWS as f64);
    let further = (rows / 8.0).clamp(LEAST, f64::from(usual).max(LEAST));
    Some((first as u32, further as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_lives_are_rows_times_or_auto() {
        for (text, seconds) in [("30s", 30.0), ("1.5h", 5400.0), ("7d", 604_800.0), ("250ms", 0.25)] {
            let read = half_life(text).unwrap();
            assert_eq!(read, HalfLife::Seconds(seconds));
            assert_eq!(half_life(&as_flag(Some(read))), Ok(read), "{text}");
        }
        assert_eq!(half_life("1000"), Ok(HalfLife::Rows(1000.0)));
        assert_eq!(half_life("auto"), Ok(HalfLife::Auto));
        for wrong in ["0", "-3", "1.5", "soon", "", "nan", "0s", "-1h", "h"] {
            assert!(half_life(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn minibatches_are_cut_to_the_half_life() {
        let cut = |rows| minibatches(Some(HalfLife::Rows(rows)), 256);
        assert_eq!(cut(100.0), Some((1000, 32)));
        assert_eq!(cut(1200.0), Some((1200, 150)));
        assert_eq!(cut(1e9), Some((20_000, 256)));
        assert_eq!(minibatches(Some(HalfLife::Auto), 256), None);
    }
}
