//! Flags that make no sense are refused with a message that names them, before any work.

use crate::support::data::three_clusters;
use crate::support::{Run, Sandbox};

fn fit(flags: &[&str]) -> Run {
    let sandbox = Sandbox::with("rows.csv", three_clusters(10, 1).csv());
    sandbox.run(&[&["fit", "rows.csv"], flags].concat())
}

#[test]
fn a_concentration_must_be_positive_and_finite() {
    for (alpha, shown) in [("0", "0"), ("-1", "-1"), ("nan", "NaN"), ("inf", "inf")] {
        assert_eq!(
            fit(&["--alpha", alpha]).refusal(),
            format!("--alpha: concentration alpha = {shown} is not a finite number above 0")
        );
    }
}

#[test]
fn a_prior_must_be_proper() {
    let flags: [(&[&str], &str); 9] = [
        (&["--prior-dof", "1"], "1 degrees of freedom are too few for 2 columns: more than 1 are needed"),
        (&["--prior-dof", "-3"], "--prior-dof: -3 is not a finite number above 0"),
        (&["--prior-dof", "nan"], "--prior-dof: NaN is not a finite number above 0"),
        (&["--prior-scale", "0"], "--prior-scale: 0 is not a finite number above 0"),
        (&["--prior-scale", "1,-2"], "--prior-scale: -2 is not a finite number above 0"),
        (&["--prior-kappa", "0"], "--prior-kappa: 0 is not a finite number above 0"),
        (&["--prior-kappa", "-1"], "--prior-kappa: -1 is not a finite number above 0"),
        (&["--prior-scale", "1,2,3"], "--prior-scale: \"1,2,3\" holds 3 numbers for 2 columns"),
        (&["--prior", "auto", "--prior-dof", "9"], "--prior auto and --prior-dof exclude each other"),
    ];
    for (flags, message) in flags {
        assert_eq!(fit(flags).message(), message);
    }
}

#[test]
fn nothing_can_be_done_with_none() {
    let flags: [(&[&str], &str); 5] = [
        (&["--polish=0"], "invalid value '0' for '--polish[=<ROWS>]': 0 is not in 1..18446744073709551615"),
        (&["--batch-size", "0"], "invalid value '0' for '--batch-size <ROWS>': 0 is not in 1..=4294967295"),
        (&["--threads", "0"], "invalid value '0' for '--threads <N>': 0 is not in 1..=4096"),
        (&["--workers", "0"], "invalid value '0' for '--workers <N>': 0 is not in 1..=65536"),
        (&["--passes", "0"], "--passes 0 would learn nothing"),
    ];
    for (flags, message) in flags {
        assert_eq!(fit(flags).message(), message);
    }
}

#[test]
fn flags_that_exclude_each_other_say_so() {
    let flags: [(&[&str], &str); 4] = [
        (
            &["--family", "multinomial", "--prior-kappa", "1", "--prior-scale", "1"],
            "--prior-kappa and --prior-scale exclude each other with --family multinomial",
        ),
        (
            &["--columns", "x", "--family", "gaussian:x+poisson:y"],
            "--columns and the columns of --family exclude each other",
        ),
        (
            &["--family", "gaussian+poisson"],
            "--family gaussian+poisson: one part alone may leave its columns out, and takes all that the others do not name",
        ),
        (
            &["--family", "gaussian:x+poisson:y", "--prior-kappa", "1"],
            "--prior-kappa goes with one family, not with several",
        ),
    ];
    for (flags, message) in flags {
        assert_eq!(fit(flags).message(), message);
    }
}

#[test]
fn resuming_needs_a_checkpoint_folder() {
    assert!(fit(&["--resume"]).refusal().contains("--checkpoint <DIR>"));
    assert_eq!(
        fit(&["--checkpoint", "c", "--checkpoint-every", "nan"]).refusal(),
        "--checkpoint-every NaN is not a number of seconds"
    );
}

#[test]
fn standard_input_cannot_be_read_twice() {
    let sandbox = Sandbox::with("labels.csv", "0\n1\n");
    let twice = sandbox.run_with_input(&["fit", "-", "-"], "x\n1\n2\n");
    assert_eq!(twice.refusal(), "standard input can be read once, not twice");
    let labels = sandbox.run_with_input(&["fit", "-", "--labels", "labels.csv"], "x\n1\n2\n");
    assert!(labels.message().starts_with("--labels reads the input a second time"), "{}", labels.stderr);
    let test = sandbox.run_with_input(&["fit", "-", "--test", "-"], "x\n1\n2\n");
    assert_eq!(test.message(), "standard input can be read once, not twice");
}

#[test]
fn a_column_that_is_not_there_is_answered_with_those_that_are() {
    assert_eq!(fit(&["--columns", "x,z"]).message(), "rows.csv: no column \"z\"; the columns are x, y");
}
