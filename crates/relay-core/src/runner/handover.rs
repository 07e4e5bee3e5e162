//! What a session is given of a delivery: the message as it is now, and its context.

use std::fmt::Write as _;
use std::sync::Arc;

use relay_protocol::delivery::{EPOCH, LATE_MS, MessageContext, Priority, REDELIVERED, WAITING};
use relay_protocol::message::{Attachment, AttachmentKind, RelayMessage};
use relay_protocol::render::{ATTACHMENTS_AS_TEXT, UnsurfacedAttachment};
use relay_protocol::time::Timestamp;

use super::state::Offered;
use crate::store::DeliveryContent;

/// A message that comes later than this says so.
const LATE_AFTER_MS: i64 = 60_000;

/// The context of an offer.
pub(super) fn context(
    offered: &Offered,
    content: &DeliveryContent,
    now: Timestamp,
) -> MessageContext {
    let row = &offered.row;
    let mut metadata = content.metadata.clone().unwrap_or_default();
    metadata.insert(EPOCH.to_owned(), offered.offer.epoch.into());
    if offered.still_waiting > 0 {
        metadata.insert(WAITING.to_owned(), offered.still_waiting.into());
    }
    if row.redelivered {
        metadata.insert(REDELIVERED.to_owned(), true.into());
    }
    if offered.lines_for_images {
        let images = content.message.attachments.iter();
        let images = images.filter(|attachment| attachment.kind == AttachmentKind::Image);
        let list =
            images.map(|image| UnsurfacedAttachment::new(image, "the session takes no images"));
        // Plain data, which can always be written.
        let list = serde_json::to_value(list.collect::<Vec<_>>()).unwrap_or_default();
        metadata.insert(ATTACHMENTS_AS_TEXT.to_owned(), list);
    }
    let late = now.as_millis() - row.at.as_millis();
    if late > LATE_AFTER_MS {
        metadata.insert(LATE_MS.to_owned(), late.into());
    }
    MessageContext {
        id: row.id(offered.workspace),
        mode: offered.offer.mode,
        reason: row.reason,
        priority: (row.priority == Priority::Urgent).then_some(Priority::Urgent),
        deadline: Some(row.deadline),
        idempotency_key: content.idempotency_key.clone(),
        metadata: Some(metadata),
    }
}

/// The message, with a line of text for each image that the session can't take.
pub(super) fn content(offered: &Offered, message: Arc<RelayMessage>) -> Arc<RelayMessage> {
    if !offered.lines_for_images {
        return message;
    }
    let mut message = (*message).clone();
    let (images, rest) = message
        .attachments
        .into_iter()
        .partition(|attachment| attachment.kind == AttachmentKind::Image);
    message.attachments = rest;
    for image in Vec::<Attachment>::from_iter::<Vec<_>>(images) {
        let _ = write!(message.text, "\n{}", line_for(&image));
    }
    Arc::new(message)
}

fn line_for(image: &Attachment) -> String {
    let name = image.name.as_deref().unwrap_or("unnamed");
    let id = image
        .attachment_id
        .map_or_else(String::new, |id| format!(", attachment {id}"));
    format!(
        "[image {name:?}, {}, {} bytes{id}]",
        image.media_type, image.size
    )
}
