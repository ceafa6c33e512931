//! `--events`: what becomes of components and clusters, one JSON object a line.
//!
//! ```text
//! start ids   birth id   merge id → into   split id → ids   death id   limit   appeared, joined, parted (clusters)   end ids
//! ```
//!
//! The ids at the end are those at the start after all births, merges, splits and deaths, in their order.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anabranch::central::Central;
use anabranch::clusters::{Clusters, Cut, follow};
use anabranch::engine::growth;
use anabranch::family::AnyFamily;
use anabranch::posterior::Posterior;
use anabranch::process::AnyProcess;
use anabranch_io::output;
use serde::Serialize;

use crate::failure::Failure;

type Snapshot = Posterior<AnyFamily, AnyProcess>;

/// All components at one moment.
#[derive(Serialize)]
struct All {
    event: &'static str,
    version: u64,
    rows: f64,
    ids: Vec<u64>,
    masses: Vec<f64>,
}

impl All {
    fn of(event: &'static str, posterior: &Snapshot) -> Self {
        let components = posterior.components();
        Self {
            event,
            version: posterior.version(),
            rows: posterior.rows(),
            ids: components.iter().map(|component| component.id().0).collect(),
            masses: components.iter().map(|component| component.expected_count()).collect(),
        }
    }
}

/// What happened, and when.
#[derive(Serialize)]
struct Line<T: Serialize> {
    seconds: f64,
    #[serde(flatten)]
    what: T,
}

/// A change of clusters, at one moment.
#[derive(Serialize)]
struct OfClusters {
    #[serde(flatten)]
    event: anabranch::clusters::Event,
    version: u64,
    rows: f64,
}

/// Where events go, if anywhere.
#[derive(Default)]
pub struct Events {
    file: Option<(PathBuf, BufWriter<File>)>,
    /// Why the file ends early.
    failure: Option<std::io::Error>,
    cut: Cut,
    clusters: Option<Clusters>,
    /// Lines of growth when clusters were looked at last.
    looked: u32,
}

impl Events {
    /// Writes to `path` if there is one; clusters are cut this way.
    pub fn create(path: Option<&Path>, cut: Cut) -> Result<Self, Failure> {
        let file = match path {
            None => None,
            Some(path) => {
                let file = output::growing_file(path).map_err(|error| cannot_write(path, &error))?;
                Some((path.to_path_buf(), BufWriter::new(file)))
            }
        };
        Ok(Self { file, cut, ..Self::default() })
    }

    /// Whether somebody wants to know.
    pub fn wanted(&self) -> bool {
        self.file.is_some()
    }

    fn write(&mut self, seconds: f64, what: impl Serialize) {
        let (Some((_, writer)), None) = (&mut self.file, &self.failure) else { return };
        let line = serde_json::to_string(&Line { seconds, what }).map_err(std::io::Error::other);
        self.failure = line.and_then(|line| writeln!(writer, "{line}")).err();
    }

    /// The run begins with these components.
    pub fn start(&mut self, seconds: f64, posterior: &Snapshot) {
        if self.wanted() {
            self.write(seconds, All::of("start", posterior));
            self.looked = growth(posterior);
            let known = !posterior.components().is_empty();
            self.clusters = known.then(|| Clusters::of_snapshot(posterior, self.cut));
        }
    }

    /// What has happened since; clusters are looked at whenever the data have doubled, or little is left of the past.
    pub fn more(&mut self, seconds: f64, central: &Central<AnyFamily, AnyProcess>) {
        if !self.wanted() {
            return;
        }
        for change in central.take_changes() {
            self.write(seconds, change);
        }
        let posterior = central.snapshot();
        if growth(&posterior) != self.looked {
            self.look_at_clusters(seconds, &posterior);
        }
        if let (Some((_, writer)), None) = (&mut self.file, &self.failure) {
            self.failure = writer.flush().err();
        }
    }

    fn look_at_clusters(&mut self, seconds: f64, posterior: &Snapshot) {
        self.looked = growth(posterior);
        let now = Clusters::of_snapshot(posterior, self.cut);
        let found = match &self.clusters {
            Some(before) => follow(before, &now),
            None => {
                let names = now.clusters().iter().map(|cluster| cluster.name);
                names.map(|cluster| anabranch::clusters::Event::Appeared { cluster }).collect()
            }
        };
        for event in found {
            self.write(seconds, OfClusters { event, version: posterior.version(), rows: posterior.rows() });
        }
        self.clusters = Some(now);
    }

    /// The run has ended; what could not be written is told.
    pub fn end(&mut self, seconds: f64, central: &Central<AnyFamily, AnyProcess>) -> Result<(), Failure> {
        if !self.wanted() {
            return Ok(());
        }
        self.more(seconds, central);
        let posterior = central.snapshot();
        self.look_at_clusters(seconds, &posterior);
        self.write(seconds, All::of("end", &posterior));
        let Some((path, mut writer)) = self.file.take() else { return Ok(()) };
        self.failure.take().map_or_else(|| writer.flush(), Err).map_err(|error| cannot_write(&path, &error))
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::input(format!("--events {}: {error}", path.display()))
}
