//! Bags of words: documents over a vocabulary, from UCI files, LDA-C files, sparse matrices of scipy, JSON lines and text.
//!
//! **Vocabulary.** It is one list, stored with the model: the file that was named, else the columns of the matrix, else the
//! words of the first minibatch. Only the last can grow ([`WordChoice::size`]): words that enough later documents have are put
//! behind the others, with the minibatch in which they become enough. A word that is not in the list is counted, and read as
//! `<unk>` where the list has that word (a list learned from documents does).
//!
//! The list after some minibatch follows from the documents up to there and from nothing else, so that a run that reads them
//! again has the same words under the same numbers.
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
mod text;
mod tokens;
mod vocabulary;

use std::collections::{BTreeMap, VecDeque};
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use anabranch::documents::Documents;

pub use tokens::{StopWords, Tokenizer, count_words};
pub use vocabulary::{Candidates, UNKNOWN, Vocabulary, VocabularyError, WordChoice};

use crate::error::ReadError;
use crate::input::{self, Lines};
use crate::options::{Format, Input, Limits, MAX_MEMORY, OnBadRow};
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
    /// One text a line.
    Text,
    /// A table with a column of texts.
    Table(Format),
}

/// The choices of a reader of documents.
#[derive(Clone, Debug, Default)]
pub struct BagOptions {
    /// The format; otherwise found from the first bytes and the name.
    pub format: Option<BagFormat>,
    /// The words; otherwise found as the module says.
    pub vocabulary: Option<Vocabulary>,
    /// Which words are taken where they are found.
    pub choice: WordChoice,
    /// Whether words that are given become more, as the choice says.
    pub grows: bool,
    /// What an earlier run has found in the same documents: finding other words is an error.
    pub found_before: Option<(Vocabulary, Tokenizer)>,
    /// How text becomes words.
    pub tokenizer: Tokenizer,
    /// Whether words that follow each other often become one, where the words are found.
    pub phrases: bool,
    /// The column, or field, that holds the documents.
    pub column: Option<String>,
    /// Characters of each text that [`Bags::beginnings`] shows.
    pub beginnings: usize,
    /// What to do with lines that are no documents.
    pub on_bad_row: OnBadRow,
    /// Asked while a pipe or standard input is quiet: true ends it there; a record that is not complete is left out.
    pub interrupted: Option<fn() -> bool>,
    /// Bytes that an archive and what is in it may take; otherwise [`MAX_MEMORY`].
    pub max_memory: Option<u64>,
    /// What all of it may come to, for bytes of somebody whom nobody knows.
    pub limits: Option<Limits>,
}

/// Why documents whose words are numbers cannot be read without the words.
const NUMBERS: &str = "its words are numbers: name the file with the words with --vocabulary";

/// `(word, count)` in any order.
type Entries = Vec<(u32, f64)>;

/// A document before its words are looked up.
enum Raw {
    Numbers(Entries),
    Words(BTreeMap<String, f64>),
    Text(String),
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
    /// Documents that were read so far.
    read: u64,
    log: ReadLog,
    /// Somebody wanted to stop.
    stopped: bool,
    skipped: u64,
    unknown: f64,
    /// Words on their way into a vocabulary that grows.
    candidates: Option<Candidates>,
    words: Words,
    beginnings: Vec<String>,
}

/// The words that are known by now, for whoever looks on while documents are read.
#[derive(Clone, Debug, Default)]
pub struct Words(Arc<RwLock<Option<(Vocabulary, Tokenizer)>>>);

impl Words {
    /// Words that stay as they are.
    pub fn fixed(vocabulary: &Vocabulary) -> Self {
        let words = Self::default();
        words.set(vocabulary, &Tokenizer::default());
        words
    }

    /// The vocabulary so far and how text becomes words of it; `None` before the first documents.
    pub fn get(&self) -> Option<(Vocabulary, Tokenizer)> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, vocabulary: &Vocabulary, tokenizer: &Tokenizer) {
        let known = Some((vocabulary.clone(), tokenizer.clone()));
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = known;
    }
}

impl Bags {
    /// Opens the first of the inputs.
    pub fn open(inputs: &[Input], options: BagOptions) -> Result<Self, ReadError> {
        if inputs.is_empty() {
            return Err(ReadError::NoInput);
        }
        let inputs = inputs.iter().cloned().collect();
        let log = ReadLog::default();
        let candidates = (options.grows && options.vocabulary.is_some()).then(Candidates::default);
        let mut bags = Self {
            inputs,
            options,
            reader: None,
            opened: 0,
            read: 0,
            log,
            stopped: false,
            skipped: 0,
            unknown: 0.0,
            candidates,
            words: Words::default(),
            beginnings: Vec::new(),
        };
        bags.open_next()?;
        bags.show_words();
        Ok(bags)
    }

    /// The words, once they are known.
    pub fn vocabulary(&self) -> Option<&Vocabulary> {
        self.options.vocabulary.as_ref()
    }

    /// The words that are known by now, whoever has the documents.
    pub fn words(&self) -> Words {
        self.words.clone()
    }

    fn show_words(&self) {
        let BagOptions { vocabulary, found_before, tokenizer, .. } = &self.options;
        match (vocabulary, found_before) {
            // Both begin alike.
            (now, Some((before, tokenizer))) if now.as_ref().map_or(0, Vocabulary::len) < before.len() => {
                self.words.set(before, tokenizer);
            }
            (Some(now), _) => self.words.set(now, tokenizer),
            (None, _) => {}
        }
    }

    /// Lines that were no documents and were left out.
    pub fn skipped(&self) -> u64 {
        self.skipped + self.reader.as_ref().map_or(0, |(_, reader)| reader.skipped())
    }

    /// Words that were not in the vocabulary.
    pub fn unknown_words(&self) -> f64 {
        self.unknown
    }

    /// How the last documents begin that were read, where that was asked for: empty for those that were no text.
    pub fn beginnings(&self) -> &[String] {
        &self.beginnings
    }

    /// What is read of which input.
    pub fn log(&self) -> ReadLog {
        self.log.clone()
    }

    /// The next `n` documents before their words are looked up, fewer at the end.
    fn next_raw(&mut self, n: usize) -> Result<Vec<(usize, String, Raw)>, ReadError> {
        let mut raw = Vec::new();
        let (mut bytes, limit) = (0, self.options.max_memory.unwrap_or(MAX_MEMORY));
        while raw.len() < n.max(1) {
            let Some((file, reader)) = &mut self.reader else { break };
            match reader.next() {
                Ok(Some(document)) => {
                    if let Raw::Text(text) = &document {
                        bytes += text.len() as u64;
                        if bytes > limit {
                            let what = format!("a minibatch of {n} documents");
                            return Err(ReadError::too_large(file, what, limit));
                        }
                    }
                    self.read += 1;
                    if let Some(Limits { rows, .. }) =
                        self.options.limits.filter(|most| self.read > most.rows)
                    {
                        return Err(ReadError::TooManyRows { file: file.clone(), rows });
                    }
                    raw.push((self.opened - 1, file.clone(), document));
                }
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
        Ok(raw)
    }

    /// The next document as a line that [`Bags`] reads from memory: its words are looked up by whoever learns from it. `None`
    /// when there are no more.
    pub fn next_line(&mut self) -> Result<Option<Vec<u8>>, ReadError> {
        let Some((_, file, raw)) = self.next_raw(1)?.pop() else { return Ok(None) };
        let line = match raw {
            Raw::Numbers(_) if self.options.vocabulary.is_none() => {
                return Err(ReadError::bag(&file, None, NUMBERS.to_owned()));
            }
            Raw::Numbers(entries) => lists::line(&entries),
            Raw::Words(words) => json::line(&words),
            Raw::Text(text) => json::text_line(&text),
        };
        Ok(Some(line.into_bytes()))
    }

    /// The next `n` documents, fewer at the end, `None` when there are no more.
    pub fn next_documents(&mut self, n: usize) -> Result<Option<Documents>, ReadError> {
        let mut raw = self.next_raw(n)?;
        if raw.is_empty() {
            self.check_ends()?;
            return Ok(None);
        }
        if self.options.beginnings > 0 {
            self.beginnings = raw.iter().map(|(_, _, raw)| beginning(raw, self.options.beginnings)).collect();
        }
        self.tokenize(&mut raw);
        let n_words = self.options.vocabulary.as_ref().map(Vocabulary::len);
        match self.options.vocabulary {
            None => self.find_words(&mut raw)?,
            Some(_) => self.find_more(&raw),
        }
        let vocabulary = self.options.vocabulary.as_ref().expect("it was made above");
        if let Some((before, _)) = &self.options.found_before
            && vocabulary.words().iter().zip(before.words()).any(|(now, then)| now != then)
        {
            let detail = "its words are not those that the checkpoint was learned from".to_owned();
            return Err(ReadError::bag(&raw[0].1, None, detail));
        }
        if n_words != Some(vocabulary.len()) {
            self.show_words();
        }
        let mut documents = Documents::none(vocabulary.len());
        for (input, file, raw) in raw {
            let (entries, unknown) = look_up(raw, vocabulary, &self.options.tokenizer);
            self.unknown += unknown;
            let numbers: Vec<f64> =
                entries.iter().flat_map(|(word, count)| [f64::from(*word), *count]).collect();
            self.log.read(input, std::iter::once(numbers.as_slice()))?;
            documents.push(&entries).map_err(|error| ReadError::bag(&file, None, error.to_string()))?;
        }
        self.check_ends()?;
        Ok(Some(documents))
    }

    /// Makes words of texts.
    fn tokenize(&mut self, raw: &mut [(usize, String, Raw)]) {
        if self.options.phrases && self.options.vocabulary.is_none() {
            let texts = raw.iter().filter_map(|(_, _, raw)| match raw {
                Raw::Text(text) => Some(text.as_str()),
                _ => None,
            });
            self.options.tokenizer.learn_phrases(texts);
        }
        for (_, _, raw) in raw {
            if let Raw::Text(text) = raw {
                *raw = Raw::Words(self.options.tokenizer.count(text));
            }
        }
    }

    /// Takes the words of the first documents.
    fn find_words(&mut self, raw: &mut [(usize, String, Raw)]) -> Result<(), ReadError> {
        let words: Vec<&BTreeMap<String, f64>> = worded(raw).collect();
        if words.is_empty() {
            return Err(ReadError::bag(&raw[0].1, None, NUMBERS.to_owned()));
        }
        let choice = &self.options.choice;
        let (vocabulary, common) = Vocabulary::learned(words.into_iter(), choice)
            .map_err(|error| ReadError::bag(&raw[0].1, None, error.to_string()))?;
        if choice.size.is_some() {
            let mut candidates = Candidates::default();
            worded(raw).for_each(|words| {
                let words = words.keys().map(String::as_str).filter(|word| !common.contains(*word));
                candidates.meet(words, &vocabulary, choice);
            });
            self.candidates = Some(candidates);
        }
        self.options.vocabulary = Some(vocabulary);
        self.options.tokenizer.common.extend(common);
        Ok(())
    }

    /// Takes words of later documents, where the vocabulary grows.
    fn find_more(&mut self, raw: &[(usize, String, Raw)]) {
        let (Some(candidates), Some(vocabulary)) = (&mut self.candidates, &mut self.options.vocabulary)
        else {
            return;
        };
        let (choice, common) = (&self.options.choice, &self.options.tokenizer.common);
        worded(raw).for_each(|words| {
            let words = words.keys().map(String::as_str).filter(|word| !common.contains(*word));
            candidates.meet(words, vocabulary, choice);
        });
        candidates.admit(vocabulary, choice);
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
            if let Input::Path(path) = &input
                && path.is_dir()
            {
                let name = input.label();
                let reader: Box<dyn RawReader> = Box::new(text::FolderReader::open(path)?);
                self.begin(name, reader);
                break;
            }
            // Elsewhere the format only silences the guess of the reader of tables.
            let table = match (self.options.format, &self.options.column) {
                (Some(BagFormat::Table(format)), _) => Some(format),
                (None, Some(_)) => None,
                _ => Some(Format::Jsonl),
            };
            let unpacked = self.options.limits.map(|limits| limits.bytes);
            let Some(opened) =
                input::open(&input, table, self.options.interrupted, self.options.max_memory, unpacked)?
            else {
                continue;
            };
            let named = self.options.column.as_deref().filter(|_| opened.format != Format::Jsonl);
            if let Some(column) = named {
                let (name, on_bad_row) = (opened.name.clone(), self.options.on_bad_row);
                let max_memory = self.options.max_memory;
                match text::ColumnReader::open(opened, column, on_bad_row, max_memory)? {
                    Some(reader) => self.begin(name, Box::new(reader)),
                    None => continue,
                }
                break;
            }
            let mut stream = opened.body.into_stream();
            let head = stream.peek(4).map_err(|error| ReadError::io(&opened.name, error))?.to_vec();
            let told = self.options.format.or(self.options.column.as_ref().map(|_| BagFormat::Jsonl));
            let format = match told.or_else(|| guess(&input, &head)) {
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
                BagFormat::Text => Box::new(text::LineReader(Lines::new(&name, stream))),
                BagFormat::Jsonl => Box::new(json::JsonReader::open(
                    Lines::new(&name, stream),
                    self.options.column.clone(),
                    self.options.on_bad_row,
                )),
                BagFormat::Table(format) => {
                    let detail = format!("the column of a {format} that holds the documents is not named");
                    return Err(ReadError::bag(&name, None, detail));
                }
            };
            self.agree(&name, reader.n_words())?;
            self.begin(name, reader);
            break;
        }
        Ok(())
    }

    fn begin(&mut self, name: String, reader: Box<dyn RawReader>) {
        self.log.add_input(name.clone());
        self.opened += 1;
        self.reader = Some((name, reader));
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

/// Documents whose words are words.
fn worded(raw: &[(usize, String, Raw)]) -> impl Iterator<Item = &BTreeMap<String, f64>> {
    raw.iter().filter_map(|(_, _, raw)| match raw {
        Raw::Words(words) => Some(words),
        Raw::Numbers(_) | Raw::Text(_) => None,
    })
}

/// Ascending entries of the vocabulary, and how many words it does not have.
fn look_up(raw: Raw, vocabulary: &Vocabulary, tokenizer: &Tokenizer) -> (Entries, f64) {
    let mut unknown = 0.0;
    let mut entries: Entries = match raw {
        Raw::Numbers(entries) => entries,
        Raw::Text(text) => return look_up(Raw::Words(tokenizer.count(&text)), vocabulary, tokenizer),
        Raw::Words(words) => words
            .into_iter()
            .filter(|(word, _)| !tokenizer.common.contains(word))
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

/// The first characters of a text, on one line.
fn beginning(raw: &Raw, characters: usize) -> String {
    let Raw::Text(text) = raw else { return String::new() };
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if let Some((end, _)) = line.char_indices().nth(characters) {
            line.truncate(end);
            line.push('…');
            break;
        }
    }
    line
}

/// Archives announce themselves; text in braces is JSON; names tell the rest.
fn guess(input: &Input, head: &[u8]) -> Option<BagFormat> {
    if head.starts_with(b"PK") {
        return Some(BagFormat::Npz);
    }
    if head.trim_ascii_start().first() == Some(&b'{') {
        return Some(BagFormat::Jsonl);
    }
    let Input::Path(path) = input else {
        // Bytes have no name: what is no JSON can be lists of numbers alone.
        let is_list = matches!(input, Input::Memory(_)) && head.first().is_some_and(u8::is_ascii_digit);
        return is_list.then_some(BagFormat::Ldac);
    };
    let name = path.file_name()?.to_str()?.to_ascii_lowercase();
    let name = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name).to_owned();
    match () {
        () if name.starts_with("docword.") || name.ends_with(".uci") => Some(BagFormat::Uci),
        () if name.ends_with(".ldac") || name.ends_with(".lda-c") => Some(BagFormat::Ldac),
        () if name.ends_with(".txt") => Some(BagFormat::Text),
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
