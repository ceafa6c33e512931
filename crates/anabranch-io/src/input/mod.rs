//! From an input to bytes in a known format: opens, undoes gz and zstd, and looks at the first bytes.

mod lines;
mod live;
mod peek;

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::Path;

use bytes::Bytes;

pub(crate) use lines::{Lines, MAX_ROW_BYTES};
pub(crate) use live::was_told_to_end;
pub(crate) use peek::{Peek, read_some};

use crate::error::ReadError;
use crate::options::{Format, Input, MAX_MEMORY};

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// Enough bytes to tell every format.
const MAGIC_BYTES: usize = 64;

/// An input whose format is known.
pub(crate) struct Opened {
    pub(crate) name: String,
    pub(crate) format: Format,
    pub(crate) body: Body,
    /// Bytes that a piece of it may take.
    pub(crate) limit: u64,
}

/// The bytes of an input, compression undone.
pub(crate) enum Body {
    /// A plain file that can be opened at any place.
    File(File),
    /// Bytes in memory.
    Memory(Bytes),
    /// Bytes that come once.
    Stream(Peek),
}

/// Reading at any place.
pub(crate) trait ReadSeek: Read + Seek + Send {}
impl<T: Read + Seek + Send> ReadSeek for T {}

impl Body {
    /// The bytes from the beginning, once.
    pub(crate) fn into_stream(self) -> Peek {
        match self {
            Body::File(file) => Peek::new(Box::new(file)),
            Body::Memory(bytes) => Peek::new(Box::new(Cursor::new(bytes))),
            Body::Stream(stream) => stream,
        }
    }

    /// The bytes where any place can be read. A stream goes to an unnamed temporary file, so that
    /// memory does not grow with the input.
    pub(crate) fn into_seekable(self, name: &str, limit: u64) -> Result<Body, ReadError> {
        let Body::Stream(stream) = self else { return Ok(self) };
        let spool = || -> io::Result<(File, u64)> {
            let mut file = tempfile::tempfile()?;
            let bytes = io::copy(&mut stream.take(limit.saturating_add(1)), &mut file)?;
            file.seek(SeekFrom::Start(0))?;
            Ok((file, bytes))
        };
        match spool().map_err(|error| ReadError::io(name, error).cutting_off(true))? {
            (_, bytes) if bytes > limit => Err(ReadError::too_large(name, "the stream", limit)),
            (file, _) => Ok(Body::File(file)),
        }
    }
}

/// True when the input can be opened, looked at, closed and opened again later.
pub(crate) fn is_regular_file(input: &Input) -> bool {
    match input {
        Input::Path(path) => path.metadata().is_ok_and(|metadata| metadata.is_file()),
        Input::Stdin | Input::Memory(_) => false,
    }
}

/// Opens an input and finds its format; what is packed comes to no more than `unpacked` bytes. `None` when there is not a single
/// byte.
pub(crate) fn open(
    input: &Input,
    format: Option<Format>,
    interrupted: Option<fn() -> bool>,
    limit: Option<u64>,
    unpacked: Option<u64>,
) -> Result<Option<Opened>, ReadError> {
    let name = input.label();
    let body = raw(input, interrupted).and_then(|body| decompress(body, unpacked));
    let body = body.map_err(|error| ReadError::io(&name, error))?;
    let (head, body) = look(body).map_err(|error| ReadError::io(&name, error))?;
    if head.is_empty() {
        return Ok(None);
    }
    if head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff") {
        return Err(ReadError::Utf16 { file: name });
    }
    let format = match format.or_else(|| by_magic(&head)) {
        Some(format) => format,
        None => guess(input, &head, &name)?,
    };
    let limit = limit.unwrap_or(MAX_MEMORY);
    // What a plain file claims is there: it may take what it has.
    let limit = match &body {
        Body::File(file) => limit.max(file.metadata().map_or(0, |metadata| metadata.len())),
        Body::Memory(bytes) => limit.max(bytes.len() as u64),
        Body::Stream(_) => limit,
    };
    Ok(Some(Opened { name, format, body, limit }))
}

fn raw(input: &Input, interrupted: Option<fn() -> bool>) -> io::Result<Body> {
    match input {
        Input::Path(path) => open_path(path, interrupted),
        Input::Stdin => Ok(Body::Stream(Peek::new(stdin(interrupted)?))),
        Input::Memory(bytes) => Ok(Body::Memory(Bytes::copy_from_slice(bytes))),
    }
}

#[cfg(unix)]
fn stdin(interrupted: Option<fn() -> bool>) -> io::Result<Box<dyn Read + Send>> {
    Ok(match interrupted {
        Some(interrupted) => Box::new(live::Live::stdin(interrupted)?),
        None => Box::new(io::stdin()),
    })
}

#[cfg(not(unix))]
fn stdin(_: Option<fn() -> bool>) -> io::Result<Box<dyn Read + Send>> {
    Ok(Box::new(io::stdin()))
}

fn open_path(path: &Path, interrupted: Option<fn() -> bool>) -> io::Result<Body> {
    #[cfg(unix)]
    let file = if interrupted.is_some() { live::open(path)? } else { File::open(path)? };
    #[cfg(not(unix))]
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if metadata.is_file() {
        return Ok(Body::File(file));
    }
    // Pipes and devices cannot be rewound.
    #[cfg(unix)]
    if let Some(interrupted) = interrupted {
        return Ok(Body::Stream(Peek::new(Box::new(live::Live::new(file, interrupted)))));
    }
    Ok(Body::Stream(Peek::new(Box::new(file))))
}

/// The first bytes, and the body as if nothing had been read.
fn look(body: Body) -> io::Result<(Vec<u8>, Body)> {
    match body {
        Body::File(mut file) => {
            let mut head = Vec::new();
            (&mut file).take(MAGIC_BYTES as u64).read_to_end(&mut head)?;
            file.seek(SeekFrom::Start(0))?;
            Ok((head, Body::File(file)))
        }
        Body::Memory(bytes) => Ok((bytes[..bytes.len().min(MAGIC_BYTES)].to_vec(), Body::Memory(bytes))),
        // A stream that is written line by line is not held up.
        Body::Stream(mut stream) => {
            let head = stream.peek_lines(1, MAGIC_BYTES)?.to_vec();
            Ok((head, Body::Stream(stream)))
        }
    }
}

/// Undoes gz or zstd when the first bytes say so, whatever the extension says.
fn decompress(body: Body, most: Option<u64>) -> io::Result<Body> {
    let stream = |decoder: Box<dyn Read + Send>| {
        Body::Stream(Peek::new(match most {
            Some(most) => Box::new(Bounded { inner: decoder, left: most, most }),
            None => decoder,
        }))
    };
    let (head, body) = look(body)?;
    if head.starts_with(GZIP) {
        // Several members one after another are one file, as `cat a.gz b.gz` makes.
        let decoder =
            flate2::read::MultiGzDecoder::new(io::BufReader::with_capacity(64 << 10, body.into_stream()));
        return Ok(stream(Box::new(decoder)));
    }
    if head.starts_with(ZSTD) {
        let decoder = zstd::stream::read::Decoder::new(body.into_stream())?;
        return Ok(stream(Box::new(decoder)));
    }
    Ok(body)
}

/// A stream that fails where it would give more than it may.
struct Bounded {
    inner: Box<dyn Read + Send>,
    left: u64,
    most: u64,
}

impl Read for Bounded {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(out)?;
        match self.left.checked_sub(n as u64) {
            Some(left) => self.left = left,
            None => return Err(io::Error::other(Burst(self.most))),
        }
        Ok(n)
    }
}

/// The error of such a stream.
#[derive(Debug)]
struct Burst(u64);

impl std::fmt::Display for Burst {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "more than {} bytes", self.0)
    }
}

impl std::error::Error for Burst {}

/// The bytes that a stream may have, for the error of one that has more.
pub(crate) fn burst(error: &io::Error) -> Option<u64> {
    error.get_ref().and_then(|inner| inner.downcast_ref::<Burst>()).map(|burst| burst.0)
}

/// The binary formats announce themselves.
fn by_magic(head: &[u8]) -> Option<Format> {
    if head.starts_with(b"\x93NUMPY") {
        Some(Format::Npy)
    } else if head.starts_with(b"PAR1") {
        Some(Format::Parquet)
    } else if head.starts_with(b"ARROW1") {
        Some(Format::Arrow)
    } else {
        None
    }
}

/// The extension decides for a file; without one we look at the first character.
fn guess(input: &Input, head: &[u8], name: &str) -> Result<Format, ReadError> {
    match input {
        Input::Path(path) if is_regular_file(input) && path.extension().is_some() => {
            Format::from_path(path).ok_or_else(|| ReadError::UnknownExtension { file: name.to_owned() })
        }
        Input::Path(path) => Ok(Format::from_path(path).unwrap_or_else(|| by_first_character(head))),
        Input::Stdin | Input::Memory(_) => Ok(by_first_character(head)),
    }
}

fn by_first_character(head: &[u8]) -> Format {
    if head.starts_with(&[0xff; 4]) {
        return Format::Arrow;
    }
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    match text.trim_ascii_start().first() {
        Some(b'{' | b'[') => Format::Jsonl,
        _ => Format::Csv,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_below_a_compression_decides() {
        assert_eq!(Format::from_path(Path::new("a.csv.gz")), Some(Format::Csv));
        assert_eq!(Format::from_path(Path::new("a.JSONL.zst")), Some(Format::Jsonl));
        assert_eq!(Format::from_path(Path::new("a.gz")), None);
        assert_eq!(Format::from_path(Path::new("a")), None);
    }

    #[test]
    fn a_body_without_a_name_is_told_by_its_first_bytes() {
        assert_eq!(by_first_character(b" {\"a\":1}"), Format::Jsonl);
        assert_eq!(by_first_character(b"a,b\n"), Format::Csv);
        assert_eq!(by_magic(b"\x93NUMPY\x01\x00"), Some(Format::Npy));
    }
}
