//! One line for each thing that happened to a delivery.

use relay_protocol::agent::Metadata;
use relay_protocol::api::messages::ReadDoor;
use relay_protocol::delivery::{
    DOOR, DeferredReceipt, DeliveredReceipt, DeliveryState, FailedReceipt, MessageReceipt,
    Priority, Surfaced,
};
use relay_protocol::delivery_record::{
    DecisionOutcome, DeliveryDecision, ReceiptSource, StoredReceipt, WaitReason,
};
use relay_protocol::render::clean;
use relay_protocol::time::Timestamp;

use crate::delivery::apply::{NO_RECEIPT, ReturnCause};
use crate::delivery::history::{Entry, Offer, SettledOffer};
use crate::store::DeliveryStory;

/// Most characters that are shown of what somebody else said.
const SHOWN_CHARS: usize = 200;

/// Something that happened, and when.
pub(super) struct Line {
    pub(super) at: Timestamp,
    pub(super) text: String,
}

/// What the delivery is, and what was asked for it.
pub(super) fn heading(known: &DeliveryStory) -> String {
    let row = &known.row;
    let mut asked = match row.mode {
        Some(mode) => mode.to_string(),
        None => "first safe boundary".to_owned(),
    };
    if row.allow_downgrade {
        asked.push_str(" or another way");
    }
    if row.priority == Priority::Urgent {
        asked.push_str(", urgent");
    }
    if row.only_session.is_some() {
        asked.push_str(", one session only");
    }
    format!(
        "delivery {} to {}, asked for: {asked}, made {}, deadline {}",
        known.id, known.agent.handle, row.at, row.deadline
    )
}

/// How the delivery stands.
pub(super) fn standing(
    known: &DeliveryStory,
    out: Option<&Offer>,
    waiting: Option<&WaitReason>,
) -> String {
    let row = &known.row;
    if let Some(offer) = out {
        return format!(
            "now: offered to session {}, no answer yet",
            offer.session_id
        );
    }
    match (row.state, row.not_before, known.holder) {
        (DeliveryState::Accepted, _, Some(session)) => {
            format!("now: accepted, held by session {session}")
        }
        (DeliveryState::Delivered, ..) => "end: delivered".to_owned(),
        (state, ..) if state.is_terminal() => match row.surfaced {
            Some(Surfaced::No) => format!("end: {state}; it was not seen"),
            _ => format!("end: {state}; nobody can tell whether it was seen"),
        },
        (state, Some(until), _) => format!("now: {state} until {}", since(row.at, until)),
        (state, None, _) => match waiting {
            Some(waiting) => format!("now: {state}: {}", waiting.why),
            None => format!("now: {state}"),
        },
    }
}

pub(super) fn entry(known: &DeliveryStory, entry: &Entry) -> Option<Line> {
    match entry {
        Entry::Decision(one) => Some(decision(known, one)),
        Entry::Offer(settled) => Some(offer(known, settled)),
        Entry::Receipt(stored) => Some(receipt(known, stored)),
        Entry::Context(_) => None,
    }
}

pub(super) fn decision(known: &DeliveryStory, decision: &DeliveryDecision) -> Line {
    let why = shown(&decision.reason);
    let until = decision.until.map(|until| since(known.row.at, until));
    let text = match (decision.outcome, decision.waits_for, until) {
        (DecisionOutcome::Hold, Some(mode), _) => format!("waits: {why}; it waits for {mode}"),
        // Nothing was looked at: a remark.
        (DecisionOutcome::Hold, None, _) if decision.session_id.is_none() => why,
        (DecisionOutcome::Hold, None, _) => format!("waits: {why}"),
        (DecisionOutcome::Defer, _, Some(until)) => format!("waits until {until}: {why}"),
        (DecisionOutcome::Defer, _, None) => format!("waits: {why}"),
        (DecisionOutcome::Reopen, ..) => format!("waits again: {why}"),
        (DecisionOutcome::Offer, ..) => format!("offered: {why}"),
        (DecisionOutcome::Fail, ..) => format!("fails: {why}"),
        (DecisionOutcome::Cancel, ..) => format!("cancelled: {why}"),
    };
    Line {
        at: decision.at,
        text,
    }
}

pub(super) fn offer(known: &DeliveryStory, settled: &SettledOffer) -> Line {
    let attempt = &settled.attempt;
    Line {
        at: attempt.offered_at,
        text: format!(
            "offered to session {} as {}: {} ({})",
            attempt.session_id,
            attempt.mode,
            settled.why,
            name_of_offer(known, Some(attempt.epoch))
        ),
    }
}

fn receipt(known: &DeliveryStory, stored: &StoredReceipt) -> Line {
    let said = match stored.by {
        ReceiptSource::Session => by_session(known, &stored.receipt),
        ReceiptSource::Relay => by_relay(known, stored),
    };
    let offer = match stored.epoch {
        Some(_) if stored.late => format!(" ({})", name_of_offer(known, stored.epoch)),
        _ => String::new(),
    };
    let text = match stored.late {
        true => format!("too late to count: {said}{offer}"),
        false => said,
    };
    Line {
        at: stored.at,
        text,
    }
}

fn by_session(known: &DeliveryStory, receipt: &MessageReceipt) -> String {
    match receipt {
        MessageReceipt::Accepted(accepted) => {
            let again = match accepted.retryable {
                Some(false) => ", not to be offered again",
                _ => "",
            };
            let door = door(accepted.metadata.as_ref());
            format!("accepted, by the session{door}{again}")
        }
        MessageReceipt::Delivered(delivered) => {
            let door = door(delivered.metadata.as_ref());
            format!("delivered, by the session{door}")
        }
        MessageReceipt::Deferred(deferred) => put_off(known, deferred),
        MessageReceipt::Failed(failed) => not_taken(failed),
    }
}

fn put_off(known: &DeliveryStory, deferred: &DeferredReceipt) -> String {
    let until = since(known.row.at, deferred.available_at);
    let door = door(deferred.metadata.as_ref());
    let why = deferred.reason.as_deref().map(shown);
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    format!("deferred until {until}, by the session{door}{why}")
}

fn not_taken(failed: &FailedReceipt) -> String {
    let door = door(failed.metadata.as_ref());
    let again = match failed.retryable {
        Some(true) => ", to be tried again",
        _ => "",
    };
    format!(
        "failed, by the session{door}{again}: {}",
        shown(&failed.reason)
    )
}

fn is_read_over_mcp(delivered: &DeliveredReceipt) -> bool {
    let metadata = delivered.metadata.as_ref();
    metadata.is_some_and(|metadata| {
        metadata.get(DOOR).and_then(|door| door.as_str()) == Some(ReadDoor::Mcp.as_str())
    })
}

fn by_relay(known: &DeliveryStory, stored: &StoredReceipt) -> String {
    let failed = match &stored.receipt {
        MessageReceipt::Failed(failed) => failed,
        MessageReceipt::Delivered(delivered) if is_read_over_mcp(delivered) => {
            return format!("{}, read over MCP", stored.receipt.tag());
        }
        _ => return format!("{}, read in the inbox", stored.receipt.tag()),
    };
    let offer = name_of_offer(known, stored.epoch);
    match failed.reason.as_str() {
        NO_RECEIPT => format!("{offer} was not answered in time"),
        reason if reason == ReturnCause::LinkLost.as_str() => {
            format!("{offer} was lost with the link")
        }
        reason => format!("{offer} ended: {}", shown(reason)),
    }
}

/// Offers are numbered as people count. One that was under way when a process died is not in the history.
fn name_of_offer(known: &DeliveryStory, epoch: Option<u64>) -> String {
    let Some(epoch) = epoch else {
        return "the offer".to_owned();
    };
    let offers = known.history.iter().filter_map(|entry| match entry {
        Entry::Offer(settled) => Some(settled.attempt.epoch),
        _ => None,
    });
    let (mut before, mut newer, mut found) = (0, false, false);
    for other in offers {
        before += u32::from(other < epoch);
        newer |= other > epoch;
        found |= other == epoch;
    }
    if newer && !found {
        return "an offer of before".to_owned();
    }
    format!("offer {}", before + 1)
}

fn door(metadata: Option<&Metadata>) -> String {
    let door = metadata.and_then(|metadata| metadata.get(DOOR)?.as_str());
    door.map(|door| format!(", door {}", shown(door)))
        .unwrap_or_default()
}

/// What somebody else said, made one line of bounded length.
pub(in crate::delivery) fn shown(text: &str) -> String {
    let clean = clean(text);
    let line = clean.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// The time from one moment to another, such as `+1.2 s`.
pub(super) fn since(from: Timestamp, to: Timestamp) -> String {
    let millis = to.as_millis() - from.as_millis();
    let sign = if millis < 0 { '-' } else { '+' };
    let millis = millis.unsigned_abs();
    let (seconds, minutes, hours) = (millis / 1_000, millis / 60_000, millis / 3_600_000);
    let length = match (seconds, hours) {
        (0, _) => format!("{millis} ms"),
        (1..120, _) => format!("{}.{} s", seconds, millis % 1_000 / 100),
        (120..7_200, _) => format!("{minutes} min {} s", seconds % 60),
        (_, 0..48) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{} days {} h", hours / 24, hours % 24),
    };
    format!("{sign}{length}")
}
