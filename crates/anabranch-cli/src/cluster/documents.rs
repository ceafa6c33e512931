//! Documents on their way into a job: as lines that any worker reads, with the words that the job has.

use anabranch::process::Hierarchical;
use anabranch_cluster::{Digest, JobSpec, ModelSpec, TopicSpec, WordSpec};
use anabranch_io::words::Bags;

use super::submit::Published;
use crate::args::{ReadArgs, TopicArgs};
use crate::failure::Failure;
use crate::topics::{self, Lexicon};

/// Documents as messages.
pub struct Lines {
    bags: Bags,
    /// Documents of a message,
    size: usize,
    /// and its bytes at most.
    limit: usize,
    /// What was too long for the message before.
    ahead: Option<Vec<u8>>,
}

impl Lines {
    /// Messages of so many documents, or fewer where they would be longer than a server takes.
    pub fn new(bags: Bags, size: u32) -> Self {
        Self { bags, size: size as usize, limit: usize::MAX, ahead: None }
    }
}

impl Published for Lines {
    type Piece = Vec<Vec<u8>>;

    fn fit_into(&mut self, bytes: usize) {
        self.limit = bytes;
    }

    fn next(&mut self) -> Result<Option<Self::Piece>, Failure> {
        let (mut piece, mut bytes) = (Vec::new(), 0);
        while piece.len() < self.size {
            let line = match self.ahead.take() {
                Some(line) => line,
                None => match self.bags.next_line()? {
                    Some(line) => line,
                    None => break,
                },
            };
            bytes += line.len();
            if bytes > self.limit && !piece.is_empty() {
                self.ahead = Some(line);
                break;
            }
            piece.push(line);
        }
        Ok((!piece.is_empty()).then_some(piece))
    }

    fn rows(piece: &Self::Piece) -> usize {
        piece.len()
    }

    fn digest(piece: &Self::Piece, rows: std::ops::Range<usize>, seen: &mut Digest) {
        piece[rows].iter().for_each(|line| seen.add_line(line));
    }

    fn message(&self, piece: &Self::Piece, from: usize) -> Result<Vec<u8>, Failure> {
        Ok(piece[from..].concat())
    }
}

/// The documents, the settings of a job that learns their topics, and what is attached to those.
pub fn open(
    inputs: &[String],
    read: &ReadArgs,
    args: &TopicArgs,
    process: Hierarchical,
    spec: JobSpec,
) -> Result<(Option<Bags>, JobSpec, Vec<u8>), Failure> {
    let lexicon = Lexicon::of_flags(inputs, read, args)?;
    let text = lexicon.text.clone();
    let given = lexicon.vocabulary().map(|vocabulary| vocabulary.words().join("\n").into_bytes());
    let bags = match inputs.is_empty() {
        true => None,
        false => Some(topics::bags(inputs, read, lexicon)?),
    };
    let numbered = bags.as_ref().and_then(Bags::vocabulary).map(|vocabulary| vocabulary.len() as u64);
    let words = match (&given, numbered) {
        (Some(_), _) => WordSpec::Attached,
        (None, Some(n)) => WordSpec::Numbered(n),
        (None, None) => WordSpec::Found,
    };
    let topics = TopicSpec { process, eta: args.eta, words, text };
    topics::family(args, 1).map_err(Failure::input)?;
    Ok((bags, spec.of(ModelSpec::Topics(Box::new(topics))), given.unwrap_or_default()))
}
