use relay_protocol::agent::{AgentIdentity, AgentType};
use relay_protocol::api::messages::ReadDoor;
use relay_protocol::delivery::{
    AcceptedReceipt, DeferredReceipt, DeliveredReceipt, FailedReceipt, MessageReceipt, Priority,
};
use relay_protocol::delivery_record::DecisionOutcome;
use relay_protocol::ids::AgentId;
use relay_protocol::policy::Policy;
use relay_protocol::problem::{ErrorCode, Problem};
use relay_protocol::time::Timestamp;

use super::*;
use crate::delivery::apply::fixtures::{
    SESSION, at, delivery_id, message_id, offer, pending, session_id,
};
use crate::delivery::apply::{Applied, Circumstances, Recall, ReturnCause, Step, apply};
use crate::delivery::decide::Hold;
use crate::delivery::waiting::LastChange;
use crate::store::DeliveryRow;

/// A delivery to @bob whose history is written as the store does it.
struct Tale {
    known: DeliveryStory,
    decisions: Vec<DeliveryDecision>,
}

impl Tale {
    fn of(row: DeliveryRow) -> Self {
        let known = DeliveryStory {
            id: delivery_id(),
            row,
            message_id: message_id(),
            agent: AgentIdentity {
                id: AgentId::new(at(0), 3),
                name: "bob".to_owned(),
                handle: "@bob".to_owned(),
                agent_type: AgentType::Agent,
                metadata: None,
            },
            holder: None,
            change: LastChange::made(at(0)),
            history: Vec::new(),
        };
        Self {
            known,
            decisions: Vec::new(),
        }
    }

    fn hold(mut self, now: i64, why: &'static str, waits_for: Option<DeliveryMode>) -> Self {
        let hold = Hold {
            waits_for,
            until: None,
            why: why.into(),
        };
        let decision = hold.decision(at(now), Some(session_id(SESSION)));
        self.decisions.push(decision);
        self
    }

    fn step(mut self, now: i64, step: Step) -> Self {
        let policy = Policy::default();
        let given = Circumstances {
            last_offer: None,
            policy: &policy,
            now: at(now),
            jitter: 1_000,
            id: self.known.id,
            holder: self.known.holder,
        };
        let decided = std::mem::take(&mut self.decisions);
        let history = &mut self.known.history;
        history.extend(decided.into_iter().map(Entry::Decision));
        match apply(&self.known.row, &step, &given) {
            Applied::Moved(moved) => {
                history.extend(moved.history);
                self.known.holder = moved.row.holder.map(|holder| session_id(holder.session));
                self.known.row = moved.row;
            }
            Applied::Noted { entry, .. } => history.push(*entry),
            other => panic!("{other:?}"),
        }
        self
    }

    fn answer(self, now: i64, offer: Offer, receipt: MessageReceipt) -> Self {
        let step = Step::Receipt {
            session: Some(offer.session),
            epoch: Some(offer.epoch),
            offer: Some(Box::new(offer)),
            receipt,
        };
        self.step(now, step)
    }

    fn silence(self, now: i64, offer: Offer) -> Self {
        let offer = Box::new(offer);
        self.step(now, Step::NoReceipt { offer })
    }

    #[track_caller]
    fn reads(&self, out: Option<&Offer>, expected: &str) {
        let expected: Vec<&str> = expected.trim().lines().map(str::trim).collect();
        let found = story(&self.known, &self.decisions, out, None);
        let found = found.replace(&session_id(SESSION).to_string(), "S");
        let found: Vec<&str> = found.lines().skip(1).collect();
        assert_eq!(found, expected);
    }
}

fn offered(epoch: u64, now: i64) -> Offer {
    Offer {
        offered_at: at(now),
        ..offer(epoch)
    }
}

fn door(name: &str) -> Option<relay_protocol::agent::Metadata> {
    let mut metadata = relay_protocol::agent::Metadata::new();
    metadata.insert("door".to_owned(), name.into());
    Some(metadata)
}

fn accepted(retryable: Option<bool>) -> MessageReceipt {
    MessageReceipt::Accepted(AcceptedReceipt {
        delivery_id: delivery_id(),
        retryable,
        metadata: None,
    })
}

fn delivered() -> MessageReceipt {
    MessageReceipt::Delivered(DeliveredReceipt {
        delivery_id: delivery_id(),
        metadata: door("acp.prompt"),
    })
}

fn failed(retryable: Option<bool>) -> MessageReceipt {
    MessageReceipt::Failed(FailedReceipt {
        delivery_id: None,
        reason: "the\nterminal\u{7} is gone".to_owned(),
        retryable,
        metadata: door("pty"),
    })
}

#[test]
fn it_waits_then_is_offered_and_delivered() {
    let out = Offer {
        mode: DeliveryMode::NextToolCall,
        why: "the session stands at that boundary".into(),
        ..offered(7, 3_100)
    };
    let waiting = Tale::of(pending()).hold(
        40,
        "the session is active",
        Some(DeliveryMode::NextToolCall),
    );
    waiting.reads(
        None,
        "+40 ms  waits: the session is active; it waits for next-tool-call
         now: pending",
    );
    waiting.reads(
        Some(&out),
        "+40 ms  waits: the session is active; it waits for next-tool-call
         +3.1 s  offered to session S as next-tool-call: the session stands at that boundary (offer 1)
         now: offered to session S, no answer yet",
    );
    waiting.answer(3_250, out, delivered()).reads(
        None,
        "+40 ms  waits: the session is active; it waits for next-tool-call
         +3.1 s  offered to session S as next-tool-call: the session stands at that boundary (offer 1)
         +3.2 s  delivered, by the session, door acp.prompt
         end: delivered",
    );
}

#[test]
fn the_heading_says_what_was_asked() {
    let heading = |row| {
        let tale = Tale::of(row);
        let text = story(&tale.known, &[], None, None);
        text.lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(
        heading(pending()),
        format!(
            "delivery {} to @bob, asked for: first safe boundary, \
             made 2025-11-15T22:14:20.000Z, deadline 2025-11-15T23:14:20.000Z",
            delivery_id()
        )
    );
    let all = heading(DeliveryRow {
        mode: Some(DeliveryMode::OnIdle),
        allow_downgrade: true,
        priority: Priority::Urgent,
        only_session: Some(SESSION),
        ..pending()
    });
    let asked = "asked for: on-idle or another way, urgent, one session only, made";
    assert!(all.contains(asked), "{all}");
}

#[test]
fn silence_link_loss_retries_and_generations() {
    let tale = Tale::of(pending())
        .silence(31_000, offered(1, 1_000))
        .step(32_000, Step::Woken)
        .step(
            34_000,
            Step::Returned {
                offer: Some(Box::new(offered(2, 33_000))),
                session: SESSION,
                cause: ReturnCause::LinkLost,
            },
        )
        .answer(36_000, offered(3, 35_000), failed(Some(true)))
        .step(38_000, Step::Woken)
        .answer(40_000, offered(4, 39_000), failed(None))
        .step(600_000, Step::Retried);
    tale.reads(
        None,
        "+1.0 s  offered to session S as on-idle: the session is idle (offer 1)
         +31.0 s  offer 1 was not answered in time
         +31.0 s  waits until +32.0 s: 1 of 8 attempts are used up
         +32.0 s  waits again: its time has come
         +33.0 s  offered to session S as on-idle: the session is idle (offer 2)
         +34.0 s  offer 2 was lost with the link
         +34.0 s  waits again: the link was lost before an answer came
         +35.0 s  offered to session S as on-idle: the session is idle (offer 3)
         +36.0 s  failed, by the session, door pty, to be tried again: the terminal is gone
         +36.0 s  waits until +38.0 s: 2 of 8 attempts are used up
         +38.0 s  waits again: its time has come
         +39.0 s  offered to session S as on-idle: the session is idle (offer 4)
         +40.0 s  failed, by the session, door pty: the terminal is gone
         +10 min 0 s  waits again: retried, generation 2
         now: pending",
    );
    assert_eq!(summary(&tale.known, None, None).generation, 2);
}

#[test]
fn it_is_accepted_and_taken_back() {
    let tale = Tale::of(pending()).answer(2_000, offered(1, 1_000), accepted(None));
    tale.reads(
        None,
        "+1.0 s  offered to session S as on-idle: the session is idle (offer 1)
         +2.0 s  accepted, by the session
         now: accepted, held by session S",
    );
    tale.step(
        700_000,
        Step::Returned {
            offer: None,
            session: SESSION,
            cause: ReturnCause::LeaseExpired,
        },
    )
    .reads(
        None,
        "+1.0 s  offered to session S as on-idle: the session is idle (offer 1)
         +2.0 s  accepted, by the session
         +11 min 40 s  offer 1 ended: lease_expired
         +11 min 40 s  waits again: the session that held it was away for too long
         now: pending",
    );
    Tale::of(pending())
        .answer(2_000, offered(1, 1_000), accepted(Some(false)))
        .step(
            3_000,
            Step::Returned {
                offer: None,
                session: SESSION,
                cause: ReturnCause::SessionFailed,
            },
        )
        .reads(
            None,
            "+1.0 s  offered to session S as on-idle: the session is idle (offer 1)
             +2.0 s  accepted, by the session, not to be offered again
             +3.0 s  offer 1 ended: session_failed
             +3.0 s  fails: its session failed; it was not to be offered again
             end: failed; nobody can tell whether it was seen",
        );
}

#[test]
fn it_is_put_off_and_flushed() {
    let deferred = MessageReceipt::Deferred(DeferredReceipt {
        delivery_id: None,
        available_at: at(100_000_000),
        reason: Some("asleep".to_owned()),
        metadata: None,
    });
    let row = DeliveryRow {
        deadline: at(1_000_000_000),
        ..pending()
    };
    let tale = Tale::of(row).answer(2_000, offered(1, 1_000), deferred);
    let put_off = "+1.0 s  offered to session S as on-idle: the session is idle (offer 1)
         +2.0 s  deferred until +27 h 46 min, by the session: asleep
         +2.0 s  waits until +27 h 46 min: the session put it off";
    tale.reads(
        None,
        &format!("{put_off}\nnow: deferred until +27 h 46 min"),
    );
    let next = summary(&tale.known, None, None).next_attempt_at;
    assert_eq!(next, Some(at(100_000_000)));
    let flushed = tale.step(180_000_000, Step::Flushed);
    let flushed_line = "+2 days 2 h  waits again: somebody flushed it";
    flushed.reads(None, &format!("{put_off}\n{flushed_line}\nnow: pending"));
}

#[test]
fn late_receipts_and_ends_of_our_own() {
    Tale::of(pending())
        .step(
            5_000,
            Step::Cancelled {
                reason: None,
                recall: Recall::Unanswered(Some(Box::new(offered(1, 1_000)))),
            },
        )
        .step(
            6_000,
            Step::Receipt {
                session: None,
                offer: None,
                epoch: Some(1),
                receipt: delivered(),
            },
        )
        .reads(
            None,
            "+1.0 s  offered to session S as on-idle: the session is idle (offer 1)
             +5.0 s  offer 1 ended: cancelled
             +5.0 s  cancelled: called back
             +6.0 s  too late to count: delivered, by the session, door acp.prompt (offer 1)
             end: cancelled; nobody can tell whether it was seen",
        );
    let expired = Step::Expired {
        recall: Recall::NotNeeded,
    };
    Tale::of(pending())
        .hold(1_000, "the session is paused", None)
        .step(3_600_000, expired)
        .reads(
            None,
            "+1.0 s  waits: the session is paused
             +60 min 0 s  fails: its deadline 2025-11-15T23:14:20.000Z has passed
             end: failed; it was not seen",
        );
    let problem = Problem::new(ErrorCode::CapabilityNotSupported, "it can't do that");
    Tale::of(pending())
        .step(
            0,
            Step::Mismatch {
                session: session_id(SESSION),
                problem: Box::new(problem),
            },
        )
        .reads(
            None,
            "+0 ms  fails: it can't do that
             end: failed; it was not seen",
        );
    for (door, read) in [
        (ReadDoor::Inbox, "read in the inbox"),
        (ReadDoor::Mcp, "read over MCP"),
    ] {
        let story = format!("+9.0 s  delivered, {read}\n         end: delivered");
        let tale = Tale::of(pending()).step(9_000, Step::Read(door.into()));
        tale.reads(None, &story);
    }
}

#[test]
fn remarks_and_rare_decisions_are_lines_too() {
    let mut tale = Tale::of(pending());
    let decision = |outcome, reason: &str| DeliveryDecision {
        at: at(1_000),
        outcome,
        reason: reason.to_owned(),
        session_id: None,
        mode: None,
        waits_for: None,
        until: None,
    };
    tale.decisions = vec![
        decision(DecisionOutcome::Hold, "12 entries are left out here"),
        decision(DecisionOutcome::Defer, "runaway_guard"),
        decision(DecisionOutcome::Offer, "it is due"),
    ];
    tale.reads(
        None,
        "+1.0 s  12 entries are left out here
         +1.0 s  waits: runaway_guard
         +1.0 s  offered: it is due
         now: pending",
    );
}

#[test]
fn everything_is_given_in_the_order_of_time() {
    let row = DeliveryRow {
        mode: Some(DeliveryMode::NextToolCall),
        allow_downgrade: true,
        ..pending()
    };
    let out = offered(2, 40_000);
    let tale = Tale::of(row)
        .hold(
            500,
            "the session is active",
            Some(DeliveryMode::NextToolCall),
        )
        // It was flushed while the offer was out.
        .step(20_000, Step::Flushed)
        .silence(31_000, offered(1, 1_000))
        .hold(32_000, "the session is active", None);
    let delivery = explain(&tale.known, &tale.decisions, Some(&out), None);
    assert_eq!(delivery.state, DeliveryState::Offered);
    assert_eq!(delivery.session_id, Some(session_id(SESSION)));
    assert_eq!(delivery.requested_mode, Some(DeliveryMode::NextToolCall));
    assert_eq!(delivery.mode, Some(DeliveryMode::OnIdle));
    assert_eq!(delivery.mode_reason.as_deref(), Some("the session is idle"));
    let after = |time: Timestamp| time.as_millis() - at(0).as_millis();
    let decisions: Vec<(i64, DecisionOutcome)> = delivery
        .decisions
        .iter()
        .flatten()
        .map(|decision| (after(decision.at), decision.outcome))
        .collect();
    assert_eq!(
        decisions,
        [
            (500, DecisionOutcome::Hold),
            (1_000, DecisionOutcome::Offer),
            (20_000, DecisionOutcome::Reopen),
            (31_000, DecisionOutcome::Defer),
            (32_000, DecisionOutcome::Hold),
            (40_000, DecisionOutcome::Offer),
        ]
    );
    let attempts: Vec<(u64, Option<&str>, bool)> = delivery
        .attempts
        .iter()
        .flatten()
        .map(|attempt| (attempt.epoch, attempt.outcome.as_deref(), attempt.counted))
        .collect();
    assert_eq!(attempts, [(1, Some("no_receipt"), true), (2, None, false)]);
    assert_eq!(delivery.receipts.map(|receipts| receipts.len()), Some(1));
    tale.reads(
        Some(&out),
        "+500 ms  waits: the session is active; it waits for next-tool-call
         +1.0 s  offered to session S as on-idle: the session is idle (offer 1)
         +20.0 s  waits again: somebody flushed it
         +31.0 s  offer 1 was not answered in time
         +31.0 s  waits until +32.0 s: 1 of 8 attempts are used up
         +32.0 s  waits: the session is active
         +40.0 s  offered to session S as on-idle: the session is idle (offer 2)
         now: offered to session S, no answer yet",
    );
    let told = story(&tale.known, &tale.decisions, Some(&out), None);
    assert_eq!(delivery.story, Some(told));
}

#[test]
fn a_mode_that_was_asked_for_needs_no_reason() {
    let row = DeliveryRow {
        mode: Some(DeliveryMode::OnIdle),
        ..pending()
    };
    let as_asked = Tale::of(row).answer(2_000, offered(1, 1_000), delivered());
    assert_eq!(summary(&as_asked.known, None, None).mode_reason, None);
    let adaptive = Tale::of(pending()).answer(2_000, offered(1, 1_000), delivered());
    let shown = summary(&adaptive.known, None, None);
    assert_eq!(shown.mode, Some(DeliveryMode::OnIdle));
    assert_eq!(shown.mode_reason.as_deref(), Some("the session is idle"));
    assert_eq!(shown.decisions, None);
    assert_eq!(summary(&Tale::of(pending()).known, None, None).mode, None);
}

#[test]
fn an_offer_that_is_not_waited_for_any_more_is_not_out() {
    let out = offered(1, 1_000);
    let ended = Tale::of(pending()).answer(2_000, out.clone(), delivered());
    let shown = explain(&ended.known, &[], Some(&out), None);
    assert_eq!(shown.state, DeliveryState::Delivered);
    assert_eq!(shown.attempts.map(|attempts| attempts.len()), Some(1));
    let older = Offer {
        generation: 0,
        ..out
    };
    let waiting = Tale::of(pending());
    assert_eq!(
        summary(&waiting.known, Some(&older), None).state,
        DeliveryState::Pending
    );
}

#[test]
fn long_words_of_others_are_cut() {
    let long = MessageReceipt::Failed(FailedReceipt {
        delivery_id: None,
        reason: "ä".repeat(500),
        retryable: None,
        metadata: None,
    });
    let tale = Tale::of(pending()).answer(2_000, offered(1, 1_000), long);
    let text = story(&tale.known, &[], None, None);
    let line = text.lines().find(|line| line.contains('ä')).unwrap();
    assert_eq!(line.matches('ä').count(), 200);
    assert!(line.ends_with('…'));
}

#[test]
fn times_are_told_in_fitting_units() {
    let cases = [
        (0, "+0 ms"),
        (49, "+49 ms"),
        (1_290, "+1.2 s"),
        (119_999, "+119.9 s"),
        (120_000, "+2 min 0 s"),
        (7_199_000, "+119 min 59 s"),
        (7_200_000, "+2 h 0 min"),
        (172_799_000, "+47 h 59 min"),
        (172_800_000, "+2 days 0 h"),
        (-1_500, "-1.5 s"),
    ];
    for (millis, expected) in cases {
        assert_eq!(words::since(at(0), at(millis)), expected);
    }
}
