//! The images of a message, fetched from where they are stored.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use relay_protocol::delivery::MessageReceipt;
use relay_protocol::message::{AttachmentKind, RelayMessage};
use relay_sdk::{Client, failed, failed_for_now};
use tokio::time::timeout;

/// How long the images of a message may take: whoever offered it waits 30 s for an answer.
const FETCH_WAIT: Duration = Duration::from_secs(10);

/// Puts the stored images of a message into it. Without one of them it is not the message: then there is a receipt that says so.
pub(super) async fn fetch(client: &Client, message: &mut RelayMessage) -> Option<MessageReceipt> {
    match timeout(FETCH_WAIT, fetch_all(client, message)).await {
        Ok(missing) => missing,
        Err(_) => Some(failed_for_now(
            "the images of the message did not come in time",
        )),
    }
}

async fn fetch_all(client: &Client, message: &mut RelayMessage) -> Option<MessageReceipt> {
    let images = message.attachments.iter_mut();
    let images = images.filter(|it| it.kind == AttachmentKind::Image && it.data.is_none());
    for image in images {
        let name = image.name.as_deref().unwrap_or("image");
        let Some(id) = image.attachment_id else {
            return Some(failed(format!("the image {name:?} has no content")));
        };
        match client.attachment(id).await {
            Ok(found) => image.data = Some(BASE64_STANDARD.encode(&found.data)),
            Err(error) => {
                let reason = format!("the image {name:?} can't be fetched: {error}");
                return Some(match error.is_retryable() {
                    true => failed_for_now(reason),
                    false => failed(reason),
                });
            }
        }
    }
    None
}
