//! Files inside, files outside, and ways that lead from one to the other.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use tempfile::TempDir;

use super::*;

struct Place {
    directory: TempDir,
    workspace: Workspace,
}

fn place() -> Place {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("work");
    std::fs::create_dir_all(root.join("sub")).unwrap();
    std::fs::write(root.join("a.txt"), "inside").unwrap();
    std::fs::write(directory.path().join("secret"), "outside").unwrap();
    std::fs::create_dir(root.join("data")).unwrap();
    std::fs::write(root.join("data/db"), "the relay's").unwrap();
    symlink("../secret", root.join("out")).unwrap();
    symlink("..", root.join("up")).unwrap();
    symlink("a.txt", root.join("alias")).unwrap();
    symlink("data", root.join("other")).unwrap();
    let workspace = Workspace::open(&root, vec![root.join("data")]).unwrap();
    Place {
        directory,
        workspace,
    }
}

impl Place {
    fn root(&self) -> PathBuf {
        self.directory.path().join("work")
    }

    fn text(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.root().join(path)).ok()
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.root()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn change(path: &str, before: Option<&str>, after: Option<&str>) -> Change {
    let bytes = |text: &str| text.as_bytes().to_vec();
    Change {
        path: path.to_owned(),
        before: before.map(bytes),
        after: after.map(bytes),
    }
}

#[test]
fn only_what_is_inside_is_read() {
    let place = place();
    let absolute = place.root().join("a.txt");
    for path in [
        "a.txt",
        "./a.txt",
        "sub/../a.txt",
        absolute.to_str().unwrap(),
        "alias",
    ] {
        let read = place.workspace.read_text(path);
        match path.contains("..") {
            true => assert!(read.is_err()),
            false => assert_eq!(read.unwrap(), "inside", "{path}"),
        }
    }
    let outside = place.directory.path().join("secret");
    for path in [
        "../secret",
        outside.to_str().unwrap(),
        "out",
        "up/secret",
        "/etc/passwd",
        "/proc/self/environ",
        "sub",
        "",
        ".",
        "a.txt/",
        "data/db",
        "other/db",
        "missing",
    ] {
        let read = place.workspace.read_text(path);
        assert!(read.is_err(), "{path}: {read:?}");
    }
}

#[test]
fn only_what_is_inside_is_written_and_links_are_not() {
    let place = place();
    for path in [
        "../new",
        "out",
        "up/new",
        "alias",
        "data/new",
        "other/new",
        "/tmp/relay-new",
        "sub",
    ] {
        let before = place.workspace.look(path);
        let written = before.and_then(|_| place.workspace.apply(&[change(path, None, Some("x"))]));
        assert!(written.is_err(), "{path}");
    }
    assert_eq!(
        std::fs::read_to_string(place.directory.path().join("secret")).unwrap(),
        "outside"
    );
    assert_eq!(place.text("a.txt").unwrap(), "inside");
    place
        .workspace
        .apply(&[change("new/deep/file", None, Some("x"))])
        .unwrap();
    assert_eq!(place.text("new/deep/file").unwrap(), "x");
}

#[test]
fn all_changes_are_made_or_none() {
    let place = place();
    let names = place.names();
    let old = Some("inside");
    // The second is not as it was thought to be.
    let changes = [
        change("a.txt", old, Some("new")),
        change("sub/b", Some("?"), Some("new")),
    ];
    let error = place.workspace.apply(&changes).unwrap_err();
    assert!(error.contains("changed by somebody else"), "{error}");
    assert_eq!(place.text("a.txt").unwrap(), "inside");
    // The second can't take its place: the first is put back.
    std::fs::create_dir(place.root().join("sub/full")).unwrap();
    let changes = [
        change("a.txt", old, Some("new")),
        change("sub/gone", None, None),
    ];
    assert!(place.workspace.apply(&changes).is_err());
    assert_eq!(place.text("a.txt").unwrap(), "inside");
    assert_eq!(place.names(), names, "nothing is left lying about");
    let changes = [
        change("a.txt", old, None),
        change("sub/b", None, Some("new")),
    ];
    place.workspace.apply(&changes).unwrap();
    assert_eq!(
        (place.text("a.txt"), place.text("sub/b").unwrap()),
        (None, "new".to_owned())
    );
}

#[test]
fn a_program_stays_one() {
    let place = place();
    let path = place.root().join("a.txt");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    place
        .workspace
        .apply(&[change("a.txt", Some("inside"), Some("new"))])
        .unwrap();
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o755
    );
}

#[test]
fn a_directory_that_is_moved_away_is_still_the_one() {
    let place = place();
    let moved = place.directory.path().join("moved");
    std::fs::rename(place.root(), &moved).unwrap();
    symlink("/etc", place.root()).unwrap();
    assert_eq!(place.workspace.read_text("a.txt").unwrap(), "inside");
    assert!(place.workspace.read_text("passwd").is_err());
}
