//! Topics on the command line: `--model hdp`, and what the other commands do with a model of topics.

mod demo;
mod fit;
mod inspect;
mod outcome;
mod predict;
mod report;
mod stream;
mod subjects;
mod text;
mod typical;
mod watch;

pub use demo::command as demo;
#[cfg(feature = "cluster")]
pub use fit::{BOOTSTRAP_DOCUMENTS, process};
pub use fit::{asked, command as fit, family, stored};
pub use inspect::command as inspect;
pub use predict::command as predict;
#[cfg(feature = "cluster")]
pub use text::{Lexicon, bags};

use anabranch::family::Topic;
use anabranch::posterior::{Component, Posterior};
use anabranch::process::Hierarchical;

/// What model files call it.
pub const NAME: &str = "hdp";

/// Words that a topic is shown by, and that its coherence is judged by.
const TOP_WORDS: usize = 10;

/// The topics from the largest to the smallest, by their words.
fn largest_first(posterior: &Posterior<Topic, Hierarchical>) -> Vec<&Component> {
    let mut topics: Vec<&Component> = posterior.components().iter().map(|c| &**c).collect();
    topics.sort_by(|a, b| b.evidence().stats[0].total_cmp(&a.evidence().stats[0]).then(a.id().cmp(&b.id())));
    topics
}

/// Of how much of a word a topic has it.
const HAS_WORD: f64 = 0.5;

/// The most probable words of a topic, the best first; words that it has but a trace of are left out.
fn top_words(component: &Component, n: usize) -> Vec<u32> {
    let counts = &component.evidence().stats[1..];
    let has = |word: &u32| counts[*word as usize] > HAS_WORD;
    let mut words: Vec<u32> = (0..counts.len() as u32).filter(has).collect();
    words.sort_by(|a, b| counts[*b as usize].total_cmp(&counts[*a as usize]).then(a.cmp(b)));
    words.truncate(n);
    words
}
