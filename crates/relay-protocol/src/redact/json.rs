//! Redaction of JSON values: every string as text, and members by their names.

use serde_json::{Map, Value};

use super::{Redactor, marker, names, shape};

/// Redacts all strings of a value; says whether anything changed.
///
/// Works through a list instead of recursing, so that no depth of nesting exhausts the stack.
pub(super) fn redact(redactor: &Redactor, value: &mut Value) -> bool {
    let mut changed = false;
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        match value {
            Value::String(text) => changed |= redact_string(redactor, text),
            Value::Array(items) => waiting.extend(items),
            Value::Object(members) => {
                changed |= redact_keys(redactor, members);
                changed |= redact_named(members);
                waiting.extend(members.values_mut());
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    changed
}

fn redact_string(redactor: &Redactor, text: &mut String) -> bool {
    match redactor.redact(text) {
        std::borrow::Cow::Borrowed(_) => false,
        std::borrow::Cow::Owned(redacted) => {
            *text = redacted;
            true
        }
    }
}

fn redact_keys(redactor: &Redactor, members: &mut Map<String, Value>) -> bool {
    if !members.keys().any(|key| redactor.contains_secret(key)) {
        return false;
    }
    for (key, value) in std::mem::take(members) {
        let mut key = redactor.redact(&key).into_owned();
        while members.contains_key(&key) {
            key.push('_');
        }
        members.insert(key, value);
    }
    true
}

/// Replaces the values of members with secret-looking names, also of `{"name": ..., "value": ...}`.
fn redact_named(members: &mut Map<String, Value>) -> bool {
    let mut changed = false;
    for (name, value) in members.iter_mut() {
        changed |= replace_if_secret(name, value);
    }
    let listed = members
        .get("name")
        .or_else(|| members.get("key"))
        .and_then(Value::as_str);
    if let Some(name) = listed.map(str::to_owned)
        && let Some(value) = members.get_mut("value")
    {
        changed |= replace_if_secret(&name, value);
    }
    changed
}

fn replace_if_secret(name: &str, value: &mut Value) -> bool {
    let Value::String(text) = value else {
        return false;
    };
    let Some(class) = names::classify(name) else {
        return false;
    };
    let one_word = !text.contains(char::is_whitespace) && !text.contains(marker::OPEN);
    if !one_word || !shape::is_secret(class, shape::Form::Written, text) {
        return false;
    }
    text.clear();
    marker::push(text, class.kind());
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_with_secret_names_are_replaced_wholly() {
        let mut value = json!({
            "password": "hunter2",
            "max_tokens": 4096,
            "nested": [{ "clientSecret": "a1b2c3d4e5f6g7", "note": "see password" }],
            "env": [{ "name": "DB_PASSWORD", "value": "s3cr3t!" }, { "name": "PORT", "value": "s3cr3t!" }],
        });
        assert!(Redactor::new().redact_json(&mut value));
        let expected = json!({
            "password": "[redacted:password]",
            "max_tokens": 4096,
            "nested": [{ "clientSecret": "[redacted:secret]", "note": "see password" }],
            "env": [
                { "name": "DB_PASSWORD", "value": "[redacted:password]" },
                { "name": "PORT", "value": "s3cr3t!" },
            ],
        });
        assert_eq!(value, expected);
        assert!(!Redactor::new().redact_json(&mut value));
    }

    #[test]
    fn a_secret_in_a_key_is_removed() {
        let redactor = Redactor::with_values([("X", "registered value 1")]);
        let mut value = json!({ "a registered value 1": 1, "b": 2 });
        assert!(redactor.redact_json(&mut value));
        assert_eq!(value, json!({ "a [redacted:registered-value]": 1, "b": 2 }));
    }

    #[test]
    fn deep_nesting_does_not_exhaust_the_stack() {
        let mut value = Value::from("registered value 1");
        for _ in 0..20_000 {
            value = Value::Array(vec![value]);
        }
        assert!(Redactor::with_values([("X", "registered value 1")]).redact_json(&mut value));
        // Dropping it would recurse.
        std::mem::forget(value);
    }
}
