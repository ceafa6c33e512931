//! Small files that are large once they are unpacked: refused at the limit, read below it.

use anabranch_io::words::{BagFormat, BagOptions, Bags};
use anabranch_io::{Input, MAX_MEMORY, ReadError, ReadOptions, open};
use arrow_ipc::CompressionType;

use crate::support::*;

/// What a piece may take here; the files are ten times as large.
const LIMIT: u64 = 1 << 20;

fn first_batch(bytes: &[u8], max_memory: Option<u64>, rows: usize) -> Result<usize, ReadError> {
    let options = ReadOptions { max_memory, ..ReadOptions::default() };
    let mut source = open(&[Input::Memory(bytes.to_vec())], &options)?;
    Ok(source.next_batch(rows)?.map_or(0, |batch| batch.n_rows()))
}

/// Rows of one number, so that the packed file is small.
fn zeros(n: usize, d: usize) -> Rows {
    vec![vec![0.0; d]; n]
}

#[test]
fn a_packed_file_with_a_piece_beyond_the_limit_is_refused() {
    let table = zeros(10 << 17, 1);
    let batch = record_batch(&table);
    let cases = [
        ("arrow.gz", gzip(&arrow_in_batches(&batch, table.len())), "a batch of rows"),
        (
            "arrow",
            arrow_compressed(&batch, CompressionType::ZSTD),
            "its buffers claim to expand to more than",
        ),
        ("fortran npy.gz", gzip(&npy_fortran(&table)), "an array in Fortran order from a stream"),
        (
            "parquet.gz",
            gzip(
                &[
                    &parquet(&record_batch(&zeros(7, 1)), parquet::basic::Compression::UNCOMPRESSED)[..],
                    &vec![0; 2 << 20],
                ]
                .concat(),
            ),
            "the stream",
        ),
        ("parquet", parquet_in_one_page(&batch), "a page claims to expand to 8388608 bytes"),
    ];
    for (name, bytes, what) in cases {
        assert!(bytes.len() < LIMIT as usize, "{name} is small");
        let error = first_batch(&bytes, Some(LIMIT), 10).unwrap_err();
        assert!(error.to_string().contains(what), "{name}: {error}");
        assert!(error.to_string().contains("1048576 bytes"), "{name}: {error}");
    }
    // Formats that are read in pieces have no such limit.
    for bytes in [gzip(&npy(&table)), gzip(&csv(&table))] {
        assert_eq!(first_batch(&bytes, Some(LIMIT), 10).unwrap(), 10);
    }
}

#[test]
fn what_is_below_the_limit_is_read() {
    let table = zeros(1000, 1);
    let batch = record_batch(&table);
    for bytes in
        [gzip(&arrow_stream(&batch)), gzip(&npy_fortran(&table)), parquet_in_one_page(&batch), csv(&table)]
    {
        assert_eq!(first_batch(&bytes, Some(LIMIT), 5000).unwrap(), 1000);
        assert_eq!(first_batch(&bytes, None, 5000).unwrap(), 1000);
    }
    assert_eq!(MAX_MEMORY, 512 << 20);
}

#[test]
fn a_plain_file_may_take_what_it_has() {
    let batch = record_batch(&table(1 << 17, 2));
    let bytes = arrow_in_batches(&batch, 1 << 17);
    assert!(bytes.len() as u64 > LIMIT);
    assert_eq!(first_batch(&bytes, Some(LIMIT), 10).unwrap(), 10);
}

#[test]
fn a_minibatch_beyond_the_limit_is_refused_whatever_the_format() {
    let table = zeros(1000, 200);
    for (name, _, bytes) in every_format(&table) {
        let error = first_batch(&bytes, Some(LIMIT), 1000).unwrap_err();
        let what = "a minibatch of rows of 200 columns takes more than 1048576 bytes";
        assert!(error.to_string().ends_with(what), "{name}: {error}");
        assert_eq!(first_batch(&bytes, Some(LIMIT), 500).unwrap(), 500, "{name}");
    }
}

/// A stored member of an archive with a directory that promises more.
fn archive(unpacked: u32) -> Vec<u8> {
    let name = b"indptr.npy";
    let mut bytes = b"PK\x03\x04".to_vec();
    bytes.extend([0; 22]);
    bytes.extend((name.len() as u16).to_le_bytes());
    bytes.extend([0; 2]);
    bytes.extend(name);
    let directory = bytes.len() as u32;
    bytes.extend(b"PK\x01\x02");
    bytes.extend([0; 20]);
    bytes.extend(unpacked.to_le_bytes());
    bytes.extend((name.len() as u16).to_le_bytes());
    bytes.extend([0; 16]);
    bytes.extend(name);
    bytes.extend(b"PK\x05\x06");
    bytes.extend([0; 6]);
    bytes.extend([1, 0]);
    bytes.extend([0; 4]);
    bytes.extend(directory.to_le_bytes());
    bytes.extend([0; 2]);
    bytes
}

#[test]
fn an_archive_and_its_members_have_a_limit() {
    let refused = |bytes: Vec<u8>| {
        let options =
            BagOptions { format: Some(BagFormat::Npz), max_memory: Some(LIMIT), ..BagOptions::default() };
        Bags::open(&[Input::Memory(bytes)], options).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let packed = gzip(&[&archive(0)[..], &vec![0; 2 << 20]].concat());
    assert_eq!(refused(packed), "memory: the archive takes more than 1048576 bytes");
    assert!(refused(archive(1 << 30)).contains("indptr.npy takes more than 1048576 bytes"));
}
