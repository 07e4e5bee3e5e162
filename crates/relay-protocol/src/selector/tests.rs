use std::sync::Arc;

use super::*;
use crate::status::AgentStatus;
use crate::wire::{decode, decode_value};
use serde_json::{Value, json};

const ENGINEER: &str = "01963a5c-7892-7abc-8ef0-000000000001";
const REVIEWER: &str = "01963a5c-7892-7abc-8ef0-000000000002";
const GENERAL: &str = "01963a5c-7892-7abc-8ef0-000000000003";
const ID: &str = "01963a5c-7892-7abc-8ef0-00000000000f";

fn event(body: Value) -> LoggedEvent {
    let event: RelayEvent = decode_value(body).unwrap();
    LoggedEvent {
        seq: 1,
        id: ID.parse().unwrap(),
        at: crate::time::Timestamp::from_millis(0),
        workspace_id: ID.parse().unwrap(),
        event_type: event.tag().to_owned(),
        event: Some(event),
    }
}

fn erased(event_type: &str) -> LoggedEvent {
    LoggedEvent {
        event: None,
        event_type: event_type.to_owned(),
        ..event(status("idle"))
    }
}

fn identity(id: &str, name: &str) -> Value {
    json!({ "id": id, "name": name, "handle": format!("@{name}"), "type": "agent" })
}

fn message() -> Value {
    json!({
        "id": ID, "messageId": ID,
        "from": { "id": ENGINEER, "name": "Engineer" },
        "to": { "kind": "channel", "channelName": "general" },
        "channel": { "id": GENERAL, "name": "general" },
        "text": "hi @Reviewer", "attachments": [], "mentions": ["Reviewer"],
        "createdAt": "2025-11-15T22:14:20.123Z", "version": 1,
    })
}

fn message_event(name: &str) -> Value {
    json!({ "type": name, "message": message(), "envelope": {} })
}

fn status(status: &str) -> Value {
    json!({ "type": "agent.status.changed", "agentId": ENGINEER, "agentName": "Engineer", "status": status })
}

fn action(name: &str) -> Value {
    json!({
        "type": name, "action": "spawn-claude",
        "agent": { "name": "Engineer", "id": ENGINEER }, "at": "2025-11-15T22:14:20.123Z",
    })
}

fn failed_delivery() -> Value {
    json!({
        "type": "delivery.failed", "deliveryId": ID, "agent": identity(REVIEWER, "Reviewer"),
        "message": message(), "reason": "no_receipt",
    })
}

fn tool_called() -> Value {
    json!({
        "type": "tool.called", "agentId": ENGINEER,
        "event": { "type": "tool.called", "tool": "bash" },
    })
}

#[test]
fn patterns_match_names() {
    let cases = [
        ("*", "message.created", true),
        ("*", "log", true),
        ("message.created", "message.created", true),
        ("message.created", "message.updated", false),
        ("message.*", "message.updated", true),
        ("message.*", "thread.reply", false),
        ("agent.*", "agent.status.idle", true),
        ("agent.*", "agent.registered", true),
        ("agent.status.*", "agent.status.idle", true),
        ("agent.status.*", "agent.registered", false),
        ("dm.*", "group_dm.received", false),
        ("log", "log", true),
    ];
    for (pattern, name, expected) in cases {
        let selector = Selector::parse(pattern).unwrap();
        assert_eq!(selector.matches_type(name), expected, "{pattern} {name}");
        assert_eq!(
            selector.matches(&erased(name)),
            expected,
            "{pattern} {name}"
        );
    }
}

#[test]
fn unknown_names_come_with_the_nearest() {
    let cases = [
        ("message.craeted", Some("message.created")),
        ("mesage.*", Some("message.*")),
        ("status.idle", Some("agent.status.idle")),
        ("Message.Created", Some("message.created")),
        ("message.created.*", Some("message.created")),
        ("log.*", Some("log")),
        ("", None),
        ("zzzzzzzzzzz", None),
    ];
    for (pattern, expected) in cases {
        let error = Selector::parse(pattern).unwrap_err();
        let SelectorError::UnknownEvent { name, nearest } = &error else {
            panic!("{error}");
        };
        assert_eq!(name, pattern);
        assert_eq!(nearest.first().map(String::as_str), expected, "{pattern}");
        let problem = Problem::from(error);
        assert_eq!(problem.code, ErrorCode::UnknownEvent);
        assert_eq!(problem.status, 400);
        assert_eq!(problem.found.as_deref(), Some(pattern));
    }
    for pattern in [
        "**",
        "message*",
        ".*",
        "*.created",
        "message.",
        "action",
        "message.**",
    ] {
        assert!(Selector::parse(pattern).is_err(), "{pattern}");
    }
}

fn check(filter: Filter, event: &LoggedEvent, expected: bool) {
    let shown = serde_json::to_string(&filter).unwrap();
    let selector = Selector::from_filter(filter).unwrap();
    let name = &event.event_type;
    assert_eq!(selector.matches(event), expected, "{shown} on {name}");
    if expected {
        assert!(selector.matches_type(name), "{shown} on {name}");
    }
}

#[test]
fn conditions_read_the_event() {
    use AgentStatus::{Blocked, Idle};
    let became_idle = event(status("idle"));
    let plain_idle = event(json!({ "type": "agent.status.idle", "agentId": ENGINEER }));
    let completed = event(action("action.completed"));
    let invoked = event(action("action.invoked"));
    let created = event(message_event("message.created"));
    let failed = event(failed_delivery());
    let joined = event(json!({
        "type": "channel.member_joined", "channel": { "name": "general" },
        "agentId": ENGINEER, "agentName": "Engineer",
    }));
    let tool = event(tool_called());

    for agent in ["Engineer", "@engineer", "ENGINEER", ENGINEER] {
        check(Filter::status_becomes(agent, Idle), &became_idle, true);
        check(
            Filter::action("spawn-claude").called_by(agent),
            &completed,
            true,
        );
        check(Filter::message().from(agent), &created, true);
        check(Filter::event("channel.*").for_agent(agent), &joined, true);
        check(Filter::delivery_failed().for_agent(agent), &failed, false);
        check(Filter::delivery_failed().from(agent), &failed, true);
    }
    check(
        Filter::status_becomes("engineer", Blocked),
        &became_idle,
        false,
    );
    check(
        Filter::status_becomes("reviewer", Idle),
        &became_idle,
        false,
    );
    check(
        Filter::event("agent.status.idle").for_agent(ENGINEER),
        &plain_idle,
        true,
    );
    let idle = Filter {
        status: Some(Idle),
        ..Filter::default()
    };
    check(idle, &plain_idle, true);

    check(Filter::action("spawn-claude"), &invoked, true);
    check(Filter::action("Spawn-Claude"), &invoked, false);
    check(Filter::action("spawn-claude").completed(), &completed, true);
    check(Filter::action("spawn-claude").completed(), &invoked, false);
    check(Filter::action("spawn-claude").failed(), &completed, false);
    check(Filter::action("spawn-claude").denied(), &completed, false);
    check(
        Filter::action("spawn-claude").called_by("bob"),
        &completed,
        false,
    );

    for channel in ["general", "#general", "#General", GENERAL] {
        check(Filter::message().in_channel(channel), &created, true);
        check(Filter::delivery_failed().in_channel(channel), &failed, true);
    }
    check(Filter::message().in_channel("@general"), &created, false);
    check(Filter::message().in_channel("ops"), &created, false);
    check(Filter::message().mentions("@reviewer"), &created, true);
    check(Filter::message().mentions("engineer"), &created, false);
    check(
        Filter::delivery_failed().for_agent("reviewer"),
        &failed,
        true,
    );
    check(Filter::event("tool.*").for_agent(ENGINEER), &tool, true);
    check(Filter::event("tool.*").for_agent("engineer"), &tool, false);
    check(Filter::default(), &tool, true);
}

#[test]
fn operators_combine() {
    let created = event(message_event("message.created"));
    let here = || Filter::message().in_channel("general");
    let bob = || Filter::message().from("bob");
    check(
        here().and(Filter::message().from("engineer")),
        &created,
        true,
    );
    check(here().and(bob()), &created, false);
    check(here().or(bob()), &created, true);
    check(bob().or(bob()), &created, false);
    check(Filter::not(bob()), &created, true);
    check(Filter::not(here()), &created, false);
    check(here().and(Filter::not(bob())), &created, true);
    let mixed = Filter {
        not: Some(Box::new(bob())),
        ..here()
    };
    check(mixed, &created, true);
}

#[test]
fn known_agents_match_by_id_and_name() {
    let find = |written: &str| match written {
        "engineer" => Some((ENGINEER.parse().unwrap(), "Engineer".to_owned())),
        REVIEWER => Some((REVIEWER.parse().unwrap(), "Reviewer".to_owned())),
        _ => None,
    };
    let with = |filter| Selector::from_filter(filter).unwrap().with_agents(find);
    let tool = event(tool_called());
    let created = event(message_event("message.created"));
    assert!(with(Filter::event("tool.*").for_agent("engineer")).matches(&tool));
    assert!(with(Filter::message().mentions(REVIEWER)).matches(&created));
    assert!(!with(Filter::event("tool.*").for_agent("bob")).matches(&tool));
    assert!(!with(Filter::event("tool.*").for_agent(REVIEWER)).matches(&tool));
}

#[test]
fn erased_events_match_by_name_only() {
    let gone = erased("message.created");
    check(Filter::message(), &gone, true);
    check(Filter::message().from("engineer"), &gone, false);
    check(
        Filter::not(Filter::message().from("engineer")),
        &gone,
        false,
    );
    check(Filter::not(Filter::event("log")), &gone, true);
    check(
        Filter::message().or(Filter::message().from("bob")),
        &gone,
        true,
    );
}

#[test]
fn names_alone_rule_events_out() {
    let types = |filter| {
        let selector = Selector::from_filter(filter).unwrap();
        selector.event_types().collect::<Vec<_>>()
    };
    assert_eq!(types(Filter::message().from("a")), ["message.created"]);
    let called = Filter {
        called_by: Some("a".to_owned()),
        ..Filter::default()
    };
    assert_eq!(
        types(called),
        [
            "action.invoked",
            "action.completed",
            "action.failed",
            "action.denied"
        ]
    );
    let not_messages = types(Filter::not(Filter::event("message.*")));
    assert!(!not_messages.contains(&"message.read") && not_messages.contains(&"log"));
    let nobody = types(Filter::not(Filter::event("message.*").from("a")));
    assert_eq!(nobody.len(), RelayEvent::TAGS.len());
    let either = types(Filter::event("log").or(Filter::event("error")));
    assert_eq!(either, ["log", "error"]);
}

#[test]
fn filters_that_cannot_work_are_refused() {
    let text = |filter: Value| {
        let filter: Filter = decode_value(filter).unwrap();
        Selector::from_filter(filter).unwrap_err().to_string()
    };
    assert_eq!(text(json!({ "or": [] })), "`or` needs at least one filter");
    assert_eq!(
        text(json!({ "not": { "and": [] } })),
        "`and` needs at least one filter"
    );
    assert!(text(json!({ "and": [{ "event": "nope.nope" }] })).contains("no event `nope.nope`"));
    assert!(
        text(json!({ "event": "message.*", "calledBy": "a" })).starts_with(
            "`calledBy` can hold for no event of `message.*`; events that have it: action.invoked"
        )
    );
    assert!(text(json!({ "event": "message.created", "agent": "a" })).contains("`agent`"));
}

#[test]
fn size_is_bounded() {
    let of = |nodes: usize| Filter {
        and: Some(vec![Filter::event("log"); nodes - 1]),
        ..Filter::default()
    };
    assert!(Selector::from_filter(of(FILTER_NODES)).is_ok());
    assert_eq!(
        Selector::from_filter(of(FILTER_NODES + 1)),
        Err(SelectorError::TooManyFilters {
            found: FILTER_NODES + 1
        })
    );
}

#[test]
fn on_the_wire_it_is_a_string_or_an_object() {
    for json in [
        r#""message.*""#,
        r#"{"event":"agent.status.changed","agent":"engineer","status":"idle"}"#,
        r#"{"and":[{"event":"action.*","action":"x","calledBy":"a"},{"not":{"event":"action.denied"}}]}"#,
    ] {
        let selector: Selector = decode(json.as_bytes()).unwrap();
        assert_eq!(serde_json::to_string(&selector).unwrap(), json);
    }
    let error = |json: &str| decode::<Selector>(json.as_bytes()).unwrap_err().to_string();
    assert!(error(r#""mesage.*""#).contains("message.*"));
    assert!(error("3").contains("expected an event name"));
    assert!(error(r#"{"and":[{"evnt":"log"}]}"#).starts_with("and[0].evnt: unknown field `evnt`"));
    assert!(error(r#"{"status":"sleepy"}"#).starts_with("status: unknown variant `sleepy`"));
}

#[test]
fn builders_give_the_documented_data() {
    let cases = [
        (
            Filter::status_becomes("e", AgentStatus::Idle),
            json!({ "event": "agent.status.changed", "agent": "e", "status": "idle" }),
        ),
        (
            Filter::action("n").called_by("e"),
            json!({ "event": "action.*", "action": "n", "calledBy": "e" }),
        ),
        (
            Filter::action("n").completed(),
            json!({ "event": "action.completed", "action": "n" }),
        ),
        (
            Filter::delivery_failed().for_agent("a"),
            json!({ "event": "delivery.failed", "agent": "a" }),
        ),
    ];
    for (filter, expected) in cases {
        assert_eq!(serde_json::to_value(filter).unwrap(), expected);
    }
}

#[test]
fn shared_messages_are_read_through() {
    let mut created = event(message_event("message.created"));
    if let Some(RelayEvent::MessageCreated(e)) = &mut created.event {
        Arc::make_mut(&mut e.message).channel = None;
    }
    check(Filter::message().in_channel("general"), &created, true);
}
