//! Agents without a relay: one question, a stream, a conversation, an answer in a given form.
//!
//! Everything here is made of a [`Host`] and a session in it. What is spent is counted by what the agent
//! tells, a budget ends the turn in which it is reached, and what happened can be written down and played again.

mod answer;
mod conversation;
mod json;
mod spending;
mod transcript;

use std::path::PathBuf;
use std::time::Duration;

pub use answer::Answer;
pub use conversation::{Conversation, Stream, SystemPromptWay};
pub use json::{Issue, JsonAnswer, JsonForm};
pub use spending::{Budget, Spending, Spent};
pub use transcript::{Recorder, Replay, TranscriptError};

use super::catalogue::AgentDefinition;
use super::content::{McpServer, PromptContent};
use super::host::{Host, HostError, HostOptions, OpenSession};
use crate::child::{ChildEnvironment, RestartPolicy};

/// An agent, and how it is to be used.
#[derive(Clone)]
pub struct Setup {
    /// The agent.
    pub agent: AgentDefinition,
    /// Its environment.
    pub environment: ChildEnvironment,
    /// Where it works.
    pub cwd: PathBuf,
    /// Where it may read, too.
    pub additional_directories: Vec<PathBuf>,
    /// The MCP servers that it is to use.
    pub mcp_servers: Vec<McpServer>,
    /// Instructions for the model.
    pub system_prompt: Option<String>,
    /// The model; nothing: the agent's own choice.
    pub model: Option<String>,
    /// The mode; nothing: the one in which the agent asks before it acts, where that is known.
    pub mode: Option<String>,
    /// The stored session to go on with; nothing: a new one.
    pub load: Option<String>,
    /// What may be spent.
    pub budget: Budget,
    /// Whether an agent that has ended by itself is started again.
    pub restart: RestartPolicy,
    /// How it is driven.
    pub host: HostOptions,
}

impl Setup {
    /// An agent in a directory, as it is.
    #[must_use]
    pub fn new(agent: AgentDefinition, environment: ChildEnvironment, cwd: PathBuf) -> Self {
        Self {
            agent,
            environment,
            cwd,
            additional_directories: Vec::new(),
            mcp_servers: Vec::new(),
            system_prompt: None,
            model: None,
            mode: None,
            load: None,
            budget: Budget::default(),
            restart: RestartPolicy::NEVER,
            host: HostOptions::default(),
        }
    }

    pub(super) async fn start(&self) -> Result<Host, HostError> {
        let (agent, environment) = (self.agent.clone(), self.environment.clone());
        Host::start(agent, environment, self.cwd.clone(), self.host.clone()).await
    }

    fn open(&self) -> OpenSession {
        OpenSession {
            cwd: self.cwd.clone(),
            additional_directories: self.additional_directories.clone(),
            mcp_servers: self.mcp_servers.clone(),
            system_prompt: None,
            meta: None,
        }
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DirectError {
    /// Something is wrong with the agent.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The budget is spent. The turn was cancelled.
    #[error("the budget is spent: {spent} of {limit}")]
    Budget {
        /// What was spent.
        spent: String,
        /// What could be.
        limit: String,
    },
    /// What the agent says is not of the form that was asked for.
    #[error("no answer of the form that was asked for: {}", json::list(.issues))]
    Json {
        /// What it said last.
        text: String,
        /// What is wrong with that.
        issues: Vec<Issue>,
    },
    /// The form that was asked for is none.
    #[error("the schema can't be used: {0}")]
    Schema(String),
    /// What happened could not be written down.
    #[error(transparent)]
    Transcript(#[from] TranscriptError),
}

impl DirectError {
    /// A stable name.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Host(error) => error.code(),
            Self::Budget { .. } => "budget-exceeded",
            Self::Json { .. } => "json-validation",
            Self::Schema(_) => "invalid-schema",
            Self::Transcript(_) => "transcript",
        }
    }
}

/// Asks one question: an agent is started for it, and stopped.
pub async fn ask<C: Into<PromptContent>>(
    setup: &Setup,
    prompt: impl IntoIterator<Item = C>,
) -> Result<Answer, DirectError> {
    let mut conversation = session(setup.clone()).await?;
    let answer = conversation.ask(prompt).await;
    conversation.close().await;
    answer
}

/// Asks one question and hands out what happens. The agent ends with the stream.
pub async fn stream<C: Into<PromptContent>>(
    setup: &Setup,
    prompt: impl IntoIterator<Item = C>,
) -> Result<Stream<'static>, DirectError> {
    let conversation = session(setup.clone()).await?;
    Stream::owning(conversation, prompt).await
}

/// Begins a conversation.
pub async fn session(setup: Setup) -> Result<Conversation, DirectError> {
    Conversation::open(setup).await
}

/// Asks for an answer in a given form: it is checked, and asked for again with what is wrong with it.
pub async fn ask_json(
    setup: &Setup,
    prompt: &str,
    form: &JsonForm,
) -> Result<JsonAnswer, DirectError> {
    let mut conversation = session(setup.clone()).await?;
    let answer = conversation.ask_json(prompt, form).await;
    conversation.close().await;
    answer
}

/// How long something took, for answers.
pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
