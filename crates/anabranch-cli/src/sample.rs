//! `anabranch sample`: rows drawn from the fitted mixture.

use std::io::{BufWriter, Write};

use anabranch::family::{Conjugate, Family};
use anabranch::process::Process;
use anabranch_io::Schema;
use anabranch_io::model::{Model, model_name};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::args::{SampleArgs, SampleFormat};
use crate::columns::Columns;
use crate::failure::Failure;
use crate::picture::short_number;
use crate::{features, topics};

/// Runs the command: csv with a header, categories by their names; or npy.
pub fn command(args: &SampleArgs) -> Result<(), Failure> {
    if let Ok(name @ (topics::NAME | features::NAME)) = model_name(&args.model).as_deref() {
        return Err(Failure::input(format!("{}: a model of --model {name}", args.model.display()))
            .with_hint("rows are drawn from mixtures: --model dp or py"));
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
    let constants = Columns::of(&model).constants();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(args.seed);
    let mut row = vec![0.0; family.dimensions()];
    let mut out = BufWriter::new(std::io::stdout().lock());
    let schema = &model.provenance.schema;
    match args.format {
        SampleFormat::Npy => write_npy_header(&mut out, args.rows, row.len())?,
        SampleFormat::Csv => {
            let names: Vec<String> = schema.names().map(quoted).collect();
            writeln!(out, "{}{}", names.join(","), if args.labels { ",component" } else { "" })?;
        }
    }
    for _ in 0..args.rows {
        let chosen = choose(&masses, &mut rng);
        let component = posterior.components().get(chosen);
        family.sample(component.map_or(&nothing, |c| &c.evidence().stats), &mut rng, &mut row);
        row.iter_mut().zip(&constants).for_each(|(value, constant)| *value = constant.unwrap_or(*value));
        if args.format == SampleFormat::Npy {
            row.iter().try_for_each(|value| out.write_all(&value.to_le_bytes()))?;
            continue;
        }
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

/// Version 1.0 of the format: magic, length of the dictionary, dictionary padded to a multiple of 64 bytes.
fn write_npy_header(out: &mut impl Write, rows: u64, columns: usize) -> std::io::Result<()> {
    let mut dictionary =
        format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows}, {columns}), }}");
    let unpadded = 10 + dictionary.len() + 1;
    dictionary.extend(std::iter::repeat_n(' ', unpadded.next_multiple_of(64) - unpadded));
    dictionary.push('\n');
    out.write_all(b"\x93NUMPY\x01\x00")?;
    out.write_all(&(dictionary.len() as u16).to_le_bytes())?;
    out.write_all(dictionary.as_bytes())
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
    if value.is_nan() {
        return String::new();
    }
    match schema.columns.get(column).and_then(|c| c.categories.as_ref()) {
        Some(categories) => {
            categories.get(value as usize).map_or(anabranch_io::OTHER.to_owned(), |c| quoted(c))
        }
        None => short_number(value),
    }
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use anabranch_io::{Input, ReadOptions, open};

    use super::*;

    #[test]
    fn an_array_is_read_back_as_it_was_written() {
        let values: Vec<f64> = (0..6).map(|i| f64::from(i).sqrt()).collect();
        let mut bytes = Vec::new();
        write_npy_header(&mut bytes, 3, 2).unwrap();
        assert_eq!(bytes.len() % 64, 0);
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        let mut source = open(&[Input::Memory(bytes)], &ReadOptions::default()).unwrap();
        let batch = source.next_batch(10).unwrap().unwrap();
        assert_eq!((batch.n_rows(), batch.values()), (3, values.as_slice()));
    }
}
