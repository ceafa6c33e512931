//! Where readers put cells: the one place that decides whether a row is good.
//!
//! A reader offers the cells of a row one by one. The sink parses or codes each, and keeps the row
//! only when all are good; otherwise the row fails or is counted, as the user chose.

use std::collections::HashMap;

use crate::error::{BadCell, ColumnRef, ReadError};
use crate::kept::{Cells, KeptColumn};
use crate::options::{OnBadRow, OnMissing};
use crate::schema::{MAX_CATEGORIES, Schema};
use crate::time;

/// Longest piece of a cell that a message repeats, in characters.
const SHOWN_CHARACTERS: usize = 40;

/// Why a cell is not good, without the words: built for every bad cell, so it allocates nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    Missing,
    NotFinite,
    NotANumber,
    TooManyCategories,
    NotATime,
    Future,
}

/// Where a row is, for messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) file: &'a str,
    /// From 1.
    pub(crate) row: u64,
    /// From 1, for text.
    pub(crate) line: Option<u64>,
}

impl Place<'_> {
    fn error(self, problem: BadCell) -> ReadError {
        ReadError::BadRow { file: self.file.to_owned(), row: self.row, line: self.line, problem }
    }
}

/// The codes of one column of categories.
#[derive(Debug, Default)]
struct Codes {
    by_label: HashMap<String, u32>,
    /// The code of labels outside the model; `None` while fitting, when new labels get new codes.
    other: Option<u32>,
}

/// Collects good rows.
#[derive(Debug)]
pub(crate) struct Sink {
    schema: Schema,
    codes: Vec<Option<Codes>>,
    values: Vec<f64>,
    rows: usize,
    /// Columns in which the unfinished row brought a new label.
    fresh: Vec<usize>,
    on_bad_row: OnBadRow,
    on_missing: OnMissing,
    skipped: u64,
    /// Missing values of the finished rows, and of the unfinished one.
    missing: u64,
    unfinished_missing: u64,
    first_flaw: Option<String>,
    passage: Option<Passage>,
    times: Option<Times>,
}

/// When the rows were. The cell that says so comes behind all others.
#[derive(Debug, Default)]
struct Times {
    /// Of the finished rows, and of the unfinished one.
    of_rows: Vec<f64>,
    unfinished: f64,
    /// Later than this nothing was, as far as anybody has asked.
    latest: f64,
}

impl Times {
    fn put(&mut self, seconds: Option<f64>) -> Result<(), Flaw> {
        let seconds = seconds.filter(|seconds| seconds.is_finite()).ok_or(Flaw::NotATime)?;
        if seconds > self.latest {
            self.latest = time::latest();
        }
        self.unfinished = seconds;
        if seconds > self.latest { Err(Flaw::Future) } else { Ok(()) }
    }
}

/// What is kept of rows that go out again. Their cells come first: the first slots are theirs.
#[derive(Debug)]
struct Passage {
    columns: Vec<KeptColumn>,
    cells: Vec<Cells>,
    /// Places of bad rows among all.
    bad: Vec<usize>,
}

impl Sink {
    /// A sink for rows of `schema`. Columns with categories are coded.
    pub(crate) fn new(schema: Schema, categories: Categories, on_bad_row: OnBadRow) -> Self {
        let codes = schema
            .columns
            .iter()
            .map(|column| {
                let labels = column.categories.as_ref()?;
                let by_label = labels.iter().zip(0..).map(|(label, code)| (label.clone(), code)).collect();
                let other = match categories {
                    Categories::Open => None,
                    Categories::Closed => column.other_code().map(|code| code as u32),
                };
                Some(Codes { by_label, other })
            })
            .collect();
        Self {
            schema,
            codes,
            values: Vec::new(),
            rows: 0,
            fresh: Vec::new(),
            on_bad_row,
            on_missing: OnMissing::Refuse,
            skipped: 0,
            missing: 0,
            unfinished_missing: 0,
            first_flaw: None,
            passage: None,
            times: None,
        }
    }

    /// Does this with missing values.
    pub(crate) fn on_missing(self, on_missing: OnMissing) -> Self {
        Self { on_missing, ..self }
    }

    /// Looks at when rows were, which the last slot says.
    pub(crate) fn timed(self) -> Self {
        Self { times: Some(Times::default()), ..self }
    }

    /// When the rows were that have been taken since the last time.
    pub(crate) fn take_times(&mut self) -> Vec<f64> {
        self.times.as_mut().map(|times| std::mem::take(&mut times.of_rows)).unwrap_or_default()
    }

    /// The times of rows, if this slot says them.
    #[inline]
    fn time_slot(&mut self, slot: usize) -> Option<&mut Times> {
        if slot == self.codes.len() { self.times.as_mut() } else { None }
    }

    /// Whether missing values stay in their rows.
    pub(crate) fn keeps_missing(&self) -> bool {
        self.on_missing == OnMissing::Keep
    }

    /// Missing values of the finished rows.
    pub(crate) fn missing_cells(&self) -> u64 {
        self.missing
    }

    /// A missing value of a column that is read.
    #[cold]
    fn put_missing(&mut self) -> Result<(), Flaw> {
        if !self.keeps_missing() {
            return Err(Flaw::Missing);
        }
        self.values.push(f64::NAN);
        self.unfinished_missing += 1;
        Ok(())
    }

    /// Keeps the cells of these columns, and the places of bad rows.
    pub(crate) fn keeping(mut self, columns: Vec<KeptColumn>) -> Self {
        let cells = vec![Cells::default(); columns.len()];
        self.passage = Some(Passage { columns, cells, bad: Vec::new() });
        self
    }

    /// Columns whose cells are kept.
    pub(crate) fn kept_columns(&self) -> &[KeptColumn] {
        self.passage.as_ref().map_or(&[], |passage| &passage.columns)
    }

    /// Whether rows are handed out when the input pauses.
    pub(crate) fn hands_out_early(&self) -> bool {
        self.passage.is_some()
    }

    /// The places of bad rows and the cells that were kept, since the last time.
    pub(crate) fn take_kept(&mut self) -> (Vec<usize>, Vec<Cells>) {
        let Some(passage) = &mut self.passage else { return Default::default() };
        let fresh = vec![Cells::default(); passage.cells.len()];
        (std::mem::take(&mut passage.bad), std::mem::replace(&mut passage.cells, fresh))
    }

    /// The place of a slot among the columns that are read, or the cells that it is kept in.
    #[inline]
    fn slot(&mut self, slot: usize) -> Result<usize, &mut Cells> {
        match &mut self.passage {
            None => Ok(slot),
            Some(passage) => {
                let kept = passage.cells.len();
                if slot < kept { Err(&mut passage.cells[slot]) } else { Ok(slot - kept) }
            }
        }
    }

    /// A cell that is missing.
    pub(crate) fn missing(&mut self, slot: usize) -> Result<(), Flaw> {
        if let Some(times) = self.time_slot(slot) {
            return times.put(None);
        }
        match self.slot(slot) {
            Ok(_) => self.put_missing(),
            Err(cells) => {
                cells.push("");
                Ok(())
            }
        }
    }

    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Rows finished since the last `take`, with the bad ones where those are told.
    #[inline]
    pub(crate) fn rows(&self) -> usize {
        self.rows + self.passage.as_ref().map_or(0, |passage| passage.bad.len())
    }

    /// Good rows since the last `take`.
    pub(crate) fn good(&self) -> usize {
        self.rows
    }

    /// Bytes of the rows so far.
    pub(crate) fn bytes(&self) -> u64 {
        (self.values.len() * size_of::<f64>()) as u64
    }

    /// Rows that fit into so many bytes, at least one.
    pub(crate) fn rows_of(&self, bytes: usize) -> usize {
        (bytes / size_of::<f64>() / self.schema.dimensions().max(1)).max(1)
    }

    /// The rows that were finished behind the first `before`.
    pub(crate) fn finished(&self, before: usize) -> impl Iterator<Item = &[f64]> {
        let dimensions = self.schema.dimensions();
        self.values[before * dimensions..self.rows * dimensions].chunks_exact(dimensions)
    }

    pub(crate) fn skipped(&self) -> u64 {
        self.skipped
    }

    /// What an error would have said of the first row that was skipped.
    pub(crate) fn first_flaw(&self) -> Option<&str> {
        self.first_flaw.as_deref()
    }

    /// Whether the cells of a slot are labels, or kept as if they were.
    pub(crate) fn is_categorical(&self, slot: usize) -> bool {
        let kept = self.kept_columns().len();
        slot < kept || self.codes.get(slot - kept).is_some_and(Option::is_some)
    }

    /// Makes room for `rows` more rows, within reason: a caller may ask for all there are.
    pub(crate) fn reserve(&mut self, rows: usize) {
        const MOST_VALUES: usize = 1 << 20;
        self.values.reserve(rows.saturating_mul(self.schema.dimensions()).min(MOST_VALUES));
    }

    /// All values so far, row after row.
    pub(crate) fn take(&mut self) -> Vec<f64> {
        self.rows = 0;
        std::mem::take(&mut self.values)
    }

    /// Forgets the rows so far and keeps the memory.
    pub(crate) fn discard(&mut self) {
        self.rows = 0;
        self.values.clear();
        self.take_kept();
        self.take_times();
    }

    /// A cell that is text in the file.
    #[inline]
    pub(crate) fn text(&mut self, slot: usize, cell: &[u8]) -> Result<(), Flaw> {
        if let Some(times) = self.time_slot(slot) {
            return times.put(str::from_utf8(cell).ok().and_then(time::parse));
        }
        let slot = match self.slot(slot) {
            Ok(slot) => slot,
            Err(cells) => {
                cells.push_bytes(cell);
                return Ok(());
            }
        };
        if self.codes[slot].is_some() {
            let cell = cell.trim_ascii();
            if is_missing_word(cell) {
                return self.put_missing();
            }
            return self.code(slot, &String::from_utf8_lossy(cell));
        }
        match parse_number(cell) {
            Ok(value) => {
                self.values.push(value);
                Ok(())
            }
            // That a word stands for a missing value matters to those who do something about it.
            Err(_) if self.on_missing != OnMissing::Refuse && is_missing_word(cell.trim_ascii()) => {
                self.put_missing()
            }
            Err(flaw) => Err(flaw),
        }
    }

    /// A cell that is a number in the file. In a column of categories it is its own label.
    #[inline]
    pub(crate) fn number(&mut self, slot: usize, value: f64) -> Result<(), Flaw> {
        if let Some(times) = self.time_slot(slot) {
            return times.put(Some(value));
        }
        let slot = match self.slot(slot) {
            Ok(slot) => slot,
            Err(cells) => {
                cells.push(&value.to_string());
                return Ok(());
            }
        };
        if !value.is_finite() {
            let missing = value.is_nan() && self.on_missing != OnMissing::Refuse;
            return if missing { self.put_missing() } else { Err(Flaw::NotFinite) };
        }
        if self.codes[slot].is_some() {
            return self.code(slot, &value.to_string());
        }
        self.values.push(value);
        Ok(())
    }

    /// A category label.
    pub(crate) fn label(&mut self, slot: usize, label: &str) -> Result<(), Flaw> {
        if let Some(times) = self.time_slot(slot) {
            return times.put(time::parse(label));
        }
        match self.slot(slot) {
            Ok(slot) => self.code(slot, label),
            Err(cells) => {
                cells.push(label);
                Ok(())
            }
        }
    }

    fn code(&mut self, slot: usize, label: &str) -> Result<(), Flaw> {
        let Some(codes) = &mut self.codes[slot] else {
            let missing = self.on_missing != OnMissing::Refuse && is_missing_word(label.trim().as_bytes());
            return if missing { self.put_missing() } else { Err(Flaw::NotANumber) };
        };
        let code = match (codes.by_label.get(label), codes.other) {
            (Some(&code), _) | (None, Some(code)) => code,
            (None, None) => {
                let labels = self.schema.columns[slot].categories.get_or_insert_default();
                if labels.len() == MAX_CATEGORIES {
                    return Err(Flaw::TooManyCategories);
                }
                let code = labels.len() as u32;
                labels.push(label.to_owned());
                codes.by_label.insert(label.to_owned(), code);
                self.fresh.push(slot);
                code
            }
        };
        self.values.push(f64::from(code));
        Ok(())
    }

    /// The row is complete and good.
    #[inline]
    pub(crate) fn finish_row(&mut self) {
        self.rows += 1;
        self.missing += std::mem::take(&mut self.unfinished_missing);
        self.fresh.clear();
        if let Some(times) = &mut self.times {
            times.of_rows.push(times.unfinished);
        }
        debug_assert_eq!(self.values.len(), self.rows * self.schema.dimensions());
    }

    /// Whole rows of finite numbers, and of NaN where missing values are kept.
    pub(crate) fn good_rows(&mut self, values: &[f64]) {
        debug_assert!(values.iter().all(|value| value.is_finite() || self.keeps_missing() && value.is_nan()));
        self.missing += self.count_missing(values);
        self.values.extend_from_slice(values);
        self.rows = self.values.len() / self.schema.dimensions();
    }

    /// Whole rows of numbers that `decode` appends; false, and none of them taken, when one is not finite.
    pub(crate) fn decoded_rows(&mut self, decode: impl FnOnce(&mut Vec<f64>)) -> bool {
        let before = self.values.len();
        decode(&mut self.values);
        let keeps = self.keeps_missing();
        let is_good = |value: &f64| value.is_finite() | (keeps & value.is_nan());
        let good = self.values[before..].iter().fold(true, |all, value| all & is_good(value));
        if good {
            self.missing += self.count_missing(&self.values[before..]);
        } else {
            self.values.truncate(before);
        }
        self.rows = self.values.len() / self.schema.dimensions();
        good
    }

    fn count_missing(&self, values: &[f64]) -> u64 {
        if self.keeps_missing() { values.iter().filter(|value| value.is_nan()).count() as u64 } else { 0 }
    }

    /// The row is bad because of a cell: drops its cells, then fails or counts.
    #[cold]
    pub(crate) fn reject_cell(
        &mut self,
        at: Place<'_>,
        flaw: Flaw,
        column: ColumnRef,
        value: &str,
    ) -> Result<(), ReadError> {
        let problem = match flaw {
            Flaw::Missing => BadCell::Missing { column },
            Flaw::NotFinite => BadCell::NotFinite { column, value: shorten(value) },
            Flaw::NotANumber => BadCell::NotANumber { column, value: shorten(value) },
            Flaw::NotATime => BadCell::NotATime { column, value: shorten(value) },
            Flaw::Future => BadCell::Future { column, value: shorten(value) },
            Flaw::TooManyCategories => {
                return Err(ReadError::TooManyCategories { file: at.file.to_owned(), row: at.row, column });
            }
        };
        if flaw == Flaw::Missing && self.on_missing == OnMissing::Skip {
            self.skip_row(at, problem);
            return Ok(());
        }
        self.reject_row(at, problem)
    }

    /// The row is bad: drops its cells, then fails or counts.
    #[cold]
    pub(crate) fn reject_row(&mut self, at: Place<'_>, problem: BadCell) -> Result<(), ReadError> {
        match self.on_bad_row {
            OnBadRow::Fail => {
                self.drop_unfinished_row();
                Err(at.error(problem))
            }
            OnBadRow::Skip => {
                self.skip_row(at, problem);
                Ok(())
            }
        }
    }

    fn skip_row(&mut self, at: Place<'_>, problem: BadCell) {
        self.drop_unfinished_row();
        self.skipped += 1;
        self.first_flaw.get_or_insert_with(|| at.error(problem).to_string());
        let place = self.rows();
        if let Some(passage) = &mut self.passage {
            passage.bad.push(place);
            passage.cells.iter_mut().for_each(|cells| cells.set_len(place + 1));
        }
    }

    /// The input was told to end: what there is of an unfinished row is left out, and counted.
    pub(crate) fn cut_off(&mut self, within_record: bool) {
        self.drop_unfinished_row();
        self.skipped += u64::from(within_record);
    }

    /// A skipped row leaves no trace, not even its labels.
    fn drop_unfinished_row(&mut self) {
        self.values.truncate(self.rows * self.schema.dimensions());
        self.unfinished_missing = 0;
        while let Some(slot) = self.fresh.pop() {
            let label = self.schema.columns[slot].categories.as_mut().and_then(Vec::pop);
            if let (Some(codes), Some(label)) = (&mut self.codes[slot], label) {
                codes.by_label.remove(&label);
            }
        }
    }
}

/// Whether new labels may get new codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Categories {
    /// While fitting.
    Open,
    /// The categories are those of a model.
    Closed,
}

/// A finite number, spaces around it allowed.
#[inline]
pub(crate) fn parse_number(cell: &[u8]) -> Result<f64, Flaw> {
    let cell = cell.trim_ascii();
    if cell.is_empty() {
        return Err(Flaw::Missing);
    }
    match fast_float2::parse::<f64, _>(cell) {
        Ok(value) if value.is_finite() => Ok(value),
        Ok(_) => Err(Flaw::NotFinite),
        Err(_) => truth(cell).ok_or(Flaw::NotANumber),
    }
}

/// 1 for `true` and 0 for `false`.
#[cold]
fn truth(cell: &[u8]) -> Option<f64> {
    [(0.0, "false"), (1.0, "true")]
        .into_iter()
        .find_map(|(value, word)| cell.eq_ignore_ascii_case(word.as_bytes()).then_some(value))
}

/// True for the words that programs write for "no value here".
pub(crate) fn is_missing_word(cell: &[u8]) -> bool {
    const WORDS: [&str; 6] = ["na", "n/a", "nan", "null", "#n/a", "?"];
    cell.is_empty() || WORDS.iter().any(|word| cell.eq_ignore_ascii_case(word.as_bytes()))
}

/// At most [`SHOWN_CHARACTERS`] of a cell.
pub(crate) fn shorten(value: &str) -> String {
    match value.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Column;

    fn sink(categories: Option<Vec<String>>, mode: Categories) -> Sink {
        let column = Column { name: "c".into(), categories };
        Sink::new(Schema { columns: vec![column], named: true }, mode, OnBadRow::Fail)
    }

    #[test]
    fn numbers_are_parsed_with_signs_exponents_and_spaces() {
        for (text, value) in
            [("1", 1.0), ("-2.5e3", -2500.0), ("+4", 4.0), (" 7 ", 7.0), (".5", 0.5), ("5.", 5.0)]
        {
            assert_eq!(parse_number(text.as_bytes()), Ok(value), "{text}");
        }
    }

    #[test]
    fn words_and_infinities_are_no_numbers() {
        assert_eq!(parse_number(b"abc"), Err(Flaw::NotANumber));
        assert_eq!(parse_number(b"1,5"), Err(Flaw::NotANumber));
        assert_eq!(parse_number(b" "), Err(Flaw::Missing));
        assert_eq!(parse_number(b"inf"), Err(Flaw::NotFinite));
        assert_eq!(parse_number(b"1e999"), Err(Flaw::NotFinite));
        assert_eq!(parse_number(b"NaN"), Err(Flaw::NotFinite));
    }

    #[test]
    fn labels_get_codes_by_first_appearance() {
        let mut sink = sink(Some(vec![]), Categories::Open);
        for label in ["red", "blue", "red"] {
            sink.text(0, label.as_bytes()).unwrap();
            sink.finish_row();
        }
        sink.number(0, 3.0).unwrap();
        sink.finish_row();
        assert_eq!(sink.take(), [0.0, 1.0, 0.0, 2.0]);
        assert_eq!(sink.schema().columns[0].categories.as_deref().unwrap(), ["red", "blue", "3"]);
    }

    #[test]
    fn labels_outside_the_model_are_other() {
        let mut sink = sink(Some(vec!["red".into(), "blue".into()]), Categories::Closed);
        for label in ["green", "blue"] {
            sink.label(0, label).unwrap();
            sink.finish_row();
        }
        assert_eq!(sink.take(), [2.0, 1.0]);
    }

    #[test]
    fn the_number_of_categories_is_bounded() {
        let mut sink = sink(Some(vec![]), Categories::Open);
        for code in 0..MAX_CATEGORIES {
            sink.label(0, &code.to_string()).unwrap();
        }
        assert_eq!(sink.label(0, "one more"), Err(Flaw::TooManyCategories));
        assert_eq!(sink.label(0, "7"), Ok(()));
    }
}
