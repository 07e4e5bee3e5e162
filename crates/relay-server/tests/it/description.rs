//! The API's description: complete, and valid by itself.

use std::collections::BTreeSet;

use relay_server::route_list;
use serde_json::Value;

use crate::support::{World, document};

#[tokio::test]
async fn it_is_served() {
    let world = World::start().await;
    let answer = world.nobody().get("/openapi.json").await;
    assert_eq!(&answer.expect(200), document());
}

#[test]
fn every_route_is_in_it() {
    let mut described = BTreeSet::new();
    for (path, operations) in document()["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            described.insert((method.to_ascii_uppercase(), path.clone()));
        }
    }
    let routes: BTreeSet<_> = route_list()
        .into_iter()
        .map(|route| (route.method.to_string(), route.path.to_owned()))
        .collect();
    assert_eq!(described, routes);
    assert!(routes.len() > 60);
}

#[test]
fn operations_are_told_apart_and_say_who_may_call() {
    let mut ids = BTreeSet::new();
    for (path, operations) in document()["paths"].as_object().unwrap() {
        for operation in operations.as_object().unwrap().values() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(ids.insert(id.to_owned()), "{id} is there twice");
            let open = operation["security"].as_array().is_some();
            let kinds = operation["x-relay-credentials"].as_array();
            assert!(
                open != kinds.is_some_and(|kinds| !kinds.is_empty()),
                "{path}"
            );
            let parameters = operation["parameters"].as_array().unwrap();
            let in_path = parameters.iter().filter(|it| it["in"] == "path").count();
            assert_eq!(in_path, path.matches('{').count(), "{path}");
        }
    }
}

#[test]
fn every_reference_leads_somewhere() {
    fn walk(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                if let Some(Value::String(reference)) = members.get("$ref") {
                    found.push(reference.clone());
                }
                members.values().for_each(|value| walk(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| walk(value, found)),
            _ => {}
        }
    }
    let mut references = Vec::new();
    walk(document(), &mut references);
    assert!(references.len() > 100);
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document().pointer(pointer).is_some(), "{reference}");
    }
}

#[test]
fn every_schema_is_one() {
    let schemas = document()["components"]["schemas"].as_object().unwrap();
    for (name, schema) in schemas {
        let valid = jsonschema::meta::is_valid(schema);
        assert!(valid, "{name}");
    }
}
