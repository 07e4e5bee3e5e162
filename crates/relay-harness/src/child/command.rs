//! What is to be started, and why it could not be.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use super::ChildEnvironment;

/// A program to start.
#[derive(Clone, Debug)]
pub struct ChildCommand {
    /// The program: a path, or a name that is looked for in the `PATH` of the child's environment.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// The directory it starts in.
    pub cwd: PathBuf,
    /// All of its environment.
    pub environment: ChildEnvironment,
}

/// Why a program could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// There is no such program.
    #[error("{program}: no such program in the PATH of the child")]
    NotInstalled {
        /// What was looked for.
        program: String,
    },
    /// There is no such directory to start in.
    #[error("{}: expected a directory to start in", .0.display())]
    NoSuchDirectory(PathBuf),
    /// The system refused.
    #[error("{program} could not be started: {source}")]
    Refused {
        /// What was to be started.
        program: String,
        /// What the system said.
        source: io::Error,
    },
}

impl ChildCommand {
    pub(super) fn refused(&self, source: io::Error) -> SpawnError {
        let program = self.program.to_string_lossy().into_owned();
        match source.kind() {
            io::ErrorKind::NotFound => SpawnError::NotInstalled { program },
            _ => SpawnError::Refused { program, source },
        }
    }
}
