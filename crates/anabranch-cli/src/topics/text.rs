//! How documents are opened: formats, text and its words, and the vocabulary.

use std::path::Path;

use anabranch_io::model::{TextProvenance, TopicModel};
use anabranch_io::words::{
    BagFormat, BagOptions, Bags, StopWords, Tokenizer, Vocabulary, WordChoice, read_vocabulary,
};
use anabranch_io::{Format, Input};

use crate::args::{BadRow, ENGLISH, InputFormat, ReadArgs, TopicArgs};
use crate::failure::Failure;
use crate::stop;

/// Words that a vocabulary of texts may grow to, unless told.
const TEXT_WORDS: usize = 20_000;

/// Which words documents are read with.
#[derive(Clone, Debug, Default)]
pub struct Lexicon {
    /// The words; otherwise they are found in the documents.
    vocabulary: Option<Vocabulary>,
    /// Whether these become more.
    grows: bool,
    found_before: Option<(Vocabulary, Tokenizer)>,
    pub text: TextProvenance,
    /// Characters of each text that are shown.
    beginnings: usize,
}

impl Lexicon {
    /// The same, where so many characters of each text are shown.
    pub(super) fn showing(self, beginnings: usize) -> Self {
        Self { beginnings, ..self }
    }

    /// What the flags say.
    pub fn of_flags(inputs: &[String], read: &ReadArgs, args: &TopicArgs) -> Result<Self, Failure> {
        let vocabulary = args.vocabulary.as_deref().map(read_vocabulary).transpose()?;
        let stop_words = match args.stop_words.as_str() {
            "none" => StopWords::None,
            ENGLISH => StopWords::English,
            file => {
                let words = read_vocabulary(file.as_ref())?;
                StopWords::Words(words.words().iter().map(|word| word.to_lowercase()).collect())
            }
        };
        let given = args.vocabulary_size.map(|size| size as usize);
        let grows = vocabulary.is_none() && is_text(inputs, read);
        let text = TextProvenance {
            tokenizer: Tokenizer {
                stop_words,
                least_length: args.min_length as usize,
                ..Tokenizer::default()
            },
            choice: WordChoice {
                least_documents: args.min_documents.map(u64::from),
                most_share: args.max_documents.unwrap_or(1.0),
                size: given.or(grows.then_some(TEXT_WORDS)),
            },
            phrases: args.phrases,
            column: read.text.clone(),
        };
        Ok(Self { vocabulary, text, ..Self::default() })
    }

    /// The words, where they are given.
    #[cfg(feature = "cluster")]
    pub fn vocabulary(&self) -> Option<&Vocabulary> {
        self.vocabulary.as_ref()
    }

    /// What a model says, once all words are known.
    pub(super) fn of_model(model: &TopicModel) -> Self {
        let text = model.provenance.text.clone().unwrap_or_default();
        Self::known(model.vocabulary.clone(), text)
    }

    /// What a model says that learns from other documents: words that come now are taken where its words grew.
    pub(super) fn going_on(model: &TopicModel) -> Self {
        Self { grows: true, ..Self::of_model(model) }
    }

    /// These words, and no others.
    pub(super) fn known(vocabulary: Vocabulary, text: TextProvenance) -> Self {
        Self { vocabulary: Some(vocabulary), text, ..Self::default() }
    }

    /// The words of a run that goes on: those of its checkpoint, or the way there where they grow.
    pub(super) fn resumed(self, model: &TopicModel) -> Self {
        if self.text.choice.size.is_none() || model.fold.posterior().pass() > 0 {
            return Self::of_model(model);
        }
        let before = Self::of_model(model);
        Self { found_before: Some((model.vocabulary.clone(), before.text.tokenizer)), ..self }
    }
}

/// Whether the words of the input are not counted yet, as far as names and flags tell.
fn is_text(inputs: &[String], read: &ReadArgs) -> bool {
    let named = |input: &String| is_named_text(input) || Path::new(input).is_dir();
    match read.format {
        Some(InputFormat::Txt) => true,
        _ if read.text.is_some() => true,
        None => inputs.iter().all(named),
        Some(_) => false,
    }
}

fn is_named_text(input: &str) -> bool {
    let name = input.to_ascii_lowercase();
    [".txt", ".txt.gz", ".txt.zst"].iter().any(|end| name.ends_with(end))
}

/// Whether the input is a table, as far as its name and the flags tell, in which documents are a column.
fn is_table(input: &str, read: &ReadArgs) -> bool {
    let named = || match Format::from_path(Path::new(input)) {
        None | Some(Format::Npy) => false,
        Some(_) => !is_named_text(input),
    };
    match read.format {
        None => input == "-" || named(),
        Some(InputFormat::Npz | InputFormat::Uci | InputFormat::Ldac | InputFormat::Txt) => false,
        Some(_) => true,
    }
}

/// Opens documents as the flags say, and the model where they say nothing.
pub fn bags(inputs: &[String], read: &ReadArgs, lexicon: Lexicon) -> Result<Bags, Failure> {
    let as_before =
        || lexicon.text.column.clone().filter(|_| inputs.iter().all(|input| is_table(input, read)));
    let column = &read.text.clone().or_else(as_before);
    let format = match read.format {
        None => None,
        Some(InputFormat::Npz) => Some(BagFormat::Npz),
        Some(InputFormat::Uci) => Some(BagFormat::Uci),
        Some(InputFormat::Ldac) => Some(BagFormat::Ldac),
        Some(InputFormat::Txt) => Some(BagFormat::Text),
        Some(InputFormat::Rows(Format::Jsonl)) => Some(BagFormat::Jsonl),
        Some(InputFormat::Rows(table)) if column.is_some() && table != Format::Npy => {
            Some(BagFormat::Table(table))
        }
        Some(InputFormat::Rows(other)) => {
            return Err(Failure::input(format!("--format {} holds rows, not documents", other.name()))
            .with_hint("name the column that holds the documents with --text; documents are read from txt, uci, ldac, npz and jsonl too"));
        }
    };
    let whole = [InputFormat::Npz, InputFormat::Uci, InputFormat::Ldac, InputFormat::Txt];
    if let (Some(format), Some(_)) = (read.format.filter(|format| whole.contains(format)), column) {
        return Err(Failure::input(
            format!("--text names a column; --format {format:?} has none").to_lowercase(),
        ));
    }
    let on_bad_row = match read.on_bad_row {
        BadRow::Fail => anabranch_io::OnBadRow::Fail,
        BadRow::Skip => anabranch_io::OnBadRow::Skip,
    };
    let inputs: Vec<Input> = inputs.iter().map(|argument| Input::from_argument(argument)).collect();
    let TextProvenance { tokenizer, choice, phrases, .. } = lexicon.text;
    let options = BagOptions {
        format,
        vocabulary: lexicon.vocabulary,
        choice,
        grows: lexicon.grows,
        found_before: lexicon.found_before,
        tokenizer,
        phrases,
        column: column.clone(),
        beginnings: lexicon.beginnings,
        on_bad_row,
        interrupted: Some(stop::asked as fn() -> bool),
        max_memory: Some(read.max_memory),
        limits: None,
    };
    Ok(Bags::open(&inputs, options)?)
}
