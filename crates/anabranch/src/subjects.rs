//! Which topics are parts of one subject, and which words tell what it is about.
//!
//! A label of a word that names its topic tells something about the word. Where two topics are taken for one, it tells less, by
//!
//! ```text
//! loss(a, b) = Σ_w [f(p_aw) + f(p_bw) − f(p_aw + p_bw)] − [f(p_a) + f(p_b) − f(p_a + p_b)],   f(x) = x log x
//! ```
//!
//! nats a word, where `p_aw` is the share of all words that are word `w` of topic `a`: the Jensen–Shannon divergence of the two,
//! weighed by their size (the information bottleneck of Slonim and Tishby 1999). The pair that loses least is joined, again and
//! again. The subjects are those before the step that costs most beside the one before it. Topics then move to the subject in
//! which they lose least until none moves; the tree above is that of what they have become. Where topics of one subject have
//! hardly more words in common than topics of two, there are no subjects: each topic is one.

use crate::family::Topic;
use crate::posterior::{Component, Posterior};
use crate::process::Hierarchical;

/// So few topics are counted at a glance, and stay as they are.
const FEW: usize = 7;
/// Subjects that a reader would count at most.
const MOST: usize = 30;
/// A topic has a word that it has this much of.
const HAS_WORD: f64 = 0.5;
/// Steps that lose less than this, in nats a word, lose nothing.
const NOTHING: f64 = 1e-9;
/// Topics of one subject have so many times as much in common as topics of two, and at least a little of what two equal topics
/// would have.
const STANDS_OUT: f64 = 1.1;
const LITTLE: f64 = 0.1;
/// Rounds in which topics move.
const ROUNDS: usize = 20;
/// Weight of frequency beside lift in the relevance of a word (Sievert and Shirley 2014).
const FREQUENCY: f64 = 0.6;

/// Topics that are about the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    /// Their positions in the posterior, the largest first.
    pub topics: Vec<usize>,
    /// Words that they have.
    pub mass: f64,
    /// Of each word of the vocabulary.
    pub counts: Vec<f64>,
}

/// A step of the tree above the subjects. They are numbered as they stand, and what has been joined after them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Join {
    /// What is joined.
    pub parts: [usize; 2],
    /// What that loses, in nats a word.
    pub loss: f64,
}

/// The subjects of a model, the largest first, and the tree above them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Subjects {
    /// The subjects.
    pub list: Vec<Subject>,
    /// How they would go on to join, one fewer than subjects.
    pub joins: Vec<Join>,
}

/// `x log x`.
fn f(x: f64) -> f64 {
    if x > 0.0 { x * x.ln() } else { 0.0 }
}

/// Shares of all words, for the words that there are, ascending.
#[derive(Clone, Debug)]
struct Group {
    words: Vec<(u32, f64)>,
    size: f64,
}

impl Group {
    fn of(counts: &[f64], least: f64, total: f64) -> Self {
        let has = (0..).zip(counts).filter(|(_, count)| **count > least);
        let words: Vec<(u32, f64)> = has.map(|(word, count)| (word, count / total)).collect();
        let size = words.iter().map(|(_, share)| share).sum();
        Self { words, size }
    }

    fn loss(&self, other: &Self) -> f64 {
        let (mut a, mut b) = (self.words.as_slice(), other.words.as_slice());
        let mut common = 0.0;
        while let ([(word, x), ..], [(other, y), ..]) = (a, b) {
            if word == other {
                common += f(*x) + f(*y) - f(x + y);
            }
            if word <= other {
                a = &a[1..];
            }
            if other <= word {
                b = &b[1..];
            }
        }
        (common - f(self.size) - f(other.size) + f(self.size + other.size)).max(0.0)
    }

    fn join(&mut self, other: &Self) {
        let mut words: Vec<(u32, f64)> = [&self.words[..], &other.words[..]].concat();
        words.sort_unstable_by_key(|(word, _)| *word);
        words.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
        (self.words, self.size) = (words, self.size + other.size);
    }
}

/// What joining each two of them loses, `a` and `b > a` at `a n + b`.
fn losses(groups: &[Group]) -> Vec<f64> {
    let n = groups.len();
    let mut loss = vec![f64::INFINITY; n * n];
    for a in 0..n {
        for b in a + 1..n {
            loss[a * n + b] = groups[a].loss(&groups[b]);
        }
    }
    loss
}

/// Whether topics of one subject have words in common, and more than topics of two: topics without a common word can be joined
/// like any others, and what comes of it are no subjects.
fn stand_out(groups: &[Group], losses: &[f64], labels: &[usize]) -> bool {
    let n = groups.len();
    let (mut within, mut between) = ((0.0, 0.0), (0.0, 0.0));
    for a in 0..n {
        for b in a + 1..n {
            let (x, y) = (groups[a].size, groups[b].size);
            // What the two would lose if they had no word in common.
            let most = f(x + y) - f(x) - f(y);
            let (sum, pairs) = if labels[a] == labels[b] { &mut within } else { &mut between };
            *sum += if most > 0.0 { 1.0 - losses[a * n + b] / most } else { 0.0 };
            *pairs += 1.0;
        }
    }
    let mean = |(sum, pairs): (f64, f64)| if pairs > 0.0 { sum / pairs } else { 0.0 };
    mean(within) > LITTLE.max(STANDS_OUT * mean(between))
}

/// Joins the pair that loses least until one is left: who took whom, and the loss.
fn agglomerate(mut groups: Vec<Group>, mut loss: Vec<f64>) -> Vec<(usize, usize, f64)> {
    let n = groups.len();
    let nearest = |loss: &[f64], a: usize| {
        let row = &loss[a * n..(a + 1) * n];
        (0..n).min_by(|x, y| row[*x].total_cmp(&row[*y])).map_or((a, f64::INFINITY), |b| (b, row[b]))
    };
    let mut best: Vec<(usize, f64)> = (0..n).map(|a| nearest(&loss, a)).collect();
    let mut living = vec![true; n];
    let mut steps = Vec::new();
    for _ in 1..n {
        let a = (0..n).min_by(|x, y| best[*x].1.total_cmp(&best[*y].1)).unwrap_or(0);
        let (b, least) = best[a];
        steps.push((a, b, least));
        let ended = groups[b].clone();
        groups[a].join(&ended);
        living[b] = false;
        for c in 0..n {
            (loss[b * n + c], loss[c * n + b]) = (f64::INFINITY, f64::INFINITY);
        }
        for c in (0..n).filter(|c| living[*c] && *c != a) {
            loss[a.min(c) * n + a.max(c)] = groups[a].loss(&groups[c]);
        }
        for c in 0..n {
            // Above the joined one in its row only one number has changed, and that can be the least.
            let changed = if c < a && living[c] { (a, loss[c * n + a]) } else { (c, f64::INFINITY) };
            if c == a || c == b || best[c].0 == b || best[c].0 == a {
                best[c] = nearest(&loss, c);
            } else if changed.1 < best[c].1 {
                best[c] = changed;
            }
        }
    }
    steps
}

/// How many subjects there are before the step that costs most beside the one before it.
fn count(topics: usize, steps: &[(usize, usize, f64)]) -> usize {
    if topics <= FEW {
        return topics;
    }
    // The step from `k` to `k − 1` is number `topics − k`.
    let jump = |k: usize| (steps[topics - k].2 + NOTHING) / (steps[topics - k - 1].2 + NOTHING);
    (2..=MOST.min(topics / 2)).max_by(|a, b| jump(*a).total_cmp(&jump(*b)).then(b.cmp(a))).unwrap_or(topics)
}

/// Topics move to the subject in which they lose least, the largest topics first, until none moves.
fn settle(groups: &[Group], labels: &mut [usize], subjects: usize, n_words: usize) {
    let mut shares = vec![vec![0.0; n_words]; subjects];
    let mut sizes = vec![0.0; subjects];
    let mut members = vec![0; subjects];
    for (group, label) in groups.iter().zip(labels.iter()) {
        group.words.iter().for_each(|(word, share)| shares[*label][*word as usize] += share);
        sizes[*label] += group.size;
        members[*label] += 1;
    }
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by(|a, b| groups[*b].size.total_cmp(&groups[*a].size).then(a.cmp(b)));
    for _ in 0..ROUNDS {
        let mut moved = false;
        for topic in &order {
            let (group, from) = (&groups[*topic], labels[*topic]);
            if members[from] == 1 {
                continue;
            }
            let add = |shares: &mut Vec<f64>, size: &mut f64, sign: f64| {
                for (word, share) in &group.words {
                    let there = &mut shares[*word as usize];
                    *there = (*there + sign * share).max(0.0);
                }
                *size += sign * group.size;
            };
            add(&mut shares[from], &mut sizes[from], -1.0);
            let loss = |subject: usize| {
                let words = group.words.iter().map(|(word, share)| {
                    let there = shares[subject][*word as usize];
                    f(there) - f(there + share)
                });
                words.sum::<f64>() - f(sizes[subject]) + f(sizes[subject] + group.size)
            };
            let losses: Vec<f64> = (0..subjects).map(loss).collect();
            let to = (0..subjects).min_by(|a, b| losses[*a].total_cmp(&losses[*b])).unwrap_or(from);
            // A move that gains nothing would go on for ever.
            let to = if losses[from] - losses[to] > NOTHING * group.size { to } else { from };
            add(&mut shares[to], &mut sizes[to], 1.0);
            members[from] -= 1;
            members[to] += 1;
            labels[*topic] = to;
            moved |= to != from;
        }
        if !moved {
            break;
        }
    }
}

/// The subjects of a posterior of topics.
///
/// ```
/// use anabranch::family::Topic;
/// use anabranch::posterior::Posterior;
/// use anabranch::process::{Bound, Hierarchical};
/// use anabranch::subjects::subjects;
/// let process = Hierarchical::new(1.0, 1.0, Bound::Paper)?;
/// assert!(subjects(&Posterior::prior(Topic::new(5, 0.1)?, process)).list.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn subjects(posterior: &Posterior<Topic, Hierarchical>) -> Subjects {
    let topics: Vec<&[f64]> =
        posterior.components().iter().map(|topic| &topic.evidence().stats[1..]).collect();
    group(&topics)
}

/// The subjects of topics that are counts of words.
fn group(topics: &[&[f64]]) -> Subjects {
    let mass = |counts: &[f64]| counts.iter().sum::<f64>();
    let total = topics.iter().map(|counts| mass(counts)).sum::<f64>().max(f64::MIN_POSITIVE);
    let n_words = topics.first().map_or(0, |counts| counts.len());
    let groups: Vec<Group> = topics.iter().map(|counts| Group::of(counts, HAS_WORD, total)).collect();
    let mut labels: Vec<usize> = (0..topics.len()).collect();
    if topics.len() > FEW {
        let losses = losses(&groups);
        let steps = agglomerate(groups.clone(), losses.clone());
        let subjects = count(topics.len(), &steps);
        for (into, ended, _) in &steps[..topics.len() - subjects] {
            labels.iter_mut().filter(|label| *label == ended).for_each(|label| *label = *into);
        }
        let mut names = labels.clone();
        names.sort_unstable();
        names.dedup();
        labels.iter_mut().for_each(|label| *label = names.partition_point(|name| name < label));
        settle(&groups, &mut labels, subjects, n_words);
        if !stand_out(&groups, &losses, &labels) {
            labels = (0..topics.len()).collect();
        }
    }
    let n_subjects = labels.iter().max().map_or(0, |last| last + 1);
    let mut list: Vec<Subject> = (0..n_subjects)
        .map(|subject| {
            let mut own: Vec<usize> = (0..topics.len()).filter(|ix| labels[*ix] == subject).collect();
            own.sort_by(|a, b| mass(topics[*b]).total_cmp(&mass(topics[*a])).then(a.cmp(b)));
            let mut counts = vec![0.0; n_words];
            for topic in &own {
                counts.iter_mut().zip(topics[*topic]).for_each(|(sum, count)| *sum += count);
            }
            Subject { mass: mass(&counts), topics: own, counts }
        })
        .collect();
    list.sort_by(|a, b| b.mass.total_cmp(&a.mass).then(a.topics.cmp(&b.topics)));
    let groups: Vec<Group> = list.iter().map(|subject| Group::of(&subject.counts, 0.0, total)).collect();
    let steps = agglomerate(groups.clone(), losses(&groups));
    let mut names: Vec<usize> = (0..list.len()).collect();
    let joins = steps.into_iter().enumerate().map(|(step, (into, ended, loss))| {
        let parts = [names[into], names[ended]];
        names[into] = list.len() + step;
        Join { parts, loss }
    });
    let joins = joins.collect();
    Subjects { list, joins }
}

/// The words that tell best what some words are about, the best first: the logarithm of their frequency, and how much more
/// frequent they are than among all words.
///
/// ```
/// use anabranch::subjects::telling_words;
/// // The first word is everywhere; the second is what these are about.
/// assert_eq!(telling_words(&[50.0, 40.0, 0.0], &[500.0, 40.0, 60.0], 5), [1, 0]);
/// ```
pub fn telling_words(counts: &[f64], all: &[f64], n: usize) -> Vec<u32> {
    let (mass, total) = (counts.iter().sum::<f64>(), all.iter().sum::<f64>());
    let relevance = |word: u32| {
        let (here, there) = (counts[word as usize] / mass, all[word as usize] / total);
        here.ln() - (1.0 - FREQUENCY) * there.ln()
    };
    let has = |word: &u32| counts[*word as usize] > HAS_WORD;
    let mut words: Vec<(u32, f64)> =
        (0..counts.len() as u32).filter(has).map(|word| (word, relevance(word))).collect();
    words.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    words.into_iter().take(n).map(|(word, _)| word).collect()
}

/// How often each word is in all topics.
pub fn all_words(posterior: &Posterior<Topic, Hierarchical>) -> Vec<f64> {
    let mut all = vec![0.0; posterior.family().n_words()];
    for topic in posterior.components() {
        let counts = &Component::evidence(topic).stats[1..];
        all.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    /// Topics of which each has words of its subject and words of its own.
    fn planted(subjects: usize, topics: usize, seed: u64) -> (Vec<Vec<f64>>, Vec<usize>) {
        let rng = &mut Xoshiro256PlusPlus::seed_from_u64(seed);
        let n_words = 20 * subjects * (topics + 1) + 30;
        let mut all = Vec::new();
        for subject in 0..subjects {
            for topic in 0..topics {
                let mut counts = vec![0.0; n_words];
                let first = 20 * subject * (topics + 1);
                for _ in 0..1500 + 200 * topic {
                    let word = match rng.random_range(0..10) {
                        0 => n_words - 30 + rng.random_range(0..30),
                        1..=5 => first + rng.random_range(0..20),
                        _ => first + 20 * (topic + 1) + rng.random_range(0..20),
                    };
                    counts[word] += 1.0;
                }
                all.push((counts, subject));
            }
        }
        // In an order that tells nothing.
        let n = all.len();
        let order: Vec<usize> = (0..n).map(|ix| (ix * 7 + 3) % n).collect();
        order.iter().map(|ix| all[*ix].clone()).unzip()
    }

    fn grouped(topics: &[Vec<f64>]) -> Subjects {
        group(&topics.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    #[test]
    fn planted_subjects_are_found() {
        for (subjects, topics) in [(2, 5), (3, 8), (5, 4), (8, 3), (10, 2)] {
            let (counts, truth) = planted(subjects, topics, 5);
            let found = grouped(&counts);
            assert_eq!((found.list.len(), found.joins.len()), (subjects, subjects - 1));
            for subject in &found.list {
                assert!(subject.topics.iter().all(|ix| truth[*ix] == truth[subject.topics[0]]));
                let own: f64 = subject.topics.iter().flat_map(|ix| &counts[*ix]).sum();
                assert!((subject.mass - own).abs() < 1e-9);
            }
            let mut all: Vec<usize> = found.list.iter().flat_map(|subject| subject.topics.clone()).collect();
            all.sort_unstable();
            assert_eq!(all, (0..counts.len()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn few_topics_stay_as_they_are() {
        let (counts, _) = planted(2, 3, 1);
        let found = grouped(&counts);
        assert!(found.list.iter().all(|subject| subject.topics.len() == 1) && found.list.len() == 6);
        assert_eq!(grouped(&[]), Subjects::default());
    }

    #[test]
    fn topics_without_a_common_word_are_no_subject() {
        let count = |topic: usize, word: usize| if word / 20 == topic { 30.0 } else { 0.0 };
        let topics: Vec<Vec<f64>> =
            (0..12).map(|topic| (0..240).map(|word| count(topic, word)).collect()).collect();
        assert_eq!(grouped(&topics).list.len(), 12);
    }

    /// The loss of a pair is what the mutual information of topic and word falls by.
    #[test]
    fn the_loss_is_that_of_mutual_information() {
        let topics = [vec![3.0, 1.0, 0.0, 2.0], vec![1.0, 4.0, 1.0, 0.0], vec![0.0, 2.0, 5.0, 1.0]];
        let information = |topics: &[Vec<f64>]| {
            let total: f64 = topics.iter().flatten().sum();
            let mut sum = 0.0;
            for topic in topics {
                for (word, count) in topic.iter().enumerate().filter(|(_, count)| **count > 0.0) {
                    let of_word: f64 = topics.iter().map(|topic| topic[word]).sum();
                    sum += count / total * (count * total / (of_word * topic.iter().sum::<f64>())).ln();
                }
            }
            sum
        };
        let both: Vec<f64> = topics[0].iter().zip(&topics[2]).map(|(a, b)| a + b).collect();
        let lost = information(&topics) - information(&[both, topics[1].clone()]);
        let groups = topics.each_ref().map(|topic| Group::of(topic, HAS_WORD, 20.0));
        assert!((groups[0].loss(&groups[2]) - lost).abs() < 1e-12);
        let mut joined = groups[0].clone();
        joined.join(&groups[2]);
        assert!((joined.size - 14.0 / 20.0).abs() < 1e-12 && joined.words.len() == 4);
    }

    /// The cheapest pair of all, step by step, by looking at all of them.
    #[test]
    fn the_pair_that_loses_least_is_joined() {
        let (counts, _) = planted(3, 4, 9);
        let total: f64 = counts.iter().flatten().sum();
        let groups: Vec<Group> = counts.iter().map(|counts| Group::of(counts, HAS_WORD, total)).collect();
        let mut living: Vec<Option<Group>> = groups.iter().cloned().map(Some).collect();
        for (into, ended, loss) in agglomerate(groups.clone(), losses(&groups)) {
            let all = living.iter().flatten().collect::<Vec<_>>();
            let pairs = (0..all.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
            let least = pairs.map(|(a, b)| all[a].loss(all[b])).fold(f64::INFINITY, f64::min);
            assert!((loss - least).abs() < 1e-12, "{loss} {least}");
            let gone = living[ended].take().unwrap();
            living[into].as_mut().unwrap().join(&gone);
        }
    }
}
