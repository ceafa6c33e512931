//! What a reader is told: names instead of codes and numbers, constants as such, nothing of what there is not, and hints.

use std::fmt::Write;

use crate::support::data::three_clusters;
use crate::support::{Run, Sandbox, whole};

/// Three clusters, each with a colour of its own in nine rows of ten.
fn coloured() -> String {
    let mut csv = String::from("x,y,colour\n");
    for (ix, row) in three_clusters(100, 1).rows.iter().enumerate() {
        let colour = ["red", "green", "blue"][(ix + usize::from(ix / 3 % 10 == 0)) % 3];
        let _ = writeln!(csv, "{},{},{colour}", row[0], row[1]);
    }
    csv
}

#[test]
fn a_part_of_a_family_without_columns_takes_what_is_left() {
    let with_ids = |(ix, line): (usize, &str)| match ix {
        0 => format!("id,{line}\n"),
        ix => format!("{ix},{line}\n"),
    };
    let table: String = coloured().lines().enumerate().map(with_ids).collect();
    let sandbox = Sandbox::with("rows.csv", table);
    let fit = |flags: &[&str]| {
        sandbox.fit(&[&["rows.csv", "--out", "model"], flags].concat());
        sandbox.run(&["inspect", "model", "--json"]).silent_json()["components"].clone()
    };
    let named = fit(&["--family", "gaussian:x,y+categorical:colour"]);
    assert_eq!(fit(&["--family", "gaussian+categorical:colour", "--columns=-id"]), named);
    let run = sandbox.run(&["fit", "rows.csv", "--family", "gaussian+categorical:colour", "--columns", "x"]);
    assert!(run.refusal().contains("colour"), "{}", run.stderr);
    let run = sandbox.run(&["fit", "rows.csv", "--family", "gaussian+categorical:id,x,y,colour"]);
    assert!(run.refusal().contains("no column is left for gaussian"), "{}", run.stderr);
    let run = sandbox.run(&["fit", "rows.csv", "--family", "poisson+gaussian"]);
    assert!(run.refusal().contains("one part alone"), "{}", run.stderr);
}

#[test]
fn categories_are_called_by_their_names() {
    let sandbox = Sandbox::with("rows.csv", coloured());
    let family = ["--family", "gaussian:x,y+categorical:colour"];
    sandbox.fit(&[&["rows.csv", "--out", "model", "--report", "report"], &family[..]].concat());
    let clusters = sandbox.run(&["clusters", "model"]);
    let page = sandbox.text("report/report.html");
    for colour in ["red", "green", "blue"] {
        let share =
            |text: &str| text.contains(&format!("{colour} 90 %")) || text.contains(&format!("{colour} 89 %"));
        assert!(
            share(clusters.ok()) && clusters.stdout.contains(&format!("colour {colour} ")),
            "{}",
            clusters.stdout
        );
        assert!(share(sandbox.run(&["inspect", "model"]).ok()), "{colour}");
        assert!(share(&page) && page.contains(&format!("colour {colour} ")), "{colour}");
    }
    let json = sandbox.run(&["clusters", "model", "--json"]).silent_json();
    let told = json["clusters"][0]["differences"].as_array().unwrap();
    let colour = told.iter().find(|told| told["column"] == 2).unwrap();
    assert!(["red", "green", "blue"].contains(&colour["category_name"].as_str().unwrap()), "{colour}");
    assert!(colour["mean"].as_f64().unwrap() > 0.8, "{colour}");
}

#[test]
fn columns_without_names_are_called_columns() {
    let rows: String =
        three_clusters(60, 1).rows.iter().map(|row| format!("{},{}\n", row[0], row[1].round())).collect();
    let sandbox = Sandbox::with("rows.csv", rows);
    let run = sandbox.run(&["fit", "rows.csv", "-q", "--out", "model"]);
    assert!(run.ok().contains("\nrounded to multiples of 1: column 2; "), "{}", run.stdout);
    let model = sandbox.run(&["inspect", "model"]);
    assert!(model.ok().contains("  column 1  "), "{}", model.stdout);
    assert!(sandbox.run(&["clusters", "model"]).ok().contains("column 1 "));
}

fn with_constant() -> Sandbox {
    let mut table = three_clusters(100, 1);
    table.names.extend(["same", "day"]);
    table.rows.iter_mut().for_each(|row| row.extend([7.0, 20_240_131.0]));
    Sandbox::with("rows.csv", table.csv())
}

#[test]
fn a_constant_is_shown_and_drawn_as_what_it_is() {
    for family in ["gaussian", "diagonal", "spherical"] {
        let sandbox = with_constant();
        let run = sandbox.run(&["fit", "rows.csv", "-q", "--out", "model", "--family", family]);
        assert!(run.ok().contains("\nthe same in every row: same = 7, day = 20,240,131\n"), "{}", run.stdout);
        assert!(!run.stdout.contains("following from other columns"), "{}", run.stdout);
        let model = sandbox.run(&["inspect", "model", "--json"]).silent_json();
        assert_eq!(model["constants"], serde_json::json!([null, null, 7.0, 20_240_131.0]));
        for component in model["components"].as_array().unwrap() {
            assert_eq!(
                (&component["mean"][2], &component["spread"][2]),
                (&7.0.into(), &0.0.into()),
                "{component}"
            );
        }
        let table = sandbox.run(&["inspect", "model"]);
        assert!(
            table.ok().contains("  7  20,240,131\n") && !table.stdout.contains("  7 ±"),
            "{}",
            table.stdout
        );
        assert!(!sandbox.run(&["clusters", "model"]).ok().contains("same "));
        let drawn = sandbox.run(&["sample", "model", "-n", "20"]);
        assert!(drawn.column("same").iter().all(|value| *value == "7"), "{}", drawn.stdout);
    }
}

#[test]
fn constants_are_judged_by_all_rows_and_survive_merging_and_going_on() {
    let sandbox = with_constant();
    let all = sandbox.text("rows.csv");
    let lines: Vec<&str> = all.lines().collect();
    let part = |from: usize, step: usize| {
        let rows: Vec<&str> = lines[1..].iter().skip(from).step_by(step).copied().collect();
        format!("{}\n{}\n", lines[0], rows.join("\n"))
    };
    sandbox.write("even.csv", part(0, 2));
    sandbox.write("odd.csv", part(1, 2));
    sandbox.write("late.csv", part(1, 2).replace("20240131\n", "20240201\n"));
    let constants =
        |model: &str| sandbox.run(&["inspect", model, "--json"]).silent_json()["constants"].clone();
    for (file, model) in [("even.csv", "even"), ("odd.csv", "odd"), ("late.csv", "late")] {
        sandbox.fit(&[file, "--out", model]);
    }
    sandbox.run(&["merge", "even", "odd", "--out", "both"]).ok();
    assert_eq!(constants("both"), serde_json::json!([null, null, 7.0, 20_240_131.0]));
    sandbox.run(&["merge", "even", "late", "--out", "both"]).ok();
    assert_eq!(constants("both"), serde_json::json!([null, null, 7.0, null]));
    sandbox.run(&["fit", "late.csv", "-q", "--from", "even", "--out", "on"]).ok();
    assert_eq!(constants("on"), serde_json::json!([null, null, 7.0, null]));
}

#[test]
fn exact_values_beside_a_constant_make_the_same_clusters() {
    let sandbox = with_constant();
    for resolution in ["auto", "0"] {
        let result = sandbox.fit(&["rows.csv", "--resolution", resolution]);
        assert_eq!(whole(&result, "clusters"), 3, "--resolution {resolution}");
    }
}

#[test]
fn the_summary_says_nothing_of_what_there_is_not() {
    let sandbox = Sandbox::with("rows.csv", three_clusters(100, 1).csv());
    let run = sandbox.run(&["fit", "rows.csv", "-q", "--out", "model"]);
    assert!(
        run.ok().starts_with("300 rows × 2 columns → 3 components in 3 clusters, gaussian family\n"),
        "{}",
        run.stdout
    );
    for word in ["matching", "conflict", "at least one row", "duplicates", "empty", "constant", "cut kept"] {
        assert!(!run.stdout.contains(word), "{word}: {}", run.stdout);
        assert!(!sandbox.run(&["inspect", "model"]).ok().contains(word), "{word}");
    }
}

#[test]
fn a_bound_that_decides_is_said() {
    let sandbox = Sandbox::with("rows.csv", three_clusters(100, 1).csv());
    let run = sandbox.run(&["fit", "rows.csv", "-q", "--max-components", "2", "--out", "model"]);
    let line = "\nas many components as --max-components 2 allows: the data may have more\n";
    assert!(run.ok().contains(line) && !run.stdout.contains("hardly tell"), "{}", run.stdout);
    assert!(sandbox.run(&["inspect", "model", "--json"]).silent_json()["components_between"].is_null());
    let run = sandbox.run(&["fit", "rows.csv", "-q", "--max-components", "9"]);
    assert!(!run.ok().contains("--max-components"), "{}", run.stdout);
}

#[test]
fn a_cut_that_was_kept_is_named() {
    let sandbox = Sandbox::with_model();
    let kept = sandbox.run(&["clusters", "model", "--valley", "0.4", "--min-size", "5", "--keep"]);
    assert!(!kept.ok().contains("cut kept"), "{}", kept.stdout);
    for command in ["inspect", "clusters"] {
        let run = sandbox.run(&[command, "model"]);
        assert!(run.ok().contains("cut kept: valley 0.4, at least 5 rows in a cluster"), "{}", run.stdout);
    }
    let other = sandbox.run(&["clusters", "model", "--count", "2"]);
    assert!(!other.ok().contains("cut kept"), "{}", other.stdout);
    sandbox.run(&["clusters", "model", "--keep"]).ok();
    assert!(!sandbox.run(&["inspect", "model"]).ok().contains("cut kept"));
}

#[test]
fn a_row_number_is_recognised_and_kept() {
    let mut csv = String::from("id,x,y\n");
    for (ix, row) in three_clusters(40, 1).rows.iter().enumerate() {
        let _ = writeln!(csv, "{},{},{}", 1000 + ix, row[0], row[1]);
    }
    let sandbox = Sandbox::with("rows.csv", &csv);
    let line =
        "column \"id\" grows by one with every row: it looks like a row number (--columns -id leaves it out)";
    let run = sandbox.run(&["fit", "rows.csv", "-q", "--batch-size", "10", "--bootstrap", "50"]);
    assert!(run.ok().contains(line) && run.stdout.contains("3 columns"), "{}", run.stdout);
    sandbox.write("rows.csv", csv.replace("\n1119,", "\n1200,"));
    let run = sandbox.run(&["fit", "rows.csv", "-q", "--batch-size", "10", "--bootstrap", "50"]);
    assert!(!run.ok().contains("row number"), "{}", run.stdout);
}

#[test]
fn what_is_unknown_is_not_filled() {
    let rows: String =
        three_clusters(40, 1).rows.iter().map(|row| format!("{},,{}\n", row[0], row[1])).collect();
    let sandbox = Sandbox::with("rows.csv", format!("x,never,y\n{rows}"));
    sandbox.run(&["fit", "rows.csv", "-q", "--out", "model"]).ok();
    sandbox.write("holes.csv", "x,never,y\n,,1\n2,,\n");
    let run = sandbox.run(&["impute", "model", "holes.csv"]);
    assert!(run.column("never").iter().all(|cell| cell.is_empty()), "{}", run.stdout);
    assert!(run.column("x").iter().chain(&run.column("y")).all(|cell| !cell.is_empty()), "{}", run.stdout);
    assert!(
        run.stderr.starts_with("column \"never\": no row that the model has learned from had a value there"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("2 missing values filled"), "{}", run.stderr);
}

fn fit_of(name: &str, content: impl AsRef<[u8]>, flags: &[&str]) -> Run {
    Sandbox::with(name, content).run(&[&["fit", name], flags].concat())
}

#[test]
fn hints_name_the_flag_and_the_column() {
    let iris = "length,width,species\n5.1,3.5,setosa\n4.9,3.0,setosa\n";
    let run = fit_of("iris.csv", iris, &[]);
    assert!(
        run.refusal().contains("--columns -species")
            && run.refusal().contains("gaussian+categorical:species"),
        "{}",
        run.stderr
    );
    let run = fit_of(
        "docs.txt",
        "the quick brown fox jumps over a lazy dog\nand, then it sleeps in the sun\n",
        &[],
    );
    assert!(run.refusal().contains("--model hdp"), "{}", run.stderr);
    let run = fit_of("numbers.txt", "1 2 3\n4 5 x\n", &[]);
    assert!(!run.refusal().contains("hdp"), "{}", run.stderr);
    let run = fit_of("rows.csv", "x,y\n1,2\n", &["--columns", "x,x"]);
    assert_eq!(run.refusal(), "column \"x\" is chosen twice\nhint: name it once");
    let run = fit_of("rows.csv", "x,y\n1,2\n", &["--seed", "-3"]);
    assert_eq!(run.refusal(), "--seed -3: it is below 0\nhint: give --seed a number from 0");
    let run = fit_of("rows.csv", "# made by hand\nx,y\n1,2\n", &[]);
    assert!(
        run.message().ends_with("begins with # and has 1 columns, the next has 2: it looks like a comment"),
        "{}",
        run.stderr
    );
    let utf16: Vec<u8> = "\u{feff}x,y\n1,2\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let run = fit_of("rows.csv", utf16, &[]);
    assert!(run.refusal().contains("UTF-16") && run.refusal().contains("iconv"), "{}", run.stderr);
    let run = fit_of("rows.csv", "x,y\n1,2\n1e300,2\n3,1\n2,2\n2,5\n", &["--family", "poisson"]);
    assert!(run.stderr.len() < 300, "{}", run.stderr);
}

#[test]
fn pipes_part_cells() {
    let sandbox = Sandbox::with("rows.csv", three_clusters(20, 1).text("|"));
    let result = sandbox.fit(&["rows.csv"]);
    assert_eq!(whole(&result, "dimensions"), 2);
}

#[test]
fn answers_that_cannot_be_given_say_what_to_do() {
    let sandbox = Sandbox::with_model();
    let run = sandbox.run(&["predict", "model", "rows.csv", "--proba", "2"]);
    assert!(run.refusal().ends_with("--proba=2"), "{}", run.stderr);
    let run = sandbox.run(&["predict", "model", "rows.csv", "--tail"]);
    assert!(
        run.refusal().contains("all 300 rows were in that one: fit it again with --bootstrap 150"),
        "{}",
        run.stderr
    );
    sandbox.fit(&["rows.csv", "--bootstrap", "150", "--batch-size", "50", "--out", "model"]);
    let tails = sandbox.run(&["predict", "model", "rows.csv", "--tail"]);
    assert!(tails.column("tail").iter().all(|tail| tail.parse::<f64>().is_ok_and(|tail| tail > 0.0)));
    sandbox.write("bags.jsonl", "{\"tokens\": [\"a\", \"b\", \"a\"]}\n{\"tokens\": [\"a\", \"b\"]}\n");
    sandbox.run(&["fit", "bags.jsonl", "--model", "hdp", "-q", "--out", "topics"]).ok();
    let run = sandbox.run(&["sample", "topics"]);
    assert!(run.refusal().contains("--model hdp") && run.refusal().contains("mixtures"), "{}", run.stderr);
}
