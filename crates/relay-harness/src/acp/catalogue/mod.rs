//! The agents that can be started by name: the built-in table and what the configuration adds.
//!
//! To add an agent: a row in `built_in.rs`. What it can do is not written down here, that comes from its handshake; what
//! the handshake does not tell (how it takes a message during a turn, what it leaves behind) is.

mod built_in;
mod locate;

use std::collections::BTreeMap;

use relay_protocol::suggest::nearest;
use serde::{Deserialize, Serialize};

pub use locate::locate;

/// Most names that an error suggests.
const SUGGESTED: usize = 3;

/// Most characters of an agent's id.
const ID_CHARS: usize = 64;

/// How a message reaches an agent that is in a turn, where it advertises no steering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MidTurn {
    /// By the steering extension. Where the handshake has none, the message waits for the end of the turn.
    Steer,
    /// As a second prompt, which the agent queues by itself.
    Queue,
    /// The turn is cancelled and the message is the next prompt.
    CancelAndPrompt,
    /// Not at all: it waits for the end of the turn.
    None,
}

/// What an agent does that others don't.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quirks {
    /// Its tools fail when the client offers to read and write files.
    pub no_client_files: bool,
    /// It goes on after its standard input has ended, so waiting for its end is of no use.
    pub stays_after_eof: bool,
    /// It leaves processes behind.
    pub leaves_processes: bool,
    /// A rejected permission ends the turn as cancelled.
    pub reject_ends_turn: bool,
    /// It mixes its own warnings into the text of the model.
    pub notices_in_text: bool,
    /// It asks before no call of an MCP tool.
    pub mcp_unasked: bool,
}

/// An agent that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentDefinition {
    /// Its name in commands.
    pub id: String,
    /// Its name for people.
    pub title: String,
    /// The program.
    pub command: String,
    /// The arguments that make it speak the protocol.
    pub args: Vec<String>,
    /// The variables of the parent that it may have, beyond those that every program may.
    pub env_names: Vec<String>,
    /// Variables that it is given.
    pub env: BTreeMap<String, String>,
    /// The name that it says in the handshake, where several agents share a command.
    pub says: Option<String>,
    /// How to install it.
    pub install: String,
    /// How to sign in.
    pub sign_in: String,
    /// The mode in which it asks before it acts, where its own default does not.
    pub asking_mode: Option<String>,
    /// What else it does differently.
    pub quirks: Quirks,
    /// How a message reaches it during a turn.
    pub mid_turn: MidTurn,
    /// Whether it comes with Relay.
    pub built_in: bool,
}

/// An agent of the configuration, under the id that it is to have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentConfig {
    /// The program.
    pub command: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// The variables of the parent that it may have.
    #[serde(default)]
    pub env_names: Vec<String>,
    /// Variables that it is given.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Its name for people; absent: the id.
    #[serde(default)]
    pub title: Option<String>,
    /// How a message reaches it during a turn; absent: not at all.
    #[serde(default)]
    pub mid_turn: Option<MidTurn>,
    /// The mode in which it asks before it acts.
    #[serde(default)]
    pub asking_mode: Option<String>,
    /// What else it does differently.
    #[serde(default)]
    pub quirks: Quirks,
    /// Takes the place of the built-in agent of this id.
    #[serde(default)]
    pub replaces_built_in: bool,
}

/// Why an agent is not in the catalogue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueError {
    /// There is none of this name.
    #[error("there is no agent `{id}`{}", did_you_mean(.nearest))]
    Unknown {
        /// What was asked for.
        id: String,
        /// The names nearest to it.
        nearest: Vec<String>,
    },
    /// The configuration has an agent with a built-in's name.
    #[error(
        "the agent `{0}` comes with Relay; choose another id, or say `replaces_built_in = true`"
    )]
    BuiltIn(String),
    /// The configuration says of an agent that it replaces a built-in one, but there is none.
    #[error("no agent `{0}` comes with Relay, so nothing is replaced")]
    ReplacesNothing(String),
    /// The id of an agent in the configuration can't be one.
    #[error("`{0}`: expected 1 to {ID_CHARS} of a-z, 0-9 and - as the id of an agent")]
    InvalidId(String),
    /// An agent in the configuration has no command.
    #[error("the agent `{0}` has no command")]
    NoCommand(String),
}

fn did_you_mean(names: &[String]) -> String {
    match names {
        [] => String::new(),
        names => format!("; did you mean {}?", names.join(" or ")),
    }
}

/// All agents that can be started by name.
#[derive(Clone, Debug)]
pub struct Catalogue {
    agents: Vec<AgentDefinition>,
}

impl Catalogue {
    /// The agents that come with Relay.
    #[must_use]
    pub fn built_in() -> Self {
        Self {
            agents: built_in::ROWS
                .iter()
                .map(built_in::Row::definition)
                .collect(),
        }
    }

    /// The built-in agents and those of a configuration.
    pub fn with_configured(
        configured: impl IntoIterator<Item = (String, AgentConfig)>,
    ) -> Result<Self, CatalogueError> {
        let mut catalogue = Self::built_in();
        for (id, config) in configured {
            catalogue.add(id, config)?;
        }
        Ok(catalogue)
    }

    /// All agents: the built-in ones first.
    #[must_use]
    pub fn agents(&self) -> &[AgentDefinition] {
        &self.agents
    }

    /// The agent of this id.
    pub fn get(&self, id: &str) -> Result<&AgentDefinition, CatalogueError> {
        let found = self.agents.iter().find(|agent| agent.id == id);
        found.ok_or_else(|| CatalogueError::Unknown {
            id: id.to_owned(),
            nearest: nearest(id, self.agents.iter().map(|agent| &agent.id), SUGGESTED),
        })
    }

    fn add(&mut self, id: String, config: AgentConfig) -> Result<(), CatalogueError> {
        if !is_id(&id) {
            return Err(CatalogueError::InvalidId(id));
        }
        if config.command.is_empty() {
            return Err(CatalogueError::NoCommand(id));
        }
        let place = self.agents.iter().position(|agent| agent.id == id);
        match (place, config.replaces_built_in) {
            (None, true) => return Err(CatalogueError::ReplacesNothing(id)),
            (Some(place), false) if self.agents[place].built_in => {
                return Err(CatalogueError::BuiltIn(id));
            }
            (Some(place), _) => self.agents[place] = config.into_definition(id),
            (None, false) => self.agents.push(config.into_definition(id)),
        }
        Ok(())
    }
}

impl AgentConfig {
    fn into_definition(self, id: String) -> AgentDefinition {
        AgentDefinition {
            title: self.title.unwrap_or_else(|| id.clone()),
            command: self.command,
            args: self.args,
            env_names: self.env_names,
            env: self.env,
            says: None,
            install: String::new(),
            sign_in: String::new(),
            asking_mode: self.asking_mode,
            quirks: self.quirks,
            mid_turn: self.mid_turn.unwrap_or(MidTurn::None),
            built_in: false,
            id,
        }
    }
}

fn is_id(id: &str) -> bool {
    let well = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=ID_CHARS).contains(&id.len()) && id.bytes().all(well)
}

#[cfg(test)]
mod tests;
