//! Members of a zip archive, stored or deflated: as much of the format as `.npz` files use.
//!
//! ```text
//! local header, bytes    …    directory (one entry per member)    end of directory
//! ```

use std::io::Read;

/// The end of the directory lies within this many bytes of the end of the file.
const END_WITHIN: usize = 22 + (1 << 16);

/// An archive in memory.
pub(super) struct Archive<'a> {
    bytes: &'a [u8],
    members: Vec<Member>,
    /// Bytes that a member may take.
    limit: u64,
}

struct Member {
    name: String,
    deflated: bool,
    crc: u32,
    packed: usize,
    unpacked: u64,
    header: usize,
}

impl<'a> Archive<'a> {
    /// Reads the directory; says what is wrong with the archive otherwise.
    pub(super) fn open(bytes: &'a [u8], limit: u64) -> Result<Self, String> {
        let cut = || "its directory is cut short".to_owned();
        let tail = bytes.len().saturating_sub(END_WITHIN);
        let end = bytes[tail..]
            .windows(4)
            .rposition(|window| window == b"PK\x05\x06")
            .map(|at| tail + at)
            .ok_or_else(|| "it has no directory of a zip archive".to_owned())?;
        let n_members = u16_at(bytes, end + 10).ok_or_else(cut)?;
        let mut at = u32_at(bytes, end + 16).ok_or_else(cut)? as usize;
        let mut members = Vec::new();
        for _ in 0..n_members {
            let entry = bytes.get(at..).filter(|rest| rest.len() >= 46).ok_or_else(cut)?;
            if &entry[..4] != b"PK\x01\x02" {
                return Err("its directory is damaged".to_owned());
            }
            let number = |offset| u16_at(entry, offset).map(usize::from).ok_or_else(cut);
            let (name, extra, comment) = (number(28)?, number(30)?, number(32)?);
            let long = |offset| u32_at(entry, offset).ok_or_else(cut);
            let deflated = match number(10)? {
                0 => false,
                8 => true,
                method => return Err(format!("it is compressed by method {method}, 0 and 8 are read")),
            };
            members.push(Member {
                name: String::from_utf8_lossy(entry.get(46..46 + name).ok_or_else(cut)?).into_owned(),
                deflated,
                crc: long(16)?,
                packed: long(20)? as usize,
                unpacked: u64::from(long(24)?),
                header: long(42)? as usize,
            });
            at += 46 + name + extra + comment;
        }
        Ok(Self { bytes, members, limit })
    }

    /// The bytes of a member; `None` when there is none of that name.
    pub(super) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        let Some(member) = self.members.iter().find(|member| member.name == name) else { return Ok(None) };
        let cut = || format!("{name} is cut short");
        let header = self.bytes.get(member.header..).filter(|rest| rest.len() >= 30).ok_or_else(cut)?;
        if &header[..4] != b"PK\x03\x04" {
            return Err(format!("{name} has no header"));
        }
        let lengths = u16_at(header, 26).zip(u16_at(header, 28)).ok_or_else(cut)?;
        let start = 30 + usize::from(lengths.0) + usize::from(lengths.1);
        let packed = header.get(start..).and_then(|rest| rest.get(..member.packed)).ok_or_else(cut)?;
        let mut unpacked = Vec::new();
        if member.unpacked > self.limit {
            return Err(format!("{name} takes more than {} bytes (see --max-memory)", self.limit));
        }
        // What is promised is not believed: memory grows with what is there.
        let limit = member.unpacked + 1;
        let read = match member.deflated {
            true => flate2::read::DeflateDecoder::new(packed).take(limit).read_to_end(&mut unpacked),
            false => packed.take(limit).read_to_end(&mut unpacked),
        };
        read.map_err(|error| format!("{name} cannot be unpacked: {error}"))?;
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&unpacked);
        match unpacked.len() as u64 == member.unpacked && hasher.finalize() == member.crc {
            true => Ok(Some(unpacked)),
            false => Err(format!("{name} is damaged: its checksum does not match")),
        }
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}
