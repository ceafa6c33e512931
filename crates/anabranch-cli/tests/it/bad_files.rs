//! Files that are missing, empty, damaged, of another kind, or cannot be written.

use crate::support::Sandbox;
use crate::support::data::three_clusters;

#[test]
fn inputs_that_cannot_be_read_are_named() {
    let sandbox = Sandbox::with("empty.csv", "");
    sandbox.write("header.csv", "x,y\n");
    sandbox.write("what.bin", [0_u8, 1, 2, 3]);
    std::fs::create_dir(sandbox.path("folder")).unwrap();
    let files = [
        ("missing.csv", "missing.csv: no such file"),
        ("folder", "folder: is a directory"),
        ("empty.csv", "empty.csv has no rows"),
        ("header.csv", "header.csv has no rows"),
        ("what.bin", "what.bin: cannot tell the format from the extension"),
    ];
    for (file, message) in files {
        let run = sandbox.run(&["fit", file]);
        assert_eq!(run.message(), message);
        assert!(run.stderr.contains("\nhint: "), "{}", run.stderr);
    }
}

#[test]
fn a_test_set_that_cannot_be_used_is_named_before_the_fit() {
    let sandbox = Sandbox::with("rows.csv", three_clusters(10, 1).csv());
    sandbox.write("empty.csv", "");
    sandbox.write("header.csv", "x,y\n");
    sandbox.write("other.csv", "a,b\n1,2\n");
    for (file, message) in [
        ("missing.csv", "missing.csv: no such file"),
        ("empty.csv", "empty.csv has no rows"),
        ("header.csv", "header.csv has no rows"),
        ("other.csv", "other.csv: no column \"x\"; the model was made on x, y, the file has a, b"),
    ] {
        let run = sandbox.run(&["fit", "rows.csv", "--test", file, "--out", "model"]);
        assert_eq!(run.message(), message);
        assert!(!sandbox.path("model").exists());
    }
}

#[test]
fn labels_must_be_as_many_as_the_rows() {
    let sandbox = Sandbox::with("rows.csv", three_clusters(2, 1).csv());
    for labels in ["1\n2\n3\n4\n5\n", "1\n2\n3\n4\n5\n6\n7\n"] {
        sandbox.write("labels", labels);
        let run = sandbox.run(&["fit", "rows.csv", "-q", "--labels", "labels"]);
        let given = labels.lines().count();
        let rows = if given < 6 { "more" } else { "6 rows" };
        assert_eq!(run.message(), format!("--labels has {given} labels, the input has {rows}"));
    }
    assert_eq!(sandbox.run(&["fit", "rows.csv", "--labels", "none"]).message(), "none: no such file");
}

#[test]
fn files_that_are_no_models_are_refused_by_every_command() {
    let sandbox = Sandbox::with_model();
    sandbox.write("empty", "");
    let bytes = sandbox.read("model");
    sandbox.write("cut_in_header", &bytes[..bytes.len() / 4]);
    sandbox.write("cut_in_data", &bytes[..bytes.len() - 8]);
    let mut flipped = bytes.clone();
    *flipped.last_mut().unwrap() ^= 1;
    sandbox.write("flipped", flipped);
    let not_a_model = "not an anabranch model: it does not begin like one, or is cut short";
    for (file, message) in [
        ("rows.csv", not_a_model),
        ("empty", not_a_model),
        ("cut_in_header", not_a_model),
        ("cut_in_data", "damaged: its length is not the one it tells"),
        ("flipped", "damaged: the checksum does not match"),
    ] {
        for args in [&["inspect", file][..], &["sample", file, "-n", "1"], &["predict", file, "rows.csv"]] {
            let run = sandbox.run(args);
            assert_eq!(run.message(), format!("{file}: {message}"));
            assert!(run.stderr.contains("\nhint: "), "{}", run.stderr);
        }
    }
    let missing = sandbox.run(&["inspect", "nowhere"]);
    assert!(missing.message().starts_with("nowhere: No such file"), "{}", missing.stderr);
}

#[test]
fn a_model_of_a_newer_program_is_refused_with_what_to_do() {
    let sandbox = Sandbox::with_model();
    let bytes = sandbox.read("model");
    let (old, new) = (b"\"version\":\"1\"", b"\"version\":\"9\"");
    let at = bytes.windows(old.len()).position(|window| window == old).expect("a model tells its version");
    sandbox.write("newer", [&bytes[..at], new, &bytes[at + old.len()..]].concat());
    insta::assert_snapshot!(sandbox.run(&["inspect", "newer"]).transcript(), @r"
    exit code: 1
    ----- stdout -----
    ----- stderr -----
    error: newer: written in model format 9, this program reads up to 1
    hint: update anabranch, or fit the model again with this version
    ");
}

#[test]
fn rows_of_other_columns_cannot_be_predicted() {
    let sandbox = Sandbox::with_model();
    sandbox.write("other.csv", "a,b,c\n1,2,3\n");
    sandbox.write("narrow.npy", {
        let mut table = three_clusters(2, 1);
        table.names.pop();
        table.rows.iter_mut().for_each(|row| row.truncate(1));
        table.npy()
    });
    let named = sandbox.run(&["predict", "model", "other.csv"]);
    assert_eq!(
        named.message(),
        "other.csv: no column \"x\"; the model was made on x, y, the file has a, b, c"
    );
    let unnamed = sandbox.run(&["predict", "model", "narrow.npy"]);
    assert_eq!(unnamed.message(), "narrow.npy: has 1 columns, the model has 2");
}

#[test]
fn a_place_that_cannot_be_written_is_told_before_the_work() {
    let sandbox = Sandbox::with("rows.csv", three_clusters(10, 1).csv());
    sandbox.write("file", "");
    for (flag, place, message) in [
        ("--out", "nowhere/model", "--out nowhere/model: no folder nowhere"),
        ("--out", ".", "--out .: is a folder"),
        ("--report", "file", "--report file: is not a folder"),
    ] {
        let run = sandbox.run(&["fit", "rows.csv", "--trace", "trace.csv", flag, place]);
        assert_eq!(run.message(), message);
        assert!(!sandbox.path("trace.csv").exists(), "nothing was begun");
    }
    let trace = sandbox.run(&["fit", "rows.csv", "--trace", "nowhere/trace.csv"]);
    assert!(trace.message().starts_with("--trace nowhere/trace.csv: "), "{}", trace.stderr);
    let checkpoint = sandbox.run(&["fit", "rows.csv", "--checkpoint", "file/inside"]);
    assert!(checkpoint.message().starts_with("--checkpoint file/inside: "), "{}", checkpoint.stderr);
}

/// A device on which every write fails stands for a full disk.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_behind_the_trace_is_told() {
    let sandbox = Sandbox::with("rows.csv", three_clusters(2_000, 1).csv());
    // One minibatch is told at the end, hundreds on the way.
    for flags in [&[][..], &["--bootstrap", "10", "--batch-size", "10"]] {
        let run = sandbox.run(&[&["fit", "rows.csv", "-q", "--trace", "/dev/full"], flags].concat());
        assert!(run.message().starts_with("--trace /dev/full: No space left on device"), "{}", run.stderr);
    }
}

#[test]
fn a_table_of_very_many_columns_is_refused_with_the_advice_to_leave_covariances_out() {
    const COLUMNS: usize = 150_000;
    let row =
        |ix: usize| (0..COLUMNS).map(|column| format!("{}", (ix + column) % 7)).collect::<Vec<_>>().join(",");
    let text = (0..2).map(row).collect::<Vec<_>>().join("\n");
    let sandbox = Sandbox::with("wide.csv", text);
    let run = sandbox.run(&["fit", "wide.csv", "-q"]);
    assert_eq!(run.message(), "the covariances of 150000 columns take 90 GB for each component");
    assert!(run.stderr.contains("hint: take --family diagonal"), "{}", run.stderr);
    let result = sandbox.fit(&["wide.csv", "--family", "diagonal"]);
    assert_eq!(result["observations"], 2);
    let few = sandbox.run(&["fit", "wide.csv", "-q", "--family", "diagonal", "--max-memory", "1M"]);
    assert_eq!(
        few.message(),
        "wide.csv: a minibatch of rows of 150000 columns takes more than 1048576 bytes"
    );
}

#[test]
fn sizes_are_told_in_bytes_or_with_a_unit() {
    let sandbox = Sandbox::with("rows.csv", "1\n2\n");
    for size in ["4G", "512m", "1000000", "900k", "1T"] {
        sandbox.run(&["fit", "rows.csv", "-q", "--max-memory", size]).ok();
    }
    for size in ["G", "-1", "1.5G", "99999999999T", "4GB"] {
        let run = sandbox.run(&["fit", "rows.csv", "-q", &format!("--max-memory={size}")]);
        assert!(
            run.stderr.contains("expected a number of bytes such as 512M or 4G"),
            "{size}: {}",
            run.stderr
        );
    }
}
