//! Progress on standard error: a bar on a terminal, plain lines otherwise, nothing when quiet.

use std::io::IsTerminal;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anabranch::engine::Polishing;
use indicatif::{ProgressBar, ProgressStyle};

use crate::picture::grouped;

/// Time between plain lines.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Time between looks at a bar.
const TICK: Duration = Duration::from_millis(500);

/// Shows how far a run is.
pub struct Progress {
    display: Display,
    started: Instant,
}

/// The first minibatch is being learned.
pub struct Waiting {
    over: Option<Sender<()>>,
    teller: Option<JoinHandle<()>>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.over.take();
        // One that has panicked has nothing more to tell.
        let _ = self.teller.take().map(JoinHandle::join);
    }
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

    /// Shows that the first minibatch is being learned, and for how long, until what it returns is dropped; with advice for
    /// whoever finds that long.
    pub fn first_minibatch(&self, rows: usize, advice: Option<String>) -> Waiting {
        let bar = match &self.display {
            Display::Bar(bar) => Some(bar.clone()),
            Display::Lines { .. } => None,
            Display::Nothing => return Waiting { over: None, teller: None },
        };
        let (over, wait) = channel::<()>();
        let started = Instant::now();
        let teller = std::thread::spawn(move || {
            let (mut next, mut advice) = (LINE_EVERY, advice);
            let every = if bar.is_some() { TICK } else { LINE_EVERY };
            while wait.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let seconds = started.elapsed();
                let message =
                    format!("learning the first {} rows: {} s", grouped(rows as f64), seconds.as_secs());
                let advice = if seconds >= LINE_EVERY { advice.take() } else { None };
                match &bar {
                    Some(bar) => {
                        bar.set_message(message);
                        bar.tick();
                        advice.iter().for_each(|advice| bar.suspend(|| eprintln!("{advice}")));
                    }
                    None => {
                        if seconds >= next {
                            // Ever more rarely: a log is read afterwards.
                            next *= 2;
                            eprintln!("{message}");
                        }
                        advice.iter().for_each(|advice| eprintln!("{advice}"));
                    }
                }
            }
        });
        Waiting { over: Some(over), teller: Some(teller) }
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
