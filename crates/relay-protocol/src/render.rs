//! Messages as text for a model: the only way in which what somebody wrote enters a prompt.
//!
//! ```text
//! [relay] from agent @alice in #general, mentions you; answer with replyTo 01963a5c-…
//! <<<relay-TOKEN
//! what alice wrote
//! relay-TOKEN>>>
//! ```
//!
//! Relay writes the first lines and the marks; everything between the marks is the author's. The
//! author named is always the authenticated one. The caller brings a random token that the author
//! could not know, and lines of the body that look like a mark or like a header are escaped by a
//! backslash, so a body can neither end the fence early nor pretend to be another message.
//!
//! Text attachments whose content is inline follow, each in a fence of its own, as far as they fit (`attached.rs`).

mod attached;
mod clean;

use std::fmt::Write as _;

use crate::agent::AgentType;
use crate::delivery::{DeliveryReason, MessageContext, Priority};
use crate::message::{Attachment, MessageAuthor, RelayMessage, RelayMessageTarget};
use crate::names;

pub use attached::{
    ATTACHMENTS_AS_TEXT, AttachmentAccess, NOT_SURFACED, UnsurfacedAttachment, unsurfaced,
};
pub use clean::clean;

use attached::{Shown, how_to_read_on, shown_contents};

/// The most characters of an author's, channel's or file's name that a header shows.
const SHOWN_NAME_CHARS: usize = 80;

/// What every header begins with.
const HEADER: &str = "[relay]";
/// What the mark before a body begins with.
const OPENS: &str = "<<<relay-";
/// What the mark after a body begins with, and what it ends with.
const CLOSES: (&str, &str) = ("relay-", ">>>");

/// Writes a message for a model to read, with a random token that its author could not know.
#[must_use]
pub fn render(message: &RelayMessage, context: &MessageContext, token: &str) -> String {
    render_for(message, context, token, None)
}

/// The same for a reader who can get what it is not shown of attachments in this way.
#[must_use]
pub fn render_for(
    message: &RelayMessage,
    context: &MessageContext,
    token: &str,
    access: Option<AttachmentAccess>,
) -> String {
    let token: String = token.chars().filter(char::is_ascii_alphanumeric).collect();
    let attachments: Vec<(&Attachment, Shown)> = message
        .attachments
        .iter()
        .zip(shown_contents(message))
        .collect();
    let mut text = header(message, context);
    for note in notes(message, context) {
        let _ = write!(text, "\n{note}");
    }
    for (attachment, shown) in &attachments {
        let _ = write!(text, "\n{}", attached(attachment));
        if let (Shown::Nothing, Some(rest)) = (shown, how_to_read_on(attachment, shown, access)) {
            let _ = write!(text, "; to see it, {rest}");
        }
    }
    fence_into(&mut text, &token, &message.text);
    for (attachment, shown) in &attachments {
        let Shown::Text { text: content, of } = shown else {
            continue;
        };
        let _ = write!(text, "\n{HEADER} attachment {}", file_name(attachment));
        if content.len() < *of {
            let _ = write!(text, ", its first {} of {of} bytes", content.len());
        }
        if let Some(rest) = how_to_read_on(attachment, shown, access) {
            let _ = write!(text, "; for the rest, {rest}");
        }
        fence_into(&mut text, &token, content);
    }
    text
}

/// Adds what somebody wrote, between marks.
fn fence_into(text: &mut String, token: &str, body: &str) {
    let _ = write!(text, "\n{OPENS}{token}\n");
    escape_into(text, &clean(body));
    let _ = write!(text, "\n{}{token}{}", CLOSES.0, CLOSES.1);
}

fn header(message: &RelayMessage, context: &MessageContext) -> String {
    let mut line = format!("{HEADER} from {} {}", author(&message.from), place(message));
    if let Some(reason) = reason(context.reason) {
        let _ = write!(line, ", {reason}");
    }
    if context.priority == Some(Priority::Urgent) {
        line.push_str(", urgent");
    }
    let _ = match can_be_answered(message) {
        true => write!(line, "; answer with replyTo {}", message.id),
        false => write!(line, "; id {}; no answer is read", message.id),
    };
    line
}

fn author(from: &MessageAuthor) -> String {
    let kind = from.agent_type.unwrap_or(AgentType::System);
    match from.name.as_deref() {
        Some(name) => format!("{kind} {}", shown('@', name)),
        None => kind.to_string(),
    }
}

/// A name with its sigil, or in quotes when it could be taken for something else.
fn shown(sigil: char, name: &str) -> String {
    if names::check_form(name).is_ok() {
        format!("{sigil}{name}")
    } else {
        quoted(name)
    }
}

/// Free text made harmless for a header: one short line, without quotes of its own.
fn quoted(text: &str) -> String {
    let line: String = clean(text)
        .chars()
        .map(|c| match c {
            '\n' | '\t' => ' ',
            '"' => '\'',
            c => c,
        })
        .take(SHOWN_NAME_CHARS)
        .collect();
    format!("\"{line}\"")
}

fn place(message: &RelayMessage) -> String {
    let channel = message.channel.as_ref();
    if let Some(name) = channel.and_then(|channel| channel.name.as_deref()) {
        return format!("in {}", shown('#', name));
    }
    match &message.to {
        RelayMessageTarget::Channel(target) => format!("in {}", shown('#', &target.channel_name)),
        RelayMessageTarget::GroupDm(_) => "in a group".to_owned(),
        RelayMessageTarget::Dm(_) | RelayMessageTarget::Agent(_) => "to you".to_owned(),
    }
}

/// What the place does not say already.
const fn reason(reason: DeliveryReason) -> Option<&'static str> {
    match reason {
        DeliveryReason::Message | DeliveryReason::Dm => None,
        DeliveryReason::Mention => Some("mentions you"),
        DeliveryReason::ThreadReply => Some("thread reply"),
        DeliveryReason::ActionResult => Some("action result"),
        DeliveryReason::Notification => Some("notification"),
    }
}

/// An author without a mailbox reads no answer, unless others read the place.
const fn can_be_answered(message: &RelayMessage) -> bool {
    message.from.id.is_some()
        || message.channel.is_some()
        || matches!(message.to, RelayMessageTarget::Channel(_))
}

fn notes(message: &RelayMessage, context: &MessageContext) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(late) = context.late_ms().filter(|late| *late > 0) {
        notes.push(format!(
            "late by {}; sent {}",
            length(late),
            message.created_at
        ));
    }
    if context.is_redelivered() {
        notes.push("you may have seen this before".to_owned());
    }
    if message.version > 1 {
        notes.push("edited since it was sent".to_owned());
    }
    if let Some(waiting) = context.waiting().filter(|waiting| *waiting > 0) {
        notes.push(format!("{waiting} more waiting"));
    }
    notes
}

fn attached(attachment: &Attachment) -> String {
    let mut line = format!(
        "attached: {} {} {}",
        file_name(attachment),
        quoted(&attachment.media_type),
        size(attachment.size)
    );
    if let Some(id) = attachment.attachment_id {
        let _ = write!(line, " {id}");
    }
    line
}

fn file_name(attachment: &Attachment) -> String {
    quoted(attachment.name.as_deref().unwrap_or("unnamed"))
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes / 1024),
        _ => format!("{} MiB", bytes / 1_048_576),
    }
}

fn length(millis: u64) -> String {
    match millis / 1000 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

/// Copies the body, with a backslash before each line that could be taken for one of ours.
fn escape_into(text: &mut String, body: &str) {
    for (index, line) in body.split('\n').enumerate() {
        if index > 0 {
            text.push('\n');
        }
        if looks_like_ours(line) {
            text.push('\\');
        }
        text.push_str(line);
    }
}

fn looks_like_ours(line: &str) -> bool {
    let line = line.trim();
    begins(line, HEADER)
        || begins(line, OPENS)
        || (begins(line, CLOSES.0) && line.ends_with(CLOSES.1))
}

fn begins(line: &str, with: &str) -> bool {
    line.get(..with.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(with))
}

#[cfg(test)]
mod tests;
