//! Bytes that go from one process to another: what they are, in which version, and whether they came whole.
//!
//! ```text
//! letters (4 bytes)   version (u8)   CRC-32 of the rest (u32, little-endian)   postcard of the content
//! ```
//!
//! Bytes may be old, cut, damaged or hostile: memory grows with what is there, never with what a number claims, and
//! nothing panics. A newer version is told apart from damage, because the remedy differs.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes before the content.
const HEADER: usize = 4 + 1 + 4;

/// What kind of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seal {
    /// The first bytes.
    pub(crate) letters: [u8; 4],
    /// The version that is written; this one and older ones are read.
    pub(crate) version: u8,
}

/// Why bytes cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SealFault {
    /// They begin with other letters.
    Foreign,
    /// They are of this newer version.
    Newer(u8),
    /// They are not the bytes that were written.
    Damaged(String),
}

impl Seal {
    /// The content as bytes.
    pub(crate) fn close(self, content: &impl Serialize) -> Vec<u8> {
        let header = [0; HEADER].to_vec();
        let mut bytes = postcard::to_extend(content, header).expect("only numbers, text and lists are sent");
        let checksum = crc32fast::hash(&bytes[HEADER..]);
        bytes[..4].copy_from_slice(&self.letters);
        bytes[4] = self.version;
        bytes[5..HEADER].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The content of bytes.
    pub(crate) fn open<T: DeserializeOwned>(self, bytes: &[u8]) -> Result<T, SealFault> {
        let rest = bytes.strip_prefix(&self.letters).ok_or(SealFault::Foreign)?;
        let (&version, rest) = rest.split_first().ok_or_else(cut_short)?;
        if version > self.version {
            return Err(SealFault::Newer(version));
        }
        let (checksum, content) = rest.split_first_chunk().ok_or_else(cut_short)?;
        if u32::from_le_bytes(*checksum) != crc32fast::hash(content) {
            return Err(SealFault::Damaged("the checksum does not match".into()));
        }
        match postcard::take_from_bytes(content) {
            Ok((opened, [])) => Ok(opened),
            Ok(_) => Err(SealFault::Damaged("there are bytes behind its end".into())),
            Err(error) => Err(SealFault::Damaged(error.to_string())),
        }
    }
}

fn cut_short() -> SealFault {
    SealFault::Damaged("it is cut short".into())
}
