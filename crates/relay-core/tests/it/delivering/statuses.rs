//! What sessions say about themselves, and which of the ten states may follow which.

use relay_protocol::problem::ErrorCode;
use relay_protocol::status::AgentStatus;
use serde_json::json;

use super::kit::{Kind, Lab, Session, minimum};

/// Rows are what a session is doing, columns what it reports next, both in the order of `ALL`: starting
/// active idle waiting blocked paused releasing released offline failed. `y` is taken, `p` only from
/// one that can be paused, `.` never.
const TABLE: [(&str, &str); 10] = [
    ("starting", "yyyyy...yy"),
    ("active", ".yyyyp..yy"),
    ("idle", ".yyyyp..yy"),
    ("waiting", ".yyyyp..yy"),
    ("blocked", ".yyyyp..yy"),
    ("paused", ".yyyyy..yy"),
    ("releasing", "......y.yy"),
    ("released", ".........."),
    ("offline", ".yyyyp..yy"),
    ("failed", ".........."),
];

/// Brings a session that attaches into a state.
fn bring<'l>(lab: &'l Lab, kind: &Kind, to: AgentStatus) -> Session<'l> {
    let starting = to == AgentStatus::Starting;
    let kind = kind.clone();
    let kind = if starting { kind.doing(to) } else { kind };
    let session = lab.attach("bob", &kind);
    match to {
        AgentStatus::Starting => {}
        AgentStatus::Releasing | AgentStatus::Released => {
            let mut release = session.begin_release();
            assert!(release.waits());
            if to == AgentStatus::Released {
                session.confirm(&session.control());
                release.end().unwrap();
            }
        }
        other => session.becomes(other),
    }
    assert_eq!(session.summary().status, to);
    session
}

#[test]
fn reports_of_every_status_in_every_state() {
    for can_pause in [false, true] {
        let lab = Lab::pair();
        let kind = if can_pause {
            Kind::able().directed()
        } else {
            Kind::able()
        };
        for (&from, (name, row)) in AgentStatus::ALL.iter().zip(TABLE) {
            assert_eq!(from.as_str(), name);
            if from == AgentStatus::Paused && !can_pause {
                continue;
            }
            for (&to, rule) in AgentStatus::ALL.iter().zip(row.chars()) {
                let legal = rule == 'y' || (rule == 'p' && can_pause);
                let session = bring(&lab, &kind, from);
                check(&session, from, to, legal);
            }
        }
    }
}

fn check(session: &Session<'_>, from: AgentStatus, to: AgentStatus, legal: bool) {
    let report = session.report(json!({ "type": "status.changed", "status": to }));
    let then = session.summary().status;
    match report {
        Ok(_) => assert!(legal && then == to, "{from} to {to} was taken"),
        Err(error) => {
            let problem = error.problem();
            assert!(!legal && then == from, "{from} to {to}: {}", problem.detail);
            assert_eq!(problem.code, ErrorCode::IllegalTransition);
            assert!(problem.detail.contains(from.as_str()), "{}", problem.detail);
            // One that has ended is told that instead, whatever it reports.
            let named = from.is_terminal() || problem.detail.contains(to.as_str());
            assert!(named, "{}", problem.detail);
        }
    }
}

#[test]
fn a_status_is_told_with_the_one_before() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &minimum());
    let started = lab.last("agent.status.changed");
    assert_eq!(started["status"], "idle");
    assert_eq!(started.get("previousStatus"), None);
    let event = json!({ "type": "status.changed", "status": "waiting", "previousStatus": "blocked",
                        "reason": "for a tool" });
    bob.report(event).unwrap();
    for name in ["agent.status.changed", "agent.status.waiting"] {
        let told = lab.last(name);
        assert_eq!(told["agentName"], "bob");
        assert_eq!(told["sessionId"], json!(bob.id()));
        assert_eq!(
            [&told["status"], &told["previousStatus"]],
            ["waiting", "idle"]
        );
        assert_eq!(told["reason"], "for a tool");
    }
}

#[test]
fn the_same_status_again_is_taken_and_not_told() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &minimum());
    let before = lab.log().len();
    bob.becomes(AgentStatus::Idle);
    assert_eq!(lab.log().len(), before);
}

#[test]
fn a_failed_session_has_ended() {
    let lab = Lab::pair();
    let old = lab.attach("bob", &Kind::able());
    let new = lab.attach("bob", &Kind::able().queueing());
    let [held, open] = ["held", "open"].map(|text| lab.say(text));
    let offers = new.offers();
    new.accept(&offers[0]);
    new.becomes(AgentStatus::Failed);
    let seen = new.summary();
    assert_eq!(seen.status, AgentStatus::Failed);
    assert_eq!(seen.ended_at, Some(lab.now()));
    assert!(new.closed().is_some());
    let passed_on: Vec<_> = old.offers().iter().map(|offer| offer.context.id).collect();
    assert_eq!(passed_on, [held, open]);
    assert_eq!(lab.last("delivery.deferred")["reason"], "session_failed");
    let again = lab.try_attach("bob", &Kind::able().resuming(new.token()));
    assert_eq!(again.err().unwrap().code(), ErrorCode::UnknownSession);
}
