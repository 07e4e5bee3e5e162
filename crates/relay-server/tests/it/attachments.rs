//! Content: uploaded as it is, and answered as it was.

use serde_json::json;

use crate::support::{Raw, World};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n....";

#[tokio::test]
async fn content_goes_up_and_comes_back() {
    let world = World::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let upload = Raw::new("POST", "/v1/attachments?name=my%20plan.png").body("image/png", PNG);
    let stored = alice.ask(upload).await.expect(201);
    assert_eq!(
        (&stored["type"], &stored["size"]),
        (&json!("image"), &json!(PNG.len()))
    );
    let id = stored["attachmentId"].as_str().unwrap();
    let path = format!("/v1/attachments/{id}");
    assert_eq!(bob.get(&path).await.refused(404), "unknown_attachment");
    let body = json!({ "to": "#general", "text": "look", "attachments": [{ "attachmentId": id }] });
    alice.post("/v1/messages", body).await.expect(201);
    let content = bob.get(&path).await;
    content.expect(200);
    assert_eq!(content.body, PNG);
    assert_eq!(content.header("content-type"), Some("image/png"));
    let disposition = content.header("content-disposition").unwrap();
    assert_eq!(disposition, "attachment; filename*=UTF-8''my%20plan%2Epng");
    assert_eq!(content.header("x-content-type-options"), Some("nosniff"));
}

#[tokio::test]
async fn the_largest_one_is_taken_and_no_larger_one() {
    let world = World::start().await;
    let alice = world.agent("alice").await;
    let most = 8 * 1024 * 1024;
    let upload = |bytes| Raw::new("POST", "/v1/attachments").body("text/plain", vec![b'x'; bytes]);
    let stored = alice.ask(upload(most)).await.expect(201);
    let id = stored["attachmentId"].as_str().unwrap();
    let content = alice.get(&format!("/v1/attachments/{id}")).await;
    assert_eq!(content.body.len(), most);
    let refused = alice.ask(upload(most + 1)).await;
    assert_eq!(refused.refused(413), "body_too_large");
}

#[tokio::test]
async fn content_that_is_not_what_it_claims_is_refused() {
    let world = World::start().await;
    let alice = world.agent("alice").await;
    let cases = [
        ("image/png", &b"text"[..], 400, "bad_attachment"),
        ("application/octet-stream", b"x", 400, "bad_attachment"),
        ("text/plain", b"\xff", 400, "bad_attachment"),
        (
            "multipart/form-data; boundary=x",
            b"x",
            415,
            "unsupported_media_type",
        ),
        (
            "application/x-www-form-urlencoded",
            b"x",
            415,
            "unsupported_media_type",
        ),
    ];
    for (media_type, body, status, code) in cases {
        let upload = Raw::new("POST", "/v1/attachments").body(media_type, body);
        assert_eq!(
            alice.ask(upload).await.refused(status),
            code,
            "{media_type}"
        );
    }
    let mut upload = Raw::new("POST", "/v1/attachments");
    upload.body = b"x".to_vec();
    assert_eq!(alice.ask(upload).await.expect(400)["path"], "Content-Type");
}

/// The refusal said that one of up to twenty was wrong, and not which.
#[tokio::test]
async fn an_attachment_that_can_not_be_taken_is_named_by_its_place() {
    let world = World::start().await;
    let alice = world.agent("alice").await;
    let good = json!({ "type": "text", "mediaType": "text/plain", "data": "aGk=" });
    let program = json!({ "type": "text", "mediaType": "application/x-program", "data": "aGk=" });
    for (attachments, path) in [
        (json!([{}]), "attachments[0]"),
        (json!([good, {}]), "attachments[1]"),
        (json!([good, good, program]), "attachments[2]"),
    ] {
        let send = json!({ "to": "#general", "text": "x", "attachments": attachments });
        let refused = alice.post("/v1/messages", send).await;
        assert_eq!(refused.refused(400), "bad_attachment");
        let problem = refused.json();
        assert_eq!(problem["path"], path);
        let detail = problem["detail"].as_str().unwrap();
        assert!(
            detail.starts_with(&format!("{path}: expected ")),
            "{detail}"
        );
    }
}
