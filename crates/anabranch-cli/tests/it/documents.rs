//! What the documents show is what happens: commands with their output, and links.

use std::path::{Path, PathBuf};

use crate::support::Sandbox;
use crate::transcript::{root, run};

/// The pages of the guide, in their order.
fn guide() -> Vec<String> {
    let summary = std::fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let pages =
        summary.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(page, _)| page.to_owned());
    pages.collect()
}

#[test]
fn commands_print_what_the_readme_shows() {
    assert!(run("README.md", &Sandbox::new().path("."), &[]) > 3);
}

/// One folder for all pages: what one has made the next ones use. The page about many machines is run against a server,
/// by the tests of the cluster.
#[test]
fn commands_print_what_the_guide_shows() {
    let sandbox = Sandbox::new();
    let pages = guide().into_iter().filter(|page| page != "cluster.md");
    let commands: usize = pages.map(|page| run(&format!("docs/{page}"), &sandbox.path("."), &[])).sum();
    assert!(commands > 40, "{commands}");
}

#[test]
fn the_guide_has_every_page_once() {
    let mut listed = guide();
    listed.push("SUMMARY.md".into());
    listed.sort();
    let folder = std::fs::read_dir(root().join("docs")).unwrap().flatten();
    let names = folder.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut there: Vec<String> = names.filter(|name| name.ends_with(".md")).collect();
    there.sort();
    assert_eq!(listed, there);
}

#[test]
fn the_readme_is_one_page() {
    let lines = std::fs::read_to_string(root().join("README.md")).unwrap().lines().count();
    assert!(lines <= 150, "{lines} lines");
}

/// From data to decision: a story shows at most forty lines of commands, answers included.
#[test]
fn stories_are_short() {
    for story in guide().iter().filter(|page| page.starts_with("story-")) {
        let text = std::fs::read_to_string(root().join("docs").join(story)).unwrap();
        let blocks = text.split("```").skip(1).step_by(2).filter(|block| block.starts_with("console"));
        let lines: usize = blocks.map(|block| block.lines().count() - 1).sum();
        assert!((10..40).contains(&lines), "{story}: {lines} lines");
    }
}

/// Files of ours whose names end so.
fn files(folder: &Path, ends: &[&str], found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        let ours =
            !name.starts_with('.') && !["target", "node_modules", "anabranch-report"].contains(&&*name);
        if path.is_dir() && ours {
            files(&path, ends, found);
        } else if ends.iter().any(|end| name.ends_with(end)) {
            found.push(path);
        }
    }
}

/// Pictures are what a clone weighs: few, small, and each shown by a page.
#[test]
fn pictures_are_shown_and_weigh_little() {
    let mut pages = Vec::new();
    files(&root(), &[".md", ".ipynb"], &mut pages);
    let text: String = pages.iter().map(|page| std::fs::read_to_string(page).unwrap()).collect();
    let mut pictures = Vec::new();
    files(&root(), &[".png", ".svg", ".jpg", ".gif", ".webp"], &mut pictures);
    assert!(pictures.len() > 5, "{pictures:?}");
    let bytes: u64 = pictures.iter().map(|picture| picture.metadata().unwrap().len()).sum();
    assert!(bytes <= 2_000_000, "{bytes} bytes of pictures");
    let shown = |picture: &&PathBuf| text.contains(&*picture.file_name().unwrap().to_string_lossy());
    let unseen: Vec<_> = pictures.iter().filter(|picture| !shown(picture)).collect();
    assert!(unseen.is_empty(), "no page shows {unseen:?}");
}

#[test]
fn links_lead_somewhere() {
    let mut found = Vec::new();
    files(&root(), &[".md"], &mut found);
    assert!(found.len() > 10, "{found:?}");
    let mut broken = Vec::new();
    for document in found {
        let text = std::fs::read_to_string(&document).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            if link.contains("://") || link.contains(char::is_whitespace) {
                continue;
            }
            let target = match file {
                "" => document.clone(),
                file => document.parent().unwrap().join(file),
            };
            let heading = |line: &str| {
                let kept = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
                line.starts_with('#')
                    && kept.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).eq(anchor.chars())
            };
            let leads = target.exists()
                && (anchor.is_empty() || std::fs::read_to_string(&target).unwrap().lines().any(heading));
            if !leads {
                broken.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
