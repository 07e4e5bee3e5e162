//! Actions and their calls.

use axum::http::Method;
use relay_protocol::action::{
    ActionInfo, CompleteInvocation, FailInvocation, Invocation, InvokeAction, Invoked,
    RegisterAction,
};
use relay_protocol::api::Page;
use relay_protocol::ids::InvocationId;
use relay_protocol::negotiation::{check_expose, check_invoke};

use super::ListQuery;
use super::through::check_through;
use crate::access::{Access, Participant, Reader};
use crate::call::{
    Accepted, Call, Done, Json, Made, Nothing, OptionalJson, Params, idempotency_key,
};
use crate::refusal::Refusal;
use crate::table::Route;

pub(crate) fn routes() -> Vec<Route> {
    let (get, post) = (Method::GET, Method::POST);
    vec![
        Route::new(
            post.clone(),
            "/v1/actions",
            "Registers an action, or replaces what the same owner registered. Calls come over a socket that \
             registers it, or are answered with the routes below.",
            register,
        ),
        Route::new(
            get.clone(),
            "/v1/actions",
            "The actions that one may call or has registered, by name.",
            list,
        ),
        Route::new(
            Method::DELETE,
            "/v1/actions/{name}",
            "Takes an action back; its open calls fail.",
            remove,
        ),
        Route::new(
            post.clone(),
            "/v1/actions/{name}/invoke",
            "Calls an action. The call is recorded, not run: how it ended is told by events.",
            invoke,
        )
        .idempotent(),
        Route::new(
            get,
            "/v1/invocations/{id}",
            "One call, and how it stands.",
            show,
        ),
        Route::new(
            post.clone(),
            "/v1/invocations/{id}/complete",
            "Says that a call ended well.",
            complete,
        ),
        Route::new(
            post,
            "/v1/invocations/{id}/fail",
            "Says that a call failed.",
            fail,
        ),
    ]
}

async fn register(
    by: Access<Participant>,
    call: Call<(), (), Json<RegisterAction>>,
) -> Result<Made<ActionInfo>, Refusal> {
    check_through(&by, &call.headers, check_expose).await?;
    let Json(body) = call.body;
    Ok(Made(by.engine().register_action(by.caller(), body).await?))
}

async fn list(
    by: Access<Reader>,
    call: Call<(), Params<ListQuery>>,
) -> Result<Done<Page<ActionInfo>>, Refusal> {
    let Params(query) = call.query;
    Ok(Done(by.engine().actions(by.caller(), query.into()).await?))
}

async fn remove(by: Access<Participant>, call: Call<(String,)>) -> Result<Nothing, Refusal> {
    by.engine().remove_action(by.caller(), &call.path.0).await?;
    Ok(Nothing)
}

async fn invoke(
    by: Access<Participant>,
    call: Call<(String,), (), OptionalJson<InvokeAction>>,
) -> Result<Accepted<Invoked>, Refusal> {
    check_through(&by, &call.headers, check_invoke).await?;
    let key = idempotency_key(&call.headers, None)?;
    let OptionalJson(body) = call.body;
    let invoked = by
        .engine()
        .invoke(by.caller(), &call.path.0, body, key.as_deref())
        .await?;
    Ok(Accepted(invoked))
}

async fn show(
    by: Access<Reader>,
    call: Call<(InvocationId,)>,
) -> Result<Done<Invocation>, Refusal> {
    Ok(Done(
        by.engine().invocation(by.caller(), call.path.0).await?,
    ))
}

async fn complete(
    by: Access<Participant>,
    call: Call<(InvocationId,), (), OptionalJson<CompleteInvocation>>,
) -> Result<Done<Invocation>, Refusal> {
    let OptionalJson(body) = call.body;
    let ended = by
        .engine()
        .complete_invocation(by.caller(), call.path.0, body)
        .await?;
    Ok(Done(ended))
}

async fn fail(
    by: Access<Participant>,
    call: Call<(InvocationId,), (), Json<FailInvocation>>,
) -> Result<Done<Invocation>, Refusal> {
    let Json(body) = call.body;
    let ended = by
        .engine()
        .fail_invocation(by.caller(), call.path.0, body)
        .await?;
    Ok(Done(ended))
}
