//! The inbox tells what was surfaced by a session from what nobody has seen.

use relay_core::PageQuery;
use relay_protocol::api::messages::{Inbox, SeenBy};
use relay_protocol::status::AgentStatus;

use super::kit::{Kind, Lab, failed, mail, now};

fn inbox(lab: &Lab, limit: u32) -> Inbox {
    lab.step();
    let page = PageQuery {
        cursor: None,
        limit: Some(limit),
    };
    now(lab.engine().inbox(&lab.who("bob"), page)).unwrap()
}

/// The texts of an inbox, those in brackets that a session has surfaced.
fn texts(inbox: &Inbox) -> Vec<String> {
    let items = inbox.items.iter();
    let texts = items.map(|item| match item.seen_by {
        Some(SeenBy::Session) => format!("[{}]", item.message.text),
        None => item.message.text.clone(),
    });
    texts.collect()
}

#[test]
fn what_a_session_has_surfaced_is_seen_and_not_unread() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    for text in ["one", "two"] {
        lab.say(text);
    }
    lab.say_to("#general", "hello @bob");
    assert_eq!(bob.take_all().len(), 3);
    let found = inbox(&lab, 50);
    assert_eq!(texts(&found), ["[one]", "[two]", "[hello @bob]"]);
    assert_eq!((found.unread, found.seen, found.mentions), (0, 3, 0));
    assert_eq!((found.channels.len(), found.conversations.len()), (0, 0));
    let who = lab.who("bob");
    let conversations = lab.engine().conversations(&who, PageQuery::default());
    assert_eq!(now(conversations).unwrap().items[0].unread, 0);
    // What waits, and what has failed, nobody has seen.
    bob.becomes(AgentStatus::Active);
    lab.say("three");
    let found = inbox(&lab, 50);
    assert_eq!(texts(&found), ["[one]", "[two]", "[hello @bob]", "three"]);
    assert_eq!((found.unread, found.seen), (1, 3));
    bob.becomes(AgentStatus::Idle);
    bob.answer(&bob.offer(), failed("no hands", None));
    assert_eq!(inbox(&lab, 50).unread, 1);
    // Reading is for both.
    let taken = lab.engine().take_inbox(&who, PageQuery::default());
    assert_eq!(lab.drive(taken).unwrap().items.len(), 4);
    assert_eq!(texts(&inbox(&lab, 50)), [""; 0]);
}

#[test]
fn what_was_delivered_once_more_is_seen() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let sent = lab.send("alice", mail("hello"));
    bob.answer(&bob.offer(), failed("no hands", None));
    assert_eq!(inbox(&lab, 50).unread, 1);
    let again = relay_protocol::delivery_record::DeliverMessage {
        message_id: sent.message_id,
        agent: Some("bob".to_owned()),
        session_id: None,
        context: None,
    };
    let key = lab.who("key");
    let call = lab.begin(lab.engine().deliver(&key, again));
    bob.deliver(&bob.offer());
    call.end().unwrap();
    let found = inbox(&lab, 50);
    assert_eq!(
        (texts(&found), found.unread),
        (vec!["[hello]".to_owned()], 0)
    );
}

#[test]
fn what_nobody_has_seen_comes_first_where_there_is_little_room() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    for text in ["one", "two", "three"] {
        lab.say(text);
    }
    bob.take_all();
    bob.becomes(AgentStatus::Active);
    for text in ["four", "five"] {
        lab.say(text);
    }
    assert_eq!(texts(&inbox(&lab, 3)), ["[three]", "four", "five"]);
    assert_eq!(texts(&inbox(&lab, 2)), ["four", "five"]);
    let found = inbox(&lab, 1);
    assert_eq!((texts(&found), found.more), (vec!["four".to_owned()], true));
    assert_eq!((found.unread, found.seen), (2, 3));
}

#[test]
fn a_page_never_passes_over_what_has_no_room() {
    let lab = Lab::pair();
    lab.say("one");
    lab.say("two");
    let bob = lab.attach("bob", &Kind::able());
    let offers = bob.offers();
    // The later one is surfaced, the earlier ones are not.
    bob.deliver(&offers[1]);
    let found = inbox(&lab, 50);
    assert_eq!(texts(&found), ["one", "[two]"]);
    lab.say("three");
    bob.deliver(&bob.offer());
    lab.say_to("#general", "four");
    let page = PageQuery {
        cursor: None,
        limit: Some(1),
    };
    let taken = lab
        .drive(lab.engine().take_inbox(&lab.who("bob"), page))
        .unwrap();
    assert_eq!(texts(&taken), ["one"]);
    assert_eq!(texts(&inbox(&lab, 50)), ["[two]", "[three]", "four"]);
}
