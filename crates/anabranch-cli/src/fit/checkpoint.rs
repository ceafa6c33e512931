//! The state of a run on disk, so that `kill -9` costs at most the minibatches since the last save.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anabranch_io::model::ModelError;

use super::progress::Progress;
use crate::failure::Failure;

/// The file that says that a run is at work in the folder.
const LOCK: &str = "lock";

/// The state of a run whose input has ended, before it is looked after for the last time: what other rows go on from.
pub(crate) const STREAM: &str = "stream.anabranch";

/// Where and how often the state is saved. One run at a time has the folder.
#[derive(Debug)]
pub struct Checkpoints {
    file: PathBuf,
    every: Duration,
    last: Instant,
    /// True once somebody was told that the state cannot be saved.
    warned: bool,
    /// Held as long as the run goes on; the system lets go of it when the run dies.
    _lock: File,
}

impl Checkpoints {
    /// Saves into `folder`, which is made if it is missing.
    pub fn new(folder: &Path, every_seconds: f64) -> Result<Self, Failure> {
        let every = Duration::try_from_secs_f64(every_seconds).map_err(|_| {
            Failure::input(format!("--checkpoint-every {every_seconds} is not a number of seconds"))
        })?;
        let cannot = |error| Failure::input(format!("--checkpoint {}: {error}", folder.display()));
        std::fs::create_dir_all(folder).map_err(cannot)?;
        let lock = File::options().create(true).truncate(false).write(true).open(folder.join(LOCK));
        let lock = lock.map_err(cannot)?;
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => {
                return Err(Failure::input(format!(
                    "--checkpoint {}: another run is at work there",
                    folder.display()
                ))
                .with_hint("wait until it ends, or name another folder"));
            }
            // A file system without locks cannot tell.
            Err(TryLockError::Error(_)) | Ok(()) => {}
        }
        let file = folder.join("checkpoint.anabranch");
        Ok(Self { file, every, last: Instant::now(), warned: false, _lock: lock })
    }

    /// The saved state, if there is one and it is to be gone on from; one that would be overwritten is refused.
    pub fn resume<T>(
        &self,
        resume: bool,
        load: impl FnOnce(&Path) -> Result<T, ModelError>,
    ) -> Result<Option<T>, Failure> {
        match (self.file.exists(), resume) {
            (false, _) => Ok(None),
            (true, true) => Ok(Some(load(&self.file)?)),
            (true, false) => Err(Failure::input("--checkpoint: there is the state of an earlier run")
                .with_hint("pass --resume to go on from it, or remove it")),
        }
    }

    /// True when it is time to save again.
    pub fn due(&self) -> bool {
        self.last.elapsed() >= self.every
    }

    /// Saves the state of the stream at its end in one step.
    pub fn save_stream(&self, save: impl FnOnce(&Path) -> Result<(), ModelError>) -> Result<(), Failure> {
        Ok(save(&self.file.with_file_name(STREAM))?)
    }

    /// Saves the state in one step.
    pub fn save(&self, save: impl FnOnce(&Path) -> Result<(), ModelError>) -> Result<(), Failure> {
        Ok(save(&self.file)?)
    }

    /// Saves on the way. A disk may be full for a while: the run says so and goes on, and tries again when it is time.
    pub fn save_on_the_way(
        &mut self,
        progress: &Progress,
        save: impl FnOnce(&Path) -> Result<(), ModelError>,
    ) {
        if let Err(error) = save(&self.file)
            && !std::mem::replace(&mut self.warned, true)
        {
            progress.warn(&format!("the state cannot be saved, the run goes on: {error}"));
        }
        self.last = Instant::now();
    }
}
