//! Tables: what of an inbox is told, and what is settled by it.

#![allow(
    clippy::unwrap_used,
    reason = "whatever is not as expected ends the test"
)]

use serde_json::{Value, json};

use super::*;

const CHANNEL: &str = "general";
const CONVERSATION: &str = "01963a5c-0000-7000-8000-0000000000ff";

fn id(number: u64) -> MessageId {
    format!("01963a5c-0000-7000-8000-{number:012x}")
        .parse()
        .unwrap()
}

/// Place, number, state.
type Row = (&'static str, u64, Option<DeliveryState>);

fn inbox(rows: &[Row]) -> Inbox {
    let items: Vec<Value> = rows.iter().map(item).collect();
    serde_json::from_value(json!({
        "items": items,
        "channels": [],
        "conversations": [],
        "mentions": 0,
        "unread": rows.iter().filter(|(_, _, state)| !is_surfaced(*state)).count(),
        "more": false,
    }))
    .unwrap()
}

fn is_surfaced(state: Option<DeliveryState>) -> bool {
    state == Some(DeliveryState::Delivered)
}

fn item((place, number, state): &Row) -> Value {
    let to = match *place {
        "dm" => json!({ "kind": "dm", "conversationId": CONVERSATION }),
        channel => json!({ "kind": "channel", "channelName": channel }),
    };
    let mut item = json!({
        "message": {
            "id": id(*number),
            "messageId": id(*number),
            "from": { "name": "ada", "type": "agent" },
            "to": to,
            "text": "x",
            "attachments": [],
            "mentions": [],
            "createdAt": "2026-11-16T00:00:00.000Z",
            "version": 1,
        },
        "reason": "message",
    });
    if let Some(state) = state {
        item["state"] = json!(state);
    }
    if is_surfaced(*state) {
        item["seenBy"] = json!("session");
    }
    item
}

/// Which messages are told, which are marked, how many are left and held.
fn check(rows: &[Row], on_the_way: &[u64], expected: (&[u64], &[u64], u64, u64)) {
    let inbox = inbox(rows);
    let on_the_way = on_the_way.iter().map(|number| id(*number)).collect();
    let choice = choose(&inbox, &on_the_way, |item| item.message.id.to_string());
    let ids = |numbers: &[u64]| numbers.iter().map(|number| id(*number)).collect();
    let told = Told {
        messages: ids(expected.0),
        marks: ids(expected.1),
        unsurfaced: Vec::new(),
    };
    assert_eq!(choice.told(), told, "{rows:?}");
    assert_eq!(
        (choice.left, choice.held),
        (expected.2, expected.3),
        "{rows:?}"
    );
}

#[test]
fn what_is_told_and_marked() {
    use DeliveryState::{Accepted, Cancelled, Deferred, Delivered, Failed, Offered, Pending};
    let pending = Some(Pending);
    check(&[], &[], (&[], &[], 0, 0));
    // The last of each place is marked.
    check(
        &[
            (CHANNEL, 1, pending),
            ("dm", 2, pending),
            (CHANNEL, 3, None),
        ],
        &[],
        (&[1, 2, 3], &[2, 3], 0, 0),
    );
    // What waits in whatever way, or failed, can be read here.
    check(
        &[(CHANNEL, 1, Some(Deferred)), (CHANNEL, 2, Some(Failed))],
        &[],
        (&[1, 2], &[2], 0, 0),
    );
    // What a session has shown is not told twice, but moves the mark on.
    check(
        &[(CHANNEL, 1, Some(Delivered)), ("dm", 2, Some(Cancelled))],
        &[],
        (&[], &[1, 2], 0, 0),
    );
    // Behind what a session holds nothing is marked, in that place.
    for state in [Offered, Accepted] {
        check(
            &[
                (CHANNEL, 1, pending),
                (CHANNEL, 2, Some(state)),
                (CHANNEL, 3, pending),
                ("dm", 4, pending),
            ],
            &[],
            (&[1, 4], &[1, 4], 0, 2),
        );
    }
    // What was just told is left out; its marks are on their way.
    check(
        &[(CHANNEL, 1, pending), (CHANNEL, 2, pending)],
        &[1],
        (&[2], &[2], 0, 0),
    );
    check(&[(CHANNEL, 1, pending)], &[1], (&[], &[], 0, 0));
}

#[test]
fn an_answer_ends_somewhere() {
    let many: Vec<Row> = (0..CHECKED_MESSAGES as u64 + 5)
        .map(|number| (CHANNEL, number, Some(DeliveryState::Pending)))
        .collect();
    let inbox = inbox(&many);
    let none = HashSet::new();
    let choice = choose(&inbox, &none, |_| "x".to_owned());
    assert_eq!((choice.shown.len(), choice.left), (CHECKED_MESSAGES, 5));
    let last = id(CHECKED_MESSAGES as u64 - 1);
    assert_eq!(choice.told().marks, [last], "not further than what is told");
    // However long, one is told; and no second one that does not fit.
    let choice = choose(&inbox, &none, |_| "x".repeat(CHECKED_BYTES + 1));
    assert_eq!(choice.told().messages, [id(0)]);
    assert_eq!(choice.told().marks, [id(0)]);
}

#[test]
fn the_answer_in_words() {
    let choice = |shown: &[&str], left, held| Choice {
        shown: shown
            .iter()
            .map(|text| (id(1), (*text).to_owned()))
            .collect(),
        marks: Vec::new(),
        left,
        held,
    };
    for (choice, expected) in [
        (choice(&[], 0, 0), "nothing new"),
        (choice(&["a", "b"], 0, 0), "a|b"),
        (choice(&["a"], 3, 0), "a|3 more: check again"),
        (
            choice(&[], 0, 1),
            "nothing new|1 message with your session, which will show them",
        ),
    ] {
        assert_eq!(choice.into_text().join("|"), expected);
    }
}

#[test]
fn what_is_flushed() {
    assert_eq!(flushed_mode("all"), Ok(None));
    assert_eq!(flushed_mode("manual"), Ok(Some(DeliveryMode::Manual)));
    assert!(flushed_mode("later").unwrap_err().starts_with("flush: "));
    assert_eq!(flushed(&[]), "released: nothing was held back");
    let delivery = "01963a5c-0000-7000-8000-000000000001";
    let receipts: Vec<MessageReceipt> = serde_json::from_value(json!([
        { "status": "delivered", "deliveryId": delivery },
        { "status": "deferred", "availableAt": "2026-11-16T00:00:00.000Z" },
        { "status": "delivered", "deliveryId": delivery },
    ]))
    .unwrap();
    assert_eq!(flushed(&receipts), "released: 1 deferred, 2 delivered");
}
