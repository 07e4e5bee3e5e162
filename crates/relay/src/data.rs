//! The data directory: where it is, and that only its owner gets in.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::platform::{self, DATA_PLACES};

/// Where Relay keeps its things.
#[derive(Clone, Debug)]
pub(crate) struct DataDirectory(PathBuf);

impl DataDirectory {
    /// The directory that was asked for, or the usual one, whether it is there or not.
    pub(crate) fn locate(asked: Option<&Path>) -> Result<Self> {
        match asked {
            Some(path) => Ok(Self(path.to_owned())),
            None => usual_here().map(Self),
        }
    }

    /// The same; it is made if it is not there.
    pub(crate) fn open(asked: Option<&Path>) -> Result<Self> {
        let directory = Self::locate(asked)?;
        let path = &directory.0;
        make_private(path)
            .with_context(|| format!("the data directory {} can't be made", path.display()))?;
        Ok(directory)
    }

    /// Whether it is the one that is used when none is asked for.
    pub(crate) fn is_usual(&self) -> bool {
        usual_here().is_ok_and(|usual| usual == self.0)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.0.join("relay.db")
    }

    /// Sees to it that the database can be read by its owner only, even in a directory that others can look
    /// into; what SQLite puts beside it follows.
    pub(crate) fn prepare_database(&self) -> Result<()> {
        let path = self.database();
        match new_private(&path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                Err(error).with_context(|| format!("the database {} can't be made", path.display()))
            }
            _ => Ok(()),
        }
    }

    /// Takes away a database that was just made, by whoever has it open.
    pub(crate) fn discard_database(&self) {
        for suffix in ["", "-wal", "-shm"] {
            let mut path = self.database().into_os_string();
            path.push(suffix);
            // What stays is told by the next start.
            let _ = std::fs::remove_file(path);
        }
    }

    pub(crate) fn credentials(&self) -> PathBuf {
        self.0.join("credentials.json")
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.0.join("relay.toml")
    }

    /// What coding agents that run here leave for the next time.
    pub(crate) fn runs(&self) -> PathBuf {
        self.0.join("runs")
    }

    /// Where the tokens of agents are kept.
    pub(crate) fn agents(&self) -> PathBuf {
        self.0.join("agents")
    }
}

/// A path as a shell takes it, from wherever it is started.
pub(crate) fn path_in_shell(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    word_in_shell(&path.display().to_string())
}

/// A word as a shell takes it.
pub(crate) fn word_in_shell(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Makes a directory, and those above it, that only its owner gets into: credentials and everybody's messages
/// are in there.
pub(crate) fn make_private(path: &Path) -> std::io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    platform::private_directory(&mut builder);
    builder.create(path)
}

fn usual_here() -> Result<PathBuf> {
    usual(|name| std::env::var_os(name).map(PathBuf::from))
}

/// The directory that is used when none is asked for.
fn usual(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<PathBuf> {
    for (name, below) in DATA_PLACES {
        if let Some(place) = variable(name).filter(|path| path.is_absolute()) {
            return Ok(place.join(below));
        }
    }
    let [(one, _), (other, _)] = DATA_PLACES;
    bail!("neither {other} nor {one} is set; say with --data where to keep the data")
}

/// Puts a file there whole or not at all, readable by its owner only.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let fresh = path.with_extension("tmp");
        // One that a killed process left could be anybody's.
        match std::fs::remove_file(&fresh) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = new_private(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&fresh, path)?;
        match path.parent() {
            Some(parent) => platform::sync_directory(parent),
            None => Ok(()),
        }
    };
    write().with_context(|| format!("{} can't be written", path.display()))
}

/// Makes a file that was not there, for its owner only.
pub(crate) fn new_private(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    platform::private_file(&mut options);
    options.open(path)
}

/// Closes a file that others could read.
pub(crate) fn only_for_owner(path: &Path) -> Result<()> {
    platform::close_to_others(path)
        .with_context(|| format!("{} can't be closed to others", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_survive_the_shell() {
        assert_eq!(word_in_shell("/data/relay-1"), "/data/relay-1");
        assert_eq!(word_in_shell("/my data"), "'/my data'");
        assert_eq!(word_in_shell("/it's"), "'/it'\\''s'");
    }

    #[test]
    fn the_usual_place_depends_on_the_environment() {
        let place = |variables: &[(&str, &str)]| {
            usual(|name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| PathBuf::from(value))
            })
        };
        let home = ("HOME", "/home/me");
        let shown = |variables: &[(&str, &str)]| place(variables).unwrap().display().to_string();
        assert_eq!(shown(&[home]), "/home/me/.local/share/relay");
        assert_eq!(shown(&[home, ("XDG_DATA_HOME", "/data")]), "/data/relay");
        assert_eq!(
            shown(&[home, ("XDG_DATA_HOME", "data")]),
            "/home/me/.local/share/relay"
        );
        assert!(place(&[]).unwrap_err().to_string().contains("--data"));
    }
}
