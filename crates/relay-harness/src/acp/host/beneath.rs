//! Opening files below a directory, whatever links and `..` say.
//!
//! Linux resolves the whole path itself and refuses to leave the directory (`openat2`). Elsewhere every
//! part is opened by itself and no link is followed at all.

use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, mkdirat, openat};

/// What is to be done with a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
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

/// A directory that was opened: renaming it, or putting a link in its place, changes nothing.
pub(super) struct Directory(OwnedFd);

impl Directory {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Self(opened))
    }

    /// Opens a file below it.
    pub(super) fn file(&self, inside: &Path, want: Want) -> io::Result<File> {
        let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        if inside.as_os_str().is_empty() || !inside.components().all(plain) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let mode = match want {
            Want::Read => Mode::empty(),
            Want::Write => Mode::from_raw_mode(0o666),
        };
        match resolve(&self.0, inside, want.flags(), mode) {
            Err(error) if want == Want::Write && error.kind() == io::ErrorKind::NotFound => {
                self.make_parents(inside)?;
                resolve(&self.0, inside, want.flags(), mode).map(File::from)
            }
            opened => opened.map(File::from),
        }
    }

    /// Where a file really is, where the system tells.
    pub(super) fn place_of(file: &File) -> Option<PathBuf> {
        use std::os::fd::AsRawFd;
        std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
    }

    fn make_parents(&self, inside: &Path) -> io::Result<()> {
        let mut place = self.0.try_clone()?;
        let folders = inside.parent().into_iter().flat_map(Path::components);
        for folder in folders {
            let name = folder.as_os_str();
            match mkdirat(&place, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            place = openat(&place, name, flags, Mode::empty())?;
        }
        Ok(())
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
            Some(_) => (
                OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
                Mode::empty(),
            ),
            None => (flags, mode),
        };
        place = openat(&place, part.as_os_str(), flags | OFlags::NOFOLLOW, mode)?;
    }
    Ok(place)
}

#[cfg(test)]
pub(super) fn file_step_by_step(directory: &Directory, inside: &Path) -> io::Result<File> {
    step_by_step(&directory.0, inside, Want::Read.flags(), Mode::empty()).map(File::from)
}
