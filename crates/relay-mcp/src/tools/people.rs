//! `people`: who there is and where they talk; joining a channel.

use std::fmt::Write as _;

use relay_protocol::agent::{AgentSummary, AgentType};
use relay_protocol::api::Page;
use relay_protocol::api::workspace::ChannelMember;
use relay_protocol::channel::Channel;
use relay_protocol::status::AgentStatus;
use relay_sdk::AgentClient;
use rmcp::model::{JsonObject, Tool};
use serde::Deserialize;
use serde_json::json;

use super::input;
use crate::words::{Refusal, quoted};

pub(crate) const NAME: &str = "people";

pub(crate) fn tool() -> Tool {
    let properties = json!({
        "in": { "type": "string", "description": "only members of this #channel" },
        "join": { "type": "string", "description": "#channel" },
        "cursor": { "type": "string" }
    });
    super::tool(
        NAME,
        "List agents and channels, or join a channel.",
        properties,
    )
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Input {
    #[serde(rename = "in")]
    channel: Option<String>,
    join: Option<String>,
    cursor: Option<String>,
}

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
enum Question<'a> {
    Everything,
    Agents { after: &'a str },
    Channels { after: &'a str },
    Members { of: &'a str, after: Option<&'a str> },
    Join { channel: &'a str },
}

pub(crate) async fn call(client: &AgentClient, arguments: JsonObject) -> Result<String, Refusal> {
    let input: Input = input(arguments)?;
    match question(&input).map_err(Refusal::Input)? {
        Question::Everything => {
            let me = format!("you are @{}", client.identity().name);
            let agents = agents(&client.agents(None).await?);
            let channels = channels(&client.channels(None).await?);
            Ok(format!("{me}\n{agents}\n{channels}"))
        }
        Question::Agents { after } => Ok(agents(&client.agents(Some(after)).await?)),
        Question::Channels { after } => Ok(channels(&client.channels(Some(after)).await?)),
        Question::Members { of, after } => Ok(members(&client.channel_members(of, after).await?)),
        Question::Join { channel } => {
            let joined = client.join(channel).await?;
            Ok(format!("you are in #{}", joined.name))
        }
    }
}

fn question(input: &Input) -> Result<Question<'_>, String> {
    let (channel, cursor) = (input.channel.as_deref(), input.cursor.as_deref());
    match (input.join.as_deref(), channel, cursor) {
        (Some(channel), None, None) => Ok(Question::Join { channel }),
        (Some(_), _, _) => Err("expected nothing beside `join`".to_owned()),
        (None, Some(of), after) => Ok(Question::Members { of, after }),
        (None, None, None) => Ok(Question::Everything),
        (None, None, Some(cursor)) => match cursor.split_once(':') {
            Some(("agents", after)) => Ok(Question::Agents { after }),
            Some(("channels", after)) => Ok(Question::Channels { after }),
            _ => Err(format!(
                "cursor: expected one that `people` gave, found {cursor:?}"
            )),
        },
    }
}

fn agents(page: &Page<AgentSummary>) -> String {
    let names = page.items.iter().map(|agent| {
        let kind = (agent.agent_type != AgentType::Agent).then(|| agent.agent_type.to_string());
        // Without a session a message waits in the agent's inbox, which nobody needs to know to send it.
        let is_here = agent.presence.status != AgentStatus::Offline;
        let status = is_here.then(|| agent.presence.status.to_string());
        let known: Vec<String> = kind.into_iter().chain(status).collect();
        match known.is_empty() {
            true => format!("@{}", agent.name),
            false => format!("@{} ({})", agent.name, known.join(", ")),
        }
    });
    let names: Vec<String> = names.collect();
    let next = more("agents:", page.next_cursor.as_deref());
    format!("agents: {}{next}", names.join(", "))
}

fn members(page: &Page<ChannelMember>) -> String {
    let names = page.items.iter().map(|member| member.agent.handle.as_str());
    let names: Vec<&str> = names.collect();
    let names = match names.is_empty() {
        true => "nobody".to_owned(),
        false => names.join(", "),
    };
    format!("members: {names}{}", more("", page.next_cursor.as_deref()))
}

fn channels(page: &Page<Channel>) -> String {
    let mut text = "channels:".to_owned();
    for channel in page
        .items
        .iter()
        .filter(|channel| channel.archived_at.is_none())
    {
        let _ = write!(text, "\n#{}", channel.name);
        if let Some(members) = channel.member_count {
            let _ = write!(text, ", {members} in it");
        }
        if let Some(topic) = &channel.topic {
            let _ = write!(text, ", {}", quoted(topic));
        }
    }
    text + &more("channels:", page.next_cursor.as_deref())
}

/// How to get the next page.
fn more(list: &str, cursor: Option<&str>) -> String {
    cursor.map_or_else(String::new, |cursor| {
        format!("\nmore: cursor {list}{cursor}")
    })
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    reason = "whatever is not as expected ends the test"
)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_one_question() {
        for (input, expected) in [
            (json!({}), Ok(Question::Everything)),
            (
                json!({ "cursor": "agents:bob" }),
                Ok(Question::Agents { after: "bob" }),
            ),
            (
                json!({ "cursor": "channels:x" }),
                Ok(Question::Channels { after: "x" }),
            ),
            (
                json!({ "in": "#x" }),
                Ok(Question::Members {
                    of: "#x",
                    after: None,
                }),
            ),
            (
                json!({ "in": "#x", "cursor": "bob" }),
                Ok(Question::Members {
                    of: "#x",
                    after: Some("bob"),
                }),
            ),
            (
                json!({ "join": "#x" }),
                Ok(Question::Join { channel: "#x" }),
            ),
            (
                json!({ "join": "#x", "in": "#y" }),
                Err("expected nothing beside `join`"),
            ),
            (
                json!({ "cursor": "7" }),
                Err("cursor: expected one that `people` gave, found \"7\""),
            ),
        ] {
            let parsed: Input = serde_json::from_value(input.clone()).unwrap();
            let expected = expected.map_err(str::to_owned);
            assert_eq!(question(&parsed), expected, "{input}");
        }
    }

    #[test]
    fn topics_are_quoted_and_archived_channels_left_out() {
        let page: Page<Channel> = serde_json::from_value(json!({
            "items": [
                { "id": "01963a5c-0000-7000-8000-000000000001", "name": "general",
                  "createdAt": "2026-11-16T00:00:00.000Z", "memberCount": 3 },
                { "id": "01963a5c-0000-7000-8000-000000000002", "name": "plans", "topic": "a\nb",
                  "createdAt": "2026-11-16T00:00:00.000Z" },
                { "id": "01963a5c-0000-7000-8000-000000000003", "name": "old",
                  "createdAt": "2026-11-16T00:00:00.000Z", "archivedAt": "2026-11-16T00:00:00.000Z" },
            ],
            "nextCursor": "plans",
        }))
        .unwrap();
        assert_eq!(
            channels(&page),
            "channels:\n#general, 3 in it\n#plans, \"a b\"\nmore: cursor channels:plans"
        );
    }
}
