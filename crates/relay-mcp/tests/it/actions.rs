//! Actions as tools.

use relay_sdk::{Action, ActionCall, AgentClient, AvailableTo, Handling};
use rmcp::model::PaginatedRequestParams;
use rmcp::service::ServiceError;
use serde_json::{Value, json};

use crate::client::Mcp;
use crate::support::{World, soon};

async fn register(owner: &AgentClient, action: Action) -> Handling {
    let handling = owner.register_action(action, |call: ActionCall| async move {
        Ok(json!({ "got": call.input }))
    });
    handling.await.unwrap()
}

fn labels() -> Action {
    let schema = json!({
        "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"],
    });
    Action::with_schema("classify", schema)
        .description("labels a text")
        .notify_caller()
}

/// Checks until there is something.
async fn message(mcp: &Mcp) -> String {
    soon("a message", async {
        loop {
            let read = mcp.ok("check", json!({})).await;
            if read != "nothing new" {
                return read;
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_call_is_answered_at_once_and_its_outcome_comes_as_a_message() {
    let world = World::start().await;
    let (_, alice, bob) = world.pair().await;
    let _handling = register(&bob, labels()).await;
    let mcp = Mcp::open(&alice).await;
    let tools = soon("the tools", mcp.client.list_all_tools())
        .await
        .unwrap();
    let tool = tools.last().unwrap();
    assert_eq!(tool.name, "classify");
    assert_eq!(
        tool.description.as_deref(),
        Some("Action of @bob: labels a text")
    );
    assert_eq!(tool.input_schema["required"], json!(["text"]));
    let called = mcp.result("classify", json!({ "text": "x" })).await;
    let answer = called.structured_content.unwrap();
    let id = answer["invocationId"].as_str().unwrap();
    assert_eq!(answer.as_object().unwrap().len(), 1);
    let told = message(&mcp).await;
    assert!(
        told.contains("action result") && told.contains(id),
        "{told}"
    );
    let call = alice.invocation(id.parse().unwrap()).await.unwrap();
    assert_eq!(call.output, Some(json!({ "got": { "text": "x" } })));
    mcp.close().await;
}

#[tokio::test]
async fn refusals_are_told_to_the_model() {
    let world = World::start().await;
    let (_, alice, bob) = world.pair().await;
    let _handling = register(&bob, labels()).await;
    let mcp = Mcp::open(&alice).await;
    let said = mcp.refused("classify", json!({ "text": 7 })).await;
    assert!(
        said.contains("input.text") && said.contains("invalid_request"),
        "{said}"
    );
    let said = mcp.refused("clasify", json!({ "text": "x" })).await;
    assert!(
        said.contains("classify") && said.contains("unknown_action"),
        "{said}"
    );
    mcp.close().await;
}

#[tokio::test]
async fn names_of_our_own_get_a_prefix_and_other_inputs_a_member() {
    let world = World::start().await;
    let (_, alice, bob) = world.pair().await;
    let text = json!({ "type": "string" });
    let _send = register(&bob, Action::with_schema("send", text)).await;
    let mcp = Mcp::open(&alice).await;
    assert_eq!(
        mcp.tools().await,
        ["send", "check", "people", "action_send"]
    );
    let called = mcp.result("action_send", json!({ "input": "hello" })).await;
    let id = called.structured_content.unwrap()["invocationId"].clone();
    let id = id.as_str().unwrap().parse().unwrap();
    let call = soon("the end", async {
        loop {
            let call = alice.invocation(id).await.unwrap();
            if call.output.is_some() {
                return call;
            }
        }
    });
    assert_eq!(call.await.output, Some(json!({ "got": "hello" })));
    mcp.close().await;
}

#[tokio::test]
async fn only_what_is_for_the_agent_is_a_tool() {
    let world = World::start().await;
    let (relay, alice, bob) = world.pair().await;
    let named = |name: &str| AvailableTo {
        name: Some(name.to_owned()),
        ..AvailableTo::default()
    };
    let any = |name: &str| Action::with_schema(name, json!({}));
    let _kept = [
        register(&bob, any("for_alice").available_to([named("alice")])).await,
        register(&bob, any("for_others").available_to([named("carol")])).await,
        register(&alice, any("own_for_others").available_to([named("bob")])).await,
    ];
    let of_workspace = relay.register_action(any("of_workspace"), |_| async { Ok(Value::Null) });
    let _of_workspace = of_workspace.await.unwrap();
    let mcp = Mcp::open(&alice).await;
    assert_eq!(mcp.tools().await, ["send", "check", "people", "for_alice"]);
    mcp.close().await;
}

#[tokio::test]
async fn the_client_is_told_when_tools_come_and_go() {
    let world = World::start().await;
    let (relay, alice, bob) = world.pair().await;
    let mut mcp = Mcp::open(&alice).await;
    assert_eq!(mcp.tools().await.len(), 3);
    let _handling = register(&bob, labels()).await;
    mcp.hear_of("tools").await;
    assert_eq!(mcp.tools().await.len(), 4);
    // What is for the members of a channel is offered to whoever joins it.
    bob.create_channel("plans", None).await.unwrap();
    let members = AvailableTo {
        channel: Some("plans".to_owned()),
        ..AvailableTo::default()
    };
    let for_members = Action::with_schema("plan", json!({})).available_to([members]);
    let _for_members = register(&bob, for_members).await;
    mcp.ok("people", json!({ "join": "#plans" })).await;
    mcp.hear_of("tools").await;
    assert_eq!(mcp.tools().await.len(), 5);
    // Somebody leaves with all that it offered.
    relay.release_agent("bob", None).await.unwrap();
    mcp.hear_of("tools").await;
    assert_eq!(mcp.tools().await.len(), 3);
    mcp.close().await;
}

#[tokio::test]
async fn a_call_of_what_is_gone_brings_the_list_up_to_date() {
    let world = World::start().await;
    let (_, alice, bob) = world.pair().await;
    let _handling = register(&bob, labels()).await;
    let mut mcp = Mcp::open(&alice).await;
    assert_eq!(mcp.tools().await.len(), 4);
    bob.unregister_action("classify").await.unwrap();
    let said = mcp.refused("classify", json!({ "text": "x" })).await;
    assert!(
        said.ends_with("next: list the tools again; the action may be gone"),
        "{said}"
    );
    mcp.hear_of("tools").await;
    mcp.close().await;
}

#[tokio::test]
async fn a_thousand_actions_come_in_pages() {
    let world = World::start().await;
    let (_, alice, bob) = world.pair().await;
    let mut handlings = Vec::new();
    for number in 0..1_000 {
        let action =
            Action::with_schema(&format!("action-{number:04}"), json!({ "type": "object" }));
        handlings.push(register(&bob, action).await);
    }
    let mcp = Mcp::open(&alice).await;
    let first = mcp.client.list_tools(None).await.unwrap();
    assert!(first.next_cursor.is_some() && first.tools.len() < 300);
    let tools = mcp.tools().await;
    let expected: Vec<String> = (0..1_000).map(|no| format!("action-{no:04}")).collect();
    assert_eq!(tools[..3], ["send", "check", "people"]);
    assert_eq!(tools[3..], expected, "each once, by name");
    mcp.close().await;
}

/// It was answered as an internal error, or with the first page.
#[tokio::test]
async fn a_bad_cursor_is_an_invalid_parameter() {
    let world = World::start().await;
    let (_, alice, _) = world.pair().await;
    let mcp = Mcp::open(&alice).await;
    for cursor in ["no cursor", "-1 ", "\u{1}"] {
        let page = || Some(PaginatedRequestParams::default().with_cursor(Some(cursor.to_owned())));
        let tools = mcp.client.list_tools(page()).await.map(drop);
        let resources = mcp.client.list_resources(page()).await.map(drop);
        for refused in [tools, resources] {
            match refused.unwrap_err() {
                ServiceError::McpError(error) => assert_eq!(error.code.0, -32602, "{error:?}"),
                other => panic!("{other:?}"),
            }
        }
    }
    mcp.close().await;
}
