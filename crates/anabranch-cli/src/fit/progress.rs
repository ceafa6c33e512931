//! Progress on standard error: a bar on a terminal, plain lines otherwise, nothing when quiet.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use anabranch::engine::Polishing;
use indicatif::{ProgressBar, ProgressStyle};

use crate::picture::grouped;

/// Time between plain lines.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Shows how far a run is.
pub struct Progress {
    display: Display,
    started: Instant,
}

enum Display {
    Bar(ProgressBar),
    Lines { next: Instant },
    Nothing,
}

impl Progress {
    /// `rows` is the length of the input when it is known.
    pub fn new(quiet: bool, rows: Option<u64>) -> Self {
        let started = Instant::now();
        let display = if quiet {
            Display::Nothing
        } else if std::io::stderr().is_terminal() {
            Display::Bar(bar(rows))
        } else {
            Display::Lines { next: started + LINE_EVERY }
        };
        Self { display, started }
    }

    /// Rows absorbed so far and the components that explain them.
    pub fn update(&mut self, rows: u64, components: usize) {
        match &mut self.display {
            Display::Bar(bar) => {
                bar.set_position(rows);
                bar.set_message(format!("{components} components"));
            }
            Display::Lines { next } if Instant::now() >= *next => {
                *next = Instant::now() + LINE_EVERY;
                let rate = rows as f64 / self.started.elapsed().as_secs_f64();
                eprintln!(
                    "{} rows, {components} components, {} rows/s",
                    grouped(rows as f64),
                    grouped(rate.round())
                );
            }
            _ => {}
        }
    }

    /// A round of learning from the first rows again.
    pub fn polishing(&self, Polishing { round, components, objective, .. }: &Polishing) {
        let message =
            format!("polishing, round {round}: {components} components, bound {objective:.4} a row");
        match &self.display {
            Display::Bar(bar) => bar.set_message(message),
            Display::Lines { .. } => eprintln!("{message}"),
            Display::Nothing => {}
        }
    }

    /// A message that stays.
    pub fn say(&self, message: &str) {
        match &self.display {
            Display::Bar(bar) => bar.suspend(|| eprintln!("{message}")),
            Display::Lines { .. } => eprintln!("{message}"),
            Display::Nothing => {}
        }
    }

    /// A warning, which is told also when the run is quiet.
    pub fn warn(&self, message: &str) {
        match &self.display {
            Display::Bar(bar) => bar.suspend(|| eprintln!("warning: {message}")),
            Display::Lines { .. } | Display::Nothing => eprintln!("warning: {message}"),
        }
    }

    /// Clears the bar.
    pub fn finish(&self) {
        if let Display::Bar(bar) = &self.display {
            bar.finish_and_clear();
        }
    }
}

fn bar(rows: Option<u64>) -> ProgressBar {
    let (bar, template) = match rows {
        Some(rows) => {
            (ProgressBar::new(rows), "{bar:30} {human_pos}/{human_len} rows  {per_sec}  {msg}  {eta} left")
        }
        None => (ProgressBar::new_spinner(), "{spinner} {human_pos} rows  {per_sec}  {msg}  {elapsed}"),
    };
    bar.set_style(ProgressStyle::with_template(template).expect("the template is a constant that parses"));
    bar
}
