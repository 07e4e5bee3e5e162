//! The calls of one turn: all are asked about first, in their order; then each runs as soon as it is allowed and its place has come.
//!
//! A call that cannot run (no such tool, arguments that make no sense) is asked about by nobody. Results are told in the order
//! of the calls, whichever ends first.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::event::{AskedShown, EndReason, Happening, ResolvedShown};
use super::machine::Planned;
use super::order::{Place, may_begin};
use super::{Context, new_id};
use crate::llm::conversation::{Content, ToolResult};
use crate::llm::permits::{PermitRequest, Settled, Strength, ToolAsk, ToolEnd, Verdict};
use crate::llm::tools::{Sharing, Tool, ToolContext, ToolOutput};

/// What came of a turn's calls.
pub(super) struct Turn {
    /// For each call, in order.
    pub(super) results: Vec<ToolResult>,
    /// What those who refused want to be said.
    pub(super) guidance: Vec<String>,
    /// Why the run ends here, if it does.
    pub(super) end: Option<EndReason>,
    /// Why nobody could be asked.
    pub(super) error: Option<String>,
}

/// What came of one call.
#[derive(Debug)]
enum Came {
    Ran(ToolOutput),
    Failed(String),
    /// Whoever decided said so, or nobody did.
    NotAllowed(Verdict),
    /// Nobody could be asked.
    Unasked(String),
}

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
    },
}

/// How long a tool that has ended waits for the relay to know it.
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
    let request = match context.permits.ask(ask).await {
        Ok(request) => request,
        Err(error) => return Asked::Unasked(error.to_string()),
    };
    if let Some(record) = request.pending() {
        let shown = AskedShown::new(&full_id(context, planned), record);
        context.tell(Happening::Asked(Box::new(shown))).await;
    }
    Asked::May { tool, request }
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
            Asked::May { tool, request } => {
                let came = self.decide(tool.as_ref(), request.as_ref()).await;
                self.now(Place::Over);
                came
            }
        }
    }

    fn now(&self, place: Place) {
        self.places.send_modify(|places| places[self.at].1 = place);
    }

    async fn decide(&self, tool: &dyn Tool, request: &dyn PermitRequest) -> Came {
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
        if let Some(relay) = relay {
            let shown = ResolvedShown::new(&relay, &self.id, &settled);
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
        request.cancel("the turn has ended").await;
        Settled {
            verdict: cancelled(),
            outcome: None,
        }
    }

    async fn wait_and_run(
        &self,
        tool: &dyn Tool,
        request: &dyn PermitRequest,
        params: relay_protocol::permission::ToolParams,
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
            request.cancel("the turn has ended").await;
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
    async fn run(&self, tool: &dyn Tool, params: relay_protocol::permission::ToolParams) -> Came {
        let context = ToolContext {
            call_id: self.id.clone(),
            tool: self.planned.call.name.clone(),
            run: self.context.clone(),
        };
        let cancel = &self.context.cancel;
        let mut running = tool.run(params, context);
        let output = tokio::select! {
            output = &mut running => Some(output),
            () = cancel.cancelled() => timeout(tool.grace(), running).await.ok(),
        };
        match output {
            _ if cancel.is_cancelled() => Came::NotAllowed(cancelled()),
            Some(Ok(output)) => Came::Ran(output),
            Some(Err(why)) => Came::Failed(why),
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

const fn cancelled() -> Verdict {
    Verdict::Cancelled { reason: None }
}

impl Came {
    /// As it is shown to people.
    fn shown(&self) -> Value {
        match self {
            Self::Ran(output) => json!({ "context": output.context, "result": output.result }),
            Self::Failed(why) | Self::Unasked(why) => json!({ "error": why }),
            Self::NotAllowed(verdict) => status(verdict),
        }
    }

    /// As the model gets it.
    fn result(&self, call_id: &str) -> ToolResult {
        let text = match self {
            Self::Ran(output) => output.context.clone(),
            other => other.shown().to_string(),
        };
        ToolResult {
            call_id: call_id.to_owned(),
            content: vec![Content::Text(text)],
            is_error: !matches!(self, Self::Ran(_)),
        }
    }

    /// As it is written down.
    fn end(&self) -> ToolEnd {
        match self {
            Self::Ran(_) => ToolEnd::Completed,
            Self::Failed(why) | Self::Unasked(why) => ToolEnd::Failed(why.clone()),
            Self::NotAllowed(_) => ToolEnd::Failed("it was cancelled".to_owned()),
        }
    }
}

fn status(verdict: &Verdict) -> Value {
    let (status, reason) = match verdict {
        Verdict::Allowed(_) => ("allowed", None),
        Verdict::Denied { reason, .. } => ("denied", reason.clone()),
        Verdict::Expired => ("expired", Some("nobody answered in time".to_owned())),
        Verdict::Cancelled { reason } => ("cancelled", reason.clone()),
    };
    match reason {
        Some(reason) => json!({ "status": status, "reason": reason }),
        None => json!({ "status": status }),
    }
}

fn turn(context: &Context, calls: &[Planned], came: Vec<Came>) -> Turn {
    let mut turn = Turn {
        results: Vec::with_capacity(came.len()),
        guidance: Vec::new(),
        end: None,
        error: None,
    };
    for (planned, came) in calls.iter().zip(came) {
        turn.results.push(came.result(&planned.call.id));
        match came {
            Came::Unasked(why) => {
                turn.error.get_or_insert(why);
            }
            Came::NotAllowed(Verdict::Expired) => turn.end = Some(EndReason::Stopped),
            Came::NotAllowed(Verdict::Denied { strength, .. }) => match strength {
                Strength::Call => {}
                Strength::Turn => turn.end = Some(EndReason::Stopped),
                Strength::Guidance(text) => turn.guidance.push(text),
            },
            Came::Ran(_) | Came::Failed(_) | Came::NotAllowed(_) => {}
        }
    }
    if turn.error.is_some() {
        turn.end = Some(EndReason::Error);
    }
    if context.cancel.is_cancelled() {
        turn.end = Some(EndReason::Cancelled);
    }
    turn
}
