//! The number types of numpy and how their bytes become doubles.

/// A number type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dtype {
    Bool,
    Number { kind: Kind, size: usize, endian: Endian },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Signed,
    Unsigned,
    Float,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endian {
    Little,
    Big,
}

/// Appends the numbers in `$bytes` to `$out`, each converted to `$target`.
macro_rules! decode_as {
    ($dtype:expr, $bytes:expr, $out:expr, $target:ty) => {{
        macro_rules! numbers {
            ($number:ty, $endian:expr) => {
                match $endian {
                    Endian::Little => extend($bytes, $out, |b| <$number>::from_le_bytes(b) as $target),
                    Endian::Big => extend($bytes, $out, |b| <$number>::from_be_bytes(b) as $target),
                }
            };
        }
        match $dtype {
            Dtype::Bool => extend($bytes, $out, |[byte]| u8::from(byte != 0) as $target),
            Dtype::Number { kind, size, endian } => match (kind, size) {
                (Kind::Float, 4) => numbers!(f32, endian),
                (Kind::Float, _) => numbers!(f64, endian),
                (Kind::Signed, 1) => numbers!(i8, endian),
                (Kind::Signed, 2) => numbers!(i16, endian),
                (Kind::Signed, 4) => numbers!(i32, endian),
                (Kind::Signed, _) => numbers!(i64, endian),
                (Kind::Unsigned, 1) => numbers!(u8, endian),
                (Kind::Unsigned, 2) => numbers!(u16, endian),
                (Kind::Unsigned, 4) => numbers!(u32, endian),
                (Kind::Unsigned, _) => numbers!(u64, endian),
            },
        }
    }};
}

impl Dtype {
    /// From numpy's words, such as `<f8`; `None` for types that are no numbers we read.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut characters = text.chars();
        let endian = match characters.next()? {
            '<' | '|' => Endian::Little,
            '>' => Endian::Big,
            '=' if cfg!(target_endian = "little") => Endian::Little,
            '=' => Endian::Big,
            _ => return None,
        };
        let kind = characters.next()?;
        let size = characters.as_str().parse().ok()?;
        match (kind, size) {
            ('b', 1) => Some(Dtype::Bool),
            ('i', 1 | 2 | 4 | 8) => Some(Dtype::Number { kind: Kind::Signed, size, endian }),
            ('u', 1 | 2 | 4 | 8) => Some(Dtype::Number { kind: Kind::Unsigned, size, endian }),
            ('f', 4 | 8) => Some(Dtype::Number { kind: Kind::Float, size, endian }),
            _ => None,
        }
    }

    /// Bytes per number.
    pub(crate) fn size(self) -> usize {
        match self {
            Dtype::Bool => 1,
            Dtype::Number { size, .. } => size,
        }
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(self, Dtype::Number { kind: Kind::Float, .. })
    }

    /// Appends the numbers in `bytes`.
    pub(crate) fn decode(self, bytes: &[u8], out: &mut Vec<f64>) {
        decode_as!(self, bytes, out, f64);
    }

    /// Appends the numbers in `bytes` exactly; the upper half of `u64` wraps, which keeps labels apart.
    pub(crate) fn decode_integers(self, bytes: &[u8], out: &mut Vec<i64>) {
        decode_as!(self, bytes, out, i64);
    }
}

fn extend<T, const N: usize>(bytes: &[u8], out: &mut Vec<T>, number: impl Fn([u8; N]) -> T) {
    let (pieces, rest) = bytes.as_chunks::<N>();
    debug_assert!(rest.is_empty(), "pieces are whole rows");
    out.extend(pieces.iter().map(|&piece| number(piece)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(dtype: &str, bytes: &[u8]) -> Vec<f64> {
        let mut out = Vec::new();
        Dtype::parse(dtype).unwrap().decode(bytes, &mut out);
        out
    }

    #[test]
    fn every_number_type_is_decoded_in_both_byte_orders() {
        assert_eq!(decoded("<f8", &1.5f64.to_le_bytes()), [1.5]);
        assert_eq!(decoded(">f8", &1.5f64.to_be_bytes()), [1.5]);
        assert_eq!(decoded("<f4", &(-2.5f32).to_le_bytes()), [-2.5]);
        assert_eq!(decoded(">f4", &(-2.5f32).to_be_bytes()), [-2.5]);
        assert_eq!(decoded("|i1", &[0xff, 3]), [-1.0, 3.0]);
        assert_eq!(decoded("|u1", &[0xff, 3]), [255.0, 3.0]);
        assert_eq!(decoded("<i2", &(-300i16).to_le_bytes()), [-300.0]);
        assert_eq!(decoded(">u2", &40_000u16.to_be_bytes()), [40_000.0]);
        assert_eq!(decoded("<i4", &(-70_000i32).to_le_bytes()), [-70_000.0]);
        assert_eq!(decoded(">u4", &3_000_000_000u32.to_be_bytes()), [3e9]);
        assert_eq!(decoded(">i8", &(-1i64 << 40).to_be_bytes()), [-((1u64 << 40) as f64)]);
        assert_eq!(decoded("<u8", &(1u64 << 63).to_le_bytes()), [2f64.powi(63)]);
        assert_eq!(decoded("|b1", &[0, 1, 7]), [0.0, 1.0, 1.0]);
    }

    #[test]
    fn types_that_are_no_numbers_are_not_parsed() {
        for text in ["|O", "<U5", "|S3", "<c16", "<M8[ns]", "<f2", "<f16", "f8", "", "<", "<é8"] {
            assert_eq!(Dtype::parse(text), None, "{text}");
        }
    }
}
