//! Patterns of paths: a glob on the whole path, links resolved, `..` gone.
//!
//! `*` stays within one part, `**` is a part of its own and stands for any number of them. A relative pattern begins at
//! the call's working directory.

use std::path::{Component, Path, PathBuf};

use crate::call::View;
use crate::fault::Unreadable;
use crate::glob::{Glob, Token};
use crate::pattern::Hit;

/// A compiled pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathPattern {
    is_absolute: bool,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Deep,
    Name(Glob),
}

impl PathPattern {
    pub(crate) fn parse(text: &str) -> Result<Self, Unreadable> {
        if text.starts_with('~') {
            return Err(Unreadable::new("a path that does not begin with `~`", text));
        }
        let mut parts = Vec::new();
        for name in text.split('/') {
            match name {
                "" | "." => {}
                ".." => return Err(Unreadable::new("a path without `..`", text)),
                "**" => parts.push(Part::Deep),
                _ => {
                    let glob = Glob::parse(name)?;
                    if glob.tokens().contains(&Token::Deep) {
                        return Err(Unreadable::new("`**` as a part of its own", text));
                    }
                    parts.push(Part::Name(glob));
                }
            }
        }
        if parts.is_empty() && !text.starts_with('/') {
            return Err(Unreadable::new("a path", text));
        }
        Ok(Self {
            is_absolute: text.starts_with('/'),
            parts,
        })
    }

    /// Whether it certainly covers a path.
    pub(crate) fn covers(&self, view: &View<'_>, path: &str) -> bool {
        let Some(readings) = resolved(view, path) else {
            return false;
        };
        let base = match self.is_absolute {
            true => Some(PathBuf::from("/")),
            false => view.call.cwd.and_then(|cwd| view.files.resolve(cwd)),
        };
        let Some(base) = base else { return false };
        readings.iter().all(|path| {
            let below = path.strip_prefix(&base).ok().and_then(names);
            below.is_some_and(|names| matches(&self.parts, &names, false))
        })
    }

    /// Whether it meets a path, in any reading of it.
    pub(crate) fn meets(&self, view: &View<'_>, path: &str) -> Hit {
        let absolute = match (path.starts_with('/'), view.call.cwd) {
            (true, _) => Some(PathBuf::from(path)),
            (false, Some(cwd)) => Some(cwd.join(path)),
            (false, None) => None,
        };
        let found = absolute.as_ref().and_then(|path| view.files.resolve(path));
        let written = absolute.as_deref().map(lexical);
        let readings = [written, found.clone()];
        if readings
            .iter()
            .flatten()
            .any(|path| self.meets_absolute(view, path))
        {
            return Hit::Yes;
        }
        let as_written = lexical(Path::new(path));
        if !self.is_absolute
            && names(&as_written).is_some_and(|names| matches(&self.parts, &names, true))
        {
            return Hit::Yes;
        }
        if found.is_none() || path.starts_with('~') {
            Hit::Maybe
        } else {
            Hit::No
        }
    }

    fn meets_absolute(&self, view: &View<'_>, path: &Path) -> bool {
        let is_met =
            |path: &Path| names(path).is_some_and(|names| matches(&self.parts, &names, true));
        if self.is_absolute || self.parts.first() == Some(&Part::Deep) {
            return is_met(path);
        }
        let bases = view
            .call
            .cwd
            .into_iter()
            .flat_map(|cwd| [Some(lexical(cwd)), view.files.resolve(cwd)]);
        bases
            .flatten()
            .any(|base| path.strip_prefix(&base).is_ok_and(is_met))
    }
}

/// Where a path leads, in both ways in which a tool may take `..` out; `None`: can't tell.
pub(crate) fn resolved(view: &View<'_>, path: &str) -> Option<Vec<PathBuf>> {
    if path.is_empty() || path.starts_with('~') || path.contains(|c: char| c.is_control()) {
        return None;
    }
    let path = match path.starts_with('/') {
        true => PathBuf::from(path),
        false => view.call.cwd.filter(|cwd| cwd.is_absolute())?.join(path),
    };
    let mut found = vec![view.files.resolve(&path)?];
    if path.components().any(|part| part == Component::ParentDir) {
        found.push(view.files.resolve(&lexical(&path))?);
    }
    Some(found)
}

/// The path without `.` and `..`, as text.
fn lexical(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            part => clean.push(part),
        }
    }
    clean
}

/// The parts of a path; `None` when one is not text.
fn names(path: &Path) -> Option<Vec<&str>> {
    path.components()
        .filter(|part| *part != Component::RootDir)
        .map(|part| match part {
            Component::Normal(name) => name.to_str(),
            _ => None,
        })
        .collect()
}

/// Whether parts match names. `wide`: `/data/**` is met by `/data`, too.
fn matches(parts: &[Part], names: &[&str], wide: bool) -> bool {
    // From the end: reachable[n] says whether the parts after the current one match names[n..].
    let mut reachable = vec![false; names.len() + 1];
    reachable[names.len()] = true;
    for (index, part) in parts.iter().enumerate().rev() {
        let mut next = vec![false; names.len() + 1];
        let is_last = index + 1 == parts.len();
        for at in (0..=names.len()).rev() {
            next[at] = match part {
                Part::Deep if is_last && !wide => at < names.len(),
                Part::Deep => reachable[at] || (at < names.len() && next[at + 1]),
                Part::Name(glob) => {
                    at < names.len() && reachable[at + 1] && glob.matches_widely(names[at])
                }
            };
        }
        reachable = next;
    }
    reachable[0]
}

/// Whether parts of a URL's path match names.
pub(crate) fn parts_match(pattern: &PathPattern, names: &[&str], wide: bool) -> bool {
    matches(&pattern.parts, names, wide)
}
