//! The content of attachments in an answer of `check`: what fits is fetched and shown, the rest is a resource.

use relay_protocol::api::messages::InboxItem;
use relay_protocol::limits::TEXT_ATTACHMENT_SHOWN_BYTES;
use relay_protocol::message::{Attachment, AttachmentKind};
use relay_sdk::AgentClient;

use crate::limits::{CHECKED_BYTES, CHECKED_IMAGE_BYTES, CHECKED_MESSAGES, FETCHED_TEXT_BYTES};

/// What may still be fetched for one answer.
struct FetchBudget {
    messages: usize,
    text_bytes: usize,
    image_bytes: u64,
}

impl FetchBudget {
    const fn new() -> Self {
        Self {
            messages: CHECKED_MESSAGES,
            text_bytes: CHECKED_BYTES,
            image_bytes: CHECKED_IMAGE_BYTES,
        }
    }

    /// Whether a message can be in the answer at all; the first one always is.
    const fn takes_message(&mut self) -> bool {
        if self.messages == 0 || self.text_bytes == 0 {
            return false;
        }
        self.messages -= 1;
        true
    }

    /// Whether the content of an attachment is fetched.
    fn takes(&mut self, attachment: &Attachment) -> bool {
        match attachment.kind {
            AttachmentKind::Text if attachment.size <= FETCHED_TEXT_BYTES => {
                let shown = usize::try_from(attachment.size).unwrap_or(usize::MAX);
                let shown = shown.min(TEXT_ATTACHMENT_SHOWN_BYTES);
                self.text_bytes = self.text_bytes.saturating_sub(shown);
                true
            }
            AttachmentKind::Image if attachment.size <= self.image_bytes => {
                self.image_bytes -= attachment.size;
                true
            }
            AttachmentKind::Text | AttachmentKind::Image => false,
        }
    }
}

/// Puts the content into the messages that come next, as far as it fits. What can't be fetched is named, and can be read later.
pub(crate) async fn fetch_contents(client: &AgentClient, items: &mut [InboxItem]) {
    let mut budget = FetchBudget::new();
    for item in items {
        if !budget.takes_message() {
            return;
        }
        budget.text_bytes = budget.text_bytes.saturating_sub(item.message.text.len());
        for attachment in &mut item.message.attachments {
            let Some(id) = attachment.attachment_id else {
                continue;
            };
            if !budget.takes(attachment) {
                continue;
            }
            match client.attachment(id).await {
                Ok(found) => attachment.put_content(&found.data),
                Err(error) => {
                    tracing::warn!(attachment.id = %id, %error, "an attachment could not be fetched");
                }
            }
        }
    }
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    reason = "whatever is not as expected ends the test"
)]
mod tests {
    use super::*;

    fn attachment(kind: &str, size: u64) -> Attachment {
        let attachment = serde_json::json!({ "type": kind, "mediaType": "a/b", "size": size });
        serde_json::from_value(attachment).unwrap()
    }

    #[test]
    fn what_is_too_large_is_left_for_later() {
        let mut budget = FetchBudget::new();
        assert!(budget.takes(&attachment("image", CHECKED_IMAGE_BYTES - 1)));
        assert!(budget.takes(&attachment("image", 1)));
        assert!(!budget.takes(&attachment("image", 1)));
        assert!(budget.takes(&attachment("text", FETCHED_TEXT_BYTES)));
        assert!(!budget.takes(&attachment("text", FETCHED_TEXT_BYTES + 1)));
        assert!(budget.takes_message());
        assert!(budget.takes(&attachment("text", FETCHED_TEXT_BYTES)));
        // Further messages are for the next answer.
        assert!(!budget.takes_message());
    }
}
