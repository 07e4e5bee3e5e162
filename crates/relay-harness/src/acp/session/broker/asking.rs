//! One question of an agent, from asking the relay to the agent's answer.

use std::sync::Arc;
use std::time::Duration;

use relay_protocol::permission::{AskPermission, ExecutionState, PermissionState};
use relay_sdk::{Decision, Question};
use tokio::sync::oneshot;

use super::form::{self, Meaning};
use super::{BrokerNews, Desk, Inner};
use crate::acp::permission::{PermissionAnswer, PermissionQuestion};

/// How long it takes until a relay that can't be reached is asked again, at first and at most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));

/// How often a question that nobody needs any more is asked again, to be taken back if the relay has it already.
const UNNEEDED: u32 = 5;

/// What the relay is told of a question that nobody needs any more.
const WITHDRAWN: &str = "the turn was cancelled, or the agent took its question back";

/// What the relay is told of a call that was allowed, and of which the agent was not told that.
const TOO_LATE: &str = "the turn was cancelled before the agent knew that it may";

/// Serves a question. When nobody waits for the answer any more, the request is taken back: it is cancelled, never denied.
pub(super) async fn serve(
    inner: Arc<Inner>,
    desk: Arc<Desk>,
    question: PermissionQuestion,
    mut answer: oneshot::Sender<PermissionAnswer>,
) {
    let Some(ask) = form::ask(&question, desk.id_of(&question.tool_call.id)) else {
        // No answer of the agent's could be given, so nobody is asked.
        let _ = answer.send(PermissionAnswer::Cancelled);
        return;
    };
    let asked = match asked(&desk, ask, &answer).await {
        Ok(asked) => asked,
        Err(error) => {
            tracing::warn!(%error, agent = %question.agent, "a permission can't be asked for");
            let _ = answer.send(PermissionAnswer::Reject);
            return;
        }
    };
    let request = asked.record();
    let waits = request.state == PermissionState::Pending;
    if waits {
        inner.tell(|| BrokerNews::Asked {
            request: Box::new(request),
            question: Box::new(question.clone()),
        });
    }
    let decided = tokio::select! {
        biased;
        () = answer.closed() => None,
        decided = asked.wait() => Some(decided),
    };
    let decision = match decided {
        Some(Ok(decision)) => Some(decision),
        Some(Err(error)) => {
            tracing::warn!(%error, permission.id = %asked.id(), "a decision can't be read");
            None
        }
        None => withdraw(&asked).await,
    };
    if waits {
        inner.tell(|| BrokerNews::Ended {
            id: asked.id(),
            decision: decision.clone(),
        });
    }
    conclude(&desk, &question, &asked, decision, answer).await;
}

/// Asks, also when the relay can't be reached for a while.
async fn asked(
    desk: &Desk,
    ask: AskPermission,
    answer: &oneshot::Sender<PermissionAnswer>,
) -> relay_sdk::Result<Question> {
    let mut pause = AGAIN.0;
    let mut unneeded = 0;
    loop {
        let attached = desk.attached().ok_or(relay_sdk::Error::Ended)?;
        match attached.ask_permission(ask.clone()).await {
            Err(error) if error.is_retryable() && unneeded < UNNEEDED => {
                unneeded += u32::from(answer.is_closed());
                drop(attached);
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(AGAIN.1);
            }
            asked => return asked,
        }
    }
}

/// Takes a request back; what somebody decided at the same moment is what it gives.
async fn withdraw(asked: &Question) -> Option<Decision> {
    match asked.cancel(Some(WITHDRAWN)).await {
        Ok(_) => Some(Decision::Cancelled {
            reason: Some(WITHDRAWN.to_owned()),
        }),
        // Decided before: `conclude` says that it won't run.
        Err(_) => asked.wait_within(Duration::ZERO).await.ok().flatten(),
    }
}

/// Tells the agent. What is about to run is written down before.
async fn conclude(
    desk: &Desk,
    question: &PermissionQuestion,
    asked: &Question,
    decision: Option<Decision>,
    answer: oneshot::Sender<PermissionAnswer>,
) {
    let meaning = match &decision {
        Some(decision) => form::meaning(decision, &question.options),
        None => Meaning::refused(PermissionAnswer::Cancelled),
    };
    if meaning.stops {
        desk.stop_turn();
    }
    let Some(params) = meaning.runs else {
        if decision.is_some_and(|decision| decision.is_approved()) {
            // Allowed, but not in a way that this agent can do.
            never_ran(asked).await;
        }
        let _ = answer.send(meaning.answer);
        return;
    };
    if answer.is_closed() {
        never_ran(asked).await;
        return;
    }
    if let Err(error) = asked.start(&params).await {
        tracing::warn!(%error, permission.id = %asked.id(), "what was allowed can't be started");
        let _ = answer.send(PermissionAnswer::Cancelled);
        return;
    }
    desk.started(&question.tool_call.id, asked.clone());
    if answer.send(meaning.answer).is_err() {
        desk.forget(&question.tool_call.id, asked.id());
        let ended = asked.finish(ExecutionState::Failed, Some(TOO_LATE)).await;
        note(asked, ended.map(drop));
    }
}

async fn never_ran(asked: &Question) {
    let ended = asked.finish(ExecutionState::Cancelled, None).await;
    note(asked, ended.map(drop));
}

fn note(asked: &Question, told: relay_sdk::Result<()>) {
    if let Err(error) = told {
        tracing::warn!(%error, permission.id = %asked.id(), "how a tool ended was not stored");
    }
}
