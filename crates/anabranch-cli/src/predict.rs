//! `anabranch predict`: a label, the probabilities or the log density of each row, or the rows that are explained worst.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufWriter, Write};

use anabranch::batch::Batch;
use anabranch::clusters::Clusters;
use anabranch::diagnose::Worst;
use anabranch::identify::ComponentId;
use anabranch::posterior::Predictor;
use anabranch_io::ReadOptions;
use anabranch_io::model::{Model, model_name};

use crate::args::PredictArgs;
use crate::failure::Failure;
use crate::features;
use crate::picture::counted;
use crate::reading::{DomainFilter, ROWS_AT_ONCE, open_inputs, options};
use crate::topics;

/// Runs the command. One line is printed for each row, in order, or for each of the worst; skipped rows print nothing and
/// are counted.
pub fn command(args: &PredictArgs) -> Result<(), Failure> {
    match model_name(&args.model).as_deref() {
        Ok(topics::NAME) => return topics::predict(args),
        Ok(features::NAME) => return features::predict(args),
        _ => {}
    }
    let model = Model::load(&args.model)?;
    let schema = model.provenance.schema.clone();
    let options = ReadOptions { expect: Some(schema.clone()), ..options(&args.read)? };
    let mut source = open_inputs(&args.inputs, &options)?;
    let posterior = model.fold.posterior();
    let names = schema.names().map(str::to_owned).collect();
    let mut filter =
        DomainFilter::new(&args.inputs, Some(posterior.family().clone()), names, options.on_bad_row);
    let predictor = Predictor::new(posterior);
    let clusters = match args.proba || args.score || args.worst.is_some() {
        true => Clusters::default(),
        false => Clusters::of_snapshot(posterior, model.provenance.cut),
    };
    let mut out = BufWriter::new(std::io::stdout().lock());
    if !args.json {
        writeln!(out, "{}", header(args, &predictor))?;
    }
    let mut probabilities = Vec::new();
    let mut worst = args.worst.map(WorstRows::new);
    while let Some(batch) = source.next_batch(ROWS_AT_ONCE)? {
        let batch = filter.filter(batch)?;
        match &mut worst {
            Some(worst) => worst.look_at(&predictor, &batch),
            None => print_batch(args, (&predictor, &clusters), &batch, &mut probabilities, &mut out)?,
        }
    }
    if let Some(worst) = worst {
        worst.print(args, &mut out)?;
    }
    out.flush()?;
    let skipped = source.skipped_rows() + filter.skipped();
    if skipped > 0 {
        eprintln!("{} skipped", counted(skipped, "bad row"));
    }
    Ok(())
}

fn header(args: &PredictArgs, predictor: &Predictor) -> String {
    if args.worst.is_some() {
        "row,log_density,component".to_owned()
    } else if args.proba {
        predictor.ids().iter().map(|id| format!("component_{id}")).collect::<Vec<_>>().join(",")
    } else if args.score {
        "log_density".to_owned()
    } else {
        "component,cluster".to_owned()
    }
}

fn print_batch(
    args: &PredictArgs,
    (predictor, clusters): (&Predictor, &Clusters),
    batch: &Batch,
    probabilities: &mut Vec<f64>,
    out: &mut impl Write,
) -> Result<(), Failure> {
    for row in batch.rows() {
        if args.proba {
            predictor.responsibilities(row, probabilities);
            let cells: Vec<String> = probabilities.iter().map(f64::to_string).collect();
            match args.json {
                true => {
                    let pairs = predictor.ids().iter().zip(&cells).map(|(id, p)| format!("\"{id}\":{p}"));
                    writeln!(out, "{{\"probabilities\":{{{}}}}}", pairs.collect::<Vec<_>>().join(","))?;
                }
                false => writeln!(out, "{}", cells.join(","))?,
            }
            continue;
        }
        if args.score {
            let density = predictor.ln_density(row);
            match args.json {
                true => writeln!(out, "{{\"log_density\":{}}}", serde_json::json!(density))?,
                false => writeln!(out, "{density}")?,
            }
            continue;
        }
        let component = predictor.label(row);
        let cluster = component.and_then(|id| clusters.of(id));
        match args.json {
            true => {
                let [component, cluster] = [component, cluster].map(|id| serde_json::json!(id));
                writeln!(out, "{{\"component\":{component},\"cluster\":{cluster}}}")?;
            }
            false => {
                let [component, cluster] =
                    [component, cluster].map(|id| id.map_or_else(String::new, |id| id.to_string()));
                writeln!(out, "{component},{cluster}")?;
            }
        }
    }
    Ok(())
}

/// The rows that the model explains worst, with the component that each is taken for.
struct WorstRows {
    worst: Worst,
    labels: BTreeMap<u64, Option<ComponentId>>,
    rows_seen: u64,
    capacity: usize,
}

impl WorstRows {
    fn new(capacity: usize) -> Self {
        Self { worst: Worst::new(capacity), labels: BTreeMap::new(), rows_seen: 0, capacity }
    }

    fn look_at(&mut self, predictor: &Predictor, batch: &Batch) {
        for row in batch.rows() {
            self.rows_seen += 1;
            if self.worst.offer(self.rows_seen, predictor.ln_density(row)) {
                self.labels.insert(self.rows_seen, predictor.label(row));
            }
        }
        // Rows that others have displaced are forgotten now and then: memory is bounded by what is kept and one batch.
        if self.labels.len() > 2 * self.capacity + ROWS_AT_ONCE {
            let kept: BTreeSet<u64> = self.worst.clone().into_sorted().iter().map(|bad| bad.row).collect();
            self.labels.retain(|row, _| kept.contains(row));
        }
    }

    fn print(self, args: &PredictArgs, out: &mut impl Write) -> Result<(), Failure> {
        for bad in self.worst.into_sorted() {
            let component = self.labels.get(&bad.row).copied().flatten().map(|id| id.0);
            if args.json {
                let object = serde_json::json!({"row": bad.row, "log_density": bad.ln_density, "component": component});
                writeln!(out, "{object}")?;
            } else {
                let component = component.map_or_else(String::new, |id| id.to_string());
                writeln!(out, "{},{},{component}", bad.row, bad.ln_density)?;
            }
        }
        Ok(())
    }
}
