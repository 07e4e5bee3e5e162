//! How deliveries stand, in words.

use relay_protocol::delivery::{DeliveryState, MessageReceipt};
use relay_protocol::delivery_record::Delivery;

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

/// Whether a pending delivery waits for an agent that is not connected: nobody had to decide anything about it.
pub(crate) fn is_away(delivery: &Delivery) -> bool {
    let decisions = delivery.decisions.as_deref().unwrap_or_default();
    delivery.state == DeliveryState::Pending && decisions.is_empty()
}

/// What a delivery waits for that nobody has taken yet.
pub(crate) fn waiting(delivery: &Delivery) -> String {
    let decisions = delivery.decisions.as_deref().unwrap_or_default();
    match decisions.last() {
        _ if delivery.state == DeliveryState::Offered => {
            "offered to its session, which has not answered yet".to_owned()
        }
        None => "waits in its inbox: no session is connected".to_owned(),
        Some(last) => format!("waits: {}", one_line(&last.reason)),
    }
}

/// What a receipt says.
pub(crate) fn receipt(style: &Style, receipt: &MessageReceipt) -> String {
    match receipt {
        MessageReceipt::Delivered(_) => style.good("delivered"),
        MessageReceipt::Accepted(accepted) => {
            let metadata = accepted.metadata.as_ref();
            let held = metadata.is_some_and(|metadata| metadata.contains_key("heldBy"));
            let waits_for = metadata
                .and_then(|metadata| metadata.get("waitsFor"))
                .and_then(|waits_for| waits_for.as_str());
            match (held, waits_for) {
                (true, Some(boundary)) => style.open(&format!("waiting for {boundary}")),
                (true, None) => style.open("waiting for the agent's session"),
                (false, _) => style.open("accepted: the session shows it later"),
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
