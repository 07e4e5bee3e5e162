//! Webhooks that events go out to.

use axum::http::Method;
use axum::http::header::HOST;
use relay_protocol::api::Page;
use relay_protocol::api::messages::MessageSent;
use relay_protocol::ids::WebhookId;
use relay_protocol::webhook::{
    CreateInboundWebhook, CreateWebhook, InboundMessage, InboundWebhookCreated, InboundWebhookInfo,
    ReplayWebhook, RotateWebhookSecret, UpdateWebhook, WebhookAttempt, WebhookCreated, WebhookInfo,
    WebhookReplayed, WebhookSecret,
};
use relay_signature::Secret;

use super::ListQuery;
use crate::access::{Access, Inbound, Owner};
use crate::call::{Call, Done, Json, Made, Nothing, OptionalJson, Params, idempotency_key};
use crate::outbox::extra_headers;
use crate::refusal::Refusal;
use crate::table::Route;
use crate::webhook::{new_secret, unusable};

pub(crate) fn routes() -> Vec<Route> {
    let (get, post) = (Method::GET, Method::POST);
    vec![
        Route::new(
            post.clone(),
            "/v1/webhooks",
            "Makes a webhook, which is called for every event that it wants from now on; its secret is shown this once.",
            create,
        ),
        Route::new(
            get.clone(),
            "/v1/webhooks",
            "The webhooks, the oldest first.",
            list,
        ),
        Route::new(get.clone(), "/v1/webhooks/{id}", "One webhook.", show),
        Route::new(
            Method::PATCH,
            "/v1/webhooks/{id}",
            "Switches a webhook off, or on again: it goes on where it was.",
            update,
        ),
        Route::new(
            Method::DELETE,
            "/v1/webhooks/{id}",
            "Ends a webhook.",
            delete,
        ),
        Route::new(
            post.clone(),
            "/v1/webhooks/{id}/secret",
            "Gives a webhook another secret; calls are signed with the old one, too, for a day.",
            rotate,
        ),
        Route::new(
            get,
            "/v1/webhooks/{id}/attempts",
            "The newest calls of a webhook, newest first.",
            attempts,
        ),
        Route::new(
            post,
            "/v1/webhooks/{id}/replay",
            "Sends events once more, by their ids or by a range of the log.",
            replay,
        ),
        Route::new(
            Method::POST,
            "/v1/webhooks/inbound",
            "Makes a URL by which messages come into a channel; its token is shown this once.",
            create_inbound,
        ),
        Route::new(
            Method::GET,
            "/v1/webhooks/inbound",
            "The URLs by which messages come in, the oldest first.",
            list_inbound,
        ),
        Route::new(
            Method::DELETE,
            "/v1/webhooks/inbound/{id}",
            "Ends such a URL.",
            delete_inbound,
        ),
        Route::new(
            Method::POST,
            "/hooks/{id}",
            "Posts a message into the channel of an inbound webhook.",
            receive,
        )
        .idempotent(),
    ]
}

async fn create_inbound(
    by: Access<Owner>,
    call: Call<(), (), Json<CreateInboundWebhook>>,
) -> Result<Made<InboundWebhookCreated>, Refusal> {
    let Json(body) = call.body;
    let (info, token) = by.engine().create_inbound(by.caller(), body).await?;
    let host = call.headers.get(HOST).and_then(|host| host.to_str().ok());
    Ok(Made(InboundWebhookCreated {
        id: info.id,
        // As whoever asked has reached this server.
        url: match host {
            Some(host) => format!("http://{host}/hooks/{}", info.id),
            None => format!("/hooks/{}", info.id),
        },
        token,
    }))
}

async fn list_inbound(
    by: Access<Owner>,
    call: Call<(), Params<ListQuery>>,
) -> Result<Done<Page<InboundWebhookInfo>>, Refusal> {
    let Params(query) = call.query;
    let found = by
        .engine()
        .inbound_webhooks(by.caller(), query.into())
        .await?;
    Ok(Done(found))
}

async fn delete_inbound(by: Access<Owner>, call: Call<(WebhookId,)>) -> Result<Nothing, Refusal> {
    by.engine().delete_inbound(by.caller(), call.path.0).await?;
    Ok(Nothing)
}

async fn receive(
    by: Access<Inbound>,
    call: Call<(WebhookId,), (), Json<InboundMessage>>,
) -> Result<Made<MessageSent>, Refusal> {
    let key = idempotency_key(&call.headers, None)?;
    let Json(body) = call.body;
    let sent = by
        .engine()
        .receive(by.caller(), call.path.0, body, key)
        .await?;
    Ok(Made(sent))
}

async fn create(
    by: Access<Owner>,
    call: Call<(), (), Json<CreateWebhook>>,
) -> Result<Made<WebhookCreated>, Refusal> {
    let Json(mut body) = call.body;
    let allowed = by.app().calls().outbound.check(&body.url).await;
    allowed.map_err(|error| unusable("url", &error))?;
    if let Some(headers) = &body.headers {
        extra_headers(headers).map_err(|error| unusable("headers", &error))?;
    }
    let secret = secret(&by, body.secret.take())?;
    let made = by
        .engine()
        .create_webhook(by.caller(), body, secret)
        .await?;
    Ok(Made(made))
}

/// The secret that was given, if it is one, or a new one.
fn secret(by: &Access<Owner>, given: Option<String>) -> Result<String, Refusal> {
    let Some(text) = given else {
        return Ok(new_secret(by.app().environment()));
    };
    match Secret::parse(&text) {
        Ok(_) => Ok(text),
        Err(error) => Err(unusable("secret", &error)),
    }
}

async fn list(
    by: Access<Owner>,
    call: Call<(), Params<ListQuery>>,
) -> Result<Done<Page<WebhookInfo>>, Refusal> {
    let Params(query) = call.query;
    Ok(Done(by.engine().webhooks(by.caller(), query.into()).await?))
}

async fn show(by: Access<Owner>, call: Call<(WebhookId,)>) -> Result<Done<WebhookInfo>, Refusal> {
    Ok(Done(by.engine().webhook(by.caller(), call.path.0).await?))
}

async fn update(
    by: Access<Owner>,
    call: Call<(WebhookId,), (), Json<UpdateWebhook>>,
) -> Result<Done<WebhookInfo>, Refusal> {
    let Json(body) = call.body;
    let changed = by
        .engine()
        .switch_webhook(by.caller(), call.path.0, body.state)
        .await?;
    Ok(Done(changed))
}

async fn delete(by: Access<Owner>, call: Call<(WebhookId,)>) -> Result<Nothing, Refusal> {
    by.engine().delete_webhook(by.caller(), call.path.0).await?;
    Ok(Nothing)
}

async fn rotate(
    by: Access<Owner>,
    call: Call<(WebhookId,), (), OptionalJson<RotateWebhookSecret>>,
) -> Result<Done<WebhookSecret>, Refusal> {
    let OptionalJson(body) = call.body;
    let secret = secret(&by, body.secret)?;
    let changed = by
        .engine()
        .rotate_webhook_secret(by.caller(), call.path.0, secret)
        .await?;
    Ok(Done(changed))
}

async fn attempts(
    by: Access<Owner>,
    call: Call<(WebhookId,), Params<ListQuery>>,
) -> Result<Done<Page<WebhookAttempt>>, Refusal> {
    let Params(query) = call.query;
    let found = by
        .engine()
        .webhook_attempts(by.caller(), call.path.0, query.into())
        .await?;
    Ok(Done(found))
}

async fn replay(
    by: Access<Owner>,
    call: Call<(WebhookId,), (), Json<ReplayWebhook>>,
) -> Result<Done<WebhookReplayed>, Refusal> {
    let Json(body) = call.body;
    let queued = by
        .engine()
        .replay_webhook(by.caller(), call.path.0, body)
        .await?;
    Ok(Done(queued))
}
