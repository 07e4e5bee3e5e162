//! The README's story: a workspace, three agents, a channel, a thread, a reaction, a direct message, a
//! search, and the proof that the log of it all is whole.
//!
//! Run it with `cargo run -p relay-examples --bin story`; with a directory as argument the data stays
//! there, and the next run finds it again.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use relay_core::environment::Environment;
use relay_core::store::sqlite::{SqliteOptions, SqliteStore};
use relay_core::{Caller, Engine, PageQuery};
use relay_protocol::api::messages::{MessageSent, ReplyMessage, SearchQuery, SendMessage};
use relay_protocol::api::workspace::{CreateChannel, RegisterAgent};
use relay_protocol::selector::Selector;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let temporary = tempfile::tempdir()?;
    let directory = std::env::args_os()
        .nth(1)
        .map_or(temporary.path().to_owned(), PathBuf::from);
    std::fs::create_dir_all(&directory)?;
    let environment = Environment::system();
    let options = SqliteOptions::new(directory.join("relay.db"));
    let store = SqliteStore::open(&options, environment.random.clone())?;
    let engine = Engine::new(Arc::new(store), environment);
    tell(&engine).await
}

async fn tell(engine: &Engine) -> Result<()> {
    let created = engine
        .create_workspace(&Caller::process_owner(), "Lighthouse")
        .await?;
    println!("workspace {}", created.name);
    let key = engine.authenticate(&created.workspace_key).await?;

    let ada = register(engine, &key, "ada").await?;
    let bob = register(engine, &key, "bob").await?;
    let eve = register(engine, &key, "eve").await?;

    let body = CreateChannel {
        name: "release".to_owned(),
        topic: Some("0.1".to_owned()),
    };
    let channel = engine.create_channel(&ada, body).await?;
    engine
        .invite(&ada, &channel.name, &["@bob".to_owned(), "@eve".to_owned()])
        .await?;
    println!("channel   #{} with ada, bob and eve", channel.name);

    let post = engine
        .send(
            &ada,
            to("#release", "Tests are green. @bob, shall we ship?")?,
        )
        .await?;
    show("post", &post);
    let reply = engine
        .reply(&bob, post.message_id, ReplyMessage::text("On it."))
        .await?;
    show("reply", &reply);
    let reactions = engine.react(&eve, post.message_id, ":rocket:").await?;
    println!(
        "reaction  {} by {}",
        reactions[0].emoji,
        reactions[0].agents.join(", ")
    );
    let direct = engine
        .send(&eve, to("@ada", "The changelog still says 0.0.9.")?)
        .await?;
    show("direct", &direct);

    let inbox = engine.inbox(&ada, PageQuery::default()).await?;
    println!("inbox     ada has {} unread:", inbox.unread);
    for item in &inbox.items {
        let author = item.message.from.name.as_deref().unwrap_or_default();
        println!(
            "          {author}: {} ({})",
            item.message.text, item.reason
        );
    }

    let query = SearchQuery {
        q: "changelog".to_owned(),
        ..SearchQuery::default()
    };
    let hits = engine.search(&ada, query).await?;
    println!("search    changelog: {}", hits.items[0].snippet);
    let query = SearchQuery {
        q: "changelog".to_owned(),
        ..SearchQuery::default()
    };
    println!(
        "search    as bob: {} hits, it was not for him",
        engine.search(&bob, query).await?.items.len()
    );

    verify(engine, &key).await
}

async fn register(engine: &Engine, key: &Caller, name: &str) -> Result<Caller> {
    let body = RegisterAgent {
        name: name.to_owned(),
        agent_type: None,
        metadata: None,
        adopt: None,
    };
    let registered = engine.register_agent(key, body).await?;
    println!("agent     {}", registered.agent.handle);
    Ok(engine.authenticate(&registered.token).await?)
}

fn to(target: &str, text: &str) -> Result<SendMessage> {
    let target = target.parse().map_err(anyhow::Error::msg)?;
    Ok(SendMessage::text(target, text))
}

fn show(what: &str, sent: &MessageSent) {
    let author = sent.message.from.name.as_deref().unwrap_or_default();
    let outcomes: Vec<_> = sent
        .deliveries
        .iter()
        .map(|delivery| format!("{} {}", delivery.agent, delivery.state))
        .collect();
    println!(
        "{what:9} {author}: {} -> {}",
        sent.message.text,
        outcomes.join(", ")
    );
}

async fn verify(engine: &Engine, key: &Caller) -> Result<()> {
    let page = engine
        .events(key, &Selector::parse("message.*")?, 0, None)
        .await?;
    let names: Vec<_> = page
        .events
        .iter()
        .map(|event| event.event.event_type.as_str())
        .collect();
    println!("events    {}", names.join(", "));
    let report = engine.audit_verify(key).await?;
    println!(
        "verify    {} events in {} rows, {} changed, {} missing, {} erased",
        report.events,
        report.rows,
        report.changed.len(),
        report.missing.len(),
        report.erased
    );
    let head = engine.audit_head(key).await?;
    println!(
        "head      {} at seq {}",
        head.hash.get(..16).context("a short hash")?,
        head.seq
    );
    Ok(())
}
