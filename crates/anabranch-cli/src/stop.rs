//! Ctrl-C: the first asks the run to finish what it has read and write the model, the second ends at once.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::failure::STOPPED;

static ASKED: AtomicU32 = AtomicU32::new(0);
static INSTALLED: OnceLock<()> = OnceLock::new();

/// Listens to Ctrl-C and to the signals that ask a service to end.
pub fn listen() {
    INSTALLED.get_or_init(|| {
        let installed = ctrlc::set_handler(|| {
            if ASKED.fetch_add(1, Ordering::SeqCst) > 0 {
                std::process::exit(STOPPED.into());
            }
        });
        if let Err(error) = installed {
            eprintln!("warning: Ctrl-C will end the run without a model: {error}");
        }
    });
}

/// True once somebody has asked to stop.
pub fn asked() -> bool {
    ASKED.load(Ordering::SeqCst) > 0
}
