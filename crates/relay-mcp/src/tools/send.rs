//! `send`: a message, an answer, a reaction.

use relay_protocol::api::messages::{MessageSent, SendTarget};
use relay_protocol::delivery::{DeliveryMode, DeliveryState};
use relay_protocol::ids::MessageId;
use relay_sdk::{AgentClient, Sending};
use rmcp::model::{JsonObject, Tool};
use serde::Deserialize;
use serde_json::json;

use super::input;
use crate::words::{self, Refusal};

pub(crate) const NAME: &str = "send";

pub(crate) fn tool() -> Tool {
    let properties = json!({
        "to": { "type": "string", "description": "#channel, @agent or @a,@b" },
        "text": { "type": "string" },
        "replyTo": { "type": "string", "description": "message id to answer or react to, instead of to" },
        "react": { "type": "string", "description": "emoji, with replyTo" },
        "mode": {
            "type": "string",
            "enum": DeliveryMode::ALL,
            "description": "when they see it; default: first safe moment"
        },
        "urgent": { "type": "boolean" }
    });
    super::tool(
        NAME,
        "Send a message, answer one, or react to one.",
        properties,
    )
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Input {
    to: Option<String>,
    text: Option<String>,
    reply_to: Option<String>,
    react: Option<String>,
    mode: Option<DeliveryMode>,
    urgent: Option<bool>,
}

/// What is to be done.
#[derive(Debug, PartialEq)]
enum Plan {
    Send {
        to: SendTarget,
        text: String,
    },
    Reply {
        to: MessageId,
        text: String,
    },
    React {
        to: MessageId,
        emoji: String,
    },
    ReplyAndReact {
        to: MessageId,
        text: String,
        emoji: String,
    },
}

/// Does what was asked for; what became of it.
pub(crate) async fn call(client: &AgentClient, arguments: JsonObject) -> Result<String, Refusal> {
    let mut input: Input = input(arguments)?;
    let how = (input.mode, input.urgent == Some(true));
    match plan(&mut input).map_err(Refusal::Input)? {
        Plan::Send { to, text } => send(client.send_message_to(to, text), how).await,
        Plan::Reply { to, text } => send(client.reply(to, text), how).await,
        Plan::React { to, emoji } => react(client, to, &emoji).await,
        Plan::ReplyAndReact { to, text, emoji } => {
            let sent = send(client.reply(to, text), how).await?;
            // The answer is out; a reaction that is refused must not make it look as if it were not.
            let reacted = react(client, to, &emoji).await;
            let reacted = reacted.unwrap_or_else(|refusal| words::refusal(&refusal));
            Ok(format!("{sent}\n{reacted}"))
        }
    }
}

async fn send(
    mut sending: Sending,
    (mode, urgent): (Option<DeliveryMode>, bool),
) -> Result<String, Refusal> {
    if let Some(mode) = mode {
        sending = sending.mode(mode);
    }
    if urgent {
        sending = sending.urgent();
    }
    Ok(told(&sending.await?))
}

async fn react(client: &AgentClient, to: MessageId, emoji: &str) -> Result<String, Refusal> {
    client.react(to, emoji).await?;
    Ok("reacted".to_owned())
}

/// Decides what an input asks for.
fn plan(input: &mut Input) -> Result<Plan, String> {
    let found = (
        input.to.take(),
        input.text.take(),
        input.reply_to.take(),
        input.react.take(),
    );
    match found {
        (Some(_), _, Some(_), _) => Err("expected `to` or `replyTo`, found both".to_owned()),
        (_, _, None, Some(_)) => {
            Err("expected `replyTo` beside `react`: the message to react to".to_owned())
        }
        (Some(to), Some(text), None, None) => Ok(Plan::Send {
            to: target(&to)?,
            text,
        }),
        (None, text, Some(id), emoji) => {
            let to = message_id(&id)?;
            match (text, emoji) {
                (Some(text), None) => Ok(Plan::Reply { to, text }),
                (None, Some(emoji)) => Ok(Plan::React { to, emoji }),
                (Some(text), Some(emoji)) => Ok(Plan::ReplyAndReact { to, text, emoji }),
                (None, None) => Err("expected `text` or `react` beside `replyTo`".to_owned()),
            }
        }
        (Some(_), None, None, None) => Err("expected `text` beside `to`".to_owned()),
        (None, _, None, None) => Err("expected `to` or `replyTo`, found neither".to_owned()),
    }
}

/// `#channel`, `@agent`, or several agents with commas between them.
fn target(text: &str) -> Result<SendTarget, String> {
    let names: Vec<&str> = text.split(',').map(str::trim).collect();
    if let [one] = names.as_slice() {
        return one
            .parse()
            .map_err(|_| format!("to: expected #channel, @agent or @a,@b, found {one:?}"));
    }
    let agents = names.iter().map(|name| match name.strip_prefix('@') {
        Some(name) => Ok(name.to_owned()),
        None => Err(format!(
            "to: expected agents such as @a,@b, found {name:?} among them"
        )),
    });
    agents.collect::<Result<_, _>>().map(SendTarget::Agents)
}

fn message_id(text: &str) -> Result<MessageId, String> {
    text.trim()
        .parse()
        .map_err(|_| format!("replyTo: expected the id of a message, found {text:?}"))
}

/// What the sender should know: the id, who gets it, what went wrong at once.
fn told(sent: &MessageSent) -> String {
    let recipients = words::count(sent.deliveries.len(), "recipient");
    let mut lines = vec![format!("sent {} to {recipients}", sent.message_id)];
    for delivery in &sent.deliveries {
        if delivery.state == DeliveryState::Failed {
            let why = delivery.error.as_ref().map(|error| error.detail.as_str());
            let why = why.unwrap_or("no reason was given");
            lines.push(format!("not delivered to @{}: {why}", delivery.agent));
        }
    }
    for notice in sent.notices.iter().flatten() {
        lines.push(notice.message.clone());
    }
    lines.join("\n")
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    reason = "whatever is not as expected ends the test"
)]
mod tests {
    use super::*;

    const ID: &str = "01963a5c-0000-7000-8000-000000000001";

    fn planned(input: serde_json::Value) -> Result<Plan, String> {
        let mut input: Input = serde_json::from_value(input).unwrap();
        plan(&mut input)
    }

    #[test]
    fn an_input_is_one_thing_to_do() {
        let to: MessageId = ID.parse().unwrap();
        let text = || "x".to_owned();
        let emoji = || ":eyes:".to_owned();
        for (input, expected) in [
            (
                json!({ "to": "#general", "text": "x" }),
                Plan::Send {
                    to: SendTarget::Channel("general".to_owned()),
                    text: text(),
                },
            ),
            (
                json!({ "to": " @bob ", "text": "x" }),
                Plan::Send {
                    to: SendTarget::Agent("bob".to_owned()),
                    text: text(),
                },
            ),
            (
                json!({ "to": "@bob, @eve", "text": "x" }),
                Plan::Send {
                    to: SendTarget::Agents(vec!["bob".to_owned(), "eve".to_owned()]),
                    text: text(),
                },
            ),
            (
                json!({ "replyTo": ID, "text": "x" }),
                Plan::Reply { to, text: text() },
            ),
            (
                json!({ "replyTo": ID, "react": ":eyes:" }),
                Plan::React { to, emoji: emoji() },
            ),
            (
                json!({ "replyTo": ID, "text": "x", "react": ":eyes:" }),
                Plan::ReplyAndReact {
                    to,
                    text: text(),
                    emoji: emoji(),
                },
            ),
        ] {
            assert_eq!(planned(input.clone()), Ok(expected), "{input}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for (input, expected) in [
            (json!({}), "expected `to` or `replyTo`, found neither"),
            (
                json!({ "text": "x" }),
                "expected `to` or `replyTo`, found neither",
            ),
            (json!({ "to": "@bob" }), "expected `text` beside `to`"),
            (
                json!({ "replyTo": ID }),
                "expected `text` or `react` beside `replyTo`",
            ),
            (
                json!({ "to": "@bob", "replyTo": ID, "text": "x" }),
                "expected `to` or `replyTo`, found both",
            ),
            (
                json!({ "to": "@bob", "react": ":eyes:" }),
                "expected `replyTo` beside `react`: the message to react to",
            ),
            (
                json!({ "to": "bob", "text": "x" }),
                "to: expected #channel, @agent or @a,@b, found \"bob\"",
            ),
            (
                json!({ "to": "@bob,#general", "text": "x" }),
                "to: expected agents such as @a,@b, found \"#general\" among them",
            ),
            (
                json!({ "replyTo": "7", "text": "x" }),
                "replyTo: expected the id of a message, found \"7\"",
            ),
        ] {
            assert_eq!(planned(input.clone()), Err(expected.to_owned()), "{input}");
        }
    }
}
