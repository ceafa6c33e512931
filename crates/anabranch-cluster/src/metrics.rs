//! What a worker counts, in the text format of Prometheus.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::protocol::{Applied, Outcome, Replica};

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
    pub(crate) snapshots: AtomicU64,
    pub(crate) upkeep: AtomicU64,
    pub(crate) entries: AtomicU64,
    pub(crate) journal_bytes: AtomicU64,
    infer_micros: AtomicU64,
    append_micros: AtomicU64,
    fold_micros: AtomicU64,
    wait_micros: AtomicU64,
    pub(crate) lease: AtomicU64,
}

/// Where a worker's time goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Spent {
    /// Inference, on the threads of the worker.
    Inferring,
    /// From the first append of an increment to the moment it is in.
    Appending,
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
        add(&self.fold_micros, time.as_micros() as u64);
    }

    pub(crate) fn spent(&self, what: Spent, time: Duration) {
        let counter = match what {
            Spent::Inferring => &self.infer_micros,
            Spent::Appending => &self.append_micros,
            Spent::Waiting => &self.wait_micros,
        };
        add(counter, time.as_micros() as u64);
    }

    pub(crate) fn finished(&self, rows: u64, outcome: Outcome) {
        add(&self.minibatches, 1);
        add(&self.rows, rows);
        add(&self.conflicts, outcome.conflicts);
        add(&self.matchings, outcome.matchings);
        add(&self.appends, outcome.appends);
    }

    pub(crate) fn seconds(&self, what: Spent) -> f64 {
        let counter = match what {
            Spent::Inferring => &self.infer_micros,
            Spent::Appending => &self.append_micros,
            Spent::Waiting => &self.wait_micros,
        };
        get(counter) as f64 / 1e6
    }

    pub(crate) fn fold_seconds(&self) -> f64 {
        get(&self.fold_micros) as f64 / 1e6
    }

    /// The text of `/metrics`.
    pub(crate) fn render(&self, job: &str, worker: &str, replica: &Replica) -> String {
        let mut text = String::new();
        let mut line = |name: &str, kind: &str, help: &str, value: f64| {
            let _ = writeln!(text, "# HELP anabranch_{name} {help}");
            let _ = writeln!(text, "# TYPE anabranch_{name} {kind}");
            let _ = writeln!(text, "anabranch_{name}{{job=\"{job}\",worker=\"{worker}\"}} {value}");
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
            "worker_set_aside_total",
            "Minibatches that this worker set aside.",
            get(&self.set_aside) as f64,
        );
        counter(
            "worker_redelivered_total",
            "Minibatches that somebody had before.",
            get(&self.redelivered) as f64,
        );
        counter("worker_snapshots_total", "Snapshots that this worker stored.", get(&self.snapshots) as f64);
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
        counter(
            "worker_infer_seconds_total",
            "Seconds of inference, all threads.",
            self.seconds(Spent::Inferring),
        );
        counter(
            "worker_append_seconds_total",
            "Seconds that increments were under way.",
            self.seconds(Spent::Appending),
        );
        counter("worker_fold_seconds_total", "Seconds of folding entries.", self.fold_seconds());
        counter("worker_wait_seconds_total", "Seconds without a minibatch.", self.seconds(Spent::Waiting));
        let mut gauge = |name: &str, help: &str, value: f64| line(name, "gauge", help, value);
        let tally = replica.tally();
        gauge("worker_lease", "1 while this worker holds the lease.", get(&self.lease) as f64);
        gauge("journal_position", "Last journal message read.", replica.position() as f64);
        gauge(
            "journal_superseded",
            "Entries that were void because components had appeared.",
            tally.superseded as f64,
        );
        gauge(
            "journal_repeated",
            "Entries that were void because their minibatch was settled.",
            tally.repeated as f64,
        );
        gauge("absorbed_minibatches", "Minibatches in the posterior.", replica.absorbed() as f64);
        gauge("set_aside_minibatches", "Minibatches set aside.", replica.aside().len() as f64);
        let posterior = replica.posterior();
        gauge(
            "components",
            "Components of the posterior.",
            posterior.map_or(0.0, |p| p.components().len() as f64),
        );
        gauge("mass", "Rows in the posterior (MASS).", posterior.map_or(0.0, |p| p.mass()));
        gauge(
            "mass_error",
            "Sum of expected counts less the mass; rounding only.",
            posterior.map_or(0.0, |p| p.expected_mass() - p.mass()),
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_a_help_line_a_type_and_a_value() {
        let text = Metrics::default().render("j", "w", &Replica::new());
        let lines: Vec<&str> = text.lines().collect();
        for three in lines.chunks(3) {
            let name = three[2].split('{').next().unwrap();
            assert!(
                three[0].starts_with(&format!("# HELP {name} ")) && three[0].ends_with('.'),
                "{}",
                three[0]
            );
            assert!(three[1].starts_with(&format!("# TYPE {name} ")));
            assert!(three[2].ends_with("{job=\"j\",worker=\"w\"} 0"), "{}", three[2]);
        }
    }
}
