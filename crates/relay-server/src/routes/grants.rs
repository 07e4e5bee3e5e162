//! Standing decisions: which there are, and taking them back.

use axum::http::Method;
use relay_core::{GrantQuery, PageQuery};
use relay_protocol::api::Page;
use relay_protocol::ids::GrantId;
use relay_protocol::permission::Grant;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::access::{Access, Participant, Reader};
use crate::call::{Call, Done, Params};
use crate::refusal::Refusal;
use crate::table::Route;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::GET,
            "/v1/grants",
            "Standing decisions about tool calls, newest first.",
            list,
        ),
        Route::new(
            Method::DELETE,
            "/v1/grants/{id}",
            "Takes a standing decision back; the next call is looked at without it.",
            revoke,
        ),
    ]
}

/// Which grants are wanted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GrantsQuery {
    /// Only those that this agent can use.
    agent: Option<String>,
    /// Also those that no longer hold; absent: false.
    ended: Option<bool>,
    /// The `nextCursor` of an earlier page.
    cursor: Option<String>,
    /// Most items, 1 to 200; absent: 50.
    limit: Option<u32>,
}

async fn list(
    by: Access<Reader>,
    call: Call<(), Params<GrantsQuery>>,
) -> Result<Done<Page<Grant>>, Refusal> {
    let Params(query) = call.query;
    let page = PageQuery {
        cursor: query.cursor,
        limit: query.limit,
    };
    let wanted = GrantQuery {
        agent: query.agent,
        ended: query.ended.unwrap_or(false),
    };
    Ok(Done(by.engine().grants(by.caller(), wanted, page).await?))
}

async fn revoke(by: Access<Participant>, call: Call<(GrantId,)>) -> Result<Done<Grant>, Refusal> {
    let revoked = by.engine().revoke_grant(by.caller(), call.path.0).await?;
    Ok(Done(revoked))
}
