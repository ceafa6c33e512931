//! Rows in messages: npy from `submit`, JSON lines or Arrow from anybody else; the first bytes tell which.

use anabranch::batch::Batch;
use anabranch::family::DomainError;
use anabranch_io::{Input, Limits, OnBadRow, ReadOptions, Schema, open};

use crate::spec::JobSpec;

/// Bytes that a message may come to once it is unpacked, and that its rows may take.
const UNPACKED_BYTES: u64 = 64 << 20;
/// Rows of a message, unless the job's minibatches have more.
const MOST_ROWS: u64 = 1 << 17;

/// What a message may come to in a job whose minibatches have so many rows. A few hundred kilobytes can be packed gigabytes.
pub fn message_limits(batch_size: u32) -> Limits {
    Limits { bytes: UNPACKED_BYTES, rows: MOST_ROWS.max(batch_size.into()) }
}

/// How the numbers of a message are written: in as few bytes as bring every one of them back as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    Byte,
    Short,
    Single,
    Double,
}

impl Width {
    const NARROW: [Self; 3] = [Self::Byte, Self::Short, Self::Single];

    fn of(values: &[f64]) -> Self {
        let fits = |width: &Self| values.iter().all(|value| width.keeps(*value));
        Self::NARROW.into_iter().find(fits).unwrap_or(Self::Double)
    }

    /// Bit by bit: a zero has a sign, and what is missing is no number.
    fn keeps(self, value: f64) -> bool {
        let back = match self {
            Self::Byte => f64::from(value as u8),
            Self::Short => f64::from(value as i16),
            Self::Single => f64::from(value as f32),
            Self::Double => value,
        };
        back.to_bits() == value.to_bits()
    }

    /// What npy calls it.
    fn name(self) -> &'static str {
        match self {
            Self::Byte => "|u1",
            Self::Short => "<i2",
            Self::Single => "<f4",
            Self::Double => "<f8",
        }
    }

    fn write(self, values: &[f64], bytes: &mut Vec<u8>) {
        match self {
            Self::Byte => bytes.extend(values.iter().map(|value| *value as u8)),
            Self::Short => bytes.extend(values.iter().flat_map(|value| (*value as i16).to_le_bytes())),
            Self::Single => bytes.extend(values.iter().flat_map(|value| (*value as f32).to_le_bytes())),
            Self::Double => bytes.extend(values.iter().flat_map(|value| value.to_le_bytes())),
        }
    }
}

/// The rows of a minibatch as a message. Numbers travel as an npy array; a column of categories as JSON with its labels,
/// because codes mean nothing to another process.
pub fn encode_rows(batch: &Batch, schema: &Schema) -> Vec<u8> {
    if schema.columns.iter().any(|column| column.categories.is_some()) {
        return encode_json(batch, schema);
    }
    let width = Width::of(batch.values());
    let mut head = format!(
        "{{'descr': '{}', 'fortran_order': False, 'shape': ({}, {}), }}",
        width.name(),
        batch.n_rows(),
        batch.dimensions()
    );
    // The array begins at a multiple of 64 bytes, and the head ends with a line feed.
    let length = (10 + head.len() + 1).next_multiple_of(64) - 10;
    head.extend(std::iter::repeat_n(' ', length - head.len() - 1));
    head.push('\n');
    let mut bytes = Vec::with_capacity(10 + length + 8 * batch.values().len());
    bytes.extend_from_slice(b"\x93NUMPY\x01\x00");
    bytes.extend_from_slice(&(length as u16).to_le_bytes());
    bytes.extend_from_slice(head.as_bytes());
    width.write(batch.values(), &mut bytes);
    bytes
}

fn encode_json(batch: &Batch, schema: &Schema) -> Vec<u8> {
    let mut lines = Vec::new();
    for row in batch.rows() {
        let cells = row.iter().zip(&schema.columns).map(|(value, column)| {
            let label = column.categories.as_ref().and_then(|labels| labels.get(*value as usize));
            let cell = label.map_or_else(|| serde_json::json!(value), |label| serde_json::json!(label));
            (column.name.clone(), cell)
        });
        let object: serde_json::Map<_, _> = cells.collect();
        lines.extend(serde_json::to_vec(&object).expect("text and numbers"));
        lines.push(b'\n');
    }
    lines
}

/// The rows of a message, as the columns of the model, or why there are none. Rows that do not pass are bad rows.
pub fn decode_rows(
    message: &[u8],
    schema: &Schema,
    check: impl Fn(&[f64]) -> Result<(), DomainError>,
    spec: &JobSpec,
) -> Result<Batch, String> {
    read_rows(message, schema, check, spec.on_bad_row, message_limits(spec.batch_size))
}

fn read_rows(
    message: &[u8],
    schema: &Schema,
    check: impl Fn(&[f64]) -> Result<(), DomainError>,
    on_bad_row: OnBadRow,
    limits: Limits,
) -> Result<Batch, String> {
    let options = ReadOptions {
        expect: Some(schema.clone()),
        on_bad_row,
        limits: Some(limits),
        ..ReadOptions::default()
    };
    let mut source = open(&[Input::Memory(message.to_vec())], &options).map_err(|error| error.to_string())?;
    let mut values: Vec<f64> = Vec::new();
    while let Some(batch) = source.next_batch(1 << 16).map_err(|error| error.to_string())? {
        for row in batch.rows() {
            match check(row) {
                Ok(()) => values.extend_from_slice(row),
                Err(_) if on_bad_row == OnBadRow::Skip => {}
                Err(fault) => {
                    let column = schema.columns.get(fault.column).map_or("?", |column| column.name.as_str());
                    return Err(format!("column \"{column}\": {} is not {}", fault.value, fault.expected));
                }
            }
        }
    }
    Batch::new(schema.dimensions(), values).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use anabranch::family::{AnyFamily, Bernoulli, Categorical, Diagonal, Family};
    use anabranch_io::Column;

    use super::*;

    fn decode_rows(
        message: &[u8],
        schema: &Schema,
        family: &AnyFamily,
        on_bad_row: OnBadRow,
        limits: Limits,
    ) -> Result<Batch, String> {
        read_rows(message, schema, |row| family.check(row), on_bad_row, limits)
    }

    const LIMITS: Limits = Limits { bytes: 1 << 20, rows: 1000 };

    fn numbers(names: &[&str]) -> Schema {
        Schema { columns: names.iter().map(|name| Column::number(*name)).collect(), named: true }
    }

    fn diagonal() -> AnyFamily {
        Diagonal::from_rows(&Batch::new(2, vec![0.0, 1.0, 2.0, 3.0]).unwrap()).unwrap().into()
    }

    #[test]
    fn numbers_survive_the_way_bit_by_bit() {
        let batch = Batch::new(2, vec![0.1, -1e300, f64::MIN_POSITIVE, 3.0]).unwrap();
        let schema = numbers(&["a", "b"]);
        let message = encode_rows(&batch, &schema);
        assert_eq!(message.len(), 128 + 32);
        let wide = Diagonal::from_rows(&Batch::new(2, vec![-1e150, -1e150, 1e150, 1e150]).unwrap()).unwrap();
        let small = Batch::new(2, vec![0.1, -1e100, f64::MIN_POSITIVE, 3.0]).unwrap();
        let again = decode_rows(&encode_rows(&small, &schema), &schema, &wide.into(), OnBadRow::Fail, LIMITS)
            .unwrap();
        assert_eq!(again, small);
    }

    #[test]
    fn numbers_travel_in_as_few_bytes_as_bring_them_back() {
        let schema = numbers(&["a", "b"]);
        let same = |a: &Batch, b: &Batch| {
            a.values().iter().map(|value| value.to_bits()).eq(b.values().iter().map(|value| value.to_bits()))
        };
        for (pair, bytes) in [
            ([0.0, 255.0], 1),
            ([0.0, 256.0], 2),
            ([-32768.0, 32767.0], 2),
            ([0.0, 32768.0], 4),
            ([0.5, -0.0], 4),
            ([-0.0, 1.0], 4),
            ([1.0, f64::from(f32::MIN_POSITIVE)], 4),
            ([1.0, 0.1], 8),
            ([1.0, 16_777_217.0], 8),
            ([1.0, 1e39], 8),
        ] {
            let batch = Batch::new(2, pair.repeat(3)).unwrap();
            let message = encode_rows(&batch, &schema);
            assert_eq!(message.len(), 128 + 6 * bytes, "{pair:?}");
            let read = read_rows(&message, &schema, |_| Ok(()), OnBadRow::Fail, LIMITS).unwrap();
            assert!(same(&read, &batch), "{pair:?} came back as {:?}", read.values());
        }
    }

    #[test]
    fn categories_travel_by_their_labels() {
        let labels = Some(vec!["red".to_owned(), "blue".to_owned()]);
        let sent = Schema { columns: vec![Column { name: "c".into(), categories: labels }], named: true };
        let batch = Batch::new(1, vec![1.0, 0.0]).unwrap();
        let message = encode_rows(&batch, &sent);
        assert_eq!(message, b"{\"c\":\"blue\"}\n{\"c\":\"red\"}\n");
        let other = Some(vec!["blue".to_owned(), "red".to_owned()]);
        let known = Schema { columns: vec![Column { name: "c".into(), categories: other }], named: true };
        let family = Categorical::new(vec![vec![1.0, 1.0, 1.0]]).unwrap().into();
        let read = decode_rows(&message, &known, &family, OnBadRow::Fail, LIMITS).unwrap();
        assert_eq!(read.values(), [0.0, 1.0]);
    }

    #[test]
    fn plain_json_from_anybody_is_read_by_column_names() {
        let message = b"{\"b\": 2, \"x\": 9, \"a\": 1}\n{\"a\": 3, \"b\": 4, \"x\": 0}\n";
        let read = decode_rows(message, &numbers(&["a", "b"]), &diagonal(), OnBadRow::Fail, LIMITS).unwrap();
        assert_eq!(read.values(), [1.0, 2.0, 3.0, 4.0]);
        let read =
            decode_rows(b"[1, 2]", &numbers(&["a", "b"]), &diagonal(), OnBadRow::Fail, LIMITS).unwrap();
        assert_eq!(read.values(), [1.0, 2.0]);
    }

    #[test]
    fn a_message_that_cannot_be_read_says_why() {
        let schema = numbers(&["a", "b"]);
        let error = decode_rows(b"{\"a\": 1}", &schema, &diagonal(), OnBadRow::Fail, LIMITS).unwrap_err();
        assert!(error.contains("\"b\""), "{error}");
        assert!(decode_rows(b"", &schema, &diagonal(), OnBadRow::Fail, LIMITS).is_err());
        assert!(decode_rows(&[0xff; 40], &schema, &diagonal(), OnBadRow::Fail, LIMITS).is_err());
        let bits: AnyFamily = Bernoulli::new(vec![1.0; 2], vec![1.0; 2]).unwrap().into();
        let error = decode_rows(b"[1, 7]", &schema, &bits, OnBadRow::Fail, LIMITS).unwrap_err();
        assert!(error.starts_with("column \"b\": 7 is not"), "{error}");
        assert_eq!(
            decode_rows(b"[1, 7]\n[1, 0]", &schema, &bits, OnBadRow::Skip, LIMITS).unwrap().n_rows(),
            1
        );
    }

    /// A small message that is a large one inside.
    fn gzip(bytes: &[u8]) -> Vec<u8> {
        use std::io::Write;
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    }

    #[test]
    fn a_message_that_unpacks_beyond_its_limits_is_refused() {
        let schema = numbers(&["a", "b"]);
        let refusal = |message: &[u8], on_bad_row, limits: Limits| {
            decode_rows(message, &schema, &diagonal(), on_bad_row, limits).unwrap_err()
        };
        let zeros = |rows: usize| encode_rows(&Batch::new(2, vec![0.0; 2 * rows]).unwrap(), &schema);
        let rows = "it has more than 1000 rows";
        for message in
            [b"[1, 2]\n".repeat(1001), zeros(1001), [b"a,b\n".to_vec(), b"1,2\n".repeat(1001)].concat()]
        {
            for packed in [message.clone(), gzip(&message), zstd::encode_all(&message[..], 3).unwrap()] {
                let error = refusal(&packed, OnBadRow::Fail, LIMITS);
                assert!(error.contains(rows), "{error}");
            }
        }
        // Bad rows are rows, and rows of numbers take bytes however they came.
        assert!(refusal(&b"[1, null]\n".repeat(1001), OnBadRow::Skip, LIMITS).contains(rows));
        let narrow = Limits { bytes: 160, rows: 1000 };
        assert!(
            refusal(&b"[1, 2]\n".repeat(11), OnBadRow::Fail, narrow).contains("it has more than 10 rows")
        );
        // What is not rows at all: blank lines, one long cell.
        for message in [b"\n".repeat(2 << 20), [b"[1, ".to_vec(), b" ".repeat(2 << 20)].concat()] {
            let error = refusal(&gzip(&message), OnBadRow::Skip, LIMITS);
            assert!(error.contains("what it unpacks to takes more than 1048576 bytes"), "{error}");
        }
        let within = decode_rows(&gzip(&zeros(1000)), &schema, &diagonal(), OnBadRow::Fail, LIMITS).unwrap();
        assert_eq!(within.n_rows(), 1000);
        assert!(refusal(b"PAR1 and whatever", OnBadRow::Fail, LIMITS).contains("not read from strangers"));
    }
}
