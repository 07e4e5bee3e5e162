//! Where a path really leads.

use std::path::{Component, Path, PathBuf};

/// Finds out where a path leads.
pub trait Files {
    /// The path with every symbolic link resolved, also when its last parts do not exist yet. `None`: can't tell.
    fn resolve(&self, path: &Path) -> Option<PathBuf>;
}

/// The files of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealFiles;

/// Nobody to ask: for calls that run on another machine. Rules about paths never allow anything then.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl Files for NoFiles {
    fn resolve(&self, _: &Path) -> Option<PathBuf> {
        None
    }
}

impl Files for RealFiles {
    fn resolve(&self, path: &Path) -> Option<PathBuf> {
        if !path.is_absolute() {
            return None;
        }
        let mut missing = Vec::new();
        let mut existing = path;
        loop {
            match existing.canonicalize() {
                Ok(mut found) => {
                    found.extend(missing.iter().rev());
                    return Some(found);
                }
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return None,
                Err(_) => {}
            }
            // A link that leads nowhere exists, and writing to it makes a file somewhere else.
            if existing.symlink_metadata().is_ok() {
                return None;
            }
            match existing.components().next_back() {
                Some(Component::Normal(name)) => missing.push(name.to_owned()),
                _ => return None,
            }
            existing = existing.parent()?;
        }
    }
}
