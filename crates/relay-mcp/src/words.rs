//! What models read: messages of others, problems, short lines.

use relay_protocol::agent::AgentType;
use relay_protocol::delivery::{DeliveryMode, DeliveryReason, MessageContext};
use relay_protocol::ids::{DeliveryId, InvocationId};
use relay_protocol::message::RelayMessage;
use relay_protocol::problem::{ErrorCode, Problem};
use relay_protocol::render::{AttachmentAccess, clean, render_for};
use relay_sdk::Error;

/// The most characters of a topic or the like.
const LINE_CHARS: usize = 120;

/// Why a tool did not do what it was asked.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The input makes no sense; the sentence says what was expected and found.
    Input(String),
    /// The server said no, or nothing.
    Relay(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Relay(error)
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self::Relay(problem.into())
    }
}

/// What marks where somebody else's text begins and ends; nobody can know it before.
pub(crate) struct Fence(String);

impl Fence {
    /// A new one, for one answer.
    pub(crate) fn new() -> Result<Self, Refusal> {
        let mut bits = [0; 8];
        getrandom::fill(&mut bits).map_err(|error| {
            let detail = format!("the system has no random bits: {error}");
            Problem::new(ErrorCode::Internal, detail)
        })?;
        Ok(Self(format!("{:016x}", u64::from_be_bytes(bits))))
    }

    /// A message as a model may read it.
    pub(crate) fn around(&self, message: &RelayMessage, reason: DeliveryReason) -> String {
        let context = MessageContext {
            // What is read where it is stored is no delivery; nothing of it is shown but the reason.
            id: DeliveryId::from_uuid(message.id.uuid()),
            mode: DeliveryMode::Manual,
            reason,
            priority: None,
            deadline: None,
            idempotency_key: None,
            metadata: None,
        };
        let access = Some(AttachmentAccess::McpResource);
        let text = render_for(message, &context, &self.0, access);
        match outcome_of(message, reason) {
            Some(call) => format!("{text}\nthe outcome of invocationId {call}"),
            None => text,
        }
    }
}

/// The call whose outcome a message tells, so that several can be told apart. Only Relay itself is believed.
fn outcome_of(message: &RelayMessage, reason: DeliveryReason) -> Option<InvocationId> {
    let is_ours = message.from.agent_type == Some(AgentType::System) && message.from.id.is_none();
    if !is_ours || reason != DeliveryReason::ActionResult {
        return None;
    }
    let id = message.metadata.as_ref()?.get("invocationId")?;
    id.as_str()?.parse().ok()
}

/// Free text of somebody else as a part of one of our lines: short, in quotes, without any of its own.
pub(crate) fn quoted(text: &str) -> String {
    let plain = |c| match c {
        '\n' | '\t' => ' ',
        '"' => '\'',
        c => c,
    };
    let line: String = clean(text).chars().map(plain).take(LINE_CHARS).collect();
    format!("\"{line}\"")
}

/// What went wrong, and what the model can do about it.
pub(crate) fn refusal(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Input(sentence) => sentence.clone(),
        Refusal::Relay(error) => match error.problem() {
            Some(told) => problem(told),
            None if error.is_retryable() => format!("{error}\nnext: try again in a moment"),
            None => error.to_string(),
        },
    }
}

fn problem(problem: &Problem) -> String {
    let mut text = format!("{} ({})", clean(&problem.detail), problem.code);
    if let (Some(expected), Some(found)) = (&problem.expected, &problem.found)
        && !problem.detail.contains(expected.as_str())
    {
        text.push_str(&format!(
            "\nexpected {}, found {}",
            clean(expected),
            clean(found)
        ));
    }
    let nearest = problem.suggestions.as_deref().unwrap_or_default();
    if let Some(first) = nearest.first()
        && !problem.detail.contains(first.as_str())
    {
        text.push_str(&format!("\nnearest: {}", nearest.join(", ")));
    }
    if let Some(next) = next_step(problem) {
        text.push_str(&format!("\nnext: {next}"));
    }
    text
}

/// What helps, in terms of the tools that there are.
const fn next_step(problem: &Problem) -> Option<&'static str> {
    Some(match problem.code {
        ErrorCode::UnknownAgent => "`people` lists the agents",
        ErrorCode::UnknownChannel => "`people` lists the channels",
        ErrorCode::NotAMember => "`people` with `join` joins the channel",
        ErrorCode::UnknownMessage => "the id of a message is in the line above it",
        ErrorCode::UnknownAction => "list the tools again; the action may be gone",
        ErrorCode::Unauthorized | ErrorCode::AgentReleased => {
            "tell your user that Relay does not take this agent's token any more"
        }
        _ if problem.retryable => "try again later",
        _ => return None,
    })
}

/// `1 message`, `2 messages`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    reason = "whatever is not as expected ends the test"
)]
mod tests {
    use super::*;

    fn told(problem: Problem) -> String {
        refusal(&Refusal::from(problem))
    }

    #[test]
    fn problems_say_what_was_expected_and_what_next() {
        let unknown = Problem {
            suggestions: Some(vec!["bob".to_owned(), "rob".to_owned()]),
            ..Problem::new(ErrorCode::UnknownAgent, "no agent is named bop")
        };
        assert_eq!(
            told(unknown),
            "no agent is named bop (unknown_agent)\nnearest: bob, rob\nnext: `people` lists the agents"
        );
        let invalid = Problem {
            expected: Some("a string".to_owned()),
            found: Some("7".to_owned()),
            ..Problem::new(ErrorCode::InvalidRequest, "the input does not fit")
        };
        assert_eq!(
            told(invalid),
            "the input does not fit (invalid_request)\nexpected a string, found 7"
        );
        let said_already = Problem {
            expected: Some("a string".to_owned()),
            found: Some("7".to_owned()),
            ..Problem::new(ErrorCode::InvalidRequest, "expected a string, found 7")
        };
        assert_eq!(
            told(said_already),
            "expected a string, found 7 (invalid_request)"
        );
        let busy = Problem::new(ErrorCode::Overloaded, "too much");
        assert_eq!(told(busy), "too much (overloaded)\nnext: try again later");
    }

    #[test]
    fn outcomes_name_their_call_if_relay_says_so() {
        let id = "01963a5c-0000-7000-8000-000000000001";
        let message = |from: serde_json::Value, about: &str| -> RelayMessage {
            let message = serde_json::json!({
                "id": id, "messageId": id, "from": from, "to": { "kind": "agent", "agentName": "ada" },
                "text": "done", "attachments": [], "mentions": [], "version": 1,
                "createdAt": "2026-11-16T00:00:00.000Z", "metadata": { "invocationId": about },
            });
            serde_json::from_value(message).unwrap()
        };
        let relay = serde_json::json!({ "name": "relay", "type": "system" });
        let agent = serde_json::json!({ "id": id, "name": "bob", "type": "agent" });
        let (result, dm) = (DeliveryReason::ActionResult, DeliveryReason::Dm);
        let call = id.parse().ok();
        assert_eq!(outcome_of(&message(relay.clone(), id), result), call);
        assert_eq!(
            outcome_of(&message(relay.clone(), "now obey"), result),
            None
        );
        assert_eq!(outcome_of(&message(relay, id), dm), None);
        assert_eq!(outcome_of(&message(agent, id), result), None);
    }

    #[test]
    fn what_others_wrote_stays_one_line_in_its_quotes() {
        for (text, line) in [
            ("plans", "\"plans\""),
            ("a\nb\tc", "\"a b c\""),
            ("say \"x\"", "\"say 'x'\""),
            ("\u{1b}[31m\u{202e}red", "\"[31mred\""),
        ] {
            assert_eq!(quoted(text), line);
        }
        assert_eq!(quoted(&"x".repeat(500)).len(), LINE_CHARS + 2);
    }
}
