//! Words that are no command or no flag: which one was meant.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::failure::Failure;

/// What other programs call it, and what there is here.
const WISHES: &[(&[&str], &str)] = &[(
    &["--clusters", "--n-clusters", "--num-clusters", "--components", "--n-components", "--k", "-k", "-K"],
    "the number of components is found from the data; --max-components K bounds it, and `anabranch clusters MODEL --count N` \
     groups a fitted model into N clusters",
)];

/// A refusal of words that are no flag or no command, with what is nearest to them; `None` for any other error.
pub fn explain(error: &clap::Error, command: &clap::Command, words: &[OsString]) -> Option<Failure> {
    let said = |kind| match error.get(kind)? {
        ContextValue::String(said) => Some(said.as_str()),
        _ => None,
    };
    let subcommands = || command.get_subcommands().filter(|command| !command.is_hide_set());
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let typed = said(ContextKind::InvalidSubcommand)?;
            let near = nearest(typed, subcommands().map(|command| command.get_name().to_owned()));
            let hint = near.map_or("`anabranch --help` lists the commands".to_owned(), |near| {
                format!("did you mean `anabranch {near}`?")
            });
            Some(Failure::input(format!("no command {typed}")).with_hint(hint))
        }
        ErrorKind::UnknownArgument => {
            let typed = said(ContextKind::InvalidArg)?;
            if let Some(failure) = negative(typed, words) {
                return Some(failure);
            }
            let mut of = vec![command];
            for word in words {
                of.extend(of[of.len() - 1].find_subcommand(word));
            }
            let name: Vec<&str> = of.iter().map(|command| command.get_name()).collect();
            let flags = of[of.len() - 1].get_arguments().filter(|flag| !flag.is_hide_set());
            let flags = flags.filter_map(|flag| Some(format!("--{}", flag.get_long()?)));
            let wish = WISHES.iter().find(|(names, _)| name.last() == Some(&"fit") && names.contains(&typed));
            let hint = match (wish, nearest(typed, flags)) {
                (Some((_, advice)), _) => (*advice).to_owned(),
                (None, Some(near)) => format!("did you mean {near}?"),
                (None, None) => format!("`{} --help` lists its flags", name.join(" ")),
            };
            Some(Failure::input(format!("`{}` has no flag {typed}", name.join(" "))).with_hint(hint))
        }
        _ => None,
    }
}

/// A number below 0 behind a flag that takes none.
fn negative(typed: &str, words: &[OsString]) -> Option<Failure> {
    let number = typed.strip_prefix('-').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))?;
    let behind = |pair: &[OsString]| {
        let (flag, value) = (pair[0].to_str()?, pair[1].to_str()?);
        // What is said of a word with several letters is its first letter.
        (flag.starts_with("--") && (value == typed || value.starts_with(&format!("-{number}"))))
            .then(|| (flag.to_owned(), value.to_owned()))
    };
    let (flag, value) = words.windows(2).find_map(behind)?;
    Some(
        Failure::input(format!("{flag} {value}: it is below 0"))
            .with_hint(format!("give {flag} a number from 0")),
    )
}

/// The name that is nearest to what was typed, if one is near: a beginning of the other, or few slips away.
fn nearest(typed: &str, names: impl Iterator<Item = String>) -> Option<String> {
    let letters = |word: &str| word.trim_start_matches('-').chars().collect::<Vec<char>>();
    let typed = letters(typed);
    let far = 1 + typed.len() / 4;
    let begins = |a: &[char], b: &[char]| a.len().min(b.len()) >= 3 && (a.starts_with(b) || b.starts_with(a));
    let distance = |name: &String| {
        let name = letters(name);
        if begins(&typed, &name) { 1 } else { slips(&typed, &name) }
    };
    names.map(|name| (distance(&name), name)).filter(|(slips, _)| *slips <= far).min().map(|(_, name)| name)
}

/// Letters that were left out, added, mistaken or swapped with the next.
fn slips(a: &[char], b: &[char]) -> usize {
    let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            table[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let other = usize::from(a[i - 1] != b[j - 1]);
                let one = (table[i - 1][j] + 1).min(table[i][j - 1] + 1).min(table[i - 1][j - 1] + other);
                let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                if swapped { one.min(table[i - 2][j - 2] + 1) } else { one }
            };
        }
    }
    table[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_a_letter_left_out_added_mistaken_or_swapped() {
        let slips = |a: &str, b: &str| slips(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>());
        for (typed, meant, expected) in [
            ("fti", "fit", 1),
            ("sed", "seed", 1),
            ("seeed", "seed", 1),
            ("sead", "seed", 1),
            ("", "fit", 3),
            ("fit", "fit", 0),
        ] {
            assert_eq!(slips(typed, meant), expected, "{typed} {meant}");
        }
    }

    #[test]
    fn what_is_meant_is_near() {
        let names = || ["--out", "--out-every", "--labels", "--seed"].map(str::to_owned).into_iter();
        for (typed, meant) in [
            ("--ouput", Some("--out")),
            ("--output", Some("--out")),
            ("--lables", Some("--labels")),
            ("--sed", Some("--seed")),
            ("--colour", None),
        ] {
            assert_eq!(nearest(typed, names()).as_deref(), meant, "{typed}");
        }
    }
}
