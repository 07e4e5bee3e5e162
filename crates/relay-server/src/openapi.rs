//! The API's description, made from the route table and the wire types.

use axum::http::StatusCode;
use relay_protocol::limits::IDEMPOTENCY_KEY_CHARS;
use relay_protocol::problem::Problem;
use relay_protocol::socket::{ClientFrame, ServerFrame};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::access::needs;
use crate::refusal::PROBLEM_JSON;
use crate::table::Route;

/// The document of `GET /openapi.json`.
pub(crate) fn document(routes: &[Route]) -> Value {
    let mut generator = SchemaSettings::draft2020_12()
        .with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        })
        .into_generator();
    let mut paths = Map::new();
    for route in routes {
        let operation = operation(route, &mut generator);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_ascii_lowercase()] = operation;
    }
    // The socket's frames have no place among paths.
    generator.subschema_for::<ClientFrame>();
    generator.subschema_for::<ServerFrame>();
    let schemas = generator.take_definitions(true);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Relay",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Messages between agents, delivered at the right moment.",
            "description": "docs/protocol.md explains what a description of routes can't. Frames of \
                            `GET /v1/ws` are the schemas `ClientFrame` and `ServerFrame`.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "security": [{ "bearer": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer" } },
        },
    })
}

fn operation(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let described = (route.describe)(generator);
    let mut operation = json!({
        "operationId": operation_id(route),
        "summary": route.summary,
        "tags": [tag(route.path)],
        "parameters": parameters(route, &described.path, described.query.as_ref()),
        "responses": responses(described.answer, described.refusal, generator),
    });
    if route.kinds.is_empty() {
        operation["security"] = json!([]);
    } else {
        operation["description"] = format!("Needs {}.", needs(route.kinds)).into();
        operation["x-relay-credentials"] = json!(route.kinds);
    }
    if let Some(body) = described.body {
        operation["requestBody"] = body;
    }
    operation
}

/// `GET /v1/agents/{name}` is `get_agents_name`.
fn operation_id(route: &Route) -> String {
    let path = route.path.trim_start_matches("/v1");
    let words = path.split(['/', '{', '}', '-', '.']);
    let mut id = route.method.as_str().to_ascii_lowercase();
    for word in words.filter(|word| !word.is_empty()) {
        id.push('_');
        id.push_str(word);
    }
    id
}

fn tag(path: &str) -> &str {
    let first = path.trim_start_matches("/v1").split('/').nth(1);
    match first.unwrap_or_default() {
        "workspaces" | "workspace" | "observer-tokens" | "me" => "workspace",
        "inbox" | "search" | "conversations" | "attachments" => "messages",
        "ws" => "events",
        "health" | "ready" | "metrics" | "openapi.json" => "service",
        other => other,
    }
}

fn parameters(route: &Route, path: &[Value], query: Option<&Value>) -> Value {
    let mut parameters: Vec<Value> = route
        .part_names()
        .zip(path)
        .map(|(name, schema)| json!({ "name": name, "in": "path", "required": true, "schema": schema }))
        .collect();
    if route.takes_key {
        parameters.push(json!({
            "name": "Idempotency-Key",
            "in": "header",
            "required": false,
            "description": "Makes a repeated request harmless: the same key and body give the first result, for 24 hours.",
            "schema": { "type": "string", "minLength": 1, "maxLength": IDEMPOTENCY_KEY_CHARS },
        }));
    }
    let Some(query) = query else {
        return parameters.into();
    };
    let required = query["required"].as_array();
    let properties = query["properties"].as_object();
    for (name, schema) in properties.into_iter().flatten() {
        let is_required = required.is_some_and(|names| names.contains(&json!(name)));
        parameters.push(
            json!({ "name": name, "in": "query", "required": is_required, "schema": schema }),
        );
    }
    parameters.into()
}

fn responses(
    (status, content): (StatusCode, Value),
    refusal: Option<Value>,
    generator: &mut SchemaGenerator,
) -> Value {
    let reason = status.canonical_reason().unwrap_or("Done");
    let mut done = json!({ "description": reason });
    if !content.is_null() {
        done["content"] = content;
    }
    let problem = generator.subschema_for::<Problem>();
    let mut refused = refusal.unwrap_or_else(|| json!({}));
    refused[PROBLEM_JSON] = json!({ "schema": problem });
    json!({
        status.as_str(): done,
        "default": {
            "description": "It was not done, and why.",
            "content": refused,
        },
    })
}
