//! The report as a whole: valid, complete, the same twice, and never in trouble.

use super::*;
use crate::doubts::{Doubts, DuplicateRow};
use std::path::Path;

fn data() -> ReportData {
    let ids = 0..30u64;
    let ellipse = |id: u64| EllipseData {
        id,
        cluster: Some(id % 3),
        weight: 1.0 / (id + 1) as f64,
        mean: [(id % 6) as f64 * 5.0, (id / 6) as f64 * 5.0],
        covariance: [1.0, 0.3, 0.5],
    };
    let component = |id: u64| ComponentRow {
        id,
        cluster: Some(id % 3),
        count: 3000.0 / (id + 1) as f64,
        weight: 0.1,
        cells: vec!["1 ± 0.5".into(), "<red> 80 %".into()],
        order: vec![Some(1.0), None],
    };
    let cluster = |name: u64| ClusterRow {
        name,
        rows: 100.0,
        weight: 0.3,
        components: 10,
        valley: Some(0.2),
        noise: name == 2,
        differences: vec![("<x & \"y\"> 4".into(), -2.5)],
    };
    let trace = |minibatch: u64| TraceRow {
        seconds: minibatch as f64 * 0.1,
        minibatch,
        components: minibatch.min(30),
        matchings: minibatch,
        conflicts: minibatch / 7,
        test_log_likelihood: Some(-9.0 - 1.0 / minibatch as f64),
    };
    ReportData {
        title: "Rivers <&\"> of".into(),
        subtitle: "a & b".into(),
        facts: vec![("rows".into(), "300".into())],
        points: Some(ScatterData {
            x: (0..300).map(|ix| f64::from(ix % 60) * 0.5).collect(),
            y: (0..300).map(|ix| f64::from(ix / 60) * 5.0).collect(),
            component: (0..300).map(|ix| (ix % 10 != 0).then_some(ix % 30)).collect(),
            cluster: (0..300).map(|ix| (ix % 10 != 0).then_some(ix % 3)).collect(),
            x_label: "<x & \"y\">".into(),
            y_label: "depth".into(),
        }),
        ellipses: ids.clone().map(ellipse).collect(),
        sizes: ids.clone().map(|id| (id, 3000.0 / ((id + 1) * (id + 1)) as f64)).collect(),
        trace: (1..200).map(trace).collect(),
        reference_log_likelihood: Some(-8.9),
        component_table: ids.map(component).collect(),
        clusters: (0..3).map(cluster).collect(),
        tree: Some(TreeData {
            leaves: vec![(0, 60.0), (1, 30.0), (2, 10.0)],
            joins: vec![(0, 2, Some(-1.5)), (1, 3, None)],
            peaks: vec![0.0, -0.5, -2.0],
            density: true,
        }),
        column_names: vec!["<x & \"y\">".into(), "depth".into()],
        doubts: Some(Doubts {
            label_certainty: Some(0.9),
            distinct_components: 29,
            duplicates: vec![DuplicateRow { first: 3, second: 7, cost_per_row: 0.02, shared: 0.4 }],
            near_empty: vec![11],
            rows_drawn: 100,
        }),
        worst_rows: vec![BadRow { row: 4711, log_density: -99.5, component: Some(3) }],
        warnings: vec!["mind the <gap>".into()],
    }
}

/// Every number spoiled.
fn spoiled() -> ReportData {
    let mut data = data();
    let bad = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN_POSITIVE, -1.0];
    let points = data.points.as_mut().unwrap();
    points.x.iter_mut().enumerate().for_each(|(ix, x)| *x = bad[ix % bad.len()]);
    for (ix, ellipse) in data.ellipses.iter_mut().enumerate() {
        ellipse.mean[ix % 2] = bad[ix % bad.len()];
        ellipse.covariance[ix % 3] = bad[(ix + 1) % bad.len()];
        ellipse.weight = bad[ix % bad.len()];
    }
    data.sizes.iter_mut().enumerate().for_each(|(ix, size)| size.1 = bad[ix % bad.len()]);
    for (ix, row) in data.trace.iter_mut().enumerate() {
        row.seconds = bad[ix % bad.len()];
        row.test_log_likelihood = Some(bad[(ix + 3) % bad.len()]);
    }
    if let Some(tree) = &mut data.tree {
        tree.peaks = vec![f64::NAN, f64::INFINITY, f64::MAX];
        tree.joins[0].2 = Some(f64::NAN);
        tree.leaves[0].1 = f64::INFINITY;
    }
    data.clusters[0].rows = f64::NAN;
    data.component_table.iter_mut().for_each(|row| row.order = vec![Some(f64::NAN)]);
    data.reference_log_likelihood = Some(f64::NAN);
    data.worst_rows[0].log_density = f64::NEG_INFINITY;
    data
}

fn one_column() -> ReportData {
    let mut data = data();
    data.points.as_mut().unwrap().y.clear();
    data
}

fn few() -> ReportData {
    let mut data = data();
    data.sizes.truncate(5);
    data
}

fn cases() -> Vec<ReportData> {
    vec![data(), spoiled(), one_column(), few(), ReportData::default()]
}

fn assert_every_number_is_finite(svg: &str) {
    for word in ["NaN", "inf\"", "inf ", " inf", "-inf"] {
        assert!(!svg.contains(word), "{word}");
    }
}

#[test]
fn every_picture_is_valid_xml_whatever_the_data() {
    for data in cases() {
        for figure in figures(&data) {
            let svg = figure.svg();
            let document = roxmltree::Document::parse(&svg).unwrap();
            assert_eq!(document.root_element().tag_name().name(), "svg");
            assert_every_number_is_finite(&svg);
            crate::picture::files(&figure.name, &svg).unwrap();
        }
    }
}

#[test]
fn names_with_markup_arrive_as_text() {
    let svg = figures(&data())[0].svg();
    let document = roxmltree::Document::parse(&svg).unwrap();
    let texts: Vec<_> =
        document.descendants().filter(|n| n.has_tag_name("text")).filter_map(|n| n.text()).collect();
    assert!(texts.contains(&"<x & \"y\">"), "{texts:?}");
}

#[test]
fn empty_data_says_so() {
    let figures = figures(&ReportData::default());
    assert_eq!(figures.len(), 2);
    assert!(figures.iter().all(|figure| figure.svg().contains("no data")));
}

#[test]
fn the_same_data_gives_the_same_bytes() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let first = write(a.path(), &data()).unwrap();
    let second = write(b.path(), &data()).unwrap();
    for (one, two) in
        first.pictures.iter().chain([&first.html]).zip(second.pictures.iter().chain([&second.html]))
    {
        assert_eq!(std::fs::read(one).unwrap(), std::fs::read(two).unwrap(), "{}", one.display());
    }
}

#[test]
fn a_picture_of_many_points_stays_small() {
    let mut data = data();
    let points = data.points.as_mut().unwrap();
    points.x = (0..40_000).map(|ix| f64::from(ix % 199)).collect();
    points.y = (0..40_000).map(|ix| f64::from(ix % 211)).collect();
    let svg = figures(&data)[0].svg();
    assert!(svg.len() < 200_000, "{}", svg.len());
    assert!(svg.contains("5,000 of 40,000 rows are drawn."));
}

#[test]
fn one_minibatch_has_no_growth() {
    let one = ReportData { trace: data().trace[..1].to_vec(), ..data() };
    assert!(figures(&one).iter().all(|figure| figure.name != "growth"));
    assert!(figures(&data()).iter().any(|figure| figure.name == "growth"));
}

#[test]
fn a_row_far_out_does_not_squeeze_the_others() {
    let mut data = data();
    data.ellipses.clear();
    let span = |data: &ReportData| figures(data)[0].panels[0].x.range;
    assert_eq!(span(&data), None);
    data.points.as_mut().unwrap().x[7] = 1e6;
    let (from, to) = span(&data).unwrap();
    assert!(from > -10.0 && to < 40.0, "{from} {to}");
    assert!(figures(&data)[0].svg().contains("1 row lies outside the picture."));
    let mut line = ReportData { points: one_column().points, ..data };
    line.points.as_mut().unwrap().x[7] = 1e6;
    assert!(figures(&line)[0].svg().contains("1 row lies outside the picture."));
}

#[test]
fn components_stand_in_the_table_with_their_clusters() {
    let page = html::page(&data(), &figures(&data()));
    assert!(page.contains("<button type=\"button\">cluster</button>"), "{page}");
    assert!(page.contains("</span>2</td><th scope=\"row\" data-v=\"5\">5</th>"), "{page}");
    assert!(page.contains("<td data-v=\"1\">1 ± 0.5</td><td>&lt;red&gt; 80 %</td>"), "{page}");
}

#[test]
fn components_beyond_the_limits_are_counted_in_a_note() {
    let mut data = data();
    data.sizes = (0..250).map(|id| (id, 1000.0 - id as f64)).collect();
    data.component_table =
        (0..250).map(|id| ComponentRow { id, ..data.component_table[0].clone() }).collect();
    assert!(figures(&data)[2].svg().contains("50 smaller components"));
    let page = html::page(&data, &figures(&data));
    assert!(page.contains("The 200 largest of 250 components are listed."));
    assert_eq!(page.matches("<th scope=\"row\"").count(), 200 + data.clusters.len());
}

#[test]
fn the_page_holds_every_picture_and_nothing_from_elsewhere() {
    for data in cases() {
        let figures = figures(&data);
        let page = html::page(&data, &figures);
        for figure in &figures {
            assert!(page.contains(&format!("<section id=\"{}\">", figure.name)));
            assert!(page.contains(&figure.inline_svg()));
        }
        for outside in ["http", "src=", "href=", "@import", "url(//"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }
    let page = html::page(&data(), &figures(&data()));
    assert!(page.contains("<h1>Rivers &lt;&amp;&quot;&gt; of</h1>") && page.contains("mind the &lt;gap&gt;"));
}

#[test]
fn the_page_says_what_distinguishes_each_cluster() {
    let page = html::page(&data(), &figures(&data()));
    assert!(page.contains("What distinguishes each cluster"));
    assert!(page.contains("&lt;x &amp; &quot;y&quot;&gt; 4 <small>(−2.5 sd)</small>"), "{page}");
    let nothing = html::page(&ReportData::default(), &[]);
    assert!(!nothing.contains("distinguishes"));
}

#[test]
fn the_page_says_what_is_doubtful() {
    let page = html::page(&data(), &figures(&data()));
    assert!(page.contains("<li>component 11 has fewer than 2 rows</li>"), "{page}");
    assert!(page.contains("<tr><td>3</td><td>7</td><td>0.02</td><td>40 %</td></tr>"), "{page}");
    assert!(page.contains("<tr><td>4711</td><td>−99.5</td><td>3</td></tr>"), "{page}");
    let unseen = html::page(&ReportData::default(), &figures(&ReportData::default()));
    assert!(!unseen.contains("doubtful"));
}

#[cfg(feature = "png")]
#[test]
fn a_png_has_twice_the_size_and_dark_text() {
    for figure in figures(&data()) {
        let svg = figure.svg();
        let bytes = crate::picture::png(&svg).unwrap();
        let pixels = resvg::tiny_skia::Pixmap::decode_png(&bytes).unwrap();
        assert_eq!(pixels.width(), 2 * WIDTH as u32);
        // The title fills the first rows: ink there can only be text.
        let dark =
            |p: &resvg::tiny_skia::PremultipliedColorU8| u32::from(p.red()) + u32::from(p.blue()) < 160;
        let title = &pixels.pixels()[..(pixels.width() * 90) as usize];
        let ink = title.iter().filter(|p| dark(p)).count();
        assert!(ink > 500, "{}: {ink} dark pixels", figure.name);
    }
}

#[test]
fn a_picture_that_is_no_longer_due_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(write(dir.path(), &data()).unwrap().pictures.len(), 10);
    assert!(dir.path().join("likelihood.svg").exists());
    assert_eq!(write(dir.path(), &ReportData::default()).unwrap().pictures.len(), 4);
    assert!(!dir.path().join("likelihood.svg").exists());
    let names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 5, "{names:?}");
}

#[test]
fn a_folder_that_cannot_be_made_is_named_in_the_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = write(Path::new(&file).join("below").as_path(), &data()).unwrap_err();
    assert!(error.to_string().contains("below"));
}
