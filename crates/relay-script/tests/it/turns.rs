//! Whole conversations with real agents whose model is a script: text, tool calls that are asked about, cancellation, a prompt
//! during a turn, and another process that goes on where the first was killed.

use relay_script::{Ending, Server};
use serde_json::{Value, json};

use crate::handshake::introduction;
use crate::support::acp::Client;
use crate::support::agents::{Agent, COMMAND, Place, SecondPrompt, shell_call, working};
use crate::support::{script, soon};

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
    let mut desk = Desk::new(agent).await;
    desk.text_arrives_in_order().await;
    desk.an_allowed_call_runs().await;
    desk.a_rejected_call_does_not_run().await;
    desk.cancelling_ends_a_turn_that_waits_for_permission()
        .await;
    desk.cancelling_ends_a_turn_that_streams().await;
    desk.a_prompt_during_a_turn_is_not_lost().await;
    desk.words_can_be_put_into_a_turn().await;
    desk.another_process_goes_on().await;
}

/// An agent, its model, and a session.
struct Desk {
    agent: &'static Agent,
    model: Server,
    place: Place,
    client: Client,
    session: String,
}

impl Desk {
    async fn new(agent: &'static Agent) -> Self {
        let model = Server::start(script(json!({
            "turns": [
                { "when": { "tools": false }, "reply": "A title" },
                { "when": { "user": "say hello" },
                  "reply": [{ "reasoning": "They want a greeting." }, "Hello ", "there."] },
                { "when": { "user": "make a file" }, "reply": ["I will.", shell_call()] },
                { "when": { "user": "talk on" }, "reply": ["First words", { "wait": "never" }] },
                { "when": { "user": "begin slowly" },
                  "reply": ["Slow words", { "wait": "slow" }, " and the end."] },
                { "when": { "user": "a second thing" }, "reply": "The second answer." },
                { "when": { "user": "wait for me" }, "reply": ["Waiting", { "wait": "never" }] },
                { "when": { "user": "turn left" }, "reply": "Turning left." },
                { "when": { "result": "" }, "reply": "After the tool." },
            ],
            "otherwise": "Fine.",
        })))
        .await
        .unwrap();
        let place = Place::new();
        let client = agent.start(&place, &model.url());
        let mut desk = Self {
            agent,
            model,
            place,
            client,
            session: String::new(),
        };
        desk.initialize().await;
        let new = json!({ "cwd": desk.place.work(), "mcpServers": [] });
        let new = desk.client.call("session/new", new).await.unwrap();
        desk.session = new["sessionId"].as_str().unwrap().to_owned();
        desk.choose_mode().await;
        desk
    }

    async fn initialize(&mut self) {
        let answer = self.client.call("initialize", introduction()).await;
        assert_eq!(answer.unwrap()["protocolVersion"], 1);
    }

    /// Sees to it that the agent asks.
    async fn choose_mode(&mut self) {
        if let Some(mode) = self.agent.mode {
            let mode = json!({ "sessionId": self.session, "modeId": mode });
            self.client.call("session/set_mode", mode).await.unwrap();
        }
    }

    /// Begins a turn; its answer is had by `ends`.
    async fn prompt(&mut self, text: &str) -> u64 {
        let prompt = json!({
            "sessionId": self.session, "prompt": [{ "type": "text", "text": text }],
        });
        self.client.ask("session/prompt", prompt).await
    }

    async fn begin(&mut self, text: &str) -> u64 {
        self.client.begin_turn();
        self.prompt(text).await
    }

    async fn ends(&mut self, turn: u64) -> String {
        let answer = self.client.answer(turn).await.unwrap();
        answer["stopReason"].as_str().unwrap().to_owned()
    }

    async fn cancel(&mut self) {
        let session = json!({ "sessionId": self.session });
        self.client.notify("session/cancel", session).await;
    }

    async fn until_asked(&mut self) -> Value {
        let asks = |said: &Value| said["method"] == "session/request_permission";
        self.client.until("a question for permission", asks).await
    }

    async fn until_said(&mut self, text: &str) {
        let says = |said: &Value| said["params"]["update"]["content"]["text"] == text;
        self.client.until(text, says).await;
    }

    async fn choose(&mut self, asked: &Value, kind: &str) {
        let options = asked["params"]["options"].as_array().unwrap();
        let option = options.iter().find(|option| option["kind"] == kind);
        let option = option.unwrap_or_else(|| panic!("{kind} is not among {options:?}"));
        let outcome = json!({ "outcome": "selected", "optionId": option["optionId"] });
        let result = json!({ "outcome": outcome });
        self.client.respond(asked, result).await;
    }

    fn said(&self) -> String {
        self.client.text("agent_message_chunk")
    }

    /// What the command made, if it ran. The next turn finds nothing.
    fn made(&self) -> Option<String> {
        let path = self.place.work().join("made.txt");
        let text = std::fs::read_to_string(&path).ok()?;
        std::fs::remove_file(path).unwrap();
        Some(text)
    }

    async fn text_arrives_in_order(&mut self) {
        let turn = self.begin("say hello").await;
        assert_eq!(self.ends(turn).await, "end_turn");
        assert!(self.said().contains("Hello there."), "{}", self.said());
        let thought = self.client.text("agent_thought_chunk");
        assert!(thought.contains("They want a greeting."), "{thought}");
        let asked = soon("the request", self.model.nth_saying(1, "say hello")).await;
        assert_eq!(asked.ended().await, Ending::Complete);
    }

    async fn an_allowed_call_runs(&mut self) {
        let seen = self.model.requests().len();
        let turn = self.begin("make a file").await;
        let asked = self.until_asked().await;
        let call = &asked["params"]["toolCall"];
        assert_eq!(self.made(), None, "nothing happens before the answer");
        assert!(call["toolCallId"].is_string(), "{call}");
        self.choose(&asked, "allow_once").await;
        assert_eq!(self.ends(turn).await, "end_turn");
        assert_eq!(self.made().as_deref(), Some("ran\n"));
        assert!(self.said().contains("After the tool."), "{}", self.said());
        let told = self.model.first_after(seen, |one| {
            one.request
                .fresh_results()
                .any(|result| result.words().contains("ran"))
        });
        soon("the model is told the result", told).await;
        let id = call["toolCallId"].clone();
        let mut about = self.client.updates().filter(|one| one["toolCallId"] == id);
        assert!(about.any(|one| one["status"] == "completed"));
    }

    async fn a_rejected_call_does_not_run(&mut self) {
        let turn = self.begin("make a file").await;
        let asked = self.until_asked().await;
        self.choose(&asked, "reject_once").await;
        assert_eq!(self.ends(turn).await, self.agent.rejected);
        assert_eq!(self.made(), None);
    }

    async fn cancelling_ends_a_turn_that_waits_for_permission(&mut self) {
        let turn = self.begin("make a file").await;
        let asked = self.until_asked().await;
        self.cancel().await;
        // Some agents wait for this answer, the others don't mind that it is late.
        let result = json!({ "outcome": { "outcome": "cancelled" } });
        self.client.respond(&asked, result).await;
        assert_eq!(self.ends(turn).await, "cancelled");
        assert_eq!(self.made(), None);
    }

    async fn cancelling_ends_a_turn_that_streams(&mut self) {
        let seen = self.model.requests().len();
        let turn = self.begin("talk on").await;
        self.until_said("First words").await;
        let asked = self
            .model
            .first_after(seen, |one| one.request.says("talk on"));
        let asked = soon("the request", asked).await;
        self.cancel().await;
        assert_eq!(self.ends(turn).await, "cancelled");
        assert_eq!(soon("the model is left", asked.ended()).await, Ending::Left);
        let turn = self.begin("say hello").await;
        assert_eq!(self.ends(turn).await, "end_turn");
        let said = self.said();
        assert!(said.contains("Hello there."), "{said}");
        assert!(!said.contains("First words"), "{said}");
    }

    async fn a_prompt_during_a_turn_is_not_lost(&mut self) {
        let first = self.begin("begin slowly").await;
        self.until_said("Slow words").await;
        let second = self.prompt("a second thing").await;
        match self.agent.second_prompt {
            SecondPrompt::Queued => {
                self.model.open("slow");
                assert_eq!(self.ends(first).await, "end_turn");
            }
            SecondPrompt::CancelsFirst => assert_eq!(self.ends(first).await, "cancelled"),
            SecondPrompt::FailsFirst => {
                let error = self.client.answer(first).await.unwrap_err();
                assert_eq!(error["code"], -32603, "{error}");
            }
        }
        assert_eq!(self.ends(second).await, "end_turn");
        self.until_said("The second answer.").await;
        let asked = self.model.nth_saying(1, "a second thing");
        soon("the model is told of the second", asked).await;
    }

    async fn words_can_be_put_into_a_turn(&mut self) {
        let steering = json!({
            "sessionId": self.session, "prompt": [{ "type": "text", "text": "turn left" }],
        });
        if !self.agent.steers {
            let refused = self.client.call("_session/steering", steering).await;
            assert_eq!(refused.unwrap_err()["code"], -32601);
            return;
        }
        let turn = self.begin("wait for me").await;
        self.until_said("Waiting").await;
        let steered = self.client.call("_session/steering", steering).await;
        assert_eq!(steered.unwrap()["outcome"], "injected");
        // The reply that ran is given up: its gate is never opened.
        assert_eq!(self.ends(turn).await, "end_turn");
        assert!(self.said().contains("Turning left."), "{}", self.said());
    }

    async fn another_process_goes_on(mut self) {
        if !self.agent.loads {
            return;
        }
        let seen = self.model.requests().len();
        self.client.end();
        self.client = self.agent.start(&self.place, &self.model.url());
        self.initialize().await;
        let load = json!({
            "sessionId": self.session, "cwd": self.place.work(), "mcpServers": [],
        });
        self.client.call("session/load", load).await.unwrap();
        // What was said before is told before the answer.
        let user = self.client.text("user_message_chunk");
        assert!(user.contains("say hello"), "{user}");
        assert!(self.said().contains("Hello there."), "{}", self.said());
        let commands = self.client.updates().map(ToString::to_string);
        let commands: String = commands.collect();
        assert!(commands.contains(&COMMAND[..8]), "{commands}");
        self.choose_mode().await;
        let turn = self.begin("say hello").await;
        assert_eq!(self.ends(turn).await, "end_turn");
        let asked = self
            .model
            .first_after(seen, |one| one.request.says("make a file"));
        soon("the model is told what was before", asked).await;
    }
}
