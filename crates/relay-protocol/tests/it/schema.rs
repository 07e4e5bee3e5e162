//! The schemas are complete, and the committed bundle is current.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use regex::Regex;
use relay_protocol::schema::{bundle, schemas};
use serde_json::Value;

/// Adds every Rust file below a folder.
pub(crate) fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
}

/// The names of all types in the sources that have a schema.
fn declared() -> BTreeSet<String> {
    let patterns = [
        r"(?s)derive\([^)]*JsonSchema[^)]*\)\]\s*(?:#\[[^\]]*\]\s*)*pub (?:struct|enum) (\w+)",
        r"(?:tagged_union|literals)! \{\s*(?:///[^\n]*\n\s*)*pub enum (\w+)",
        r"impl JsonSchema for (\w+)",
    ]
    .map(|pattern| Regex::new(pattern).unwrap());
    let id = Regex::new(r"(?m)^    (\w+Id)$").unwrap();

    let mut files = Vec::new();
    walk(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut files,
    );
    let mut names = BTreeSet::new();
    for file in files {
        let source = std::fs::read_to_string(&file).unwrap();
        let source = source.split("#[cfg(test)]").next().unwrap();
        let ids = file.ends_with("ids.rs").then_some(&id);
        for pattern in patterns.iter().chain(ids) {
            let found = pattern
                .captures_iter(source)
                .map(|found| found[1].to_owned());
            names.extend(found);
        }
    }
    names
}

#[test]
fn every_wire_type_is_listed() {
    let listed: BTreeSet<String> = schemas().into_keys().map(str::to_owned).collect();
    let declared = declared();
    assert!(
        declared.len() > 200,
        "the search found only {}",
        declared.len()
    );
    let missing: Vec<_> = declared.difference(&listed).collect();
    assert!(
        missing.is_empty(),
        "add to the list in src/schema.rs: {missing:?}"
    );
    let unknown: Vec<_> = listed.difference(&declared).collect();
    assert!(unknown.is_empty(), "listed but not found: {unknown:?}");
}

#[test]
fn names_are_unique() {
    let bundle = bundle();
    let defined: BTreeSet<&str> = bundle["$defs"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let listed: BTreeSet<&str> = schemas().into_keys().collect();
    assert_eq!(defined, listed, "two types with one name get numbers");
}

#[test]
fn every_schema_is_valid() {
    for (name, schema) in schemas() {
        let schema = schema.to_value();
        assert!(jsonschema::meta::is_valid(&schema), "{name}");
        let built = jsonschema::draft202012::new(&schema);
        assert!(built.is_ok(), "{name}: {:?}", built.err());
    }
}

#[test]
fn the_committed_bundle_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/relay.schema.json");
    let mut current = serde_json::to_string_pretty(&bundle()).unwrap();
    current.push('\n');
    if std::env::var_os("RELAY_UPDATE_SCHEMA").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &current).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let same = serde_json::from_str::<Value>(&committed).is_ok() && committed == current;
    assert!(
        same,
        "schema/relay.schema.json is not current; refresh it with\n\
         RELAY_UPDATE_SCHEMA=1 cargo test -p relay-protocol --test it schema"
    );
}
