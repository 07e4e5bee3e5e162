//! Agents.

use axum::http::Method;
use relay_protocol::agent::{AgentIdentity, AgentSummary};
use relay_protocol::api::Page;
use relay_protocol::api::workspace::{AgentRegistered, RegisterAgent, TokenRotated, UpdateAgent};
use relay_protocol::delivery_record::{Flush, Flushed};
use relay_protocol::link::NoOptions;
use schemars::JsonSchema;
use serde::Deserialize;

use super::ListQuery;
use crate::access::{Access, Owner, Participant, Reader};
use crate::call::{Call, Done, Json, Made, Nothing, OptionalJson, Params};
use crate::refusal::Refusal;
use crate::table::Route;

pub(crate) fn routes() -> Vec<Route> {
    let (get, post) = (Method::GET, Method::POST);
    vec![
        Route::new(
            post.clone(),
            "/v1/agents",
            "Registers an agent; its token is shown this once.",
            register,
        ),
        Route::new(
            get.clone(),
            "/v1/agents",
            "All agents with their presence, by name.",
            list,
        ),
        Route::new(get, "/v1/agents/{name}", "One agent.", show),
        Route::new(
            Method::PATCH,
            "/v1/agents/{name}",
            "Replaces what others may know about an agent.",
            update,
        ),
        Route::new(
            Method::DELETE,
            "/v1/agents/{name}",
            "Releases an agent: what waits for it fails.",
            release,
        ),
        Route::new(
            post.clone(),
            "/v1/agents/{name}/token",
            "Gives an agent a new token.",
            rotate_token,
        ),
        Route::new(
            post,
            "/v1/agents/{name}/flush",
            "Lets everything go that waits for an agent; one receipt each.",
            flush,
        ),
    ]
}

async fn register(
    by: Access<Owner>,
    call: Call<(), (), Json<RegisterAgent>>,
) -> Result<Made<AgentRegistered>, Refusal> {
    let Json(body) = call.body;
    Ok(Made(by.engine().register_agent(by.caller(), body).await?))
}

async fn list(
    by: Access<Reader>,
    call: Call<(), Params<ListQuery>>,
) -> Result<Done<Page<AgentSummary>>, Refusal> {
    let page = call.query.0.into();
    Ok(Done(by.engine().agents(by.caller(), page).await?))
}

async fn show(by: Access<Reader>, call: Call<(String,)>) -> Result<Done<AgentIdentity>, Refusal> {
    Ok(Done(by.engine().agent(by.caller(), &call.path.0).await?))
}

async fn update(
    by: Access<Participant>,
    call: Call<(String,), (), Json<UpdateAgent>>,
) -> Result<Done<AgentIdentity>, Refusal> {
    let Json(body) = call.body;
    let changed = by
        .engine()
        .update_agent(by.caller(), &call.path.0, body.metadata)
        .await?;
    Ok(Done(changed))
}

/// Why an agent is released.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ReleaseQuery {
    /// Why.
    reason: Option<String>,
}

async fn release(
    by: Access<Participant>,
    call: Call<(String,), Params<ReleaseQuery>>,
) -> Result<Nothing, Refusal> {
    let reason = call.query.0.reason;
    by.engine()
        .release_agent(by.caller(), &call.path.0, reason.as_deref())
        .await?;
    Ok(Nothing)
}

async fn rotate_token(
    by: Access<Participant>,
    call: Call<(String,), (), OptionalJson<NoOptions>>,
) -> Result<Made<TokenRotated>, Refusal> {
    let rotated = by.engine().rotate_token(by.caller(), &call.path.0).await?;
    Ok(Made(rotated))
}

async fn flush(
    by: Access<Participant>,
    call: Call<(String,), (), OptionalJson<Flush>>,
) -> Result<Done<Flushed>, Refusal> {
    let OptionalJson(body) = call.body;
    let flushed = by.engine().flush(by.caller(), &call.path.0, body).await?;
    Ok(Done(flushed))
}
