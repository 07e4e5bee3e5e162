//! Two agents over a real server, with the SDK: a session that echoes, and somebody who talks to it.

use std::sync::Arc;

use anyhow::Result;
use relay_core::environment::Environment;
use relay_core::store::sqlite::{SqliteOptions, SqliteStore};
use relay_core::{Caller, Engine};
use relay_sdk::{CallbackSession, Relay, delivered, events};
use relay_server::{Config, serve};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

#[tokio::main]
async fn main() -> Result<()> {
    // A server, as `relay serve` runs one.
    let directory = tempfile::tempdir()?;
    let environment = Environment::system();
    let options = SqliteOptions::new(directory.path().join("relay.db"));
    let store = SqliteStore::open(&options, environment.random.clone())?;
    let engine = Arc::new(Engine::new(Arc::new(store), environment));
    let admin_key = engine.create_admin_key(&Caller::process_owner()).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let (stop, stopped) = oneshot::channel::<()>();
    let server = tokio::spawn(serve(listener, engine, Config::default(), async {
        let _ = stopped.await;
    }));

    talk(&url, &admin_key).await?;

    drop(stop);
    server.await??;
    Ok(())
}

async fn talk(url: &str, admin_key: &str) -> Result<()> {
    let relay = Relay::create_workspace(url, admin_key, "demo").await?;
    let alice = relay.register("alice").await?;
    let echo = relay.register("echo").await?;

    // Everybody's deliveries, as they end.
    let (done, mut deliveries) = mpsc::unbounded_channel();
    relay
        .add_listener(events::DELIVERY_DELIVERED, move |event| {
            let _ = done.send(event.agent.handle.clone());
            async {}
        })
        .await?;

    // A session that answers in the thread of whatever it gets.
    let answering = echo.clone();
    let session = CallbackSession::new(echo.identity().clone(), move |message, ctx| {
        let echo = answering.clone();
        async move {
            println!("@echo gets {:?}, {}", message.text, ctx.reason);
            echo.reply(message.message_id, message.text.to_uppercase())
                .await?;
            Ok(delivered(ctx.id))
        }
    });
    // `.memory(file)` would make it remember across restarts what it has seen.
    let session = echo.attach(session).await?;

    let sent = alice.send_message("@echo", "hello").await?;
    println!(
        "delivered to {}",
        deliveries.recv().await.unwrap_or_default()
    );
    for view in alice.thread(sent.message_id, None).await?.items {
        let author = view.message.from.handle.unwrap_or_default();
        println!("{author}: {}", view.message.text);
    }
    session.detach().await;
    Ok(())
}
