//! The fuzz targets: every way in which bytes from outside reach the library.
//!
//! `ANABRANCH_FUZZ` names the target. A panic that reaches this file is a bug; one that the library catches itself, as it
//! does around the decoders of Parquet and Arrow, is not.

// The `main` is that of libFuzzer.
#![no_main]

mod memory;
mod model_file;
mod readers;

use std::panic::{self, AssertUnwindSafe};
use std::sync::{Mutex, OnceLock};

use anabranch_io::Format;
use libfuzzer_sys::{Corpus, fuzz_mutator, fuzz_target};

/// One way in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    /// Rows in a format that is given, or found by looking.
    Rows(Option<Format>),
    Labels,
    ModelFile,
}

impl Target {
    const ALL: [(&'static str, Target); 8] = [
        ("read_csv", Target::Rows(Some(Format::Csv))),
        ("read_npy", Target::Rows(Some(Format::Npy))),
        ("read_parquet", Target::Rows(Some(Format::Parquet))),
        ("read_arrow", Target::Rows(Some(Format::Arrow))),
        ("read_jsonl", Target::Rows(Some(Format::Jsonl))),
        ("read_compressed", Target::Rows(None)),
        ("read_labels", Target::Labels),
        ("model_file", Target::ModelFile),
    ];

    fn named(name: &str) -> Option<Target> {
        Self::ALL.into_iter().find(|(other, _)| *other == name).map(|(_, target)| target)
    }

    /// Checks the bytes and says whether they are a start for further changes.
    fn run(self, bytes: &[u8]) -> Corpus {
        match self {
            Target::Rows(format) => readers::rows(bytes, format).into(),
            Target::Labels => readers::labels(bytes).into(),
            Target::ModelFile => model_file::check(bytes),
        }
    }
}

fn target() -> Target {
    static TARGET: OnceLock<Target> = OnceLock::new();
    *TARGET.get_or_init(|| {
        let name = std::env::var("ANABRANCH_FUZZ").unwrap_or_default();
        Target::named(&name).unwrap_or_else(|| {
            let names = Target::ALL.map(|(name, _)| name).join(", ");
            eprintln!("ANABRANCH_FUZZ is {name:?}, expected one of {names}");
            std::process::exit(1);
        })
    })
}

/// Words of the last panic: told only when nothing in the library catches it.
static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

/// Replaces the hook of libfuzzer-sys, which ends the process also for panics that are caught.
fn remember_panics() {
    target();
    panic::set_hook(Box::new(|info| {
        *LAST_PANIC.lock().expect("the hook does not panic") = info.to_string();
    }));
}

fuzz_target!(init: remember_panics(), |bytes: &[u8]| -> Corpus {
    panic::catch_unwind(AssertUnwindSafe(|| target().run(bytes))).unwrap_or_else(|_| {
        eprintln!("{}", LAST_PANIC.lock().expect("the hook does not panic"));
        std::process::abort()
    })
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    match target() {
        Target::ModelFile => model_file::mutate(data, size, max_size, seed),
        _ => libfuzzer_sys::fuzzer_mutate(data, size, max_size),
    }
});
