//! Records, states and models that are mostly zeros, as what is left without them: a topic has a number for every word of the
//! vocabulary, and a minibatch has few of the words.

use std::io::Read;

/// First byte of what is packed; no record, state or model begins with it.
pub(super) const PACKED: u8 = b'Z';
/// What is longer goes as it is. Whoever reads takes no more, whatever a message claims.
const MOST: usize = 512 << 20;
/// Zeros need no effort.
const LEVEL: i32 = 1;

/// The bytes packed, where that is shorter.
pub(super) fn pack(bytes: Vec<u8>) -> Vec<u8> {
    if bytes.len() > MOST {
        return bytes;
    }
    match zstd::stream::encode_all(bytes.as_slice(), LEVEL) {
        Ok(packed) if packed.len() < bytes.len() => [&[PACKED], packed.as_slice()].concat(),
        _ => bytes,
    }
}

/// The bytes behind [`PACKED`] as they were; `None` where they were not packed so, or come to too much.
pub(super) fn unpack(packed: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let reader = zstd::stream::read::Decoder::new(packed).ok()?;
    reader.take(MOST as u64 + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() <= MOST && bytes.first() != Some(&PACKED)).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_packed_and_come_back() {
        let mut bytes = b"C and then zeros".to_vec();
        bytes.resize(100_000, 0);
        bytes.extend(3.25_f64.to_le_bytes());
        let packed = pack(bytes.clone());
        assert!(packed[0] == PACKED && packed.len() < 200, "{}", packed.len());
        assert_eq!(unpack(&packed[1..]), Some(bytes));
        assert_eq!(pack(b"C".to_vec()), b"C");
    }

    #[test]
    fn what_was_not_packed_here_is_refused() {
        assert_eq!(unpack(b"anything"), None);
        let twice = pack(pack(vec![0; 1000]).into_iter().chain([0; 1000]).collect());
        assert_eq!(unpack(&twice[1..]), None);
        let bomb = zstd::stream::encode_all(std::io::repeat(0).take(MOST as u64 + 1), LEVEL).unwrap();
        assert!(bomb.len() < 100_000);
        assert_eq!(unpack(&bomb), None);
    }
}
