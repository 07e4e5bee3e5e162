//! One question of an agent, from asking the relay to the agent's answer.

use std::sync::Arc;
use std::time::Duration;

use relay_protocol::permission::{AskPermission, ExecutionState, PermissionState};
use relay_sdk::{Decision, Question};
use tokio::sync::oneshot;

use super::form::{self, Meaning};
use super::{BrokerNews, CallFate, Desk, Inner};
use crate::acp::permission::{PermissionAnswer, PermissionQuestion};

/// How long it takes until a relay that can't be reached is asked again, at first and at most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));

/// How often a question that nobody needs any more is asked again, to be taken back if the relay has it already.
const UNNEEDED: u32 = 5;

/// What the relay is told of a question that nobody needs any more.
const WITHDRAWN: &str = "the turn was cancelled, or the agent took its question back";

/// Why a call does not run about which nothing is known.
const UNKNOWN: &str = "what was decided can't be found out";

/// What the relay is told of a call that was allowed, and of which the agent was not told that.
const TOO_LATE: &str = "the turn was cancelled before the agent knew that it may";

/// One question that is being served.
pub(super) struct Asking {
    pub(super) inner: Arc<Inner>,
    pub(super) desk: Arc<Desk>,
    pub(super) question: PermissionQuestion,
}

impl Asking {
    /// Serves it. When nobody waits for the answer any more, the request is taken back: it is cancelled, never denied.
    pub(super) async fn serve(self, mut answer: oneshot::Sender<PermissionAnswer>) {
        let Self {
            inner,
            desk,
            question,
        } = &self;
        let id = desk.id_of(&question.tool_call.id);
        let Some(ask) = form::ask(question, id, desk.run()) else {
            // No answer of the agent's could be given, so nobody is asked.
            self.fail("none of the agent's options is known");
            let _ = answer.send(PermissionAnswer::Cancelled);
            return;
        };
        let asked = match asked(desk, ask, &answer).await {
            Ok(asked) => asked,
            Err(error) => {
                tracing::warn!(%error, agent = %question.agent, "a permission can't be asked for");
                self.fail(&error.to_string());
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
                request: Box::new(asked.record()),
                call: question.tool_call.id.clone(),
            });
        }
        self.conclude(&asked, decision, answer).await;
    }

    /// Tells the agent. What is about to run is written down before.
    async fn conclude(
        &self,
        asked: &Question,
        decision: Option<Decision>,
        answer: oneshot::Sender<PermissionAnswer>,
    ) {
        let was_approved = decision.as_ref().is_some_and(Decision::is_approved);
        let meaning = match decision {
            Some(decision) => form::meaning(decision, &self.question.options),
            None => Meaning::not_run(PermissionAnswer::Cancelled, failed(UNKNOWN)),
        };
        if answer.is_closed() {
            if was_approved {
                never_ran(asked).await;
            }
            return self.tell(CallFate::Cancelled { reason: None });
        }
        let Some(params) = meaning.runs else {
            if was_approved {
                // Allowed, but not in a way that this agent can do.
                never_ran(asked).await;
            }
            let fate = self.guided(asked, meaning.fate).await;
            let stops = fate.stops();
            self.tell(fate);
            if stops {
                self.desk.stop_turn();
            }
            let _ = answer.send(meaning.answer);
            return;
        };
        if let Err(error) = asked.start(&params).await {
            tracing::warn!(%error, permission.id = %asked.id(), "what was allowed can't be started");
            self.fail(&error.to_string());
            let _ = answer.send(PermissionAnswer::Cancelled);
            return;
        }
        let call = &self.question.tool_call.id;
        self.desk.started(call, asked.clone());
        self.tell(CallFate::Runs);
        if answer.send(meaning.answer).is_err() {
            self.desk.forget(call, asked.id());
            let ended = asked.finish(ExecutionState::Failed, Some(TOO_LATE)).await;
            note(asked, ended.map(drop));
        }
    }

    /// What is to be done instead is why, where nothing else is said.
    async fn guided(&self, asked: &Question, fate: CallFate) -> CallFate {
        match fate {
            CallFate::Denied {
                reason,
                stops: false,
            } => {
                let guidance = self.desk.guidance(asked).await;
                CallFate::Denied {
                    reason: reason.or(guidance),
                    stops: false,
                }
            }
            fate => fate,
        }
    }

    fn fail(&self, why: &str) {
        self.tell(failed(why));
    }

    fn tell(&self, fate: CallFate) {
        self.inner.tell(|| BrokerNews::Answered {
            call: self.question.tool_call.id.clone(),
            fate,
        });
    }
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

fn failed(why: &str) -> CallFate {
    CallFate::Failed {
        error: why.to_owned(),
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
