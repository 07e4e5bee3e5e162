//! Messages as models get them: their text, with the text of attachments in it, and their images.
//!
//! Messages refer to stored content, so that is fetched first ([`fetch`]); then the message is put together ([`surface`]). What its reader
//! is not shown, or not all of, is named in the receipt.

use std::time::Duration;

use relay_protocol::agent::Metadata;
use relay_protocol::delivery::{MessageContext, MessageReceipt};
use relay_protocol::message::{AttachmentKind, RelayMessage};
use relay_protocol::render::{
    AttachmentAccess, NOT_SURFACED, UnsurfacedAttachment, render_for, unsurfaced,
};
use relay_sdk::{Client, failed, failed_for_now};
use tokio::time::timeout;

/// How long the attachments of a message may take: whoever offered it waits 30 s for an answer.
const FETCH_WAIT: Duration = Duration::from_secs(10);

/// A message that is ready for a model.
pub(crate) struct SurfacedMessage {
    /// What it reads.
    pub(crate) text: String,
    /// What it sees: media types, and content as base64.
    pub(crate) images: Vec<(String, String)>,
    /// What it is not shown, or not all of.
    pub(crate) unsurfaced: Vec<UnsurfacedAttachment>,
}

/// Puts the stored content of a message's attachments into it, those of these kinds. Without one of them it is not the message: then there
/// is a receipt that says so.
pub(crate) async fn fetch(
    client: &Client,
    message: &mut RelayMessage,
    kinds: &[AttachmentKind],
) -> Option<MessageReceipt> {
    match timeout(FETCH_WAIT, fetch_all(client, message, kinds)).await {
        Ok(missing) => missing,
        Err(_) => Some(failed_for_now(
            "the attachments of the message did not come in time",
        )),
    }
}

async fn fetch_all(
    client: &Client,
    message: &mut RelayMessage,
    kinds: &[AttachmentKind],
) -> Option<MessageReceipt> {
    let attachments = message.attachments.iter_mut();
    let wanted = attachments.filter(|it| kinds.contains(&it.kind) && it.data.is_none());
    for attachment in wanted {
        let (kind, name) = (attachment.kind, attachment.name.as_deref());
        let name = name.unwrap_or("unnamed");
        let Some(id) = attachment.attachment_id else {
            return Some(failed(format!("the {kind} {name:?} has no content")));
        };
        match client.attachment(id).await {
            Ok(found) => attachment.put_content(&found.data),
            Err(error) => {
                let reason = format!("the {kind} {name:?} can't be fetched: {error}");
                return Some(match error.is_retryable() {
                    true => failed_for_now(reason),
                    false => failed(reason),
                });
            }
        }
    }
    None
}

/// A message whose content is inline, for a model that reads on in this way.
pub(crate) fn surface(
    message: &RelayMessage,
    context: &MessageContext,
    access: AttachmentAccess,
) -> Result<SurfacedMessage, String> {
    let mut token = [0; 8];
    getrandom::fill(&mut token).map_err(|_| "there is no randomness for the fence".to_owned())?;
    let token: String = token.iter().map(|byte| format!("{byte:02x}")).collect();
    let images = message.attachments.iter();
    let images = images.filter(|attachment| attachment.kind == AttachmentKind::Image);
    let images = images.filter_map(|image| Some((image.media_type.clone(), image.data.clone()?)));
    Ok(SurfacedMessage {
        text: render_for(message, context, &token, Some(access)),
        images: images.collect(),
        unsurfaced: unsurfaced(message, Some(context)),
    })
}

/// Names in the metadata of a receipt what was not surfaced.
pub(crate) fn note_unsurfaced(metadata: &mut Metadata, unsurfaced: &[UnsurfacedAttachment]) {
    if unsurfaced.is_empty() {
        return;
    }
    // Plain data, which can always be written.
    let list = serde_json::to_value(unsurfaced).unwrap_or_default();
    metadata.insert(NOT_SURFACED.to_owned(), list);
}
