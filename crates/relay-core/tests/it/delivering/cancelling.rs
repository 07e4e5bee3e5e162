//! Calling a delivery back: at once while Relay has it, by the session's answer while that has it.

use relay_core::Result;
use relay_protocol::delivery::{DeliveryState, Surfaced};
use relay_protocol::delivery_record::{CancelDelivery, Delivery};
use relay_protocol::ids::DeliveryId;
use relay_protocol::problem::ErrorCode;
use relay_protocol::socket::{ControlFrame, ControlOp};
use relay_protocol::status::AgentStatus;
use serde_json::json;

use super::kit::{Call, Kind, Lab, Session, deferred, delivered, failed};

fn begin_cancel<'l>(lab: &'l Lab, who: &str, id: DeliveryId) -> Call<'l, Result<Delivery>> {
    let (engine, caller) = (lab.engine(), lab.who(who));
    let body = CancelDelivery {
        reason: Some("changed my mind".to_owned()),
    };
    lab.begin(async move { engine.cancel_delivery(&caller, id, body).await })
}

/// How far a session has got with a delivery.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Has {
    Offer,
    Accepted,
}

const BOTH: [Has; 2] = [Has::Offer, Has::Accepted];

/// A delivery that a session has; and what it was asked when somebody wanted it back.
struct Case<'l> {
    lab: &'l Lab,
    bob: Session<'l>,
    id: DeliveryId,
    cancel: Call<'l, Result<Delivery>>,
    frame: ControlFrame,
}

impl<'l> Case<'l> {
    fn new(lab: &'l Lab, has: Has) -> Self {
        let bob = lab.attach("bob", &Kind::able().queueing());
        let id = lab.say("hello");
        let offer = bob.offer();
        if has == Has::Accepted {
            bob.accept(&offer);
        }
        let mut cancel = begin_cancel(lab, "alice", id);
        assert!(cancel.waits());
        let frame = bob.control();
        assert_eq!((frame.op, frame.delivery_id), (ControlOp::Cancel, Some(id)));
        assert_eq!(frame.reason.as_deref(), Some("changed my mind"));
        Self {
            lab,
            bob,
            id,
            cancel,
            frame,
        }
    }

    /// Nothing more happens to it.
    fn check_cancelled(self, surfaced: Surfaced) {
        let answer = self.cancel.end().unwrap();
        assert_eq!(answer.state, DeliveryState::Cancelled);
        assert_eq!(answer.surfaced, Some(surfaced));
        let told = self.lab.last("delivery.cancelled");
        assert_eq!(told["deliveryId"], json!(self.id));
        assert_eq!(told["reason"], "changed my mind");
        assert_eq!(
            [&told["surfaced"], &told["terminal"]],
            [&json!(surfaced), &json!(true)]
        );
        self.lab.pass(3_600_000);
        assert_eq!(self.bob.texts(), [""; 0]);
        // The truth may come late; it is kept.
        let late = self.bob.receipt(self.id, None, delivered(self.id)).unwrap();
        assert_eq!((late.state, late.late), (DeliveryState::Cancelled, true));
        assert_eq!(self.lab.events("delivery.late_receipt").len(), 1);
    }
}

#[test]
fn what_waits_is_called_back_at_once() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let put_off = lab.say("later");
    bob.answer(&bob.offer(), deferred(lab.later(1_000)));
    let resting = lab.say("again");
    bob.answer(&bob.offer(), failed("busy", Some(true)));
    bob.becomes(AgentStatus::Active);
    let waiting = lab.say("hello");
    for id in [put_off, resting, waiting] {
        let answer = begin_cancel(&lab, "alice", id).end().unwrap();
        assert_eq!(answer.state, DeliveryState::Cancelled);
        assert_eq!(answer.surfaced, Some(Surfaced::No));
        assert_eq!(lab.last("delivery.cancelled")["deliveryId"], json!(id));
    }
    assert_eq!(bob.controls(), []);
    bob.becomes(AgentStatus::Idle);
    lab.pass(60_000);
    assert_eq!(bob.texts(), [""; 0]);
}

#[test]
fn what_nobody_was_there_for_is_called_back_at_once() {
    let lab = Lab::pair();
    let id = lab.say("hello");
    let answer = begin_cancel(&lab, "alice", id).end().unwrap();
    assert_eq!(
        (answer.state, answer.surfaced),
        (DeliveryState::Cancelled, Some(Surfaced::No))
    );
    let bob = lab.attach("bob", &Kind::able());
    assert_eq!(bob.texts(), [""; 0]);
}

#[test]
fn a_session_gives_it_back() {
    for has in BOTH {
        let lab = Lab::pair();
        let case = Case::new(&lab, has);
        case.bob.confirm(&case.frame);
        case.check_cancelled(Surfaced::No);
    }
}

#[test]
fn a_session_had_shown_it() {
    for has in BOTH {
        let lab = Lab::pair();
        let case = Case::new(&lab, has);
        case.bob.deliver_held(case.id);
        let problem = case.cancel.end().unwrap_err().problem();
        assert_eq!(problem.code, ErrorCode::AlreadyDelivered, "{has:?}");
        assert_eq!(problem.status, 409);
        assert_eq!(lab.state(case.id), DeliveryState::Delivered);
        // What it answers then changes nothing.
        case.bob.confirm(&case.frame);
        assert_eq!(lab.state(case.id), DeliveryState::Delivered);
        assert_eq!(lab.events("delivery.cancelled").len(), 0);
    }
}

#[test]
fn a_session_that_cannot_give_anything_back_goes_on_with_it() {
    for has in BOTH {
        let lab = Lab::pair();
        let case = Case::new(&lab, has);
        case.bob.refuse(&case.frame, "typed already");
        let problem = case.cancel.end().unwrap_err().problem();
        assert_eq!(
            (problem.code, problem.status),
            (ErrorCode::UnsupportedOperation, 501)
        );
        assert_eq!(problem.operation.as_deref(), Some("cancel"));
        assert_eq!(problem.why.as_deref(), Some("typed already"));
        let state = match has {
            Has::Offer => DeliveryState::Offered,
            Has::Accepted => DeliveryState::Accepted,
        };
        assert_eq!(lab.state(case.id), state);
        case.bob.deliver_held(case.id);
        assert_eq!(lab.state(case.id), DeliveryState::Delivered);
    }
}

#[test]
fn one_that_refused_and_then_says_nothing_has_failed_an_attempt() {
    let lab = Lab::pair();
    let case = Case::new(&lab, Has::Offer);
    lab.pass(20_000);
    case.bob.refuse(&case.frame, "no");
    lab.pass(9_999);
    assert_eq!(lab.state(case.id), DeliveryState::Offered);
    lab.pass(1);
    assert_eq!(lab.last("delivery.failed")["reason"], "no_receipt");
}

#[test]
fn silence_is_taken_for_consent_without_knowing() {
    for has in BOTH {
        let lab = Lab::pair();
        let mut case = Case::new(&lab, has);
        lab.pass(29_999);
        assert!(case.cancel.waits(), "{has:?}");
        lab.pass(1);
        case.check_cancelled(Surfaced::Unknown);
    }
}

#[test]
fn a_session_that_is_lost_meanwhile_may_have_shown_it() {
    for has in BOTH {
        let lab = Lab::pair();
        let case = Case::new(&lab, has);
        case.bob.lose_link();
        case.check_cancelled(Surfaced::Unknown);
    }
}

#[test]
fn a_session_that_is_away_cannot_be_asked() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().queueing());
    let id = lab.say("hello");
    bob.accept(&bob.offer());
    bob.lose_link();
    let answer = begin_cancel(&lab, "alice", id).end().unwrap();
    assert_eq!(answer.state, DeliveryState::Cancelled);
    assert_eq!(answer.surfaced, Some(Surfaced::Unknown));
    let back = lab.attach("bob", &Kind::able().queueing().resuming(bob.token()));
    assert_eq!(back.attached.keep, []);
}

#[test]
fn a_session_that_accepts_while_it_is_asked_is_still_asked() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().queueing());
    let id = lab.say("hello");
    let offer = bob.offer();
    let mut cancel = begin_cancel(&lab, "alice", id);
    bob.accept(&offer);
    assert!(cancel.waits());
    bob.confirm(&bob.control());
    assert_eq!(cancel.end().unwrap().state, DeliveryState::Cancelled);
}

#[test]
fn a_session_that_gives_it_back_in_its_own_words_has_given_it_back() {
    for receipt in ["deferred", "failed"] {
        let lab = Lab::pair();
        let case = Case::new(&lab, Has::Offer);
        let receipt = match receipt {
            "deferred" => deferred(lab.later(1_000)),
            _ => failed("busy", Some(true)),
        };
        case.bob.receipt(case.id, None, receipt).unwrap();
        case.check_cancelled(Surfaced::No);
    }
}

#[test]
fn several_who_want_it_back_hear_the_same() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let id = lab.say("hello");
    bob.offer();
    let calls = ["alice", "bob", "key"].map(|who| begin_cancel(&lab, who, id));
    bob.confirm(&bob.control());
    for call in calls {
        assert_eq!(call.end().unwrap().state, DeliveryState::Cancelled);
    }
    assert_eq!(lab.events("delivery.cancelled").len(), 1);
}

#[test]
fn what_has_ended_cannot_be_called_back() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let seen = lab.say("seen");
    bob.deliver(&bob.offer());
    let lost = lab.say("lost");
    bob.answer(&bob.offer(), failed("no", None));
    bob.becomes(AgentStatus::Active);
    let gone = lab.say("gone");
    begin_cancel(&lab, "alice", gone).end().unwrap();
    for (id, code) in [
        (seen, ErrorCode::AlreadyDelivered),
        (lost, ErrorCode::IllegalTransition),
        (gone, ErrorCode::IllegalTransition),
    ] {
        let problem = begin_cancel(&lab, "alice", id).end().unwrap_err().problem();
        assert_eq!((problem.code, problem.status), (code, 409));
    }
}

#[test]
fn author_recipient_and_workspace_may_cancel_and_nobody_else() {
    let lab = Lab::new(["alice", "bob", "carol"]);
    for (who, allowed) in [
        ("alice", true),
        ("bob", true),
        ("key", true),
        ("carol", false),
    ] {
        let id = lab.say("hello");
        let result = begin_cancel(&lab, who, id).end();
        let code = result.err().map(|error| error.code());
        assert_eq!(
            code,
            (!allowed).then_some(ErrorCode::UnknownDelivery),
            "{who}"
        );
    }
}
