//! How deliveries stand, in words.

use relay_protocol::delivery::{DeliveryState, MessageReceipt};
use relay_protocol::delivery_record::{WaitCode, WaitReason};

use crate::moment::clock;
use crate::output::{Style, one_line};

/// A state in its colour.
pub(crate) fn colored(style: &Style, state: DeliveryState) -> String {
    let word = state.as_str();
    match state {
        DeliveryState::Delivered => style.good(word),
        DeliveryState::Failed | DeliveryState::Cancelled => style.bad(word),
        _ => style.open(word),
    }
}

/// What a delivery waits for.
pub(crate) fn waiting(waiting: &WaitReason) -> String {
    let why = one_line(&waiting.why);
    let text = match waiting.code {
        // A session has it.
        WaitCode::Offered | WaitCode::Accepted => why,
        _ => format!("waits: {why}"),
    };
    match waiting.until {
        Some(until) => format!("{text}, until {}", clock(until)),
        None => text,
    }
}

/// What a receipt says.
pub(crate) fn receipt(style: &Style, receipt: &MessageReceipt) -> String {
    match receipt {
        MessageReceipt::Delivered(_) => style.good("delivered"),
        MessageReceipt::Accepted(accepted) => {
            let metadata = accepted.metadata.as_ref();
            let held = metadata.filter(|metadata| metadata.contains_key("heldBy"));
            let why = held.and_then(|metadata| metadata.get("why")?.as_str());
            match (held, why) {
                (Some(_), Some(why)) => style.open(&format!("waits: {}", one_line(why))),
                (Some(_), None) => style.open("waits for the agent's session"),
                (None, _) => style.open("accepted: the session shows it later"),
            }
        }
        MessageReceipt::Deferred(deferred) => {
            let reason = deferred.reason.as_deref().map(one_line).unwrap_or_default();
            style.open(&format!("put off until {} {reason}", deferred.available_at))
        }
        MessageReceipt::Failed(failed) => {
            style.bad(&format!("failed: {}", one_line(&failed.reason)))
        }
    }
}
