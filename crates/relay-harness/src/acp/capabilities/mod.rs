//! What an agent says about itself in the handshake, and what that makes its session on the relay.
//!
//! Pure. The spec's shape, its checks and their errors are in [`relay_protocol::acp`]; here the agents' own answers become
//! that shape. What an agent does beyond it (steering, system prompts) is kept apart, because it is believed less.

mod mapping;

use relay_protocol::acp::{
    AgentCapabilities, CapabilityNotSupportedError, McpCapabilities, PromptCapabilities,
};
use serde_json::Value;

pub use mapping::{SAFE_STATES, SessionFacts, session_capabilities};

/// The version of the protocol that is spoken.
pub const PROTOCOL_VERSION: u64 = 1;

/// The answer to `initialize`, normalised.
#[derive(Clone, Debug, PartialEq)]
pub struct Handshake {
    /// The version that the agent wants to speak.
    pub protocol_version: u64,
    /// Who it is.
    pub agent: AgentInfo,
    /// What it can do.
    pub capabilities: AgentCapabilities,
    /// What it can do beyond the protocol.
    pub extensions: Extensions,
    /// The ways to sign in.
    pub auth_methods: Vec<AuthMethod>,
    /// Whether it was found to answer success to methods that don't exist.
    pub answers_anything: bool,
    /// The answer as it came.
    pub raw: Value,
}

/// Who an agent says it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentInfo {
    /// Its name for programs.
    pub name: Option<String>,
    /// Its name for people.
    pub title: Option<String>,
    /// Its version.
    pub version: Option<String>,
}

/// What some agents can do beyond the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extensions {
    /// Text can be put into a running turn by `_session/steering`.
    pub steering: bool,
    /// A prompt during a turn waits for its end.
    pub prompt_queueing: bool,
    /// A session can be given a system prompt.
    pub system_prompt: bool,
    /// A stored session can be deleted.
    pub delete_session: bool,
}

/// A way to sign in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthMethod {
    /// How `authenticate` names it.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// What it is: `agent`, `terminal`, `env_var`.
    pub kind: String,
    /// More about it.
    pub description: Option<String>,
}

/// Why an answer to `initialize` can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The agent wants to speak a version that is not known here.
    #[error("the agent wants version {found} of the protocol, expected {PROTOCOL_VERSION}")]
    Version {
        /// What it wants.
        found: u64,
    },
    /// The answer is none.
    #[error("expected an object with `protocolVersion` as the answer to initialize, found {0}")]
    Malformed(String),
}

impl Handshake {
    /// Reads the answer to `initialize`. Whatever is missing or of another type counts as not advertised.
    pub fn read(answer: Value) -> Result<Self, HandshakeError> {
        let malformed = |found: &Value| {
            let found: String = found.to_string().chars().take(100).collect();
            HandshakeError::Malformed(found)
        };
        if !answer.is_object() {
            return Err(malformed(&answer));
        }
        let protocol_version = match &answer["protocolVersion"] {
            Value::Null => PROTOCOL_VERSION,
            version => version.as_u64().ok_or_else(|| malformed(version))?,
        };
        // A lower number is an agent that has not kept up; those are understood.
        if protocol_version > PROTOCOL_VERSION {
            let found = protocol_version;
            return Err(HandshakeError::Version { found });
        }
        Ok(Self {
            protocol_version,
            agent: AgentInfo::read(&answer["agentInfo"]),
            capabilities: capabilities(&answer["agentCapabilities"]),
            extensions: Extensions::read(&answer),
            auth_methods: AuthMethod::read_all(&answer["authMethods"]),
            answers_anything: false,
            raw: answer,
        })
    }

    /// The agent answers success to everything: what it claims beyond the protocol means nothing.
    pub const fn distrust(&mut self) {
        self.answers_anything = true;
        self.extensions = Extensions {
            steering: false,
            prompt_queueing: false,
            system_prompt: false,
            delete_session: false,
        };
        // Fork is not part of the protocol's stable methods.
        self.capabilities.fork_session = false;
    }
}

impl AgentInfo {
    fn read(info: &Value) -> Self {
        Self {
            name: text(&info["name"]),
            title: text(&info["title"]),
            version: text(&info["version"]),
        }
    }
}

impl Extensions {
    fn read(answer: &Value) -> Self {
        let capabilities = &answer["agentCapabilities"];
        let session = &capabilities["sessionCapabilities"];
        // Each agent that queues says so under its own name.
        let queueing = capabilities["_meta"]
            .as_object()
            .is_some_and(|meta| meta.values().any(|meta| is_true(&meta["promptQueueing"])));
        Self {
            steering: is_true(&answer["_meta"]["steering"]["supported"]),
            prompt_queueing: queueing,
            system_prompt: advertises(&session["systemPrompt"]),
            delete_session: advertises(&session["delete"]),
        }
    }
}

impl AuthMethod {
    fn read_all(methods: &Value) -> Vec<Self> {
        let methods = methods.as_array().into_iter().flatten();
        methods.filter_map(Self::read).collect()
    }

    fn read(method: &Value) -> Option<Self> {
        let id = text(&method["id"])?;
        Some(Self {
            name: text(&method["name"]).unwrap_or_else(|| id.clone()),
            kind: text(&method["type"]).unwrap_or_else(|| "agent".to_owned()),
            description: text(&method["description"]),
            id,
        })
    }
}

fn capabilities(found: &Value) -> AgentCapabilities {
    let session = &found["sessionCapabilities"];
    let mcp = &found["mcpCapabilities"];
    let prompt = &found["promptCapabilities"];
    AgentCapabilities {
        load_session: is_true(&found["loadSession"]),
        fork_session: advertises(&session["fork"]),
        resume_session: advertises(&session["resume"]),
        close_session: advertises(&session["close"]),
        list_sessions: advertises(&session["list"]),
        additional_directories: advertises(&session["additionalDirectories"]),
        mcp: McpCapabilities {
            stdio: true,
            http: is_true(&mcp["http"]),
            sse: is_true(&mcp["sse"]),
        },
        prompt: PromptCapabilities {
            text: true,
            image: is_true(&prompt["image"]),
            audio: is_true(&prompt["audio"]),
            embedded_context: is_true(&prompt["embeddedContext"]),
        },
    }
}

/// Refuses to fork a session where that is not possible.
pub fn check_fork(of: &AgentCapabilities) -> Result<(), CapabilityNotSupportedError> {
    advertised(of.fork_session, "sessionCapabilities.fork")
}

/// Refuses to resume a session where that is not possible.
pub fn check_resume(of: &AgentCapabilities) -> Result<(), CapabilityNotSupportedError> {
    advertised(of.resume_session, "sessionCapabilities.resume")
}

/// Refuses to close a session where that is not possible.
pub fn check_close(of: &AgentCapabilities) -> Result<(), CapabilityNotSupportedError> {
    advertised(of.close_session, "sessionCapabilities.close")
}

const fn advertised(is: bool, capability: &'static str) -> Result<(), CapabilityNotSupportedError> {
    match is {
        true => Ok(()),
        false => Err(CapabilityNotSupportedError { capability }),
    }
}

/// Whether a session capability is advertised: an object says yes, also an empty one.
fn advertises(value: &Value) -> bool {
    value.is_object() || is_true(value)
}

fn is_true(value: &Value) -> bool {
    value.as_bool() == Some(true)
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests;
