//! A new file, perhaps compressed, that appears under its name when it is whole.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::write::GzEncoder;
use zstd::stream::write::Encoder as ZstdEncoder;

use crate::model::{sync_folder, temporary_name};

/// Undone by the readers of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    /// What the end of a name says, and the name before it.
    pub(super) fn of_name(name: &str) -> (&str, Self) {
        let lower = name.to_ascii_lowercase();
        for (end, compression) in [(".gz", Self::Gzip), (".zst", Self::Zstd)] {
            if lower.ends_with(end) {
                return (&name[..name.len() - end.len()], compression);
            }
        }
        (name, Self::None)
    }
}

/// Removes a file that was not finished.
struct Leftover(Option<PathBuf>);

impl Drop for Leftover {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = fs::remove_file(path);
        }
    }
}

enum Encoder {
    Plain(BufWriter<File>),
    Gzip(GzEncoder<BufWriter<File>>),
    Zstd(ZstdEncoder<'static, BufWriter<File>>),
}

/// A file under a temporary name.
pub(super) struct NewFile {
    encoder: Encoder,
    path: PathBuf,
    leftover: Leftover,
}

impl NewFile {
    pub(super) fn create(path: &Path, compression: Compression) -> io::Result<Self> {
        let temporary = temporary_name(path)?;
        let file = BufWriter::with_capacity(1 << 18, File::create(&temporary)?);
        let leftover = Leftover(Some(temporary));
        let encoder = match compression {
            Compression::None => Encoder::Plain(file),
            Compression::Gzip => Encoder::Gzip(GzEncoder::new(file, flate2::Compression::default())),
            Compression::Zstd => Encoder::Zstd(ZstdEncoder::new(file, 0)?),
        };
        Ok(Self { encoder, path: path.to_owned(), leftover })
    }

    /// The file gets its name.
    pub(super) fn finish(mut self) -> io::Result<()> {
        let buffer = match self.encoder {
            Encoder::Plain(buffer) => buffer,
            Encoder::Gzip(encoder) => encoder.finish()?,
            Encoder::Zstd(encoder) => encoder.finish()?,
        };
        let file = buffer.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        if let Some(temporary) = &self.leftover.0 {
            fs::rename(temporary, &self.path)?;
        }
        self.leftover.0 = None;
        sync_folder(&self.path)
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.encoder {
            Encoder::Plain(file) => file.write(bytes),
            Encoder::Gzip(encoder) => encoder.write(bytes),
            Encoder::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.encoder {
            Encoder::Plain(file) => file.flush(),
            Encoder::Gzip(encoder) => encoder.flush(),
            Encoder::Zstd(encoder) => encoder.flush(),
        }
    }
}
