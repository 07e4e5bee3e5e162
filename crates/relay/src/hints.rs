//! Commands that are proposed to whoever reads. They work as they stand: they find the data that this command has found.
//!
//! Whoever said with `--data` where the data is has to say it again, so each of them does. What the environment says, it
//! says to the next command, too.

use std::path::Path;
use std::sync::OnceLock;

use crate::data::{DataDirectory, path_in_shell};

/// Which data was asked for with a flag, for this process: refusals and hints come from places that know no arguments.
static ASKED_FOR: OnceLock<DataDirectory> = OnceLock::new();

/// Remembers that this directory was asked for with a flag.
pub(crate) fn repeat_data(asked: &Path) {
    if let Ok(data) = DataDirectory::locate(Some(asked))
        && !data.is_usual()
    {
        // There is one command in a process.
        let _ = ASKED_FOR.set(data);
    }
}

/// A command of this program, as it can be pasted: `relay agent list --data ./team`.
pub(crate) fn command(words: &str) -> String {
    match ASKED_FOR.get() {
        Some(data) => command_over(data.path(), words),
        None => format!("relay {words}"),
    }
}

/// The same over other data than this command's.
pub(crate) fn command_over(data: &Path, words: &str) -> String {
    format!("relay {words} --data {}", path_in_shell(data))
}
