//! Messages: the record, its targets and envelope, and the bodies around them. From spec/events.txt.

use relay_protocol::api::messages::*;
use relay_protocol::message::{RelayEventEnvelope, RelayMessage, RelayMessageTarget};
use relay_protocol::render::UnsurfacedAttachment;

use super::{Example, has_literals, shows_every_tag};

type TargetPage = relay_protocol::api::Page<RelayMessageTarget>;

pub(super) fn examples() -> Vec<Example> {
    let mut all = super::examples![
        RelayMessage:
            "%M",
            r#"{"id":"%1","messageId":"%1","from":{},"to":{"kind":"dm","conversationId":"%8"},"parent":"%9",
                "text":"","attachments":[
                    {"type":"text","mediaType":"text/plain","size":3,"data":"YWJj"},
                    {"type":"image","mediaType":"image/png","name":"a.png","size":3,"attachmentId":"%7"}],
                "mentions":[],"createdAt":"%T","updatedAt":"%T","version":2,"metadata":{"a":[1,null]}}"#;
        RelayMessageTarget:
            r#"{"kind":"agent","agentName":"engineer"}"#,
            r#"{"kind":"agent","agentName":"engineer","agentId":"%2"}"#,
            r#"{"kind":"channel","channelName":"general"}"#,
            r#"{"kind":"channel","channelName":"general","channelId":"%3"}"#,
            r#"{"kind":"dm","conversationId":"%8"}"#,
            r#"{"kind":"group_dm","conversationId":"%8"}"#;
        RelayEventEnvelope:
            r#"{}"#,
            r#"{"from":{},"channel":{}}"#,
            r#"{"from":{"id":"%2","name":"alice"},"to":{"kind":"channel","channelName":"general"},
                "channel":{"id":"%3","name":"general"},"parent":"%9"}"#;
        SendMessage:
            r##"{"to":"#general","text":"Shipping now"}"##,
            r#"{"to":"@bob","text":"hi","attachments":[{"attachmentId":"%7"},
                {"type":"text","mediaType":"text/plain","name":"a.txt","data":"YQ=="}],
                "mode":"on-idle","allowDowngrade":true,"priority":"urgent","deadline":"%T",
                "idempotencyKey":"k","replyTo":"%1","metadata":{}}"#,
            r#"{"to":{"kind":"channel","channelName":"general"},"text":"hi"}"#;
        ReplyMessage:
            r#"{"text":"On it"}"#,
            r#"{"text":"On it","attachments":[{"attachmentId":"%7"}],"mode":"immediate",
                "allowDowngrade":false,"priority":"normal","deadline":"%T","idempotencyKey":"k","metadata":{}}"#;
        MarkRead: "{}", r#"{"door":"mcp"}"#,
            r#"{"door":"mcp","notSurfaced":[{"type":"image","why":"too large"}]}"#;
        ReadDoor: r#""inbox""#;
        MessageSent: r#"{"messageId":"%1","message":%M,
            "deliveries":[{"deliveryId":"%4","agent":"bob","state":"pending","mode":"manual",
                "waiting":{"why":"it waits for a flush","code":"manual","waitsFor":"manual","since":"%T"}}],
            "notices":[{"code":"mention_unknown","message":"nobody is called x","name":"x"}]}"#;
        AttachmentStored: r#"{"attachmentId":"%7","type":"image","mediaType":"image/png","size":3}"#;
        EditMessage: r#"{"text":"new"}"#;
        AddReaction: r#"{"emoji":":rocket:"}"#;
        Reader: r#"{"agentName":"bob"}"#, r#"{"agentName":"bob","readAt":"%T"}"#;
        MessageView: r#"{"message":%M,"reactions":[{"emoji":":rocket:","agents":["bob"]}],"replies":2}"#;
        Inbox: r#"{"items":[{"message":%M,"reason":"message","deliveryId":"%4","state":"pending"},
                {"message":%M,"reason":"message","deliveryId":"%4","state":"delivered","seenBy":"session"}],
            "channels":[{"channel":"general","unread":1,"mentions":0}],
            "conversations":[{"conversationId":"%8","with":["bob"],"unread":1}],
            "mentions":0,"unread":2,"seen":1,"more":false}"#,
            r#"{"items":[],"waiting":[{"messageId":"%5","deliveryId":"%4","from":{"name":"a"},
            "to":{"kind":"channel","channelName":"general"},"reason":"dm","waiting":{"why":"it waits for a flush","code":"manual",
            "waitsFor":"manual","since":"%T"}}],"channels":[],"conversations":[],"mentions":0,"unread":0,"seen":0,"more":false}"#;
        InboxWaiting: r#"{"messageId":"%5","deliveryId":"%4","from":{"name":"a"},"to":{"kind":"channel","channelName":"general"},
            "reason":"mention","waiting":{"why":"the session is active","code":"boundary","waitsFor":"on-idle","since":"%T"}}"#;
        Conversation: r#"{"conversationId":"%8","participants":["a","b"],"lastMessageAt":"%T","unread":0}"#;
        SearchQuery: r#"{"q":"ship"}"#, r#"{"q":"ship","channel":"general","from":"bob","after":"%T",
            "before":"%T","cursor":"c","limit":5}"#;
        SearchHit: r#"{"message":%M,"snippet":"[Shipping] now"}"#;
        UnsurfacedAttachment: r#"{"type":"image","name":"a.png","attachmentId":"%7","why":"too large"}"#;
    ];
    all.extend(super::of::<TargetPage>(
        "Page",
        &[r#"{"items":[]}"#, r#"{"items":[],"nextCursor":"c"}"#],
    ));
    all
}

#[test]
fn every_tag_is_shown() {
    shows_every_tag("RelayMessageTarget", "kind", RelayMessageTarget::TAGS);
}

#[test]
fn literals() {
    has_literals::<SeenBy>(&["session"]);
    has_literals::<NoticeCode>(&[
        "mention_not_a_member",
        "mention_unknown",
        "no_recipients",
        "redacted",
    ]);
}
