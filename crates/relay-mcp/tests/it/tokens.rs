//! What the list of tools costs. Counted as a quarter of its bytes: near enough for English and JSON, whatever the model.

use serde_json::Value;

use crate::client::Mcp;
use crate::support::{World, soon};

const MOST: usize = 1_000;

/// What is published.
const NOTE: &str = include_str!("../../../../docs/mcp.md");

#[tokio::test]
async fn the_tools_cost_what_is_published() {
    let world = World::start().await;
    let (_, alice, _) = world.pair().await;
    let mcp = Mcp::open(&alice).await;
    let listed = soon("the tools", mcp.client.list_tools(None))
        .await
        .unwrap();
    assert_eq!(listed.tools.len(), 3);
    let list: Value = serde_json::to_value(&listed.tools).unwrap();
    let tokens = list.to_string().len().div_ceil(4);
    let published = format!("**{tokens} tokens**");
    assert!(tokens < MOST, "{tokens} tokens");
    assert!(
        NOTE.contains(&published),
        "docs/mcp.md should say {published}: {list}"
    );
    let said = mcp
        .client
        .peer_info()
        .unwrap()
        .instructions
        .clone()
        .unwrap();
    let instructions = said.len().div_ceil(4);
    let published = format!("{instructions} more");
    assert!(
        NOTE.contains(&published),
        "docs/mcp.md should say {published}"
    );
    mcp.close().await;
}
