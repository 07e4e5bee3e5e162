//! The paths that are served: the same ones with and without `/v1`, because clients differ in what they add to a base URL.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::{get, post};
use http::{Method, StatusCode, Uri};
use http_body_util::{BodyExt as _, Limited};
use serde_json::{Value, json};

use super::play::{answer, json_response};
use super::shape::CREATED;
use super::{Api, Shared};

/// The largest body that is read.
const MAX_BODY: usize = 64 * 1024 * 1024;

/// The one model that is listed. Every other name is taken as well.
const MODEL: &str = "scripted";

pub(super) fn router(shared: Arc<Shared>) -> Router {
    let mut router = Router::new().route("/v1beta/models/{call}", post(gemini));
    for prefix in ["", "/v1"] {
        router = router
            .route(&format!("{prefix}/messages"), post(messages))
            .route(
                &format!("{prefix}/messages/count_tokens"),
                post(count_tokens),
            )
            .route(&format!("{prefix}/chat/completions"), post(chat))
            .route(&format!("{prefix}/responses"), post(responses))
            .route(&format!("{prefix}/models"), get(models));
    }
    router
        .route("/v1beta/models", get(models))
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
        .with_state(shared)
}

async fn messages(State(shared): State<Arc<Shared>>, body: Body) -> Response {
    ask(shared, Api::Anthropic, body).await
}

async fn chat(State(shared): State<Arc<Shared>>, body: Body) -> Response {
    ask(shared, Api::Chat, body).await
}

async fn responses(State(shared): State<Arc<Shared>>, body: Body) -> Response {
    ask(shared, Api::Responses, body).await
}

/// Model and method are one segment here: `model:method`.
async fn gemini(
    State(shared): State<Arc<Shared>>,
    Path(call): Path<String>,
    uri: Uri,
    body: Body,
) -> Response {
    let (model, method) = call.split_once(':').unwrap_or((&call, ""));
    let mut body = match read(body).await {
        Ok(body) => body,
        Err(refused) => return refused,
    };
    if let Some(fields) = body.as_object_mut() {
        fields.insert("model".to_owned(), json!(model));
    }
    match method {
        "streamGenerateContent" => ask_json(shared, Api::Gemini, body, true).await,
        "generateContent" => ask_json(shared, Api::Gemini, body, false).await,
        "countTokens" => {
            let tokens = body.to_string().len() / 4;
            json_response(StatusCode::OK, &json!({ "totalTokens": tokens }))
        }
        _ => unknown(State(shared), Method::POST, uri).await,
    }
}

async fn ask(shared: Arc<Shared>, api: Api, body: Body) -> Response {
    match read(body).await {
        Ok(body) => {
            let streamed = body["stream"] == true;
            ask_json(shared, api, body, streamed).await
        }
        Err(refused) => refused,
    }
}

async fn ask_json(shared: Arc<Shared>, api: Api, body: Value, streamed: bool) -> Response {
    let request = api.request(&body);
    let recorded = shared.records.add(api, body, request);
    answer(shared, recorded, streamed).await
}

async fn count_tokens(body: Body) -> Response {
    match read(body).await {
        Ok(body) => {
            let tokens = body.to_string().len() / 4;
            json_response(StatusCode::OK, &json!({ "input_tokens": tokens }))
        }
        Err(refused) => refused,
    }
}

/// The list in a form that every provider's clients understand.
async fn models() -> Response {
    let model = json!({
        "id": MODEL, "object": "model", "created": CREATED, "owned_by": "script",
        "type": "model", "display_name": "Scripted", "created_at": "2025-10-09T08:53:20Z",
        "name": format!("models/{MODEL}"),
    });
    let list = json!({
        "object": "list", "data": [model], "has_more": false, "models": [],
    });
    json_response(StatusCode::OK, &list)
}

/// What is not served is noted: an agent that needs it would otherwise be hard to understand.
async fn unknown(State(shared): State<Arc<Shared>>, method: Method, uri: Uri) -> Response {
    shared.records.add_unknown(format!("{method} {uri}"));
    let message = format!("{method} {} is not served here", uri.path());
    let body = json!({ "error": { "type": "not_found_error", "message": message } });
    json_response(StatusCode::NOT_FOUND, &body)
}

async fn read(body: Body) -> Result<Value, Response> {
    let refuse = |message: String| {
        let body = json!({ "error": { "type": "invalid_request_error", "message": message } });
        json_response(StatusCode::BAD_REQUEST, &body)
    };
    let bytes = Limited::new(body, MAX_BODY).collect().await;
    let bytes = bytes.map_err(|error| refuse(format!("the body could not be read: {error}")))?;
    serde_json::from_slice(&bytes.to_bytes())
        .map_err(|error| refuse(format!("expected JSON: {error}")))
}
