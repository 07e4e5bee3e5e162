//! Names: unknown, taken, reserved, impossible.

use relay_core::Caller;
use relay_protocol::agent::Metadata;
use relay_protocol::api::messages::SendMessage;
use relay_protocol::api::workspace::UpdateChannel;
use relay_protocol::ids::WorkspaceId;
use relay_protocol::limits::NAME_CHARS;
use relay_protocol::problem::{ErrorCode, Problem};

use super::{Lab, channel};
use crate::support::{START, all, group, named, target};

#[tokio::test]
async fn unknown_names_come_with_the_nearest() {
    let lab = Lab::new().await;
    let (engine, alice, key) = (&lab.engine, &lab.alice, &lab.key);
    use ErrorCode::{UnknownAgent, UnknownChannel};
    let near = |problem: Problem| problem.suggestions.unwrap_or_default();
    let send = |to| SendMessage::text(target(to), "hello");
    let problem = lab.refuses_send("agent", UnknownAgent, send("@bop")).await;
    assert_eq!(near(problem), ["bob"]);
    let problem = lab
        .refuses_send("channel", UnknownChannel, send("#dex"))
        .await;
    assert_eq!(near(problem), ["dev"]);
    let problem = lab
        .refuses_send("far away", UnknownAgent, send("@zzzzzzzz"))
        .await;
    assert_eq!(near(problem), Vec::<String>::new());
    let body = SendMessage::text(group(&["bob", "karol"]), "hello");
    let problem = lab.refuses_send("one of several", UnknownAgent, body).await;
    assert_eq!(near(problem), ["carol"]);
    lab.refuses("look-up", UnknownAgent, engine.agent(alice, "@bobby"))
        .await;
    let invited = ["bob".to_owned(), "nobody".to_owned()];
    let invite = engine.invite(alice, "dev", &invited);
    lab.refuses("invited", UnknownAgent, invite).await;
    lab.refuses("rotated", UnknownAgent, engine.rotate_token(key, "nobody"))
        .await;
    let update = engine.update_agent(key, "nobody", Metadata::new());
    lab.refuses("updated", UnknownAgent, update).await;
    let release = engine.release_agent(key, "nobody", None);
    lab.refuses("released", UnknownAgent, release).await;
    lab.refuses("joined", UnknownChannel, engine.join_channel(alice, "dew"))
        .await;
    lab.refuses("left", UnknownChannel, engine.leave_channel(alice, "dew"))
        .await;
    lab.refuses("channel", UnknownChannel, engine.channel(alice, "dew"))
        .await;
    let members = engine.channel_members(alice, "dew", all());
    lab.refuses("members", UnknownChannel, members).await;
    let messages = engine.channel_messages(alice, "dew", all());
    lab.refuses("messages", UnknownChannel, messages).await;
    let update = engine.update_channel(alice, "dew", UpdateChannel::default());
    lab.refuses("updated", UnknownChannel, update).await;
}

#[tokio::test]
async fn names_that_nobody_can_have() {
    let lab = Lab::new().await;
    let long = "x".repeat(NAME_CHARS + 1);
    let cases = [
        ("", ErrorCode::InvalidName),
        ("with space", ErrorCode::InvalidName),
        ("@alice", ErrorCode::InvalidName),
        ("ünal", ErrorCode::InvalidName),
        ("a/b", ErrorCode::InvalidName),
        (long.as_str(), ErrorCode::InvalidName),
        ("relay", ErrorCode::ReservedName),
        ("SYSTEM", ErrorCode::ReservedName),
        ("everyone", ErrorCode::ReservedName),
        ("here", ErrorCode::ReservedName),
        ("all", ErrorCode::ReservedName),
        ("channel", ErrorCode::ReservedName),
    ];
    for (name, code) in cases {
        let agent = lab.engine.register_agent(&lab.key, named(name));
        lab.refuses(name, code, agent).await;
        let channel = lab.engine.create_channel(&lab.alice, channel(name));
        lab.refuses(name, code, channel).await;
    }
    let taken = lab.engine.register_agent(&lab.key, named("ALICE"));
    lab.refuses("taken", ErrorCode::NameTaken, taken).await;
    for name in ["DEV", "#general"] {
        let taken = lab.engine.create_channel(&lab.alice, channel(name));
        lab.refuses(name, ErrorCode::NameTaken, taken).await;
    }
    let most = "x".repeat(NAME_CHARS);
    lab.engine
        .register_agent(&lab.key, named(&most))
        .await
        .unwrap();
    lab.engine
        .create_channel(&lab.alice, channel(&most))
        .await
        .unwrap();
}

#[tokio::test]
async fn workspaces_that_nobody_can_have() {
    let lab = Lab::new().await;
    let owner = Caller::process_owner();
    let long = "ü".repeat(NAME_CHARS + 1);
    let cases = [
        ("", ErrorCode::InvalidRequest),
        ("  ", ErrorCode::InvalidRequest),
        ("a\nb", ErrorCode::InvalidRequest),
        (long.as_str(), ErrorCode::LimitExceeded),
    ];
    for (name, code) in cases {
        lab.refuses(name, code, lab.engine.create_workspace(&owner, name))
            .await;
        lab.refuses(name, code, lab.engine.rename_workspace(&lab.key, name))
            .await;
    }
    let most = "ü".repeat(NAME_CHARS);
    lab.engine.create_workspace(&owner, &most).await.unwrap();
    lab.engine.rename_workspace(&lab.key, &most).await.unwrap();
    let unknown = WorkspaceId::new(START, 1);
    let open = lab.engine.open_workspace(&owner, unknown);
    lab.refuses("unknown", ErrorCode::UnknownWorkspace, open)
        .await;
}
