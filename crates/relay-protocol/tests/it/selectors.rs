//! Filters against every event of the vocabulary: what the name alone decides agrees with the content.

use std::collections::BTreeSet;

use relay_protocol::event::LoggedEvent;
use relay_protocol::selector::{Filter, Selector};
use relay_protocol::wire::decode_value;
use serde_json::{Value, json};

use crate::examples::values;

const NAMES: &[&str] = &["engineer", "bob", "a", "codex-1", "reviewer"];
const ID: &str = "01963a5c-7892-7abc-8ef0-123456789abc";

fn filters(field: &str) -> Vec<Value> {
    let values: Vec<Value> = match field {
        "status" => vec![
            json!("idle"),
            json!("active"),
            json!("blocked"),
            json!("waiting"),
            json!("offline"),
            json!("paused"),
        ],
        "action" => vec![json!("classify")],
        "inChannel" => vec![json!("#general"), json!("ops")],
        _ => NAMES.iter().chain([&ID]).map(|name| json!(name)).collect(),
    };
    values
        .into_iter()
        .map(|value| json!({ field: value }))
        .collect()
}

fn events() -> Vec<LoggedEvent> {
    let read = |value| decode_value(value).unwrap();
    values("LoggedEvent").into_iter().map(read).collect()
}

/// The names of the events that some filter on this field matches, and those it may match.
fn matched(field: &str, events: &[LoggedEvent]) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut matched, mut possible) = (BTreeSet::new(), BTreeSet::new());
    for filter in filters(field) {
        let filter: Filter = decode_value(filter).unwrap();
        let selector = Selector::from_filter(filter).unwrap();
        possible.extend(selector.event_types().map(str::to_owned));
        let found = events.iter().filter(|event| selector.matches(event));
        matched.extend(found.map(|event| event.event_type.clone()));
    }
    (matched, possible)
}

#[test]
fn each_condition_can_hold_for_exactly_the_events_that_carry_it() {
    let events = events();
    for field in [
        "agent",
        "status",
        "action",
        "calledBy",
        "inChannel",
        "from",
        "mentions",
    ] {
        let (matched, possible) = matched(field, &events);
        assert_eq!(matched, possible, "{field}");
    }
}

#[test]
fn every_name_and_its_prefixes_select_the_event() {
    for event in events() {
        let name = &event.event_type;
        let dots = name
            .match_indices('.')
            .map(|(dot, _)| format!("{}.*", &name[..dot]));
        for pattern in [name.clone(), "*".to_owned()].into_iter().chain(dots) {
            let selector = Selector::parse(&pattern).unwrap();
            assert!(selector.matches(&event), "{pattern} {name}");
        }
    }
}
