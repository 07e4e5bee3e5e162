//! No test file is left out of the binary.

use std::path::Path;

#[test]
fn every_file_is_a_module() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let mut sources = Vec::new();
    crate::schema::walk(&here, &mut sources);
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
