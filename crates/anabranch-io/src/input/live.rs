//! Streams that can be told to end while nobody writes to them.
//!
//! A blocking read would keep a stopped run waiting for the next row of a quiet stream. So reading waits in short steps,
//! and between them asks whether to end. What has been written by then is still read; then reading fails with an error of
//! its own, wherever it is: the layers above drop the record that is not complete, and count it.

use std::fs::File;
use std::io::{self, Read};
#[cfg(unix)]
use std::path::Path;

/// Bytes that are still read after the wish to end: what a pipe holds, not what an endless writer adds.
#[cfg(unix)]
const STILL_READ: usize = 1 << 20;

/// The error of a stream that was told to end.
#[derive(Debug)]
struct Told;

impl std::fmt::Display for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("told to end")
    }
}

impl std::error::Error for Told {}

/// True for the error of a stream that was told to end, also when it went through decoders.
pub(crate) fn was_told_to_end(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Told>())
}

/// A pipe, a terminal or a socket, unbuffered, with a question that is asked while it is quiet.
#[cfg(unix)]
pub(super) struct Live {
    file: File,
    interrupted: fn() -> bool,
    still_read: usize,
}

#[cfg(unix)]
impl Live {
    pub(super) fn new(file: File, interrupted: fn() -> bool) -> Self {
        Self { file, interrupted, still_read: STILL_READ }
    }

    pub(super) fn stdin(interrupted: fn() -> bool) -> io::Result<Self> {
        use std::os::fd::AsFd;
        // A handle of our own: the buffer of the standard one would hide bytes from `poll`.
        Ok(Self::new(File::from(io::stdin().as_fd().try_clone_to_owned()?), interrupted))
    }

    /// Waits for bytes, the end of the stream, or an error that reading will tell; fails when told to end first.
    fn wait(&self) -> io::Result<()> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        /// How long one step of waiting takes.
        const STEP: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        loop {
            let told = (self.interrupted)();
            if told && self.still_read == 0 {
                return Err(io::Error::other(Told));
            }
            let mut polled = [PollFd::new(&self.file, PollFlags::IN)];
            match poll(&mut polled, Some(if told { &AT_ONCE } else { &STEP })) {
                Ok(0) if told => return Err(io::Error::other(Told)),
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(unix)]
impl Read for Live {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            self.wait()?;
            match self.file.read(out) {
                // Another process took the bytes that were there.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(n) => {
                    if (self.interrupted)() {
                        self.still_read = self.still_read.saturating_sub(n);
                    }
                    return Ok(n);
                }
                failed => return failed,
            }
        }
    }
}

/// Opens a path that may be a pipe to which nobody writes yet, without waiting for that.
#[cfg(unix)]
pub(super) fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
    let mut options = File::options();
    options.read(true);
    if path.metadata()?.file_type().is_fifo() {
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    options.open(path)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn what_was_written_is_read_and_then_the_stream_ends_without_waiting() {
        static ASKED: AtomicBool = AtomicBool::new(false);
        let (mut writer, reader) = UnixStream::pair().unwrap();
        writer.write_all(b"half a li").unwrap();
        let mut live =
            Live::new(File::from(std::os::fd::OwnedFd::from(reader)), || ASKED.load(Ordering::SeqCst));
        let mut out = [0; 4];
        assert_eq!(live.read(&mut out).unwrap(), 4);
        ASKED.store(true, Ordering::SeqCst);
        assert_eq!(live.read(&mut out).unwrap(), 4);
        assert_eq!(live.read(&mut out).unwrap(), 1);
        assert!(was_told_to_end(&live.read(&mut out).unwrap_err()));
        assert!(was_told_to_end(&live.read(&mut out).unwrap_err()), "and so it stays");
    }

    #[test]
    fn an_endless_writer_does_not_keep_a_stream_from_ending() {
        let zeros = Live::new(File::open("/dev/zero").unwrap(), || true);
        let mut read = Vec::new();
        let error = { zeros }.read_to_end(&mut read).unwrap_err();
        assert!(was_told_to_end(&error));
        assert!(read.len() >= STILL_READ);
    }
}
