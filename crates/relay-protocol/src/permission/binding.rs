//! What binds a decision to exactly one call: a hash of the tool and its parameters.
//!
//! It is the SHA-256, in hex, of the JSON text `{"params":…,"tool":…}` without white space and with the members
//! of every object sorted by their UTF-8 bytes, so that clients in any language come to the same one.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::ToolParams;

/// The hash of a call.
#[must_use]
pub fn args_hash(tool: &str, params: &ToolParams) -> String {
    let mut text = String::from(r#"{"params":"#);
    write_object(params, &mut text);
    text.push_str(r#","tool":"#);
    write(&Value::from(tool), &mut text);
    text.push('}');
    let hash = Sha256::digest(text.as_bytes());
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => write_object(members, text),
        Value::Array(items) => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                separate(at, text);
                write(item, text);
            }
            text.push(']');
        }
        plain => text.push_str(&plain.to_string()),
    }
}

fn write_object(members: &ToolParams, text: &mut String) {
    let mut sorted: Vec<_> = members.iter().collect();
    sorted.sort_unstable_by_key(|(name, _)| *name);
    text.push('{');
    for (at, (name, value)) in sorted.into_iter().enumerate() {
        separate(at, text);
        text.push_str(&Value::from(name.as_str()).to_string());
        text.push(':');
        write(value, text);
    }
    text.push('}');
}

fn separate(at: usize, text: &mut String) {
    if at > 0 {
        text.push(',');
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hash(tool: &str, params: Value) -> String {
        let Value::Object(params) = params else {
            panic!("parameters are an object");
        };
        args_hash(tool, &params)
    }

    #[test]
    fn the_text_that_is_hashed_is_the_documented_one() {
        let text = r#"{"params":{"a":[1,{"x":true,"y":null}],"b":"é\n"},"tool":"bash"}"#;
        let expected: String = Sha256::digest(text.as_bytes())
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let params = json!({ "b": "é\n", "a": [1, { "y": null, "x": true }] });
        assert_eq!(hash("bash", params), expected);
    }

    #[test]
    fn every_difference_is_another_hash() {
        let calls = [
            ("bash", json!({ "command": "ls" })),
            ("bash", json!({ "command": "ls " })),
            ("sh", json!({ "command": "ls" })),
            ("bash", json!({ "command": ["ls"] })),
            ("bash", json!({ "command": "ls", "cwd": "/" })),
            ("bash", json!({})),
        ];
        let mut hashes: Vec<String> = calls
            .into_iter()
            .map(|(tool, params)| hash(tool, params))
            .collect();
        hashes.sort();
        hashes.dedup();
        assert_eq!(hashes.len(), 6);
    }
}
