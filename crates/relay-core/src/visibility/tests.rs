use relay_protocol::ids::WorkspaceId;
use relay_protocol::time::Timestamp;
use serde_json::{Value, json};

use super::*;

const ME: u128 = 1;
const OTHER: u128 = 2;
const MY_CHANNEL: u128 = 10;
const OTHER_CHANNEL: u128 = 11;
const MY_TALK: u128 = 12;
const OTHER_TALK: u128 = 13;
/// In `#mine`, by the other.
const HEARD: u128 = 20;
/// In `#other`, by the other.
const UNHEARD: u128 = 21;
/// In `#other`, by me.
const WRITTEN: u128 = 22;

/// A call of my action.
const HANDLED: u128 = 23;
/// A call of the other's.
const UNHANDLED: u128 = 24;

fn id(number: u128) -> String {
    Uuid::from_u128(number).to_string()
}

struct World;

impl Oracle for World {
    fn is_in(&mut self, room: Uuid) -> Result<bool> {
        Ok([ME, MY_CHANNEL, MY_TALK].contains(&room.as_u128()))
    }

    fn is_in_channel(&mut self, name: &str) -> Result<bool> {
        Ok(name == "mine")
    }

    fn has_part_in(&mut self, call: InvocationId) -> Result<bool> {
        Ok(call.uuid().as_u128() == HANDLED)
    }

    fn whereabouts(&mut self, message: MessageId) -> Result<Option<Whereabouts>> {
        let (room, channel, author) = match message.uuid().as_u128() {
            HEARD => (MY_CHANNEL, "mine", OTHER),
            UNHEARD => (OTHER_CHANNEL, "other", OTHER),
            WRITTEN => (OTHER_CHANNEL, "other", ME),
            _ => return Ok(None),
        };
        Ok(Some(Whereabouts {
            room: Some(Uuid::from_u128(room)),
            channel: Some(channel.to_owned()),
            author: Some(AgentId::from_uuid(Uuid::from_u128(author))),
        }))
    }
}

fn logged(event: Value) -> LoggedEvent {
    let event_type = event["type"].as_str().unwrap().to_owned();
    let event: RelayEvent = serde_json::from_value(event).unwrap();
    LoggedEvent {
        seq: 1,
        id: relay_protocol::ids::EventId::from_uuid(Uuid::from_u128(99)),
        at: Timestamp::from_millis(0),
        workspace_id: WorkspaceId::from_uuid(Uuid::from_u128(98)),
        event: Some(event),
        event_type,
    }
}

const AT: &str = "2026-11-15T21:54:20.123Z";

fn message(to: Value, channel: Option<&str>, author: u128) -> Value {
    let mut message = json!({
        "id": id(30), "messageId": id(30), "from": { "id": id(author), "name": "x" }, "to": to,
        "text": "t", "attachments": [], "mentions": [], "createdAt": AT, "version": 1,
    });
    if let Some(name) = channel {
        message["channel"] = json!({ "name": name });
    }
    message
}

fn posted(name: &str, channel: &str, room: u128) -> Value {
    let to = json!({ "kind": "channel", "channelName": channel, "channelId": id(room) });
    json!({ "type": name, "message": message(to, Some(channel), OTHER), "envelope": {} })
}

fn talked(kind: &str, room: u128) -> Value {
    let to = json!({ "kind": kind, "conversationId": id(room) });
    let name = format!("{kind}.received");
    json!({ "type": name, "message": message(to, None, OTHER), "envelope": {} })
}

fn told(agent: u128) -> Value {
    let to = json!({ "kind": "agent", "agentName": "x", "agentId": id(agent) });
    json!({ "type": "message.created", "message": message(to, None, OTHER), "envelope": {} })
}

fn identity(agent: u128) -> Value {
    json!({ "id": id(agent), "name": "x", "handle": "@x", "type": "agent" })
}

fn delivery(name: &str, agent: u128, of: u128) -> Value {
    json!({
        "type": name, "deliveryId": id(40), "messageId": id(of), "agent": identity(agent),
    })
}

fn failed(agent: u128, author: u128) -> Value {
    let mut event = created(agent, author);
    event["type"] = json!("delivery.failed");
    event["reason"] = json!("r");
    event
}

fn created(agent: u128, author: u128) -> Value {
    let to = json!({ "kind": "channel", "channelName": "other", "channelId": id(OTHER_CHANNEL) });
    json!({
        "type": "delivery.created", "deliveryId": id(40), "agent": identity(agent),
        "message": message(to, Some("other"), author),
    })
}

fn report(agent: u128, event: Value) -> Value {
    json!({ "type": event["type"], "agentId": id(agent), "sessionId": id(50), "event": event })
}

fn tool_called(agent: u128) -> Value {
    report(
        agent,
        json!({ "type": "tool.called", "tool": "bash", "input": { "command": "x" } }),
    )
}

fn transcript(agent: u128) -> Value {
    let chunk = json!({ "id": "c", "at": AT, "role": "agent", "content": "x", "sequence": 1 });
    report(agent, json!({ "type": "transcript.chunk", "chunk": chunk }))
}

fn terminal(agent: u128) -> Value {
    report(agent, json!({ "type": "terminal.output", "text": "x" }))
}

fn command(agent: u128) -> Value {
    report(agent, json!({ "type": "command.started", "command": "x" }))
}

fn usage(agent: u128) -> Value {
    report(agent, json!({ "type": "usage.updated", "tokens": 1 }))
}

fn permission(agent: u128) -> Value {
    json!({ "type": "permission.requested", "permission": {
        "permissionId": id(60), "state": "pending", "agentId": id(agent), "tool": "bash",
        "params": { "command": "unlink" }, "title": "unlink", "createdAt": AT, "expiresAt": AT,
        "argsHash": "h", "options": [], "suggestions": [],
    } })
}

fn channel(name: &str, channel: &str, room: u128) -> Value {
    json!({ "type": name, "channel": { "id": id(room), "name": channel, "createdAt": AT } })
}

fn joined(agent: u128, channel: &str, room: u128) -> Value {
    json!({
        "type": "channel.member_joined", "channel": { "id": id(room), "name": channel },
        "agentId": id(agent), "agentName": "x",
    })
}

fn status(agent: u128) -> Value {
    json!({ "type": "agent.status.idle", "agentId": id(agent) })
}

fn action(agent: u128) -> Value {
    json!({ "type": "action.invoked", "action": "a", "agent": { "name": "x", "id": id(agent) }, "at": AT })
}

fn called(agent: u128, call: u128) -> Value {
    let mut event = action(agent);
    event["invocationId"] = json!(id(call));
    event
}

fn offered(name: &str, owner: u128, available_to: Value) -> Value {
    let mut event = json!({
        "type": name, "action": "a", "agent": { "name": "x", "id": id(owner) }, "at": AT,
    });
    if !available_to.is_null() {
        event["availableTo"] = available_to;
    }
    event
}

fn token() -> Value {
    json!({ "type": "token.created", "tokenId": id(70), "kind": "agent", "agentName": "x" })
}

fn workspace() -> Value {
    json!({ "type": "workspace.updated", "name": "w", "policyVersion": 1 })
}

fn started(agent: u128) -> Value {
    json!({ "type": "session.started", "sessionId": id(50), "agentId": id(agent) })
}

fn registered(agent: u128) -> Value {
    json!({ "type": "agent.registered", "agent": identity(agent) })
}

fn me(agent_type: AgentType) -> Eyes {
    Eyes::Agent(Me {
        id: AgentId::from_uuid(Uuid::from_u128(ME)),
        name: "Me".to_owned(),
        agent_type,
    })
}

fn see(eyes: &Eyes, event: Value) -> Sight {
    sight(eyes, &logged(event), &mut World).unwrap()
}

#[test]
fn an_agent_sees_what_is_its_own() {
    let (agent, human) = (me(AgentType::Agent), me(AgentType::Human));
    let reacted = |of| {
        json!({ "type": "message.reacted", "messageId": id(of), "emoji": ":x:", "agentName": "x",
                "action": "added" })
    };
    let read = |of| json!({ "type": "message.read", "messageId": id(of), "agentName": "x" });
    let cases = [
        (posted("message.created", "mine", MY_CHANNEL), true),
        (posted("message.updated", "mine", MY_CHANNEL), true),
        (posted("thread.reply", "mine", MY_CHANNEL), true),
        (posted("message.created", "other", OTHER_CHANNEL), false),
        (posted("message.updated", "other", OTHER_CHANNEL), false),
        (talked("dm", MY_TALK), true),
        (talked("dm", OTHER_TALK), false),
        (talked("group_dm", MY_TALK), true),
        (talked("group_dm", OTHER_TALK), false),
        (told(ME), true),
        (told(OTHER), false),
        (read(HEARD), true),
        (read(UNHEARD), false),
        (read(77), false),
        (reacted(HEARD), true),
        (reacted(UNHEARD), false),
        (created(ME, OTHER), true),
        (created(OTHER, ME), true),
        (created(OTHER, OTHER), false),
        (delivery("delivery.delivered", ME, UNHEARD), true),
        (delivery("delivery.delivered", OTHER, WRITTEN), true),
        (delivery("delivery.delivered", OTHER, HEARD), false),
        (delivery("delivery.delivered", OTHER, UNHEARD), false),
        (failed(ME, OTHER), true),
        (failed(OTHER, ME), true),
        (failed(OTHER, OTHER), false),
        (delivery("delivery.cancelled", OTHER, WRITTEN), true),
        (delivery("delivery.cancelled", OTHER, 77), false),
        (delivery("delivery.accepted", ME, HEARD), true),
        (delivery("delivery.cancelled", OTHER, HEARD), false),
        (channel("channel.created", "mine", MY_CHANNEL), true),
        (channel("channel.updated", "other", OTHER_CHANNEL), false),
        (joined(OTHER, "mine", MY_CHANNEL), true),
        (joined(ME, "other", OTHER_CHANNEL), true),
        (joined(OTHER, "other", OTHER_CHANNEL), false),
        (status(ME), true),
        (status(OTHER), true),
        (started(ME), true),
        (started(OTHER), false),
        (tool_called(ME), true),
        (tool_called(OTHER), false),
        (transcript(ME), true),
        (transcript(OTHER), false),
        (terminal(OTHER), false),
        (usage(OTHER), false),
        (action(ME), true),
        (action(OTHER), false),
        (called(OTHER, HANDLED), true),
        (called(OTHER, UNHANDLED), false),
        (offered("action.registered", OTHER, Value::Null), true),
        (offered("action.removed", OTHER, Value::Null), true),
        (offered("action.registered", OTHER, json!([])), false),
        (offered("action.registered", ME, json!([])), true),
        (
            offered("action.registered", OTHER, json!([{ "name": "me" }])),
            true,
        ),
        (
            offered("action.removed", OTHER, json!([{ "name": "you" }])),
            false,
        ),
        (
            offered("action.removed", OTHER, json!([{ "id": id(ME) }])),
            true,
        ),
        (
            offered("action.removed", OTHER, json!([{ "type": "system" }])),
            false,
        ),
        (
            offered("action.registered", OTHER, json!([{ "channel": "#mine" }])),
            true,
        ),
        (
            offered("action.registered", OTHER, json!([{ "channel": "other" }])),
            false,
        ),
        (permission(ME), true),
        (registered(ME), true),
        (registered(OTHER), false),
        (token(), false),
        (workspace(), false),
    ];
    for (event, expected) in cases {
        let expected = Sight::when(expected);
        assert_eq!(see(&agent, event.clone()), expected, "{event}");
        assert_eq!(see(&human, event.clone()), expected, "{event}");
        assert_eq!(see(&Eyes::All, event.clone()), Sight::Whole, "{event}");
    }
    assert_eq!(see(&agent, permission(OTHER)), Sight::Hidden);
    assert_eq!(see(&human, permission(OTHER)), Sight::Whole);
}

#[test]
fn an_observer_sees_what_it_is_limited_to() {
    use Sight::{Hidden, Trimmed, Whole};
    let observer = |scope: Value| {
        Eyes::Observer(Arc::new(
            serde_json::from_value::<ObserverScope>(scope).unwrap(),
        ))
    };
    let all = observer(json!({}));
    let granted = observer(json!({ "grants": ["transcript", "terminal", "permissions"] }));
    let mine = observer(json!({ "channels": ["mine"], "grants": ["transcript", "terminal"] }));
    let statuses = observer(json!({ "events": ["agent.status.*", "tool.*"] }));
    let nothing = observer(json!({ "channels": [] }));
    //                          all,     granted, mine,   statuses
    let cases = [
        (
            posted("message.created", "mine", 1),
            [Whole, Whole, Whole, Hidden],
        ),
        (
            posted("message.created", "other", 1),
            [Whole, Whole, Hidden, Hidden],
        ),
        (talked("dm", MY_TALK), [Whole, Whole, Hidden, Hidden]),
        (
            delivery("delivery.delivered", OTHER, HEARD),
            [Whole, Whole, Whole, Hidden],
        ),
        (
            delivery("delivery.delivered", OTHER, UNHEARD),
            [Whole, Whole, Hidden, Hidden],
        ),
        (
            delivery("delivery.delivered", OTHER, 77),
            [Whole, Whole, Hidden, Hidden],
        ),
        (created(OTHER, OTHER), [Whole, Whole, Hidden, Hidden]),
        (
            channel("channel.updated", "mine", 1),
            [Whole, Whole, Whole, Hidden],
        ),
        (joined(OTHER, "other", 1), [Whole, Whole, Hidden, Hidden]),
        (status(OTHER), [Whole, Whole, Hidden, Whole]),
        (tool_called(OTHER), [Trimmed, Whole, Hidden, Trimmed]),
        (transcript(OTHER), [Hidden, Whole, Hidden, Hidden]),
        (terminal(OTHER), [Hidden, Whole, Hidden, Hidden]),
        (command(OTHER), [Hidden, Whole, Hidden, Hidden]),
        (usage(OTHER), [Whole, Whole, Hidden, Hidden]),
        (permission(OTHER), [Trimmed, Whole, Hidden, Hidden]),
        (token(), [Whole, Whole, Hidden, Hidden]),
        (started(OTHER), [Whole, Whole, Hidden, Hidden]),
        (
            offered("action.registered", OTHER, json!([])),
            [Whole, Whole, Hidden, Hidden],
        ),
    ];
    for (event, expected) in cases {
        let eyes = [&all, &granted, &mine, &statuses];
        let found = eyes.map(|eyes| see(eyes, event.clone()));
        assert_eq!(found, expected, "{event}");
        assert_eq!(see(&nothing, event), Hidden);
    }
}

#[test]
fn what_was_erased_is_shown_to_no_agent() {
    let mut event = logged(status(OTHER));
    event.event = None;
    let agent = me(AgentType::Human);
    assert_eq!(sight(&agent, &event, &mut World).unwrap(), Sight::Hidden);
    assert_eq!(sight(&Eyes::All, &event, &mut World).unwrap(), Sight::Whole);
}

#[test]
fn trimming_takes_out_what_was_not_granted() {
    let text = |event: Value| trimmed(&logged(event)).to_json().get().to_owned();
    assert!(!text(tool_called(OTHER)).contains("command"));
    assert!(text(tool_called(OTHER)).contains("bash"));
    assert!(!text(permission(OTHER)).contains("unlink"));
    let failed = json!({ "type": "tool.failed", "tool": "t", "error": "details" });
    assert!(!text(report(OTHER, failed)).contains("details"));
}
