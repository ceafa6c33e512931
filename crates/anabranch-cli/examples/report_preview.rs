//! Writes a report about invented data: `cargo run --example report_preview -- DIR`.

use anabranch_cli::doubts::{Doubts, DuplicateRow};
use anabranch_cli::report::{BadRow, ComponentRow, EllipseData, ReportData, ScatterData, TraceRow, write};

/// A small generator (SplitMix64), enough for a preview.
struct Numbers(u64);

impl Numbers {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.uniform()).ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

const CLUSTERS: u64 = 100;
const ROWS: usize = 5_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args().nth(1).ok_or("usage: report_preview DIR")?;
    let mut numbers = Numbers(7);
    let ellipses: Vec<EllipseData> = (0..CLUSTERS).map(|id| ellipse(id, &mut numbers)).collect();
    let files = write(dir.as_ref(), &report(ellipses, &mut numbers))?;
    println!("{}", files.html.display());
    let small = write(&std::path::Path::new(&dir).join("one-column"), &one_column(&mut numbers))?;
    println!("{}", small.html.display());
    let empty = write(&std::path::Path::new(&dir).join("empty"), &ReportData::default())?;
    println!("{}", empty.html.display());
    Ok(())
}

fn ellipse(id: u64, numbers: &mut Numbers) -> EllipseData {
    let (sx, sy) = (1.0 + 2.0 * numbers.uniform(), 1.0 + 2.0 * numbers.uniform());
    let correlation = 1.6 * numbers.uniform() - 0.8;
    EllipseData {
        id,
        cluster: None,
        // Shares that fall like a power of the rank, as those of a Dirichlet process do.
        weight: 0.02 * 0.96f64.powi(id as i32) + 0.0002,
        mean: [100.0 * numbers.uniform() - 50.0, 100.0 * numbers.uniform() - 50.0],
        covariance: [sx * sx, correlation * sx * sy, sy * sy],
    }
}

fn report(ellipses: Vec<EllipseData>, numbers: &mut Numbers) -> ReportData {
    let points = points(&ellipses, numbers);
    let sizes: Vec<(u64, f64)> = ellipses
        .iter()
        .map(|e| (e.id, if e.id % 33 == 32 { 0.4 + e.weight } else { e.weight * 2.0 * ROWS as f64 }))
        .collect();
    let cell = |mean: f64, variance: f64| format!("{mean:.1} ± {:.2}", variance.sqrt());
    let row = |(e, (_, count)): (&EllipseData, &(u64, f64))| ComponentRow {
        id: e.id,
        cluster: e.cluster,
        count: *count,
        weight: e.weight,
        cells: vec![cell(e.mean[0], e.covariance[0]), cell(e.mean[1], e.covariance[2])],
        order: e.mean.map(Some).to_vec(),
    };
    let facts = [("rows", "5,000"), ("minibatches", "1,000"), ("components", "100"), ("seconds", "2.4")];
    ReportData {
        title: "Clusters of preview.csv".into(),
        subtitle: "Invented data: 5,000 rows of 2 columns, Dirichlet process mixture of normals.".into(),
        facts: facts.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
        component_table: ellipses.iter().zip(&sizes).map(row).collect(),
        points: Some(points),
        ellipses,
        sizes,
        trace: trace(numbers),
        reference_log_likelihood: Some(-7.62),
        clusters: Vec::new(),
        tree: None,
        column_names: vec!["longitude".into(), "latitude".into()],
        doubts: Some(Doubts {
            label_certainty: Some(0.93),
            distinct_components: 29,
            duplicates: vec![DuplicateRow { first: 3, second: 7, cost_per_row: 0.02, shared: 0.4 }],
            near_empty: vec![11, 12, 20],
            rows_drawn: 10_000,
        }),
        worst_rows: vec![BadRow { row: 4_711, log_density: -99.5, component: Some(3) }],
        warnings: vec!["3 components are near-empty; a later minibatch may remove them.".into()],
    }
}

/// Five components along one column, without a trace.
fn one_column(numbers: &mut Numbers) -> ReportData {
    let ellipse = |id: u64| EllipseData {
        id,
        cluster: None,
        weight: 0.4 / (1 << id) as f64 + 0.045,
        mean: [10.0 * id as f64, 0.0],
        covariance: [4.0 + id as f64, 0.0, 1.0],
    };
    let mut report = report((0..5).map(ellipse).collect(), numbers);
    report.points.iter_mut().for_each(|points| points.y.clear());
    report.trace.clear();
    report.warnings.clear();
    report.subtitle = "Invented data: 5,000 rows of 1 column, before any trace was kept.".into();
    report.facts = vec![("rows".into(), "5,000".into()), ("components".into(), "5".into())];
    report
}

fn points(ellipses: &[EllipseData], numbers: &mut Numbers) -> ScatterData {
    let mut points =
        ScatterData { x_label: "longitude".into(), y_label: "latitude".into(), ..ScatterData::default() };
    let total: f64 = ellipses.iter().map(|e| e.weight).sum();
    for row in 0..ROWS {
        let mut left = numbers.uniform() * total;
        let found = ellipses.iter().find(|e| {
            left -= e.weight;
            left <= 0.0
        });
        let e = found.unwrap_or(&ellipses[0]);
        let [xx, xy, yy] = e.covariance;
        let (a, b) = (numbers.normal(), numbers.normal());
        points.x.push(e.mean[0] + xx.sqrt() * a);
        points.y.push(e.mean[1] + xy / xx.sqrt() * a + (yy - xy * xy / xx).sqrt() * b);
        points.component.push((row % 97 != 0).then_some(e.id));
    }
    points
}

fn trace(numbers: &mut Numbers) -> Vec<TraceRow> {
    let mut matchings = 0;
    let mut conflicts = 0;
    let row = |minibatch: u64| {
        let seen = minibatch as f64;
        matchings += u64::from(numbers.uniform() < 0.9);
        conflicts += u64::from(numbers.uniform() < 3.0 / (3.0 + seen / 20.0));
        TraceRow {
            seconds: seen * 0.0024,
            minibatch,
            components: (100.0 * (1.0 - (-seen / 60.0).exp()) + 1.0) as u64,
            matchings,
            conflicts: conflicts.min(matchings),
            test_log_likelihood: (minibatch % 10 == 1)
                .then(|| -7.66 - 1.8 * (-seen / 90.0).exp() + 0.006 * numbers.normal()),
        }
    };
    (1..=1000).map(row).collect()
}
