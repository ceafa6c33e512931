//! An endless stream in small pieces, and a look at the model now and then.
//!
//!     cargo run --release -p anabranch --example stream

use anabranch::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut learner = Mixture::gaussian().seed(1).first_rows(2000).learner()?;
    for piece in 0..40 {
        learner.learn(&readings(piece)?)?;
        if piece % 10 == 9 {
            let model = learner.model().ok_or("no rows")?;
            let rows = model.posterior().mass();
            println!(
                "{rows} rows: {} components; log density of (5, 5) {:.1}",
                model.n_components(),
                model.ln_density(&[5.0, 5.0])
            );
        }
    }
    Ok(())
}

/// A thousand readings of three sensors; a fourth one joins later.
fn readings(piece: u32) -> Result<Batch, Box<dyn std::error::Error>> {
    let noise = |t: f64| t.sin() + (1.7 * t).sin() + (2.3 * t).sin();
    let sensors = if piece < 20 { 3 } else { 4 };
    let reading = |ix: u32| {
        let (t, place) = (f64::from(1000 * piece + ix), f64::from(ix % sensors));
        [12.0 * place + noise(t), 20.0 * (place % 2.0) + noise(3.1 * t + 0.5)]
    };
    Ok(Batch::new(2, (0..1000).flat_map(reading).collect())?)
}
