//! What a column has held so far: nothing, one value, or several.

use anabranch::batch::Batch;
use serde::{Deserialize, Serialize};

/// What a column has held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    /// No value in any row.
    Nothing,
    /// The same value in every row that has one.
    Only(f64),
    /// Different values, or nobody knows.
    #[default]
    Several,
}

impl Held {
    /// What two parts of a column have held together.
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nothing, held) | (held, Self::Nothing) => held,
            (Self::Only(one), Self::Only(other)) if one == other => Self::Only(one),
            _ => Self::Several,
        }
    }

    /// Looks at more rows.
    pub fn look(columns: &mut [Self], rows: &Batch) {
        for (column, held) in columns.iter_mut().enumerate() {
            let mut values = rows.rows().map(|row| row[column]).filter(|value| !value.is_nan());
            while *held != Self::Several
                && let Some(value) = values.next()
            {
                *held = held.and(Self::Only(value));
            }
        }
    }

    /// What the columns of two sets of rows have held together; nothing is known where it is not of one of them.
    pub fn joined(one: &[Self], other: &[Self]) -> Vec<Self> {
        Self::kept(one.iter().zip(other).map(|(one, other)| one.and(*other)).collect())
    }

    /// As a model keeps it: not at all where there is nothing to tell.
    pub fn kept(columns: Vec<Self>) -> Vec<Self> {
        if columns.iter().all(|held| *held == Self::Several) { Vec::new() } else { columns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: f64 = f64::NAN;

    #[test]
    fn columns_are_empty_constant_or_neither() {
        let rows = |values: &[f64]| Batch::with_missing(3, values.to_vec()).unwrap();
        let mut held = vec![Held::Nothing; 3];
        Held::look(&mut held, &rows(&[NONE, 7.0, 1.0, NONE, NONE, 1.0]));
        assert_eq!(held, [Held::Nothing, Held::Only(7.0), Held::Only(1.0)]);
        let first = held.clone();
        Held::look(&mut held, &rows(&[NONE, 7.0, 1.5]));
        assert_eq!(held, [Held::Nothing, Held::Only(7.0), Held::Several]);
        let other = vec![Held::Only(2.0), Held::Only(8.0), Held::Nothing];
        assert_eq!(Held::joined(&first, &other), [Held::Only(2.0), Held::Several, Held::Only(1.0)]);
        assert_eq!(Held::joined(&first, &[]), []);
        assert_eq!(Held::kept(vec![Held::Several; 2]), []);
    }
}
