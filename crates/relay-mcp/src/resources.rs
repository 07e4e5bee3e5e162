//! Channels and threads as resources: their addresses, and what is read there.
//!
//! ```text
//! relay://channel/general      the newest messages of #general, oldest of them first
//! relay://thread/01963a5c-…    a thread, by the message that it begins with
//! relay://attachment/01963a…   an attachment of a message; ?offset=N goes on after the first bytes of a long text
//! ```
//!
//! Reading here marks nothing as read: clients read resources by themselves.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use relay_protocol::api::messages::MessageView;
use relay_protocol::channel::Channel;
use relay_protocol::delivery::DeliveryReason;
use relay_protocol::ids::{AttachmentId, MessageId};
use relay_protocol::message::encode_content;
use relay_protocol::names;
use relay_protocol::render::clean;
use relay_sdk::{AgentClient, Download};
use rmcp::model::{
    ErrorData, ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate,
};

use crate::limits::{ATTACHMENT_PAGE_BYTES, RESOURCE_BYTES};
use crate::words::{self, Fence, Refusal, quoted};

const CHANNEL: &str = "relay://channel/";
const THREAD: &str = "relay://thread/";
const ATTACHMENT: &str = "relay://attachment/";
const OFFSET: &str = "?offset=";
const TEXT: &str = "text/plain";

/// Something that can be read and watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// A channel, by its name.
    Channel(String),
    /// A thread, by the message that it begins with.
    Thread(MessageId),
    /// An attachment, from a byte on.
    Attachment(AttachmentId, usize),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(uri: &str) -> Result<Self, String> {
        if let Some(name) = uri.strip_prefix(CHANNEL)
            && names::check_form(name).is_ok()
        {
            return Ok(Self::Channel(name.to_owned()));
        }
        if let Some(attachment) = uri.strip_prefix(ATTACHMENT).and_then(attachment) {
            return Ok(attachment);
        }
        let thread = uri.strip_prefix(THREAD).and_then(|id| id.parse().ok());
        thread.map(Self::Thread).ok_or_else(|| {
            format!(
                "expected {CHANNEL}NAME, {THREAD}MESSAGE-ID or {ATTACHMENT}ATTACHMENT-ID, found {}",
                quoted(uri)
            )
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Channel(name) => write!(f, "{CHANNEL}{name}"),
            Self::Thread(id) => write!(f, "{THREAD}{id}"),
            Self::Attachment(id, 0) => write!(f, "{ATTACHMENT}{id}"),
            Self::Attachment(id, offset) => write!(f, "{ATTACHMENT}{id}{OFFSET}{offset}"),
        }
    }
}

/// The address of an attachment, without what all of them begin with.
fn attachment(rest: &str) -> Option<Address> {
    let (id, offset) = match rest.split_once(OFFSET) {
        Some((id, offset)) => (id, offset.parse().ok()?),
        None => (rest, 0),
    };
    Some(Address::Attachment(id.parse().ok()?, offset))
}

/// A page of the channels.
pub(crate) async fn list(
    client: &AgentClient,
    cursor: Option<&str>,
) -> Result<ListResourcesResult, ErrorData> {
    let page = client.channels(cursor).await.map_err(told)?;
    let channels = page
        .items
        .iter()
        .filter(|channel| channel.archived_at.is_none());
    let mut list = ListResourcesResult::with_all_items(channels.map(resource).collect());
    list.next_cursor = page.next_cursor;
    Ok(list)
}

fn resource(channel: &Channel) -> Resource {
    let uri = Address::Channel(channel.name.clone()).to_string();
    let resource = Resource::new(uri, format!("#{}", channel.name)).with_mime_type(TEXT);
    match &channel.topic {
        Some(topic) => resource.with_description(quoted(topic)),
        None => resource,
    }
}

/// What addresses look like.
pub(crate) fn templates() -> ListResourceTemplatesResult {
    let template = |uri: &str, name: &str| ResourceTemplate::new(uri, name).with_mime_type(TEXT);
    ListResourceTemplatesResult::with_all_items(vec![
        template("relay://channel/{name}", "channel"),
        template("relay://thread/{messageId}", "thread"),
        ResourceTemplate::new("relay://attachment/{attachmentId}{?offset}", "attachment"),
    ])
}

/// The newest messages at an address.
pub(crate) async fn read(client: &AgentClient, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let address: Address = uri
        .parse()
        .map_err(|why: String| ErrorData::resource_not_found(why, None))?;
    let messages = match &address {
        Address::Channel(name) => {
            let mut page = client.channel_messages(name, None).await.map_err(told)?;
            page.items.reverse();
            page.items
        }
        Address::Thread(id) => thread(client, *id).await.map_err(told)?,
        Address::Attachment(id, offset) => {
            let found = client.attachment(*id).await.map_err(told)?;
            let contents = attachment_contents(uri, *id, &found, *offset);
            return Ok(ReadResourceResult::new(vec![contents]));
        }
    };
    let fence = Fence::new().map_err(|refusal| internal(&refusal))?;
    let texts = messages
        .iter()
        .map(|view| fence.around(&view.message, DeliveryReason::Message));
    let text = newest(texts.collect()).join("\n\n");
    let contents = ResourceContents::text(text, uri).with_mime_type(TEXT);
    Ok(ReadResourceResult::new(vec![contents]))
}

/// An attachment: an image whole, a text in parts, without characters that nobody sees.
fn attachment_contents(
    uri: &str,
    id: AttachmentId,
    found: &Download,
    offset: usize,
) -> ResourceContents {
    let media_type = found.media_type.clone();
    let is_image = media_type.starts_with("image/");
    let Some(text) = std::str::from_utf8(&found.data).ok().filter(|_| !is_image) else {
        let blob = encode_content(&found.data);
        return ResourceContents::blob(blob, uri).with_mime_type(media_type);
    };
    let from = text.floor_char_boundary(offset);
    let to = text.floor_char_boundary(from.saturating_add(ATTACHMENT_PAGE_BYTES));
    let mut part = clean(&text[from..to]);
    if to < text.len() {
        let next = Address::Attachment(id, to);
        let _ = write!(
            part,
            "\n[bytes {from} to {to} of {}; the rest: {next}]",
            text.len()
        );
    }
    ResourceContents::text(part, uri).with_mime_type(media_type)
}

/// A thread to its end: the newest is what a reader wants, and pages begin with the oldest.
async fn thread(client: &AgentClient, root: MessageId) -> relay_sdk::Result<Vec<MessageView>> {
    let mut messages: Vec<MessageView> = Vec::new();
    let mut cursor = None;
    loop {
        let page = client.thread(root, cursor.as_deref()).await?;
        // No more of what was before is ever shown than fits.
        let mut bytes = 0;
        messages.extend(page.items);
        let kept = messages.iter().rev().take_while(|view| {
            bytes += view.message.text.len();
            bytes <= RESOURCE_BYTES
        });
        let surplus = messages.len() - kept.count().max(1).min(messages.len());
        messages.drain(..surplus);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(messages);
        }
    }
}

/// The last texts that fit, and a line about the others.
fn newest(texts: Vec<String>) -> Vec<String> {
    let mut bytes = 0;
    let fitting = texts.iter().rev().take_while(|text| {
        bytes += text.len();
        bytes <= RESOURCE_BYTES
    });
    let shown = fitting.count().max(1);
    let left = texts.len().saturating_sub(shown);
    let mut newest = texts;
    newest.drain(..left);
    if left > 0 {
        newest.insert(0, format!("{} before these", words::count(left, "message")));
    }
    newest
}

/// A refusal as an error of the protocol; reading has no other way to say it.
fn told(error: relay_sdk::Error) -> ErrorData {
    let is_absent = error.problem().is_some_and(|problem| problem.status == 404);
    let is_bad_cursor = error.code() == Some(relay_sdk::ErrorCode::BadCursor);
    let refusal = Refusal::from(error);
    if is_absent {
        ErrorData::resource_not_found(words::refusal(&refusal), None)
    } else if is_bad_cursor {
        ErrorData::invalid_params(words::refusal(&refusal), None)
    } else {
        internal(&refusal)
    }
}

fn internal(refusal: &Refusal) -> ErrorData {
    ErrorData::internal_error(words::refusal(refusal), None)
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    reason = "whatever is not as expected ends the test"
)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let id = "01963a5c-0000-7000-8000-000000000001";
        for (uri, expected) in [
            (
                "relay://channel/general",
                Some(Address::Channel("general".to_owned())),
            ),
            (
                &format!("relay://thread/{id}"),
                Some(Address::Thread(id.parse().unwrap())),
            ),
            (
                &format!("relay://attachment/{id}"),
                Some(Address::Attachment(id.parse().unwrap(), 0)),
            ),
            (
                &format!("relay://attachment/{id}?offset=9"),
                Some(Address::Attachment(id.parse().unwrap(), 9)),
            ),
            (&format!("relay://attachment/{id}?offset=x"), None),
            ("relay://attachment/", None),
            ("relay://channel/", None),
            ("relay://channel/a/b", None),
            ("relay://channel/#general", None),
            ("relay://thread/general", None),
            ("file:///etc/passwd", None),
            ("", None),
        ] {
            let found: Result<Address, String> = uri.parse();
            assert_eq!(found.clone().ok(), expected, "{uri}");
            if let Ok(address) = found {
                assert_eq!(address.to_string(), uri);
            }
        }
    }

    #[test]
    fn the_newest_that_fit_are_read() {
        let half = || "x".repeat(RESOURCE_BYTES / 2);
        let over = || "x".repeat(RESOURCE_BYTES + 1);
        let check = |texts: Vec<String>, shown: usize, note: Option<&str>| {
            let read = newest(texts);
            assert_eq!(read.len(), shown + usize::from(note.is_some()));
            if let Some(note) = note {
                assert_eq!(read[0], note);
            }
        };
        check(vec![], 0, None);
        check(vec![half(), half()], 2, None);
        check(
            vec![half(), half(), half()],
            2,
            Some("1 message before these"),
        );
        check(vec![half(), over()], 1, Some("1 message before these"));
        check(vec![over()], 1, None);
    }
}
