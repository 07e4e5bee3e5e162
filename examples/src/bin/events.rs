//! Actions and webhooks: the second half of `events.txt` in Rust. An agent offers an action, another one calls it; listeners and
//! somebody else's server hear of it by the same names.

use anyhow::{Context as _, Result};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use relay_examples::Server;
use relay_outbound::{AllowList, Limits, Outbound};
use relay_sdk::{
    Action, ActionCall, AvailableTo, LoggedEvent, Relay, RelayEvent, WebhookVerifier, events,
};
use relay_server::Config;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

const RELAY_SECRET: &str = "only the two of us know this";

#[tokio::main]
async fn main() -> Result<()> {
    // Webhooks call the internet; what is nearer has to be allowed.
    let here = AllowList::new(["127.0.0.1"])?;
    let server = Server::start(Config {
        outbound: Outbound::new(here, Limits::default()),
        ..Config::default()
    })
    .await?;
    act(&server).await?;
    server.stop().await
}

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

async fn act(server: &Server) -> Result<()> {
    let relay = Relay::create_workspace(&server.url, &server.admin_key, "demo").await?;
    let coordinator = relay.register("coordinator").await?;
    let codex = relay.register("codex-1").await?;
    let gemini = relay.register("gemini-1").await?;

    // Registered by an agent, so that it is a tool for others; omit `available_to` to allow every agent.
    let classify = Action::new::<Text>("classify")
        .description("says whether a text is spam")
        .available_to([AvailableTo {
            name: Some("codex-1".to_owned()),
            ..AvailableTo::default()
        }]);
    let sender = coordinator.clone();
    let _handling = coordinator
        .register_action(classify, move |call: ActionCall| {
            let coordinator = sender.clone();
            async move {
                let Text { text } = call.input()?;
                let label = if text.contains("win") { "spam" } else { "fine" };
                let to = format!("@{}", call.agent.name);
                coordinator
                    .send_message(to.as_str(), format!("Classified as {label}"))
                    .await?;
                Ok(json!({ "label": label }))
            }
        })
        .await?;

    let (tell, mut told) = mpsc::unbounded_channel();
    let heard = tell.clone();
    relay
        .add_listener(events::ACTION_COMPLETED, move |event| {
            let output = event.output.clone().unwrap_or_default();
            let _ = heard.send(format!("{} {output}", event.action));
            async {}
        })
        .await?;
    let calls = relay.action("classify").called_by(&gemini);
    relay
        .add_listener(calls, move |event| {
            let _ = tell.send(format!("{} for {}", event.event_type, event.agent.name));
            async {}
        })
        .await?;

    // The same names, to a server of somebody else.
    let (url, mut service) = serve_webhooks(WebhookVerifier::new(RELAY_SECRET)?).await?;
    relay
        .webhooks()
        .subscribe(&url, ["message.created", "action.completed"])
        .secret(RELAY_SECRET)
        .await?;

    // The call does not block; how it ended is told to listeners, and by message to who called.
    let id = codex
        .invoke("classify", json!({ "text": "You win!" }))
        .await?;
    println!("listener: {}", told.recv().await.context("no event")?);
    let inbox = codex.inbox().await?;
    println!("codex-1 reads: {}", inbox.items[0].message.text);
    println!("the call is {}", codex.invocation(id).await?.state);
    let mut arrived = Vec::new();
    while arrived.len() < 2 {
        arrived.push(shown(&service.recv().await.context("no call")?));
    }
    // Webhooks keep no order: one event that can't be sent holds up no other.
    arrived.sort();
    println!("webhook: {}", arrived.join(", "));

    let refused = gemini
        .invoke("classify", json!({ "text": "me, too" }))
        .await;
    println!("gemini-1: {}", refused.err().context("expected a refusal")?);
    println!("listener: {}", told.recv().await.context("no event")?);
    Ok(())
}

/// What a service that gets webhooks does: it takes what is signed.
async fn serve_webhooks(
    verifier: WebhookVerifier,
) -> Result<(String, mpsc::UnboundedReceiver<LoggedEvent>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/webhooks/relay", listener.local_addr()?);
    let (tell, arrived) = mpsc::unbounded_channel();
    let router = Router::new()
        .route("/webhooks/relay", post(take))
        .with_state((verifier, tell));
    tokio::spawn(async { axum::serve(listener, router).await });
    Ok((url, arrived))
}

async fn take(
    State((verifier, tell)): State<(WebhookVerifier, mpsc::UnboundedSender<LoggedEvent>)>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    match verifier.verify(&headers, &body) {
        Ok(event) => {
            let _ = tell.send(event);
            StatusCode::NO_CONTENT
        }
        Err(_) => StatusCode::UNAUTHORIZED,
    }
}

fn shown(event: &LoggedEvent) -> String {
    match &event.event {
        Some(RelayEvent::MessageCreated(it)) => {
            format!("{} {:?}", event.event_type, it.message.text)
        }
        _ => event.event_type.clone(),
    }
}
