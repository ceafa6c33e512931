//! Standard input that can be told to end while nobody writes to it.
//!
//! A blocking read would keep a stopped run waiting for the next row of a quiet stream. So reading waits in short steps,
//! and between them asks whether to end. It ends only after a full line: half a number is not a number.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long one step of waiting takes.
const STEP: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Standard input, unbuffered, with a question that is asked while it is quiet.
pub(super) struct LiveStdin {
    file: File,
    interrupted: fn() -> bool,
    /// The last byte handed out ended a line (or there was none).
    at_line_end: bool,
}

impl LiveStdin {
    pub(super) fn open(interrupted: fn() -> bool) -> io::Result<Self> {
        // A handle of our own: the buffer of the standard one would hide bytes from `poll`.
        let file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        Ok(Self { file, interrupted, at_line_end: true })
    }

    /// Waits for bytes; false when it was told to end first.
    fn wait(&self) -> io::Result<bool> {
        loop {
            let mut polled = [PollFd::new(&self.file, PollFlags::IN)];
            match poll(&mut polled, Some(&STEP)) {
                Ok(0) if self.at_line_end && (self.interrupted)() => return Ok(false),
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                // Bytes, the end of the stream, or an error that reading will tell.
                Ok(_) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Read for LiveStdin {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if !self.wait()? {
            return Ok(0);
        }
        let n = self.file.read(out)?;
        if let Some(last) = out[..n].last() {
            self.at_line_end = *last == b'\n';
        }
        Ok(n)
    }
}
