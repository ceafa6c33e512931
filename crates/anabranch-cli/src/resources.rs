//! What a run has used: seconds, processor seconds, memory.

use std::time::Instant;

use cpu_time::ProcessTime;

/// The clock of a fit.
#[derive(Debug)]
pub struct Stopwatch {
    started: Instant,
    cpu: ProcessTime,
}

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Self {
        Self { started: Instant::now(), cpu: ProcessTime::now() }
    }

    /// Seconds since the start.
    pub fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Processor seconds of all threads since the start.
    pub fn cpu_seconds(&self) -> f64 {
        self.cpu.elapsed().as_secs_f64()
    }
}

/// The most memory this process has held, where the system says.
pub fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: u64 = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}
