//! Receipts in one word.

use relay_protocol::agent::Metadata;
use relay_protocol::delivery::{
    AcceptedReceipt, DOOR, DeferredReceipt, DeliveredReceipt, FailedReceipt, MessageReceipt,
};
use relay_protocol::ids::DeliveryId;
use relay_protocol::time::Timestamp;

/// The message was surfaced.
#[must_use]
pub const fn delivered(delivery_id: DeliveryId) -> MessageReceipt {
    MessageReceipt::Delivered(DeliveredReceipt {
        delivery_id,
        metadata: None,
    })
}

/// The message was taken over and will be surfaced.
#[must_use]
pub const fn accepted(delivery_id: DeliveryId) -> MessageReceipt {
    MessageReceipt::Accepted(AcceptedReceipt {
        delivery_id,
        retryable: None,
        metadata: None,
    })
}

/// The message can't be surfaced before this time.
#[must_use]
pub fn deferred(available_at: Timestamp, reason: impl Into<String>) -> MessageReceipt {
    MessageReceipt::Deferred(DeferredReceipt {
        delivery_id: None,
        available_at,
        reason: Some(reason.into()),
        metadata: None,
    })
}

/// The message will not be surfaced.
#[must_use]
pub fn failed(reason: impl Into<String>) -> MessageReceipt {
    failed_receipt(reason.into(), false)
}

/// The message could not be surfaced; trying again later may help.
#[must_use]
pub fn failed_for_now(reason: impl Into<String>) -> MessageReceipt {
    failed_receipt(reason.into(), true)
}

const fn failed_receipt(reason: String, retryable: bool) -> MessageReceipt {
    MessageReceipt::Failed(FailedReceipt {
        delivery_id: None,
        reason,
        retryable: Some(retryable),
        metadata: None,
    })
}

/// A receipt for this delivery, whatever it said, that names its door.
pub(super) fn complete(mut receipt: MessageReceipt, id: DeliveryId) -> MessageReceipt {
    let metadata = match &mut receipt {
        MessageReceipt::Accepted(receipt) => {
            receipt.delivery_id = id;
            &mut receipt.metadata
        }
        MessageReceipt::Delivered(receipt) => {
            receipt.delivery_id = id;
            &mut receipt.metadata
        }
        MessageReceipt::Deferred(receipt) => {
            receipt.delivery_id = Some(id);
            &mut receipt.metadata
        }
        MessageReceipt::Failed(receipt) => {
            receipt.delivery_id = Some(id);
            &mut receipt.metadata
        }
    };
    let metadata = metadata.get_or_insert_with(Metadata::new);
    metadata
        .entry(DOOR)
        .or_insert_with(|| "callback".to_owned().into());
    receipt
}

/// The delivery that a receipt is about, where it says so.
pub(super) const fn delivery_of(receipt: &MessageReceipt) -> Option<DeliveryId> {
    match receipt {
        MessageReceipt::Accepted(receipt) => Some(receipt.delivery_id),
        MessageReceipt::Delivered(receipt) => Some(receipt.delivery_id),
        MessageReceipt::Deferred(receipt) => receipt.delivery_id,
        MessageReceipt::Failed(receipt) => receipt.delivery_id,
    }
}
