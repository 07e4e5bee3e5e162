//! Every wire type, by example, written from the text of the spec.
//!
//! Each example is read, written back unchanged, and accepted by its JSON Schema. Then it is damaged
//! in every place: an unknown field, a wrong literal, a wrong type, a missing field. The reader must
//! refuse naming exactly that place, and reader and schema must agree about every damage.
//!
//! In the texts `%1` to `%9` stand for ids, `%T` for a time, `%A` for an agent and `%M` for a message.

mod actions;
mod deliveries;
mod events;
mod frames;
mod messages;
mod permissions;
mod sessions;
mod workspace;

use std::collections::{BTreeMap, BTreeSet};

use jsonschema::Validator;
use regex::Regex;
use relay_protocol::schema::schemas;
use relay_protocol::wire::{DecodeError, decode, decode_lenient, decode_value};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::schema::walk;

/// One document of one type.
pub(crate) struct Example {
    pub(crate) kind: &'static str,
    pub(crate) value: Value,
    read: fn(Value) -> Result<Value, DecodeError>,
    read_lenient: fn(&[u8]) -> Result<Value, DecodeError>,
}

/// Examples of one type.
pub(crate) fn of<T: DeserializeOwned + Serialize>(
    kind: &'static str,
    texts: &[&str],
) -> Vec<Example> {
    let parse = |text: &&str| Example {
        kind,
        value: parse(text),
        read: |value| decode_value::<T>(value).map(written),
        read_lenient: |json| decode_lenient::<T>(json).map(written),
    };
    texts.iter().map(parse).collect()
}

/// Declares examples: `examples![Type: "…", "…"; Other: "…"]`.
macro_rules! examples {
    ($($kind:ident: $($text:expr),+ ;)+) => {{
        let mut all = Vec::new();
        $(all.extend($crate::examples::of::<$kind>(stringify!($kind), &[$($text),+]));)+
        all
    }};
}
pub(crate) use examples;

fn written<T: Serialize>(value: T) -> Value {
    serde_json::to_value(value).unwrap()
}

const AGENT: &str = r#"{"id":"%2","name":"engineer","handle":"@engineer","type":"agent"}"#;
const MESSAGE: &str = r#"{
    "id":"%1","messageId":"%1","from":{"id":"%2","name":"engineer","handle":"@engineer","type":"agent"},
    "to":{"kind":"channel","channelName":"general","channelId":"%3"},
    "channel":{"id":"%3","name":"general"},
    "text":"Shipping now","attachments":[],"mentions":["reviewer"],"createdAt":"%T","version":1}"#;

fn parse(text: &str) -> Value {
    let mut text = text.replace("%M", MESSAGE).replace("%A", AGENT);
    text = text.replace("%T", "2025-11-15T22:14:20.123Z");
    for digit in '1'..='9' {
        let id = format!("01963a5c-789{digit}-7abc-8ef0-123456789abc");
        text = text.replace(&format!("%{digit}"), &id);
    }
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

pub(crate) fn all() -> Vec<Example> {
    let mut all = Vec::new();
    all.extend(actions::examples());
    all.extend(deliveries::examples());
    all.extend(events::examples());
    all.extend(frames::examples());
    all.extend(messages::examples());
    all.extend(permissions::examples());
    all.extend(sessions::examples());
    all.extend(workspace::examples());
    all
}

/// Members that hold whatever their owner likes.
const FREE: &[&str] = &[
    "metadata",
    "input",
    "output",
    "params",
    "updatedParams",
    "inputSchema",
    "outputSchema",
    "requested",
    "supported",
    "result",
    "headers",
];

/// Types whose schema says less than their reader: names of events are not in it.
const LOOSE: &[&str] = &["Selector"];

/// A place in a document, as a path of the reader and as a JSON pointer.
#[derive(Clone, Default)]
struct Place {
    path: String,
    pointer: String,
}

impl Place {
    fn member(&self, name: &str) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        Self {
            path: format!("{}{dot}{name}", self.path),
            pointer: format!("{}/{name}", self.pointer),
        }
    }

    fn item(&self, index: usize) -> Self {
        Self {
            path: format!("{}[{index}]", self.path),
            pointer: format!("{}/{index}", self.pointer),
        }
    }
}

/// Every place of a document that has a shape, itself first.
fn places(value: &Value, at: &Place, found: &mut Vec<Place>) {
    found.push(at.clone());
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if !FREE.contains(&name.as_str()) {
                    places(member, &at.member(name), found);
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                places(item, &at.item(index), found);
            }
        }
        _ => {}
    }
}

struct Checker {
    validators: BTreeMap<&'static str, Validator>,
}

impl Checker {
    fn new() -> Self {
        let build = |schema: Value| {
            let options = jsonschema::options().should_validate_formats(true);
            options.build(&schema).unwrap()
        };
        let validators = schemas()
            .into_iter()
            .map(|(name, schema)| (name, build(schema.to_value())))
            .collect();
        Self { validators }
    }

    fn validator(&self, example: &Example) -> &Validator {
        &self.validators[example.kind]
    }

    fn well_formed(&self, example: &Example) {
        let Example { kind, value, .. } = example;
        let read = (example.read)(value.clone());
        assert_eq!(read.as_ref(), Ok(value), "{kind}");
        let from_text = (example.read_lenient)(value.to_string().as_bytes());
        assert_eq!(from_text.as_ref(), Ok(value), "{kind}");
        if let Err(error) = self.validator(example).validate(value) {
            panic!("{kind} {value}: {error} at {}", error.instance_path());
        }
    }

    fn damaged(&self, example: &Example) {
        let mut found = Vec::new();
        places(&example.value, &Place::default(), &mut found);
        for place in &found {
            match example.value.pointer(&place.pointer).unwrap() {
                Value::Object(members) => {
                    self.unknown_field(example, place);
                    for name in members.keys() {
                        self.missing_field(example, place, name);
                    }
                }
                Value::String(_) => self.replaced(example, place, json!("zzz")),
                Value::Number(_) => self.replaced(example, place, json!({})),
                Value::Bool(_) => self.replaced(example, place, json!("zzz")),
                _ => {}
            }
        }
    }

    fn unknown_field(&self, example: &Example, place: &Place) {
        let kind = example.kind;
        let mut value = example.value.clone();
        value.pointer_mut(&place.pointer).unwrap()["zzz"] = json!(1);
        let error = (example.read)(value.clone()).expect_err(&format!("{kind} {value}"));
        assert_eq!(
            error.path,
            place.member("zzz").path,
            "{kind} {value} {error}"
        );
        assert!(
            error.message.starts_with("unknown field `zzz`"),
            "{kind} {error}"
        );
        assert!(!self.validator(example).is_valid(&value), "{kind} {value}");
        let ignored = (example.read_lenient)(value.to_string().as_bytes());
        assert_eq!(ignored.as_ref(), Ok(&example.value), "{kind} {value}");
    }

    fn missing_field(&self, example: &Example, place: &Place, name: &str) {
        let mut value = example.value.clone();
        let object = value.pointer_mut(&place.pointer).unwrap();
        object.as_object_mut().unwrap().remove(name);
        self.agree(example, &value);
    }

    fn replaced(&self, example: &Example, place: &Place, by: Value) {
        if LOOSE.contains(&example.kind) {
            return;
        }
        let mut value = example.value.clone();
        *value.pointer_mut(&place.pointer).unwrap() = by;
        if let Err(error) = (example.read)(value.clone()) {
            assert_eq!(error.path, place.path, "{} {value} {error}", example.kind);
        }
        self.agree(example, &value);
    }

    /// The reader accepts exactly what the schema accepts.
    fn agree(&self, example: &Example, value: &Value) {
        if LOOSE.contains(&example.kind) {
            return;
        }
        let read = (example.read)(value.clone());
        let valid = self.validator(example).is_valid(value);
        assert_eq!(
            read.is_ok(),
            valid,
            "{} {value} {:?}",
            example.kind,
            read.err()
        );
    }
}

#[test]
fn examples_are_read_written_and_valid() {
    let checker = Checker::new();
    for example in all() {
        checker.well_formed(&example);
    }
}

#[test]
fn damage_is_refused_where_it_is() {
    let checker = Checker::new();
    for example in all() {
        checker.damaged(&example);
    }
}

/// The examples of one type.
pub(crate) fn values(kind: &str) -> Vec<Value> {
    let examples = all().into_iter().filter(|example| example.kind == kind);
    examples.map(|example| example.value).collect()
}

/// Asserts that the examples of a union show each of its tags.
pub(crate) fn shows_every_tag(kind: &str, tag: &str, tags: &[&str]) {
    let values = values(kind);
    for name in tags {
        let shown = values.iter().any(|value| value[tag] == *name);
        assert!(shown, "{kind} has no example with {tag} = {name}");
    }
}

/// Asserts that a type has exactly these literals, and refuses others.
pub(crate) fn has_literals<T: DeserializeOwned + Serialize>(literals: &[&str]) {
    for literal in literals {
        let read: T = decode_value(json!(literal)).unwrap();
        assert_eq!(written(read), json!(literal));
    }
    let wrong = decode::<T>(br#""zzz""#).err().expect("a wrong literal");
    let known = wrong.message.matches('`').count() / 2 - 1;
    assert_eq!(known, literals.len(), "{}", wrong.message);
}

/// Names of types that only occur as the payload of a union's variant.
fn payloads() -> BTreeSet<String> {
    let variant = Regex::new(r#"" => \w+\((?:Box<)?(\w+)>?\),"#).unwrap();
    let mut files = Vec::new();
    let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    walk(&sources, &mut files);
    let mut names = BTreeSet::new();
    for file in files {
        let source = std::fs::read_to_string(file).unwrap();
        names.extend(
            variant
                .captures_iter(&source)
                .map(|found| found[1].to_owned()),
        );
    }
    names
}

/// Shown by the examples of another type, which adds `ref` to them.
const SHOWN_INSIDE: &[&str] = &["ClientRequest", "ServerMessage"];

#[test]
fn every_body_has_an_example() {
    let bundle = relay_protocol::schema::bundle();
    let references = bundle.to_string();
    let shown: BTreeSet<&str> = all().iter().map(|example| example.kind).collect();
    let payloads = payloads();
    let missing: Vec<&str> = schemas()
        .into_keys()
        .filter(|name| {
            let first = bundle["$defs"][*name].pointer("/oneOf/0/type");
            let literal = first == Some(&json!("string"));
            let part = references.contains(&format!("#/$defs/{name}\""));
            let inside = SHOWN_INSIDE.contains(name) || payloads.contains(*name);
            !literal && !part && !inside && !shown.contains(name)
        })
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
}
