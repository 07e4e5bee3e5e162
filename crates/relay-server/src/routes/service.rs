//! What the server says about itself.

use std::sync::OnceLock;

use axum::body::Body;
use axum::http::{Method, Request, Response, StatusCode};
use bytes::Bytes;
use relay_protocol::api::service::{Health, ServiceStatus};
use relay_protocol::socket::PROTOCOL;
use schemars::SchemaGenerator;
use serde_json::{Value, json};

use crate::access::{Anyone, App};
use crate::call::{json_content, json_response, response};
use crate::table::{Described, Route, peer};

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::special(
            Method::GET,
            "/health",
            "Whether the process runs.",
            &[],
            describe_health,
            health,
        ),
        Route::special(
            Method::GET,
            "/ready",
            "Whether requests can be served; 503 if not.",
            &[],
            describe_health,
            ready,
        ),
        Route::special(
            Method::GET,
            "/metrics",
            "Numbers for Prometheus; off loopback only with a credential.",
            &[],
            describe_text,
            metrics,
        ),
        Route::special(
            Method::GET,
            "/openapi.json",
            "This description.",
            &[],
            describe_document,
            document,
        ),
    ]
}

fn described(answer: Value) -> Described {
    Described {
        path: Vec::new(),
        query: None,
        body: None,
        answer: (StatusCode::OK, answer),
        refusal: None,
    }
}

fn describe_health(generator: &mut SchemaGenerator) -> Described {
    described(json_content::<Health>(generator))
}

fn describe_text(_: &mut SchemaGenerator) -> Described {
    described(json!({ "text/plain": { "schema": { "type": "string" } } }))
}

fn describe_document(_: &mut SchemaGenerator) -> Described {
    described(json!({ "application/json": { "schema": { "type": "object" } } }))
}

fn say(status: ServiceStatus) -> Response<Body> {
    let code = match status {
        ServiceStatus::Ok => StatusCode::OK,
        ServiceStatus::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
    };
    let health = Health {
        status,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        protocol: PROTOCOL,
    };
    json_response(code, &health)
}

async fn health(_: App, _: Request<Body>) -> Response<Body> {
    say(ServiceStatus::Ok)
}

async fn ready(app: App, _: Request<Body>) -> Response<Body> {
    say(match app.is_ready().await {
        true => ServiceStatus::Ok,
        false => ServiceStatus::Unavailable,
    })
}

async fn metrics(app: App, request: Request<Body>) -> Response<Body> {
    let (parts, _) = request.into_parts();
    if !app.home().is_loopback() {
        let admitted = app.admit_by_header::<Anyone>(&parts.headers, peer(&parts));
        if let Err(refusal) = admitted.await {
            return refusal.into_response();
        }
    }
    let text = app.metrics().text();
    response(StatusCode::OK, "text/plain; version=0.0.4", text)
}

async fn document(_: App, _: Request<Body>) -> Response<Body> {
    static DOCUMENT: OnceLock<Bytes> = OnceLock::new();
    let document = DOCUMENT.get_or_init(|| {
        let document = super::openapi_document();
        serde_json::to_vec(&document).unwrap_or_default().into()
    });
    response(StatusCode::OK, "application/json", document.clone())
}
