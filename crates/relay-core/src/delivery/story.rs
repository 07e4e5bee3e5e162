//! A delivery's way in plain words, and all that is known of it in the form that users get.
//!
//! What was decided while a delivery waited, and the offer that is out, are only in memory; the caller
//! brings them along. Everything is put in the order of its time.

mod words;

pub(super) use self::words::shown;

use relay_protocol::api::messages::DeliverySummary;
use relay_protocol::delivery::{DeliveryMode, DeliveryState};
use relay_protocol::delivery_record::{
    Delivery, DeliveryAttempt, DeliveryDecision, StoredReceipt, WaitReason,
};

use super::history::{Entry, Offer, SettledOffer};
use crate::store::DeliveryStory;

/// A delivery with every decision, offer and receipt, and the story of it all.
#[must_use]
pub fn explain(
    known: &DeliveryStory,
    decisions: &[DeliveryDecision],
    out: Option<&Offer>,
    waiting: Option<WaitReason>,
) -> Delivery {
    Delivery {
        decisions: Some(all_decisions(known, decisions, out)),
        attempts: Some(all_attempts(known, out)),
        receipts: Some(all_receipts(known)),
        story: Some(story(known, decisions, out, waiting.as_ref())),
        ..summary(known, out, waiting)
    }
}

/// A delivery as its message lists it.
#[must_use]
pub fn brief(
    known: &DeliveryStory,
    out: Option<&Offer>,
    waiting: Option<WaitReason>,
) -> DeliverySummary {
    let row = &known.row;
    DeliverySummary {
        delivery_id: known.id,
        agent: known.agent.name.clone(),
        state: shown_state(known, out),
        mode: row.mode,
        waiting,
        error: row.error.clone(),
    }
}

/// A delivery as lists show it.
#[must_use]
pub fn summary(
    known: &DeliveryStory,
    out: Option<&Offer>,
    waiting: Option<WaitReason>,
) -> Delivery {
    let row = &known.row;
    let state = shown_state(known, out);
    let out = still_out(known, out);
    let mode = out.map(|offer| offer.mode).or(row.used_mode);
    Delivery {
        delivery_id: known.id,
        message_id: known.message_id,
        agent: known.agent.name.clone(),
        state,
        reason: row.reason,
        priority: row.priority,
        allow_downgrade: row.allow_downgrade,
        requested_mode: row.mode,
        mode,
        mode_reason: mode
            .filter(|mode| row.mode != Some(*mode))
            .and_then(|mode| mode_reason(known, mode, out)),
        session_id: out.map(|offer| offer.session_id).or(known.holder),
        attempt: row.attempts,
        generation: row.generation,
        deadline: row.deadline,
        next_attempt_at: row.not_before,
        waiting,
        surfaced: row.surfaced,
        error: row.error.clone(),
        decisions: None,
        attempts: None,
        receipts: None,
        story: None,
    }
}

/// The delivery's way in plain words: what was asked, one line for each thing that happened with the
/// time since it was made, and how it stands.
#[must_use]
pub fn story(
    known: &DeliveryStory,
    decisions: &[DeliveryDecision],
    out: Option<&Offer>,
    waiting: Option<&WaitReason>,
) -> String {
    let out = still_out(known, out);
    let stored = known.history.iter();
    let stored = stored.filter_map(|entry| words::entry(known, entry));
    let decided = decisions.iter().map(|one| words::decision(known, one));
    let offered = out.iter().map(|offer| words::offer(known, &open(offer)));
    let mut lines: Vec<words::Line> = stored.chain(decided).chain(offered).collect();
    lines.sort_by_key(|line| line.at);
    let mut text = words::heading(known);
    for line in lines {
        text.push('\n');
        text.push_str(&words::since(known.row.at, line.at));
        text.push_str("  ");
        text.push_str(&line.text);
    }
    text.push('\n');
    text.push_str(&words::standing(known, out, waiting));
    text
}

/// The state that users see: what is out to a session is stored as waiting.
fn shown_state(known: &DeliveryStory, out: Option<&Offer>) -> DeliveryState {
    match still_out(known, out) {
        Some(_) => DeliveryState::Offered,
        None => known.row.state,
    }
}

/// The offer, if the delivery still waits for its answer.
fn still_out<'a>(known: &DeliveryStory, out: Option<&'a Offer>) -> Option<&'a Offer> {
    out.filter(|offer| offer.is_out_for(&known.row))
}

/// Why the last offer was made in a mode other than the one that was asked for.
fn mode_reason(known: &DeliveryStory, mode: DeliveryMode, out: Option<&Offer>) -> Option<String> {
    if let Some(offer) = out {
        return Some(offer.why.to_string());
    }
    let mut newest_first = known.history.iter().rev();
    newest_first.find_map(|entry| match entry {
        Entry::Offer(settled) if settled.attempt.mode == mode => Some(settled.why.to_string()),
        _ => None,
    })
}

fn all_decisions(
    known: &DeliveryStory,
    decisions: &[DeliveryDecision],
    out: Option<&Offer>,
) -> Vec<DeliveryDecision> {
    let stored = known.history.iter().filter_map(|entry| match entry {
        Entry::Decision(decision) => Some(decision.clone()),
        Entry::Offer(settled) => Some(settled.decision()),
        Entry::Receipt(_) | Entry::Context(_) => None,
    });
    let offered = still_out(known, out).map(|offer| open(offer).decision());
    let mut all: Vec<DeliveryDecision> = stored
        .chain(decisions.iter().cloned())
        .chain(offered)
        .collect();
    all.sort_by_key(|decision| decision.at);
    all
}

fn all_attempts(known: &DeliveryStory, out: Option<&Offer>) -> Vec<DeliveryAttempt> {
    let stored = known.history.iter().filter_map(|entry| match entry {
        Entry::Offer(settled) => Some(settled.attempt.clone()),
        _ => None,
    });
    let offered = still_out(known, out).map(|offer| open(offer).attempt);
    let mut all: Vec<DeliveryAttempt> = stored.chain(offered).collect();
    all.sort_by_key(|attempt| attempt.offered_at);
    all
}

fn all_receipts(known: &DeliveryStory) -> Vec<StoredReceipt> {
    let stored = known.history.iter().filter_map(|entry| match entry {
        Entry::Receipt(stored) => Some(stored.clone()),
        _ => None,
    });
    let mut all: Vec<StoredReceipt> = stored.collect();
    all.sort_by_key(|stored| stored.at);
    all
}

/// An offer that has no end yet.
fn open(offer: &Offer) -> SettledOffer {
    SettledOffer {
        attempt: DeliveryAttempt {
            epoch: offer.epoch,
            generation: offer.generation,
            session_id: offer.session_id,
            mode: offer.mode,
            offered_at: offer.offered_at,
            settled_at: None,
            outcome: None,
            counted: false,
        },
        why: offer.why.clone(),
    }
}

#[cfg(test)]
mod tests;
