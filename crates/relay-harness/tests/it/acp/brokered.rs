//! What an agent may do is decided on the relay: asked there with the agent's own options, answered by people or rules.

use std::time::Duration;

use relay_harness::acp::content::PromptContent;
use relay_harness::acp::session::{Broker, BrokerNews, CallFate, RelaySession};
use relay_sdk::protocol::ids::PermissionId;
use relay_sdk::protocol::permission::{PermissionRecord, ResolvePermission};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::support::{agent, environment, folder, received, soon};
use super::world::World;

fn options() -> Value {
    json!([
        {"optionId": "yes-always", "name": "Always", "kind": "allow_always"},
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ])
}

/// A turn in which the agent tells of a call, asks about it by its id alone, and tells how it ended.
fn turn(command: &str) -> Value {
    json!([
        {"update": {"sessionUpdate": "tool_call", "toolCallId": "call-1", "kind": "execute", "title": command,
            "rawInput": {"command": command}}},
        {"ask": {"options": options(), "toolCall": {"toolCallId": "call-1"}}},
        {"update": {"sessionUpdate": "tool_call_update", "toolCallId": "call-1", "status": "completed"}},
        {"stop": "end_turn"},
    ])
}

/// An agent on the relay that asks, and what its broker tells.
struct Asking {
    world: World,
    bob: RelaySession,
    broker: Broker,
    news: mpsc::UnboundedReceiver<BrokerNews>,
}

impl Asking {
    async fn start(script: Value) -> Self {
        Self::start_in(World::start().await, script).await
    }

    async fn start_in(world: World, script: Value) -> Self {
        let (tell, news) = mpsc::unbounded_channel();
        let broker = Broker::telling(move |news| {
            let _ = tell.send(news);
        });
        let bob = world.bob_asks(&script, broker.clone()).await;
        Self {
            world,
            bob,
            broker,
            news,
        }
    }

    /// Begins a turn. What happened before is over.
    async fn prompt(&mut self) {
        self.world.seen.clear();
        let content = vec![PromptContent::from("go")];
        soon(self.bob.prompt(content)).await.unwrap();
        self.world.status("active").await;
        self.world.seen.clear();
    }

    /// The request that waits.
    async fn asked(&mut self) -> PermissionRecord {
        match soon(self.news.recv()).await.unwrap() {
            BrokerNews::Asked { request, .. } => *request,
            news => panic!("{news:?}"),
        }
    }

    /// All that was told since, once everything is.
    async fn told(&mut self) -> Vec<&'static str> {
        soon(self.broker.settled()).await;
        let mut told = Vec::new();
        while let Ok(news) = self.news.try_recv() {
            told.push(match news {
                BrokerNews::Asked { .. } => "asked",
                BrokerNews::Ended { call, request } => {
                    assert_eq!(call, "call-1");
                    assert!(request.outcome.is_some(), "{request:?}");
                    "ended"
                }
                BrokerNews::Answered { call, fate } => {
                    assert_eq!(call, "call-1");
                    match fate {
                        CallFate::Runs => "runs",
                        CallFate::Denied { .. } => "denied",
                        CallFate::Cancelled { .. } => "cancelled",
                        CallFate::Expired | CallFate::Failed { .. } => panic!("{fate:?}"),
                    }
                }
            });
        }
        told
    }

    async fn resolve(&self, id: PermissionId, answer: ResolvePermission) {
        let permissions = self.world.relay.permissions();
        soon(permissions.resolve(id, answer)).await.unwrap();
    }

    /// What the agent was told in this turn, once that is over.
    async fn outcome(&mut self) -> Value {
        self.world.status("idle").await;
        let received = received(&self.world.log());
        let mut told = received.iter().map(|message| &message["result"]["outcome"]);
        let last = told.rfind(|outcome| outcome.is_object());
        last.unwrap().clone()
    }

    /// How a request stands once everything is told.
    async fn record(&self, id: PermissionId) -> Value {
        soon(self.broker.settled()).await;
        let record = self.world.relay.permissions().get(id).await.unwrap();
        serde_json::to_value(record).unwrap()
    }
}

fn selected(id: &str) -> Value {
    json!({"outcome": "selected", "optionId": id})
}

#[tokio::test]
async fn a_question_is_a_request_with_the_agents_own_options() {
    let mut bob = Asking::start(json!({"turns": [turn("make all")]})).await;
    bob.prompt().await;
    let request = bob.asked().await;
    let shown = serde_json::to_value(&request).unwrap();
    assert_eq!(
        (&shown["tool"], &shown["params"], &shown["title"]),
        (
            &json!("execute"),
            &json!({"command": "make all"}),
            &json!("make all")
        )
    );
    let mut offered = options();
    for option in offered.as_array_mut().unwrap() {
        *option =
            json!({"optionId": option["optionId"], "kind": option["kind"], "name": option["name"]});
    }
    assert_eq!(shown["options"], offered);
    assert_eq!(shown["toolCallId"], "call-1");
    assert_eq!(shown["turnId"], "session-1/1");
    assert_eq!(shown["cwd"], json!(folder()));
    // Nobody who may decide is there.
    bob.world.status("blocked").await;

    bob.resolve(request.permission_id, ResolvePermission::approve())
        .await;
    assert_eq!(bob.outcome().await, selected("yes"));
    let record = bob.record(request.permission_id).await;
    assert_eq!(
        (&record["state"], &record["execution"]["state"]),
        (&json!("approved"), &json!("completed"))
    );
}

#[tokio::test]
async fn a_denial_selects_what_rejects_and_nothing_is_started() {
    let mut bob = Asking::start(json!({"turns": [turn("make all")]})).await;
    bob.prompt().await;
    let id = bob.asked().await.permission_id;
    bob.resolve(id, ResolvePermission::deny("not now")).await;
    assert_eq!(bob.outcome().await, selected("no"));
    let record = bob.record(id).await;
    assert_eq!(
        (&record["state"], &record["execution"]),
        (&json!("denied"), &Value::Null)
    );
}

#[tokio::test]
async fn always_is_a_grant_of_the_relay_unless_the_agents_own_is_chosen() {
    let mut bob = Asking::start(json!({"turns": [turn("make all")]})).await;
    bob.prompt().await;
    let id = bob.asked().await.permission_id;
    bob.resolve(id, ResolvePermission::approve_always()).await;
    assert_eq!(bob.outcome().await, selected("yes"));
    // The agent uses its id again. The grant decides, and nobody is asked.
    bob.prompt().await;
    assert_eq!(bob.outcome().await, selected("yes"));
    assert_eq!(bob.told().await, ["ended", "runs", "runs"]);

    let mut bob = Asking::start(json!({"turns": [turn("make all")]})).await;
    bob.prompt().await;
    let id = bob.asked().await.permission_id;
    let own = ResolvePermission {
        option_id: Some("yes-always".to_owned()),
        ..ResolvePermission::approve()
    };
    bob.resolve(id, own).await;
    assert_eq!(bob.outcome().await, selected("yes-always"));
}

#[tokio::test]
async fn an_id_that_is_used_again_is_another_call() {
    let mut bob = Asking::start(json!({"turns": [turn("make all")]})).await;
    for id in ["call-1", "call-1#2"] {
        bob.prompt().await;
        let request = bob.asked().await;
        assert_eq!(request.tool_call_id.as_deref(), Some(id));
        bob.resolve(request.permission_id, ResolvePermission::approve())
            .await;
        assert_eq!(bob.outcome().await, selected("yes"));
        assert_eq!(bob.told().await, ["ended", "runs"]);
    }
}

#[tokio::test]
async fn a_cancelled_turn_takes_its_request_back() {
    let mut bob = Asking::start(json!({"turns": [turn("make all")]})).await;
    bob.prompt().await;
    let id = bob.asked().await.permission_id;
    bob.bob.cancel();
    bob.world.status("idle").await;
    let record = bob.record(id).await;
    assert_eq!(record["state"], "cancelled", "and not denied: {record}");
    let late = bob.world.relay.permissions().approve(id).await.unwrap_err();
    assert_eq!(late.problem().unwrap().status, 409);
    assert_eq!(bob.told().await, ["ended", "cancelled"]);
}

#[tokio::test]
async fn an_agent_that_is_gone_takes_its_request_back() {
    let mut bob = Asking::start(json!({"turns": [turn("make all")]})).await;
    bob.prompt().await;
    let id = bob.asked().await.permission_id;
    bob.bob.session().host().stop().await;
    let record = bob.record(id).await;
    assert_eq!(record["state"], "cancelled", "{record}");
}

#[tokio::test]
async fn of_two_answers_the_first_counts() {
    let mut bob = Asking::start(json!({"turns": [turn("make all")]})).await;
    bob.prompt().await;
    let id = bob.asked().await.permission_id;
    let permissions = bob.world.relay.permissions();
    let (deny, approve) = (ResolvePermission::deny("no"), ResolvePermission::approve());
    let (first, second) = tokio::join!(
        permissions.resolve(id, deny),
        permissions.resolve(id, approve)
    );
    let told = bob.outcome().await;
    match (first.is_ok(), second.is_ok()) {
        (true, false) => assert_eq!(told, selected("no")),
        (false, true) => assert_eq!(told, selected("yes")),
        both => panic!("{both:?}"),
    }
}

async fn with_rules(rules: Value, command: &str) -> (Value, Value, Asking) {
    let world = World::start().await;
    let policy = json!({"permissions": rules});
    world
        .relay
        .update_policy(&serde_json::from_value(policy).unwrap())
        .await
        .unwrap();
    let mut bob = Asking::start_in(world, json!({"turns": [turn(command)]})).await;
    bob.prompt().await;
    let outcome = bob.outcome().await;
    let requests = bob.world.relay.permissions();
    let requests = requests.list(&relay_sdk::PermissionQuery::default()).await;
    let id = requests.unwrap().items[0].permission_id;
    let record = bob.record(id).await;
    (outcome, record, bob)
}

#[tokio::test]
async fn rules_decide_without_asking_anybody() {
    let rules = json!({"allowlist": ["execute:git status"], "deny": ["execute:rm"]});
    let (told, record, mut bob) = with_rules(rules.clone(), "git status").await;
    assert_eq!(told, selected("yes"));
    assert_eq!(
        (
            &record["state"],
            &record["outcome"]["via"],
            &record["execution"]["state"]
        ),
        (&json!("approved"), &json!("rule"), &json!("completed"))
    );
    assert_eq!(bob.told().await, ["runs"]);

    let (told, record, mut bob) = with_rules(rules, "rm -rf build").await;
    assert_eq!(told, selected("no"));
    assert_eq!(record["state"], "denied");
    assert_eq!(bob.told().await, ["denied"]);
}

#[tokio::test]
async fn a_denial_that_stops_ends_the_turn() {
    let script = json!({"turns": [[
        {"ask": {"options": options()}}, {"untilCancelled": true}, {"stop": "cancelled"},
    ]]});
    let mut bob = Asking::start(script).await;
    bob.prompt().await;
    let id = bob.asked().await.permission_id;
    let stop = ResolvePermission {
        stop: Some(true),
        ..ResolvePermission::deny("enough")
    };
    bob.resolve(id, stop).await;
    bob.world.status("idle").await;
}

#[tokio::test]
async fn parameters_that_were_changed_are_not_run() {
    let mut bob = Asking::start(json!({"turns": [turn("make all")]})).await;
    bob.prompt().await;
    let id = bob.asked().await.permission_id;
    let edited = ResolvePermission {
        updated_params: json!({"command": "make test"}).as_object().cloned(),
        ..ResolvePermission::approve()
    };
    bob.resolve(id, edited).await;
    assert_eq!(bob.outcome().await, selected("no"));
    let record = bob.record(id).await;
    assert_eq!(record["execution"]["state"], "cancelled");
    assert_eq!(bob.told().await, ["ended", "denied"]);
}

#[tokio::test]
async fn how_a_call_ended_is_unknown_when_the_agent_does_not_say() {
    let mut said = turn("make all");
    said.as_array_mut().unwrap().remove(2);
    let mut bob = Asking::start(json!({"turns": [said]})).await;
    bob.prompt().await;
    let id = bob.asked().await.permission_id;
    bob.resolve(id, ResolvePermission::approve()).await;
    bob.world.status("idle").await;
    let record = bob.record(id).await;
    assert_eq!(record["execution"]["state"], "unknown");
}

#[tokio::test]
async fn what_is_asked_without_the_relay_is_refused() {
    use relay_harness::acp::host::{Host, HostOptions, OpenSession};
    let broker = Broker::new();
    let script = json!({"turns": [turn("make all")]});
    let options = HostOptions::deciding(broker.clone());
    let host = Host::start(agent(&script), environment(), folder(), options);
    let session = host
        .await
        .unwrap()
        .new_session(OpenSession::new(folder()))
        .await
        .unwrap();
    let (said, _) = soon(super::support::ask(&session)).await;
    assert!(said.contains("\"no\""), "{said}");
    tokio::time::timeout(Duration::from_secs(1), broker.settled())
        .await
        .unwrap();
}
