//! Actions of other agents as tools: what a tool's name and schema are, and what a call of it is.
//!
//! A tool has the name of its action, unless one of our own tools has it. The input of a tool is an object, always; an action
//! that takes something else gets it as the member `input`. A call is answered at once with its id, as the spec says, and
//! its outcome comes as a message. Names and schemas are bounded by the engine, which also checks every input.

use std::borrow::Cow;
use std::sync::Arc;

use relay_protocol::action::{ActionCaller, ActionInfo, is_available};
use relay_protocol::agent::AgentIdentity;
use relay_protocol::render::clean;
use relay_sdk::AgentClient;
use rmcp::model::{CallToolResult, JsonObject, Tool};
use serde_json::{Value, json};

use super::BUILT_IN;
use crate::words::Refusal;

/// What is put before an action's name that is one of our own.
const PREFIX: &str = "action_";
/// The member that holds an input that is no object.
const INPUT: &str = "input";

/// The tools that come of a page of actions, for this agent.
pub(crate) fn tools(actions: &[ActionInfo], me: &AgentIdentity) -> Vec<Tool> {
    let usable = actions.iter().filter(|action| is_tool_for(action, me));
    usable.map(tool).collect()
}

/// Only what agents registered is a tool. An agent's own actions are listed to it although it may not be among those
/// who can call them; the engine knows which channels it is in, here it counts as a member.
fn is_tool_for(action: &ActionInfo, me: &AgentIdentity) -> bool {
    let Some(owner) = &action.owner else {
        return false;
    };
    if !owner.eq_ignore_ascii_case(&me.name) {
        return true;
    }
    let caller = ActionCaller {
        name: me.name.clone(),
        id: Some(me.id),
        agent_type: Some(me.agent_type),
    };
    is_available(action.available_to.as_deref(), &caller, |_| true)
}

fn tool(action: &ActionInfo) -> Tool {
    let owner = action.owner.as_deref().unwrap_or_default();
    let said = clean(action.description.as_deref().unwrap_or_default());
    let description = match said.trim() {
        "" => format!("Action of @{owner}."),
        said => format!("Action of @{owner}: {said}"),
    };
    let name = tool_name(&action.name).into_owned();
    Tool::new(
        name,
        description,
        Arc::new(input_schema(&action.input_schema)),
    )
}

/// The name of an action's tool. Those that would be taken for another get a prefix.
fn tool_name(action: &str) -> Cow<'_, str> {
    match is_ambiguous(action) {
        true => format!("{PREFIX}{action}").into(),
        false => action.into(),
    }
}

/// The action whose tool has this name.
fn action_name(tool: &str) -> &str {
    match tool.strip_prefix(PREFIX) {
        Some(action) if is_ambiguous(action) => action,
        _ => tool,
    }
}

/// One of our own names, with any number of prefixes: each gets one more, so no two tools have the same name.
fn is_ambiguous(action: &str) -> bool {
    let mut name = action;
    while let Some(rest) = name.strip_prefix(PREFIX) {
        name = rest;
    }
    BUILT_IN.contains(&name)
}

/// The schema of a tool's input: the action's own, if that is one of objects.
fn input_schema(schema: &Value) -> JsonObject {
    let mut schema = schema.clone();
    clean_texts(&mut schema);
    match schema {
        Value::Object(mut members) if takes_objects(&members) => {
            members.insert("type".to_owned(), "object".into());
            members
        }
        other => wrapped(other),
    }
}

/// Whether the input may be an object. A schema that does not say what it takes may.
fn takes_objects(schema: &JsonObject) -> bool {
    match schema.get("type") {
        Some(Value::String(one)) => one == "object",
        Some(Value::Array(several)) => several.iter().any(|one| one == "object"),
        _ => !(schema.contains_key("enum") || schema.contains_key("const")),
    }
}

fn wrapped(mut schema: Value) -> JsonObject {
    // What its references mean changes with its place; the engine checks the input anyway.
    if refers(&schema) {
        schema = json!({});
    }
    let mut members = JsonObject::new();
    members.insert("type".to_owned(), "object".into());
    members.insert("properties".to_owned(), json!({ INPUT: schema }));
    members.insert("required".to_owned(), json!([INPUT]));
    members
}

fn refers(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => members.contains_key("$ref") || members.values().any(refers),
        Value::Array(items) => items.iter().any(refers),
        _ => false,
    }
}

/// Takes out of titles and descriptions what nobody can see.
fn clean_texts(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    Value::String(text) if name == "description" || name == "title" => {
                        *text = clean(text);
                    }
                    other => clean_texts(other),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(clean_texts),
        _ => {}
    }
}

/// Calls the action whose tool this is.
pub(crate) async fn call(
    client: &AgentClient,
    tool: &str,
    arguments: JsonObject,
) -> Result<CallToolResult, Refusal> {
    let name = action_name(tool);
    let input = match is_only_input(&arguments) && takes_wrapped(client, name).await? {
        true => arguments
            .into_iter()
            .next()
            .map_or(Value::Null, |(_, input)| input),
        false => Value::Object(arguments),
    };
    let invocation_id = client.invoke(name, input).await?;
    Ok(CallToolResult::structured(
        json!({ "invocationId": invocation_id }),
    ))
}

fn is_only_input(arguments: &JsonObject) -> bool {
    arguments.len() == 1 && arguments.contains_key(INPUT)
}

/// Whether an action takes something else than an object. Asked only where the input looks like it: a handler may live
/// for one request, so nothing is remembered of what was listed.
async fn takes_wrapped(client: &AgentClient, name: &str) -> Result<bool, Refusal> {
    let mut cursor = None;
    loop {
        let page = client.actions(cursor.as_deref()).await?;
        let found = page.items.iter().find(|action| action.name == name);
        if let Some(action) = found {
            let schema = action.input_schema.as_object();
            return Ok(!schema.is_some_and(takes_objects));
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(false);
        }
    }
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    reason = "whatever is not as expected ends the test"
)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_actions_names_but_for_our_own() {
        for (action, tool) in [
            ("deploy", "deploy"),
            ("Send", "Send"),
            ("action_deploy", "action_deploy"),
            ("send", "action_send"),
            ("check", "action_check"),
            ("people", "action_people"),
            ("action_send", "action_action_send"),
            ("action_action_send", "action_action_action_send"),
        ] {
            assert_eq!(tool_name(action), tool);
            assert_eq!(action_name(tool), action);
        }
    }

    #[test]
    fn inputs_are_objects() {
        let any = json!({ "type": "object", "properties": { "input": {} }, "required": ["input"] });
        let object = json!({ "type": "object" });
        for (schema, expected) in [
            (json!({}), object.clone()),
            (json!({ "type": "object" }), object.clone()),
            (json!({ "type": ["object", "null"] }), object),
            (
                json!({ "$ref": "#/$defs/x", "$defs": { "x": {} } }),
                json!({ "$ref": "#/$defs/x", "$defs": { "x": {} }, "type": "object" }),
            ),
            (
                json!(true),
                json!({
                    "type": "object", "properties": { "input": true }, "required": ["input"],
                }),
            ),
            (
                json!({ "type": "string" }),
                json!({
                    "type": "object", "properties": { "input": { "type": "string" } }, "required": ["input"],
                }),
            ),
            (
                json!({ "enum": [1, 2] }),
                json!({
                    "type": "object", "properties": { "input": { "enum": [1, 2] } }, "required": ["input"],
                }),
            ),
            (
                json!({ "type": "array", "items": { "$ref": "#/$defs/x" } }),
                any,
            ),
        ] {
            assert_eq!(Value::Object(input_schema(&schema)), expected, "{schema}");
        }
    }

    fn action(changes: Value) -> ActionInfo {
        let mut action = json!({
            "name": "deploy", "inputSchema": {}, "notifyCaller": true, "atMostOnce": false,
            "timeoutMs": 1, "handlers": 1, "createdAt": "2026-11-16T00:00:00.000Z",
        });
        for (name, value) in changes.as_object().unwrap() {
            action[name] = value.clone();
        }
        serde_json::from_value(action).unwrap()
    }

    #[test]
    fn agents_actions_are_tools_and_say_whose_they_are() {
        let me: AgentIdentity = serde_json::from_value(json!({
            "id": "01963a5c-0000-7000-8000-000000000001", "name": "ada", "handle": "@ada", "type": "agent",
        }))
        .unwrap();
        let only = json!([{ "name": "bob" }]);
        for (changes, expected) in [
            (json!({}), None),
            (json!({ "owner": "bob" }), Some("Action of @bob.")),
            (
                json!({ "owner": "bob", "description": "ships\u{202e} it" }),
                Some("Action of @bob: ships it"),
            ),
            (json!({ "owner": "Ada" }), Some("Action of @Ada.")),
            (json!({ "owner": "ada", "availableTo": only }), None),
        ] {
            let tools = tools(&[action(changes.clone())], &me);
            let found = tools.first().map(|tool| tool.description.clone().unwrap());
            assert_eq!(found.as_deref(), expected, "{changes}");
        }
    }

    #[test]
    fn what_nobody_sees_is_taken_out_of_schemas() {
        let schema = json!({ "properties": { "description": { "title": "a\u{200b}b", "const": "a\u{200b}b" } } });
        let cleaned = input_schema(&schema);
        assert_eq!(
            cleaned["properties"],
            json!({ "description": { "title": "ab", "const": "a\u{200b}b" } })
        );
    }
}
