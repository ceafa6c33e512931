//! Limits in which one process is another, to the last digit.

use anabranch::central::{Central, Fold};
use anabranch::engine::{self, Config, Schedule};
use anabranch::family::AnyFamily;
use anabranch::infer::{PriorChoice, Settings};
use anabranch::process::{Bound, Dirichlet, PitmanYor, Population, Process};

use crate::cases::{BOUNDS, label_matrices, statistics};
use crate::support::{ALL_FAMILIES, Model, cut, fingerprint, model};

#[test]
fn scores_without_a_discount_are_those_of_a_dirichlet_process_bit_by_bit() {
    for pi in label_matrices(200, 9) {
        let components = statistics(&pi);
        for alpha in [1e-3, 0.7, 40.0] {
            for bound in BOUNDS {
                let dirichlet = Dirichlet::new(alpha, bound).unwrap();
                let pitman_yor = PitmanYor::new(alpha, 0.0, bound).unwrap();
                let n = pi.len() as f64;
                for stats in &components {
                    let all = Population::of(&components, n);
                    assert_eq!(dirichlet.score(stats, all).to_bits(), pitman_yor.score(stats, all).to_bits());
                    assert_eq!(dirichlet.existing_mass(stats), pitman_yor.existing_mass(stats));
                }
                assert_eq!(dirichlet.bound(&components, n), pitman_yor.bound(&components, n));
                let masses = (dirichlet.new_mass(components.iter()), pitman_yor.new_mass(components.iter()));
                assert_eq!(masses.0, masses.1);
            }
        }
    }
}

/// The first minibatch alone with its prior, sixteen workers, upkeep, and the end.
fn fitted<P: Process>(model: &Model, process: P, bound_rows: usize) -> Fold<AnyFamily, P> {
    let config = Config {
        threads: 2,
        workers: 16,
        schedule: Schedule::Deterministic,
        inference: Settings { max_iterations: 8, ..Settings::default() },
        prior: PriorChoice::Estimated,
        bootstrap_rows: bound_rows,
        ..Config::default()
    };
    let mut batches = vec![model.rows.head(bound_rows)];
    batches.extend(cut(&model.rows.tail(bound_rows), 50));
    let central = Central::new(model.family.clone(), process);
    let mut source = batches.into_iter().enumerate();
    engine::bootstrap(&central, &mut source, &config, &mut ()).unwrap();
    engine::run(&central, &mut source, &config, &mut ()).unwrap();
    engine::finish(&central, &config);
    central.checkpoint()
}

#[test]
fn a_whole_fit_without_a_discount_is_that_of_a_dirichlet_process_bit_by_bit() {
    for name in ALL_FAMILIES {
        let model = model(name, 21, 2500, 6);
        let dirichlet = fitted(&model, Dirichlet::new(2.0, Bound::Paper).unwrap(), 500);
        let pitman_yor = fitted(&model, PitmanYor::new(2.0, 0.0, Bound::Paper).unwrap(), 500);
        assert!(dirichlet.posterior().components().len() > 1, "{name}: too little happens to show anything");
        assert_eq!(fingerprint(dirichlet.posterior()), fingerprint(pitman_yor.posterior()), "{name}");
        assert_eq!(dirichlet.posterior().objective(), pitman_yor.posterior().objective(), "{name}");
    }
}
