//! No test file is left out of the binary.

use std::path::{Path, PathBuf};

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

#[test]
fn every_file_is_a_module() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let mut sources = Vec::new();
    walk(&here, &mut sources);
    for source in sources.iter().filter(|path| !path.ends_with("main.rs")) {
        let name = source.file_stem().unwrap().to_str().unwrap();
        let folder = source.parent().unwrap();
        let parent = if folder == here {
            here.join("main.rs")
        } else {
            folder.with_extension("rs")
        };
        let declared = std::fs::read_to_string(&parent)
            .unwrap()
            .contains(&format!("mod {name};"));
        assert!(
            declared,
            "{} is not declared in {}",
            source.display(),
            parent.display()
        );
    }
}
