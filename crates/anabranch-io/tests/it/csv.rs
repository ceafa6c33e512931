//! Delimited text: quotes, line ends, delimiters, headers, and every kind of bad row.

use anabranch_io::{Format, Input, ReadOptions, open};

use crate::support::{message, message_with, read, rows, skipping, strings};

fn names(text: &str) -> Vec<String> {
    let source = open(&[Input::Memory(text.into())], &ReadOptions::default()).unwrap();
    source.schema().names().map(str::to_owned).collect()
}

#[test]
fn a_header_is_found_when_a_cell_is_a_word() {
    assert_eq!(names("x,y\n1,2\n"), ["x", "y"]);
    assert_eq!(names("\"the x\", y \n1,2\n"), ["the x", "y"]);
    assert_eq!(names("1,2\n3,4\n"), ["1", "2"]);
    assert_eq!(names(",y\n1,2\n"), ["1", "y"]);
    assert_eq!(rows("1,2\n3,4\n"), [[1.0, 2.0], [3.0, 4.0]]);
    assert_eq!(rows("x,y\n3,4\n"), [[3.0, 4.0]]);
}

#[test]
fn a_header_can_be_required_or_denied() {
    let with = |has_header| ReadOptions { has_header: Some(has_header), ..Default::default() };
    assert_eq!(read("0,1\n3,4\n", &with(true)).unwrap(), [[3.0, 4.0]]);
    let denied = message_with("x,y\n3,4\n", &with(false));
    assert_eq!(denied, "memory: row 1 (line 1), column 1: \"x\" is not a number");
}

#[test]
fn delimiters_are_found() {
    let expected = [[1.0, -2.5], [3.0, 4e3]];
    for text in [
        "1,-2.5\n3,4e3",
        "1;-2.5\n3;4e3\n",
        "1\t-2.5\n3\t4e3\n",
        " 1   -2.5\n\t3 4e3\n",
        "a b\n1 -2.5\n3 4e3",
    ] {
        assert_eq!(rows(text), expected, "{text:?}");
    }
    let tabs = ReadOptions { format: Some(Format::Tsv), ..Default::default() };
    assert_eq!(read("a b\tc\n1\t2\n", &tabs).unwrap(), [[1.0, 2.0]]);
    let bars = ReadOptions { delimiter: Some(b'|'), ..Default::default() };
    assert_eq!(read("1|2\n", &bars).unwrap(), [[1.0, 2.0]]);
    let spaces = ReadOptions { delimiter: Some(b' '), ..Default::default() };
    assert_eq!(read("1   2\n", &spaces).unwrap(), [[1.0, 2.0]]);
}

#[test]
fn line_ends_byte_order_marks_and_blank_lines_do_no_harm() {
    assert_eq!(rows("x,y\r\n1,2\r\n3,4\r\n"), [[1.0, 2.0], [3.0, 4.0]]);
    assert_eq!(rows("\u{feff}x,y\n1,2\n"), [[1.0, 2.0]]);
    assert_eq!(names("\u{feff}\"x\",y\n1,2\n"), ["x", "y"]);
    assert_eq!(rows("\n\n1,2\n\n\r\n3,4\n\n"), [[1.0, 2.0], [3.0, 4.0]]);
    assert_eq!(rows("1,2\r3,4\r"), [[1.0, 2.0], [3.0, 4.0]]);
}

#[test]
fn quotes_may_hold_line_ends_and_quoted_numbers_are_numbers() {
    let text = "name,x\n\"first\nline \"\"two\"\"\",1\n\"b,c\",\"2\"\n";
    let only = ReadOptions { columns: Some(strings(&["x"])), ..Default::default() };
    assert_eq!(read(text, &only).unwrap(), [[1.0], [2.0]]);
}

#[test]
fn one_column_needs_no_delimiter() {
    assert_eq!(rows("height\n1\n2\n"), [[1.0], [2.0]]);
    assert_eq!(rows("1\n2"), [[1.0], [2.0]]);
}

#[test]
fn every_bad_row_is_told_with_its_place() {
    for (bad, expected) in [
        ("x,y\n1,2\n3,\n", "memory: row 2 (line 3), column \"y\" has no value"),
        ("x,y\n1,2\n\n3,NA\n", "memory: row 2 (line 4), column \"y\": \"NA\" is not a number"),
        ("x,y\n1,2\nnan,3\n", "memory: row 2 (line 3), column \"x\": nan is not a finite number"),
        ("x,y\n1,2\n3,-inf\n", "memory: row 2 (line 3), column \"y\": -inf is not a finite number"),
        ("x,y\n1,1e400\n", "memory: row 1 (line 2), column \"y\": 1e400 is not a finite number"),
        ("x,y\n1,2\n3\n", "memory: row 2 (line 3) has 1 columns, expected 2"),
        ("x,y\n1,2,3\n", "memory: row 1 (line 2) has 3 columns, expected 2"),
        ("1,2\n3,four\n", "memory: row 2 (line 2), column 2: \"four\" is not a number"),
        ("1,2\n\"3\n\",4\n5,x\n", "memory: row 3 (line 4), column 2: \"x\" is not a number"),
    ] {
        assert_eq!(message(bad), expected, "{bad:?}");
    }
}

#[test]
fn a_long_cell_is_shortened_in_messages() {
    let text = format!("x\n{}\n", "é".repeat(500));
    assert_eq!(
        message(text),
        format!("memory: row 1 (line 2), column \"x\": \"{}…\" is not a number", "é".repeat(40))
    );
}

#[test]
fn bad_rows_are_skipped_and_counted() {
    let text = "x,y\n1,2\n3,\n4\n5,6,7\n8,inf\n9,NA\n10,11\nq,r\n12,13\n";
    assert_eq!(skipping(text), (vec![vec![1.0, 2.0], vec![10.0, 11.0], vec![12.0, 13.0]], 6));
}

#[test]
fn an_input_without_rows_is_refused() {
    assert_eq!(message(""), "memory has no rows");
    assert_eq!(message("\n\n"), "memory has no rows");
    assert_eq!(message("x,y\n"), "memory has no rows");
    let skip = ReadOptions { on_bad_row: anabranch_io::OnBadRow::Skip, ..Default::default() };
    let all_bad = message_with("x,y\n1,\n,2\n", &skip);
    assert_eq!(
        all_bad,
        "memory has no good rows: all 2 were skipped, \
         the first was memory: row 1 (line 2), column \"y\" has no value"
    );
}

#[test]
fn two_columns_of_one_name_are_refused() {
    assert_eq!(message("x,x\n1,2\n"), "memory: two columns are called \"x\"");
}

#[test]
fn a_quote_never_closed_is_refused_before_it_fills_memory() {
    let text = format!("x,y\n1,2\n\"{}", "3,4\n".repeat(5 << 20));
    assert_eq!(message(text), "memory: the row at line 3 is longer than 16777216 bytes");
}

/// Enough rows for threads to parse ahead, several times over.
const MANY: usize = 60_000;

/// Rows of two numbers, with some lines replaced.
fn many(replaced: &[(usize, &str)]) -> String {
    let mut lines: Vec<String> = (0..MANY).map(|row| format!("{row},{}", row as f64 / 8.0)).collect();
    replaced.iter().for_each(|(row, line)| lines[*row] = (*line).to_owned());
    lines.join("\n")
}

fn expected(row: usize) -> [f64; 2] {
    [row as f64, row as f64 / 8.0]
}

#[test]
fn many_rows_come_in_their_order() {
    let all: Vec<[f64; 2]> = (0..MANY).map(expected).collect();
    assert!(rows(many(&[])) == all);
    assert!(rows(many(&[]).replace('\n', "\r\n")) == all);
    assert!(rows(many(&[]) + "\n") == all);
}

#[test]
fn bad_rows_are_named_and_skipped_the_same_far_into_a_text() {
    let text = many(&[(50, ""), (40_000, "7,x"), (50_000, "1,2,3")]);
    // A blank line is no row: the row's number is one less than the line's.
    assert_eq!(message(text.clone()), "memory: row 40000 (line 40001), column 2: \"x\" is not a number");
    let without: Vec<[f64; 2]> =
        (0..MANY).filter(|row| ![50, 40_000, 50_000].contains(row)).map(expected).collect();
    assert!(skipping(text) == (without.iter().map(|row| row.to_vec()).collect(), 2));
}

#[test]
fn quotes_far_into_a_text_may_span_lines() {
    let text = many(&[(30_000, "\"1\",\"2\""), (30_001, "3,\"4\n\""), (59_000, "5,oh")]);
    assert_eq!(message(text.clone()), "memory: row 59001 (line 59002), column 2: \"oh\" is not a number");
    let (found, skipped) = skipping(text);
    assert_eq!((found.len(), skipped), (MANY - 1, 1));
    assert_eq!((&found[30_000], &found[30_001]), (&vec![1.0, 2.0], &vec![3.0, 4.0]));
    assert_eq!(found[59_000], expected(59_001));
}
