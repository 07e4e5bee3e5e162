//! Workspaces, their policy, and who only looks.

use axum::http::Method;
use relay_protocol::api::Page;
use relay_protocol::api::workspace::{
    CreateObserverToken, CreateWorkspace, Me, ObserverToken, ObserverTokenCreated, UpdateWorkspace,
    Workspace, WorkspaceCreated,
};
use relay_protocol::ids::TokenId;
use relay_protocol::policy::{Policy, PolicyPatch};

use super::ListQuery;
use crate::access::{Access, Admin, Anyone, Owner, Reader};
use crate::call::{Call, Done, Json, Made, Nothing, OptionalJson, Params};
use crate::refusal::Refusal;
use crate::table::Route;

pub(crate) fn routes() -> Vec<Route> {
    let (get, post, patch) = (Method::GET, Method::POST, Method::PATCH);
    vec![
        Route::new(
            post.clone(),
            "/v1/workspaces",
            "Creates a workspace; its key is shown this once.",
            create,
        ),
        Route::new(
            get.clone(),
            "/v1/workspace",
            "The credential's workspace.",
            show,
        ),
        Route::new(
            patch.clone(),
            "/v1/workspace",
            "Gives the workspace another name.",
            update,
        ),
        Route::new(
            get.clone(),
            "/v1/workspace/policy",
            "How the workspace delivers.",
            policy,
        ),
        Route::new(
            patch,
            "/v1/workspace/policy",
            "Changes how the workspace delivers.",
            update_policy,
        ),
        Route::new(
            post,
            "/v1/observer-tokens",
            "Makes a credential that only looks; it is shown this once.",
            create_observer,
        ),
        Route::new(
            get.clone(),
            "/v1/observer-tokens",
            "The credentials that only look, the oldest first.",
            observers,
        ),
        Route::new(
            Method::DELETE,
            "/v1/observer-tokens/{id}",
            "Takes such a credential back.",
            revoke_observer,
        ),
        Route::new(get, "/v1/me", "What the credential stands for.", me),
    ]
}

async fn create(
    by: Access<Admin>,
    call: Call<(), (), Json<CreateWorkspace>>,
) -> Result<Made<WorkspaceCreated>, Refusal> {
    let Json(body) = call.body;
    let created = by
        .engine()
        .create_workspace(by.caller(), &body.name)
        .await?;
    Ok(Made(created))
}

async fn show(by: Access<Reader>, _: Call) -> Result<Done<Workspace>, Refusal> {
    Ok(Done(by.engine().workspace(by.caller())?))
}

async fn update(
    by: Access<Owner>,
    call: Call<(), (), Json<UpdateWorkspace>>,
) -> Result<Done<Workspace>, Refusal> {
    let Json(body) = call.body;
    if let Some(name) = &body.name {
        by.engine().rename_workspace(by.caller(), name).await?;
    }
    Ok(Done(by.engine().workspace(by.caller())?))
}

async fn policy(by: Access<Reader>, _: Call) -> Result<Done<Policy>, Refusal> {
    Ok(Done(by.engine().policy(by.caller())?))
}

async fn update_policy(
    by: Access<Owner>,
    call: Call<(), (), Json<PolicyPatch>>,
) -> Result<Done<Policy>, Refusal> {
    let Json(patch) = call.body;
    Ok(Done(by.engine().update_policy(by.caller(), patch).await?))
}

async fn create_observer(
    by: Access<Owner>,
    call: Call<(), (), OptionalJson<CreateObserverToken>>,
) -> Result<Made<ObserverTokenCreated>, Refusal> {
    let OptionalJson(body) = call.body;
    Ok(Made(by.engine().create_observer(by.caller(), body).await?))
}

async fn observers(
    by: Access<Owner>,
    call: Call<(), Params<ListQuery>>,
) -> Result<Done<Page<ObserverToken>>, Refusal> {
    let page = call.query.0.into();
    Ok(Done(by.engine().observers(by.caller(), page).await?))
}

async fn revoke_observer(by: Access<Owner>, call: Call<(TokenId,)>) -> Result<Nothing, Refusal> {
    by.engine()
        .revoke_observer(by.caller(), call.path.0)
        .await?;
    Ok(Nothing)
}

async fn me(by: Access<Anyone>, _: Call) -> Result<Done<Me>, Refusal> {
    Ok(Done(by.engine().me(by.caller())))
}
