//! Files for the agent: read in the session's directories, written in its working directory.
//!
//! Every path is resolved by the system below a directory that was opened when the session was: no `..`, no link and no rename
//! leads out of it (`beneath.rs`). Only plain files of bounded size are touched.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::acp::rpc::{INTERNAL_ERROR, INVALID_PARAMS, RpcError};
use crate::beneath::{Directory, Want};

/// Most bytes of a file that is read or written.
pub(super) const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// The code for what does not exist.
const RESOURCE_NOT_FOUND: i64 = -32002;

/// The directories of a session.
pub(super) struct Files {
    cwd: Root,
    others: Vec<Root>,
}

struct Root {
    /// As the session calls it, and as it is really called.
    names: [PathBuf; 2],
    directory: Directory,
}

impl Root {
    fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            names: [path.to_owned(), path.canonicalize()?],
            directory: Directory::open(path)?,
        })
    }

    /// The part of a path below this directory.
    fn inside<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        self.names
            .iter()
            .find_map(|name| path.strip_prefix(name).ok())
    }
}

impl Files {
    pub(super) fn open(cwd: &Path, others: &[PathBuf]) -> io::Result<Self> {
        Ok(Self {
            cwd: Root::open(cwd)?,
            others: others
                .iter()
                .map(|path| Root::open(path))
                .collect::<io::Result<_>>()?,
        })
    }

    /// Reads a file, or some lines of it.
    pub(super) fn read(
        &self,
        path: &str,
        line: Option<u64>,
        limit: Option<u64>,
        forbidden: &[PathBuf],
    ) -> Result<String, RpcError> {
        let roots = std::iter::once(&self.cwd).chain(&self.others);
        let file = open(roots, path, Want::Read, forbidden)?;
        let mut bytes = Vec::new();
        let read = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(|error| failed(path, &error))?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(refused(path, "it is too large"));
        }
        let text = String::from_utf8(bytes).map_err(|_| refused(path, "it is no text"))?;
        Ok(lines(text, line, limit))
    }

    /// Writes a file, with the directories that it needs.
    pub(super) fn write(
        &self,
        path: &str,
        content: &str,
        forbidden: &[PathBuf],
    ) -> Result<(), RpcError> {
        if content.len() as u64 > MAX_FILE_BYTES {
            return Err(refused(path, "it is too large"));
        }
        let roots = std::iter::once(&self.cwd);
        let mut file = open(roots, path, Want::Write, forbidden)?;
        // Emptied here and not when it was opened, so that what is no plain file is not touched.
        let written = file
            .set_len(0)
            .and_then(|()| file.write_all(content.as_bytes()));
        written.map_err(|error| failed(path, &error))
    }
}

fn open<'r>(
    mut roots: impl Iterator<Item = &'r Root>,
    path: &str,
    want: Want,
    forbidden: &[PathBuf],
) -> Result<File, RpcError> {
    let asked = Path::new(path);
    if !asked.is_absolute() {
        return Err(refused(path, "expected an absolute path"));
    }
    let found = roots.find_map(|root| Some((root, root.inside(asked)?)));
    let (root, inside) =
        found.ok_or_else(|| refused(path, "it is outside of the directories of the session"))?;
    // Looked at before and after: before, so that nothing is made there; after, because only then links are resolved.
    if is_forbidden(&root.names[1].join(inside), forbidden) {
        return Err(refused(path, "it belongs to the relay"));
    }
    let file = root
        .directory
        .file(inside, want)
        .map_err(|error| failed(path, &error))?;
    let about = file.metadata().map_err(|error| failed(path, &error))?;
    if !about.is_file() {
        return Err(refused(path, "it is no plain file"));
    }
    match Directory::place_of(&file) {
        Some(place) if is_forbidden(&place, forbidden) => {
            Err(refused(path, "it belongs to the relay"))
        }
        _ => Ok(file),
    }
}

fn is_forbidden(place: &Path, forbidden: &[PathBuf]) -> bool {
    forbidden.iter().any(|folder| {
        let real = folder.canonicalize();
        place.starts_with(folder) || real.is_ok_and(|real| place.starts_with(real))
    })
}

/// The lines from `line`, counted from 1, at most `limit` of them.
fn lines(text: String, line: Option<u64>, limit: Option<u64>) -> String {
    if line.is_none() && limit.is_none() {
        return text;
    }
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    text.split_inclusive('\n')
        .skip(count(line.unwrap_or(1).saturating_sub(1)))
        .take(count(limit.unwrap_or(u64::MAX)))
        .collect()
}

fn refused(path: &str, why: &str) -> RpcError {
    RpcError::new(INVALID_PARAMS, format!("{path}: {why}"))
}

fn failed(path: &str, error: &io::Error) -> RpcError {
    match error.kind() {
        io::ErrorKind::NotFound => RpcError::new(RESOURCE_NOT_FOUND, format!("{path}: not found")),
        io::ErrorKind::PermissionDenied | io::ErrorKind::CrossesDevices => {
            refused(path, "no access")
        }
        _ => RpcError::new(INTERNAL_ERROR, format!("{path}: {error}")),
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
