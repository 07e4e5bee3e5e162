//! Two agents over a real server, with the SDK: a session that echoes, and somebody who talks to it.

use anyhow::Result;
use relay_examples::Server;
use relay_sdk::{CallbackSession, Relay, delivered, events};
use relay_server::Config;
use tokio::sync::mpsc;

#[tokio::main]
async fn main() -> Result<()> {
    let server = Server::start(Config::default()).await?;
    talk(&server.url, &server.admin_key).await?;
    server.stop().await
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
