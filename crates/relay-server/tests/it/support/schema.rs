//! Holds answers and frames against the API's description.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use jsonschema::Validator;
use relay_server::{RouteInfo, openapi_document, route_list};
use serde_json::{Value, json};

use super::Answer;

/// The API's description.
pub(crate) fn document() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(openapi_document)
}

/// Checks that an answer is one that the description allows.
pub(crate) fn check_answer(method: &str, path: &str, answer: &Answer) {
    let media_type = answer.header("content-type").unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default();
    if answer.status == 101 || method == "HEAD" {
        return;
    }
    let Some(route) = route_of(method, path) else {
        // What no route answers is a problem, too.
        assert!(answer.status >= 400, "{method} {path}: {}", answer.status);
        return check("Problem", &answer.json(), path);
    };
    let operation = &document()["paths"][route.path][method.to_ascii_lowercase()];
    let responses = &operation["responses"];
    let status = answer.status.to_string();
    let unavailable = route.path == "/ready" && answer.status == 503;
    let response = match (responses.get(&status), unavailable) {
        (Some(response), _) => response,
        (None, true) => &responses["200"],
        (None, false) => {
            assert!(
                answer.status >= 400,
                "{method} {path}: undocumented {status}"
            );
            &responses["default"]
        }
    };
    let Some(content) = response.get("content") else {
        assert!(answer.body.is_empty(), "{method} {path}: undocumented body");
        return;
    };
    if content.get("*/*").is_some() {
        return;
    }
    let described = &content[media_type];
    assert!(
        !described.is_null(),
        "{method} {path}: undocumented type {media_type:?}"
    );
    if media_type.ends_with("json") {
        let name = format!("{} {} {status}", route.method, route.path);
        check_schema(&name, &described["schema"], &answer.json());
    }
}

/// Checks a value against one of the description's schemas.
pub(crate) fn check(name: &str, value: &Value, of: &str) {
    let reference = json!({ "$ref": format!("#/components/schemas/{name}") });
    check_schema(&format!("{name} ({of})"), &reference, value);
}

/// The route that a path belongs to.
fn route_of(method: &str, path: &str) -> Option<RouteInfo> {
    let path = path.split('?').next().unwrap_or_default();
    let segments: Vec<&str> = path.split('/').collect();
    route_list()
        .into_iter()
        .filter(|route| route.method.as_str() == method)
        .filter(|route| {
            let template: Vec<&str> = route.path.split('/').collect();
            template.len() == segments.len()
                && template
                    .iter()
                    .zip(&segments)
                    .all(|(template, segment)| template.starts_with('{') || template == segment)
        })
        // `/v1/events/stream` before `/v1/events/{id}`.
        .min_by_key(|route| route.path.matches('{').count())
}

fn check_schema(name: &str, schema: &Value, value: &Value) {
    static VALIDATORS: OnceLock<Mutex<HashMap<String, Arc<Validator>>>> = OnceLock::new();
    let validators = VALIDATORS.get_or_init(Mutex::default);
    let key = schema.to_string();
    let known = validators.lock().unwrap().get(&key).cloned();
    let validator = known.unwrap_or_else(|| {
        let mut whole = schema.clone();
        whole["components"] = document()["components"].clone();
        let made = Arc::new(jsonschema::validator_for(&whole).unwrap());
        validators.lock().unwrap().insert(key, made.clone());
        made
    });
    let errors: Vec<String> = validator
        .iter_errors(value)
        .map(|error| format!("{error} at {}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{name}: {errors:#?}\n{value:#}");
}
