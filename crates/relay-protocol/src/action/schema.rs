//! Which JSON Schemas an action may have: bounded, without references to elsewhere, without cycles.
//!
//! Whoever checks a value against a schema follows its references. A schema that refers to itself may never
//! end; one that names a part twice, which names another twice, and so on, grows beyond all bounds although it
//! is written in a few lines. So a schema is weighed with every reference replaced by what it stands for.

use std::collections::HashMap;

use serde_json::Value;

use super::{InvalidAction, refuse, within};
use crate::limits::{ACTION_SCHEMA_BYTES, ACTION_SCHEMA_DEPTH, ACTION_SCHEMA_WEIGHT};

/// Keywords that name another schema, or give one a name other than its place.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
const NAMES: [&str; 3] = ["$id", "$anchor", "$dynamicAnchor"];

/// Checks a schema without reading any other.
pub(super) fn check_schema(path: &'static str, schema: &Value) -> Result<(), InvalidAction> {
    if !(schema.is_object() || schema.is_boolean()) {
        return Err(refuse(path, "a JSON Schema object", &schema.to_string()));
    }
    within(path, ACTION_SCHEMA_BYTES, "bytes", schema.to_string().len())?;
    if !is_shallow(schema, ACTION_SCHEMA_DEPTH) {
        let expected = format!("at most {ACTION_SCHEMA_DEPTH} levels");
        return Err(refuse(path, &expected, "more"));
    }
    let mut scale = Scale {
        root: schema,
        weights: HashMap::new(),
    };
    match scale.weigh("#", schema) {
        Ok(weight) => within(
            path,
            ACTION_SCHEMA_WEIGHT,
            "parts, counting each reference",
            weight,
        ),
        Err(fault) => Err(refuse(path, fault.expected, &fault.found)),
    }
}

fn is_shallow(schema: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else {
        return !(schema.is_object() || schema.is_array());
    };
    match schema {
        Value::Object(members) => members.values().all(|value| is_shallow(value, below)),
        Value::Array(items) => items.iter().all(|item| is_shallow(item, below)),
        _ => true,
    }
}

/// A reference that can't be.
struct Fault {
    expected: &'static str,
    found: String,
}

struct Scale<'a> {
    root: &'a Value,
    /// What is known of places that are referred to; none: it is being weighed.
    weights: HashMap<String, Option<usize>>,
}

impl<'a> Scale<'a> {
    /// How many values a schema has, those included that it refers to.
    fn weigh(&mut self, place: &str, schema: &'a Value) -> Result<usize, Fault> {
        self.weights.insert(place.to_owned(), None);
        let weight = match schema {
            Value::Object(members) => {
                let mut weight = 1;
                for (name, value) in members {
                    weight = add(weight, self.weigh_member(place, name, value)?);
                }
                weight
            }
            Value::Array(items) => {
                let mut weight = 1;
                for (at, item) in items.iter().enumerate() {
                    weight = add(weight, self.weigh(&format!("{place}/{at}"), item)?);
                }
                weight
            }
            _ => 1,
        };
        self.weights.insert(place.to_owned(), Some(weight));
        Ok(weight)
    }

    fn weigh_member(&mut self, place: &str, name: &str, value: &'a Value) -> Result<usize, Fault> {
        if let Some(text) = value.as_str() {
            if REFERENCES.contains(&name) {
                return self.weigh_reference(text);
            }
            if NAMES.contains(&name) && (place, name) != ("#", "$id") {
                return Err(Fault {
                    expected: "no $id, $anchor or $dynamicAnchor below the top",
                    found: text.to_owned(),
                });
            }
        }
        let name = name.replace('~', "~0").replace('/', "~1");
        self.weigh(&format!("{place}/{name}"), value)
    }

    fn weigh_reference(&mut self, to: &str) -> Result<usize, Fault> {
        let fault = |expected| Fault {
            expected,
            found: to.to_owned(),
        };
        match self.weights.get(to) {
            Some(Some(weight)) => return Ok(*weight),
            Some(None) => return Err(fault("references without a cycle")),
            None => {}
        }
        let pointer = to
            .strip_prefix('#')
            .filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let pointer = pointer.ok_or(fault(
            "only references to a place in itself, such as #/$defs/a",
        ))?;
        let target = self.root.pointer(pointer);
        let target = target.ok_or(fault("references to a place that is there"))?;
        self.weigh(to, target)
    }
}

const fn add(a: usize, b: usize) -> usize {
    a.saturating_add(b)
}
