//! `anabranch sample`: rows drawn from the fitted mixture.

use std::io::{BufWriter, Write};

use anabranch::family::{Conjugate, Family};
use anabranch::process::Process;
use anabranch_io::Schema;
use anabranch_io::model::{Model, model_name};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::args::SampleArgs;
use crate::failure::Failure;
use crate::features;

/// Runs the command: csv with a header, categories by their names.
pub fn command(args: &SampleArgs) -> Result<(), Failure> {
    if model_name(&args.model).is_ok_and(|name| name == features::NAME) {
        return Err(Failure::input("sample goes with mixtures"));
    }
    let model = Model::load(&args.model)?;
    let posterior = model.fold.posterior();
    let family = posterior.family();
    let mut masses: Vec<f64> = posterior
        .components()
        .iter()
        .map(|component| posterior.process().existing_mass(&component.evidence().labels))
        .collect();
    // The last place stands for a component that nobody has seen yet.
    masses.push(posterior.process().new_mass(posterior.components().iter().map(|c| &c.evidence().labels)));
    let nothing = vec![0.0; family.n_features()];
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(args.seed);
    let mut row = vec![0.0; family.dimensions()];
    let mut out = BufWriter::new(std::io::stdout().lock());
    let schema = &model.provenance.schema;
    let names: Vec<String> = schema.names().map(quoted).collect();
    writeln!(out, "{}{}", names.join(","), if args.labels { ",component" } else { "" })?;
    for _ in 0..args.rows {
        let chosen = choose(&masses, &mut rng);
        let component = posterior.components().get(chosen);
        family.sample(component.map_or(&nothing, |c| &c.evidence().stats), &mut rng, &mut row);
        let cells: Vec<String> =
            row.iter().enumerate().map(|(column, value)| cell(schema, column, *value)).collect();
        write!(out, "{}", cells.join(","))?;
        match (args.labels, component) {
            (true, Some(component)) => writeln!(out, ",{}", component.id())?,
            (true, None) => writeln!(out, ",new")?,
            (false, _) => writeln!(out)?,
        }
    }
    out.flush()?;
    Ok(())
}

fn choose(masses: &[f64], rng: &mut Xoshiro256PlusPlus) -> usize {
    let mut left = rng.random::<f64>() * masses.iter().sum::<f64>();
    for (ix, mass) in masses.iter().enumerate() {
        left -= mass;
        if left < 0.0 {
            return ix;
        }
    }
    masses.len() - 1
}

fn cell(schema: &Schema, column: usize, value: f64) -> String {
    match schema.columns.get(column).and_then(|c| c.categories.as_ref()) {
        Some(categories) => {
            categories.get(value as usize).map_or(anabranch_io::OTHER.to_owned(), |c| quoted(c))
        }
        None => value.to_string(),
    }
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
