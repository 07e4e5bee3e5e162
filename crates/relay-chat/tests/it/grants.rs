//! `always`: the rule that was shown is granted for this chat, and nothing else.

use relay_protocol::permission::GrantScope;
use serde_json::{Value, json};

use crate::hall::{Hall, all, bash};

/// Makes these calls in one chat, one after the other: the first is always allowed, others are refused. How many questions there were, and
/// what ran.
async fn after_always(first: &str, others: &[&str]) -> (usize, Vec<String>) {
    let mut turns = vec![json!([bash(first)])];
    turns.extend(others.iter().map(|command| json!([bash(command)])));
    turns.push(json!("done"));
    let hall = Hall::start(Value::Array(turns)).await;
    let mut look = hall.begin(json!({})).await;
    let relay = look.until("relay").await;
    hall.always(&look, &relay).await;
    while let Some(event) = look.next().await {
        if event["type"] == "relay" {
            hall.deny(&look, &event).await;
        }
    }
    (all(&look.seen, "relay").len(), hall.ran.commands())
}

#[tokio::test]
async fn always_covers_what_was_shown_and_nothing_else() {
    let table: [(&str, &[&str], usize); 6] = [
        ("ls -la", &["ls /x"], 1),
        ("ls -la", &["rm x"], 2),
        ("git status", &["git push && rm -rf x"], 2),
        ("git status", &["git status && rm -rf x"], 2),
        // The rule that was offered is the program with any arguments.
        ("ls", &["ls -la"], 1),
        // No rule can be offered for nothing; it is allowed this once.
        ("", &["ls"], 2),
    ];
    for (first, others, questions) in table {
        let (asked, ran) = after_always(first, others).await;
        assert_eq!(asked, questions, "{first:?} {others:?}");
        assert_eq!(ran.len(), 3 - questions, "{first:?} {others:?}: {ran:?}");
        assert_eq!(ran[0], first);
    }
}

#[tokio::test]
async fn the_grant_is_the_first_suggestion_and_ends_with_the_chat() {
    let script = json!([
        [bash("git status")], ["wait", { "wait": "gate" }],
        [bash("git status")], "done",
    ]);
    let hall = Hall::start(script).await;
    let mut look = hall.begin(json!({})).await;
    let relay = look.until("relay").await;
    let shown = &relay["suggestions"][0];
    assert_eq!(shown["scope"], "session");
    hall.always(&look, &relay).await;
    let resolved = look.until("relay_resolved").await;
    look.until("text").await;
    let grants = hall.grants().await;
    assert_eq!(grants.len(), 1);
    let grant = &grants[0];
    assert_eq!(grant.rule, shown["rule"].as_str().unwrap());
    assert_eq!(grant.scope, GrantScope::Session);
    assert_eq!(grant.session_id, hall.record(&relay).await.session_id);
    assert!(grant.session_id.is_some());
    assert_eq!(
        grant.permission_id.map(|id| id.to_string()).as_deref(),
        relay["id"].as_str()
    );
    assert_eq!(resolved["grantId"], json!(grant.grant_id));
    hall.model.open("gate");
    look.end().await;
    assert!(hall.grants().await.is_empty());
    // The next chat begins with nothing.
    let mut next = hall.begin(json!({})).await;
    let relay = next.until("relay").await;
    hall.deny(&next, &relay).await;
    next.end().await;
    assert_eq!(hall.ran.commands(), ["git status"]);
}

#[tokio::test]
async fn a_chat_beside_it_is_not_covered() {
    let hall = Hall::start(json!([])).await;
    let playing = |script: Value| {
        let content = format!("script:{script}");
        json!({ "messages": [{ "role": "user", "content": content }] })
    };
    let waiting = json!([[bash("ls a")], ["wait", { "wait": "gate" }]]);
    let mut first = hall.begin_with(playing(waiting)).await;
    let relay = first.until("relay").await;
    hall.always(&first, &relay).await;
    first.until("text").await;
    let mut second = hall
        .begin_with(playing(json!([[bash("ls a")], "done"])))
        .await;
    let relay = second.until("relay").await;
    hall.deny(&second, &relay).await;
    second.end().await;
    assert_eq!(hall.ran.commands(), ["ls a"]);
}

#[tokio::test]
async fn a_refusal_grants_nothing() {
    let hall = Hall::start(json!([[bash("ls a")], [bash("ls a")], "done"])).await;
    let mut look = hall.begin(json!({})).await;
    let relay = look.until("relay").await;
    let response = json!({ "approved": false, "always": true });
    hall.resolve(&look, &relay, response).await.unwrap();
    let second = look.until("relay").await;
    assert!(hall.grants().await.is_empty());
    hall.deny(&look, &second).await;
    look.end().await;
    assert!(hall.ran.calls().is_empty());
}

#[tokio::test]
async fn questions_that_a_new_grant_covers_are_settled_with_it() {
    let calls = json!([bash("ls a"), bash("ls b"), bash("rm c")]);
    let hall = Hall::start(json!([calls, "done"])).await;
    let mut look = hall.begin(json!({})).await;
    let mut relays = Vec::new();
    for _ in 0..3 {
        relays.push(look.until("relay").await);
    }
    hall.always(&look, &relays[0]).await;
    let first = look.until("relay_resolved").await;
    let second = look.until("relay_resolved").await;
    let by_person = [&first, &second]
        .into_iter()
        .find(|event| event["relayId"] == relays[0]["id"])
        .unwrap();
    let by_grant = [&first, &second]
        .into_iter()
        .find(|event| event["relayId"] == relays[1]["id"])
        .unwrap();
    assert_eq!(by_person["via"], "chat");
    assert_eq!(
        (
            &by_grant["decision"],
            &by_grant["via"],
            &by_grant["by"]["kind"]
        ),
        (&json!("approved"), &json!("grant"), &json!("policy"))
    );
    assert_eq!(by_grant["grantId"], by_person["grantId"]);
    assert!(by_grant["grantId"].is_string());
    hall.deny(&look, &relays[2]).await;
    look.end().await;
    assert_eq!(hall.ran.commands(), ["ls a", "ls b"]);
}

#[tokio::test]
async fn a_grant_that_was_taken_back_covers_nothing_more() {
    let script = json!([
        [bash("ls a")],
        [bash("ls a")],
        ["now", { "wait": "gate" }, bash("ls a")],
        "done",
    ]);
    let hall = Hall::start(script).await;
    let mut look = hall.begin(json!({})).await;
    let relay = look.until("relay").await;
    hall.always(&look, &relay).await;
    look.until("text").await;
    assert_eq!(hall.ran.commands(), ["ls a", "ls a"]);
    let grant = hall.grants().await[0].grant_id;
    hall.relay.permissions().revoke_grant(grant).await.unwrap();
    hall.model.open("gate");
    let relay = look.until("relay").await;
    hall.deny(&look, &relay).await;
    look.end().await;
    assert_eq!(hall.ran.commands().len(), 2);
}

#[tokio::test]
async fn a_grant_overrides_no_rule_that_denies_or_asks() {
    let script = json!([
        [bash("git log")],
        [bash("git log")],
        [bash("git log -p")],
        "done"
    ]);
    let hall = Hall::start(script).await;
    let rules = json!({ "ask": ["bash:git log"] });
    let mut look = hall.begin(rules).await;
    for _ in 0..3 {
        let relay = look.until("relay").await;
        hall.always(&look, &relay).await;
    }
    look.end().await;
    assert_eq!(hall.ran.calls().len(), 3);
}
