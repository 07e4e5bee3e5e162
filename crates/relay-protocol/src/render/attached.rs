//! What a model sees of a message's attachments: text in a fence, as far as it fits; for the rest, how it is read.
//!
//! What is shown depends on what is inline: whoever renders a message puts the content into it first that its reader can take.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::delivery::MessageContext;
use crate::ids::AttachmentId;
use crate::limits::{TEXT_ATTACHMENT_SHOWN_BYTES, TEXT_ATTACHMENTS_SHOWN_BYTES};
use crate::message::{Attachment, AttachmentKind, RelayMessage};

/// Key of a receipt's metadata: the attachments whose content was not surfaced, or not all of it ([`UnsurfacedAttachment`]).
pub const NOT_SURFACED: &str = "notSurfaced";

/// Key of [`MessageContext::metadata`]: the attachments that the session can't take, and that are lines of the text instead
/// ([`UnsurfacedAttachment`]).
pub const ATTACHMENTS_AS_TEXT: &str = "attachmentsAsText";

/// How the reader of a message gets what it is not shown of an attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachmentAccess {
    /// By a request to the server.
    Http,
    /// As a resource of Relay's MCP server.
    McpResource,
    /// With the tool `read_attachment`.
    Tool,
}

impl AttachmentAccess {
    fn instruction(self, id: AttachmentId) -> String {
        match self {
            Self::Http => format!("GET /v1/attachments/{id}"),
            Self::McpResource => format!("read the resource relay://attachment/{id}"),
            Self::Tool => format!("call read_attachment with the id {id}"),
        }
    }
}

/// An attachment whose content was not surfaced, or not all of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UnsurfacedAttachment {
    /// What kind of content it is.
    #[serde(rename = "type")]
    pub kind: AttachmentKind,
    /// Its file name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where the content is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attachment_id: Option<AttachmentId>,
    /// Why it was not surfaced, or how much of it was.
    pub why: String,
}

impl UnsurfacedAttachment {
    /// An attachment that was not surfaced for this reason.
    #[must_use]
    pub fn new(attachment: &Attachment, why: impl Into<String>) -> Self {
        Self {
            kind: attachment.kind,
            name: attachment.name.clone(),
            attachment_id: attachment.attachment_id,
            why: why.into(),
        }
    }
}

/// What is shown of one attachment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// An image, beside the text.
    Image,
    /// Text: its first bytes, of so many.
    Text { text: String, of: usize },
    /// Nothing.
    Nothing,
}

impl Shown {
    /// Whether its reader has all of it.
    pub(super) const fn is_whole(&self) -> bool {
        match self {
            Self::Image => true,
            Self::Text { text, of } => text.len() == *of,
            Self::Nothing => false,
        }
    }
}

/// What is shown of each attachment of a message, in order.
pub(super) fn shown_contents(message: &RelayMessage) -> Vec<Shown> {
    let mut left = TEXT_ATTACHMENTS_SHOWN_BYTES;
    let attachments = message.attachments.iter();
    attachments
        .map(|attachment| {
            let Some(data) = &attachment.data else {
                return Shown::Nothing;
            };
            match attachment.kind {
                AttachmentKind::Image => Shown::Image,
                AttachmentKind::Text => {
                    let most = TEXT_ATTACHMENT_SHOWN_BYTES.min(left);
                    let shown = shown_text(data, most);
                    if let Shown::Text { text, .. } = &shown {
                        left -= text.len();
                    }
                    shown
                }
            }
        })
        .collect()
}

fn shown_text(data: &str, most: usize) -> Shown {
    let decoded = BASE64_STANDARD.decode(data).ok();
    let Some(mut text) = decoded.and_then(|bytes| String::from_utf8(bytes).ok()) else {
        return Shown::Nothing;
    };
    let of = text.len();
    text.truncate(text.floor_char_boundary(most));
    match text.is_empty() && of > 0 {
        true => Shown::Nothing,
        false => Shown::Text { text, of },
    }
}

/// How the reader gets what it is not shown, where there is something and it can.
pub(super) fn how_to_read_on(
    attachment: &Attachment,
    shown: &Shown,
    access: Option<AttachmentAccess>,
) -> Option<String> {
    let (access, id) = (access?, attachment.attachment_id?);
    (!shown.is_whole()).then(|| access.instruction(id))
}

/// The attachments of a message whose content a model does not see, or not all of it, when the message was rendered as it is.
#[must_use]
pub fn unsurfaced(
    message: &RelayMessage,
    context: Option<&MessageContext>,
) -> Vec<UnsurfacedAttachment> {
    let attachments = message.attachments.iter().zip(shown_contents(message));
    let here = attachments.filter(|(_, shown)| !shown.is_whole());
    let here = here.map(|(attachment, shown)| {
        let why = match shown {
            Shown::Text { text, of } => {
                format!("its first {} of {of} bytes were shown", text.len())
            }
            Shown::Image | Shown::Nothing => "its content was not shown".to_owned(),
        };
        UnsurfacedAttachment::new(attachment, why)
    });
    let metadata = context.and_then(|context| context.metadata.as_ref());
    let as_text = metadata.and_then(|metadata| metadata.get(ATTACHMENTS_AS_TEXT));
    let as_text = as_text.and_then(|list| serde_json::from_value(list.clone()).ok());
    let as_text: Vec<UnsurfacedAttachment> = as_text.unwrap_or_default();
    here.chain(as_text).collect()
}
