//! The log: by pages, and as a stream of server-sent events.

use axum::body::Body;
use axum::http::{HeaderMap, Method, Response, StatusCode};
use relay_core::EventPage;
use relay_protocol::api::events::{EventList, EventQuery};
use relay_protocol::problem::Problem;
use relay_protocol::selector::{Filter, Selector};
use schemars::SchemaGenerator;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::access::{Access, Reader};
use crate::call::{Answer, Call, Params, json_content, json_response};
use crate::refusal::Refusal;
use crate::stream::{EventStream, follow};
use crate::table::Route;

pub(crate) fn routes() -> Vec<Route> {
    let get = Method::GET;
    vec![
        Route::new(
            get.clone(),
            "/v1/events",
            "The log from a place on, as far as the credential may see it.",
            list,
        ),
        Route::new(
            get,
            "/v1/events/stream",
            "The log as server-sent events; goes on after `Last-Event-ID`.",
            stream,
        ),
    ]
}

async fn list(by: Access<Reader>, call: Call<(), Params<EventQuery>>) -> Result<Events, Refusal> {
    let Params(query) = call.query;
    let selector = selector(query.types.as_deref())?;
    let after = query.after.unwrap_or(0);
    let page = by
        .engine()
        .events(by.caller(), &selector, after, query.limit)
        .await?;
    Ok(Events(page))
}

/// The choice of events that a list of names and patterns stands for.
fn selector(types: Option<&str>) -> Result<Selector, Refusal> {
    let Some(types) = types else {
        return Ok(Selector::all());
    };
    let patterns: Vec<&str> = types.split(',').map(str::trim).collect();
    let selector = match patterns.as_slice() {
        [pattern] => Selector::parse(pattern),
        patterns => Selector::from_filter(Filter {
            or: Some(patterns.iter().copied().map(Filter::event).collect()),
            ..Filter::default()
        }),
    };
    selector.map_err(|error| Problem::from(error).into())
}

/// A page of the log.
struct Events(EventPage);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventListJson {
    items: Vec<Box<RawValue>>,
    after: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

impl Answer for Events {
    fn into_response(self) -> Response<Body> {
        let Self(page) = self;
        let list = EventListJson {
            items: page
                .events
                .iter()
                .map(|event| event.event.to_json())
                .collect(),
            after: page.after,
            next_cursor: page.more.then(|| page.after.to_string()),
        };
        json_response(StatusCode::OK, &list)
    }

    fn describe(generator: &mut SchemaGenerator) -> (StatusCode, Value) {
        (StatusCode::OK, json_content::<EventList>(generator))
    }
}

async fn stream(
    by: Access<Reader>,
    call: Call<(), Params<EventQuery>>,
) -> Result<EventStream, Refusal> {
    let Params(query) = call.query;
    if let Some(limit) = query.limit {
        return Err(Refusal::invalid(
            "limit",
            "none: a stream has no end",
            &limit.to_string(),
        ));
    }
    let selector = selector(query.types.as_deref())?;
    let after = last_event_id(&call.headers)?.or(query.after);
    follow(by, selector, after).await
}

/// Where a client that comes back wants to go on.
fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, Refusal> {
    let Some(value) = headers.get("last-event-id") else {
        return Ok(None);
    };
    let text = value.to_str().unwrap_or_default();
    match text.parse() {
        Ok(seq) => Ok(Some(seq)),
        // What browsers send when they have not seen an event yet.
        Err(_) if text.is_empty() => Ok(None),
        Err(_) => Err(Refusal::invalid("Last-Event-ID", "a sequence number", text)),
    }
}
