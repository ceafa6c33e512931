//! How rows are read.

use std::sync::LazyLock;

use anabranch_io::Format;
use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};

/// How rows are read; the same for every command that reads.
#[derive(Args, Clone, Debug, Default)]
pub struct ReadArgs {
    /// Format of the input; otherwise found from the extension or the first bytes
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<InputFormat>,
    /// hdp: the column, or the field of JSON, that holds the documents as text
    #[arg(long, value_name = "COLUMN")]
    pub text: Option<String>,
    /// Columns to keep, by name or number from 1; `-name` drops one
    #[arg(long, value_name = "LIST", value_delimiter = ',', allow_hyphen_values = true)]
    pub columns: Option<Vec<String>>,
    /// What to do with a row that is ragged, not a finite number, or outside the family's domain
    #[arg(long, value_name = "WHAT", default_value = "fail")]
    pub on_bad_row: BadRow,
    /// What to do with a missing value (an empty cell, NA, null, NaN); `model` unless told
    #[arg(long, value_name = "WHAT")]
    pub missing: Option<Missing>,
    /// Whether the first line of text names the columns; otherwise found by looking
    #[arg(long, value_name = "WHETHER")]
    pub header: Option<YesNo>,
    /// Character between the cells of text; otherwise found by looking
    #[arg(long, value_name = "CHAR")]
    pub delimiter: Option<char>,
    /// Bytes that one piece of the input may take, such as a minibatch or an archive: 512M, 4G
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = size)]
    pub max_memory: u64,
}

/// A number of bytes, with K, M, G or T for powers of 1024.
fn size(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1 << 10),
        Some((at, 'm' | 'M')) => (&text[..at], 1 << 20),
        Some((at, 'g' | 'G')) => (&text[..at], 1 << 30),
        Some((at, 't' | 'T')) => (&text[..at], 1 << 40),
        _ => (text, 1_u64),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    bytes.ok_or_else(|| "expected a number of bytes such as 512M or 4G".to_owned())
}

/// Formats of rows and of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputFormat {
    /// One of rows.
    Rows(Format),
    /// Documents as a sparse matrix of scipy.
    Npz,
    /// Documents as Blei's LDA-C reads them.
    Ldac,
    /// Documents of the UCI repository.
    Uci,
    /// Documents as text, one a line.
    Txt,
}

impl ValueEnum for InputFormat {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<InputFormat>> = LazyLock::new(|| {
            let documents = [InputFormat::Npz, InputFormat::Ldac, InputFormat::Uci, InputFormat::Txt];
            Format::ALL.map(InputFormat::Rows).into_iter().chain(documents).collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let documents = |name: &'static str, help: &'static str| PossibleValue::new(name).help(help);
        Some(match self {
            Self::Rows(format) => PossibleValue::new(format.name()),
            Self::Npz => documents("npz", "Documents as a sparse matrix of scipy"),
            Self::Ldac => documents("ldac", "Documents as Blei's LDA-C reads them"),
            Self::Uci => documents("uci", "Documents of the UCI repository"),
            Self::Txt => documents("txt", "Documents as text, one a line"),
        })
    }
}

/// What to do with a bad row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum BadRow {
    /// Stop and name file, row, column and value
    #[default]
    Fail,
    /// Leave it out and count it
    Skip,
}

/// What to do with a missing value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Missing {
    /// Learn from the other values of its row, and answer by them
    Model,
    /// Its row is a bad row
    Fail,
    /// Leave its row out and count it
    Skip,
}

/// A decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "yes means yes")]
pub enum YesNo {
    Yes,
    No,
}
