//! An agent that offers an action, which others call: by hand, from a program, or as a tool of a model that has Relay by MCP.
//!
//! Run it with `cargo run -p relay-examples --bin action -- URL TOKEN`; the token is the agent's.

use anyhow::{Context as _, Result};
use relay_sdk::{Action, ActionCall, AgentClient, Handling, Options, Relay};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().context("expected the server's URL")?;
    let token = arguments.next().context("expected an agent's token")?;
    let _offered = offer(&url, &token).await?;
    std::future::pending().await
}

/// Offers the action, as long as what this returns is kept.
pub(crate) async fn offer(url: &str, token: &str) -> Result<(AgentClient, Handling)> {
    let relay = Relay::with_options(url, "", Options::default())?;
    let agent = relay.reconnect(token).await?;
    let schema = json!({
        "type": "object",
        "properties": { "text": { "type": "string" } },
        "required": ["text"],
    });
    let classify = Action::with_schema("classify", schema)
        .description("says whether a text is spam")
        .notify_caller();
    let offering = agent.register_action(classify, |call: ActionCall| async move {
        let text = call.input["text"].as_str().unwrap_or_default();
        let label = if text.contains("win") { "spam" } else { "fine" };
        println!("@{} asks about {text:?}: {label}", call.agent.name);
        Ok(json!({ "label": label }))
    });
    let handling = offering.await?;
    println!("@{} offers classify", agent.identity().name);
    Ok((agent, handling))
}
