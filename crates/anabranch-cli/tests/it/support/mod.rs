//! A folder of its own for each test, the command run inside it, and what came out.

pub(crate) mod data;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use anabranch_io::model::Model;
use serde_json::Value;
use tempfile::TempDir;

/// Flags that fix the result whatever the machine.
pub(crate) const FIXED: [&str; 4] = ["--schedule", "deterministic", "--workers", "2"];

/// A folder in which the command runs, so that messages name files without the folder.
pub(crate) struct Sandbox(TempDir);

impl Sandbox {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("the system has room for a folder"))
    }

    /// A folder with one file in it.
    pub(crate) fn with(name: &str, content: impl AsRef<[u8]>) -> Self {
        let sandbox = Self::new();
        sandbox.write(name, content);
        sandbox
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// A model without the names of the files that it was learned from.
    pub(crate) fn learned(&self, name: &str) -> Vec<u8> {
        let mut model = Model::from_bytes(&self.read(name)).unwrap();
        model.provenance.learned_from.clear();
        model.to_bytes()
    }

    pub(crate) fn text(&self, name: &str) -> String {
        String::from_utf8(self.read(name)).unwrap()
    }

    /// The command, not yet started; nothing of the surrounding terminal reaches it.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("anabranch"));
        command
            .args(args)
            .current_dir(self.0.path())
            .env_remove("NO_COLOR")
            .env_remove("COLUMNS")
            .env_remove("RUST_BACKTRACE");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Run {
        Run::from(self.command(args).output().unwrap())
    }

    /// Runs with this text on standard input.
    pub(crate) fn run_with_input(&self, args: &[&str], input: impl AsRef<[u8]>) -> Run {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().expect("it was piped");
        // A command that refuses its flags does not read: a closed pipe is its right.
        let _ = stdin.write_all(input.as_ref());
        drop(stdin);
        Run::of(child)
    }

    /// `fit --json` with fixed flags, which must succeed without a word.
    pub(crate) fn fit(&self, args: &[&str]) -> Value {
        self.run(&fit_args(args)).silent_json()
    }

    /// A fitted model of three clusters in the file `model`, its rows in `rows.csv`.
    pub(crate) fn with_model() -> Self {
        let sandbox = Self::with("rows.csv", data::three_clusters(100, 1).csv());
        sandbox.fit(&["rows.csv", "--out", "model"]);
        sandbox
    }
}

/// `fit` with everything fixed, quiet, and a result in JSON.
pub(crate) fn fit_args<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [&["fit", "--quiet", "--json"], &FIXED[..], args].concat()
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("the command writes UTF-8");
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        assert!(!stderr.contains("panicked"), "{stderr}");
        let code = output.status.code().unwrap_or_else(|| panic!("ended by a signal: {stderr}"));
        Self { code, stdout, stderr }
    }
}

impl Run {
    pub(crate) fn of(child: Child) -> Self {
        Self::from(child.wait_with_output().unwrap())
    }

    /// The cells of a column of csv without quotes, which must be there.
    pub(crate) fn column(&self, name: &str) -> Vec<&str> {
        let mut lines = self.ok().lines();
        let header = lines.next().expect("csv has a header");
        let place = header.split(',').position(|other| other == name);
        let place = place.unwrap_or_else(|| panic!("no column {name} in {header}"));
        lines.map(|line| line.split(',').nth(place).expect("rows are as long as the header")).collect()
    }

    /// Everything a user sees, for snapshots.
    pub(crate) fn transcript(&self) -> String {
        format!(
            "exit code: {}\n----- stdout -----\n{}----- stderr -----\n{}",
            self.code, self.stdout, self.stderr
        )
    }

    /// The result of a run that went well and had nothing else to say.
    pub(crate) fn silent_json(&self) -> Value {
        assert_eq!(self.stderr, "");
        self.json()
    }

    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{}", self.stderr);
        assert_eq!(self.stdout.lines().count(), 1, "one object on one line");
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// Standard output of a run that went well.
    pub(crate) fn ok(&self) -> &str {
        assert_eq!(self.code, 0, "{}", self.stderr);
        &self.stdout
    }

    /// The message of a run that the user has to mend: exit code 1, no data, a first line that begins with `error: `.
    pub(crate) fn refusal(&self) -> &str {
        assert_eq!(self.code, 1, "{}", self.transcript());
        assert_eq!(self.stdout, "", "nothing that could be taken for a result");
        self.stderr.strip_prefix("error: ").unwrap_or_else(|| panic!("{}", self.stderr)).trim_end()
    }

    /// The first line of the refusal.
    pub(crate) fn message(&self) -> &str {
        self.refusal().lines().next().expect("a refusal says something")
    }
}

/// A whole number of the result.
pub(crate) fn whole(result: &Value, field: &str) -> u64 {
    result[field].as_u64().unwrap_or_else(|| panic!("{field} of {result} is not a whole number"))
}

pub(crate) fn number(result: &Value, field: &str) -> f64 {
    result[field].as_f64().unwrap_or_else(|| panic!("{field} of {result} is not a number"))
}

/// MASS: the expected counts add up to the rows, to the rounding of a few thousand additions.
pub(crate) fn assert_mass(result: &Value, rows: u64) {
    /// Relative rounding of sums of up to a million responsibilities, with room.
    const ROUNDING: f64 = 1e-9;
    assert_eq!(whole(result, "observations"), rows);
    let mass = number(result, "mass");
    assert!((mass - rows as f64).abs() <= ROUNDING * rows as f64, "mass {mass} of {rows} rows");
}
