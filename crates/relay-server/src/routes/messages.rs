//! Sending, editing, reacting, and content to send.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderValue};
use axum::http::{Method, Response, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use relay_core::store::AttachmentContent;
use relay_core::{Reading, Upload};
use relay_protocol::api::Page;
use relay_protocol::api::messages::{
    AddReaction, AttachmentStored, DeliverySummary, EditMessage, MarkRead, MessageSent,
    MessageView, Reaction, ReadDoor, Reader as MessageReader, ReplyMessage, SendMessage,
};
use relay_protocol::ids::{AttachmentId, MessageId};
use relay_protocol::message::RelayMessage;
use relay_protocol::negotiation::check_send;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Deserialize;
use serde_json::{Value, json};

use super::ListQuery;
use super::through::check_through;
use crate::access::{Access, Agent, Participant, Reader};
use crate::call::{
    Answer, Call, Done, Json, Made, Nothing, OptionalJson, Params, RawBody, idempotency_key,
    response,
};
use crate::refusal::Refusal;
use crate::table::Route;

pub(crate) fn routes() -> Vec<Route> {
    let (get, post) = (Method::GET, Method::POST);
    vec![
        Route::new(
            post.clone(),
            "/v1/messages",
            "Sends a message; answered once it is on disk.",
            send,
        )
        .idempotent(),
        Route::new(
            get.clone(),
            "/v1/messages/{id}",
            "One message with its reactions.",
            show,
        ),
        Route::new(
            Method::PATCH,
            "/v1/messages/{id}",
            "Replaces the text of an own message.",
            edit,
        ),
        Route::new(
            post.clone(),
            "/v1/messages/{id}/replies",
            "Answers a message in its thread.",
            reply,
        )
        .idempotent(),
        Route::new(
            get.clone(),
            "/v1/messages/{id}/thread",
            "A thread: its root, then the replies, oldest first.",
            thread,
        ),
        Route::new(
            post.clone(),
            "/v1/messages/{id}/reactions",
            "Adds a reaction; all that are there now.",
            react,
        ),
        Route::new(
            Method::DELETE,
            "/v1/messages/{id}/reactions/{emoji}",
            "Takes a reaction back; all that are there now.",
            unreact,
        ),
        Route::new(
            post.clone(),
            "/v1/messages/{id}/read",
            "Marks a message, and all before it in the same place, as read.",
            read,
        ),
        Route::new(
            get.clone(),
            "/v1/messages/{id}/deliveries",
            "How a message's deliveries stand.",
            deliveries,
        ),
        Route::new(
            get.clone(),
            "/v1/messages/{id}/readers",
            "Who has read a message.",
            readers,
        ),
        Route::new(
            post,
            "/v1/attachments",
            "Uploads content, as it is, for messages to refer to.",
            upload,
        ),
        Route::new(
            get,
            "/v1/attachments/{id}",
            "Content, as it was uploaded.",
            download,
        ),
    ]
}

async fn send(
    by: Access<Participant>,
    call: Call<(), (), Json<SendMessage>>,
) -> Result<Made<MessageSent>, Refusal> {
    let Json(mut body) = call.body;
    body.idempotency_key = idempotency_key(&call.headers, body.idempotency_key)?;
    check_through(&by, &call.headers, check_send).await?;
    Ok(Made(by.engine().send(by.caller(), body).await?))
}

async fn show(by: Access<Reader>, call: Call<(MessageId,)>) -> Result<Done<MessageView>, Refusal> {
    Ok(Done(by.engine().message(by.caller(), call.path.0).await?))
}

async fn edit(
    by: Access<Participant>,
    call: Call<(MessageId,), (), Json<EditMessage>>,
) -> Result<Done<Arc<RelayMessage>>, Refusal> {
    let Json(body) = call.body;
    check_through(&by, &call.headers, check_send).await?;
    let edited = by
        .engine()
        .edit_message(by.caller(), call.path.0, body.text)
        .await?;
    Ok(Done(edited))
}

async fn reply(
    by: Access<Participant>,
    call: Call<(MessageId,), (), Json<ReplyMessage>>,
) -> Result<Made<MessageSent>, Refusal> {
    let Json(mut body) = call.body;
    body.idempotency_key = idempotency_key(&call.headers, body.idempotency_key)?;
    check_through(&by, &call.headers, check_send).await?;
    Ok(Made(
        by.engine().reply(by.caller(), call.path.0, body).await?,
    ))
}

async fn thread(
    by: Access<Reader>,
    call: Call<(MessageId,), Params<ListQuery>>,
) -> Result<Done<Page<MessageView>>, Refusal> {
    let page = call.query.0.into();
    let thread = by.engine().thread(by.caller(), call.path.0, page).await?;
    Ok(Done(thread))
}

async fn react(
    by: Access<Agent>,
    call: Call<(MessageId,), (), Json<AddReaction>>,
) -> Result<Done<Page<Reaction>>, Refusal> {
    let Json(body) = call.body;
    let items = by
        .engine()
        .react(by.caller(), call.path.0, &body.emoji)
        .await?;
    Ok(Done(whole(items)))
}

async fn unreact(
    by: Access<Agent>,
    call: Call<(MessageId, String)>,
) -> Result<Done<Page<Reaction>>, Refusal> {
    let (message, emoji) = call.path;
    let items = by.engine().unreact(by.caller(), message, &emoji).await?;
    Ok(Done(whole(items)))
}

async fn read(
    by: Access<Agent>,
    call: Call<(MessageId,), (), OptionalJson<MarkRead>>,
) -> Result<Nothing, Refusal> {
    let OptionalJson(MarkRead { door, not_surfaced }) = call.body;
    let reading = Reading {
        door: door.unwrap_or(ReadDoor::Inbox),
        unsurfaced: not_surfaced.unwrap_or_default(),
    };
    let read = by.engine().mark_read_at(by.caller(), call.path.0, reading);
    read.await?;
    Ok(Nothing)
}

async fn deliveries(
    by: Access<Reader>,
    call: Call<(MessageId,)>,
) -> Result<Done<Page<DeliverySummary>>, Refusal> {
    let items = by.engine().deliveries(by.caller(), call.path.0).await?;
    Ok(Done(whole(items)))
}

async fn readers(
    by: Access<Reader>,
    call: Call<(MessageId,)>,
) -> Result<Done<Page<MessageReader>>, Refusal> {
    let items = by.engine().readers(by.caller(), call.path.0).await?;
    Ok(Done(whole(items)))
}

/// A list that is always answered whole.
const fn whole<T>(items: Vec<T>) -> Page<T> {
    Page {
        items,
        next_cursor: None,
    }
}

/// What is said about an upload.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct UploadQuery {
    /// A file name.
    name: Option<String>,
}

async fn upload(
    by: Access<Participant>,
    call: Call<(), Params<UploadQuery>, RawBody>,
) -> Result<Made<AttachmentStored>, Refusal> {
    let media_type = call.headers.get(CONTENT_TYPE);
    let media_type = media_type.and_then(|value| value.to_str().ok());
    let Some(media_type) = media_type else {
        return Err(Refusal::invalid(
            "Content-Type",
            "the content's media type",
            "none",
        ));
    };
    let upload = Upload {
        media_type: media_type.to_owned(),
        name: call.query.0.name,
        data: call.body.0.into(),
    };
    Ok(Made(by.engine().upload(by.caller(), upload).await?))
}

async fn download(by: Access<Reader>, call: Call<(AttachmentId,)>) -> Result<Content, Refusal> {
    let content = by.engine().attachment(by.caller(), call.path.0).await?;
    Ok(Content(content))
}

/// Stored content as it was uploaded. Browsers keep it as a file: it may be anything.
struct Content(AttachmentContent);

impl Answer for Content {
    fn into_response(self) -> Response<Body> {
        let Self(content) = self;
        let mut response = response(StatusCode::OK, "application/octet-stream", content.data);
        let headers = response.headers_mut();
        if let Ok(media_type) = HeaderValue::from_str(&content.media_type) {
            headers.insert(CONTENT_TYPE, media_type);
        }
        let name = content.name.unwrap_or_else(|| "attachment".to_owned());
        let name = utf8_percent_encode(&name, NON_ALPHANUMERIC);
        if let Ok(value) = HeaderValue::try_from(format!("attachment; filename*=UTF-8''{name}")) {
            headers.insert(CONTENT_DISPOSITION, value);
        }
        response
    }

    fn describe(_: &mut SchemaGenerator) -> (StatusCode, Value) {
        (StatusCode::OK, json!({ "*/*": {} }))
    }
}
