//! Content that is not taken.

use relay_core::{Caller, Upload};
use relay_protocol::api::messages::{NewAttachment, SendMessage};
use relay_protocol::ids::AttachmentId;
use relay_protocol::limits::{
    ATTACHMENT_BYTES, ATTACHMENTS_PER_MESSAGE, FILE_NAME_CHARS, INLINE_ATTACHMENT_BYTES,
};
use relay_protocol::message::AttachmentKind;
use relay_protocol::problem::ErrorCode;

use super::{Lab, with};
use crate::support::{START, inline_text, target};

#[tokio::test]
async fn content_that_is_not_taken() {
    let lab = Lab::new().await;
    use ErrorCode::{BadAttachment, LimitExceeded, UnknownAttachment};
    let id = AttachmentId::new(START, 1);
    let by_id = |id| NewAttachment {
        attachment_id: Some(id),
        kind: None,
        media_type: None,
        name: None,
        data: None,
    };
    let good = || inline_text("hello");
    let cases = [
        ("unknown upload", UnknownAttachment, by_id(id)),
        (
            "nothing at all",
            BadAttachment,
            NewAttachment {
                attachment_id: None,
                ..by_id(id)
            },
        ),
        (
            "id and content",
            BadAttachment,
            NewAttachment {
                attachment_id: Some(id),
                ..good()
            },
        ),
        (
            "id and name",
            BadAttachment,
            NewAttachment {
                name: Some("x".to_owned()),
                ..by_id(id)
            },
        ),
        (
            "no type",
            BadAttachment,
            NewAttachment {
                kind: None,
                ..good()
            },
        ),
        (
            "no media type",
            BadAttachment,
            NewAttachment {
                media_type: None,
                ..good()
            },
        ),
        (
            "no data",
            BadAttachment,
            NewAttachment {
                data: None,
                ..good()
            },
        ),
        (
            "not base64",
            BadAttachment,
            NewAttachment {
                data: Some("a b".to_owned()),
                ..good()
            },
        ),
        (
            "another kind",
            BadAttachment,
            NewAttachment {
                kind: Some(AttachmentKind::Image),
                ..good()
            },
        ),
        (
            "a program",
            BadAttachment,
            typed(good(), "application/octet-stream"),
        ),
        (
            "a line break",
            BadAttachment,
            typed(good(), "text/plain\r\nx: y"),
        ),
        ("no subtype", BadAttachment, typed(good(), "text/")),
        ("a path", BadAttachment, called(good(), "../x")),
        ("no name", BadAttachment, called(good(), "")),
        (
            "a control character",
            BadAttachment,
            called(good(), "a\u{7}"),
        ),
        (
            "a long name",
            LimitExceeded,
            called(good(), &"ü".repeat(FILE_NAME_CHARS + 1)),
        ),
        (
            "a long media type",
            LimitExceeded,
            typed(good(), &format!("text/{}", "x".repeat(300))),
        ),
        (
            "too large",
            BadAttachment,
            inline_text(&"x".repeat(INLINE_ATTACHMENT_BYTES + 1)),
        ),
        (
            "far too large",
            BadAttachment,
            inline_text(&"x".repeat(INLINE_ATTACHMENT_BYTES * 2)),
        ),
    ];
    for (name, code, content) in cases {
        lab.refuses_content(name, code, content).await;
    }
    let many = with(vec![good(); ATTACHMENTS_PER_MESSAGE + 1]);
    lab.refuses_send("too many", LimitExceeded, many).await;

    let mut most = vec![good(); ATTACHMENTS_PER_MESSAGE - 1];
    most.push(called(
        inline_text(&"x".repeat(INLINE_ATTACHMENT_BYTES)),
        &"ü".repeat(FILE_NAME_CHARS),
    ));
    lab.engine.send(&lab.alice, with(most)).await.unwrap();
}

fn called(content: NewAttachment, name: &str) -> NewAttachment {
    NewAttachment {
        name: Some(name.to_owned()),
        ..content
    }
}

fn typed(content: NewAttachment, media_type: &str) -> NewAttachment {
    NewAttachment {
        media_type: Some(media_type.to_owned()),
        ..content
    }
}

#[tokio::test]
async fn uploads_that_are_not_taken() {
    let lab = Lab::new().await;
    let (engine, alice, bob) = (&lab.engine, &lab.alice, &lab.bob);
    use ErrorCode::{BadAttachment, Forbidden, UnknownAttachment};
    let cases = [
        ("a program", file("application/octet-stream", b"x")),
        ("a drawing", file("image/svg+xml", b"<svg/>")),
        ("not that picture", file("image/png", b"GIF89a")),
        ("an empty picture", file("image/png", b"")),
        ("not UTF-8", file("text/plain", b"\xff")),
        ("NUL", file("text/plain", b"a\0b")),
        (
            "too large",
            file("text/plain", &vec![b'x'; ATTACHMENT_BYTES + 1]),
        ),
    ];
    for (name, upload) in cases {
        lab.refuses(name, BadAttachment, engine.upload(alice, upload))
            .await;
    }
    let owner = Caller::process_owner();
    let admin = engine.upload(&owner, file("text/plain", b"x"));
    lab.refuses("no workspace", Forbidden, admin).await;
    let most = file("text/plain", &vec![b'x'; ATTACHMENT_BYTES]);
    engine.upload(alice, most).await.unwrap();

    let mine = engine
        .upload(alice, file("text/plain", b"mine"))
        .await
        .unwrap();
    let id = mine.attachment_id;
    let (foreign_key, foreign_agent, ..) = lab.foreign().await;
    for (name, other) in [
        ("another agent", bob),
        ("elsewhere", &foreign_agent),
        ("elsewhere", &foreign_key),
    ] {
        lab.refuses(name, UnknownAttachment, engine.attachment(other, id))
            .await;
        let by_id = NewAttachment {
            attachment_id: Some(id),
            kind: None,
            media_type: None,
            name: None,
            data: None,
        };
        let body = SendMessage {
            attachments: Some(vec![by_id]),
            ..SendMessage::text(target("#general"), "mine now")
        };
        lab.refuses(name, UnknownAttachment, engine.send(other, body))
            .await;
    }
}

fn file(media_type: &str, data: &[u8]) -> Upload {
    Upload {
        media_type: media_type.to_owned(),
        name: None,
        data: data.to_vec(),
    }
}
