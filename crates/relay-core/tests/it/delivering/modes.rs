//! When a message is offered: five modes and none, to sessions that queue and sessions that don't, in
//! every state, at every boundary.

use relay_protocol::api::messages::SendMessage;
use relay_protocol::delivery::{DeliveryMode, DeliveryState, Priority};
use relay_protocol::delivery_record::Flush;
use relay_protocol::policy::PolicyPatch;
use relay_protocol::session::BoundaryKind;
use relay_protocol::status::AgentStatus;
use serde_json::json;

use super::kit::{Kind, Lab, Session, mail, minimum};

/// Something that may open a boundary.
#[derive(Clone, Copy, Debug)]
enum Trigger {
    ToolCompleted,
    ToolFailed,
    At(BoundaryKind),
    Becomes(AgentStatus),
    Flush,
}

const TRIGGERS: [Trigger; 9] = [
    Trigger::ToolCompleted,
    Trigger::ToolFailed,
    Trigger::At(BoundaryKind::NextToolCall),
    Trigger::At(BoundaryKind::NextMessage),
    Trigger::At(BoundaryKind::OnIdle),
    Trigger::Becomes(AgentStatus::Idle),
    Trigger::Becomes(AgentStatus::Waiting),
    Trigger::Becomes(AgentStatus::Blocked),
    Trigger::Flush,
];

/// What opens for a session that is at work and does not queue, in the order of the triggers.
const OPENS: [(Option<DeliveryMode>, &str); 5] = [
    (Some(DeliveryMode::NextMessage), "...y....y"),
    (Some(DeliveryMode::NextToolCall), "yyy.....y"),
    (Some(DeliveryMode::OnIdle), "....yyyyy"),
    (Some(DeliveryMode::Manual), "........y"),
    (None, "yyyyyyyyy"),
];

fn pull(lab: &Lab, bob: &Session<'_>, trigger: Trigger) {
    match trigger {
        Trigger::ToolCompleted => bob.ran_a_tool(),
        Trigger::ToolFailed => {
            let event = json!({ "type": "tool.failed", "tool": "bash", "error": "no" });
            bob.report(event).unwrap();
        }
        Trigger::At(kind) => bob.stands_at(kind),
        Trigger::Becomes(status) => bob.becomes(status),
        Trigger::Flush => {
            let key = lab.who("key");
            lab.begin(lab.engine().flush(&key, "bob", Flush::default()));
        }
    }
}

fn asking(mode: Option<DeliveryMode>) -> SendMessage {
    SendMessage {
        mode,
        ..mail("hello")
    }
}

#[test]
fn every_boundary_opens_what_waits_for_it() {
    for (mode, row) in OPENS {
        for (trigger, rule) in TRIGGERS.into_iter().zip(row.chars()) {
            let lab = Lab::pair();
            let bob = lab.attach("bob", &Kind::able().doing(AgentStatus::Active));
            lab.post(asking(mode));
            lab.pass(60_000);
            assert_eq!(bob.texts(), [""; 0], "{mode:?} waits");
            pull(&lab, &bob, trigger);
            let opened = bob.offers().len();
            assert_eq!(opened, usize::from(rule == 'y'), "{mode:?} at {trigger:?}");
        }
    }
}

#[test]
fn a_boundary_is_open_for_a_moment_only() {
    for kind in BoundaryKind::ALL {
        let lab = Lab::pair();
        let bob = lab.attach("bob", &Kind::able().doing(AgentStatus::Active));
        bob.stands_at(*kind);
        lab.step();
        lab.post(asking(Some(kind.mode())));
        assert_eq!(bob.texts(), [""; 0], "{kind} is over");
        bob.stands_at(*kind);
        assert_eq!(bob.texts(), ["hello"]);
    }
}

/// What is offered at once in each state: `y` for a session that queues, `Y` for one that doesn't, too.
/// Columns are the states that a session can attach or be in without having ended, in this order:
/// starting active idle waiting blocked paused.
const AT_ONCE: [(Option<DeliveryMode>, &str); 6] = [
    (Some(DeliveryMode::Immediate), ".YYYY."),
    (Some(DeliveryMode::NextMessage), ".yyyy."),
    (Some(DeliveryMode::NextToolCall), ".yyyy."),
    (Some(DeliveryMode::OnIdle), ".yYYY."),
    (Some(DeliveryMode::Manual), ".yyyy."),
    (None, ".yYYY."),
];

#[test]
fn what_is_offered_at_once_depends_on_mode_status_and_queue() {
    let states = [
        AgentStatus::Starting,
        AgentStatus::Active,
        AgentStatus::Idle,
        AgentStatus::Waiting,
        AgentStatus::Blocked,
        AgentStatus::Paused,
    ];
    for (mode, row) in AT_ONCE {
        for (status, rule) in states.into_iter().zip(row.chars()) {
            for queues in [false, true] {
                let open = rule == 'Y' || (rule == 'y' && queues);
                let offered = offered_at_once(mode, status, queues);
                assert_eq!(offered, open, "{mode:?} in {status}, queues: {queues}");
            }
        }
    }
}

fn offered_at_once(mode: Option<DeliveryMode>, status: AgentStatus, queues: bool) -> bool {
    let lab = Lab::pair();
    let kind = Kind::able().directed();
    let kind = if queues { kind.queueing() } else { kind };
    let bob = match status {
        AgentStatus::Starting => lab.attach("bob", &kind.doing(status)),
        _ => {
            let bob = lab.attach("bob", &kind);
            bob.becomes(status);
            bob
        }
    };
    lab.post(asking(mode));
    !bob.offers().is_empty()
}

#[test]
fn the_mode_of_an_offer_is_the_boundary_that_opened() {
    let cases = [
        (Trigger::ToolCompleted, DeliveryMode::NextToolCall),
        (
            Trigger::At(BoundaryKind::NextMessage),
            DeliveryMode::NextMessage,
        ),
        (Trigger::Becomes(AgentStatus::Idle), DeliveryMode::OnIdle),
        (Trigger::Flush, DeliveryMode::Manual),
    ];
    for (trigger, mode) in cases {
        let lab = Lab::pair();
        let bob = lab.attach("bob", &Kind::able().doing(AgentStatus::Active));
        let id = lab.say("hello");
        pull(&lab, &bob, trigger);
        assert_eq!(bob.offer().context.mode, mode, "{trigger:?}");
        let delivery = lab.delivery(id);
        assert_eq!(delivery.requested_mode, None);
        assert_eq!(delivery.mode, Some(mode));
    }
}

#[test]
fn a_state_is_open_while_it_lasts_and_not_only_when_it_begins() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::polite());
    lab.pass(3_600_000);
    lab.say("to one who has long been idle");
    assert_eq!(bob.texts().len(), 1);
    bob.becomes(AgentStatus::Active);
    lab.say("to one at work");
    assert_eq!(bob.texts(), [""; 0]);
    bob.becomes(AgentStatus::Idle);
    assert_eq!(bob.texts(), ["to one at work"]);
}

#[test]
fn a_harness_says_in_which_states_it_can_be_given_something() {
    let lab = Lab::pair();
    let kind = Kind::polite()
        .safe_in(&[AgentStatus::Idle])
        .doing(AgentStatus::Active);
    let bob = lab.attach("bob", &kind);
    lab.say("hello");
    bob.becomes(AgentStatus::Waiting);
    bob.becomes(AgentStatus::Blocked);
    assert_eq!(bob.texts(), [""; 0]);
    bob.becomes(AgentStatus::Idle);
    assert_eq!(bob.texts(), ["hello"]);
}

#[test]
fn urgent_opens_no_boundary() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().doing(AgentStatus::Active));
    lab.post(SendMessage {
        priority: Some(Priority::Urgent),
        ..mail("now!")
    });
    lab.pass(60_000);
    assert_eq!(bob.texts(), [""; 0]);
}

/// Regression: a default send interrupted a session that supports none of the policy's boundaries.
#[test]
fn one_that_knows_no_boundary_is_not_interrupted() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &minimum().doing(AgentStatus::Active));
    let id = lab.say("hello");
    assert_eq!(bob.texts(), [""; 0]);
    let why = "the session supports none of the policy's boundaries: the session is active";
    let waiting = lab.delivery(id).waiting.unwrap();
    assert_eq!(waiting.why, why);
    assert_eq!(waiting.waits_for, Some(DeliveryMode::OnIdle));
    bob.becomes(AgentStatus::Idle);
    assert_eq!(bob.offer().context.mode, DeliveryMode::Immediate);
    let why = "the session supports none of the policy's boundaries: the session is idle";
    assert_eq!(lab.delivery(id).mode_reason.as_deref(), Some(why));
}

/// Regression: the same for a session that has another boundary than the policy wants.
#[test]
fn a_policy_that_the_session_lacks_falls_to_the_next_safe_boundary() {
    let lab = Lab::pair();
    lab.policy(PolicyPatch {
        boundaries: Some(vec![DeliveryMode::NextToolCall]),
        ..PolicyPatch::default()
    });
    let modes = [
        DeliveryMode::Immediate,
        DeliveryMode::NextMessage,
        DeliveryMode::OnIdle,
    ];
    let bob = lab.attach("bob", &Kind::of(&modes).doing(AgentStatus::Active));
    lab.say("one");
    assert_eq!(bob.texts(), [""; 0]);
    bob.stands_at(BoundaryKind::NextMessage);
    assert_eq!(bob.offer().context.mode, DeliveryMode::NextMessage);
    lab.say("two");
    bob.becomes(AgentStatus::Idle);
    assert_eq!(bob.offer().context.mode, DeliveryMode::OnIdle);
}

#[test]
fn one_at_rest_that_can_be_interrupted_gets_it_now() {
    let lab = Lab::pair();
    let modes = [DeliveryMode::Immediate, DeliveryMode::NextMessage];
    let bob = lab.attach("bob", &Kind::of(&modes));
    lab.say("to one at rest");
    assert_eq!(bob.offer().context.mode, DeliveryMode::Immediate);
    bob.becomes(AgentStatus::Active);
    lab.say("to one at work");
    assert_eq!(bob.texts(), [""; 0]);
    bob.stands_at(BoundaryKind::NextMessage);
    assert_eq!(bob.offer().context.mode, DeliveryMode::NextMessage);
}

#[test]
fn one_that_can_only_be_flushed_waits_for_that() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::of(&[DeliveryMode::Manual]));
    let id = lab.say("hello");
    bob.ran_a_tool();
    for kind in BoundaryKind::ALL {
        bob.stands_at(*kind);
    }
    lab.pass(60_000);
    assert_eq!(bob.texts(), [""; 0]);
    assert_eq!(lab.state(id), DeliveryState::Pending);
    pull(&lab, &bob, Trigger::Flush);
    let offer = bob.offer();
    assert_eq!(
        (offer.context.id, offer.context.mode),
        (id, DeliveryMode::Manual)
    );
}

#[test]
fn the_policy_says_which_boundaries_are_wanted() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().doing(AgentStatus::Active));
    lab.policy(PolicyPatch {
        boundaries: Some(vec![DeliveryMode::NextMessage]),
        ..PolicyPatch::default()
    });
    lab.say("one");
    bob.ran_a_tool();
    bob.stands_at(BoundaryKind::NextToolCall);
    assert_eq!(bob.texts(), [""; 0]);
    bob.stands_at(BoundaryKind::NextMessage);
    assert_eq!(bob.texts(), ["one"]);
    lab.policy(PolicyPatch {
        boundaries: Some(vec![]),
        ..PolicyPatch::default()
    });
    lab.say("two");
    assert_eq!(
        bob.texts(),
        [""; 0],
        "nothing is wanted, but it is not interrupted"
    );
    bob.stands_at(BoundaryKind::NextToolCall);
    assert_eq!(bob.offer().context.mode, DeliveryMode::NextToolCall);
}

#[test]
fn what_waits_shows_the_message_as_it_is_now() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::polite().doing(AgentStatus::Active));
    let sent = lab.send("alice", mail("first"));
    let alice = lab.who("alice");
    let edit = lab
        .engine()
        .edit_message(&alice, sent.message_id, "second".to_owned());
    lab.drive(edit).unwrap();
    bob.becomes(AgentStatus::Idle);
    let offer = bob.offer();
    assert_eq!(
        (offer.message.text.as_str(), offer.message.version),
        ("second", 2)
    );
    bob.deliver(&offer);
    let edit = lab
        .engine()
        .edit_message(&alice, sent.message_id, "third".to_owned());
    lab.drive(edit).unwrap();
    assert_eq!(bob.texts(), [""; 0]);
}
