//! `relay delivery`: list, show, retry, cancel, flush.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use relay_sdk::{CallbackSession, DeliveryMode, delivered, failed};

use crate::support::Desk;

#[tokio::test]
async fn a_delivery_tells_its_story_and_can_be_retried() {
    let desk = Desk::new().await;
    desk.register(&["ada", "bob"]).await;
    assert_eq!(desk.ok(&["delivery", "list"]).await, "no deliveries\n");
    let bob = desk.agent("bob").await;
    let is_well = Arc::new(AtomicBool::new(false));
    let knows = is_well.clone();
    let session = CallbackSession::new(bob.identity().clone(), move |_, context| {
        let receipt = match knows.load(Ordering::Relaxed) {
            true => delivered(context.id),
            false => failed("the screen is full"),
        };
        async move { Ok(receipt) }
    });
    let _session = bob.attach(session).await.unwrap();
    let done = desk
        .run(&["send", "bob", "Hello", "--as", "ada", "--json"])
        .await;
    assert_eq!(done.code, 6);
    let listed = desk
        .ok(&["delivery", "list", "--agent", "@bob", "--state", "failed"])
        .await;
    let expected = "delivery                              agent  state   mode       why\n\
                    ID  @bob   failed  immediate\n";
    assert_eq!(listed, expected);
    let listed = desk.json(&["delivery", "list", "--limit", "1"]).await;
    let id = listed["items"][0]["deliveryId"]
        .as_str()
        .unwrap()
        .to_owned();
    let story = desk.ok(&["delivery", "show", &id]).await;
    assert!(
        story.starts_with("delivery ID to @bob, asked for: first safe boundary"),
        "{story}"
    );
    assert!(story.contains("the screen is full"), "{story}");
    assert!(story.contains("\nend: failed"), "{story}");
    // Again, and it fails again.
    let (code, said) = desk.refused(&["delivery", "retry", &id]).await;
    assert_eq!(code, 6, "{said}");
    is_well.store(true, Ordering::Relaxed);
    assert_eq!(
        desk.ok(&["delivery", "retry", &id]).await,
        "ID  delivered\n"
    );
    let (code, said) = desk.refused(&["delivery", "retry", &id]).await;
    assert_eq!(code, 8, "{said}");
    let (code, said) = desk
        .refused(&["delivery", "show", "01a1e393-b029-7db0-bef2-676dc047b5be"])
        .await;
    assert_eq!(code, 4, "{said}");
}

#[tokio::test]
async fn why_a_delivery_waits_is_the_servers_answer_at_every_door() {
    let desk = Desk::new().await;
    desk.register(&["ada", "bob"]).await;
    let send = ["send", "bob", "one", "--as", "ada", "--no-wait"];
    let sent = desk.json(&send).await;
    let waiting = &sent["deliveries"][0]["waiting"];
    assert_eq!(waiting["code"], "no_session");
    assert_eq!(waiting["since"], sent["message"]["createdAt"]);
    let id = sent["deliveries"][0]["deliveryId"].as_str().unwrap();
    let shown = desk.json(&["delivery", "show", id]).await;
    let listed = desk.json(&["delivery", "list"]).await;
    for delivery in [&shown, &listed["items"][0]] {
        assert_eq!(&delivery["waiting"], waiting);
    }
    let why = waiting["why"].as_str().unwrap();
    let said = desk.ok(&send).await;
    assert!(
        said.ends_with(&format!("@bob  pending  ID  waits: {why}\n")),
        "{said}"
    );
    let said = desk.ok(&["delivery", "list", "--limit", "1"]).await;
    assert!(said.contains(&format!("  waits: {why}\n")), "{said}");
}

#[tokio::test]
async fn what_waits_can_be_cancelled_and_flushed() {
    let desk = Desk::new().await;
    desk.register(&["ada", "bob"]).await;
    let sent = desk
        .json(&["send", "bob", "one", "--as", "ada", "--no-wait"])
        .await;
    let id = sent["deliveries"][0]["deliveryId"].as_str().unwrap();
    let story = desk.ok(&["delivery", "show", id]).await;
    assert!(
        story.ends_with("\nnow: pending: no session of the agent is connected\n"),
        "{story}"
    );
    let cancelled = desk
        .ok(&[
            "delivery",
            "cancel",
            id,
            "--reason",
            "no longer true",
            "--as",
            "ada",
        ])
        .await;
    assert_eq!(cancelled, "ID  cancelled, seen: no\n");
    let bob = desk.agent("bob").await;
    let session = CallbackSession::new(bob.identity().clone(), |_, context| async move {
        Ok(delivered(context.id))
    });
    let mut capabilities = relay_sdk::AgentSessionCapabilities::minimum();
    capabilities.delivery.modes = vec![DeliveryMode::Manual];
    let _session = bob
        .attach(session.with_capabilities(capabilities))
        .await
        .unwrap();
    let done = desk
        .run(&[
            "send", "bob", "two", "--as", "ada", "--mode", "manual", "--wait", "1s",
        ])
        .await;
    assert_eq!(done.code, 7, "{done:?}");
    assert!(
        done.out.contains("@bob  waits: it waits for a flush"),
        "{done:?}"
    );
    let flushed = desk
        .ok(&["delivery", "flush", "bob", "--mode", "manual"])
        .await;
    assert_eq!(flushed, "ID  delivered\n");
    assert_eq!(
        desk.ok(&["delivery", "flush", "bob"]).await,
        "nothing waited\n"
    );
    let flushed = desk
        .json(&["delivery", "flush", "bob", "--as", "bob"])
        .await;
    assert_eq!(flushed, serde_json::json!({ "receipts": [] }));
}
