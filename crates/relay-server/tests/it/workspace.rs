//! Workspaces, agents, channels and observer tokens.

use serde_json::json;

use crate::support::World;

#[tokio::test]
async fn a_workspace_is_created_shown_and_renamed() {
    let world = World::start().await;
    let made = world
        .admin
        .post("/v1/workspaces", json!({ "name": "Lighthouse" }))
        .await;
    let made = made.expect(201);
    let key = world.with(made["workspaceKey"].as_str().unwrap());
    let shown = key.get("/v1/workspace").await.expect(200);
    assert_eq!(shown["workspaceId"], made["workspaceId"]);
    let renamed = key.patch("/v1/workspace", json!({ "name": "Tower" })).await;
    assert_eq!(renamed.expect(200)["name"], "Tower");
    assert_eq!(key.get("/v1/workspace").await.expect(200)["name"], "Tower");
    assert_eq!(
        key.patch("/v1/workspace", json!({})).await.expect(200)["name"],
        "Tower"
    );
    let bad = key.patch("/v1/workspace", json!({ "name": " " })).await;
    assert_eq!(bad.refused(400), "invalid_request");
    let bad = world
        .admin
        .post("/v1/workspaces", json!({ "name": "x".repeat(65) }))
        .await;
    assert_eq!(bad.refused(400), "limit_exceeded");
}

#[tokio::test]
async fn a_policy_is_changed_in_parts() {
    let world = World::start().await;
    let before = world.key.get("/v1/workspace/policy").await.expect(200);
    let after = world
        .key
        .patch("/v1/workspace/policy", json!({ "window": 4 }))
        .await;
    let after = after.expect(200);
    assert_eq!(after["window"], 4);
    assert_eq!(after["boundaries"], before["boundaries"]);
    assert_eq!(
        world.key.get("/v1/workspace/policy").await.expect(200),
        after
    );
    let bad = world
        .key
        .patch("/v1/workspace/policy", json!({ "window": 0 }))
        .await;
    assert_eq!(bad.refused(400), "bad_policy");
    let bad = world
        .key
        .patch("/v1/workspace/policy", json!({ "widow": 1 }))
        .await;
    assert_eq!(bad.expect(400)["path"], "widow");
}

#[tokio::test]
async fn everybody_learns_what_a_credential_stands_for() {
    let world = World::start().await;
    let alice = world.agent("alice").await;
    let watcher = world.observer(json!({ "channels": ["general"] })).await;
    let admin = world.admin.get("/v1/me").await.expect(200);
    assert_eq!(admin, json!({ "kind": "admin" }));
    let key = world.key.get("/v1/me").await.expect(200);
    assert_eq!(
        (&key["kind"], &key["workspace"]["name"]),
        (&json!("workspace"), &json!("lab"))
    );
    let me = alice.get("/v1/me").await.expect(200);
    assert_eq!(
        (&me["kind"], &me["agent"]["handle"]),
        (&json!("agent"), &json!("@alice"))
    );
    let me = watcher.get("/v1/me").await.expect(200);
    assert_eq!(me["scope"], json!({ "channels": ["general"] }));
}

#[tokio::test]
async fn agents_come_change_and_go() {
    let world = World::start().await;
    let alice = world.agent("alice").await;
    world.agent("Bob").await;
    let taken = world
        .key
        .post("/v1/agents", json!({ "name": "ALICE" }))
        .await;
    assert_eq!(taken.refused(409), "name_taken");
    for (name, code) in [
        ("system", "reserved_name"),
        ("a b", "invalid_name"),
        ("", "invalid_name"),
    ] {
        let bad = world.key.post("/v1/agents", json!({ "name": name })).await;
        assert_eq!(bad.refused(400), code);
    }
    let adopted = world
        .key
        .post("/v1/agents", json!({ "name": "bob", "adopt": true }))
        .await;
    assert_eq!(adopted.expect(201)["agent"]["name"], "Bob");

    let first = world.key.get("/v1/agents?limit=1").await.expect(200);
    let cursor = first["nextCursor"].as_str().unwrap();
    let second = world
        .key
        .get(&format!("/v1/agents?limit=1&cursor={cursor}"))
        .await
        .expect(200);
    assert_eq!(
        (&first["items"][0]["name"], &second["items"][0]["name"]),
        (&json!("alice"), &json!("Bob"))
    );
    assert!(second.get("nextCursor").is_none());

    let changed = alice
        .patch("/v1/agents/alice", json!({ "metadata": { "team": 1 } }))
        .await;
    assert_eq!(changed.expect(200)["metadata"]["team"], 1);
    let other = alice
        .patch("/v1/agents/bob", json!({ "metadata": {} }))
        .await;
    assert_eq!(other.refused(403), "forbidden");
    assert_eq!(
        alice.get("/v1/agents/@BOB").await.expect(200)["name"],
        "Bob"
    );
    let unknown = alice.get("/v1/agents/bobb").await;
    assert_eq!(unknown.refused(404), "unknown_agent");
    assert_eq!(unknown.json()["suggestions"], json!(["Bob"]));

    let rotated = alice
        .post("/v1/agents/alice/token", json!(null))
        .await
        .expect(201);
    let again = world.with(rotated["token"].as_str().unwrap());
    again.get("/v1/me").await.expect(200);
    alice.get("/v1/me").await.expect(200);

    world
        .key
        .delete("/v1/agents/alice?reason=done")
        .await
        .expect(204);
    assert_eq!(again.get("/v1/me").await.refused(401), "unauthorized");
    assert_eq!(
        world.key.delete("/v1/agents/alice").await.refused(404),
        "unknown_agent"
    );
}

#[tokio::test]
async fn channels_are_joined_and_left() {
    let world = World::start().await;
    let alice = world.agent("alice").await;
    let bob = world.agent("bob").await;
    let made = alice
        .post("/v1/channels", json!({ "name": "ops", "topic": "t" }))
        .await
        .expect(201);
    assert_eq!(made["memberCount"], 1);
    assert_eq!(
        alice
            .post("/v1/channels", json!({ "name": "OPS" }))
            .await
            .refused(409),
        "name_taken"
    );
    bob.post("/v1/channels/ops/join", json!({}))
        .await
        .expect(200);
    let members = bob.get("/v1/channels/ops/members").await.expect(200);
    assert_eq!(members["items"].as_array().unwrap().len(), 2);
    bob.post("/v1/channels/ops/leave", json!(null))
        .await
        .expect(200);
    assert_eq!(
        bob.get("/v1/channels/ops/messages").await.refused(403),
        "not_a_member"
    );
    alice
        .post("/v1/channels/ops/invite", json!({ "agents": ["@bob"] }))
        .await
        .expect(200);
    let unknown = alice
        .post("/v1/channels/ops/invite", json!({ "agents": ["nobody"] }))
        .await;
    assert_eq!(unknown.refused(404), "unknown_agent");
    let changed = bob
        .patch("/v1/channels/ops", json!({ "topic": "", "archived": true }))
        .await;
    assert!(changed.expect(200)["archivedAt"].is_string());
    let closed = bob
        .post("/v1/messages", json!({ "to": "#ops", "text": "x" }))
        .await;
    assert_eq!(closed.refused(409), "channel_archived");
    let all = alice.get("/v1/channels").await.expect(200);
    assert_eq!(all["items"].as_array().unwrap().len(), 2);
    assert_eq!(
        alice.get("/v1/channels/opps").await.json()["suggestions"],
        json!(["ops"])
    );
}

#[tokio::test]
async fn observer_tokens_are_made_listed_and_taken_back() {
    let world = World::start().await;
    let body =
        json!({ "name": "wall", "scope": { "channels": ["general"], "grants": ["terminal"] } });
    let made = world
        .key
        .post("/v1/observer-tokens", body.clone())
        .await
        .expect(201);
    let id = made["observer"]["tokenId"].as_str().unwrap();
    assert_eq!(made["observer"]["scope"], body["scope"]);
    let watcher = world.with(made["token"].as_str().unwrap());
    watcher.get("/v1/channels/general").await.expect(200);
    world.observer(json!({})).await;
    let first = world
        .key
        .get("/v1/observer-tokens?limit=1")
        .await
        .expect(200);
    assert_eq!(first["items"][0], made["observer"]);
    let cursor = first["nextCursor"].as_str().unwrap();
    let rest = world
        .key
        .get(&format!("/v1/observer-tokens?cursor={cursor}"))
        .await
        .expect(200);
    assert_eq!(rest["items"].as_array().unwrap().len(), 1);
    world
        .key
        .delete(&format!("/v1/observer-tokens/{id}"))
        .await
        .expect(204);
    assert_eq!(watcher.get("/v1/me").await.refused(401), "unauthorized");
    let gone = world.key.delete(&format!("/v1/observer-tokens/{id}")).await;
    assert_eq!(gone.refused(404), "unknown_token");
    let bad = world
        .key
        .post(
            "/v1/observer-tokens",
            json!({ "scope": { "events": ["nope.*"] } }),
        )
        .await;
    assert_eq!(bad.refused(400), "unknown_event");
    let bad = world.key.delete("/v1/observer-tokens/nope").await;
    assert_eq!(bad.expect(400)["path"], "id");
}
