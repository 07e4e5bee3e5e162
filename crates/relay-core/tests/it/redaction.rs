//! What the policy `messages.redact` makes of secrets in message text: nothing, a mask, or a refusal.

use relay_core::{Error, Upload};
use relay_protocol::api::messages::{NewAttachment, NoticeCode, ReplyMessage, SendMessage};
use relay_protocol::policy::{MessagePolicy, PolicyPatch, RedactMessages};
use relay_protocol::problem::ErrorCode;

use crate::support::{SqliteWorld, World, inline_text, target};

/// A token that never was one, put together here so that no scanner takes this file for a leak.
fn secret(filler: char) -> String {
    format!("{}{}", ["gh", "p_"].concat(), filler.to_string().repeat(36))
}

async fn world(redact: RedactMessages) -> SqliteWorld {
    let world = SqliteWorld::new().await;
    set(&world, redact).await;
    world
}

async fn set(world: &World, redact: RedactMessages) {
    let patch = PolicyPatch {
        messages: Some(MessagePolicy { redact }),
        ..PolicyPatch::default()
    };
    world.engine.update_policy(&world.key, patch).await.unwrap();
}

async fn everything(world: &World) -> String {
    format!("{:?}", world.dump().await)
}

#[tokio::test]
async fn without_a_policy_the_text_is_the_senders() {
    let world = world(RedactMessages::Off).await;
    let [alice, _bob] = world.agents(["alice", "bob"]).await;
    let text = format!("use {}", secret('a'));
    let sent = world.send(&alice, "@bob", &text).await;
    assert_eq!((sent.message.text.clone(), sent.notices), (text, None));
}

#[tokio::test]
async fn masked_secrets_are_stored_nowhere() {
    let world = world(RedactMessages::Mask).await;
    let [alice, bob] = world.agents(["alice", "bob"]).await;
    let secret = secret('b');
    let text = format!("use {secret}, @bob");
    let sent = world.send(&alice, "@bob", &text).await;
    assert!(!sent.message.text.contains(&secret));
    assert!(sent.message.text.starts_with("use "));
    assert_eq!(sent.message.mentions, ["bob"]);
    let codes: Vec<_> = sent
        .notices
        .unwrap()
        .iter()
        .map(|notice| notice.code)
        .collect();
    assert_eq!(codes, [NoticeCode::Redacted]);
    let reply = ReplyMessage::text(text.clone());
    let reply = world
        .engine
        .reply(&bob, sent.message_id, reply)
        .await
        .unwrap();
    assert!(!reply.message.text.contains(&secret));
    let edited = world
        .engine
        .edit_message(&alice, sent.message_id, text)
        .await
        .unwrap();
    assert!(!edited.text.contains(&secret));
    assert!(!everything(&world).await.contains(&secret));
    let plain = world.send(&alice, "@bob", "nothing to hide").await;
    assert_eq!(
        (plain.message.text.as_str(), plain.notices),
        ("nothing to hide", None)
    );
    world.check_log().await;
}

#[tokio::test]
async fn refused_secrets_change_nothing() {
    let world = world(RedactMessages::Refuse).await;
    let [alice, bob] = world.agents(["alice", "bob"]).await;
    let sent = world.send(&alice, "@bob", "hello").await;
    let before = world.dump().await;
    let text = format!("use {}", secret('c'));
    let send = world.try_send(&alice, "@bob", &text).await;
    assert_eq!(send.unwrap_err(), Error::SecretRefused);
    let reply = ReplyMessage::text(text.clone());
    let reply = world.engine.reply(&bob, sent.message_id, reply).await;
    assert_eq!(reply.unwrap_err(), Error::SecretRefused);
    let edit = world
        .engine
        .edit_message(&alice, sent.message_id, text)
        .await;
    assert_eq!(edit.unwrap_err(), Error::SecretRefused);
    assert_eq!(world.dump().await, before);
    assert_eq!(Error::SecretRefused.problem().status, 422);
}

#[tokio::test]
async fn repetitions_are_compared_before_redaction() {
    let world = world(RedactMessages::Mask).await;
    let [alice, _bob] = world.agents(["alice", "bob"]).await;
    let body = |filler| SendMessage {
        idempotency_key: Some("key".to_owned()),
        ..SendMessage::text(target("@bob"), secret(filler))
    };
    let first = world.engine.send(&alice, body('d')).await.unwrap();
    let again = world.engine.send(&alice, body('d')).await.unwrap();
    assert_eq!(again, first);
    let other = world.engine.send(&alice, body('e')).await;
    assert_eq!(other.unwrap_err().code(), ErrorCode::IdempotencyConflict);
    // What was stored once is not refused when it is asked for again.
    set(&world, RedactMessages::Refuse).await;
    let again = world.engine.send(&alice, body('d')).await.unwrap();
    assert_eq!(again, first);
}

/// The policy looked at the text alone: what else models read of a message went through.
#[tokio::test]
async fn metadata_and_text_attachments_are_covered_by_the_policy() {
    let secret = secret('f');
    let with_metadata = |secret: &str| SendMessage {
        metadata: serde_json::json!({ "note": format!("use {secret}") })
            .as_object()
            .cloned(),
        ..SendMessage::text(target("@bob"), "hello")
    };
    let with_content = |secret: &str| SendMessage {
        attachments: Some(vec![inline_text(&format!("use {secret}"))]),
        ..SendMessage::text(target("@bob"), "hello")
    };
    let with_name = |secret: &str| SendMessage {
        attachments: Some(vec![NewAttachment {
            name: Some(format!("{secret}.txt")),
            ..inline_text("plain")
        }]),
        ..SendMessage::text(target("@bob"), "hello")
    };
    let upload = |secret: &str| Upload {
        media_type: "text/plain".to_owned(),
        name: None,
        data: format!("use {secret}").into_bytes(),
    };

    let world = world(RedactMessages::Mask).await;
    let [alice, bob] = world.agents(["alice", "bob"]).await;
    for body in [
        with_metadata(&secret),
        with_content(&secret),
        with_name(&secret),
    ] {
        let sent = world.engine.send(&alice, body).await.unwrap();
        let notices = sent.notices.unwrap();
        assert_eq!(notices[0].code, NoticeCode::Redacted);
        for attachment in &sent.message.attachments {
            let id = attachment.attachment_id.unwrap();
            let content = world.engine.attachment(&bob, id).await.unwrap();
            let text = String::from_utf8(content.data).unwrap();
            assert!(!text.contains(&secret), "{text}");
        }
    }
    let uploaded = world.engine.upload(&alice, upload(&secret)).await.unwrap();
    let content = world
        .engine
        .attachment(&alice, uploaded.attachment_id)
        .await;
    let content = content.unwrap().data;
    assert_eq!(content.len() as u64, uploaded.size);
    assert!(!String::from_utf8(content).unwrap().contains(&secret));
    assert!(!everything(&world).await.contains(&secret));

    set(&world, RedactMessages::Refuse).await;
    let before = world.dump().await;
    for body in [
        with_metadata(&secret),
        with_content(&secret),
        with_name(&secret),
    ] {
        let refused = world.engine.send(&alice, body).await;
        assert_eq!(refused.unwrap_err(), Error::SecretRefused);
    }
    let refused = world.engine.upload(&alice, upload(&secret)).await;
    assert_eq!(refused.unwrap_err(), Error::SecretRefused);
    assert_eq!(world.dump().await, before);
    world
        .engine
        .send(&alice, with_content("nothing"))
        .await
        .unwrap();
}
