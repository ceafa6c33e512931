//! What a worker counts, in the text format of Prometheus.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::kind::Kind;
use crate::protocol::{Applied, Outcome, Replica};
use crate::worker::Seen;

/// Counters of one worker. All are sums since it started.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) minibatches: AtomicU64,
    pub(crate) rows: AtomicU64,
    pub(crate) conflicts: AtomicU64,
    pub(crate) matchings: AtomicU64,
    pub(crate) appends: AtomicU64,
    pub(crate) set_aside: AtomicU64,
    pub(crate) redelivered: AtomicU64,
    pub(crate) overtaken: AtomicU64,
    pub(crate) snapshots: AtomicU64,
    pub(crate) states: AtomicU64,
    pub(crate) state_bytes: AtomicU64,
    pub(crate) upkeep: AtomicU64,
    pub(crate) entries: AtomicU64,
    pub(crate) journal_bytes: AtomicU64,
    pub(crate) read_bytes: AtomicU64,
    infer: Histogram,
    append: Histogram,
    fold: Histogram,
    wait_micros: AtomicU64,
    write_micros: AtomicU64,
    pub(crate) lease: AtomicU64,
}

/// Upper ends of the histograms' buckets, in seconds.
const ENDS: [f64; 15] =
    [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0];

/// How long something took, each time.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    /// The last one has no end.
    counts: [AtomicU64; ENDS.len() + 1],
    micros: AtomicU64,
}

impl Histogram {
    fn add(&self, time: Duration) {
        let bucket = ENDS.partition_point(|end| *end < time.as_secs_f64());
        add(&self.counts[bucket], 1);
        add(&self.micros, time.as_micros() as u64);
    }

    fn seconds(&self) -> f64 {
        get(&self.micros) as f64 / 1e6
    }

    fn render(&self, text: &mut String, name: &str, help: &str, job: &str) {
        let _ = writeln!(text, "# HELP anabranch_{name} {help}\n# TYPE anabranch_{name} histogram");
        let mut below = 0;
        for (ix, count) in self.counts.iter().enumerate() {
            below += get(count);
            let end = ENDS.get(ix).map_or("+Inf".to_owned(), f64::to_string);
            let _ = writeln!(text, "anabranch_{name}_bucket{{job=\"{job}\",le=\"{end}\"}} {below}");
        }
        let _ = writeln!(text, "anabranch_{name}_sum{{job=\"{job}\"}} {}", self.seconds());
        let _ = writeln!(text, "anabranch_{name}_count{{job=\"{job}\"}} {below}");
    }
}

/// Where a worker's time goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Spent {
    /// Inference, on the threads of the worker.
    Inferring,
    /// From the first append of a sum to the moment it is in.
    Appending,
    /// Making the bytes of entries.
    Writing,
    /// Folding one message of the journal.
    Folding,
    /// Waiting for a minibatch with nothing to do.
    Waiting,
}

pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

pub(crate) fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Metrics {
    pub(crate) fn folded(&self, applied: &Applied, time: Duration) {
        if !matches!(applied, Applied::Part) {
            add(&self.entries, 1);
        }
        self.fold.add(time);
    }

    pub(crate) fn spent(&self, what: Spent, time: Duration) {
        match what {
            Spent::Inferring => self.infer.add(time),
            Spent::Appending => self.append.add(time),
            Spent::Folding => self.fold.add(time),
            Spent::Waiting => add(&self.wait_micros, time.as_micros() as u64),
            Spent::Writing => add(&self.write_micros, time.as_micros() as u64),
        }
    }

    pub(crate) fn finished(&self, minibatches: u64, rows: u64, outcome: Outcome) {
        add(&self.minibatches, minibatches);
        add(&self.rows, rows);
        add(&self.conflicts, outcome.conflicts);
        add(&self.matchings, outcome.matchings);
        add(&self.appends, outcome.appends);
    }

    pub(crate) fn seconds(&self, what: Spent) -> f64 {
        match what {
            Spent::Inferring => self.infer.seconds(),
            Spent::Appending => self.append.seconds(),
            Spent::Folding => self.fold.seconds(),
            Spent::Waiting => get(&self.wait_micros) as f64 / 1e6,
            Spent::Writing => get(&self.write_micros) as f64 / 1e6,
        }
    }

    /// The text of `/metrics`. Who scrapes it knows which worker it is: a name of ours would change with every restart.
    pub(crate) fn render<K: Kind>(
        &self,
        job: &str,
        replica: &Replica<K>,
        seen: &Seen,
        is_ready: bool,
    ) -> String {
        let mut text = String::new();
        let mut line = |name: &str, kind: &str, help: &str, value: f64| {
            let _ = writeln!(text, "# HELP anabranch_{name} {help}");
            let _ = writeln!(text, "# TYPE anabranch_{name} {kind}");
            let _ = writeln!(text, "anabranch_{name}{{job=\"{job}\"}} {value}");
        };
        let mut counter = |name: &str, help: &str, value: f64| line(name, "counter", help, value);
        counter(
            "worker_minibatches_total",
            "Minibatches that this worker finished.",
            get(&self.minibatches) as f64,
        );
        counter("worker_rows_total", "Rows that this worker learned from.", get(&self.rows) as f64);
        counter(
            "worker_conflicts_total",
            "Appends that another worker's components came before.",
            get(&self.conflicts) as f64,
        );
        counter("worker_matchings_total", "Assignment problems solved.", get(&self.matchings) as f64);
        counter("worker_appends_total", "Appends to the journal.", get(&self.appends) as f64);
        counter("worker_append_bytes_total", "Bytes of those appends.", get(&self.journal_bytes) as f64);
        counter(
            "worker_read_bytes_total",
            "Bytes of the journal and of states that this worker read.",
            get(&self.read_bytes) as f64,
        );
        counter(
            "worker_set_aside_total",
            "Minibatches that this worker set aside.",
            get(&self.set_aside) as f64,
        );
        counter(
            "worker_redelivered_total",
            "Minibatches that somebody had before.",
            get(&self.redelivered) as f64,
        );
        counter(
            "worker_overtaken_total",
            "Minibatches to be learned from again: another one of their sum was settled.",
            get(&self.overtaken) as f64,
        );
        counter("worker_snapshots_total", "Snapshots that this worker stored.", get(&self.snapshots) as f64);
        counter("worker_states_total", "States that this worker told.", get(&self.states) as f64);
        counter("worker_state_bytes_total", "Bytes of those states.", get(&self.state_bytes) as f64);
        counter(
            "worker_upkeep_total",
            "Priors, merges and replacements that this worker appended.",
            get(&self.upkeep) as f64,
        );
        counter(
            "worker_entries_total",
            "Journal entries that this worker folded.",
            get(&self.entries) as f64,
        );
        counter("worker_wait_seconds_total", "Seconds without a minibatch.", self.seconds(Spent::Waiting));
        counter("worker_write_seconds_total", "Seconds of writing entries.", self.seconds(Spent::Writing));
        let tally = replica.tally();
        counter(
            "journal_superseded_total",
            "Entries that were void because components had appeared.",
            tally.superseded as f64,
        );
        counter(
            "journal_repeated_total",
            "Entries that were void because their minibatch was settled.",
            tally.repeated as f64,
        );
        counter("absorbed_minibatches_total", "Minibatches in the posterior.", replica.absorbed() as f64);
        counter("set_aside_minibatches_total", "Minibatches set aside.", replica.aside().len() as f64);
        let mut gauge = |name: &str, help: &str, value: f64| line(name, "gauge", help, value);
        gauge("ready", "1 while rows that wait move.", f64::from(u8::from(is_ready)));
        gauge(
            "last_progress_timestamp_seconds",
            "When something moved last, or nothing waited.",
            seen.moved_at,
        );
        let queue = seen.queue;
        gauge(
            "queue_minibatches",
            "Minibatches that wait, those that workers hold included.",
            queue.messages as f64,
        );
        gauge("queue_held_minibatches", "Minibatches that workers hold.", queue.held as f64);
        gauge("queue_bytes", "Bytes of minibatches that wait.", queue.bytes as f64);
        gauge("queue_oldest_seconds", "Age of the oldest minibatch that waits.", queue.oldest_seconds);
        gauge("worker_lease", "1 while this worker holds the lease.", get(&self.lease) as f64);
        gauge("journal_position", "Last journal message read.", replica.position() as f64);
        let posterior = replica.posterior();
        gauge(
            "components",
            "Components of the posterior.",
            posterior.map_or(0.0, |p| p.components().len() as f64),
        );
        gauge("mass", "Weight of the data in the posterior (MASS).", posterior.map_or(0.0, |p| p.mass()));
        gauge(
            "mass_error",
            "Sum of expected counts less the mass; rounding only.",
            posterior.map_or(0.0, |p| p.expected_mass() - p.mass()),
        );
        let histograms = [
            ("worker_infer_seconds", "Seconds of inference of one minibatch.", &self.infer),
            (
                "worker_append_seconds",
                "Seconds from the first append of a sum to the moment it is in.",
                &self.append,
            ),
            ("worker_fold_seconds", "Seconds of folding one message of the journal.", &self.fold),
        ];
        for (name, help, histogram) in histograms {
            histogram.render(&mut text, name, help, job);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_a_help_line_a_type_and_values_without_a_name_that_changes() {
        let metrics = Metrics::default();
        metrics.spent(Spent::Inferring, Duration::from_millis(2));
        metrics.spent(Spent::Inferring, Duration::from_secs(2000));
        let text = metrics.render(
            "j",
            &Replica::<crate::Mixture>::new(),
            &crate::worker::Pulse::default().seen(),
            true,
        );
        let mut described = ("", "");
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                described.0 = help.split(' ').next().unwrap();
                assert!(help.ends_with('.'), "{help}");
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                described.1 = kind.strip_prefix(described.0).expect("the same name").trim();
                assert_eq!(described.0.ends_with("_total"), described.1 == "counter", "{line}");
            } else {
                let (name, rest) = line.split_once('{').unwrap();
                assert!(name.starts_with(described.0), "{line}");
                assert!(rest.starts_with("job=\"j\"}") || rest.starts_with("job=\"j\",le=\""), "{line}");
                assert_eq!(name == described.0, described.1 != "histogram", "{line}");
            }
        }
        for line in [
            "anabranch_worker_infer_seconds_bucket{job=\"j\",le=\"0.001\"} 0",
            "anabranch_worker_infer_seconds_bucket{job=\"j\",le=\"0.003\"} 1",
            "anabranch_worker_infer_seconds_bucket{job=\"j\",le=\"1000\"} 1",
            "anabranch_worker_infer_seconds_bucket{job=\"j\",le=\"+Inf\"} 2",
            "anabranch_worker_infer_seconds_sum{job=\"j\"} 2000.002",
            "anabranch_worker_infer_seconds_count{job=\"j\"} 2",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
