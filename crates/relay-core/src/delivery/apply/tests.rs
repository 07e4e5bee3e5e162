mod answers;
mod ends;
mod matrix;
mod properties;

use std::fmt::Write as _;

use relay_protocol::delivery::{
    AcceptedReceipt, DeferredReceipt, DeliveredReceipt, DeliveryMode, DeliveryState, FailedReceipt,
};
use relay_protocol::delivery_record::ReceiptSource;
use relay_protocol::problem::ErrorCode;

use super::fixtures::{
    OTHER_SESSION, SESSION, accepted, at, delivery_id, lapsed, offer, pending, session_id,
};
use super::*;
use crate::delivery::history::SettledOffer;
use crate::store::Holder;

/// Three attempts, a second to ten seconds apart.
fn policy() -> Policy {
    let mut policy = Policy::default();
    policy.retry.attempts = 3;
    policy.retry.max_ms = 10_000;
    policy
}

/// Takes a step at a time.
fn take_at(row: &DeliveryRow, step: &Step, now: Timestamp) -> Applied {
    let policy = policy();
    let given = Circumstances {
        policy: &policy,
        now,
        jitter: u64::MAX,
        id: delivery_id(),
        holder: row.holder.map(|holder| session_id(holder.session)),
        last_offer: Some(lapsed(1)),
    };
    apply(row, step, &given)
}

/// Takes a step two seconds after the delivery was made.
fn take(row: &DeliveryRow, step: &Step) -> Applied {
    take_at(row, step, at(2_000))
}

/// What a step makes of a row; it must change it.
fn moved(row: &DeliveryRow, step: &Step) -> Moved {
    match take(row, step) {
        Applied::Moved(moved) => *moved,
        other => panic!("{other:?}"),
    }
}

fn yes() -> MessageReceipt {
    MessageReceipt::Accepted(AcceptedReceipt {
        delivery_id: delivery_id(),
        retryable: None,
        metadata: None,
    })
}

fn seen() -> MessageReceipt {
    MessageReceipt::Delivered(DeliveredReceipt {
        delivery_id: delivery_id(),
        metadata: None,
    })
}

fn later(available_at: Timestamp) -> MessageReceipt {
    MessageReceipt::Deferred(DeferredReceipt {
        delivery_id: None,
        available_at,
        reason: Some("busy".to_owned()),
        metadata: None,
    })
}

fn no(retryable: Option<bool>) -> MessageReceipt {
    MessageReceipt::Failed(FailedReceipt {
        delivery_id: None,
        reason: "broken".to_owned(),
        retryable,
        metadata: None,
    })
}

/// The session answers offer 1, which is out.
fn answer(receipt: MessageReceipt) -> Step {
    answer_to(offer(1), receipt)
}

fn answer_to(offer: Offer, receipt: MessageReceipt) -> Step {
    Step::Receipt {
        session: Some(offer.session),
        epoch: Some(offer.epoch),
        offer: Some(Box::new(offer)),
        receipt,
    }
}

/// The session says something while no offer is out.
fn says(receipt: MessageReceipt) -> Step {
    Step::Receipt {
        session: Some(SESSION),
        offer: None,
        epoch: None,
        receipt,
    }
}

/// The session says something about an offer that is settled.
fn says_belatedly(epoch: Option<u64>, receipt: MessageReceipt) -> Step {
    Step::BelatedReceipt {
        session: Some(SESSION),
        offer: None,
        epoch,
        receipt,
    }
}

fn silence() -> Step {
    Step::NoReceipt {
        offer: Box::new(offer(1)),
    }
}

fn returned(offer: Option<Offer>, cause: ReturnCause) -> Step {
    Step::Returned {
        offer: offer.map(Box::new),
        session: SESSION,
        cause,
    }
}

fn mismatch() -> Step {
    let problem = Problem::new(ErrorCode::CapabilityNotSupported, "it can't do that");
    Step::Mismatch {
        session: session_id(SESSION),
        problem: Box::new(problem),
    }
}

fn cancelled(recall: Recall) -> Step {
    Step::Cancelled {
        reason: Some("no need".to_owned()),
        recall,
    }
}

/// A delivery that waits between two attempts until a second after it was made.
fn resting() -> DeliveryRow {
    DeliveryRow {
        attempts: 1,
        not_before: Some(at(1_000)),
        ..pending()
    }
}

/// A delivery that was put off until a second after it was made.
fn put_off() -> DeliveryRow {
    DeliveryRow {
        state: DeliveryState::Deferred,
        not_before: Some(at(1_000)),
        ..pending()
    }
}

/// A delivery that was accepted, and is not to be offered again.
fn accepted_once() -> DeliveryRow {
    DeliveryRow {
        holder: Some(Holder {
            session: SESSION,
            epoch: 1,
            retryable: false,
        }),
        ..accepted()
    }
}

fn ended(state: DeliveryState) -> DeliveryRow {
    let surfaced = (state != DeliveryState::Delivered).then_some(Surfaced::No);
    DeliveryRow {
        state,
        surfaced,
        ..pending()
    }
}

/// Checks a change against its text.
#[track_caller]
fn check(applied: &Applied, expected: &str) {
    let found = shown(applied);
    let expected: String = expected
        .trim()
        .lines()
        .map(|line| format!("{}\n", line.trim()))
        .collect();
    assert_eq!(found, expected);
}

/// All of a change in a few lines: the row, the event, what is kept, what is told to who waits.
fn shown(applied: &Applied) -> String {
    match applied {
        Applied::Moved(moved) => shown_move(moved),
        Applied::Noted { entry, fact } => {
            let mut text = format!("noted\n{}\n", shown_entry(entry));
            if let Some(fact) = fact {
                let _ = writeln!(text, "event {}", shown_fact(&fact.what));
            }
            text
        }
        Applied::Nothing => "nothing\n".to_owned(),
        Applied::Refused(refused) => format!("{refused}\n"),
    }
}

fn shown_move(moved: &Moved) -> String {
    let row = &moved.row;
    let mut text = format!("{}, {} attempts", row.state, row.attempts);
    if let Some(until) = row.not_before {
        let _ = write!(text, ", until {}", after(until));
    }
    if let Some(surfaced) = row.surfaced {
        let _ = write!(text, ", surfaced {surfaced}");
    }
    for (holds, word) in [
        (row.redelivered, "redelivered"),
        (row.after_accept, "after accept"),
        (row.flushed, "flushed"),
        (row.error.is_some(), "error"),
    ] {
        if holds {
            let _ = write!(text, ", {word}");
        }
    }
    text.push('\n');
    if let Some(fact) = &moved.fact {
        let _ = writeln!(text, "event {}", shown_fact(&fact.what));
    }
    for entry in &moved.history {
        let _ = writeln!(text, "{}", shown_entry(entry));
    }
    if let Some(receipt) = &moved.receipt {
        let _ = writeln!(text, "told {}", shown_receipt(receipt));
    }
    text
}

fn shown_fact(what: &FactKind) -> String {
    match what {
        FactKind::Accepted { .. } => "accepted".to_owned(),
        FactKind::Delivered { .. } => "delivered".to_owned(),
        FactKind::Deferred {
            available_at,
            reason,
        } => {
            let reason = reason.as_deref().unwrap_or("no reason");
            format!("deferred until {}: {reason}", after(*available_at))
        }
        FactKind::AttemptFailed {
            reason,
            attempt,
            next_attempt_at,
        } => format!(
            "attempt {attempt} failed, next {}: {reason}",
            after(*next_attempt_at)
        ),
        FactKind::Failed {
            reason,
            attempt,
            surfaced,
            ..
        } => match attempt {
            Some(attempt) => format!("failed at attempt {attempt}, surfaced {surfaced}: {reason}"),
            None => format!("failed, surfaced {surfaced}: {reason}"),
        },
        FactKind::Cancelled { reason, surfaced } => {
            let reason = reason.as_deref().unwrap_or("no reason");
            format!("cancelled, surfaced {surfaced}: {reason}")
        }
        FactKind::LateReceipt { receipt } => format!("late {}", shown_receipt(receipt)),
    }
}

fn shown_entry(entry: &Entry) -> String {
    match entry {
        Entry::Context(given) => panic!("a step gives no context: {given:?}"),
        Entry::Decision(decision) => {
            let until = decision
                .until
                .map(|until| format!(" until {}", after(until)));
            let until = until.unwrap_or_default();
            format!("decided {}{until}: {}", decision.outcome, decision.reason)
        }
        Entry::Offer(SettledOffer { attempt, .. }) => {
            let counted = if attempt.counted { ", counted" } else { "" };
            let outcome = attempt.outcome.as_deref().unwrap_or("open");
            format!("offer {}: {outcome}{counted}", attempt.epoch)
        }
        Entry::Receipt(stored) => {
            let late = if stored.late { "late " } else { "" };
            let receipt = shown_receipt(&stored.receipt);
            format!("{late}receipt by {}: {receipt}", stored.by)
        }
    }
}

fn shown_receipt(receipt: &MessageReceipt) -> String {
    match receipt {
        MessageReceipt::Failed(failed) => match failed.retryable {
            Some(true) => format!("failed, retryable: {}", failed.reason),
            _ => format!("failed: {}", failed.reason),
        },
        other => other.tag().to_owned(),
    }
}

fn after(time: Timestamp) -> String {
    format!("{} ms", time.as_millis() - at(0).as_millis())
}
