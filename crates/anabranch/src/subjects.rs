//! Which topics are parts of one subject, and which words tell what it is about.
//!
//! Take two occurrences of the same word. How often are they of topics `a` and `b`, beside how often that would be by chance?
//!
//! ```text
//! affinity(a, b) = Σ_w p_aw p_bw / p_w − p_a p_b
//! ```
//!
//! where `p_aw` is the share of all words that are word `w` of topic `a`. The subjects are the groups with the largest sum of
//! affinities within them, each topic with itself among them: the modularity (Newman and Girvan 2004) of the words that topics
//! have in common. There is no number of subjects to choose. Topics move to the group to which they have most affinity, the two
//! groups with most affinity become one, and so on until neither gains. Above the subjects, what has most affinity joins first.
//!
//! Topics that choose their words independently of each other have some of them in common too. So the same is done when each
//! word goes to other topics, drawn by their size: where subjects gain hardly more than that, there are none, and each topic is
//! one.

use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::family::Topic;
use crate::posterior::{Component, Posterior};
use crate::process::Hierarchical;

/// So few topics are counted at a glance, and stay as they are.
const FEW: usize = 7;
/// A topic has a word that it has this much of.
const HAS_WORD: f64 = 0.5;
/// Affinities below this are none.
const NOTHING: f64 = 1e-12;
/// Subjects gain so many times what they would by chance, at the most of so many draws …
const BEYOND_CHANCE: f64 = 2.0;
const DRAWS: usize = 5;
const SEED: u64 = 0x5EED;
/// … and at least so much of what topics have with themselves.
const LITTLE: f64 = 0.01;
/// Smaller subjects, of all words, join another one.
const SMALL: f64 = 0.01;
/// Rounds in which topics move.
const ROUNDS: usize = 50;
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
    /// How much less often than by chance two occurrences of one word are of the two.
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

/// Of each word, the topics that have it, and what share of all words that is.
#[derive(Clone, Debug)]
struct Words {
    n_topics: usize,
    of: Vec<Vec<(usize, f64)>>,
}

impl Words {
    fn new(topics: &[&[f64]]) -> Self {
        let n_words = topics.first().map_or(0, |counts| counts.len());
        let mut of = vec![Vec::new(); n_words];
        for (topic, counts) in topics.iter().enumerate() {
            for (word, count) in counts.iter().enumerate().filter(|(_, count)| **count > HAS_WORD) {
                of[word].push((topic, *count));
            }
        }
        let total: f64 = of.iter().flatten().map(|(_, count)| count).sum();
        of.iter_mut().flatten().for_each(|(_, count)| *count /= total);
        Self { n_topics: topics.len(), of }
    }

    /// The share of each topic.
    fn sizes(&self) -> Vec<f64> {
        let mut sizes = vec![0.0; self.n_topics];
        self.of.iter().flatten().for_each(|(topic, share)| sizes[*topic] += share);
        sizes
    }

    /// The affinity of each two topics, row after row.
    fn affinity(&self) -> Vec<f64> {
        let (n, sizes) = (self.n_topics, self.sizes());
        let mut affinity: Vec<f64> = sizes.iter().flat_map(|a| sizes.iter().map(move |b| -a * b)).collect();
        for word in &self.of {
            let all: f64 = word.iter().map(|(_, share)| share).sum();
            for (a, share) in word {
                word.iter().for_each(|(b, other)| affinity[a * n + b] += share * other / all);
            }
        }
        affinity
    }

    /// Each word in other topics, drawn by their size: the most of it in the first, and so on.
    fn by_chance(&self, rng: &mut impl Rng) -> Self {
        let sizes = self.sizes();
        let ends: Vec<f64> = sizes
            .iter()
            .scan(0.0, |end, size| {
                *end += size;
                Some(*end)
            })
            .collect();
        let whole = ends.last().copied().unwrap_or(0.0);
        let of = self.of.iter().map(|word| {
            let mut shares: Vec<f64> = word.iter().map(|(_, share)| *share).collect();
            shares.sort_by(|a, b| b.total_cmp(a));
            let mut taken = vec![false; self.n_topics];
            let mut drawn = Vec::with_capacity(shares.len());
            let mut tries = 0;
            while drawn.len() < shares.len() && tries < 2 * self.n_topics {
                let at = rng.random::<f64>() * whole;
                let topic = ends.partition_point(|end| *end <= at).min(self.n_topics - 1);
                if !std::mem::replace(&mut taken[topic], true) {
                    drawn.push(topic);
                }
                tries += 1;
            }
            // What few tries reach comes in the order of a race with these speeds, which is the same.
            let mut left: Vec<(f64, usize)> = Vec::new();
            if drawn.len() < shares.len() {
                let others = (0..self.n_topics).filter(|topic| !taken[*topic]);
                left.extend(others.map(|topic| (-rng.random::<f64>().ln() / sizes[topic], topic)));
                left.sort_by(|a, b| a.0.total_cmp(&b.0));
            }
            let order = drawn.into_iter().chain(left.into_iter().map(|(_, topic)| topic));
            order.zip(shares).collect()
        });
        Self { n_topics: self.n_topics, of: of.collect() }
    }
}

/// Topics in groups: a group is called by a number below that of the topics.
#[derive(Clone, Debug)]
struct Groups {
    n: usize,
    label: Vec<usize>,
    members: Vec<usize>,
    /// The affinity of each topic to each group, row after row.
    to_group: Vec<f64>,
}

impl Groups {
    /// Each topic alone.
    fn alone(affinity: &[f64], n: usize) -> Self {
        Self { n, label: (0..n).collect(), members: vec![1; n], to_group: affinity.to_vec() }
    }

    /// The groups that have most affinity within them; topics move in this order.
    fn gather(&mut self, affinity: &[f64], order: &[usize]) {
        loop {
            for _ in 0..ROUNDS {
                let moved = order.iter().filter(|topic| self.change(affinity, **topic)).count();
                if moved == 0 {
                    break;
                }
            }
            match self.nearest(|_| true) {
                Some((into, ended, between)) if between > NOTHING => self.join(into, ended),
                _ => return,
            }
        }
    }

    /// Moves a topic to the group to which it has most affinity, which can be one of its own.
    fn change(&mut self, affinity: &[f64], topic: usize) -> bool {
        let (n, from) = (self.n, self.label[topic]);
        let row = &self.to_group[topic * n..(topic + 1) * n];
        let stays = row[from] - affinity[topic * n + topic];
        let others = (0..n).filter(|group| *group != from);
        let Some(to) = others.max_by(|a, b| row[*a].total_cmp(&row[*b]).then(b.cmp(a))) else { return false };
        if row[to] <= stays + NOTHING {
            return false;
        }
        for other in 0..n {
            self.to_group[other * n + from] -= affinity[other * n + topic];
            self.to_group[other * n + to] += affinity[other * n + topic];
        }
        self.label[topic] = to;
        self.members[from] -= 1;
        self.members[to] += 1;
        if self.members[from] == 0 {
            (0..n).for_each(|other| self.to_group[other * n + from] = 0.0);
        }
        true
    }

    /// Of two groups, one of which is meant, those with most affinity: the larger number ends.
    fn nearest(&self, meant: impl Fn(usize) -> bool) -> Option<(usize, usize, f64)> {
        let n = self.n;
        let mut between = vec![0.0; n * n];
        for (topic, label) in self.label.iter().enumerate() {
            let row = &self.to_group[topic * n..(topic + 1) * n];
            between[label * n..(label + 1) * n].iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        }
        let living: Vec<usize> = (0..n).filter(|group| self.members[*group] > 0).collect();
        let pairs =
            living.iter().enumerate().flat_map(|(at, a)| living[at + 1..].iter().map(move |b| (*a, *b)));
        let meant = pairs.filter(|(a, b)| meant(*a) || meant(*b));
        let best =
            meant.max_by(|x, y| between[x.0 * n + x.1].total_cmp(&between[y.0 * n + y.1]).then(y.cmp(x)));
        best.map(|(a, b)| (a, b, between[a * n + b]))
    }

    fn join(&mut self, into: usize, ended: usize) {
        let n = self.n;
        for row in self.to_group.chunks_exact_mut(n) {
            row[into] += std::mem::take(&mut row[ended]);
        }
        self.label.iter_mut().filter(|label| **label == ended).for_each(|label| *label = into);
        self.members[into] += std::mem::take(&mut self.members[ended]);
    }

    /// Groups with less than a little of all words join another one.
    fn join_small(&mut self, sizes: &[f64]) {
        loop {
            let mut mass = vec![0.0; self.n];
            self.label.iter().zip(sizes).for_each(|(label, size)| mass[*label] += size);
            match self.nearest(|group| mass[group] < SMALL) {
                Some((into, ended, _)) => self.join(into, ended),
                None => return,
            }
        }
    }

    /// The affinity that topics have to others of their group.
    fn gain(&self, affinity: &[f64]) -> f64 {
        let of = |(topic, label): (usize, &usize)| {
            self.to_group[topic * self.n + label] - affinity[topic * (self.n + 1)]
        };
        self.label.iter().enumerate().map(of).sum()
    }
}

/// The best groups, and what they gain beside topics alone.
fn gathered(words: &Words, affinity: &[f64]) -> (Groups, f64) {
    let sizes = words.sizes();
    let mut order: Vec<usize> = (0..words.n_topics).collect();
    order.sort_by(|a, b| sizes[*b].total_cmp(&sizes[*a]).then(a.cmp(b)));
    let mut groups = Groups::alone(affinity, words.n_topics);
    groups.gather(affinity, &order);
    let gain = groups.gain(affinity);
    (groups, gain)
}

/// Whether subjects gain more than they would by chance, and more than a little.
fn stand_out(words: &Words, affinity: &[f64], gain: f64) -> bool {
    let alone: f64 = (0..words.n_topics).map(|topic| affinity[topic * (words.n_topics + 1)]).sum();
    let rng = &mut Xoshiro256PlusPlus::seed_from_u64(SEED);
    let mut exceeds = |_| {
        let chance = words.by_chance(rng);
        gain > BEYOND_CHANCE * gathered(&chance, &chance.affinity()).1
    };
    gain > LITTLE * alone && (0..DRAWS).all(&mut exceeds)
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
    let n_words = topics.first().map_or(0, |counts| counts.len());
    let words = Words::new(topics);
    let affinity = words.affinity();
    let mut groups = Groups::alone(&affinity, topics.len());
    if topics.len() > FEW {
        let (found, gain) = gathered(&words, &affinity);
        if stand_out(&words, &affinity, gain) {
            groups = found;
            groups.join_small(&words.sizes());
        }
    }
    let living = (0..topics.len()).filter(|group| groups.members[*group] > 0);
    let mut list: Vec<(usize, Subject)> = living
        .map(|group| {
            let mut own: Vec<usize> = (0..topics.len()).filter(|ix| groups.label[*ix] == group).collect();
            own.sort_by(|a, b| mass(topics[*b]).total_cmp(&mass(topics[*a])).then(a.cmp(b)));
            let mut counts = vec![0.0; n_words];
            for topic in &own {
                counts.iter_mut().zip(topics[*topic]).for_each(|(sum, count)| *sum += count);
            }
            (group, Subject { mass: mass(&counts), topics: own, counts })
        })
        .collect();
    list.sort_by(|(_, a), (_, b)| b.mass.total_cmp(&a.mass).then(a.topics.cmp(&b.topics)));
    let mut names = vec![0; topics.len()];
    list.iter().enumerate().for_each(|(place, (group, _))| names[*group] = place);
    let mut joins = Vec::new();
    while let Some((into, ended, between)) = groups.nearest(|_| true) {
        joins.push(Join { parts: [names[into], names[ended]], loss: -between });
        groups.join(into, ended);
        names[into] = list.len() + joins.len() - 1;
    }
    Subjects { list: list.into_iter().map(|(_, subject)| subject).collect(), joins }
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
        for (subjects, topics) in [(2, 5), (3, 8), (5, 4), (8, 3), (10, 2), (20, 3)] {
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

    /// Draws of one distribution over one vocabulary have words in common, as chance has it.
    #[test]
    fn topics_that_choose_words_by_chance_are_no_subject() {
        for (topics, seed) in [(10, 1), (20, 2), (40, 3)] {
            let rng = &mut Xoshiro256PlusPlus::seed_from_u64(seed);
            let mut draw = || {
                let own: Vec<usize> = (0..25).map(|_| rng.random_range(0..300)).collect();
                let mut counts = vec![0.0; 300];
                for _ in 0..2000 {
                    let word = match rng.random_range(0..4) {
                        0 => rng.random_range(0..30),
                        _ => own[rng.random_range(0..25)],
                    };
                    counts[word] += 1.0;
                }
                counts
            };
            let counts: Vec<Vec<f64>> = (0..topics).map(|_| draw()).collect();
            assert_eq!(grouped(&counts).list.len(), topics);
        }
    }

    /// Every pair of occurrences of every word, one by one.
    #[test]
    fn the_affinity_is_that_of_two_occurrences_of_a_word() {
        let topics = [vec![3.0, 1.0, 0.0, 2.0], vec![1.0, 4.0, 1.0, 0.0], vec![0.0, 2.0, 5.0, 1.0]];
        let words = Words::new(&topics.each_ref().map(Vec::as_slice));
        let affinity = words.affinity();
        let occurrences: Vec<(usize, usize)> = (0..3)
            .flat_map(|topic| {
                let of_word = |word: usize| vec![(topic, word); topics[topic][word] as usize];
                (0..4).flat_map(of_word).collect::<Vec<_>>()
            })
            .collect();
        let total = occurrences.len() as f64;
        for (a, b) in [(0, 0), (0, 1), (1, 2), (2, 0)] {
            let (mut seen, mut chance) = (0.0, 0.0);
            for (one, word) in &occurrences {
                let same: Vec<_> = occurrences.iter().filter(|(_, other)| other == word).collect();
                let share = |among: &[&(usize, usize)]| {
                    among.iter().filter(|(topic, _)| *topic == b).count() as f64 / among.len() as f64
                };
                if *one == a {
                    seen += share(&same) / total;
                    chance += share(&occurrences.iter().collect::<Vec<_>>()) / total;
                }
            }
            assert!((affinity[a * 3 + b] - (seen - chance)).abs() < 1e-12, "{a} {b}");
        }
        let all: f64 = affinity.iter().sum();
        assert!(all.abs() < 1e-12, "what is more often than by chance here is less often there");
    }

    /// No partition of eight topics is better, of all that there are.
    #[test]
    fn the_groups_have_most_affinity() {
        let (counts, _) = planted(3, 3, 9);
        let words = Words::new(&counts[..8].iter().map(Vec::as_slice).collect::<Vec<_>>());
        let affinity = words.affinity();
        let (groups, gain) = gathered(&words, &affinity);
        let within = |label: &[usize]| {
            let pairs = (0..8).flat_map(|a| (0..8).map(move |b| (a, b)));
            let same = pairs.filter(|(a, b)| a != b && label[*a] == label[*b]);
            same.map(|(a, b)| affinity[a * 8 + b]).sum::<f64>()
        };
        assert!((within(&groups.label) - gain).abs() < 1e-12);
        // Every partition: each topic joins a group of those before it, or begins one.
        let mut all = vec![vec![0]];
        for _ in 1..8 {
            let longer = |label: &Vec<usize>| {
                let next = label.iter().max().unwrap() + 1;
                (0..=next).map(|group| [label.as_slice(), &[group]].concat()).collect::<Vec<_>>()
            };
            all = all.iter().flat_map(longer).collect();
        }
        assert_eq!(all.len(), 4140);
        let best = all.iter().map(|label| within(label)).fold(f64::NEG_INFINITY, f64::max);
        assert!((gain - best).abs() < 1e-12, "{gain} {best}");
    }

    #[test]
    fn chance_keeps_the_words_and_nearly_the_sizes() {
        let (counts, _) = planted(4, 5, 3);
        let words = Words::new(&counts.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let chance = words.by_chance(&mut Xoshiro256PlusPlus::seed_from_u64(1));
        for (was, is) in words.of.iter().zip(&chance.of) {
            let shares = |word: &[(usize, f64)]| {
                let mut shares: Vec<f64> = word.iter().map(|(_, share)| *share).collect();
                shares.sort_by(f64::total_cmp);
                shares
            };
            assert_eq!(shares(was), shares(is));
            let mut topics: Vec<usize> = is.iter().map(|(topic, _)| *topic).collect();
            topics.sort_unstable();
            topics.dedup();
            assert_eq!(topics.len(), was.len(), "no topic twice");
        }
        for (was, is) in words.sizes().iter().zip(chance.sizes()) {
            assert!((was - is).abs() < 0.04, "{was} {is}");
        }
    }

    #[test]
    fn a_tiny_topic_joins_a_subject() {
        let (mut counts, truth) = planted(3, 4, 7);
        let mut tiny = vec![0.0; counts[0].len()];
        let alone = tiny.len() - 1;
        tiny[alone] = 20.0;
        counts.push(tiny);
        let found = grouped(&counts);
        assert_eq!(found.list.len(), 3);
        assert_eq!(found.list.iter().map(|subject| subject.topics.len()).sum::<usize>(), truth.len() + 1);
    }
}
