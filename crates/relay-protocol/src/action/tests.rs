use super::*;
use crate::wire::decode_value;
use serde_json::json;

fn action(changes: Value) -> RegisterAction {
    let mut action = json!({ "name": "classify", "inputSchema": { "type": "object" } });
    for (key, value) in changes.as_object().unwrap() {
        action[key] = value.clone();
    }
    decode_value(action).unwrap()
}

#[test]
fn registrations_are_checked() {
    let mut deep = json!({});
    for _ in 0..40 {
        deep = json!({ "not": deep });
    }
    let cases = [
        (json!({}), None),
        (json!({ "name": "a_b-C9" }), None),
        (json!({ "name": "" }), Some("name")),
        (json!({ "name": "a.b" }), Some("name")),
        (json!({ "name": "x".repeat(49) }), Some("name")),
        (json!({ "inputSchema": true }), None),
        (json!({ "inputSchema": "x" }), Some("inputSchema")),
        (
            json!({ "inputSchema": { "$ref": "#/$defs/a", "$defs": { "a": {} } } }),
            None,
        ),
        (
            json!({ "inputSchema": { "$ref": "#/$defs/a" } }),
            Some("inputSchema"),
        ),
        (
            json!({ "inputSchema": { "properties": { "$ref": { "type": "string" } } } }),
            None,
        ),
        (
            json!({ "inputSchema": { "$ref": "#" } }),
            Some("inputSchema"),
        ),
        (
            json!({ "inputSchema": { "items": { "$ref": "#" } } }),
            Some("inputSchema"),
        ),
        (
            json!({ "inputSchema": { "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } } } }),
            Some("inputSchema"),
        ),
        (
            json!({ "inputSchema": { "$anchor": "a" } }),
            Some("inputSchema"),
        ),
        (json!({ "inputSchema": { "$id": "https://x/y" } }), None),
        (json!({ "inputSchema": doubling(10) }), None),
        (json!({ "inputSchema": doubling(60) }), Some("inputSchema")),
        (
            json!({ "description": "x".repeat(5_000) }),
            Some("description"),
        ),
        (
            json!({ "inputSchema": { "items": [{ "$ref": "http://x/" }] } }),
            Some("inputSchema"),
        ),
        (
            json!({ "inputSchema": { "x": "y".repeat(70_000) } }),
            Some("inputSchema"),
        ),
        (json!({ "outputSchema": deep }), Some("outputSchema")),
        (json!({ "availableTo": [] }), None),
        (json!({ "availableTo": [{}] }), Some("availableTo")),
        (json!({ "timeoutMs": 0 }), Some("timeoutMs")),
        (json!({ "timeoutMs": 1000 }), None),
    ];
    for (changes, path) in cases {
        let result = action(changes.clone()).check();
        assert_eq!(result.err().map(|error| error.path), path, "{changes}");
    }
}

/// Each part names the next one twice.
fn doubling(parts: usize) -> Value {
    let named = |at: usize| json!({ "$ref": format!("#/$defs/{at}") });
    let defs = (0..parts).map(|at| {
        let next = named(at + 1);
        (at.to_string(), json!({ "allOf": [next, next] }))
    });
    let mut defs: serde_json::Map<String, Value> = defs.collect();
    defs.insert(parts.to_string(), json!({ "type": "object" }));
    json!({ "$ref": "#/$defs/0", "$defs": defs })
}

#[test]
fn selectors_choose_callers() {
    const ID: &str = "01963a5c-7892-7abc-8ef0-000000000001";
    let caller = ActionCaller {
        name: "Codex-1".to_owned(),
        id: Some(ID.parse().unwrap()),
        agent_type: Some(AgentType::Agent),
    };
    let allowed = |list: Value| {
        let list: Option<Vec<AvailableTo>> = decode_value(list).unwrap();
        is_available(list.as_deref(), &caller, |channel| channel == "ops")
    };
    let cases = [
        (json!(null), true),
        (json!([]), false),
        (json!([{}]), false),
        (json!([{ "name": "codex-1" }]), true),
        (json!([{ "name": "@CODEX-1" }]), true),
        (json!([{ "name": "codex-2" }, { "id": ID }]), true),
        (json!([{ "type": "agent" }]), true),
        (json!([{ "type": "human" }]), false),
        (json!([{ "channel": "#ops" }]), true),
        (json!([{ "channel": "general" }]), false),
        (json!([{ "name": "codex-1", "channel": "general" }]), false),
    ];
    for (list, expected) in cases {
        assert_eq!(allowed(list.clone()), expected, "{list}");
    }
}
