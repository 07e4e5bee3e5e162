//! No file was left out of the crate or of its tests. Other crates include this file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn walk(folder: &Path, files: &mut BTreeSet<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, files);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            files.insert(path);
        }
    }
}

#[test]
fn every_file_is_declared() {
    for folder in ["src", "tests/it"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let root = ["lib.rs", "main.rs"].map(|root| folder.join(root));
        let root = root.into_iter().find(|root| root.exists()).unwrap();
        let mut files = BTreeSet::new();
        walk(&folder, &mut files);
        assert!(files.contains(&root) && files.len() > 1);
        for file in files.iter().filter(|file| **file != root) {
            assert!(is_declared(&root, file), "{}", file.display());
        }
    }
}

fn is_declared(root: &Path, file: &Path) -> bool {
    let parent = file.parent().unwrap();
    let (name, above) = match file.ends_with("mod.rs") {
        true => (parent.file_name().unwrap(), parent.parent().unwrap()),
        false => (file.file_stem().unwrap(), parent),
    };
    let name = name.to_str().unwrap();
    let candidates = [
        root.to_owned(),
        above.join("mod.rs"),
        above.with_extension("rs"),
    ];
    candidates.iter().any(|candidate| {
        let source = std::fs::read_to_string(candidate).unwrap_or_default();
        source.lines().any(|line| {
            let line = line
                .trim_start_matches("pub(crate) ")
                .trim_start_matches("pub ");
            line == format!("mod {name};")
        })
    })
}
