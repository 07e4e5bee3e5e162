//! Forks: second sessions made from one, which get what is addressed to them, or act as another agent.

use relay_core::{Caller, Result};
use relay_protocol::agent::AgentType;
use relay_protocol::delivery::{DeliveryState, MessageReceipt};
use relay_protocol::delivery_record::DeliverMessage;
use relay_protocol::ids::{MessageId, SessionId};
use relay_protocol::problem::ErrorCode;
use relay_protocol::session::{ForkSession, SessionForkedAnswer};
use relay_protocol::socket::{ControlOp, ForkGrant};
use relay_protocol::status::AgentStatus;
use serde_json::json;

use super::kit::{Call, Kind, Lab, Session, mail};

pub(super) fn begin_fork<'l>(
    lab: &'l Lab,
    who: &str,
    parent: &Session<'l>,
    as_agent: Option<&str>,
) -> Call<'l, Result<SessionForkedAnswer>> {
    let (engine, caller, id): (_, Caller, SessionId) = (lab.engine(), lab.who(who), parent.id());
    let body = ForkSession {
        as_agent: as_agent.map(str::to_owned),
    };
    lab.begin(async move { engine.fork_session(&caller, id, body).await })
}

/// Forks a session, as its harness would: it takes the grant and says that it is done.
pub(super) fn fork(lab: &Lab, parent: &Session<'_>) -> ForkGrant {
    let call = begin_fork(lab, "key", parent, None);
    let frame = parent.control();
    assert_eq!(frame.op, ControlOp::Fork);
    parent.confirm(&frame);
    let grant = frame.fork.unwrap();
    let answer = call.end().unwrap();
    assert_eq!(answer.session_id, grant.session_id);
    assert_eq!(answer.agent.name, "bob");
    grant
}

fn begin_deliver(
    lab: &Lab,
    message_id: MessageId,
    to: SessionId,
) -> Call<'_, Result<MessageReceipt>> {
    let (engine, key) = (lab.engine(), lab.who("key"));
    let body = DeliverMessage {
        message_id,
        agent: None,
        session_id: Some(to),
        context: None,
    };
    lab.begin(async move { engine.deliver(&key, body).await })
}

#[test]
fn a_fork_gets_only_what_is_addressed_to_it() {
    let lab = Lab::pair();
    let kind = Kind::able().directed();
    let parent = lab.attach("bob", &kind);
    let grant = fork(&lab, &parent);
    let child = lab.attach("bob", &kind.clone().resuming(&grant.resume_token));
    assert_eq!(child.id(), grant.session_id);
    let seen = child.summary();
    assert_eq!(seen.parent_session_id, Some(parent.id()));
    assert_eq!(seen.status, AgentStatus::Idle);
    assert!(parent.is_current() && !child.is_current());
    let told = lab.last("session.forked");
    assert_eq!(told["sessionId"], json!(child.id()));
    assert_eq!(told["parentSessionId"], json!(parent.id()));

    let sent = lab.send("alice", mail("for all"));
    parent.deliver(&parent.offer());
    assert_eq!(child.texts(), [""; 0]);
    let call = begin_deliver(&lab, sent.message_id, child.id());
    assert_eq!(parent.texts(), [""; 0]);
    let offer = child.offer();
    assert_eq!(offer.message.text, "for all");
    child.deliver(&offer);
    assert!(matches!(call.end(), Ok(MessageReceipt::Delivered(_))));
}

#[test]
fn a_fork_never_becomes_current() {
    let lab = Lab::pair();
    let kind = Kind::able().directed();
    let parent = lab.attach("bob", &kind);
    let grant = fork(&lab, &parent);
    let child = lab.attach("bob", &kind.resuming(&grant.resume_token));
    parent.becomes(AgentStatus::Failed);
    let id = lab.say("hello");
    assert!(!child.is_current());
    assert_eq!(child.texts(), [""; 0]);
    assert_eq!(lab.state(id), DeliveryState::Pending);
}

#[test]
fn what_is_for_a_fork_waits_until_it_attaches() {
    let lab = Lab::pair();
    let kind = Kind::able().directed();
    let parent = lab.attach("bob", &kind);
    let grant = fork(&lab, &parent);
    let sent = lab.send("alice", mail("hello"));
    parent.take_all();
    let mut call = begin_deliver(&lab, sent.message_id, grant.session_id);
    assert!(!call.waits(), "Relay holds it");
    let Ok(MessageReceipt::Accepted(held)) = call.end() else {
        panic!("it is held");
    };
    assert_eq!(held.metadata.unwrap()["heldBy"], "relay");
    let child = lab.attach("bob", &kind.resuming(&grant.resume_token));
    assert_eq!(child.offer().context.id, held.delivery_id);
}

#[test]
fn what_only_a_fork_could_get_fails_when_it_ends() {
    let lab = Lab::pair();
    let kind = Kind::able().directed();
    let parent = lab.attach("bob", &kind);
    let grant = fork(&lab, &parent);
    let busy = kind.resuming(&grant.resume_token);
    let child = lab.attach("bob", &busy.doing(AgentStatus::Active));
    let sent = lab.send("alice", mail("hello"));
    parent.take_all();
    let answer = begin_deliver(&lab, sent.message_id, child.id()).end();
    let Ok(MessageReceipt::Accepted(held)) = answer else {
        panic!("it is held: {answer:?}");
    };
    child.becomes(AgentStatus::Failed);
    assert_eq!(lab.state(held.delivery_id), DeliveryState::Failed);
    assert_eq!(lab.last("delivery.failed")["surfaced"], "no");
    assert_eq!(parent.texts(), [""; 0]);
    let again = begin_deliver(&lab, sent.message_id, child.id()).end();
    assert_eq!(again.unwrap_err().code(), ErrorCode::IllegalTransition);
}

#[test]
fn a_fork_that_was_not_made_has_failed() {
    let lab = Lab::pair();
    let kind = Kind::able().directed();
    let parent = lab.attach("bob", &kind);
    let call = begin_fork(&lab, "bob", &parent, None);
    let frame = parent.control();
    parent.refuse(&frame, "no room");
    assert_eq!(call.end().unwrap_err().problem().detail, "no room");
    let grant = frame.fork.unwrap();
    let tried = lab.try_attach("bob", &kind.resuming(&grant.resume_token));
    assert_eq!(tried.err().unwrap().code(), ErrorCode::UnknownSession);
}

#[test]
fn a_fork_as_a_new_agent_has_a_mailbox_of_its_own() {
    let lab = Lab::pair();
    let kind = Kind::able().directed();
    let parent = lab.attach("bob", &kind);
    let refused = begin_fork(&lab, "bob", &parent, Some("carol")).end();
    assert_eq!(refused.unwrap_err().code(), ErrorCode::Forbidden);
    assert_eq!(parent.controls(), []);

    let call = begin_fork(&lab, "key", &parent, Some("@carol"));
    let frame = parent.control();
    assert_eq!(frame.as_agent.as_deref(), Some("carol"));
    parent.confirm(&frame);
    let answer = call.end().unwrap();
    assert_eq!(answer.agent.name, "carol");
    assert_eq!(answer.agent.agent_type, AgentType::Agent);
    assert_eq!(lab.last("agent.registered")["agent"]["name"], "carol");

    let grant = frame.fork.unwrap();
    let kind = kind.resuming(&grant.resume_token);
    // The one who made it attaches it.
    let carol = lab.attach_as("bob", "carol", &kind).unwrap();
    assert!(carol.is_current() && parent.is_current());
    let id = lab.say_to("@carol", "hello");
    let offer = carol.offer();
    assert_eq!((offer.context.id, parent.texts().len()), (id, 0));
    // And goes on to speak for it.
    carol.becomes(AgentStatus::Active);
    carol.deliver(&offer);
    assert_eq!(lab.state(id), DeliveryState::Delivered);
}

#[test]
fn a_name_that_nobody_can_have_is_refused_before_anything_is_asked() {
    let lab = Lab::pair();
    let parent = lab.attach("bob", &Kind::able().directed());
    for (name, code) in [
        ("all", ErrorCode::ReservedName),
        ("a b", ErrorCode::InvalidName),
    ] {
        let tried = begin_fork(&lab, "key", &parent, Some(name)).end();
        assert_eq!(tried.unwrap_err().code(), code);
    }
    assert_eq!(parent.controls(), []);
}
