//! Channels.

use axum::http::Method;
use relay_protocol::api::Page;
use relay_protocol::api::messages::MessageView;
use relay_protocol::api::workspace::{ChannelMember, CreateChannel, InviteAgents, UpdateChannel};
use relay_protocol::channel::Channel;
use relay_protocol::link::NoOptions;

use super::ListQuery;
use crate::access::{Access, Agent, Participant, Reader};
use crate::call::{Call, Done, Json, Made, OptionalJson, Params};
use crate::refusal::Refusal;
use crate::table::Route;

pub(crate) fn routes() -> Vec<Route> {
    let (get, post) = (Method::GET, Method::POST);
    vec![
        Route::new(
            post.clone(),
            "/v1/channels",
            "Creates a channel; an agent that does is in it.",
            create,
        ),
        Route::new(get.clone(), "/v1/channels", "All channels, by name.", list),
        Route::new(get.clone(), "/v1/channels/{name}", "One channel.", show),
        Route::new(
            Method::PATCH,
            "/v1/channels/{name}",
            "Changes a channel's topic, archives it or opens it again.",
            update,
        ),
        Route::new(
            post.clone(),
            "/v1/channels/{name}/join",
            "The agent joins a channel.",
            join,
        ),
        Route::new(
            post.clone(),
            "/v1/channels/{name}/leave",
            "The agent leaves a channel.",
            leave,
        ),
        Route::new(
            post,
            "/v1/channels/{name}/invite",
            "Brings others into a channel, all or none.",
            invite,
        ),
        Route::new(
            get.clone(),
            "/v1/channels/{name}/members",
            "Who is in a channel, by name.",
            members,
        ),
        Route::new(
            get,
            "/v1/channels/{name}/messages",
            "The posts of a channel, newest first.",
            messages,
        ),
    ]
}

async fn create(
    by: Access<Participant>,
    call: Call<(), (), Json<CreateChannel>>,
) -> Result<Made<Channel>, Refusal> {
    let Json(body) = call.body;
    Ok(Made(by.engine().create_channel(by.caller(), body).await?))
}

async fn list(
    by: Access<Reader>,
    call: Call<(), Params<ListQuery>>,
) -> Result<Done<Page<Channel>>, Refusal> {
    let page = call.query.0.into();
    Ok(Done(by.engine().channels(by.caller(), page).await?))
}

async fn show(by: Access<Reader>, call: Call<(String,)>) -> Result<Done<Channel>, Refusal> {
    Ok(Done(by.engine().channel(by.caller(), &call.path.0).await?))
}

async fn update(
    by: Access<Participant>,
    call: Call<(String,), (), Json<UpdateChannel>>,
) -> Result<Done<Channel>, Refusal> {
    let Json(body) = call.body;
    let changed = by
        .engine()
        .update_channel(by.caller(), &call.path.0, body)
        .await?;
    Ok(Done(changed))
}

async fn join(
    by: Access<Agent>,
    call: Call<(String,), (), OptionalJson<NoOptions>>,
) -> Result<Done<Channel>, Refusal> {
    let joined = by.engine().join_channel(by.caller(), &call.path.0).await?;
    Ok(Done(joined))
}

async fn leave(
    by: Access<Agent>,
    call: Call<(String,), (), OptionalJson<NoOptions>>,
) -> Result<Done<Channel>, Refusal> {
    let left = by.engine().leave_channel(by.caller(), &call.path.0).await?;
    Ok(Done(left))
}

async fn invite(
    by: Access<Participant>,
    call: Call<(String,), (), Json<InviteAgents>>,
) -> Result<Done<Channel>, Refusal> {
    let Json(body) = call.body;
    let invited = by
        .engine()
        .invite(by.caller(), &call.path.0, &body.agents)
        .await?;
    Ok(Done(invited))
}

async fn members(
    by: Access<Reader>,
    call: Call<(String,), Params<ListQuery>>,
) -> Result<Done<Page<ChannelMember>>, Refusal> {
    let page = call.query.0.into();
    let members = by
        .engine()
        .channel_members(by.caller(), &call.path.0, page)
        .await?;
    Ok(Done(members))
}

async fn messages(
    by: Access<Reader>,
    call: Call<(String,), Params<ListQuery>>,
) -> Result<Done<Page<MessageView>>, Refusal> {
    let page = call.query.0.into();
    let messages = by
        .engine()
        .channel_messages(by.caller(), &call.path.0, page)
        .await?;
    Ok(Done(messages))
}
