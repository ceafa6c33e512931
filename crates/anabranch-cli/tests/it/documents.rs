//! What the documents show is what happens: commands with their output, and links.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::Sandbox;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A command and the lines that it prints.
type Shown = (String, Vec<String>);

/// The commands of the blocks that are called `console`, block after block.
fn transcripts(document: &str) -> Vec<Vec<Shown>> {
    let text = std::fs::read_to_string(root().join(document)).unwrap();
    let mut blocks: Vec<Vec<Shown>> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        match (inside, line.strip_prefix("$ ")) {
            (false, _) if line == "```console" => {
                inside = true;
                blocks.push(Vec::new());
            }
            (false, _) => {}
            (true, _) if line == "```" => inside = false,
            (true, Some(command)) => blocks.last_mut().unwrap().push((command.into(), Vec::new())),
            (true, None) => blocks.last_mut().unwrap().last_mut().unwrap().1.push(line.into()),
        }
    }
    blocks
}

/// Times differ from run to run; the rest of such a line does not.
fn without_times(line: &str) -> String {
    match line.split_once(" processor seconds)") {
        Some((before, rest)) if before.contains(" s on ") => format!("(times){rest}"),
        _ => line.into(),
    }
}

/// A line that ends with `…` shows the beginning of a longer one. The last digits of a number may be those of another machine.
fn agrees(shown: &str, printed: &str) -> bool {
    let (shown, printed) = (without_times(shown), without_times(printed));
    if let Some((beginning, _)) = shown.split_once(" …") {
        return printed.starts_with(beginning);
    }
    let near = |(shown, printed): (&str, &str)| match (shown.parse::<f64>(), printed.parse::<f64>()) {
        (Ok(a), Ok(b)) if shown.contains('.') => (a - b).abs() <= 1e-9 * a.abs(),
        _ => shown == printed,
    };
    let parts = |line: &str| line.split([' ', ',']).map(str::to_owned).collect::<Vec<_>>();
    let (shown, printed) = (parts(&shown), parts(&printed));
    shown.len() == printed.len() && shown.iter().zip(&printed).all(|(a, b)| near((a, b)))
}

#[test]
fn commands_print_what_the_documents_show() {
    let binary = Path::new(env!("CARGO_BIN_EXE_anabranch")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let sandbox = Sandbox::new();
    for document in ["README.md", "docs/getting-started.md"] {
        let blocks = transcripts(document);
        assert!(!blocks.is_empty(), "{document} shows no commands");
        for (command, shown) in blocks.into_iter().flatten() {
            let ran = Command::new("bash")
                .args(["-c", &format!("set -o pipefail; {command}")])
                .current_dir(sandbox.path("."))
                .env("PATH", &path)
                .output()
                .unwrap();
            let printed = String::from_utf8(ran.stdout).unwrap();
            let printed: Vec<&str> = printed.lines().collect();
            let same = shown.len() == printed.len() && shown.iter().zip(&printed).all(|(a, b)| agrees(a, b));
            assert!(
                same,
                "{document} says that {command} prints\n{}\nbut it prints\n{}\n{}",
                shown.join("\n"),
                printed.join("\n"),
                String::from_utf8_lossy(&ran.stderr)
            );
        }
    }
}

/// Markdown files that are ours.
fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() && !name.starts_with('.') && name != "target" && name != "node_modules" {
            documents(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

#[test]
fn links_lead_somewhere() {
    let mut found = Vec::new();
    documents(&root(), &mut found);
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
