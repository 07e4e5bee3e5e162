//! `relay man`: the manual, one page for each command.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, CommandFactory as _};
use serde::Serialize;

use crate::Arguments;
use crate::failure::Outcome;
use crate::output::Output;

pub(crate) const EXAMPLES: &str = "\
Example:
  relay man ~/.local/share/man/man1 && man relay-send";

#[derive(Args)]
pub(crate) struct ManArguments {
    /// Where the pages go; it is made if it is not there
    directory: PathBuf,
}

#[derive(Serialize)]
struct Written<'a> {
    directory: &'a Path,
    pages: usize,
}

pub(crate) fn run(arguments: &ManArguments, output: &Output) -> Outcome {
    let directory = &arguments.directory;
    let write = || -> std::io::Result<usize> {
        std::fs::create_dir_all(directory)?;
        clap_mangen::generate_to(Arguments::command(), directory)?;
        Ok(std::fs::read_dir(directory)?.count())
    };
    let pages = write().with_context(|| format!("{} can't be written", directory.display()))?;
    let written = Written { directory, pages };
    output.show(&written, |_| {
        format!("{pages} pages in {}", directory.display())
    })
}
