//! The state of a run on disk, so that `kill -9` costs at most the minibatches since the last save.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anabranch::central::Memory;
use anabranch_io::model::{StoredFamily, StoredModel, StoredProcess};

use super::session::checkpoint_file;
use crate::failure::Failure;

/// A model, and the rows that its run remembers.
type Saved<F, P> = (StoredModel<F, P>, Memory);

/// Where and how often the state is saved.
#[derive(Debug)]
pub struct Checkpoints {
    file: PathBuf,
    every: Duration,
    last: Instant,
}

impl Checkpoints {
    /// Saves into `folder`, which is made if it is missing.
    pub fn new(folder: &Path, every_seconds: f64) -> Result<Self, Failure> {
        let every = Duration::try_from_secs_f64(every_seconds).map_err(|_| {
            Failure::input(format!("--checkpoint-every {every_seconds} is not a number of seconds"))
        })?;
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::input(format!("--checkpoint {}: {error}", folder.display())))?;
        Ok(Self { file: checkpoint_file(folder), every, last: Instant::now() })
    }

    /// True when a state was saved.
    pub fn exist(&self) -> bool {
        self.file.exists()
    }

    /// The saved state, if there is one.
    pub fn load<F: StoredFamily, P: StoredProcess>(&self) -> Result<Option<Saved<F, P>>, Failure> {
        if self.exist() { Ok(Some(StoredModel::load_checkpoint(&self.file)?)) } else { Ok(None) }
    }

    /// True when it is time to save again.
    pub fn due(&self) -> bool {
        self.last.elapsed() >= self.every
    }

    /// Saves the state in one step.
    pub fn save<F: StoredFamily, P: StoredProcess>(
        &self,
        model: &StoredModel<F, P>,
        memory: &Memory,
    ) -> Result<(), Failure> {
        Ok(model.save_checkpoint(&self.file, memory)?)
    }

    /// Saves, and starts counting anew.
    pub fn save_now<F: StoredFamily, P: StoredProcess>(
        &mut self,
        model: &StoredModel<F, P>,
        memory: &Memory,
    ) -> Result<(), Failure> {
        self.save(model, memory)?;
        self.last = Instant::now();
        Ok(())
    }
}
