//! A new file, perhaps compressed, that appears under its name when it is whole.

use std::io::{self, Write};
use std::path::Path;

use flate2::write::GzEncoder;
use zstd::stream::write::Encoder as ZstdEncoder;

use crate::output;

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

enum Encoder {
    Plain(output::NewFile),
    Gzip(GzEncoder<output::NewFile>),
    Zstd(ZstdEncoder<'static, output::NewFile>),
}

/// A file that is being written.
pub(super) struct NewFile(Encoder);

impl NewFile {
    pub(super) fn create(path: &Path, compression: Compression) -> io::Result<Self> {
        let file = output::NewFile::create(path)?;
        Ok(Self(match compression {
            Compression::None => Encoder::Plain(file),
            Compression::Gzip => Encoder::Gzip(GzEncoder::new(file, flate2::Compression::default())),
            Compression::Zstd => Encoder::Zstd(ZstdEncoder::new(file, 0)?),
        }))
    }

    /// The file itself, where its first bytes can still be written over at the end.
    pub(super) fn that_goes_back(&mut self) -> Option<&mut output::NewFile> {
        match &mut self.0 {
            Encoder::Plain(file) if file.goes_back() => Some(file),
            _ => None,
        }
    }

    /// The file gets its name.
    pub(super) fn finish(self) -> io::Result<()> {
        let file = match self.0 {
            Encoder::Plain(file) => file,
            Encoder::Gzip(encoder) => encoder.finish()?,
            Encoder::Zstd(encoder) => encoder.finish()?,
        };
        file.finish()
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Encoder::Plain(file) => file.write(bytes),
            Encoder::Gzip(encoder) => encoder.write(bytes),
            Encoder::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Encoder::Plain(file) => file.flush(),
            Encoder::Gzip(encoder) => encoder.flush(),
            Encoder::Zstd(encoder) => encoder.flush(),
        }
    }
}
