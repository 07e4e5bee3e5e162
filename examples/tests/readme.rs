//! What the README shows is what the programs print.

use std::path::Path;
use std::process::Command;

#[test]
fn the_story_is_in_the_readme() {
    let output = Command::new(env!("CARGO_BIN_EXE_story")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    assert!(
        without_head(&readme).contains(&without_head(&printed)),
        "README.md does not show what the story prints:\n{printed}"
    );
}

/// The text without the hash at the end of the log, which is different in every run.
fn without_head(text: &str) -> String {
    text.lines()
        .filter(|line| !line.starts_with("head "))
        .map(|line| format!("{line}\n"))
        .collect()
}
