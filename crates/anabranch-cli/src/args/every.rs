//! How long, and how often.

use std::time::Duration;

/// A time such as `2s`, `500ms`, `5m`, `1h` or `7d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Duration);

impl std::str::FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let units = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0)];
        let found = units.iter().find_map(|(unit, seconds)| {
            let number: f64 = text.trim().strip_suffix(unit)?.trim().parse().ok()?;
            // No clock goes further than centuries.
            Duration::try_from_secs_f64(number * seconds).ok().filter(|time| time.as_secs_f64() < 1e10)
        });
        found.map(Self).ok_or_else(|| "a time such as 2s, 500ms, 5m, 1h or 7d".to_owned())
    }
}

/// A time, or a number of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// After so many rows.
    Rows(u64),
    /// After this time.
    Span(Span),
}

impl std::str::FromStr for Every {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().parse::<u64>() {
            Ok(rows) if rows > 0 => Ok(Self::Rows(rows)),
            Ok(_) => Err("at least one row".to_owned()),
            Err(_) => text.parse().map(Self::Span).map_err(|span| format!("a number of rows, or {span}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_rows_are_told_apart() {
        let every = |text: &str| text.parse::<Every>();
        assert_eq!(every("500"), Ok(Every::Rows(500)));
        assert_eq!(every("1.5m"), Ok(Every::Span(Span(Duration::from_secs(90)))));
        assert_eq!(every("250ms"), Ok(Every::Span(Span(Duration::from_millis(250)))));
        for wrong in ["0", "-1", "s", "1w", "", "nans", "-2s", "1e300h"] {
            assert!(every(wrong).is_err(), "{wrong}");
        }
    }
}
