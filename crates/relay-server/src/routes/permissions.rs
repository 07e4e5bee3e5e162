//! Permission requests: asking, waiting, answering, and what becomes of what was allowed. The runs that ask under
//! rules of their own are here, too.

use std::time::Duration;

use axum::http::Method;
use relay_core::{PageQuery, PermissionQuery};
use relay_protocol::api::Page;
use relay_protocol::ids::{PermissionId, RunId, SessionId};
use relay_protocol::limits::POLL_WAIT_S;
use relay_protocol::link::NoOptions;
use relay_protocol::permission::{
    AskPermission, CancelPermission, CreateRun, EvaluatePermission, Evaluation, FinishPermission,
    PermissionRecord, PermissionRun, PermissionState, ResolvePermission, StartPermission,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::through::through;
use crate::access::{Access, Agent, Participant, Reader};
use crate::call::{Call, Done, Json, Made, OptionalJson, Params};
use crate::refusal::Refusal;
use crate::table::Route;

pub(crate) fn routes() -> Vec<Route> {
    let (get, post) = (Method::GET, Method::POST);
    vec![
        Route::new(
            post.clone(),
            "/v1/permissions",
            "Asks whether a tool may run. Asked again with the same toolCallId it is the same question.",
            ask,
        ),
        Route::new(
            get.clone(),
            "/v1/permissions",
            "Permission requests, newest first.",
            list,
        ),
        Route::new(
            get.clone(),
            "/v1/permissions/{id}",
            "One permission request; waits for a decision if asked to.",
            show,
        ),
        Route::new(
            post.clone(),
            "/v1/permissions/{id}/resolve",
            "Decides about a permission request. The first decision counts; who comes later is told of it.",
            resolve,
        ),
        Route::new(
            post.clone(),
            "/v1/permissions/{id}/cancel",
            "Says that a permission request is no longer needed.",
            cancel,
        ),
        Route::new(
            post.clone(),
            "/v1/permissions/{id}/seen",
            "Says that a permission request is before the eyes of somebody who may decide.",
            seen,
        ),
        Route::new(
            post.clone(),
            "/v1/permissions/{id}/start",
            "Has it written down that what was allowed is about to run; it is started once.",
            start,
        ),
        Route::new(
            post.clone(),
            "/v1/permissions/{id}/finish",
            "Says how what was allowed ended.",
            finish,
        ),
        Route::new(
            post.clone(),
            "/v1/permissions/evaluate",
            "What the rules say about a call; nobody is asked.",
            evaluate,
        ),
        Route::new(
            post,
            "/v1/permissions/runs",
            "Begins a run with rules of its own, which can narrow those of its parent and never widen them.",
            create_run,
        ),
        Route::new(
            get,
            "/v1/permissions/runs/{id}",
            "One run, and its own rules.",
            show_run,
        ),
        Route::new(
            Method::DELETE,
            "/v1/permissions/runs/{id}",
            "Ends a run, and what it still asks.",
            end_run,
        ),
    ]
}

async fn ask(
    by: Access<Agent>,
    call: Call<(), (), Json<AskPermission>>,
) -> Result<Made<PermissionRecord>, Refusal> {
    let session = session(&by, &call).await?;
    let Json(body) = call.body;
    let asked = by
        .engine()
        .ask_permission(by.caller(), session, body)
        .await?;
    Ok(Made(asked))
}

/// The session that an agent asks through, if it does.
async fn session<B>(
    by: &Access<Agent>,
    call: &Call<(), (), B>,
) -> Result<Option<SessionId>, Refusal> {
    let session = through(by, &call.headers).await?;
    Ok(session.map(|session| session.session_id))
}

/// Which permission requests are wanted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PermissionsQuery {
    /// Only those in this state.
    state: Option<PermissionState>,
    /// Only those of this agent.
    agent: Option<String>,
    /// Only those of this session.
    session: Option<SessionId>,
    /// The `nextCursor` of an earlier page.
    cursor: Option<String>,
    /// Most items, 1 to 200; absent: 50.
    limit: Option<u32>,
}

async fn list(
    by: Access<Reader>,
    call: Call<(), Params<PermissionsQuery>>,
) -> Result<Done<Page<PermissionRecord>>, Refusal> {
    let Params(query) = call.query;
    let page = PageQuery {
        cursor: query.cursor,
        limit: query.limit,
    };
    let wanted = PermissionQuery {
        state: query.state,
        agent: query.agent,
        session: query.session,
    };
    let found = by.engine().permissions(by.caller(), wanted, page).await?;
    Ok(Done(found))
}

/// Whether a question for a permission request waits.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WaitQuery {
    /// How many seconds to wait for a decision, 0 to 60; absent: 0.
    wait: Option<u32>,
}

async fn show(
    by: Access<Reader>,
    call: Call<(PermissionId,), Params<WaitQuery>>,
) -> Result<Done<PermissionRecord>, Refusal> {
    let (id, wait) = (call.path.0, call.query.0.wait.unwrap_or(0));
    if wait > POLL_WAIT_S {
        let expected = format!("0 to {POLL_WAIT_S}");
        return Err(Refusal::invalid("wait", expected, &wait.to_string()));
    }
    if wait > 0 {
        let decided = async {
            tokio::select! {
                decided = by.engine().permission_decided(by.caller(), id) => Some(decided),
                () = tokio::time::sleep(Duration::from_secs(wait.into())) => None,
                () = by.app().stopping().cancelled() => None,
            }
        };
        if let Some(decided) = by.while_valid(decided).await? {
            return Ok(Done(decided?));
        }
    }
    Ok(Done(by.engine().permission(by.caller(), id).await?))
}

async fn resolve(
    by: Access<Participant>,
    call: Call<(PermissionId,), (), Json<ResolvePermission>>,
) -> Result<Done<PermissionRecord>, Refusal> {
    let Json(body) = call.body;
    let decided = by
        .engine()
        .resolve_permission(by.caller(), call.path.0, body)
        .await?;
    Ok(Done(decided))
}

async fn cancel(
    by: Access<Participant>,
    call: Call<(PermissionId,), (), OptionalJson<CancelPermission>>,
) -> Result<Done<PermissionRecord>, Refusal> {
    let OptionalJson(body) = call.body;
    let cancelled = by
        .engine()
        .cancel_permission(by.caller(), call.path.0, body)
        .await?;
    Ok(Done(cancelled))
}

async fn seen(
    by: Access<Participant>,
    call: Call<(PermissionId,), (), OptionalJson<NoOptions>>,
) -> Result<Done<PermissionRecord>, Refusal> {
    let seen = by.engine().see_permission(by.caller(), call.path.0).await?;
    Ok(Done(seen))
}

async fn start(
    by: Access<Agent>,
    call: Call<(PermissionId,), (), Json<StartPermission>>,
) -> Result<Done<PermissionRecord>, Refusal> {
    let Json(body) = call.body;
    let started = by
        .engine()
        .start_permission(by.caller(), call.path.0, body)
        .await?;
    Ok(Done(started))
}

async fn finish(
    by: Access<Agent>,
    call: Call<(PermissionId,), (), Json<FinishPermission>>,
) -> Result<Done<PermissionRecord>, Refusal> {
    let Json(body) = call.body;
    let finished = by
        .engine()
        .finish_permission(by.caller(), call.path.0, body)
        .await?;
    Ok(Done(finished))
}

async fn evaluate(
    by: Access<Participant>,
    call: Call<(), (), Json<EvaluatePermission>>,
) -> Result<Done<Evaluation>, Refusal> {
    let Json(body) = call.body;
    let said = by.engine().evaluate_permission(by.caller(), body).await?;
    Ok(Done(said))
}

async fn create_run(
    by: Access<Agent>,
    call: Call<(), (), OptionalJson<CreateRun>>,
) -> Result<Made<PermissionRun>, Refusal> {
    let session = session(&by, &call).await?;
    let OptionalJson(body) = call.body;
    let begun = by.engine().create_run(by.caller(), session, body).await?;
    Ok(Made(begun))
}

async fn show_run(
    by: Access<Participant>,
    call: Call<(RunId,)>,
) -> Result<Done<PermissionRun>, Refusal> {
    let run = by.engine().permission_run(by.caller(), call.path.0).await?;
    Ok(Done(run))
}

/// Why a run ends.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EndQuery {
    /// Why.
    reason: Option<String>,
}

async fn end_run(
    by: Access<Participant>,
    call: Call<(RunId,), Params<EndQuery>>,
) -> Result<Done<PermissionRun>, Refusal> {
    let because = CancelPermission {
        reason: call.query.0.reason,
    };
    let ended = by
        .engine()
        .end_run(by.caller(), call.path.0, because)
        .await?;
    Ok(Done(ended))
}
