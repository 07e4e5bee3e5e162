//! Opening files and folders below a directory, whatever links and `..` say: for agents that want files of their client, and for
//! the tools of models.
//!
//! Linux resolves the whole path itself and refuses to leave the directory (`openat2`). Elsewhere every
//! part is opened by itself and no link is followed at all.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Component, Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, mkdirat, openat};

/// How a folder is opened.
const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// What is to be done with a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// Read it.
    Read,
    /// Write it, making it and its directories where they are missing.
    Write,
}

impl Want {
    /// Never waits for somebody at the other end of a pipe, and never becomes a terminal's program.
    fn flags(self) -> OFlags {
        let common = OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        match self {
            Self::Read => common | OFlags::RDONLY,
            Self::Write => common | OFlags::WRONLY | OFlags::CREATE,
        }
    }
}

/// What becomes of folders that are not there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// They are missing.
    Left,
    /// They are made.
    Made,
}

/// A directory that was opened: renaming it, or putting a link in its place, changes nothing.
#[derive(Debug)]
pub(crate) struct Directory(OwnedFd);

impl Directory {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(rustix::fs::open(path, FOLDER, Mode::empty())?))
    }

    /// Opens a file below it.
    pub(crate) fn file(&self, inside: &Path, want: Want) -> io::Result<File> {
        only_names(inside)?;
        let mode = match want {
            Want::Read => Mode::empty(),
            Want::Write => Mode::from_raw_mode(0o666),
        };
        match resolve(&self.0, inside, want.flags(), mode) {
            Err(error) if want == Want::Write && error.kind() == io::ErrorKind::NotFound => {
                self.make(inside.parent().unwrap_or(Path::new("")))?;
                resolve(&self.0, inside, want.flags(), mode).map(File::from)
            }
            opened => opened.map(File::from),
        }
    }

    /// Opens a folder below it, or itself.
    pub(crate) fn folder(&self, inside: &Path, missing: Missing) -> io::Result<OwnedFd> {
        if inside.as_os_str().is_empty() {
            return self.0.try_clone();
        }
        only_names(inside)?;
        match resolve(&self.0, inside, FOLDER, Mode::empty()) {
            Err(error) if missing == Missing::Made && error.kind() == io::ErrorKind::NotFound => {
                self.make(inside)
            }
            opened => opened,
        }
    }

    /// Where something that was opened really is, where the system tells.
    pub(crate) fn place_of(opened: &impl AsRawFd) -> Option<PathBuf> {
        std::fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd())).ok()
    }

    /// Makes folders, and goes through no link while it does.
    fn make(&self, inside: &Path) -> io::Result<OwnedFd> {
        let mut place = self.0.try_clone()?;
        for folder in inside.components() {
            let name = folder.as_os_str();
            match mkdirat(&place, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            place = openat(&place, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
        }
        Ok(place)
    }
}

fn only_names(inside: &Path) -> io::Result<()> {
    let is_name = |part: Component<'_>| matches!(part, Component::Normal(_));
    match !inside.as_os_str().is_empty() && inside.components().all(is_name) {
        true => Ok(()),
        false => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

#[cfg(target_os = "linux")]
fn resolve(directory: &OwnedFd, inside: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    use rustix::fs::{ResolveFlags, openat2};
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match openat2(directory, inside, flags, mode, resolve) {
        Err(rustix::io::Errno::NOSYS) => step_by_step(directory, inside, flags, mode),
        opened => Ok(opened?),
    }
}

#[cfg(not(target_os = "linux"))]
fn resolve(directory: &OwnedFd, inside: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    step_by_step(directory, inside, flags, mode)
}

/// Opens part after part without following any link.
fn step_by_step(
    directory: &OwnedFd,
    inside: &Path,
    flags: OFlags,
    mode: Mode,
) -> io::Result<OwnedFd> {
    let mut place = directory.try_clone()?;
    let mut parts = inside.components().peekable();
    while let Some(part) = parts.next() {
        let (flags, mode) = match parts.peek() {
            Some(_) => (FOLDER, Mode::empty()),
            None => (flags, mode),
        };
        place = openat(&place, part.as_os_str(), flags | OFlags::NOFOLLOW, mode)?;
    }
    Ok(place)
}

#[cfg(test)]
pub(crate) fn file_step_by_step(directory: &Directory, inside: &Path) -> io::Result<File> {
    step_by_step(&directory.0, inside, Want::Read.flags(), Mode::empty()).map(File::from)
}
