//! Pages, cursors and ids that are not from here.

use relay_core::PageQuery;
use relay_protocol::api::messages::{ReplyMessage, SendMessage};
use relay_protocol::ids::{ConversationId, DeliveryId, MessageId};
use relay_protocol::limits::{PAGE_ITEMS, PAGE_ITEMS_DEFAULT};
use relay_protocol::message::{ConversationTarget, RelayMessageTarget};
use relay_protocol::problem::ErrorCode;
use relay_protocol::selector::Selector;

use super::{Lab, post};
use crate::support::{START, all, page, page_after};

#[tokio::test]
async fn pages_that_are_none() {
    let lab = Lab::new().await;
    let (engine, alice, key) = (&lab.engine, &lab.alice, &lab.key);
    use ErrorCode::{BadCursor, InvalidRequest};
    let sent = engine.send(alice, post("root")).await.unwrap();
    lab.send(alice, "@bob", "hello").await;
    let most = u32::try_from(PAGE_ITEMS).unwrap();
    let conversation = engine.conversations(alice, all()).await.unwrap().items[0].conversation_id;
    let limits = [(page(0), InvalidRequest), (page(most + 1), InvalidRequest)];
    let far = (1_u64 << 40).to_string();
    let no_places = [
        "",
        "x",
        "-1",
        "1.5",
        "99999999999999999999",
        &far,
        "18446744073709551615",
    ];
    let places = no_places.map(|cursor| (page_after(cursor), BadCursor));
    let no_names = ["", "a b", "ünal", "#dev", "UPPER"];
    let names = no_names.map(|cursor| (page_after(cursor), BadCursor));
    for (query, code) in limits.iter().chain(&places).cloned() {
        let q = || query.clone();
        let name = &format!("{query:?}");
        lab.refuses(name, code, engine.channel_messages(alice, "dev", q()))
            .await;
        let messages = engine.conversation_messages(alice, conversation, q());
        lab.refuses(name, code, messages).await;
        lab.refuses(name, code, engine.thread(alice, sent.message_id, q()))
            .await;
        lab.refuses(name, code, engine.conversations(alice, q()))
            .await;
        lab.refuses(name, code, engine.inbox(alice, q())).await;
        lab.refuses(name, code, engine.take_inbox(alice, q())).await;
    }
    for (query, code) in limits.iter().chain(&names).cloned() {
        let q = || query.clone();
        let name = &format!("{query:?}");
        lab.refuses(name, code, engine.agents(alice, q())).await;
        lab.refuses(name, code, engine.channels(alice, q())).await;
        lab.refuses(name, code, engine.channel_members(alice, "dev", q()))
            .await;
    }
    let head = lab.head().await.seq;
    let selector = Selector::all();
    for after in [head + 1, 1 << 40, u64::MAX] {
        let events = engine.events(key, &selector, after, None);
        lab.refuses("after the end", BadCursor, events).await;
        let follow = engine.subscribe(key, selector.clone(), Some(after));
        lab.refuses("after the end", BadCursor, follow).await;
    }
    for limit in [0, most + 1] {
        let events = engine.events(key, &selector, 0, Some(limit));
        lab.refuses("limit", InvalidRequest, events).await;
    }
    for seq in [0, head + 1, 1 << 40, u64::MAX] {
        let erase = engine.audit_erase(key, vec![1, seq], "why");
        lab.refuses("erased", BadCursor, erase).await;
    }
    let report = engine.audit_verify(key).await.unwrap();
    assert_eq!(report.erased, 0, "one bad number, and none was erased");
    engine
        .events(key, &selector, head, Some(most))
        .await
        .unwrap();

    for no in 0..PAGE_ITEMS_DEFAULT {
        lab.send(alice, "#general", &no.to_string()).await;
    }
    let default = || engine.channel_messages(alice, "general", PageQuery::default());
    assert_eq!(default().await.unwrap().next_cursor, None);
    lab.send(alice, "#general", "one more").await;
    let page = default().await.unwrap();
    assert_eq!(page.items.len(), PAGE_ITEMS_DEFAULT);
    assert!(page.next_cursor.is_some());
}

#[tokio::test]
async fn ids_that_are_not_from_here() {
    let lab = Lab::new().await;
    let (engine, alice, key) = (&lab.engine, &lab.alice, &lab.key);
    use ErrorCode::{UnknownConversation, UnknownDelivery, UnknownMessage};
    let (foreign_key, _, foreign_message, foreign_delivery) = lab.foreign().await;
    let mine = engine.send(alice, post("mine")).await.unwrap();
    let secret = lab.send(&lab.bob, "@carol", "secret").await;
    let other_kind = MessageId::from_uuid(mine.deliveries[0].delivery_id.uuid());
    let other_time = relay_protocol::ids::uuid_v7_parts(mine.message_id.uuid()).unwrap();
    let (at, high, low) = other_time;
    let other_time = relay_protocol::ids::uuid_v7(at.plus_millis(1), high, low);
    let other_time = MessageId::from_uuid(other_time);
    let unknown = [
        ("made up", MessageId::new(START, 1)),
        ("of another workspace", foreign_message),
        ("of a foreign conversation", secret.message_id),
        ("of a delivery", other_kind),
        ("of another time", other_time),
        ("not of version 7", MessageId::from_uuid(uuid::Uuid::nil())),
    ];
    for (name, id) in unknown {
        lab.refuses(name, UnknownMessage, engine.message(alice, id))
            .await;
        lab.refuses(name, UnknownMessage, engine.thread(alice, id, all()))
            .await;
        lab.refuses(name, UnknownMessage, engine.readers(alice, id))
            .await;
        lab.refuses(name, UnknownMessage, engine.deliveries(alice, id))
            .await;
        lab.refuses(name, UnknownMessage, engine.mark_read(alice, id))
            .await;
        lab.refuses(name, UnknownMessage, engine.react(alice, id, ":eyes:"))
            .await;
        lab.refuses(name, UnknownMessage, engine.unreact(alice, id, ":eyes:"))
            .await;
        let edit = engine.edit_message(alice, id, "x".to_owned());
        lab.refuses(name, UnknownMessage, edit).await;
        let reply = engine.reply(alice, id, ReplyMessage::text("x"));
        lab.refuses(name, UnknownMessage, reply).await;
        let body = SendMessage {
            reply_to: Some(id),
            ..post("x")
        };
        lab.refuses_send(name, UnknownMessage, body).await;
    }
    let unknown = [
        ("made up", alice, DeliveryId::new(START, 1)),
        ("of another workspace", key, foreign_delivery),
        ("of others", alice, secret.deliveries[0].delivery_id),
        (
            "of a message",
            alice,
            DeliveryId::from_uuid(mine.message_id.uuid()),
        ),
    ];
    for (name, caller, id) in unknown {
        lab.refuses(name, UnknownDelivery, engine.delivery(caller, id))
            .await;
    }
    let RelayMessageTarget::Dm(ConversationTarget { conversation_id }) = secret.message.to else {
        panic!("{:?}", secret.message.to)
    };
    let unknown = [
        ("made up", alice, ConversationId::new(START, 1)),
        ("of others", alice, conversation_id),
        ("of another workspace", &foreign_key, conversation_id),
    ];
    for (name, caller, id) in unknown {
        let messages = engine.conversation_messages(caller, id, all());
        lab.refuses(name, UnknownConversation, messages).await;
    }
    let general = engine.channel(alice, "general").await.unwrap().id;
    let id = ConversationId::from_uuid(general.uuid());
    let messages = engine.conversation_messages(alice, id, all());
    lab.refuses("of a channel", UnknownConversation, messages)
        .await;
}
