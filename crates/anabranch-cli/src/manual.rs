//! `anabranch man`: the manual pages, one for the command and one for each of its own.

use std::path::Path;

use anabranch_io::output::replace_file;
use clap_mangen::Man;

use crate::args::ManArgs;
use crate::failure::Failure;
use crate::request;

/// Writes all pages.
pub fn command(args: &ManArgs) -> Result<(), Failure> {
    let cannot =
        |path: &Path, error: &dyn std::fmt::Display| Failure::input(format!("{}: {error}", path.display()));
    std::fs::create_dir_all(&args.folder).map_err(|error| cannot(&args.folder, &error))?;
    let mut whole = request::command().disable_help_subcommand(true);
    whole.build();
    let shown = whole.get_subcommands().filter(|command| !command.is_hide_set());
    for command in std::iter::once(&whole).chain(shown) {
        // `fit` is displayed as `anabranch-fit`.
        let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
        let mut page = Vec::new();
        Man::new(command.clone()).render(&mut page)?;
        let path = args.folder.join(format!("{name}.1"));
        replace_file(&path, &page).map_err(|error| cannot(&path, &error))?;
    }
    Ok(())
}
