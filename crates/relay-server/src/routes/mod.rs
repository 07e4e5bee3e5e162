//! The routes, by what they are about. A handler takes a request apart, makes one call of the engine, and
//! says how the result is answered.

pub(crate) mod actions;
pub(crate) mod agents;
pub(crate) mod audit;
pub(crate) mod channels;
pub(crate) mod deliveries;
pub(crate) mod events;
pub(crate) mod grants;
pub(crate) mod messages;
pub(crate) mod permissions;
pub(crate) mod reading;
pub(crate) mod service;
pub(crate) mod sessions;
pub(crate) mod through;
pub(crate) mod webhooks;
pub(crate) mod workspace;

use std::collections::BTreeMap;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request};
use axum::routing::{MethodFilter, MethodRouter, on};
use relay_core::PageQuery;
use relay_protocol::event::TokenKind;
use relay_protocol::problem::ErrorCode;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::access::App;
use crate::chat;
use crate::mcp;
use crate::openapi;
use crate::refusal::Refusal;
use crate::socket;
use crate::table::{Matched, Route};

/// Every route.
pub(crate) fn table() -> Vec<Route> {
    let mut routes = Vec::new();
    routes.extend(workspace::routes());
    routes.extend(agents::routes());
    routes.extend(channels::routes());
    routes.extend(messages::routes());
    routes.extend(reading::routes());
    routes.extend(sessions::routes());
    routes.extend(deliveries::routes());
    routes.extend(actions::routes());
    routes.extend(permissions::routes());
    routes.extend(grants::routes());
    routes.extend(webhooks::routes());
    routes.extend(events::routes());
    routes.extend(audit::routes());
    routes.push(socket::route());
    routes.extend(chat::routes());
    routes.extend(mcp::routes());
    routes.extend(service::routes());
    routes
}

/// A route, for those who document or test them.
#[derive(Clone, Debug)]
pub struct RouteInfo {
    /// The method.
    pub method: Method,
    /// The path, with `{name}` for each part that varies.
    pub path: &'static str,
    /// Who may call it; empty: everybody.
    pub credentials: &'static [TokenKind],
}

/// Every route that a server has, in the order of the API's description.
#[must_use]
pub fn route_list() -> Vec<RouteInfo> {
    let info = |route: Route| RouteInfo {
        method: route.method,
        path: route.path,
        credentials: route.kinds,
    };
    table().into_iter().map(info).collect()
}

/// The API's description, as `GET /openapi.json` answers it.
#[must_use]
pub fn openapi_document() -> serde_json::Value {
    openapi::document(&table())
}

/// Where a body need not be JSON.
pub(crate) fn uploads() -> Vec<(Method, &'static str)> {
    let uploads = table().into_iter().filter(|route| route.any_media_type);
    uploads.map(|route| (route.method, route.path)).collect()
}

/// The router over the table.
pub(crate) fn router(app: &App) -> Router {
    let mut paths: BTreeMap<&'static str, MethodRouter> = BTreeMap::new();
    for route in table() {
        let (path, app) = (route.path, app.clone());
        let Ok(filter) = MethodFilter::try_from(route.method.clone()) else {
            continue;
        };
        let answer = move |request: Request<Body>| {
            let answering = route.answer(app.clone(), request);
            async move {
                let mut response = answering.await;
                response.extensions_mut().insert(Matched { path });
                response
            }
        };
        let methods = paths.remove(path).unwrap_or_default();
        paths.insert(path, methods.merge(on(filter, answer)));
    }
    let mut router = Router::new();
    for (path, methods) in paths {
        router = router.route(path, methods);
    }
    router
        .fallback(|request: Request<Body>| async move {
            let detail = format!("no route is called {}", request.uri().path());
            Refusal::new(ErrorCode::NotFound, detail).into_response()
        })
        .method_not_allowed_fallback(|request: Request<Body>| async move {
            let detail = format!("{} is not a method of this route", request.method());
            Refusal::new(ErrorCode::MethodNotAllowed, detail).into_response()
        })
}

/// Which part of a list is wanted.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ListQuery {
    /// The `nextCursor` of an earlier page.
    cursor: Option<String>,
    /// Most items, 1 to 200; absent: 50.
    limit: Option<u32>,
}

impl From<ListQuery> for PageQuery {
    fn from(query: ListQuery) -> Self {
        Self {
            cursor: query.cursor,
            limit: query.limit,
        }
    }
}
