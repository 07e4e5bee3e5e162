//! What waits for an agent, its conversations, and finding messages.

use axum::http::Method;
use relay_core::PageQuery;
use relay_protocol::api::Page;
use relay_protocol::api::messages::{Conversation, Inbox, MessageView, SearchHit, SearchQuery};
use relay_protocol::ids::ConversationId;
use schemars::JsonSchema;
use serde::Deserialize;

use super::ListQuery;
use crate::access::{Access, Agent, Reader};
use crate::call::{Call, Done, Params};
use crate::refusal::Refusal;
use crate::table::Route;

pub(crate) fn routes() -> Vec<Route> {
    let get = Method::GET;
    vec![
        Route::new(
            get.clone(),
            "/v1/inbox",
            "What the agent has not read, oldest first.",
            inbox,
        ),
        Route::new(
            get.clone(),
            "/v1/conversations",
            "The agent's conversations, the most recent first.",
            conversations,
        ),
        Route::new(
            get.clone(),
            "/v1/conversations/{id}/messages",
            "The messages of a conversation, newest first.",
            messages,
        ),
        Route::new(
            get,
            "/v1/search",
            "Messages that hold all of the words, newest first.",
            search,
        ),
    ]
}

/// How an inbox is read.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct InboxQuery {
    /// True: what is answered counts as read from now on.
    ack: Option<bool>,
    /// Most messages, 1 to 200; absent: 50.
    limit: Option<u32>,
}

async fn inbox(
    by: Access<Agent>,
    call: Call<(), Params<InboxQuery>>,
) -> Result<Done<Inbox>, Refusal> {
    let Params(InboxQuery { ack, limit }) = call.query;
    let page = PageQuery {
        cursor: None,
        limit,
    };
    let inbox = match ack {
        Some(true) => by.engine().take_inbox(by.caller(), page).await?,
        _ => by.engine().inbox(by.caller(), page).await?,
    };
    Ok(Done(inbox))
}

async fn conversations(
    by: Access<Agent>,
    call: Call<(), Params<ListQuery>>,
) -> Result<Done<Page<Conversation>>, Refusal> {
    let page = call.query.0.into();
    Ok(Done(by.engine().conversations(by.caller(), page).await?))
}

async fn messages(
    by: Access<Reader>,
    call: Call<(ConversationId,), Params<ListQuery>>,
) -> Result<Done<Page<MessageView>>, Refusal> {
    let page = call.query.0.into();
    let messages = by
        .engine()
        .conversation_messages(by.caller(), call.path.0, page)
        .await?;
    Ok(Done(messages))
}

async fn search(
    by: Access<Reader>,
    call: Call<(), Params<SearchQuery>>,
) -> Result<Done<Page<SearchHit>>, Refusal> {
    Ok(Done(by.engine().search(by.caller(), call.query.0).await?))
}
