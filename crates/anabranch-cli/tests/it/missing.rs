//! Missing values through the command: however they are written, what is learned and answered, and what is filled in.

use crate::support::data::{Table, three_clusters};
use crate::support::{Sandbox, assert_mass, number, whole};

/// Every seventh cell is missing, and never both of a row.
fn is_missing(row: usize, column: usize) -> bool {
    row % 7 == 3 * column
}

/// The rows as text, with this word where one is missing.
fn with_holes(table: &Table, word: &str) -> String {
    let mut text = table.names.join(",") + "\n";
    for (ix, row) in table.rows.iter().enumerate() {
        let cell = |column: usize| {
            if is_missing(ix, column) { word.to_owned() } else { row[column].to_string() }
        };
        text += &format!("{},{}\n", cell(0), cell(1));
    }
    text
}

fn holes(table: &Table) -> u64 {
    (0..table.rows.len()).flat_map(|row| [0, 1].map(|c| is_missing(row, c))).filter(|hole| *hole).count()
        as u64
}

/// What was learned, whatever the file was called.
fn components(sandbox: &Sandbox) -> String {
    let model = sandbox.run(&["inspect", "model", "--json"]).silent_json();
    assert_eq!(model["components"].as_array().map(Vec::len), Some(3), "{model}");
    model["components"].to_string()
}

#[test]
fn however_a_missing_value_is_written_the_same_model_is_learned() {
    let table = three_clusters(60, 1);
    let sandbox = Sandbox::with("labels.csv", table.labels_csv());
    let mut models = Vec::new();
    for word in ["", "NA", "nan", "null", " "] {
        sandbox.write("rows.csv", with_holes(&table, word));
        let result = sandbox.fit(&["rows.csv", "--out", "model", "--labels", "labels.csv"]);
        assert_mass(&result, 180);
        assert_eq!(whole(&result, "missing_cells"), holes(&table), "{word:?}");
        assert_eq!(whole(&result, "skipped_rows"), 0);
        assert_eq!(whole(&result, "effective_components"), 3, "{word:?}");
        assert!(number(&result, "adjusted_rand") > 0.95, "{word:?}");
        models.push(components(&sandbox));
    }
    let mut npy = Table { names: table.names.clone(), rows: table.rows.clone(), labels: vec![] };
    for (ix, row) in npy.rows.iter_mut().enumerate() {
        (0..2).filter(|column| is_missing(ix, *column)).for_each(|column| row[column] = f64::NAN);
    }
    sandbox.write("rows.npy", npy.npy());
    assert_eq!(whole(&sandbox.fit(&["rows.npy", "--out", "other"]), "missing_cells"), holes(&table));
    sandbox.write("rows.parquet", npy.parquet());
    sandbox.fit(&["rows.parquet", "--out", "model"]);
    models.push(components(&sandbox));
    let lines: String = npy.jsonl().replace("NaN", "null");
    sandbox.write("rows.jsonl", lines);
    sandbox.fit(&["rows.jsonl", "--out", "model"]);
    models.push(components(&sandbox));
    assert!(models.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn the_summary_tells_how_many_there_were() {
    let sandbox = Sandbox::with("rows.csv", with_holes(&three_clusters(60, 1), ""));
    let run = sandbox.run(&["fit", "rows.csv", "--quiet"]);
    assert!(run.ok().contains("52 missing values integrated out (14 % of all)"), "{}", run.stdout);
}

#[test]
fn rows_with_missing_values_are_refused_or_left_out_on_demand() {
    let table = three_clusters(60, 1);
    let sandbox = Sandbox::with("rows.csv", with_holes(&table, ""));
    let run = sandbox.run(&["fit", "rows.csv", "--quiet", "--missing", "fail"]);
    assert_eq!(run.message(), "rows.csv: row 1 (line 2), column \"x\" has no value");
    assert!(run.stderr.contains("--missing model"), "{}", run.stderr);
    let result = sandbox.fit(&["rows.csv", "--missing", "skip"]);
    assert_eq!((whole(&result, "skipped_rows"), whole(&result, "missing_cells")), (holes(&table), 0));
    assert_mass(&result, 180 - holes(&table));
    // Words that stand for nothing are still bad rows.
    sandbox.write("rows.csv", "x,y\n1,oops\n1,2\n");
    for missing in ["model", "fail", "skip"] {
        let run = sandbox.run(&["fit", "rows.csv", "--quiet", "--missing", missing]);
        assert_eq!(run.message(), "rows.csv: row 1 (line 2), column \"y\": \"oops\" is not a number");
    }
}

#[test]
fn infinite_values_are_not_missing() {
    let sandbox = Sandbox::with("rows.csv", "x,y\n1,2\n3,inf\n");
    let run = sandbox.run(&["fit", "rows.csv", "--quiet"]);
    assert_eq!(run.message(), "rows.csv: row 2 (line 3), column \"y\": inf is not a finite number");
}

#[test]
fn models_that_take_none_say_so() {
    let sandbox = Sandbox::with("rows.csv", "x,y\n1,2\n,1\n3,2\n");
    for flags in [&["--algorithm", "svi"][..], &["--model", "bp"]] {
        let run = sandbox.run(&[&["fit", "rows.csv", "--quiet"], flags].concat());
        assert_eq!(run.message(), "rows.csv: row 2 (line 3), column \"x\" has no value");
        let run = sandbox.run(&[&["fit", "rows.csv", "--missing", "model"], flags].concat());
        assert!(run.message().starts_with("--missing belongs to"), "{}", run.message());
    }
    let run = sandbox.run(&["fit", "rows.csv", "--quiet", "--family", "multinomial"]);
    let reason =
        "a missing value is not a count in every column: the counts of a multinomial row share their total";
    assert_eq!(run.message(), format!("rows.csv: row 2, column \"x\": {reason}"));
}

#[test]
fn rows_are_answered_by_what_is_known_of_them() {
    let sandbox = Sandbox::with_model();
    sandbox.write("new.csv", "x,y\n30,-10\n30,\n,-10\n,\n");
    let run = sandbox.run(&["predict", "model", "new.csv", "--score"]);
    let components = run.column("component");
    assert_eq!((components[0], components[0]), (components[1], components[2]));
    assert!(!components[3].is_empty(), "the largest");
    let densities: Vec<f64> = run.column("log_density").iter().map(|cell| cell.parse().unwrap()).collect();
    assert!(densities[1] > densities[0] && densities[3].abs() < 1e-9, "{densities:?}");
}

#[test]
fn missing_values_are_filled_in_and_the_rest_stays() {
    let sandbox = Sandbox::with("labels.csv", "");
    let table = three_clusters(60, 1);
    sandbox.write("rows.csv", with_holes(&table, ""));
    sandbox.fit(&["rows.csv", "--out", "model"]);
    sandbox.write("new.csv", "name,y,x\na,-10,\nb,,30\nc,30,-10\n");
    let run = sandbox.run(&["impute", "model", "new.csv", "--std"]);
    assert_eq!(run.stderr, "2 missing values filled\n");
    assert_eq!(run.ok().lines().next(), Some("name,y,x,y_std,x_std"));
    assert_eq!(run.column("name"), ["a", "b", "c"]);
    let numbers =
        |name: &str| run.column(name).iter().map(|cell| cell.parse().unwrap()).collect::<Vec<f64>>();
    let (x, y, x_std, y_std) = (numbers("x"), numbers("y"), numbers("x_std"), numbers("y_std"));
    assert!((x[0] - 30.0).abs() < 1.0 && (y[1] + 10.0).abs() < 1.0, "{x:?} {y:?}");
    assert_eq!((y[0], x[1], x[2], y[2]), (-10.0, 30.0, -10.0, 30.0));
    assert!((0.5..2.0).contains(&x_std[0]) && (0.5..2.0).contains(&y_std[1]), "{x_std:?} {y_std:?}");
    assert_eq!((x_std[1], x_std[2], y_std[0]), (0.0, 0.0, 0.0));
    let draw =
        |seed: &str| sandbox.run(&["impute", "model", "new.csv", "--draw", "--seed", seed]).ok().to_owned();
    assert_eq!(draw("1"), draw("1"));
    assert_ne!(draw("1"), draw("2"));
    sandbox.run(&["impute", "model", "new.csv", "--out", "full.parquet", "--quiet"]).ok();
    assert_eq!(whole(&sandbox.fit(&["full.parquet", "--columns", "x,y"]), "missing_cells"), 0);
}

#[test]
fn missing_names_are_filled_in_with_the_most_probable() {
    let mut text = "colour,size\n".to_owned();
    for ix in 0..200 {
        text += if ix % 2 == 0 { "red,1\n" } else { "blue,9\n" };
    }
    text += "NA,1\nblue,\n";
    let sandbox = Sandbox::with("rows.csv", text);
    let family = "categorical:colour+poisson:size";
    let result = sandbox.fit(&["rows.csv", "--family", family, "--out", "model"]);
    assert_eq!(whole(&result, "missing_cells"), 2);
    sandbox.write("new.csv", "colour,size\n,1\n,9\nblue,\n");
    let run = sandbox.run(&["impute", "model", "new.csv", "--std"]);
    assert_eq!(run.column("colour"), ["red", "blue", "blue"]);
    let size: f64 = run.column("size")[2].parse().unwrap();
    assert!((size - 9.0).abs() < 1.0, "{size}");
    assert_eq!(run.ok().lines().next(), Some("colour,size,size_std"));
}

/// Values of one hill; of the first rows of each ten `y` is missing nearly always, of the others nearly never.
fn told_by_holes(rows: std::ops::Range<usize>) -> String {
    let noise = |t: f64| (1.3 * t).sin() + (1.7 * t).sin() + (2.3 * t).sin();
    let row = |ix: usize| {
        let (x, y, z) = (noise(ix as f64), noise(0.7 * ix as f64 + 5.0), noise(0.3 * ix as f64 + 9.0));
        let lacks = (ix % 10 < 4) != ix.is_multiple_of(37);
        let cell = |value: f64| if lacks { String::new() } else { value.to_string() };
        format!("{x},{},{},{}\n", cell(y), cell(z), ["red", "blue"][ix % 2])
    };
    format!("x,y,z,c\n{}", rows.map(row).collect::<String>())
}

#[test]
fn that_values_are_missing_tells_components_apart_on_request() {
    let sandbox = Sandbox::with("rows.csv", told_by_holes(0..800));
    sandbox.write("more.csv", told_by_holes(800..1200));
    let family = ["--family", "gaussian:x,y,z+categorical:c"];
    let plain = sandbox.fit(&[&["rows.csv"], &family[..]].concat());
    assert_eq!(whole(&plain, "components"), 1);
    let informed = [&family[..], &["--missing-informative=y,z,c", "--bootstrap", "500"]].concat();
    let result = sandbox.fit(&[&["rows.csv", "--out", "model"], &informed[..]].concat());
    assert_eq!(whole(&result, "components"), 2);
    assert_eq!(result["family"], "gaussian×3 + categorical×1 + absence×3");
    let model = sandbox.run(&["inspect", "model", "--json"]).silent_json();
    let mut shares: Vec<f64> = Vec::new();
    for component in model["components"].as_array().unwrap() {
        let missing = component["missing"].as_array().unwrap();
        assert!(missing[0].is_null(), "{component}");
        shares.push(missing[2].as_f64().unwrap());
        assert!(missing[3].as_f64().unwrap() < 0.05, "{component}");
    }
    shares.sort_by(f64::total_cmp);
    assert!(shares[0] < 0.1 && shares[1] > 0.9, "{shares:?}");
    assert!(sandbox.run(&["inspect", "model"]).ok().contains(", 0 % missing"));
    // Answers go by it, and a name is filled in although nobody has ever missed one.
    sandbox.write("new.csv", "x,y,z,c\n0,,,red\n0,0.1,0.2,red\n0,0.1,0.2,\n");
    let labels = sandbox.run(&["predict", "model", "new.csv"]);
    let labels = labels.column("component");
    assert!(labels[0] != labels[1], "{labels:?}");
    let filled = sandbox.run(&["impute", "model", "new.csv"]);
    assert!(["red", "blue"].contains(&filled.column("c")[2]), "{}", filled.stdout);
    let drawn = sandbox.run(&["sample", "model", "--rows", "200"]);
    let holes = drawn.column("z").iter().filter(|cell| cell.is_empty()).count();
    assert!((50..110).contains(&holes), "{holes}");
    // The model says it, and a run that goes on learns it too; so does a merge.
    let further = sandbox.fit(&["more.csv", "--from", "model", "--out", "further"]);
    assert_mass(&further, 1200);
    assert_eq!((whole(&further, "components"), &further["family"]), (2, &result["family"]));
    sandbox.fit(&[&["more.csv", "--out", "other"], &informed[..]].concat());
    sandbox.run(&["merge", "model", "other", "--out", "merged"]).ok();
    let merged = sandbox.run(&["inspect", "merged", "--json"]).silent_json();
    assert_eq!(merged["components"].as_array().map(Vec::len), Some(2), "{merged}");
    assert_eq!(merged["family"], result["family"]);
    sandbox.fit(&[&["more.csv", "--out", "plain"], &family[..]].concat());
    assert!(sandbox.run(&["merge", "model", "plain", "--out", "merged"]).code != 0);
}

#[test]
fn learning_what_is_missing_is_refused_where_it_means_nothing() {
    let sandbox = Sandbox::with("rows.csv", told_by_holes(0..60));
    let refused = |words: &[&str]| sandbox.run(&[&["fit", "rows.csv"], words].concat()).message().to_owned();
    let goes_with = "--missing-informative goes with --missing model";
    assert_eq!(refused(&["--missing-informative", "--missing", "skip"]), goes_with);
    let other = "--missing-informative belongs to --model dp or py; this is --model bp";
    assert_eq!(refused(&["--missing-informative", "--model", "bp"]), other);
    let from = "--missing-informative does not go with --from";
    assert_eq!(refused(&["--missing-informative", "--from", "model"]), from);
    let multinomial = "--missing-informative does not go with --family multinomial";
    assert_eq!(refused(&["--missing-informative", "--columns", "x", "--family", "multinomial"]), multinomial);
    let unknown = "--missing-informative: there is no column `w`";
    assert_eq!(refused(&["--missing-informative=x,w", "--columns", "x,y"]), unknown);
    let twice = "--missing-informative: column `x` is named twice";
    assert_eq!(refused(&["--missing-informative=x,y,x", "--columns", "x,y"]), twice);
}

#[test]
fn a_model_of_features_or_topics_fills_nothing_in() {
    let sandbox = Sandbox::with("rows.csv", three_clusters(20, 1).csv());
    sandbox.fit(&["rows.csv", "--model", "bp", "--out", "model"]);
    assert_eq!(sandbox.run(&["impute", "model", "rows.csv"]).refusal(), "impute goes with mixtures");
}

#[test]
fn rows_that_are_left_as_they_are_keep_their_numbers() {
    let sandbox = Sandbox::with("rows.csv", three_clusters(60, 1).csv());
    sandbox.run(&["fit", "rows.csv", "-q", "--out", "model"]).ok();
    let header = sandbox.text("rows.csv").lines().next().unwrap().to_owned();
    sandbox.write("bad.csv", format!("{header}\n1.5,foo\n2.5,3.5\n"));
    let run = sandbox.run(&["impute", "model", "bad.csv", "--on-bad-row", "skip", "-q"]);
    assert_eq!(run.stdout.lines().nth(1), Some("1.5,"), "{}", run.transcript());
}

#[test]
fn columns_without_a_value_are_told() {
    let rows: String = (0..60).map(|ix| format!("{},{},\n", ix % 2 * 9, f64::from(ix) * 0.1)).collect();
    let sandbox = Sandbox::with("rows.csv", format!("a,b,c\n{rows}"));
    let run = sandbox.run(&["fit", "rows.csv"]);
    assert!(run.ok().contains("column \"c\" has no value in any row"), "{}", run.stdout);
    sandbox.write("none.csv", format!("a,b\n{}", ",\n".repeat(30)));
    let run = sandbox.run(&["fit", "none.csv"]);
    assert_eq!(run.message(), "every value of the first 30 rows is missing");
}
