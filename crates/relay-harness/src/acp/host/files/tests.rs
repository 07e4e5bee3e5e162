use std::os::unix::fs::symlink;

use super::*;
use crate::beneath::file_step_by_step;

struct Place {
    _folder: tempfile::TempDir,
    root: PathBuf,
    files: Files,
}

/// `work` is the working directory, `extra` an additional one, `outside` neither.
fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for name in ["work/sub", "extra", "outside"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    std::fs::write(root.join("work/a.txt"), "one\ntwo\nthree\n").unwrap();
    std::fs::write(root.join("extra/e.txt"), "extra").unwrap();
    std::fs::write(root.join("outside/secret.txt"), "secret").unwrap();
    symlink(root.join("outside/secret.txt"), root.join("work/link.txt")).unwrap();
    symlink(root.join("outside"), root.join("work/out")).unwrap();
    symlink("sub/../a.txt", root.join("work/near.txt")).unwrap();
    let files = Files::open(&root.join("work"), &[root.join("extra")]).unwrap();
    Place {
        _folder: folder,
        root,
        files,
    }
}

impl Place {
    fn at(&self, path: &str) -> String {
        self.root.join(path).to_str().unwrap().to_owned()
    }

    fn read(&self, path: &str) -> Result<String, RpcError> {
        self.files.read(&self.at(path), None, None, &[])
    }

    fn write(&self, path: &str) -> Result<(), RpcError> {
        self.files.write(&self.at(path), "new", &[])
    }
}

#[test]
fn files_are_read_where_the_session_is() {
    let place = place();
    assert_eq!(place.read("work/a.txt").unwrap(), "one\ntwo\nthree\n");
    assert_eq!(place.read("extra/e.txt").unwrap(), "extra");
    for outside in [
        "outside/secret.txt",
        "work/link.txt",
        "work/out/secret.txt",
        "work/../outside/secret.txt",
        "work/sub/../../outside/secret.txt",
        "work",
        "workplace",
    ] {
        let error = place.read(outside).unwrap_err();
        assert_eq!(error.code, INVALID_PARAMS, "{outside}: {}", error.message);
    }
    assert_eq!(
        place.read("work/none.txt").unwrap_err().code,
        RESOURCE_NOT_FOUND
    );
    assert!(place.files.read("a.txt", None, None, &[]).is_err());
}

#[cfg(target_os = "linux")]
#[test]
fn a_link_that_stays_inside_is_followed() {
    assert_eq!(place().read("work/near.txt").unwrap(), "one\ntwo\nthree\n");
}

#[test]
fn some_lines_of_a_file() {
    let place = place();
    let read = |line, limit| {
        let path = place.at("work/a.txt");
        place.files.read(&path, line, limit, &[]).unwrap()
    };
    assert_eq!(read(Some(2), Some(1)), "two\n");
    assert_eq!(read(Some(2), None), "two\nthree\n");
    assert_eq!(read(None, Some(1)), "one\n");
    assert_eq!(read(Some(0), Some(1)), "one\n");
    assert_eq!(read(Some(9), None), "");
}

#[test]
fn files_are_written_in_the_working_directory_only() {
    let place = place();
    for path in ["work/a.txt", "work/b.txt", "work/deep/er/c.txt"] {
        place.write(path).unwrap();
        assert_eq!(place.read(path).unwrap(), "new");
    }
    for path in [
        "extra/e.txt",
        "extra/new.txt",
        "outside/new.txt",
        "work/link.txt",
        "work/out/new.txt",
        "work/out/deep/new.txt",
        "work/../new.txt",
        "work/sub",
    ] {
        assert!(place.write(path).is_err(), "{path}");
    }
    let untouched = std::fs::read_to_string(place.root.join("outside/secret.txt")).unwrap();
    assert_eq!(untouched, "secret");
    assert!(!place.root.join("outside/deep").exists());
    assert!(!place.root.join("outside/new.txt").exists());
}

#[test]
fn a_directory_that_was_replaced_by_a_link_is_still_the_same() {
    let place = place();
    std::fs::rename(place.root.join("work"), place.root.join("moved")).unwrap();
    symlink(place.root.join("outside"), place.root.join("work")).unwrap();
    assert_eq!(
        place.read("work/secret.txt").unwrap_err().code,
        RESOURCE_NOT_FOUND
    );
    assert_eq!(place.read("work/a.txt").unwrap(), "one\ntwo\nthree\n");
}

#[test]
fn what_is_no_plain_text_file_is_refused() {
    let place = place();
    let pipe = place.root.join("work/pipe");
    let made = std::process::Command::new("mkfifo")
        .arg(&pipe)
        .status()
        .unwrap();
    assert!(made.success());
    std::fs::write(place.root.join("work/bytes"), [0xff, 0xfe]).unwrap();
    let large = File::create(place.root.join("work/large")).unwrap();
    large.set_len(MAX_FILE_BYTES + 1).unwrap();
    let why = |path: &str| place.read(path).unwrap_err().message;
    assert!(why("work/pipe").ends_with("no plain file"));
    assert!(why("work/bytes").ends_with("no text"));
    assert!(why("work/large").ends_with("too large"));
    assert!(place.write("work/pipe").is_err());
}

#[test]
fn what_belongs_to_the_relay_is_nobodys_business() {
    let place = place();
    std::fs::write(place.root.join("work/sub/credentials.json"), "{}").unwrap();
    let forbidden = [place.root.join("work/sub")];
    let path = place.at("work/sub/credentials.json");
    assert!(place.files.read(&path, None, None, &forbidden).is_err());
    assert!(place.files.write(&path, "x", &forbidden).is_err());
    assert!(place.files.read(&path, None, None, &[]).is_ok());
    let untouched = std::fs::read_to_string(path).unwrap();
    assert_eq!(untouched, "{}");
}

#[test]
fn without_the_systems_help_no_link_is_followed() {
    let place = place();
    let directory = Directory::open(&place.root.join("work")).unwrap();
    let opens = |path: &str| file_step_by_step(&directory, Path::new(path)).is_ok();
    assert!(opens("a.txt"));
    for path in ["link.txt", "near.txt", "out/secret.txt"] {
        assert!(!opens(path), "{path}");
    }
}
