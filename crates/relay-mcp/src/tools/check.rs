//! `check`: what the agent has not read, told once.
//!
//! What was sent for a moment that has not come (`manual`, `on-idle`, …) is counted with the reason and not told; `flush` releases it.
//!
//! It looks at the inbox and changes nothing there; what it tells is settled when the answer was written
//! ([`crate::settling`]). Messages that a session of the agent has seen are not told again. In a place where a session holds a
//! message that it has not shown yet, the rest is left to that session: marks go up to a message and never around one.

use std::collections::{BTreeMap, HashSet};

use relay_protocol::api::messages::{Inbox, InboxItem, InboxWaiting};
use relay_protocol::delivery::{DeliveryMode, DeliveryState, MessageReceipt};
use relay_protocol::ids::MessageId;
use relay_protocol::message::{AttachmentKind, RelayMessage, RelayMessageTarget};
use relay_protocol::render::unsurfaced;
use relay_sdk::{AgentClient, FlushInput};
use rmcp::model::{JsonObject, Tool};
use serde::Deserialize;
use serde_json::json;

use super::input;
use crate::contents::fetch_contents;
use crate::limits::{CHECKED_BYTES, CHECKED_MESSAGES};
use crate::settling::Told;
use crate::words::{self, Fence, Refusal};

pub(crate) const NAME: &str = "check";

/// What `flush` says for every mode.
const EVERY_MODE: &str = "all";

pub(crate) fn tool() -> Tool {
    let modes = DeliveryMode::ALL.iter().map(|mode| mode.as_str());
    let modes: Vec<&str> = [EVERY_MODE].into_iter().chain(modes).collect();
    let properties = json!({
        "flush": {
            "type": "string",
            "enum": modes,
            "description": "first release what is held back for this mode"
        }
    });
    super::tool(
        NAME,
        "Read your new messages, results of actions among them. They count as read then.",
        properties,
    )
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Input {
    flush: Option<String>,
}

/// What is to be told, and what is settled by telling it.
pub(crate) struct Checked {
    pub(crate) text: String,
    /// What is shown beside the text: media types, and content as base64.
    pub(crate) images: Vec<(String, String)>,
    pub(crate) told: Told,
}

pub(crate) async fn call(
    client: &AgentClient,
    arguments: JsonObject,
    on_the_way: &HashSet<MessageId>,
) -> Result<Checked, Refusal> {
    let Input { flush } = input(arguments)?;
    let mut parts = Vec::new();
    if let Some(flush) = flush {
        let mode = flushed_mode(&flush).map_err(Refusal::Input)?;
        let all = FlushInput::all(client);
        let which = mode.map_or(all.clone(), |mode| all.mode(mode));
        parts.push(flushed(&client.deliveries().flush(which).await?));
    }
    let mut inbox = client.inbox().await?;
    fetch_contents(client, &mut inbox.items).await;
    let fence = Fence::new()?;
    let choice = choose(&inbox, on_the_way, |item| {
        fence.around(&item.message, item.reason)
    });
    let mut told = choice.told();
    parts.extend(choice.into_text());
    parts.extend(waiting(&inbox.waiting));
    let shown = inbox.items.iter().map(|item| &item.message);
    let shown = shown.filter(|message| told.messages.contains(&message.id));
    let images = shown.clone().flat_map(images_of).collect();
    let unsurfaced = shown.map(|message| (message.id, unsurfaced(message, None)));
    told.unsurfaced = unsurfaced.filter(|(_, list)| !list.is_empty()).collect();
    Ok(Checked {
        text: parts.join("\n\n"),
        images,
        told,
    })
}

/// The images of a message that were fetched.
fn images_of(message: &RelayMessage) -> impl Iterator<Item = (String, String)> {
    let images = message.attachments.iter();
    let images = images.filter(|attachment| attachment.kind == AttachmentKind::Image);
    images.filter_map(|image| Some((image.media_type.clone(), image.data.clone()?)))
}

/// The mode that is flushed; none: every one.
fn flushed_mode(text: &str) -> Result<Option<DeliveryMode>, String> {
    match text {
        EVERY_MODE => Ok(None),
        _ => text
            .parse()
            .map(Some)
            .map_err(|error| format!("flush: {error}")),
    }
}

/// `released: 2 delivered, 1 deferred`.
fn flushed(receipts: &[MessageReceipt]) -> String {
    let mut by_status = BTreeMap::new();
    for receipt in receipts {
        let status = match receipt {
            MessageReceipt::Accepted(_) => "accepted",
            MessageReceipt::Delivered(_) => "delivered",
            MessageReceipt::Deferred(_) => "deferred",
            MessageReceipt::Failed(_) => "failed",
        };
        *by_status.entry(status).or_insert(0) += 1;
    }
    if by_status.is_empty() {
        return "released: nothing was held back".to_owned();
    }
    let counts: Vec<String> = by_status
        .iter()
        .map(|(status, count): (_, &u64)| format!("{count} {status}"))
        .collect();
    format!("released: {}", counts.join(", "))
}

/// `2 messages wait: 1 for on-idle (the session is active), 1 for manual (it waits for a flush); flush releases them`.
fn waiting(waiting: &[InboxWaiting]) -> Option<String> {
    let mut by_reason = BTreeMap::new();
    for one in waiting {
        let mode = one.waiting.waits_for.map(|mode| mode.as_str());
        *by_reason
            .entry((mode, one.waiting.why.as_str()))
            .or_insert(0) += 1;
    }
    let reasons = by_reason.iter().map(|((mode, why), count): (_, &u64)| {
        let mode = mode.map_or(String::new(), |mode| format!(" for {mode}"));
        format!("{count}{mode} ({why})")
    });
    let reasons: Vec<String> = reasons.collect();
    let count = words::count(waiting.len(), "message");
    (!reasons.is_empty()).then(|| {
        let reasons = reasons.join(", ");
        format!("{count} not to be read yet: {reasons}; `flush` releases what waits for a mode")
    })
}

/// What of an inbox is told.
#[derive(Debug, Default, PartialEq)]
struct Choice<'a> {
    /// Messages that are told, and how.
    shown: Vec<(MessageId, String)>,
    /// The last message of each place that counts as read then.
    marks: Vec<(&'a RelayMessageTarget, MessageId)>,
    /// How many are told another time.
    left: u64,
    /// How many a session of the agent has.
    held: u64,
}

/// What becomes of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Tell,
    /// The agent has seen it, or will not; it need not be told.
    Pass,
    /// A session holds it.
    Hold,
}

const fn fate(item: &InboxItem) -> Fate {
    match item.state {
        _ if item.seen_by.is_some() => Fate::Pass,
        None | Some(DeliveryState::Pending | DeliveryState::Deferred | DeliveryState::Failed) => {
            Fate::Tell
        }
        Some(DeliveryState::Delivered | DeliveryState::Cancelled) => Fate::Pass,
        Some(DeliveryState::Offered | DeliveryState::Accepted) => Fate::Hold,
    }
}

/// Chooses from the oldest on, until the answer is long enough.
fn choose<'a>(
    inbox: &'a Inbox,
    on_the_way: &HashSet<MessageId>,
    render: impl Fn(&InboxItem) -> String,
) -> Choice<'a> {
    let mut choice = Choice::default();
    let mut held: Vec<&RelayMessageTarget> = Vec::new();
    let mut bytes = 0;
    let mut passed = 0;
    for item in &inbox.items {
        let (id, place) = (item.message.id, &item.message.to);
        let fate = fate(item);
        if fate == Fate::Hold || held.contains(&place) {
            held.push(place);
            choice.held += 1;
            continue;
        }
        if on_the_way.contains(&id) {
            passed += 1;
            continue;
        }
        if fate == Fate::Tell {
            let text = render(item);
            bytes += text.len();
            let is_first = choice.shown.is_empty();
            if choice.shown.len() == CHECKED_MESSAGES || (bytes > CHECKED_BYTES && !is_first) {
                break;
            }
            choice.shown.push((id, text));
        } else if item.seen_by.is_none() {
            // What a session has surfaced is not among the unread.
            passed += 1;
        }
        choice.marks.retain(|(other, _)| *other != place);
        choice.marks.push((place, id));
    }
    let done = choice.shown.len() as u64 + choice.held + passed;
    choice.left = inbox.unread.saturating_sub(done);
    choice
}

impl Choice<'_> {
    fn told(&self) -> Told {
        Told {
            messages: self.shown.iter().map(|(id, _)| *id).collect(),
            marks: self.marks.iter().map(|(_, id)| *id).collect(),
            unsurfaced: Vec::new(),
        }
    }

    /// The parts of the answer.
    fn into_text(self) -> Vec<String> {
        let mut parts: Vec<String> = Vec::new();
        if self.shown.is_empty() {
            parts.push("nothing new".to_owned());
        }
        parts.extend(self.shown.into_iter().map(|(_, text)| text));
        if self.left > 0 {
            parts.push(format!("{} more: check again", self.left));
        }
        if self.held > 0 {
            let held = words::count(usize::try_from(self.held).unwrap_or(usize::MAX), "message");
            parts.push(format!("{held} with your session, which will show them"));
        }
        parts
    }
}

#[cfg(test)]
mod tests;
