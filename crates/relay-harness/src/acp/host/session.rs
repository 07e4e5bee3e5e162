//! One conversation with an agent: prompts and what comes of them, cancelling, settings.

use std::sync::Arc;
use std::time::Duration;

use relay_protocol::acp::AgentCapabilities;
use serde_json::{Value, json};
use tokio::time::timeout_at;

use super::Host;
use super::error::HostError;
use super::settings::Settings;
use super::state::{SessionState, Standing};
use super::turn::Turn;
use crate::acp::capabilities::check_close;
use crate::acp::content::{PromptContent, fit};
use crate::acp::event::{Event, SessionEvent, Usage};

/// How long an agent may take to end a turn that was cancelled.
pub const CANCEL_WAIT: Duration = Duration::from_secs(30);

/// A session in an agent. Clones are the same session; one of them reads its events.
#[derive(Clone)]
pub struct Session {
    host: Host,
    state: Arc<SessionState>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Session").field(&self.state.id).finish()
    }
}

impl Session {
    pub(super) const fn new(host: Host, state: Arc<SessionState>) -> Self {
        Self { host, state }
    }

    /// The session's id, as the agent calls it. It means something to this agent only.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.state.id
    }

    /// The process that it lives in.
    #[must_use]
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// What its agent can do.
    #[must_use]
    pub fn capabilities(&self) -> &AgentCapabilities {
        self.host.capabilities()
    }

    /// What can be set in it, and how it is set.
    #[must_use]
    pub fn settings(&self) -> Settings {
        self.state.settings(Settings::clone)
    }

    /// Tokens and cost so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.state.usage()
    }

    /// Whether it is in a turn.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !matches!(self.state.standing(), Ok(Standing::Free))
    }

    /// Why nothing can be asked in it any more, when that is so.
    pub fn alive(&self) -> Result<(), HostError> {
        self.state.standing().map(drop)
    }

    /// How many permissions it waits for.
    #[must_use]
    pub fn open_questions(&self) -> usize {
        self.state.open_questions()
    }

    /// Sends a prompt. What the agent can't take is dropped, with a warning. A turn that was cancelled is waited for; in
    /// any other turn it is refused ([`HostError::Busy`]).
    pub async fn prompt<C: Into<PromptContent>>(
        &self,
        content: impl IntoIterator<Item = C>,
    ) -> Result<Turn, HostError> {
        let content = self.fitted(content)?;
        self.until_free().await?;
        let number = self.state.begin(false)?;
        self.send_prompt(number, content).await
    }

    /// Sends a prompt although a turn runs, for agents that queue by themselves. Its turn begins when those before it end.
    pub async fn prompt_behind<C: Into<PromptContent>>(
        &self,
        content: impl IntoIterator<Item = C>,
    ) -> Result<Turn, HostError> {
        let content = self.fitted(content)?;
        let number = self.state.begin(true)?;
        self.send_prompt(number, content).await
    }

    /// Puts text into the running turn, where the agent advertises that.
    pub async fn steer<C: Into<PromptContent>>(
        &self,
        content: impl IntoIterator<Item = C>,
    ) -> Result<Steered, HostError> {
        if !self.host.handshake().extensions.steering {
            let capability = "_meta.steering";
            return Err(relay_protocol::acp::CapabilityNotSupportedError { capability }.into());
        }
        // Without this an agent that has ended its turn meanwhile begins one by itself, whose end nobody is told.
        let meta = json!({"steering": {"idleBehavior": "promptRequired"}});
        let params =
            json!({"sessionId": self.id(), "prompt": self.fitted(content)?, "_meta": meta});
        let answer = self.host.call("_session/steering", &params).await?;
        match answer["outcome"].as_str() {
            Some("injected") => Ok(Steered::Injected),
            Some("promptRequired") => Ok(Steered::NoTurn),
            Some("startedNewTurn") => Ok(Steered::StartedTurn),
            Some("failed") => Ok(Steered::Failed),
            _ => Err(self.host.malformed("_session/steering", "a known outcome")),
        }
    }

    /// Cancels what runs. From now on nothing of it is handed on, and every permission that it waits for is answered with
    /// `cancelled`. Does not wait for the agent.
    pub fn cancel(&self) {
        let running = self.state.cancel();
        if running {
            let params = json!({"sessionId": self.id()});
            // An agent that does not read its input can't be told.
            let _ = self
                .host
                .shared()
                .outgoing
                .notify_now("session/cancel", &params);
        }
        self.state.drop_questions();
    }

    /// The next thing that happens, in or between turns; nothing when the agent is gone. Where a [`Turn`] is
    /// read, read that instead: an event is handed out once.
    pub async fn next_event(&self) -> Option<SessionEvent> {
        self.state.queue.next().await
    }

    /// What has happened already.
    #[must_use]
    pub fn next_event_now(&self) -> Option<SessionEvent> {
        self.state.queue.next_now()
    }

    /// Waits until no turn runs.
    pub async fn idle(&self) -> Result<(), HostError> {
        loop {
            let settled = self.state.settled.notified();
            let mut settled = std::pin::pin!(settled);
            settled.as_mut().enable();
            if self.state.standing()? == Standing::Free {
                return Ok(());
            }
            settled.await;
        }
    }

    /// Opens a copy of it in the same agent, with the same directories and servers, where the agent can.
    pub async fn fork(&self) -> Result<Self, HostError> {
        let opened = self.state.opened.clone();
        self.host.fork_session(self.id(), opened).await
    }

    /// Switches the mode.
    pub async fn set_mode(&self, mode: &str) -> Result<(), HostError> {
        let modes = self.state.settings(|settings| settings.modes.clone());
        if let Some(modes) = modes.filter(|modes| !modes.allows(mode)) {
            return Err(unknown("mode", mode, &modes.available));
        }
        let params = json!({"sessionId": self.id(), "modeId": mode});
        self.host.call("session/set_mode", &params).await?;
        let mode = mode.to_owned();
        let event = Event::Mode { mode };
        self.state
            .change_settings(|settings| settings.apply(&event));
        Ok(())
    }

    /// Switches the model: by the option that carries it, else by the list of models.
    pub async fn set_model(&self, model: &str) -> Result<(), HostError> {
        let settings = self.settings();
        if let Some(option) = settings.model_option() {
            return self.set_option(&option.id, model.into()).await;
        }
        // This method is not part of the protocol any more, so an agent's success has to mean something.
        let models = settings
            .models
            .filter(|_| !self.host.handshake().answers_anything);
        let Some(models) = models else {
            let capability = "session/set_model";
            return Err(relay_protocol::acp::CapabilityNotSupportedError { capability }.into());
        };
        if !models.allows(model) {
            return Err(unknown("model", model, &models.available));
        }
        let params = json!({"sessionId": self.id(), "modelId": model});
        self.host.call("session/set_model", &params).await?;
        let current = model.to_owned();
        self.state.change_settings(|settings| {
            if let Some(models) = &mut settings.models {
                models.current = current;
            }
        });
        Ok(())
    }

    /// Sets an option.
    pub async fn set_option(&self, id: &str, value: Value) -> Result<(), HostError> {
        let settings = self.settings();
        let Some(option) = settings.options.iter().find(|option| option.id == id) else {
            let known: Vec<String> = settings
                .options
                .into_iter()
                .map(|option| option.id)
                .collect();
            return Err(unknown("option", id, &known));
        };
        if let Some(value) = value.as_str()
            && !option.available.is_empty()
            && !option.available.iter().any(|known| known == value)
        {
            return Err(unknown("value", value, &option.available));
        }
        let mut params = json!({"sessionId": self.id(), "configId": id, "value": value});
        if value.is_boolean() {
            params["type"] = "boolean".into();
        }
        let answer = self.host.call("session/set_config_option", &params).await?;
        self.state
            .change_settings(|settings| settings.read(&answer));
        Ok(())
    }

    /// Ends the session in the agent, which goes on. Where the agent can't do that, only this side forgets it.
    pub async fn close(&self) -> Result<(), HostError> {
        self.cancel();
        let closed = match check_close(self.capabilities()) {
            Ok(()) => {
                let params = json!({"sessionId": self.id()});
                self.host.call("session/close", &params).await.map(drop)
            }
            Err(error) => Err(error.into()),
        };
        self.host.forget_session(self.id());
        closed
    }

    fn fitted<C: Into<PromptContent>>(
        &self,
        content: impl IntoIterator<Item = C>,
    ) -> Result<Value, HostError> {
        let content = content.into_iter().map(Into::into).collect();
        let fitted = fit(self.host.agent_id(), self.capabilities(), content);
        if let Some(warning) = fitted.warning {
            self.host.warn(&warning);
        }
        if fitted.content.is_empty() {
            let error = "a prompt needs content that the agent can take";
            return Err(HostError::Invalid(error.to_owned()));
        }
        Ok(fitted.content.iter().map(PromptContent::to_wire).collect())
    }

    async fn until_free(&self) -> Result<(), HostError> {
        match self.state.standing()? {
            Standing::Free => Ok(()),
            Standing::Busy => Err(HostError::Busy),
            Standing::Cancelling(since) => {
                let idle = timeout_at(since + CANCEL_WAIT, self.idle());
                idle.await.unwrap_or(Err(HostError::Stuck))
            }
        }
    }

    async fn send_prompt(&self, number: u64, prompt: Value) -> Result<Turn, HostError> {
        let params = json!({"sessionId": self.id(), "prompt": prompt});
        let taking_back = TakeBack {
            state: self.state.clone(),
            number: Some(number),
        };
        let state = self.state.clone();
        let shared = self.host.shared().clone();
        let answer = move |answer: Result<Value, _>| {
            let answer =
                answer.map_err(|error| HostError::from_rpc(&shared.agent, "session/prompt", error));
            state.end(number, answer);
        };
        let outgoing = &self.host.shared().outgoing;
        let sent = outgoing
            .call("session/prompt", &params, Box::new(answer))
            .await;
        if sent.is_err() {
            drop(taking_back);
            return Err(self.host.shared().closed().await);
        }
        taking_back.keep();
        Ok(Turn::new(self.clone(), self.state.clone(), number))
    }
}

fn unknown(what: &str, asked: &str, known: &[String]) -> HostError {
    HostError::Invalid(format!(
        "there is no {what} `{asked}`, expected one of {}",
        known.join(", ")
    ))
}

/// A turn that is not sent after all, also when whoever sends it is gone meanwhile.
struct TakeBack {
    state: Arc<SessionState>,
    number: Option<u64>,
}

impl TakeBack {
    fn keep(mut self) {
        self.number = None;
    }
}

impl Drop for TakeBack {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.state.take_back(number);
        }
    }
}

/// What became of text that was put into a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steered {
    /// The model sees it in this turn.
    Injected,
    /// Nothing ran, so it began a turn, whose end the agent does not tell.
    StartedTurn,
    /// Nothing ran, and nothing was done: it has to be a prompt.
    NoTurn,
    /// It did not work.
    Failed,
}
