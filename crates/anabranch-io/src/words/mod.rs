//! Bags of words: documents over a vocabulary, from UCI files, LDA-C files, sparse matrices of scipy and JSON lines.
//!
//! **Vocabulary.** It is one list, fixed by the time the first minibatch is there and stored with the model: the file that
//! was named, else the columns of the matrix, else the words of the first minibatch. A word that comes later and is not in
//! the list is counted, and read as `<unk>` where the list has that word (a list learned from documents does).
//!
//! ```
//! use anabranch_io::Input;
//! use anabranch_io::words::{BagOptions, Bags};
//! let lines = "{\"text\": \"Sun and rain\"}\n{\"text\": \"Rain, rain, wind\"}\n";
//! let mut bags = Bags::open(&[Input::Memory(lines.into())], BagOptions::default())?;
//! let documents = bags.next_documents(10)?.expect("two documents");
//! assert_eq!((documents.len(), documents.tokens()), (2, 5.0));
//! assert_eq!(bags.vocabulary().expect("known by now").words(), ["rain", "sun", "wind", "<unk>"]);
//! # Ok::<(), anabranch_io::ReadError>(())
//! ```

mod archive;
mod json;
mod lists;
mod npz;
mod tokens;
mod vocabulary;

use std::collections::{BTreeMap, VecDeque};
use std::io::Read;
use std::path::Path;

use anabranch::documents::Documents;

pub use tokens::count_words;
pub use vocabulary::{UNKNOWN, Vocabulary, VocabularyError};

use crate::error::ReadError;
use crate::input::{self, Lines};
use crate::options::{Format, Input, OnBadRow};
use crate::seen::ReadLog;

/// A format of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BagFormat {
    /// `docword.*.txt` of the UCI repository.
    Uci,
    /// One document a line, as Blei's LDA-C reads them.
    Ldac,
    /// A sparse matrix of scipy.
    Npz,
    /// One JSON object a line, with `tokens` or `text`.
    Jsonl,
}

/// The choices of a reader of documents.
#[derive(Clone, Debug, Default)]
pub struct BagOptions {
    /// The format; otherwise found from the first bytes and the name.
    pub format: Option<BagFormat>,
    /// The words; otherwise found as the module says.
    pub vocabulary: Option<Vocabulary>,
    /// What to do with lines that are no documents.
    pub on_bad_row: OnBadRow,
    /// Asked while a pipe or standard input is quiet: true ends it there; a record that is not complete is left out.
    pub interrupted: Option<fn() -> bool>,
    /// Bytes that an archive and what is in it may take; otherwise [`MAX_MEMORY`](crate::MAX_MEMORY).
    pub max_memory: Option<u64>,
}

/// `(word, count)` in any order.
type Entries = Vec<(u32, f64)>;

/// A document before its words are looked up.
enum Raw {
    Numbers(Entries),
    Words(BTreeMap<String, f64>),
}

/// One input, document after document.
trait RawReader: Send {
    /// Words of the vocabulary, where the format says.
    fn n_words(&self) -> Option<usize>;

    /// Lines that were no documents.
    fn skipped(&self) -> u64 {
        0
    }

    fn next(&mut self) -> Result<Option<Raw>, ReadError>;
}

/// The documents of some inputs, one after another.
pub struct Bags {
    inputs: VecDeque<Input>,
    options: BagOptions,
    reader: Option<(String, Box<dyn RawReader>)>,
    /// Inputs that were opened so far.
    opened: usize,
    log: ReadLog,
    /// Somebody wanted to stop.
    stopped: bool,
    skipped: u64,
    unknown: f64,
}

impl Bags {
    /// Opens the first of the inputs.
    pub fn open(inputs: &[Input], options: BagOptions) -> Result<Self, ReadError> {
        if inputs.is_empty() {
            return Err(ReadError::NoInput);
        }
        let inputs = inputs.iter().cloned().collect();
        let log = ReadLog::default();
        let mut bags =
            Self { inputs, options, reader: None, opened: 0, log, stopped: false, skipped: 0, unknown: 0.0 };
        bags.open_next()?;
        Ok(bags)
    }

    /// The words, once they are known.
    pub fn vocabulary(&self) -> Option<&Vocabulary> {
        self.options.vocabulary.as_ref()
    }

    /// Lines that were no documents and were left out.
    pub fn skipped(&self) -> u64 {
        self.skipped + self.reader.as_ref().map_or(0, |(_, reader)| reader.skipped())
    }

    /// Words that were not in the vocabulary.
    pub fn unknown_words(&self) -> f64 {
        self.unknown
    }

    /// What is read of which input.
    pub fn log(&self) -> ReadLog {
        self.log.clone()
    }

    /// The next `n` documents, fewer at the end, `None` when there are no more.
    pub fn next_documents(&mut self, n: usize) -> Result<Option<Documents>, ReadError> {
        let mut raw = Vec::new();
        while raw.len() < n.max(1) {
            let Some((file, reader)) = &mut self.reader else { break };
            match reader.next() {
                Ok(Some(document)) => raw.push((self.opened - 1, file.clone(), document)),
                Ok(None) => match self.open_next() {
                    Err(ReadError::Stopped { .. }) => {
                        self.inputs.clear();
                        self.stopped = true;
                    }
                    opened => opened?,
                },
                Err(ReadError::Stopped { within_record, .. }) => {
                    self.inputs.clear();
                    self.stopped = true;
                    self.open_next()?;
                    self.skipped += u64::from(within_record);
                }
                Err(error) => return Err(error),
            }
        }
        if raw.is_empty() {
            self.check_ends()?;
            return Ok(None);
        }
        if self.options.vocabulary.is_none() {
            let words: Vec<&BTreeMap<String, f64>> = raw
                .iter()
                .filter_map(|(_, _, raw)| match raw {
                    Raw::Words(words) => Some(words),
                    Raw::Numbers(_) => None,
                })
                .collect();
            if words.is_empty() {
                let detail =
                    "its words are numbers: name the file with the words with --vocabulary".to_owned();
                return Err(ReadError::bag(&raw[0].1, None, detail));
            }
            let learned = Vocabulary::learned(words.into_iter());
            self.options.vocabulary =
                Some(learned.map_err(|error| ReadError::bag(&raw[0].1, None, error.to_string()))?);
        }
        let vocabulary = self.options.vocabulary.as_ref().expect("it was made above");
        let mut documents = Documents::none(vocabulary.len());
        for (input, file, raw) in raw {
            let (entries, unknown) = look_up(raw, vocabulary);
            self.unknown += unknown;
            let numbers: Vec<f64> =
                entries.iter().flat_map(|(word, count)| [f64::from(*word), *count]).collect();
            self.log.read(input, std::iter::once(numbers.as_slice()))?;
            documents.push(&entries).map_err(|error| ReadError::bag(&file, None, error.to_string()))?;
        }
        self.check_ends()?;
        Ok(Some(documents))
    }

    /// Inputs that have ended have as many documents as an earlier run learned from, unless somebody wanted to stop.
    fn check_ends(&self) -> Result<(), ReadError> {
        if self.stopped {
            return Ok(());
        }
        let ended = if self.reader.is_some() { self.opened - 1 } else { self.opened };
        (0..ended).try_for_each(|input| self.log.ended(input))?;
        if self.reader.is_none() { self.log.all_ended() } else { Ok(()) }
    }

    fn open_next(&mut self) -> Result<(), ReadError> {
        self.skipped += self.reader.take().map_or(0, |(_, reader)| reader.skipped());
        while let Some(input) = self.inputs.pop_front() {
            // The format only silences the guess of the reader of tables.
            let Some(opened) = input::open(
                &input,
                Some(Format::Jsonl),
                self.options.interrupted,
                self.options.max_memory,
                None,
            )?
            else {
                continue;
            };
            let mut stream = opened.body.into_stream();
            let head = stream.peek(4).map_err(|error| ReadError::io(&opened.name, error))?.to_vec();
            let format = match self.options.format.or_else(|| guess(&input, &head)) {
                Some(format) => format,
                None => return Err(ReadError::UnknownBag { file: opened.name }),
            };
            let name = opened.name.clone();
            let reader: Box<dyn RawReader> = match format {
                BagFormat::Npz => {
                    let (mut bytes, limit) = (Vec::new(), opened.limit);
                    let read = stream.take(limit.saturating_add(1)).read_to_end(&mut bytes);
                    if read.map_err(|error| ReadError::io(&name, error).cutting_off(true))? as u64 > limit {
                        return Err(ReadError::too_large(&name, "the archive", limit));
                    }
                    Box::new(npz::open(&name, &bytes, limit)?)
                }
                BagFormat::Uci => Box::new(lists::UciReader::open(Lines::new(&name, stream))?),
                BagFormat::Ldac => Box::new(lists::LdacReader::open(Lines::new(&name, stream))),
                BagFormat::Jsonl => {
                    Box::new(json::JsonReader::open(Lines::new(&name, stream), self.options.on_bad_row))
                }
            };
            self.agree(&name, reader.n_words())?;
            self.log.add_input(name.clone());
            self.opened += 1;
            self.reader = Some((name, reader));
            break;
        }
        Ok(())
    }

    /// The columns of a matrix are the vocabulary, or fit the one that is there.
    fn agree(&mut self, file: &str, n_words: Option<usize>) -> Result<(), ReadError> {
        let Some(found) = n_words else { return Ok(()) };
        match &self.options.vocabulary {
            Some(vocabulary) if vocabulary.len() != found => {
                let detail = format!("it has {found} words, the vocabulary has {}", vocabulary.len());
                Err(ReadError::bag(file, None, detail))
            }
            Some(_) => Ok(()),
            None => {
                let made = Vocabulary::numbered(found);
                self.options.vocabulary =
                    Some(made.map_err(|error| ReadError::bag(file, None, error.to_string()))?);
                Ok(())
            }
        }
    }
}

/// Ascending entries of the vocabulary, and how many words it does not have.
fn look_up(raw: Raw, vocabulary: &Vocabulary) -> (Entries, f64) {
    let mut unknown = 0.0;
    let mut entries: Entries = match raw {
        Raw::Numbers(entries) => entries,
        Raw::Words(words) => words
            .into_iter()
            .filter_map(|(word, count)| {
                let number = vocabulary.number(&word).filter(|_| word != UNKNOWN);
                if number.is_none() {
                    unknown += count;
                }
                Some((number.or_else(|| vocabulary.number(UNKNOWN))?, count))
            })
            .collect(),
    };
    entries.retain(|(_, count)| *count > 0.0);
    entries.sort_by_key(|(word, _)| *word);
    entries.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
    (entries, unknown)
}

/// Archives announce themselves; text in braces is JSON; names tell the rest.
fn guess(input: &Input, head: &[u8]) -> Option<BagFormat> {
    if head.starts_with(b"PK") {
        return Some(BagFormat::Npz);
    }
    if head.trim_ascii_start().first() == Some(&b'{') {
        return Some(BagFormat::Jsonl);
    }
    let Input::Path(path) = input else { return None };
    let name = path.file_name()?.to_str()?.to_ascii_lowercase();
    let name = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name).to_owned();
    match () {
        () if name.starts_with("docword.") || name.ends_with(".uci") => Some(BagFormat::Uci),
        () if name.ends_with(".ldac") || name.ends_with(".lda-c") => Some(BagFormat::Ldac),
        () => None,
    }
}

/// Reads a vocabulary: one word a line.
pub fn read_vocabulary(path: &Path) -> Result<Vocabulary, ReadError> {
    let input = Input::Path(path.to_path_buf());
    let name = path.display().to_string();
    let opened = input::open(&input, Some(Format::Csv), None, None, None)?
        .ok_or_else(|| ReadError::Empty { file: name.clone() })?;
    let mut lines = Lines::new(&name, opened.body.into_stream());
    let mut words = Vec::new();
    while lines.advance()? {
        let word = String::from_utf8_lossy(lines.current()).trim().to_owned();
        words.push(word);
    }
    while words.last().is_some_and(String::is_empty) {
        words.pop();
    }
    Vocabulary::new(words).map_err(|error| ReadError::bag(&name, None, error.to_string()))
}
