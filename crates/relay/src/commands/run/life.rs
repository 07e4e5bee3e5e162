//! The life of an agent: it is started, shown, spoken to, and ended; and started again when it dies.

use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use relay_harness::acp::content::PromptContent;
use relay_harness::acp::host::HostError;
use relay_harness::child::{RestartPolicy, Restarts};
use relay_protocol::agent::AgentType;
use relay_protocol::ids::PermissionId;
use relay_protocol::permission::{PermissionRecord, ResolvePermission};
use relay_protocol::status::AgentStatus;
use relay_sdk::Permissions;

use super::body::{Body, Gone, Plan};
use super::claim::Claim;
use super::desk::{Desk, Item, Items, desk};
use super::step::Step;
use super::view::{Entered, View};
use crate::contact::Contact;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::platform::{self, StopSignal, Wish};

/// The door that decisions at this terminal come through, for the record.
const VIA: &str = "run";

/// Prompts of the user that are on their way; each waits for the end of the turn before it.
type Prompts = FuturesUnordered<BoxFuture<'static, Result<(), HostError>>>;

/// Everything that is needed to live.
pub(super) struct Life<'a> {
    plan: &'a Plan,
    claim: &'a Claim,
    view: View<'a>,
    /// Decides as whoever has the credential.
    permissions: Permissions,
    may_decide: bool,
    desk: Desk,
    items: Items,
    stop: StopSignal,
    /// Whether Ctrl-C was pressed since the turn began.
    was_interrupted: bool,
}

/// Why an agent is not led on.
enum End {
    /// Its user wants it.
    Wished,
    Gone(Gone),
}

impl<'a> Life<'a> {
    pub(super) async fn new(
        plan: &'a Plan,
        claim: &'a Claim,
        contact: &Contact,
        output: &'a Output,
        stop: StopSignal,
    ) -> Outcome<Self> {
        let me = contact.relay.me().await?.agent;
        let name = &claim.agent.identity().name;
        if claim.is_new {
            output.hint(&format!("registered @{name}"));
        }
        let (desk, items) = desk();
        Ok(Self {
            plan,
            claim,
            view: View::open(output, name),
            permissions: contact.patient()?.permissions(),
            may_decide: me.is_none_or(|me| me.agent_type == AgentType::Human),
            desk,
            items,
            stop,
            was_interrupted: false,
        })
    }

    /// Runs the agent until somebody ends it.
    pub(super) async fn lead(
        &mut self,
        policy: RestartPolicy,
        load: Option<String>,
        mut first: Option<String>,
    ) -> Outcome {
        let mut restarts = Restarts::new(policy);
        let mut before: Option<String> = None;
        loop {
            let begun = match &before {
                None => self.begin(load.as_deref()).await.map_err(Begin::Failed),
                Some(session) => self.begin_again(session).await,
            };
            let died = match begun {
                Ok(None) => return self.stopped(),
                Ok(Some(mut body)) => {
                    before = Some(body.session().id().to_owned());
                    match self.live(&mut body, first.take()).await {
                        Ok(End::Gone(Gone::Died(error))) => error,
                        Ok(end) => return self.end(end, body).await,
                        Err(failure) => {
                            body.release(self.claim).await;
                            return Err(failure);
                        }
                    }
                }
                Err(Begin::Died(error)) => error,
                Err(Begin::Failed(failure)) => {
                    self.view.clear()?;
                    return Err(failure);
                }
            };
            self.show_rest()?;
            let delay = restarts.decide(Instant::now());
            if !self.died(&died, delay).await? {
                return match delay {
                    Some(_) => self.stopped(),
                    None => Err(died.into()),
                };
            }
        }
    }

    /// Starts the agent; nothing when somebody does not want that any more.
    async fn begin(&mut self, load: Option<&str>) -> Outcome<Option<Body>> {
        tokio::select! {
            body = self.plan.embody(self.claim, load, &self.desk) => body.map(Some),
            _ = self.stop.next() => Ok(None),
        }
    }

    /// Starts it again, with its conversation where the agent can.
    async fn begin_again(&mut self, session: &str) -> Result<Option<Body>, Begin> {
        match self.begin(Some(session)).await {
            Ok(body) => Ok(body),
            Err(why) => {
                let text = format!(
                    "it can't go on with its conversation, so it begins another one: {}",
                    why.message()
                );
                self.desk.say(Step::Warning { text });
                let begun = self.begin(None).await;
                begun.map_err(|failure| {
                    Begin::Died(HostError::Invalid(failure.message().to_owned()))
                })
            }
        }
    }

    /// Shows what happens and does what is said, until the end.
    async fn live(&mut self, body: &mut Body, first: Option<String>) -> Outcome<End> {
        self.attached(body)?;
        let mut prompts = Prompts::new();
        if let Some(text) = first {
            self.prompt(body, text, &prompts)?;
        }
        let mut closed = std::pin::pin!(platform::nobody_reads());
        loop {
            if let Some(id) = self.view.newly_shown() {
                self.seen(id);
            }
            tokio::select! {
                item = self.items.next() => self.show(item)?,
                entered = self.view.entered() => match entered? {
                    Entered::Prompt(text) => self.prompt(body, text, &prompts)?,
                    Entered::Answer(record, answer) => self.decide(&record, *answer).await?,
                    Entered::End => return Ok(End::Wished),
                },
                Some(sent) = prompts.next() => self.sent(sent)?,
                gone = body.gone() => return Ok(End::Gone(gone)),
                wish = self.stop.next() => {
                    let is_busy = body.session().is_busy();
                    let is_second = std::mem::replace(&mut self.was_interrupted, true);
                    if wish == Wish::End || is_second || !(is_busy || self.view.is_screen()) {
                        return Ok(End::Wished);
                    }
                    self.interrupt(body, is_busy)?;
                }
                () = &mut closed => return Ok(End::Wished),
            }
        }
    }

    fn attached(&mut self, body: &Body) -> Outcome {
        let session_id = body.relay.attached().session_id()?;
        self.view.show(Step::Attached {
            agent: self.plan.agent.title.clone(),
            name: self.claim.agent.identity().name.clone(),
            session_id,
            agent_session_id: body.session().id().to_owned(),
            cwd: self.plan.cwd.display().to_string(),
        })?;
        self.view.show(Step::Status {
            status: AgentStatus::Idle,
        })
    }

    fn prompt(&mut self, body: &Body, text: String, prompts: &Prompts) -> Outcome {
        let content = vec![PromptContent::Text(text.clone())];
        prompts.push(Box::pin(body.relay.prompt(content)));
        self.view.show(Step::Prompt { text })
    }

    fn sent(&mut self, sent: Result<(), HostError>) -> Outcome {
        match sent {
            Ok(()) => Ok(()),
            Err(error) => self.warn(format!("the prompt was not taken: {error}")),
        }
    }

    /// The first Ctrl-C.
    fn interrupt(&mut self, body: &Body, is_busy: bool) -> Outcome {
        if is_busy {
            body.relay.cancel();
            return self.warn("cancelling the turn; Ctrl-C again ends the agent".to_owned());
        }
        self.warn("nothing runs; Ctrl-C again, or Ctrl-D, ends the agent".to_owned())
    }

    fn warn(&mut self, text: String) -> Outcome {
        self.view.show(Step::Warning { text })
    }

    fn show(&mut self, item: Item) -> Outcome {
        match item {
            // Whoever may not decide is only told.
            Item::Step(Step::Asked { permission }) if self.view.is_screen() && !self.may_decide => {
                let text = format!(
                    "it asks for permission, and somebody else has to decide: {}",
                    permission.permission_id
                );
                self.warn(text)
            }
            Item::Step(step) => {
                if matches!(
                    step,
                    Step::Status {
                        status: AgentStatus::Active
                    }
                ) {
                    self.was_interrupted = false;
                }
                self.view.show(step)
            }
            Item::Over(id) => {
                self.view.forget(id);
                self.warn(format!("{id} is over"))
            }
        }
    }

    /// Others are told that somebody looks at it. Nothing else depends on that.
    fn seen(&self, id: PermissionId) {
        let permissions = self.permissions.clone();
        tokio::spawn(async move {
            let _ = permissions.seen(id).await;
        });
    }

    /// Decides about exactly what was looked at. What came of it is told by the end of the request, whoever was first.
    async fn decide(&mut self, record: &PermissionRecord, answer: ResolvePermission) -> Outcome {
        let answer = ResolvePermission {
            args_hash: Some(record.args_hash.clone()),
            via: Some(VIA.to_owned()),
            ..answer
        };
        let id = record.permission_id;
        match self.permissions.resolve(id, answer).await {
            Ok(_) => {
                self.view.forget(id);
                Ok(())
            }
            Err(error) if error.outcome().is_some() => {
                self.view.forget(id);
                Ok(())
            }
            Err(error) => self.view.refuse(id, Failure::from(error).message()),
        }
    }

    /// Says that the agent is dead, and waits until it is time to start it again; whether it is.
    async fn died(&mut self, error: &HostError, delay: Option<Duration>) -> Outcome<bool> {
        let Some(delay) = delay else {
            self.view.clear()?;
            return Ok(false);
        };
        self.view.show(Step::AgentEnded {
            error: error.to_string(),
            restart_in_ms: Some(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)),
        })?;
        tokio::select! {
            () = tokio::time::sleep(delay) => Ok(true),
            _ = self.stop.next() => Ok(false),
        }
    }

    /// Shows what is left to show.
    fn show_rest(&mut self) -> Outcome {
        while let Some(item) = self.items.next_now() {
            self.show(item)?;
        }
        Ok(())
    }

    async fn end(&mut self, end: End, body: Body) -> Outcome {
        let refused = match end {
            End::Gone(Gone::Refused(error)) => Some(Failure::from(error)),
            End::Gone(_) | End::Wished => None,
        };
        body.release(self.claim).await;
        self.show_rest()?;
        match refused {
            Some(failure) => {
                self.view.clear()?;
                Err(failure)
            }
            None => self.stopped(),
        }
    }

    fn stopped(&mut self) -> Outcome {
        self.view.show(Step::Released)?;
        self.view.clear()
    }
}

/// Why an agent could not be started again.
enum Begin {
    /// That may be better the next time.
    Died(HostError),
    Failed(Failure),
}
