//! Which columns of a file become the columns of a batch, and in which order.

use std::collections::HashSet;

use crate::error::{ColumnRef, ReadError};
use crate::options::{ALL_COLUMNS, ReadOptions};
use crate::schema::{Column, Schema};

/// The most columns a file may have: a hostile header must not make us allocate for more.
pub(crate) const MAX_COLUMNS: usize = 1 << 20;

/// The columns of one file, in file order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) names: Vec<String>,
    /// Whether the names come from the file.
    pub(crate) named: bool,
}

impl Header {
    /// Columns without names: they are called by their position.
    pub(crate) fn numbered(width: usize) -> Self {
        Self { names: (1..=width).map(|position| position.to_string()).collect(), named: false }
    }

    /// Columns with names. An empty name becomes the position; equal names are refused.
    pub(crate) fn named(names: Vec<String>, file: &str) -> Result<Self, ReadError> {
        let mut seen = HashSet::new();
        let mut header = Self { names: Vec::with_capacity(names.len()), named: true };
        for (ix, name) in names.into_iter().enumerate() {
            let name = if name.is_empty() { format!("{}", ix + 1) } else { name };
            if !seen.insert(name.clone()) {
                return Err(ReadError::DuplicateColumn { file: file.to_owned(), column: name });
            }
            header.names.push(name);
        }
        Ok(header)
    }

    /// Whether the first line may be a comment.
    pub(crate) fn begins_with_a_mark(&self) -> bool {
        self.named && self.names.first().is_some_and(|name| name.starts_with('#'))
    }

    pub(crate) fn width(&self) -> usize {
        self.names.len()
    }

    /// How messages name the column at `ix`.
    pub(crate) fn column(&self, ix: usize) -> ColumnRef {
        match self.names.get(ix) {
            Some(name) if self.named => ColumnRef::Name(name.clone()),
            _ => ColumnRef::Position(ix + 1),
        }
    }

    /// A column by name, else by 1-based position.
    fn find(&self, wanted: &str) -> Option<usize> {
        let by_name = self.names.iter().position(|name| name == wanted);
        by_name.or_else(|| {
            let position = wanted.parse::<usize>().ok()?;
            (1..=self.width()).contains(&position).then(|| position - 1)
        })
    }

    pub(crate) fn require(&self, wanted: &str, file: &str) -> Result<usize, ReadError> {
        self.find(wanted).ok_or_else(|| ReadError::NoSuchColumn {
            file: file.to_owned(),
            column: wanted.to_owned(),
            available: listing(self.names.iter().map(String::as_str)),
        })
    }
}

/// Names joined for a message, at most a dozen.
fn listing<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 12;
    let more = names.len().saturating_sub(SHOWN);
    let mut text = names.take(SHOWN).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

/// Columns that later files, or the input of a fitted model, must offer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted<'a> {
    /// The model's columns; others are ignored.
    Model(&'a Schema),
    /// The first file's columns, no more and no fewer.
    FirstFile(&'a Schema, &'a str),
}

/// Positions in the file of the columns of a batch, in batch order.
pub(crate) fn choose(
    header: &Header,
    options: &ReadOptions,
    wanted: Option<Wanted<'_>>,
    file: &str,
) -> Result<Vec<usize>, ReadError> {
    let mut kept = match &options.columns {
        Some(columns) => keep(header, columns, file)?,
        None => (0..header.width()).collect(),
    };
    if let Some(time) = &options.time {
        let time = header.require(time, file)?;
        kept.retain(|ix| *ix != time);
    }
    let chosen = match wanted {
        Some(wanted) => line_up(header, kept, wanted, file)?,
        None => kept,
    };
    if chosen.is_empty() {
        return Err(ReadError::NoColumns { file: file.to_owned() });
    }
    Ok(chosen)
}

/// Applies a list of names, positions and `-` drops.
pub(crate) fn keep(header: &Header, columns: &[String], file: &str) -> Result<Vec<usize>, ReadError> {
    let mut kept = Vec::new();
    let mut dropped = Vec::new();
    for column in columns.iter().map(|column| column.trim()) {
        match (header.find(column), column.strip_prefix('-')) {
            // A column that is really called "-x" is kept, not dropped.
            (Some(ix), _) => kept.push(ix),
            (None, Some(name)) => dropped.push(header.require(name, file)?),
            (None, None) => {
                header.require(column, file)?;
            }
        }
    }
    let mut seen = HashSet::new();
    if let Some(&twice) = kept.iter().find(|ix| !seen.insert(**ix)) {
        return Err(ReadError::ChosenTwice { column: header.names[twice].clone() });
    }
    if kept.is_empty() {
        kept = (0..header.width()).collect();
    }
    kept.retain(|ix| !dropped.contains(ix));
    Ok(kept)
}

/// Puts the kept columns into the order wanted: by name when both sides have names, else by position.
fn line_up(
    header: &Header,
    kept: Vec<usize>,
    wanted: Wanted<'_>,
    file: &str,
) -> Result<Vec<usize>, ReadError> {
    let (Wanted::Model(schema) | Wanted::FirstFile(schema, _)) = wanted;
    if header.named && schema.named {
        return by_name(header, &kept, wanted, file);
    }
    if kept.len() == schema.dimensions() {
        return Ok(kept);
    }
    // A model fitted to columns 3 and 5 of a file without names finds them again in such a file.
    if let (Wanted::Model(schema), false) = (wanted, schema.named) {
        let positions: Option<Vec<_>> = schema.names().map(|name| header.find(name)).collect();
        if let Some(positions) = positions {
            return Ok(positions);
        }
    }
    let wanted_by = match wanted {
        Wanted::Model(_) => "the model has".to_owned(),
        Wanted::FirstFile(_, first) => format!("{first} has"),
    };
    let expected = schema.dimensions();
    Err(ReadError::Width { file: file.to_owned(), found: kept.len(), expected, wanted_by })
}

fn by_name(header: &Header, kept: &[usize], wanted: Wanted<'_>, file: &str) -> Result<Vec<usize>, ReadError> {
    let (Wanted::Model(schema) | Wanted::FirstFile(schema, _)) = wanted;
    let found = |name: &str| kept.iter().copied().find(|&ix| header.names[ix] == name);
    let positions: Option<Vec<_>> = schema.names().map(found).collect();
    match (wanted, positions) {
        (Wanted::Model(_), Some(positions)) => Ok(positions),
        (Wanted::FirstFile(..), Some(positions)) if positions.len() == kept.len() => Ok(positions),
        (Wanted::Model(_), None) => {
            let missing = schema.names().find(|name| found(name).is_none()).unwrap_or_default();
            Err(ReadError::OtherColumns {
                file: file.to_owned(),
                column: missing.to_owned(),
                expected: listing(schema.columns.iter().map(|column| column.name.as_str())),
                found: listing(kept.iter().map(|&ix| header.names[ix].as_str())),
            })
        }
        (Wanted::FirstFile(_, first), _) => Err(ReadError::ColumnsDiffer {
            file: file.to_owned(),
            found: listing(kept.iter().map(|&ix| header.names[ix].as_str())),
            first: first.to_owned(),
            expected: listing(schema.columns.iter().map(|column| column.name.as_str())),
        }),
    }
}

/// The schema of the chosen columns, with empty categories where the user asked for categories.
pub(crate) fn schema_of(
    header: &Header,
    chosen: &[usize],
    options: &ReadOptions,
    file: &str,
) -> Result<Schema, ReadError> {
    let mut categorical = HashSet::new();
    for name in &options.categorical {
        if name == ALL_COLUMNS {
            categorical.extend(0..header.width());
            continue;
        }
        categorical.insert(header.require(name.trim(), file)?);
    }
    let columns = chosen
        .iter()
        .map(|ix| Column {
            name: header.names[*ix].clone(),
            categories: categorical.contains(ix).then(Vec::new),
        })
        .collect();
    Ok(Schema { columns, named: header.named })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(names: &[&str]) -> Header {
        Header::named(names.iter().map(|name| name.to_string()).collect(), "f").unwrap()
    }

    fn chosen(header: &Header, columns: &[&str]) -> Result<Vec<usize>, String> {
        let columns = Some(columns.iter().map(|name| name.to_string()).collect());
        choose(header, &ReadOptions { columns, ..Default::default() }, None, "f").map_err(|e| e.to_string())
    }

    #[test]
    fn columns_are_kept_by_name_or_position_in_the_order_given() {
        let header = header(&["a", "b", "c"]);
        assert_eq!(chosen(&header, &["c", "a"]), Ok(vec![2, 0]));
        assert_eq!(chosen(&header, &["2"]), Ok(vec![1]));
        assert_eq!(chosen(&header, &["-b"]), Ok(vec![0, 2]));
        assert_eq!(chosen(&header, &["-1"]), Ok(vec![1, 2]));
        assert_eq!(chosen(&header, &["a", "b", "-a"]), Ok(vec![1]));
    }

    #[test]
    fn a_column_that_is_missing_is_named_with_those_there_are() {
        let error = chosen(&header(&["a", "b"]), &["z"]).unwrap_err();
        assert_eq!(error, "f: no column \"z\"; the columns are a, b");
        assert_eq!(chosen(&header(&["a"]), &["a", "1"]).unwrap_err(), "column \"a\" is chosen twice");
        assert_eq!(chosen(&header(&["a"]), &["-a"]).unwrap_err(), "f: the selection leaves no column");
    }

    #[test]
    fn a_model_finds_its_columns_by_name_in_its_order() {
        let schema = Schema { columns: vec![Column::number("b"), Column::number("a")], named: true };
        let find = |header: &Header| {
            choose(header, &ReadOptions::default(), Some(Wanted::Model(&schema)), "f")
                .map_err(|e| e.to_string())
        };
        assert_eq!(find(&header(&["a", "x", "b"])), Ok(vec![2, 0]));
        let other = find(&header(&["a", "x"])).unwrap_err();
        assert_eq!(other, "f: no column \"b\"; the model was made on b, a, the file has a, x");
        assert_eq!(find(&Header::numbered(2)), Ok(vec![0, 1]));
        assert_eq!(find(&Header::numbered(3)).unwrap_err(), "f: has 3 columns, the model has 2");
    }

    #[test]
    fn a_model_without_names_finds_its_positions_again() {
        let schema = Schema { columns: vec![Column::number("3"), Column::number("1")], named: false };
        let options = ReadOptions::default();
        let found = choose(&Header::numbered(4), &options, Some(Wanted::Model(&schema)), "f").unwrap();
        assert_eq!(found, [2, 0]);
    }

    #[test]
    fn later_files_need_the_same_columns_in_any_order() {
        let schema = Schema { columns: vec![Column::number("a"), Column::number("b")], named: true };
        let wanted = Some(Wanted::FirstFile(&schema, "first"));
        let options = ReadOptions::default();
        assert_eq!(choose(&header(&["b", "a"]), &options, wanted, "f").unwrap(), [1, 0]);
        let error = choose(&header(&["b", "a", "c"]), &options, wanted, "f").unwrap_err();
        assert_eq!(error.to_string(), "f: its columns (b, a, c) are not those of first (a, b)");
    }
}
