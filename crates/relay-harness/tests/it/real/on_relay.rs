//! Real agents on the relay: their words are events, messages reach them in and between turns, and the relay decides what
//! they may do.

use relay_harness::acp::content::PromptContent;
use relay_harness::acp::host::{HostOptions, Session};
use relay_harness::acp::session::{Broker, BrokerNews, RelayOptions, RelaySession, attach};
use relay_sdk::DeliveryMode;
use relay_sdk::protocol::permission::{PermissionRecord, ResolvePermission};
use relay_sdk::protocol::status::AgentStatus;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::agents::{Agent, COMMAND, SecondPrompt, working};
use super::desk::{Desk, nothing_left_of, soon};
use crate::acp::world::World;

macro_rules! stories {
    ($($name:ident)*) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            if let Some(agent) = working(stringify!($name)) {
                story(agent).await;
            }
        }
    )* };
}

stories! { claude codex opencode gemini qwen copilot }

async fn story(agent: &'static Agent) {
    let mut bob = OnRelay::begin(agent).await;
    bob.a_message_to_an_idle_agent_begins_a_turn().await;
    bob.an_approved_call_runs().await;
    bob.a_denied_call_does_not_run().await;
    bob.a_rule_decides_without_asking().await;
    bob.a_written_file_is_told().await;
    bob.cancelling_takes_the_request_back().await;
    bob.a_message_for_the_end_of_the_turn_waits_for_it().await;
    bob.an_immediate_message_reaches_the_turn().await;
    bob.another_process_is_reached_as_well().await;
}

/// An agent on the relay, and what its broker tells.
struct OnRelay {
    desk: Desk,
    world: World,
    bob: RelaySession,
    broker: Broker,
    news: mpsc::UnboundedReceiver<BrokerNews>,
}

impl OnRelay {
    async fn begin(agent: &'static Agent) -> Self {
        let (desk, mut world) = (Desk::new(agent).await, World::start().await);
        let (broker, news) = broker();
        let session = desk.open(HostOptions::deciding(broker.clone())).await;
        let bob = put_on(&world, session, &broker).await;
        world.status("idle").await;
        Self {
            desk,
            world,
            bob,
            broker,
            news,
        }
    }

    /// Prompts as the agent's user. What happened before is over.
    async fn prompt(&mut self, text: &str) {
        // Some take their time to end a turn after the last word of it.
        let id = self.bob.attached().session_id().unwrap();
        let summary = self.world.bob.session(id).await.unwrap();
        if summary.status != AgentStatus::Idle {
            self.world.status("idle").await;
        }
        self.world.seen.clear();
        let prompt = self.bob.prompt(vec![PromptContent::from(text)]);
        soon("the prompt", prompt).await.unwrap();
        self.world.status("active").await;
    }

    async fn asked(&mut self) -> PermissionRecord {
        match soon("a question", self.news.recv()).await.unwrap() {
            BrokerNews::Asked { request, .. } => *request,
            news => panic!("{news:?}"),
        }
    }

    /// Prompts for the tool, and answers the question.
    async fn decide(&mut self, answer: ResolvePermission) -> Value {
        self.prompt("make a file").await;
        let request = self.asked().await;
        assert_eq!(self.desk.made(), None, "nothing happens before the answer");
        let permissions = self.world.relay.permissions();
        let id = request.permission_id;
        soon("the answer", permissions.resolve(id, answer))
            .await
            .unwrap();
        self.over(&request).await
    }

    /// A request once its turn is over and everything is told.
    async fn over(&mut self, request: &PermissionRecord) -> Value {
        self.world.status("idle").await;
        soon("the end", self.broker.settled()).await;
        assert!(matches!(
            self.news.recv().await,
            Some(BrokerNews::Ended { .. })
        ));
        assert!(matches!(
            self.news.recv().await,
            Some(BrokerNews::Answered { .. })
        ));
        let record = self
            .world
            .relay
            .permissions()
            .get(request.permission_id)
            .await;
        serde_json::to_value(record.unwrap()).unwrap()
    }

    async fn rules(&self, rules: Value) {
        let policy = serde_json::from_value(json!({ "permissions": rules })).unwrap();
        self.world.relay.update_policy(&policy).await.unwrap();
    }

    /// Waits until the agent's words are on the relay.
    async fn said(&mut self, words: &str) {
        let says = |event: &Value| {
            event["event"]["chunk"]["content"]
                .to_string()
                .contains(words)
        };
        self.world.event(words, says).await;
    }

    async fn a_message_to_an_idle_agent_begins_a_turn(&mut self) {
        let id = self.world.send("say hello", None).await;
        let metadata = self.world.delivered(id).await;
        assert_eq!(metadata["door"], "acp.prompt");
        assert_eq!(metadata["evidence"]["turn"], 1);
        self.said("there.").await;
        self.world.status("idle").await;
        let asked = soon("the request", self.desk.model.nth_saying(1, "say hello")).await;
        assert!(
            asked.request.says("[relay] from"),
            "the model knows where it is from"
        );
    }

    async fn an_approved_call_runs(&mut self) {
        let record = self.decide(ResolvePermission::approve()).await;
        assert_eq!(self.desk.made().as_deref(), Some("ran\n"));
        assert_eq!(
            (&record["state"], &record["execution"]["state"]),
            (&json!("approved"), &json!("completed")),
            "{record}"
        );
        let shown = format!("{} {}", record["params"], record["title"]);
        assert!(shown.contains(COMMAND), "{record}");
        eprintln!("{}: {} {shown}", self.desk.agent.name, record["tool"]);
    }

    async fn a_denied_call_does_not_run(&mut self) {
        let record = self.decide(ResolvePermission::deny("not now")).await;
        assert_eq!(self.desk.made(), None);
        assert_eq!(
            (&record["state"], &record["execution"]),
            (&json!("denied"), &Value::Null)
        );
    }

    async fn a_rule_decides_without_asking(&mut self) {
        let Some(tool) = shell_of(self.desk.agent) else {
            return;
        };
        self.rules(json!({ "allowlist": [format!("{tool}:{COMMAND}")] }))
            .await;
        self.prompt("make a file").await;
        self.world.status("idle").await;
        assert_eq!(self.desk.made().as_deref(), Some("ran\n"));
        self.rules(json!({ "deny": [format!("{tool}:echo")] }))
            .await;
        self.prompt("make a file").await;
        self.world.status("idle").await;
        assert_eq!(self.desk.made(), None);
        while let Ok(news) = self.news.try_recv() {
            // What became of the calls is told all the same.
            let is_answer = matches!(news, BrokerNews::Answered { .. });
            assert!(is_answer, "nobody was asked: {news:?}");
        }
        self.rules(json!({})).await;
    }

    async fn a_written_file_is_told(&mut self) {
        if !matches!(self.desk.agent.name, "claude" | "opencode" | "gemini") {
            // The others have no tool for it, or write through the shell.
            return;
        }
        self.prompt("write a note").await;
        let request = self.asked().await;
        let permissions = self.world.relay.permissions();
        permissions.approve(request.permission_id).await.unwrap();
        let record = self.over(&request).await;
        let path = self.desk.note();
        assert!(
            record["params"].to_string().contains("note.txt"),
            "{record}"
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "noted");
        let changed = |event: &Value| event["event"]["type"] == "file.changed";
        let changed = self.world.event("the change", changed).await;
        assert_eq!(
            (&changed["event"]["path"], &changed["event"]["operation"]),
            (&json!(path), &json!("create"))
        );
    }

    async fn cancelling_takes_the_request_back(&mut self) {
        self.prompt("make a file").await;
        let request = self.asked().await;
        self.bob.cancel();
        let record = self.over(&request).await;
        assert_eq!(record["state"], "cancelled", "{record}");
        assert_eq!(self.desk.made(), None);
    }

    async fn a_message_for_the_end_of_the_turn_waits_for_it(&mut self) {
        self.prompt("begin slowly").await;
        self.said("Slow").await;
        let left = self
            .world
            .send("turn left", Some(DeliveryMode::OnIdle))
            .await;
        self.desk.model.open("slow");
        let metadata = self.world.delivered(left).await;
        assert_eq!(metadata["door"], "acp.prompt");
        self.said("end.").await;
        self.said("left.").await;
        self.world.status("idle").await;
    }

    /// By steering, behind the turn, or in its place: as the agent can.
    async fn an_immediate_message_reaches_the_turn(&mut self) {
        self.prompt("wait for me").await;
        self.said("Waiting").await;
        let id = self
            .world
            .send("turn left", Some(DeliveryMode::Immediate))
            .await;
        let agent = self.desk.agent;
        if !agent.steers && agent.second_prompt == SecondPrompt::Queued {
            self.desk.model.open("me");
        }
        let metadata = self.world.delivered(id).await;
        match agent.steers {
            true => {
                assert_eq!(metadata["door"], "acp.steer");
                assert_eq!(metadata["evidence"]["outcome"], "injected");
            }
            false => assert_eq!(metadata["door"], "acp.prompt"),
        }
        soon(
            "the model is told",
            self.desk.model.nth_saying(2, "turn left"),
        )
        .await;
        self.said("left.").await;
        self.world.status("idle").await;
    }

    async fn another_process_is_reached_as_well(mut self) {
        let agent = self.desk.agent;
        let id = self.bob.session().id().to_owned();
        self.bob.session().host().stop().await;
        soon("the end", self.bob.ended()).await;
        if agent.loads {
            let session = self
                .desk
                .load(&id, HostOptions::deciding(self.broker.clone()))
                .await;
            let bob = put_on(&self.world, session, &self.broker).await;
            let seen = self.desk.model.requests().len();
            let id = self.world.send("say hello", None).await;
            self.world.delivered(id).await;
            let told = self.desk.model.first_after(seen, |one| {
                one.request.says("say hello") && one.request.says("make a file")
            });
            soon("the model is told what was before", told).await;
            bob.session().host().stop().await;
        }
        nothing_left_of(&self.desk.place);
    }
}

fn broker() -> (Broker, mpsc::UnboundedReceiver<BrokerNews>) {
    let (tell, news) = mpsc::unbounded_channel();
    let broker = Broker::telling(move |news| {
        let _ = tell.send(news);
    });
    (broker, news)
}

async fn put_on(world: &World, session: Session, broker: &Broker) -> RelaySession {
    let options = RelayOptions {
        may_interrupt: true,
        broker: Some(broker.clone()),
        ..RelayOptions::default()
    };
    attach(&world.bob, world.bob.identity().clone(), session, options)
        .await
        .unwrap()
}

/// What rules call the shell of an agent; nothing where its questions don't tell the command but in their title.
fn shell_of(agent: &Agent) -> Option<&'static str> {
    match agent.name {
        "claude" => Some("Bash"),
        "gemini" => None,
        _ => Some("execute"),
    }
}
