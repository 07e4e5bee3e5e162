//! Whole conversations with real agents through the host: text, calls that are asked about, cancelling, and another process that
//! goes on where the first was stopped.

use relay_harness::acp::event::{Event, StopReason};
use relay_harness::acp::host::{Session, Turn};
use relay_harness::acp::permission::{PermissionAnswer, PermissionQuestion};
use relay_script::Ending;
use tokio::sync::oneshot;

use super::agents::{Agent, COMMAND, working};
use super::desk::{Desk, nothing_left_of, soon};
use crate::acp::permissions::{Questions, person};
use crate::acp::support::{all, text, until_text};

macro_rules! stories {
    ($($name:ident)*) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            if let Some(agent) = working(stringify!($name)) && is_due(agent) {
                story(agent).await;
            }
        }
    )* };
}

stories! { claude codex opencode gemini qwen copilot }

/// What takes longest is told again on the relay (`on_relay.rs`), so here it is for the full depth.
fn is_due(agent: &Agent) -> bool {
    let is_full = std::env::var("RELAY_TEST_DEPTH").is_ok_and(|depth| depth == "full");
    let is_due = is_full || matches!(agent.name, "claude" | "codex");
    if !is_due {
        eprintln!(
            "{}: without the relay by `scripts/test full` only",
            agent.name
        );
    }
    is_due
}

async fn story(agent: &'static Agent) {
    let mut talk = Talk::begin(agent).await;
    talk.text_streams_in_order().await;
    talk.an_allowed_call_runs().await;
    talk.a_rejected_call_does_not_run().await;
    talk.cancelling_ends_a_turn_that_waits_for_permission()
        .await;
    talk.cancelling_ends_a_turn_that_streams().await;
    talk.another_process_goes_on().await;
}

/// A conversation, and the questions that the agent asks.
struct Talk {
    desk: Desk,
    session: Session,
    questions: Questions,
}

impl Talk {
    async fn begin(agent: &'static Agent) -> Self {
        let desk = Desk::new(agent).await;
        let (options, questions) = person();
        let session = desk.open(options).await;
        Self {
            desk,
            session,
            questions,
        }
    }

    async fn prompt(&self, text: &str) -> Turn {
        self.session.prompt([text]).await.unwrap()
    }

    async fn asked(&mut self) -> (PermissionQuestion, oneshot::Sender<PermissionAnswer>) {
        soon("a question", self.questions.recv()).await.unwrap()
    }

    async fn text_streams_in_order(&mut self) {
        let turn = self.prompt("say hello").await;
        let events = soon("the turn", all(turn)).await;
        assert!(text(&events).contains("Hello there."), "{events:?}");
        let place = |like: &dyn Fn(&Event) -> bool| events.iter().position(|it| like(&it.event));
        let thought = place(&|event| matches!(event, Event::Thought { .. }));
        let said = place(&|event| matches!(event, Event::Text { text } if text.contains("Hello")));
        assert!(thought.is_some() && thought < said, "{events:?}");
        let end = &events.last().unwrap().event;
        assert!(
            matches!(
                end,
                Event::TurnEnded {
                    stop_reason: StopReason::EndTurn,
                    ..
                }
            ),
            "{end:?}"
        );
        let asked = soon("the request", self.desk.model.nth_saying(1, "say hello")).await;
        assert_eq!(asked.ended().await, Ending::Complete);
    }

    async fn an_allowed_call_runs(&mut self) {
        let seen = self.desk.model.requests().len();
        let turn = self.prompt("make a file").await;
        let (question, answer) = self.asked().await;
        assert_eq!(self.desk.made(), None, "nothing happens before the answer");
        let call = &question.tool_call;
        assert!(call.tool() != "tool" && !call.id.is_empty(), "{call:?}");
        answer.send(PermissionAnswer::AllowOnce).unwrap();
        let events = soon("the turn", all(turn)).await;
        assert_eq!(self.desk.made().as_deref(), Some("ran\n"), "{events:?}");
        assert!(text(&events).contains("After the tool."), "{events:?}");
        let ended = events.iter().any(|event| match &event.event {
            Event::ToolCall(it) | Event::ToolCallUpdate(it) => {
                it.id == call.id && it.status.as_deref() == Some("completed")
            }
            _ => false,
        });
        assert!(ended, "{events:?}");
        let told = self.desk.model.first_after(seen, |one| {
            let mut results = one.request.fresh_results();
            results.any(|result| result.words().contains("ran"))
        });
        soon("the model is told the result", told).await;
    }

    async fn a_rejected_call_does_not_run(&mut self) {
        let turn = self.prompt("make a file").await;
        let (_, answer) = self.asked().await;
        answer.send(PermissionAnswer::Reject).unwrap();
        let end = soon("the turn", turn.finish()).await.unwrap();
        assert_eq!(end.stop_reason.as_str(), self.desk.agent.rejected);
        assert_eq!(self.desk.made(), None);
    }

    async fn cancelling_ends_a_turn_that_waits_for_permission(&mut self) {
        let turn = self.prompt("make a file").await;
        let (_, answer) = self.asked().await;
        turn.cancel();
        let end = soon("the turn", turn.finish()).await.unwrap();
        assert_eq!(end.stop_reason, StopReason::Cancelled);
        assert!(answer.is_closed(), "nobody is asked any more");
        assert_eq!(self.desk.made(), None);
    }

    async fn cancelling_ends_a_turn_that_streams(&mut self) {
        let seen = self.desk.model.requests().len();
        let mut turn = self.prompt("talk on").await;
        soon("the words", until_text(&mut turn, "First words")).await;
        let asked = self
            .desk
            .model
            .first_after(seen, |one| one.request.says("talk on"));
        let asked = soon("the request", asked).await;
        turn.cancel();
        let end = soon("the turn", turn.finish()).await.unwrap();
        assert_eq!(end.stop_reason, StopReason::Cancelled);
        assert_eq!(soon("the model is left", asked.ended()).await, Ending::Left);
        let turn = self.prompt("say hello").await;
        let said = text(&soon("the next turn", all(turn)).await);
        assert!(
            said.contains("Hello there.") && !said.contains("First words"),
            "{said}"
        );
    }

    async fn another_process_goes_on(self) {
        if !self.desk.agent.loads {
            return;
        }
        let seen = self.desk.model.requests().len();
        let id = self.session.id().to_owned();
        soon("the end", self.session.host().stop()).await;
        let (options, _questions) = person();
        let session = self.desk.load(&id, options).await;
        let mut before = Vec::new();
        while let Some(event) = session.next_event_now() {
            before.push(event);
        }
        let (said, all_of_it) = (text(&before), format!("{before:?}"));
        assert!(said.contains("Hello there."), "{said}");
        assert!(all_of_it.contains(&COMMAND[..8]), "{all_of_it}");
        self.desk.see_to_questions(&session).await;
        let turn = session.prompt(["say hello"]).await.unwrap();
        soon("the turn", turn.finish()).await.unwrap();
        let told = self
            .desk
            .model
            .first_after(seen, |one| one.request.says("make a file"));
        soon("the model is told what was before", told).await;
        soon("the end", session.host().stop()).await;
        nothing_left_of(&self.desk.place);
    }
}
