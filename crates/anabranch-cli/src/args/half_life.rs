//! How long the past counts.

use anabranch::engine::BOOTSTRAP_ROWS;
use anabranch::posterior::HalfLife;

use super::every::Every;

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
        Ok(Every::Span(_)) | Err(_) => Err("a number of rows, or auto".to_owned()),
    }
}

/// The half-life as `--half-life` says it.
pub(crate) fn as_flag(half_life: Option<HalfLife>) -> String {
    match half_life {
        None => "none".to_owned(),
        Some(HalfLife::Auto) => "auto".to_owned(),
        Some(HalfLife::Rows(rows)) => rows.to_string(),
        Some(HalfLife::Seconds(seconds)) => format!("{seconds}s"),
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
    fn half_lives_are_rows_or_auto() {
        assert_eq!(half_life("1000"), Ok(HalfLife::Rows(1000.0)));
        assert_eq!(half_life("auto"), Ok(HalfLife::Auto));
        for wrong in ["0", "-3", "1.5", "soon", "", "nan"] {
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
