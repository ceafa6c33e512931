//! A stream of any length in the memory of a few minibatches.

use std::io::{BufWriter, Write};
use std::process::Stdio;

use crate::support::data::three_clusters;
use crate::support::{Run, Sandbox, assert_mass, fit_args, whole};

/// Copies of the table below that make the stream.
const COPIES: u64 = 460;
/// The program, its buffers, the first minibatch and the rows that judge take some 40 MB; the rows alone would be more than
/// this as text.
const LIMIT: u64 = 50_000_000;

#[test]
fn memory_does_not_grow_with_the_stream() {
    let table = three_clusters(1_000, 1);
    let csv = table.csv();
    let (header, rows) = csv.split_once('\n').unwrap();
    let n_rows = COPIES * table.len();
    let sandbox = Sandbox::new();
    let mut child = sandbox.command(&fit_args(&["-"])).stdin(Stdio::piped()).spawn().unwrap();
    let stdin = child.stdin.take().expect("it was piped");
    let result = std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut out = BufWriter::new(stdin);
            writeln!(out, "{header}").unwrap();
            (0..COPIES).for_each(|_| out.write_all(rows.as_bytes()).unwrap());
        });
        Run::of(child).silent_json()
    });
    assert_mass(&result, n_rows);
    let peak = whole(&result, "peak_rss_bytes");
    assert!(peak < LIMIT, "{peak} bytes for {n_rows} rows");
}
