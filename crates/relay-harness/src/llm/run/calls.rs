//! The calls of one turn: all are asked about first, in their order; then each runs as soon as it is allowed and its place has come.
//!
//! A call that cannot run (no such tool, arguments that make no sense) is asked about by nobody. Results are told in the order
//! of the calls, whichever ends first.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all, ready};
use relay_protocol::permission::{PermissionOutcome, PermissionRecord, ToolParams};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::came::{Came, Turn, turn};
use super::event::{AskedShown, Happening, ResolvedShown};
use super::machine::Planned;
use super::order::{Place, may_begin};
use super::{Context, new_id};
use crate::llm::permits::{
    PermitError, PermitRequest, Settled, Strength, ToolAsk, ToolEnd, Verdict,
};
use crate::llm::tools::{Sharing, Tool, ToolContext};

/// A call that has not begun.
enum Asked {
    /// It can't run: it is said, and nobody is asked.
    Bad(String),
    Unasked(String),
    /// The turn is over before it was asked about.
    Skipped,
    May {
        tool: Arc<dyn Tool>,
        request: Arc<dyn PermitRequest>,
        /// The place of its question among those that may wait; none where rules decided at once.
        place: Option<OwnedSemaphorePermit>,
    },
}

/// How long the end of a tool or of a question waits for the relay to know it.
const LAST_WORDS: Duration = Duration::from_secs(10);

type Places = watch::Sender<Vec<(Sharing, Place)>>;

/// Makes the calls of one turn.
pub(super) async fn make(context: &Arc<Context>, calls: Vec<Planned>) -> Turn {
    let turn_id = new_id();
    let mut asked = Vec::with_capacity(calls.len());
    for planned in &calls {
        let is_vain = asked.iter().any(|asked| matches!(asked, Asked::Unasked(_)));
        asked.push(match is_vain {
            true => Asked::Skipped,
            false => tokio::select! {
                biased;
                () = context.cancel.cancelled() => Asked::Skipped,
                asked = prepare(context, planned, &turn_id) => asked,
            },
        });
    }
    let places = asked.iter().map(|asked| match asked {
        Asked::May { tool, .. } => (tool.sharing(), Place::Waiting),
        Asked::Bad(_) | Asked::Unasked(_) | Asked::Skipped => (Sharing::Shared, Place::Over),
    });
    let places = Places::new(places.collect());
    // Ends questions, not what already runs.
    let stop = context.cancel.child_token();
    let told = watch::Sender::new(0);
    let making = calls
        .iter()
        .zip(asked)
        .enumerate()
        .map(|(at, (planned, asked))| {
            let one = One {
                context,
                planned,
                id: full_id(context, planned),
                at,
                places: &places,
                stop: &stop,
            };
            let told = &told;
            async move {
                let came = one.make(asked).await;
                // Its turn to tell comes when all before it have told.
                let mut before = told.subscribe();
                let _ = before.wait_for(|told| *told == at).await;
                one.tell(&came).await;
                told.send_modify(|told| *told += 1);
                came
            }
        });
    let came = join_all(making).await;
    turn(context, &calls, came)
}

/// The call as events name it.
fn full_id(context: &Context, planned: &Planned) -> String {
    format!("{}/{}", context.run_id, planned.id)
}

/// Looks whether a call can run, and asks whether it may.
async fn prepare(context: &Context, planned: &Planned, turn_id: &str) -> Asked {
    let call = &planned.call;
    let Some(tool) = context.shared.tools.get(&call.name) else {
        return Asked::Bad(format!("there is no tool {:?}", call.name));
    };
    let params = match call.parse() {
        Ok(params) => params,
        Err(why) => return Asked::Bad(why),
    };
    if let Err(why) = tool.check(&params) {
        return Asked::Bad(why);
    }
    let ask = ToolAsk {
        tool: call.name.clone(),
        params,
        tool_call_id: planned.id.clone(),
        turn_id: turn_id.to_owned(),
    };
    if !tool.needs_permission() {
        return Asked::May {
            tool,
            request: Arc::new(NoQuestion(ask.params)),
            place: None,
        };
    }
    // Not waited for: those that hold the places may wait for calls of this very turn.
    let Ok(place) = context.shared.questions.clone().try_acquire_owned() else {
        let most = context.shared.limits.questions;
        return Asked::Bad(format!(
            "{most} calls wait for a decision already: call again when some of them are decided"
        ));
    };
    let request = match context.permits.ask(ask).await {
        Ok(request) => request,
        Err(error @ PermitError::NotThis(_)) => return Asked::Bad(error.to_string()),
        Err(error) => return Asked::Unasked(error.to_string()),
    };
    let Some(record) = request.pending() else {
        let place = None;
        return Asked::May {
            tool,
            request,
            place,
        };
    };
    let shown = AskedShown::new(&full_id(context, planned), record);
    context.tell(Happening::Asked(Box::new(shown))).await;
    Asked::May {
        tool,
        request,
        place: Some(place),
    }
}

/// A call that nobody has to allow: it runs as it is, and nothing of it is written down.
struct NoQuestion(ToolParams);

impl PermitRequest for NoQuestion {
    fn pending(&self) -> Option<PermissionRecord> {
        None
    }

    fn decided(&self) -> BoxFuture<'_, Result<Settled, PermitError>> {
        let verdict = Verdict::Allowed(self.0.clone());
        let outcome = None;
        ready(Ok(Settled { verdict, outcome })).boxed()
    }

    fn start(&self, _: ToolParams) -> BoxFuture<'_, Result<(), PermitError>> {
        ready(Ok(())).boxed()
    }

    fn finish(&self, _: ToolEnd) -> BoxFuture<'_, ()> {
        ready(()).boxed()
    }

    fn cancel(&self, _: &'static str) -> BoxFuture<'_, Option<PermissionOutcome>> {
        ready(None).boxed()
    }
}

/// One call that is made.
struct One<'a> {
    context: &'a Arc<Context>,
    planned: &'a Planned,
    id: String,
    at: usize,
    places: &'a Places,
    stop: &'a CancellationToken,
}

impl One<'_> {
    async fn make(&self, asked: Asked) -> Came {
        match asked {
            Asked::Bad(why) => {
                // Shown as a call all the same: otherwise the result would come out of nowhere.
                let input = match self.planned.call.parse() {
                    Ok(params) => Value::Object(params),
                    Err(_) => Value::String(self.planned.call.arguments.clone()),
                };
                self.tell_called(input).await;
                Came::Failed(why)
            }
            Asked::Unasked(why) => {
                self.stop.cancel();
                Came::Unasked(why)
            }
            Asked::Skipped => Came::NotAllowed(cancelled()),
            Asked::May {
                tool,
                request,
                place,
            } => {
                let came = self.decide(tool.as_ref(), request.as_ref(), place).await;
                self.now(Place::Over);
                came
            }
        }
    }

    fn now(&self, place: Place) {
        self.places.send_modify(|places| places[self.at].1 = place);
    }

    async fn decide(
        &self,
        tool: &dyn Tool,
        request: &dyn PermitRequest,
        place: Option<OwnedSemaphorePermit>,
    ) -> Came {
        let relay = request
            .pending()
            .map(|record| record.permission_id.to_string());
        let decided = tokio::select! {
            biased;
            () = self.stop.cancelled() => None,
            decided = request.decided() => Some(decided),
        };
        let settled = match decided {
            Some(Ok(settled)) => settled,
            Some(Err(error)) => {
                self.stop.cancel();
                return Came::Unasked(error.to_string());
            }
            None => self.withdraw(request).await,
        };
        drop(place);
        if let Some(relay) = relay {
            let state = settled.verdict.state();
            let shown = ResolvedShown::new(&relay, &self.id, state, settled.outcome.as_ref());
            let what = Happening::Resolved(Box::new(shown));
            self.context.tell(what).await;
        }
        match settled.verdict {
            Verdict::Allowed(params) => self.wait_and_run(tool, request, params).await,
            verdict => {
                let ends_turn = matches!(
                    verdict,
                    Verdict::Expired
                        | Verdict::Denied {
                            strength: Strength::Turn,
                            ..
                        }
                );
                if ends_turn {
                    self.stop.cancel();
                }
                Came::NotAllowed(verdict)
            }
        }
    }

    async fn withdraw(&self, request: &dyn PermitRequest) -> Settled {
        Settled {
            verdict: cancelled(),
            outcome: call_off(request).await,
        }
    }

    async fn wait_and_run(
        &self,
        tool: &dyn Tool,
        request: &dyn PermitRequest,
        params: ToolParams,
    ) -> Came {
        // Whoever decided may have changed them.
        if let Err(why) = tool.check(&params) {
            request.finish(ToolEnd::Failed(why.clone())).await;
            return Came::Failed(why);
        }
        let mut places = self.places.subscribe();
        let may = tokio::select! {
            biased;
            () = self.stop.cancelled() => false,
            // Fails only without a sender, and that lives longer.
            _ = places.wait_for(|places| may_begin(places, self.at)) => true,
        };
        if !may {
            call_off(request).await;
            return Came::NotAllowed(cancelled());
        }
        self.now(Place::Running);
        if let Err(error) = request.start(params.clone()).await {
            self.stop.cancel();
            return Came::Unasked(error.to_string());
        }
        self.tell_called(Value::Object(params.clone())).await;
        let came = self.run(tool, params).await;
        // A relay that can't be reached must not keep the result from the model.
        let _ = timeout(LAST_WORDS, request.finish(came.end())).await;
        came
    }

    /// Runs the tool. When the run is cancelled it has a moment to end by itself.
    async fn run(&self, tool: &dyn Tool, params: ToolParams) -> Came {
        let context = ToolContext {
            call_id: self.id.clone(),
            tool: self.planned.call.name.clone(),
            run: self.context.clone(),
        };
        let cancel = &self.context.cancel;
        // What goes wrong in a tool is the end of this call, not of the run.
        let running = AssertUnwindSafe(async { tool.run(params, context).await });
        let mut running = Box::pin(running.catch_unwind());
        let output = tokio::select! {
            output = &mut running => Some(output),
            () = cancel.cancelled() => timeout(tool.grace(), running).await.ok(),
        };
        match output {
            _ if cancel.is_cancelled() => Came::NotAllowed(cancelled()),
            Some(Ok(Ok(output))) => Came::Ran(output),
            Some(Ok(Err(why))) => Came::Failed(why),
            Some(Err(_)) => Came::Failed("the tool broke down".to_owned()),
            None => Came::NotAllowed(cancelled()),
        }
    }

    async fn tell_called(&self, input: Value) {
        let what = Happening::Called {
            id: self.id.clone(),
            name: self.planned.call.name.clone(),
            input,
        };
        self.context.tell(what).await;
    }

    async fn tell(&self, came: &Came) {
        let what = Happening::Result {
            id: self.id.clone(),
            name: self.planned.call.name.clone(),
            output: came.shown(),
        };
        self.context.tell(what).await;
    }
}

/// Says that a question needs no answer. A relay that can't be reached must not keep the end of a turn from whoever waits for it.
async fn call_off(request: &dyn PermitRequest) -> Option<PermissionOutcome> {
    let cancelling = request.cancel("the turn has ended");
    timeout(LAST_WORDS, cancelling).await.ok().flatten()
}

const fn cancelled() -> Verdict {
    Verdict::Cancelled { reason: None }
}
