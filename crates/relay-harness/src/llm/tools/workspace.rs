//! The files of a working directory: read and changed below a directory that was opened once, whatever links and `..` say.
//!
//! Where a path leads is found out by [`crate::beneath`]. Changes are all made or none: new contents are written beside the old ones first, and only then take
//! their places; if one can't, those before it are put back. A file that is a link is not written: what it leads to is another file.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Component, Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fchmod, openat, renameat, statat, unlinkat};

use crate::beneath::{Directory, Missing, Want};
use crate::llm::ids::new_id;

/// Most bytes of a file that is read or written.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// A working directory.
#[derive(Debug)]
pub struct Workspace {
    /// As it was called when it was opened, and as it is really called.
    names: [PathBuf; 2],
    root: Directory,
    /// What is not touched although it is inside.
    forbidden: Vec<PathBuf>,
}

/// A file that is to be changed, made or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) path: String,
    /// What is there; nothing where there is no file. If it is something else by then, nothing is changed.
    pub(super) before: Option<Vec<u8>>,
    /// What is to be there.
    pub(super) after: Option<Vec<u8>>,
}

/// A file by its directory and its name there.
struct Spot {
    folder: OwnedFd,
    name: PathBuf,
}

/// A change whose new content is already written beside the old one.
struct Prepared<'c> {
    change: &'c Change,
    spot: Spot,
    beside: Option<String>,
}

impl Workspace {
    /// Opens a working directory. What is in `forbidden` is not touched.
    pub fn open(path: &Path, forbidden: Vec<PathBuf>) -> io::Result<Self> {
        let real = forbidden.iter().filter_map(|path| path.canonicalize().ok());
        Ok(Self {
            names: [path.to_owned(), path.canonicalize()?],
            root: Directory::open(path)?,
            forbidden: real.chain(forbidden.iter().cloned()).collect(),
        })
    }

    /// The text of a file.
    pub(super) fn read_text(&self, path: &str) -> Result<String, String> {
        let bytes = self.look_through(path)?;
        String::from_utf8(bytes).map_err(|_| format!("{path}: it is no text"))
    }

    /// A file as it is; links are followed as long as they stay inside.
    fn look_through(&self, path: &str) -> Result<Vec<u8>, String> {
        let inside = self.inside(path)?;
        let opened = self.root.file(&inside, Want::Read);
        let file = opened.map_err(|error| failed(path, &error))?;
        self.refuse_forbidden(path, Directory::place_of(&file))?;
        contents(file).map_err(|error| failed(path, &error))
    }

    /// A file that may be changed, as it is; nothing where there is none.
    pub(super) fn look(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        let inside = self.inside(path)?;
        match self.spot(path, &inside, Missing::Left)? {
            Some(spot) => spot.look().map_err(|error| failed(path, &error)),
            None => Ok(None),
        }
    }

    /// Makes all changes, or none.
    pub(super) fn apply(&self, changes: &[Change]) -> Result<(), String> {
        let mut prepared = Vec::with_capacity(changes.len());
        for change in changes {
            match self.prepare(change) {
                Ok(one) => prepared.push(one),
                Err(why) => {
                    prepared.iter().for_each(Prepared::abandon);
                    return Err(why);
                }
            }
        }
        for (at, one) in prepared.iter().enumerate() {
            if let Err(error) = one.commit() {
                prepared[..at].iter().for_each(Prepared::put_back);
                prepared[at..].iter().for_each(Prepared::abandon);
                return Err(failed(&one.change.path, &error));
            }
        }
        Ok(())
    }

    fn prepare<'c>(&self, change: &'c Change) -> Result<Prepared<'c>, String> {
        let path = change.path.as_str();
        let inside = self.inside(path)?;
        let spot = self.spot(path, &inside, Missing::Made)?;
        let spot = spot.ok_or_else(|| format!("{path}: not found"))?;
        let now = spot.look().map_err(|error| failed(path, &error))?;
        if now != change.before {
            return Err(format!("{path}: it was changed by somebody else meanwhile"));
        }
        let beside = match &change.after {
            Some(after) => {
                let beside = spot.write_beside(after);
                Some(beside.map_err(|error| failed(path, &error))?)
            }
            None => None,
        };
        Ok(Prepared {
            change,
            spot,
            beside,
        })
    }

    /// The way to a file below this directory.
    fn inside(&self, path: &str) -> Result<PathBuf, String> {
        let asked = Path::new(path);
        let relative = match asked.is_absolute() {
            false => Some(asked),
            true => self
                .names
                .iter()
                .find_map(|name| asked.strip_prefix(name).ok()),
        };
        let outside = || format!("{path}: it is outside of the working directory");
        let mut inside = PathBuf::new();
        for part in relative.ok_or_else(outside)?.components() {
            match part {
                Component::Normal(name) => inside.push(name),
                Component::CurDir => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    return Err(outside());
                }
            }
        }
        match inside.as_os_str().is_empty() || path.contains('\0') || path.ends_with('/') {
            true => Err(format!("{path}: it is no file")),
            false => Ok(inside),
        }
    }

    fn spot(&self, path: &str, inside: &Path, missing: Missing) -> Result<Option<Spot>, String> {
        // Looked at before anything is made, and again where links have led.
        self.refuse_forbidden(path, Some(self.names[1].join(inside)))?;
        let parent = inside.parent().unwrap_or(Path::new(""));
        let name = inside.file_name().map(PathBuf::from).unwrap_or_default();
        let folder = match self.root.folder(parent, missing) {
            Ok(folder) => folder,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(path, &error)),
        };
        let place = Directory::place_of(&folder).map(|place| place.join(&name));
        self.refuse_forbidden(path, place)?;
        Ok(Some(Spot { folder, name }))
    }

    fn refuse_forbidden(&self, path: &str, place: Option<PathBuf>) -> Result<(), String> {
        let is_forbidden = place.is_some_and(|place| {
            self.forbidden
                .iter()
                .any(|folder| place.starts_with(folder))
        });
        match is_forbidden {
            true => Err(format!("{path}: it belongs to the relay")),
            false => Ok(()),
        }
    }
}

impl Spot {
    /// What is there now.
    fn look(&self) -> io::Result<Option<Vec<u8>>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
        match openat(&self.folder, &self.name, flags, Mode::empty()) {
            Ok(opened) => contents(File::from(opened)).map(Some),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(rustix::io::Errno::LOOP) => Err(io::Error::other("it is a link")),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes a new content under a name of its own; the name.
    fn write_beside(&self, content: &[u8]) -> io::Result<String> {
        if content.len() as u64 > MAX_FILE_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let name = format!(".{}.relay-tmp", new_id());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let opened = openat(
            &self.folder,
            name.as_str(),
            flags,
            Mode::from_raw_mode(0o666),
        )?;
        let mut file = File::from(opened);
        let written = file
            .write_all(content)
            .and_then(|()| self.copy_mode(&file))
            .and_then(|()| file.sync_all());
        match written {
            Ok(()) => Ok(name),
            Err(error) => {
                let _ = unlinkat(&self.folder, name.as_str(), AtFlags::empty());
                Err(error)
            }
        }
    }

    /// A program stays one.
    fn copy_mode(&self, file: &File) -> io::Result<()> {
        let Ok(about) = statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) else {
            return Ok(());
        };
        if FileType::from_raw_mode(about.st_mode) == FileType::RegularFile {
            fchmod(file, Mode::from_raw_mode(about.st_mode & 0o777))?;
        }
        Ok(())
    }

    fn place(&self, beside: &str) -> io::Result<()> {
        Ok(renameat(&self.folder, beside, &self.folder, &self.name)?)
    }

    fn remove(&self) -> io::Result<()> {
        Ok(unlinkat(&self.folder, &self.name, AtFlags::empty())?)
    }
}

impl Prepared<'_> {
    fn commit(&self) -> io::Result<()> {
        match &self.beside {
            Some(beside) => self.spot.place(beside),
            None => self.spot.remove(),
        }
    }

    /// Removes what was only prepared.
    fn abandon(&self) {
        if let Some(beside) = &self.beside {
            let _ = unlinkat(&self.spot.folder, beside.as_str(), AtFlags::empty());
        }
    }

    fn put_back(&self) {
        let done = match &self.change.before {
            Some(before) => self
                .spot
                .write_beside(before)
                .and_then(|beside| self.spot.place(&beside)),
            None => self.spot.remove(),
        };
        if let Err(error) = done {
            tracing::error!(%error, "a file could not be put back after a change that failed");
        }
    }
}

/// The bytes of a plain file.
fn contents(file: File) -> io::Result<Vec<u8>> {
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no plain file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > MAX_FILE_BYTES {
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Ok(bytes),
    }
}

fn failed(path: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!("{path}: not found"),
        io::ErrorKind::CrossesDevices => format!("{path}: it is outside of the working directory"),
        io::ErrorKind::FileTooLarge => format!("{path}: more than {MAX_FILE_BYTES} bytes"),
        _ => format!("{path}: {error}"),
    }
}

/// Runs something that waits for the file system.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(format!("the tool broke: {error}")))
}

#[cfg(test)]
mod tests;
