//! A conversation with an agent: questions one after the other, each answered at once or as a stream.

use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::answer::{Answer, Folding};
use super::json::{JsonAnswer, JsonForm};
use super::spending::Spending;
use super::transcript::Recorder;
use super::{DirectError, Setup};
use crate::acp::capabilities::check_resume;
use crate::acp::content::PromptContent;
use crate::acp::event::{Event, SessionEvent};
use crate::acp::host::{Host, HostError, Session, Turn};
use crate::child::Restarts;

/// After so long without an update a loaded session is taken to be played back.
const HISTORY_PAUSE: Duration = Duration::from_millis(300);

/// Most time for the playing back of a loaded session, once the agent has answered.
const HISTORY_WAIT: Duration = Duration::from_secs(10);

/// How the system prompt reaches the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemPromptWay {
    /// There is none.
    None,
    /// As such: the agent takes one.
    Field,
    /// In front of every prompt.
    InFront,
}

/// A conversation with an agent that runs as long as this.
pub struct Conversation {
    setup: Setup,
    session: Session,
    spending: Spending,
    recorder: Option<Recorder>,
    restarts: Restarts,
}

impl Conversation {
    pub(super) async fn open(setup: Setup) -> Result<Self, DirectError> {
        let host = setup.start().await?;
        let session = match opened(&setup, &host, setup.load.as_deref()).await {
            Ok(session) => session,
            Err(error) => {
                host.stop().await;
                return Err(error.into());
            }
        };
        Ok(Self {
            restarts: Restarts::new(setup.restart),
            setup,
            session,
            spending: Spending::default(),
            recorder: None,
        })
    }

    /// The session in the agent. It changes when the agent was started again.
    #[must_use]
    pub const fn session(&self) -> &Session {
        &self.session
    }

    /// What was spent so far.
    #[must_use]
    pub const fn spending(&self) -> &Spending {
        &self.spending
    }

    /// How the system prompt reaches the model.
    #[must_use]
    pub fn system_prompt_way(&self) -> SystemPromptWay {
        way(&self.setup, self.session.host())
    }

    /// Writes down what happens from now on.
    pub fn record(&mut self, mut recorder: Recorder) -> Result<(), DirectError> {
        recorder.begin(&self.setup.agent.id, self.session.id())?;
        self.recorder = Some(recorder);
        Ok(())
    }

    /// Asks something and waits for the answer.
    pub async fn ask<C: Into<PromptContent>>(
        &mut self,
        prompt: impl IntoIterator<Item = C>,
    ) -> Result<Answer, DirectError> {
        self.stream(prompt).await?.finish().await
    }

    /// Asks something and hands out what happens.
    pub async fn stream<C: Into<PromptContent>>(
        &mut self,
        prompt: impl IntoIterator<Item = C>,
    ) -> Result<Stream<'_>, DirectError> {
        let asked = self.prompt(prompt).await?;
        Ok(Stream {
            conversation: Holding::Borrowed(self),
            asked,
        })
    }

    /// Asks for an answer in a given form.
    pub async fn ask_json(
        &mut self,
        prompt: &str,
        form: &JsonForm,
    ) -> Result<JsonAnswer, DirectError> {
        let mut question = form.question(prompt);
        let mut attempt = 1;
        loop {
            let answer = self.ask([question.as_str()]).await?;
            match form.read(&answer.text) {
                Ok(value) => {
                    return Ok(JsonAnswer {
                        value,
                        attempts: attempt,
                        answer,
                    });
                }
                Err(issues) if attempt > form.retries => {
                    let text = answer.text;
                    return Err(DirectError::Json { text, issues });
                }
                Err(issues) => question = form.again(&issues),
            }
            attempt += 1;
        }
    }

    /// Ends the agent.
    pub async fn close(self) {
        self.session.host().stop().await;
    }

    async fn prompt<C: Into<PromptContent>>(
        &mut self,
        prompt: impl IntoIterator<Item = C>,
    ) -> Result<Asked, DirectError> {
        self.spending.check(self.setup.budget)?;
        self.revive().await?;
        let mut content: Vec<PromptContent> = prompt.into_iter().map(Into::into).collect();
        if let (Some(system), SystemPromptWay::InFront) =
            (&self.setup.system_prompt, self.system_prompt_way())
        {
            content.insert(0, PromptContent::Text(format!("{system}\n\n")));
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.prompt(&content)?;
        }
        Ok(Asked {
            turn: self.session.prompt(content).await?,
            folding: Folding::default(),
            began: Instant::now(),
        })
    }

    /// Starts an agent that has ended by itself again, if the policy says so, and goes on with the same session.
    async fn revive(&mut self) -> Result<(), DirectError> {
        let Err(error @ HostError::Closed { .. }) = self.session.alive() else {
            return Ok(());
        };
        let Some(delay) = self.restarts.decide(Instant::now()) else {
            return Err(error.into());
        };
        tokio::time::sleep(delay).await;
        let host = self.setup.start().await?;
        let id = self.session.id().to_owned();
        self.session = opened(&self.setup, &host, Some(&id)).await?;
        Ok(())
    }

    /// Takes what happened into account.
    fn note(&mut self, event: &SessionEvent) -> Result<(), DirectError> {
        if let Some(recorder) = &mut self.recorder {
            recorder.event(event)?;
        }
        match &event.event {
            Event::Usage(usage) => {
                self.spending.report(self.session.id(), usage);
                self.spending.check(self.setup.budget)?;
            }
            Event::TurnEnded { tokens, .. } => {
                self.spending.turn(*tokens);
                if let Some(what) = self.spending.blind(self.setup.budget) {
                    let agent = &self.setup.agent.id;
                    self.session.host().warn(&format!(
                        "Agent {agent} does not tell its {what} — the budget can't be kept."
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Opens the session: the one that is to go on, or a new one.
async fn opened(setup: &Setup, host: &Host, id: Option<&str>) -> Result<Session, HostError> {
    let mut open = setup.open();
    if way(setup, host) == SystemPromptWay::Field {
        open.system_prompt.clone_from(&setup.system_prompt);
    }
    let session = match id {
        None => host.new_session(open).await?,
        // Without playing it back, where the agent can.
        Some(id) if check_resume(host.capabilities()).is_ok() => {
            host.resume_session(id, open).await?
        }
        Some(id) => {
            let session = host.load_session(id, open).await?;
            pass_over_history(&session).await;
            session
        }
    };
    let modes = session.settings().modes;
    let asking = setup.agent.asking_mode.as_ref();
    let asking = asking.filter(|mode| modes.is_some_and(|modes| modes.available.contains(mode)));
    if let Some(mode) = setup.mode.as_ref().or(asking) {
        session.set_mode(mode).await?;
    }
    if let Some(model) = &setup.model {
        session.set_model(model).await?;
    }
    Ok(session)
}

/// Reads what an agent plays back of a loaded session: it was said before, and is no part of the next answer. Most agents play it
/// back before they answer; Gemini begins then, and nothing tells where its history ends but that nothing more comes.
async fn pass_over_history(session: &Session) {
    let passing =
        async { while let Ok(Some(_)) = timeout(HISTORY_PAUSE, session.next_event()).await {} };
    // An agent that never stops talking is not waited for.
    let _ = timeout(HISTORY_WAIT, passing).await;
}

fn way(setup: &Setup, host: &Host) -> SystemPromptWay {
    match setup.system_prompt {
        None => SystemPromptWay::None,
        Some(_) if host.handshake().extensions.system_prompt => SystemPromptWay::Field,
        Some(_) => SystemPromptWay::InFront,
    }
}

/// A question that was asked.
struct Asked {
    turn: Turn,
    folding: Folding,
    began: Instant,
}

/// What happens after a question. Dropped before its end, the turn is cancelled.
pub struct Stream<'c> {
    conversation: Holding<'c>,
    asked: Asked,
}

/// A conversation that goes on, or one for this question only.
enum Holding<'c> {
    Borrowed(&'c mut Conversation),
    Owned(Box<Conversation>),
}

impl Deref for Holding<'_> {
    type Target = Conversation;

    fn deref(&self) -> &Conversation {
        match self {
            Self::Borrowed(conversation) => conversation,
            Self::Owned(conversation) => conversation,
        }
    }
}

impl DerefMut for Holding<'_> {
    fn deref_mut(&mut self) -> &mut Conversation {
        match self {
            Self::Borrowed(conversation) => conversation,
            Self::Owned(conversation) => conversation,
        }
    }
}

impl Stream<'static> {
    pub(super) async fn owning<C: Into<PromptContent>>(
        mut conversation: Conversation,
        prompt: impl IntoIterator<Item = C>,
    ) -> Result<Self, DirectError> {
        let asked = conversation.prompt(prompt).await?;
        Ok(Self {
            conversation: Holding::Owned(Box::new(conversation)),
            asked,
        })
    }
}

impl Stream<'_> {
    /// The session that it happens in; cancel there, from anywhere.
    #[must_use]
    pub const fn session(&self) -> &Session {
        self.asked.turn.session()
    }

    /// The next thing that happens; nothing after the end. When the budget is spent the turn is cancelled.
    pub async fn next(&mut self) -> Option<Result<SessionEvent, DirectError>> {
        let event = self.asked.turn.next().await?;
        let number = self.asked.turn.number();
        self.asked.folding.take(number, &event);
        if let Err(error) = self.conversation.note(&event) {
            self.asked.turn.cancel();
            return Some(Err(error));
        }
        if event.turn == Some(number) && matches!(event.event, Event::TurnFailed { .. }) {
            return Some(Err(self.asked.turn.failure().into()));
        }
        Some(Ok(event))
    }

    /// Reads on until the end and puts the answer together. After an error the agent has ended the turn, too.
    pub async fn finish(mut self) -> Result<Answer, DirectError> {
        let mut failed = None;
        while let Some(event) = self.next().await {
            if let Err(error) = event {
                failed.get_or_insert(error);
            }
        }
        let spent = self.conversation.spending.spent();
        let agent = self.conversation.setup.agent.id.clone();
        let session = self.asked.turn.session().id().to_owned();
        let Asked {
            turn,
            folding,
            began,
        } = self.asked;
        if let Holding::Owned(conversation) = self.conversation {
            conversation.close().await;
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let answer = folding.answer(&agent, &session, spent, began.elapsed());
        answer.ok_or_else(|| turn.failure().into())
    }
}
