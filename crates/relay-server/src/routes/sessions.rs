//! Sessions: attaching by HTTP, reporting, standing at boundaries, asking for deliveries, and their life.

use std::time::Duration;

use axum::http::Method;
use relay_core::{PageQuery, Reach};
use relay_protocol::api::Page;
use relay_protocol::ids::SessionId;
use relay_protocol::limits::POLL_WAIT_S;
use relay_protocol::link::{Link, LinkKind, NoOptions};
use relay_protocol::session::{
    Acked, AtBoundary, Attached, CreateSession, DueDeliveries, ForkSession, LifecycleRequest,
    Polled, ReportEvents, SessionForkedAnswer, SessionSummary, SnapshotTaken,
};
use relay_protocol::socket::ControlResult;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::access::{Access, Participant, Reader};
use crate::call::{Call, Done, Json, Made, Nothing, OptionalJson, Params};
use crate::poll;
use crate::refusal::Refusal;
use crate::table::Route;
use crate::webhook;

pub(crate) fn routes() -> Vec<Route> {
    let (get, post) = (Method::GET, Method::POST);
    vec![
        Route::new(
            post.clone(),
            "/v1/sessions",
            "Attaches a session to an agent, or lets one go on.",
            attach,
        ),
        Route::new(get.clone(), "/v1/sessions", "Sessions, newest first.", list),
        Route::new(get.clone(), "/v1/sessions/{id}", "One session.", show),
        Route::new(
            post.clone(),
            "/v1/sessions/{id}/events",
            "Reports what a session observed, one event or a batch.",
            report,
        ),
        Route::new(
            post.clone(),
            "/v1/sessions/{id}/boundary",
            "Says that a session stands at a boundary; what is due there.",
            boundary,
        ),
        Route::new(
            get,
            "/v1/sessions/{id}/deliveries",
            "What came for a session; waits for it if asked to.",
            deliveries,
        ),
        Route::new(
            post.clone(),
            "/v1/sessions/{id}/control",
            "Says how an operation on a session ended.",
            control,
        ),
        Route::new(
            post.clone(),
            "/v1/sessions/{id}/release",
            "Ends a session.",
            release,
        ),
        Route::new(
            post.clone(),
            "/v1/sessions/{id}/pause",
            "Holds a session.",
            pause,
        ),
        Route::new(
            post.clone(),
            "/v1/sessions/{id}/resume",
            "Lets a paused session go on.",
            resume,
        ),
        Route::new(
            post.clone(),
            "/v1/sessions/{id}/fork",
            "Makes a second session from one.",
            fork,
        ),
        Route::new(
            post,
            "/v1/sessions/{id}/snapshot",
            "Has a session write itself down.",
            snapshot,
        ),
    ]
}

async fn attach(
    by: Access<Participant>,
    call: Call<(), (), Json<CreateSession>>,
) -> Result<Made<Attached>, Refusal> {
    let (attach, link) = call.body.0.into_parts();
    let attached = match link {
        Link::Poll(_) => poll::attach(&by, attach).await?,
        Link::None(_) => {
            let reach = Reach::none();
            by.engine().attach(by.caller(), attach, reach).await?.0
        }
        Link::Webhook(webhook) => webhook::attach(&by, attach, webhook).await?,
    };
    Ok(Made(attached))
}

/// Which sessions are wanted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SessionQuery {
    /// Only those of this agent.
    agent: Option<String>,
    /// The `nextCursor` of an earlier page.
    cursor: Option<String>,
    /// Most items, 1 to 200; absent: 50.
    limit: Option<u32>,
}

async fn list(
    by: Access<Reader>,
    call: Call<(), Params<SessionQuery>>,
) -> Result<Done<Page<SessionSummary>>, Refusal> {
    let Params(query) = call.query;
    let page = PageQuery {
        cursor: query.cursor,
        limit: query.limit,
    };
    let found = by
        .engine()
        .sessions(by.caller(), query.agent.as_deref(), page)
        .await?;
    Ok(Done(found))
}

async fn show(
    by: Access<Reader>,
    call: Call<(SessionId,)>,
) -> Result<Done<SessionSummary>, Refusal> {
    Ok(Done(by.engine().session(by.caller(), call.path.0).await?))
}

async fn report(
    by: Access<Participant>,
    call: Call<(SessionId,), (), Json<ReportEvents>>,
) -> Result<Done<Acked>, Refusal> {
    let Json(body) = call.body;
    let acked = by.engine().report(by.caller(), call.path.0, body).await?;
    Ok(Done(acked))
}

async fn boundary(
    by: Access<Participant>,
    call: Call<(SessionId,), (), Json<AtBoundary>>,
) -> Result<Done<DueDeliveries>, Refusal> {
    let Json(body) = call.body;
    let due = by.engine().boundary(by.caller(), call.path.0, body).await?;
    Ok(Done(due))
}

/// How a session asks.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PollQuery {
    /// How many seconds to wait if nothing is there, 0 to 60; absent: 0.
    wait: Option<u32>,
    /// Most deliveries, 1 to 20; absent: 20.
    limit: Option<u32>,
}

async fn deliveries(
    by: Access<Participant>,
    call: Call<(SessionId,), Params<PollQuery>>,
) -> Result<Done<Polled>, Refusal> {
    let Params(PollQuery { wait, limit }) = call.query;
    let wait = wait.unwrap_or(0);
    if wait > POLL_WAIT_S {
        let expected = format!("0 to {POLL_WAIT_S}");
        return Err(Refusal::invalid("wait", expected, &wait.to_string()));
    }
    let session = by.engine().session(by.caller(), call.path.0).await?;
    if session.link == LinkKind::None {
        let due = by
            .engine()
            .due_now(by.caller(), session.session_id, limit)
            .await?;
        return Ok(Done(Polled {
            deliveries: due.deliveries,
            controls: None,
            more: due.more,
        }));
    }
    let wait = Duration::from_secs(wait.into());
    Ok(Done(poll::ask(&by, &session, wait, limit).await?))
}

async fn control(
    by: Access<Participant>,
    call: Call<(SessionId,), (), Json<ControlResult>>,
) -> Result<Nothing, Refusal> {
    let Json(body) = call.body;
    by.engine()
        .control_result(by.caller(), call.path.0, body)
        .await?;
    Ok(Nothing)
}

async fn release(
    by: Access<Participant>,
    call: Call<(SessionId,), (), OptionalJson<LifecycleRequest>>,
) -> Result<Done<SessionSummary>, Refusal> {
    let OptionalJson(body) = call.body;
    let released = by
        .engine()
        .release_session(by.caller(), call.path.0, body)
        .await?;
    Ok(Done(released))
}

async fn pause(
    by: Access<Participant>,
    call: Call<(SessionId,), (), OptionalJson<LifecycleRequest>>,
) -> Result<Done<SessionSummary>, Refusal> {
    let OptionalJson(body) = call.body;
    let paused = by
        .engine()
        .pause_session(by.caller(), call.path.0, body)
        .await?;
    Ok(Done(paused))
}

async fn resume(
    by: Access<Participant>,
    call: Call<(SessionId,), (), OptionalJson<LifecycleRequest>>,
) -> Result<Done<SessionSummary>, Refusal> {
    let OptionalJson(body) = call.body;
    let resumed = by
        .engine()
        .resume_session(by.caller(), call.path.0, body)
        .await?;
    Ok(Done(resumed))
}

async fn fork(
    by: Access<Participant>,
    call: Call<(SessionId,), (), OptionalJson<ForkSession>>,
) -> Result<Made<SessionForkedAnswer>, Refusal> {
    let OptionalJson(body) = call.body;
    let forked = by
        .engine()
        .fork_session(by.caller(), call.path.0, body)
        .await?;
    Ok(Made(forked))
}

async fn snapshot(
    by: Access<Participant>,
    call: Call<(SessionId,), (), OptionalJson<NoOptions>>,
) -> Result<Made<SnapshotTaken>, Refusal> {
    let taken = by
        .engine()
        .snapshot_session(by.caller(), call.path.0)
        .await?;
    Ok(Made(taken))
}
