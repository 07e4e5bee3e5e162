//! Nothing is left out: every source file is compiled, every test file runs, every limit is documented.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[test]
fn every_test_file_is_in_the_binary() {
    let missing = undeclared(&package().join("tests/it"), "main.rs");
    assert_eq!(
        missing,
        BTreeSet::new(),
        "a file runs by a `mod` line in tests/it/main.rs"
    );
}

#[test]
fn every_source_file_is_in_the_crate() {
    for package in [package(), package().join("../relay-protocol")] {
        let missing = undeclared(&package.join("src"), "lib.rs");
        assert_eq!(missing, BTreeSet::new(), "declare them with `mod`");
    }
}

#[test]
fn every_limit_is_documented_with_its_value() {
    let source = package().join("../relay-protocol/src/limits.rs");
    let source = std::fs::read_to_string(source).unwrap();
    let guide = std::fs::read_to_string(package().join("../../docs/limits.md")).unwrap();
    let mut documented: Vec<(&str, u64)> = guide.lines().filter_map(documented_limit).collect();
    let mut declared: Vec<(&str, u64)> = source.lines().filter_map(declared_limit).collect();
    documented.sort_unstable();
    declared.sort_unstable();
    assert!(declared.len() > 20);
    assert_eq!(documented, declared, "docs/limits.md and limits.rs differ");
}

fn package() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Files below a directory that no `mod` line declares, seen from its root file.
fn undeclared(directory: &Path, root: &str) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    collect(directory, &mut found);
    let files = found.iter().filter(|file| **file != directory.join(root));
    let missing = files.filter(|file| !is_declared(directory, root, file));
    let relative = missing.map(|file| file.strip_prefix(directory).unwrap().to_owned());
    relative.collect()
}

fn collect(directory: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.insert(path);
        }
    }
}

fn is_declared(directory: &Path, root: &str, file: &Path) -> bool {
    let folder = file.parent().unwrap();
    let (name, above) = if file.ends_with("mod.rs") {
        (folder.file_name(), folder.parent().unwrap())
    } else {
        (file.file_stem(), folder)
    };
    let name = name.unwrap().to_str().unwrap();
    let parents = if above == directory {
        vec![directory.join(root)]
    } else {
        vec![above.join("mod.rs"), above.with_extension("rs")]
    };
    let declares = |line: &str| {
        let line = line
            .trim_start_matches("pub ")
            .trim_start_matches("pub(crate) ")
            .trim_start_matches("pub(super) ");
        line == format!("mod {name};")
    };
    parents.iter().any(|parent| {
        let text = std::fs::read_to_string(parent).unwrap_or_default();
        text.lines().any(|line| declares(line.trim()))
    })
}

/// `pub const NAME: type = 2 * 3;`
fn declared_limit(line: &str) -> Option<(&str, u64)> {
    let (name, rest) = line.strip_prefix("pub const ")?.split_once(':')?;
    let (_, value) = rest.strip_suffix(';')?.split_once('=')?;
    let factors = value
        .split('*')
        .map(|factor| number(factor).expect("a product of numbers"));
    Some((name, factors.product()))
}

/// `| in words | 1,024 bytes | NAME |`
fn documented_limit(line: &str) -> Option<(&str, u64)> {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [_, value, name] = cells.as_slice() else {
        return None;
    };
    let name = name.strip_prefix('`')?.strip_suffix('`')?;
    let value = value.split_whitespace().next()?;
    Some((
        name,
        number(value).expect("a value that begins with a number"),
    ))
}

fn number(text: &str) -> Option<u64> {
    text.trim().replace([',', '_'], "").parse().ok()
}
