//! The command from the outside: arguments and files in, exit code, text and files out. One binary, so that it links once.

mod answers;
mod architecture;
mod authors_failures;
mod bad_files;
mod bad_flags;
mod bad_rows;
mod clusters;
mod commands;
mod documents;
#[cfg(unix)]
mod early;
mod events;
mod experiment;
mod families;
mod fit;
mod forgetting;
mod formats;
mod going_on;
mod learner;
#[cfg(target_os = "linux")]
mod memory;
mod merge;
mod missing;
mod models;
mod output;
#[cfg(unix)]
mod places;
mod request;
#[cfg(unix)]
mod resume;
mod rivals;
mod rounded;
#[cfg(unix)]
mod stop;
mod support;
mod told;
mod topics;
#[path = "../transcript/mod.rs"]
mod transcript;
