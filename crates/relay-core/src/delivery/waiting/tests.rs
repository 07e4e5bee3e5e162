//! A table of every code, and the promise that what has not ended says what it waits for.

use relay_protocol::api::messages::ReadDoor;
use relay_protocol::capability::AgentSessionCapabilities;
use relay_protocol::delivery::DeferredReceipt;
use relay_protocol::delivery_record::DeliveryDecision;

use super::*;
use crate::delivery::apply::fixtures::{SESSION, accepted, at, delivery_id, offer, pending};
use crate::delivery::apply::{Applied, Circumstances, Step, apply};

/// A session as tests change it.
#[derive(Clone)]
struct Way {
    capabilities: AgentSessionCapabilities,
    status: AgentStatus,
    linked: bool,
    polls: bool,
    is_window_full: bool,
    is_in_later_share: bool,
}

fn idle() -> Way {
    Way {
        capabilities: serde_json::from_value(serde_json::json!({
            "messaging": {"receive": true, "attachments": ["text"]},
            "delivery": {"modes": ["immediate", "next-tool-call", "on-idle", "manual"]},
            "events": {"emits": ["status.changed"]},
            "lifecycle": {"release": true, "pause": true},
        }))
        .unwrap(),
        status: AgentStatus::Idle,
        linked: true,
        polls: false,
        is_window_full: false,
        is_in_later_share: false,
    }
}

fn in_status(status: AgentStatus) -> Way {
    Way { status, ..idle() }
}

fn reason(row: &DeliveryRow, deferred: Option<&str>, way: Option<&Way>) -> Option<WaitReason> {
    let policy = Policy::default();
    let change = LastChange {
        at: at(500),
        deferred: deferred.map(str::to_owned),
    };
    let route = way.map(|way| RouteView {
        session: SessionView {
            capabilities: &way.capabilities,
            safe_states: &[AgentStatus::Idle],
            status: way.status,
            linked: way.linked,
        },
        policy: &policy,
        polls_at_boundaries: way.polls,
        is_window_full: way.is_window_full,
        is_in_later_share: way.is_in_later_share,
    });
    explain_wait(&WaitContext {
        row,
        change: &change,
        offer: None,
        is_holder_linked: way.is_some_and(|way| way.linked),
        route,
        now: at(1_000),
    })
}

#[test]
fn every_wait_has_its_code() {
    let asked = |mode| DeliveryRow {
        mode: Some(mode),
        ..pending()
    };
    let resting = |state| DeliveryRow {
        state,
        not_before: Some(at(60_000)),
        ..pending()
    };
    let addressed = DeliveryRow {
        only_session: Some(SESSION),
        ..pending()
    };
    let active = in_status(AgentStatus::Active);
    let unlinked = Way {
        linked: false,
        ..active.clone()
    };
    let polls = Way {
        polls: true,
        ..unlinked.clone()
    };
    let full = Way {
        is_window_full: true,
        ..idle()
    };
    let behind = Way {
        is_in_later_share: true,
        ..full.clone()
    };
    let (deferred, waits) = (DeliveryState::Deferred, DeliveryState::Pending);
    let cases = [
        (pending(), None, Some(idle()), WaitCode::Due),
        (accepted(), None, Some(idle()), WaitCode::Accepted),
        (accepted(), None, None, WaitCode::AcceptedUnreachable),
        (pending(), None, None, WaitCode::NoSession),
        (addressed, None, None, WaitCode::SessionAbsent),
        (
            pending(),
            None,
            Some(in_status(AgentStatus::Starting)),
            WaitCode::SessionStarting,
        ),
        (
            pending(),
            None,
            Some(in_status(AgentStatus::Paused)),
            WaitCode::SessionPaused,
        ),
        (
            pending(),
            None,
            Some(in_status(AgentStatus::Releasing)),
            WaitCode::SessionUnavailable,
        ),
        (pending(), None, Some(unlinked), WaitCode::NoLink),
        (pending(), None, Some(polls), WaitCode::Boundary),
        (pending(), None, Some(active.clone()), WaitCode::Boundary),
        (
            asked(DeliveryMode::OnIdle),
            None,
            Some(active),
            WaitCode::Boundary,
        ),
        (
            asked(DeliveryMode::Manual),
            None,
            Some(idle()),
            WaitCode::Manual,
        ),
        (pending(), None, Some(full), WaitCode::WindowFull),
        (pending(), None, Some(behind), WaitCode::Backlog),
        (
            resting(waits),
            Some("1 of 8 attempts are used up"),
            Some(idle()),
            WaitCode::RetryBackoff,
        ),
        (
            resting(deferred),
            Some("busy"),
            Some(idle()),
            WaitCode::Deferred,
        ),
        (
            resting(deferred),
            Some(SENDER_RATE),
            Some(idle()),
            WaitCode::SenderRate,
        ),
        (
            resting(deferred),
            Some(RUNAWAY_GUARD),
            None,
            WaitCode::RunawayGuard,
        ),
    ];
    for (row, changed, way, code) in &cases {
        let found = reason(row, *changed, way.as_ref()).unwrap();
        assert_eq!(found.code, *code, "{found:?}");
        assert_eq!(found.since, at(500));
        assert_eq!(found.until, row.not_before, "{code}");
        assert!(!found.why.is_empty());
    }
    let offered = [WaitCode::Offered, WaitCode::CapabilityMissing];
    for code in WaitCode::ALL {
        let shown = cases.iter().any(|(.., of)| of == code);
        assert!(shown || offered.contains(code), "no case for {code}");
    }
}

#[test]
fn what_waits_for_a_boundary_names_it() {
    let found = reason(&pending(), None, Some(&in_status(AgentStatus::Active))).unwrap();
    assert_eq!(found.waits_for, Some(DeliveryMode::NextToolCall));
    assert_eq!(found.why, "the session is active");
    let flushed = DeliveryRow {
        mode: Some(DeliveryMode::Manual),
        flushed: true,
        ..pending()
    };
    let unlinked = Way {
        linked: false,
        ..idle()
    };
    let found = reason(&flushed, None, Some(&unlinked)).unwrap();
    assert_eq!(found.code, WaitCode::NoLink);
}

#[test]
fn an_offer_that_is_out_is_what_it_waits_for() {
    let row = pending();
    let out = offer(1);
    let change = LastChange::made(row.at);
    let context = WaitContext {
        row: &row,
        change: &change,
        offer: Some(&out),
        is_holder_linked: false,
        route: None,
        now: at(2_000),
    };
    let found = explain_wait(&context).unwrap();
    assert_eq!((found.code, found.since), (WaitCode::Offered, at(1_000)));
    let older = Offer {
        generation: 0,
        ..offer(1)
    };
    let context = WaitContext {
        offer: Some(&older),
        ..context
    };
    let found = explain_wait(&context).unwrap();
    assert_eq!(found.code, WaitCode::NoSession);
}

#[test]
fn what_has_ended_waits_for_nothing() {
    for state in DeliveryState::ALL {
        let row = DeliveryRow {
            state: *state,
            ..pending()
        };
        let waits = reason(&row, None, Some(&idle())).is_some();
        assert_eq!(waits, !state.is_terminal(), "{state}");
    }
}

/// The entries that a step leaves.
fn entries(step: Step) -> Vec<Entry> {
    let policy = Policy::default();
    let given = Circumstances {
        last_offer: None,
        policy: &policy,
        now: at(2_000),
        jitter: 0,
        id: delivery_id(),
        holder: None,
    };
    match apply(&pending(), &step, &given) {
        Applied::Moved(moved) => moved.history,
        Applied::Noted { entry, .. } => vec![*entry],
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_last_change_is_found_among_notes_and_older_ones() {
    let receipt = MessageReceipt::Deferred(DeferredReceipt {
        delivery_id: None,
        available_at: at(60_000),
        reason: Some("asleep".to_owned()),
        metadata: None,
    });
    let answered = |offer: Option<Offer>| Step::Receipt {
        session: Some(SESSION),
        epoch: Some(1),
        offer: offer.map(Box::new),
        receipt: receipt.clone(),
    };
    let held = Entry::Decision(DeliveryDecision {
        at: at(9_000),
        outcome: DecisionOutcome::Hold,
        reason: "the session is active".to_owned(),
        session_id: None,
        mode: None,
        waits_for: None,
        until: None,
    });
    let mut all = entries(Step::Read(ReadDoor::Inbox.into()));
    all.push(held);
    all.extend(entries(answered(Some(offer(1)))));
    let found = LastChange::among(&all).unwrap();
    assert_eq!(found.at, at(2_000));
    assert_eq!(found.deferred.as_deref(), Some("asleep"));
    // A receipt for no offer that is out changes nothing.
    assert_eq!(LastChange::among(&entries(answered(None))), None);
    let silent = entries(Step::NoReceipt {
        offer: Box::new(offer(1)),
    });
    let found = LastChange::among(&silent).unwrap();
    assert_eq!(
        found.deferred.as_deref(),
        Some("1 of 8 attempts are used up")
    );
}
