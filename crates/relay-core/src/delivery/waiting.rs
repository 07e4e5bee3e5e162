//! Says what a delivery that has not ended waits for.
//!
//! The caller brings the row, what was stored about it last, and what the runner knows of the way to the
//! recipient; nothing is read here. Every door (lists, details, summaries, stories, the command line) shows
//! this answer.

use relay_protocol::delivery::{DeliveryMode, DeliveryState, MessageReceipt};
use relay_protocol::delivery_record::{
    DecisionOutcome, ReceiptSource, StoredReceipt, WaitCode, WaitReason,
};
use relay_protocol::policy::Policy;
use relay_protocol::status::AgentStatus;
use relay_protocol::time::Timestamp;

use super::decide::{Decision, Hold, Moment, SessionView, decide_delivery};
use super::history::{Entry, Offer};
use super::pace::{RUNAWAY_GUARD, SENDER_RATE};
use super::story::shown;
use crate::store::DeliveryRow;

/// The last thing that happened to a delivery, as far as its waiting depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastChange {
    /// When.
    pub at: Timestamp,
    /// Why it was put off, if it was.
    pub deferred: Option<String>,
}

impl LastChange {
    /// Describes a delivery to which nothing has happened since it was made.
    #[must_use]
    pub const fn made(at: Timestamp) -> Self {
        Self { at, deferred: None }
    }

    /// Finds the last change among entries of a history, oldest first. Notes that changed nothing, such as
    /// late receipts, are passed over.
    #[must_use]
    pub fn among(entries: &[Entry]) -> Option<Self> {
        let at = entries.iter().filter_map(change_time).max()?;
        let latest = || {
            entries
                .iter()
                .filter(|entry| change_time(entry) == Some(at))
        };
        // The session's own words say more than our decision about them.
        let deferred = match latest().find_map(deferral) {
            Some(reason) => reason,
            None => latest().find_map(put_off).map(str::to_owned),
        };
        Some(Self { at, deferred })
    }
}

/// Reads what a session says that puts a delivery off.
fn deferral(entry: &Entry) -> Option<Option<String>> {
    match entry {
        Entry::Receipt(StoredReceipt {
            by: ReceiptSource::Session,
            receipt: MessageReceipt::Deferred(receipt),
            ..
        }) => Some(receipt.reason.clone()),
        _ => None,
    }
}

fn put_off(entry: &Entry) -> Option<&str> {
    match entry {
        Entry::Decision(decision) if decision.outcome == DecisionOutcome::Defer => {
            Some(&decision.reason)
        }
        _ => None,
    }
}

/// When an entry has changed its delivery, if it did.
fn change_time(entry: &Entry) -> Option<Timestamp> {
    match entry {
        Entry::Decision(decision) => {
            (decision.outcome != DecisionOutcome::Hold).then_some(decision.at)
        }
        Entry::Offer(offer) => offer.attempt.settled_at,
        Entry::Receipt(stored) => (!stored.late).then_some(stored.at),
        Entry::Context(_) => None,
    }
}

/// The session that a delivery would go to.
#[derive(Clone, Copy, Debug)]
pub struct RouteView<'a> {
    /// The session.
    pub session: SessionView<'a>,
    /// The workspace's policy.
    pub policy: &'a Policy,
    /// Whether the session takes messages only when it asks for them.
    pub polls_at_boundaries: bool,
    /// Whether it has as many unanswered offers as it may.
    pub is_window_full: bool,
    /// Whether the delivery belongs to a later share of a backlog.
    pub is_in_later_share: bool,
}

/// What is known of a delivery that may wait.
#[derive(Clone, Copy, Debug)]
pub struct WaitContext<'a> {
    /// The delivery as it is stored.
    pub row: &'a DeliveryRow,
    /// The last thing that happened to it.
    pub change: &'a LastChange,
    /// The offer that is out.
    pub offer: Option<&'a Offer>,
    /// Whether the session that holds it can be reached.
    pub is_holder_linked: bool,
    /// The session that it would go to, if one is connected.
    pub route: Option<RouteView<'a>>,
    /// The time.
    pub now: Timestamp,
}

/// Explains what a delivery waits for; nothing if it has ended.
#[must_use]
pub fn explain_wait(context: &WaitContext<'_>) -> Option<WaitReason> {
    let row = context.row;
    if row.state.is_terminal() {
        return None;
    }
    let resting = row.not_before.filter(|until| context.now < *until);
    Some(if row.holder.is_some() {
        context.held()
    } else if let Some(offer) = context.offer.filter(|offer| offer.is_out_for(row)) {
        context.offered(offer)
    } else if let Some(until) = resting {
        context.resting(until)
    } else if let Some(route) = &context.route {
        context.routed(route)
    } else if row.only_session.is_some() {
        let why = "the session that it is for is not connected";
        context.reason(WaitCode::SessionAbsent, why)
    } else {
        context.reason(WaitCode::NoSession, NO_SESSION)
    })
}

/// The words for a delivery to an agent that is away.
pub const NO_SESSION: &str = "no session of the agent is connected";

impl WaitContext<'_> {
    fn reason(&self, code: WaitCode, why: impl Into<String>) -> WaitReason {
        WaitReason {
            why: why.into(),
            code,
            waits_for: None,
            since: self.change.at,
            until: None,
        }
    }

    fn held(&self) -> WaitReason {
        if self.is_holder_linked {
            let why = "accepted: the session shows it when it can";
            self.reason(WaitCode::Accepted, why)
        } else {
            let why = "the session that has accepted it has no link; it waits for that session, \
                       or for the end of its lease";
            self.reason(WaitCode::AcceptedUnreachable, why)
        }
    }

    fn offered(&self, offer: &Offer) -> WaitReason {
        WaitReason {
            since: offer.offered_at,
            ..self.reason(
                WaitCode::Offered,
                "offered to its session, which has not answered yet",
            )
        }
    }

    fn resting(&self, until: Timestamp) -> WaitReason {
        let deferred = self.change.deferred.as_deref();
        let (code, why) = match (self.row.state, deferred) {
            (DeliveryState::Deferred, Some(SENDER_RATE)) => (
                WaitCode::SenderRate,
                "the sender sends faster than the policy's senderPerMinute".to_owned(),
            ),
            (DeliveryState::Deferred, Some(RUNAWAY_GUARD)) => (
                WaitCode::RunawayGuard,
                "the two agents answer each other more than the policy's runaway limits allow"
                    .to_owned(),
            ),
            (DeliveryState::Deferred, reason) => {
                let reason = reason.map(shown).filter(|reason| !reason.is_empty());
                let reason = reason.map(|reason| format!(": {reason}"));
                let why = format!("the session put it off{}", reason.unwrap_or_default());
                (WaitCode::Deferred, why)
            }
            (_, reason) => {
                let why = "an attempt failed; the next one comes later";
                let used = reason.map(|reason| format!(" ({})", shown(reason)));
                (
                    WaitCode::RetryBackoff,
                    format!("{why}{}", used.unwrap_or_default()),
                )
            }
        };
        WaitReason {
            until: Some(until),
            ..self.reason(code, why)
        }
    }

    fn routed(&self, route: &RouteView<'_>) -> WaitReason {
        let decision = decide_delivery(
            &route.session,
            self.row,
            route.policy,
            Moment::Now,
            self.now,
        );
        match decision {
            Decision::Hold(hold) => self.withheld(route, hold),
            Decision::Offer { .. } if route.is_in_later_share => self.reason(
                WaitCode::Backlog,
                "what waited while the agent was away comes in shares; this is of a later one",
            ),
            Decision::Offer { .. } if route.is_window_full => self.reason(
                WaitCode::WindowFull,
                "as many offers as the session may have at a time are unanswered",
            ),
            Decision::Offer { .. } => self.reason(WaitCode::Due, "it goes to the session next"),
            Decision::Mismatch(mismatch) => self.reason(WaitCode::Due, mismatch.to_string()),
            Decision::Expire => self.reason(WaitCode::Due, "its deadline has passed"),
        }
    }

    fn withheld(&self, route: &RouteView<'_>, hold: Hold) -> WaitReason {
        let code = hold_code(&route.session, self.row, &hold, route.polls_at_boundaries);
        let why = match (code, route.session.linked) {
            (WaitCode::Boundary, false) => NOT_ASKED.into(),
            _ => hold.why,
        };
        WaitReason {
            waits_for: hold.waits_for,
            until: hold.until,
            ..self.reason(code, why)
        }
    }
}

/// The words for a session that fetches its messages.
const NOT_ASKED: &str = "the session asks for messages at its boundaries and has not asked since";

/// Classifies why a session can't have a delivery at the moment.
pub(crate) fn hold_code(
    session: &SessionView<'_>,
    row: &DeliveryRow,
    hold: &Hold,
    polls_at_boundaries: bool,
) -> WaitCode {
    match (session.status, hold.waits_for) {
        (AgentStatus::Starting, _) => WaitCode::SessionStarting,
        (AgentStatus::Paused, _) => WaitCode::SessionPaused,
        (status, _) if !status.takes_offers() => WaitCode::SessionUnavailable,
        (_, None) => WaitCode::CapabilityMissing,
        (_, Some(DeliveryMode::Manual)) if !row.flushed => WaitCode::Manual,
        (_, Some(_)) if !session.linked && !polls_at_boundaries => WaitCode::NoLink,
        (_, Some(_)) => WaitCode::Boundary,
    }
}

#[cfg(test)]
mod tests;
