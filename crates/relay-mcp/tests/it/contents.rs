//! What `check` tells of attachments: what fits is shown, the rest is a resource, and the receipt says which is which.

use relay_sdk::protocol::delivery::DeliveryState;
use relay_sdk::protocol::ids::{AttachmentId, DeliveryId};
use relay_sdk::protocol::limits::TEXT_ATTACHMENT_SHOWN_BYTES;
use relay_sdk::{AgentClient, DeliveryMode, FlushInput, Relay};
use rmcp::model::{ReadResourceRequestParams, ResourceContents};
use serde_json::{Value, json};

use crate::client::Mcp;
use crate::support::{World, soon};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
const FILE: &str = "a line of the file";
const MARK: &str = "the message of this test";

/// What a message carries beside its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carried {
    Nothing,
    Image,
    File,
}

async fn upload(
    alice: &AgentClient,
    media_type: &str,
    name: &str,
    data: impl Into<Vec<u8>>,
) -> AttachmentId {
    let stored = alice.upload(media_type, name, data.into());
    stored.await.unwrap().attachment_id
}

async fn send(alice: &AgentClient, mode: DeliveryMode, attached: &[AttachmentId]) -> DeliveryId {
    let mut sending = alice.send_message("@bob", MARK).mode(mode);
    for id in attached {
        sending = sending.attachment(*id);
    }
    sending.await.unwrap().deliveries[0].delivery_id
}

/// What `check` says, and the images that it shows: content and media type.
async fn check(mcp: &Mcp) -> (String, Vec<(String, String)>) {
    let result = mcp.result("check", json!({})).await;
    let texts = result.content.iter().filter_map(|block| block.as_text());
    let text = texts.map(|text| text.text.as_str()).collect();
    let images = result.content.iter().filter_map(|block| block.as_image());
    let images = images.map(|image| (image.data.clone(), image.mime_type.clone()));
    (text, images.collect())
}

/// The metadata of the receipt that ended a delivery, once it has.
async fn receipt(relay: &Relay, id: DeliveryId) -> Value {
    let delivered = async {
        loop {
            let delivery = relay.delivery(id).await.unwrap();
            if delivery.state == DeliveryState::Delivered {
                break delivery;
            }
            tokio::task::yield_now().await;
        }
    };
    let delivery = soon("the receipt", delivered).await;
    let receipts = serde_json::to_value(delivery.receipts).unwrap();
    receipts.as_array().unwrap().last().unwrap()["receipt"]["metadata"].clone()
}

#[tokio::test]
async fn the_content_of_a_message_is_told_when_it_is_checked_and_never_again() {
    for carried in [Carried::Nothing, Carried::Image, Carried::File] {
        let world = World::start().await;
        let (relay, alice, bob) = world.pair().await;
        let mcp = Mcp::open(&bob).await;
        let attached = match carried {
            Carried::Nothing => vec![],
            Carried::Image => vec![upload(&alice, "image/png", "dot.png", PNG).await],
            Carried::File => vec![upload(&alice, "text/plain", "a.log", FILE).await],
        };
        for mode in DeliveryMode::ALL {
            let id = send(&alice, *mode, &attached).await;
            if *mode == DeliveryMode::Manual {
                let (text, images) = check(&mcp).await;
                assert!(!text.contains(MARK) && images.is_empty(), "{text}");
                assert!(!text.contains(FILE), "{text}");
                let flush = FlushInput::all(&bob).mode(DeliveryMode::Manual);
                bob.deliveries().flush(flush).await.unwrap();
            }
            let (text, images) = check(&mcp).await;
            assert_eq!(text.matches(MARK).count(), 1, "{mode}: {text}");
            let has_file = text.contains(&format!("\n{FILE}\n"));
            assert_eq!(has_file, carried == Carried::File, "{text}");
            let image = ("iVBORw0KGgo=".to_owned(), "image/png".to_owned());
            assert_eq!(images.contains(&image), carried == Carried::Image);
            let metadata = receipt(&relay, id).await;
            assert_eq!(metadata, json!({ "door": "mcp" }), "{carried:?} {mode}");
            let (text, images) = check(&mcp).await;
            assert_eq!((text.as_str(), images.len()), ("nothing new", 0));
        }
        mcp.close().await;
    }
}

async fn read(mcp: &Mcp, uri: &str) -> ResourceContents {
    let reading = mcp
        .client
        .read_resource(ReadResourceRequestParams::new(uri));
    let mut read = soon("the resource", reading).await.unwrap();
    read.contents.remove(0)
}

#[tokio::test]
async fn what_is_not_shown_is_named_in_the_receipt_and_read_as_a_resource() {
    let world = World::start().await;
    let (relay, alice, bob) = world.pair().await;
    let mcp = Mcp::open(&bob).await;
    let rest = "the end of the file";
    let long = format!("{}{rest}", "x".repeat(TEXT_ATTACHMENT_SHOWN_BYTES));
    let long = upload(&alice, "text/plain", "long.log", long).await;
    let mut large = PNG.to_vec();
    large.resize(2 * 1024 * 1024 + 1, 0);
    let large = upload(&alice, "image/png", "large.png", large).await;
    let small = upload(&alice, "image/png", "small.png", PNG).await;
    let first = send(&alice, DeliveryMode::OnIdle, &[]).await;
    let id = send(&alice, DeliveryMode::OnIdle, &[long, large, small]).await;
    let (text, images) = check(&mcp).await;
    assert_eq!(images.len(), 1, "the small one");
    assert!(!text.contains(rest));
    for uri in [long, large].map(|id| format!("read the resource relay://attachment/{id}")) {
        assert!(text.contains(&uri), "{text}");
    }
    let metadata = receipt(&relay, id).await;
    let left = metadata["notSurfaced"].as_array().unwrap();
    let names: Vec<&Value> = left.iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["long.log", "large.png"]);
    assert_eq!(receipt(&relay, first).await, json!({ "door": "mcp" }));
    let ResourceContents::TextResourceContents { text, .. } =
        read(&mcp, &format!("relay://attachment/{long}")).await
    else {
        panic!("no text");
    };
    assert!(text.ends_with(rest));
    let offset = TEXT_ATTACHMENT_SHOWN_BYTES;
    let ResourceContents::TextResourceContents { text, .. } =
        read(&mcp, &format!("relay://attachment/{long}?offset={offset}")).await
    else {
        panic!("no text");
    };
    assert_eq!(text, rest);
    let ResourceContents::BlobResourceContents { mime_type, .. } =
        read(&mcp, &format!("relay://attachment/{large}")).await
    else {
        panic!("no image");
    };
    assert_eq!(mime_type.as_deref(), Some("image/png"));
    mcp.close().await;
}
