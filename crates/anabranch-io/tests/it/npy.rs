//! Arrays of numpy: versions, orders, types, and files that lie about themselves.

use anabranch_io::{Input, ReadOptions, open};

use crate::support::{gzip, message, npy, npy_fortran, npy_header, npy_with, rows, skipping, table};

#[test]
fn all_three_versions_are_read() {
    let header = npy_header("'<f8'", false, "(1, 2)");
    let data = [1.0f64.to_le_bytes(), 2.0f64.to_le_bytes()].concat();
    for version in 1..=3 {
        assert_eq!(rows(npy_with(version, &header, &data)), [[1.0, 2.0]]);
    }
    assert_eq!(message(npy_with(4, &header, &data)), "memory: not a valid npy file: version 4 is unknown");
}

#[test]
fn one_dimension_is_one_column() {
    assert_eq!(rows(npy_with(1, &npy_header("'|i1'", false, "(3,)"), &[1, 255, 3])), [[1.0], [-1.0], [3.0]]);
    assert_eq!(rows(npy_with(1, &npy_header("'|b1'", true, "(2,)"), &[0, 1])), [[0.0], [1.0]]);
}

#[test]
fn both_orders_give_the_same_rows_over_many_pieces() {
    // Larger than one piece of either order.
    let expected = table(700_000, 3);
    assert!(rows(npy(&expected)) == expected);
    assert!(rows(npy_fortran(&expected)) == expected);
}

#[test]
fn a_plain_file_is_read_like_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.npy");
    for bytes in [npy(&table(9, 2)), npy_fortran(&table(9, 2)), gzip(&npy_fortran(&table(9, 2)))] {
        std::fs::write(&path, bytes).unwrap();
        let mut source = open(&[Input::Path(path.clone())], &ReadOptions::default()).unwrap();
        assert_eq!(source.rows_hint(), Some(9));
        let batch = source.next_batch(100).unwrap().unwrap();
        assert_eq!(batch.values(), table(9, 2).concat());
    }
}

#[test]
fn values_that_are_not_finite_are_bad_rows() {
    let mut table = table(4, 2);
    table[2][1] = f64::NEG_INFINITY;
    assert_eq!(message(npy(&table)), "memory: row 3, column 2: -inf is not a finite number");
    let (good, skipped) = skipping(npy_fortran(&table));
    assert_eq!((good.len(), skipped), (3, 1));
}

#[test]
fn types_that_are_no_numbers_are_refused_by_name() {
    let of = |descr: &str| message(npy_with(1, &npy_header(descr, false, "(1,)"), &[0; 8]));
    assert_eq!(
        of("'|O'"),
        "memory: not a valid npy file: dtype |O holds Python objects; float, integer and bool arrays are read"
    );
    assert_eq!(
        of("[('a', '<f4'), ('b', '<f4')]"),
        "memory: not a valid npy file: dtype [('a', '<f4'), ('b', '<f4')] holds records; \
         float, integer and bool arrays are read"
    );
}

#[test]
fn a_file_shorter_than_its_header_says_is_refused() {
    let whole = npy(&table(4, 2));
    let cut = &whole[..whole.len() - 3];
    let length = whole.len();
    assert_eq!(
        message(cut),
        format!("memory: not a valid npy file: its header promises {length} bytes, it has {}", length - 3)
    );
    // A stream shows its length only at the end.
    assert_eq!(message(gzip(cut)), "memory: not a valid npy file: it ends before row 4 of 4");
    assert_eq!(message(&whole[..30]), "memory: not a valid npy file: its header is cut short");
}

#[test]
fn hostile_headers_allocate_nothing_and_are_refused() {
    let of = |shape: &str, fortran| npy_with(1, &npy_header("'<f8'", fortran, shape), &[0; 64]);
    for fortran in [false, true] {
        for shape in
            ["(9223372036854775807, 1)", "(4611686018427387904, 4)", "(2, 1048576)", "(1, 99999999999)"]
        {
            assert!(message(of(shape, fortran)).contains("not a valid npy file"), "{shape}");
            assert!(message(gzip(&of(shape, fortran))).contains("not a valid npy file"), "{shape}");
        }
        assert_eq!(message(of("(0, 3)", fortran)), "memory has no rows");
    }
    let huge = [b"\x93NUMPY\x02\x00".as_slice(), &u32::MAX.to_le_bytes()].concat();
    assert_eq!(
        message(huge),
        "memory: not a valid npy file: its header of 4294967295 bytes is longer than 1048576"
    );
}

#[test]
fn labels_come_from_arrays_of_integers_or_booleans() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("labels.npy");
    let write = |descr: &str, shape: &str, data: &[u8]| {
        std::fs::write(&path, npy_with(1, &npy_header(descr, false, shape), data)).unwrap();
        anabranch_io::labels::read_labels(&path).map_err(|error| error.to_string())
    };
    assert_eq!(write("'|u1'", "(3,)", &[0, 200, 1]), Ok(vec![0, 200, 1]));
    assert_eq!(write("'|b1'", "(2, 1)", &[1, 0]), Ok(vec![1, 0]));
    assert_eq!(write("'>i8'", "(1,)", &((1i64 << 53) + 1).to_be_bytes()), Ok(vec![(1 << 53) + 1]));
    assert!(write("'<f8'", "(1,)", &[0; 8]).unwrap_err().ends_with("it holds floating point"));
    assert!(write("'|u1'", "(1, 2)", &[0; 2]).unwrap_err().ends_with("it holds several columns"));
}
