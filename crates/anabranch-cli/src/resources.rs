//! What a run has used: seconds, processor seconds, memory.

use std::time::Instant;

use cpu_time::{ProcessTime, ThreadTime};

/// A clock that can leave out what does not belong to the fit, such as evaluation.
#[derive(Debug)]
pub struct Stopwatch {
    started: Instant,
    cpu: ProcessTime,
    aside_seconds: f64,
    aside_cpu: f64,
}

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Self {
        Self { started: Instant::now(), cpu: ProcessTime::now(), aside_seconds: 0.0, aside_cpu: 0.0 }
    }

    /// Runs something on this thread that does not count.
    pub fn aside<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let (started, cpu) = (Instant::now(), ThreadTime::now());
        let result = work();
        self.aside_seconds += started.elapsed().as_secs_f64();
        self.aside_cpu += cpu.elapsed().as_secs_f64();
        result
    }

    /// Seconds since the start, everything included.
    pub fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Seconds that were spent aside.
    pub fn seconds_aside(&self) -> f64 {
        self.aside_seconds
    }

    /// Processor seconds of all threads since the start, without what was done aside.
    pub fn cpu_seconds(&self) -> f64 {
        (self.cpu.elapsed().as_secs_f64() - self.aside_cpu).max(0.0)
    }
}

/// The most memory this process has held, where the system says.
pub fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: u64 = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}
