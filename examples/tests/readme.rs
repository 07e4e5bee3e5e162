//! What the README shows is what the programs print.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

#[test]
fn the_story_is_in_the_readme() -> Result<()> {
    check(env!("CARGO_BIN_EXE_story"))
}

#[test]
fn the_deliveries_are_in_the_readme() -> Result<()> {
    check(env!("CARGO_BIN_EXE_delivery"))
}

fn check(program: &str) -> Result<()> {
    let output = Command::new(program).output()?;
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout)?;
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let readme = std::fs::read_to_string(readme)?;
    assert!(
        lasting(&readme).contains(&lasting(&printed)),
        "README.md does not show what the program prints:\n{printed}"
    );
    Ok(())
}

/// The text without what is different in every run: the hash at the end of the log, ids and times.
fn lasting(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with("head "));
    let words = |line: &str| {
        let words = line
            .split(' ')
            .map(|word| if varies(word) { "_" } else { word });
        words.collect::<Vec<_>>().join(" ")
    };
    lines.map(|line| words(line) + "\n").collect()
}

/// Whether a word is an id, a moment, or a number of milliseconds.
fn varies(word: &str) -> bool {
    let word = word.trim_end_matches(',');
    let id = word.len() == 36 && word.chars().filter(|c| *c == '-').count() == 4;
    let moment = word.len() == 24 && word.ends_with('Z');
    let after = word
        .strip_prefix('+')
        .is_some_and(|number| number.parse::<u64>().is_ok());
    id || moment || after
}
