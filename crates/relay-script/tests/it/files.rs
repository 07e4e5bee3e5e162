//! No test file is left out of the test program.

use std::path::Path;

#[test]
fn every_file_is_declared() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let main = std::fs::read_to_string(folder.join("main.rs")).unwrap();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if name != "main" {
            assert!(main.contains(&format!("mod {name};")), "{name}");
        }
    }
}
