//! Commands that documents show, run as they stand there.
//!
//! A block called `console` has commands behind `$ ` (and `> ` where they go on) and what they print; a block called `sh` has commands
//! that must succeed. With `UPDATE_DOCUMENTS=1` the documents are written anew with what was printed.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Blocks that begin with one of these build or install: the rest of the tests do that.
const BUILDING: [&str; 7] = ["cargo", "make", "pip", "git", "scripts/", "podman", "curl"];

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// One line of a document, as far as running it is concerned.
enum Piece {
    Text(String),
    /// A command and the lines that it prints, if they are shown.
    Command {
        lines: Vec<String>,
        shown: Option<Vec<String>>,
    },
}

fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut fence: Option<&str> = None;
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let text = || Piece::Text(line.into());
        match (fence, line.strip_prefix("```")) {
            (None, Some(name)) => {
                let first = lines.peek().copied().unwrap_or_default();
                let building = BUILDING.iter().any(|word| first.starts_with(word));
                fence = Some(if building { "" } else { name });
                pieces.push(text());
            }
            (Some(_), Some(_)) => {
                fence = None;
                pieces.push(text());
            }
            (Some("sh"), None) => match pieces.last_mut() {
                Some(Piece::Command { lines, .. }) => lines.push(line.into()),
                _ => pieces.push(Piece::Command { lines: vec![line.into()], shown: None }),
            },
            (Some("console"), None) => match (pieces.last_mut(), line.strip_prefix("> ")) {
                _ if line.starts_with("$ ") => {
                    pieces.push(Piece::Command { lines: vec![line[2..].into()], shown: Some(Vec::new()) });
                }
                (Some(Piece::Command { lines, .. }), Some(more)) => lines.push(more.into()),
                (Some(Piece::Command { shown: Some(shown), .. }), None) => shown.push(line.into()),
                _ => panic!("a block of commands begins with `{line}`"),
            },
            _ => {
                assert!(
                    fence.is_none() || !line.starts_with("$ "),
                    "`{line}` is a command that nothing runs"
                );
                pieces.push(text());
            }
        }
    }
    pieces
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
    let parts = |line: &str| line.split([' ', ',', ':', '}']).map(str::to_owned).collect::<Vec<_>>();
    let (shown, printed) = (parts(&shown), parts(&printed));
    shown.len() == printed.len() && shown.iter().zip(&printed).all(|(a, b)| near((a, b)))
}

/// Runs what a document shows in a folder, with the command of this build on the path; says how many commands there were.
pub fn run(document: &str, folder: &Path, environment: &[(&str, &str)]) -> usize {
    let update = std::env::var_os("UPDATE_DOCUMENTS").is_some();
    let file = root().join(document);
    let binary = Path::new(env!("CARGO_BIN_EXE_anabranch")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let (mut written, mut commands) = (String::new(), 0);
    for piece in pieces(&std::fs::read_to_string(&file).unwrap()) {
        let Piece::Command { lines, shown } = piece else {
            let Piece::Text(line) = piece else { unreachable!("a piece is a command or text") };
            written += &format!("{line}\n");
            continue;
        };
        commands += 1;
        let command = lines.join("\n");
        let ran = Command::new("bash")
            .args(["-c", &format!("set {}-o pipefail\n{command}", if shown.is_none() { "-e " } else { "" })])
            .current_dir(folder)
            .env("PATH", &path)
            .envs(environment.iter().copied())
            .output()
            .unwrap();
        let (printed, errors) =
            (String::from_utf8(ran.stdout).unwrap(), String::from_utf8_lossy(&ran.stderr));
        let printed: Vec<&str> = printed.lines().collect();
        let Some(shown) = shown else {
            assert!(ran.status.success(), "{document}: {command} fails\n{errors}");
            written += &format!("{command}\n");
            continue;
        };
        let same = shown.len() == printed.len() && shown.iter().zip(&printed).all(|(a, b)| agrees(a, b));
        assert!(
            same || update,
            "{document} says that {command} prints\n{}\nbut it prints\n{}\n{errors}",
            shown.join("\n"),
            printed.join("\n"),
        );
        written += &format!("$ {}\n", lines.join("\n> "));
        let lines: Vec<&str> = if same { shown.iter().map(String::as_str).collect() } else { printed };
        written.extend(lines.iter().map(|line| format!("{line}\n")));
    }
    if update {
        std::fs::write(file, written).unwrap();
    }
    commands
}
