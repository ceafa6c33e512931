//! What the columns of a batch are: their names and, for strings, their categories.

use serde::{Deserialize, Serialize};

/// The label of the code that stands for every category a model has not seen.
pub const OTHER: &str = "other";

/// The most categories one column may have.
pub const MAX_CATEGORIES: usize = 65_535;

/// The columns of every batch of a source, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schema {
    /// One entry per column of a batch.
    pub columns: Vec<Column>,
    /// True when the names come from the file; otherwise they are the 1-based positions.
    pub named: bool,
}

/// One column of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// The name in the file, or the 1-based position in it.
    pub name: String,
    /// For a column of strings: the label of code 0, of code 1, and so on.
    pub categories: Option<Vec<String>>,
}

impl Schema {
    /// Number of columns.
    pub fn dimensions(&self) -> usize {
        self.columns.len()
    }

    /// Names in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|column| column.name.as_str())
    }

    /// What people call the columns, in order: "column 3" where the file has no names.
    pub fn titles(&self) -> Vec<String> {
        let title = |name: &str| if self.named { name.to_owned() } else { format!("column {name}") };
        self.names().map(title).collect()
    }

    /// Position of a column, from 0.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.names().position(|n| n == name)
    }
}

impl Column {
    /// A column of numbers.
    pub fn number(name: impl Into<String>) -> Self {
        Self { name: name.into(), categories: None }
    }

    /// The code given to categories outside `categories`: that of a last label [`OTHER`] if the
    /// model has one, else the code after the last.
    pub fn other_code(&self) -> Option<usize> {
        let categories = self.categories.as_ref()?;
        match categories.last() {
            Some(last) if last == OTHER => Some(categories.len() - 1),
            _ => Some(categories.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(labels: &[&str]) -> Column {
        Column { name: "c".into(), categories: Some(labels.iter().map(|s| s.to_string()).collect()) }
    }

    #[test]
    fn unseen_categories_take_the_code_of_a_last_label_other_or_the_one_after_the_last() {
        assert_eq!(labelled(&["a", "b"]).other_code(), Some(2));
        assert_eq!(labelled(&["a", "b", OTHER]).other_code(), Some(2));
        assert_eq!(labelled(&[OTHER, "b"]).other_code(), Some(2));
        assert_eq!(Column::number("x").other_code(), None);
    }

    #[test]
    fn a_schema_survives_json() {
        let schema = Schema { columns: vec![Column::number("x"), labelled(&["a"])], named: true };
        let text = serde_json::to_string(&schema).unwrap();
        assert_eq!(serde_json::from_str::<Schema>(&text).unwrap(), schema);
    }
}
