//! What can go wrong with an agent: every failure says what was expected and what to do.

use std::sync::Arc;
use std::time::Duration;

use relay_protocol::acp::CapabilityNotSupportedError;
use relay_protocol::redact::Redactor;
use serde_json::Value;

use crate::acp::capabilities::HandshakeError;
use crate::acp::catalogue::AgentDefinition;
use crate::acp::rpc::RpcError;
use crate::child::{Exit, SpawnError};

/// The code with which agents say that somebody has to sign in.
const AUTH_REQUIRED: i64 = -32000;
/// The code with which agents say that there is no such session.
const RESOURCE_NOT_FOUND: i64 = -32002;

/// Most characters of an agent's message that an error repeats.
const SHOWN: usize = 2_000;

/// Why something could not be done with an agent.
#[derive(Clone, Debug, thiserror::Error)]
pub enum HostError {
    /// The agent's program is not there.
    #[error("{agent} is not installed: there is no `{program}` in the PATH{}", hint(.install))]
    NotInstalled {
        /// The agent.
        agent: String,
        /// Its program.
        program: String,
        /// How to install it.
        install: String,
    },
    /// The program could not be started.
    #[error(transparent)]
    Spawn(Arc<SpawnError>),
    /// The answer to `initialize` can't be used.
    #[error("{agent}: {source}")]
    Handshake {
        /// The agent.
        agent: String,
        /// What is wrong with it.
        source: HandshakeError,
    },
    /// There was no answer in time.
    #[error("{agent} did not answer {method} within {} s{}", .after.as_secs(), said(.stderr))]
    Timeout {
        /// The agent.
        agent: String,
        /// What was asked.
        method: String,
        /// How long was waited.
        after: Duration,
        /// What it said on standard error, without secrets.
        stderr: String,
    },
    /// Somebody has to sign in first.
    #[error("{agent} needs a sign-in: {message}{}", hint(.sign_in))]
    AuthRequired {
        /// The agent.
        agent: String,
        /// What it says.
        message: String,
        /// How to sign in.
        sign_in: String,
    },
    /// The agent says no.
    #[error("{agent} refused {method}: {message} ({code})")]
    Refused {
        /// The agent.
        agent: String,
        /// What was asked.
        method: String,
        /// Its code.
        code: i64,
        /// Its reason.
        message: String,
        /// What it adds.
        data: Option<Box<Value>>,
    },
    /// The agent's answer is not what the protocol says.
    #[error("{agent}: expected {expected} in the answer to {method}")]
    Malformed {
        /// The agent.
        agent: String,
        /// What was asked.
        method: String,
        /// What is missing.
        expected: &'static str,
    },
    /// The agent can't do this; nothing was sent.
    #[error(transparent)]
    Capability(#[from] CapabilityNotSupportedError),
    /// The request itself is wrong; nothing was sent.
    #[error("{0}")]
    Invalid(String),
    /// The session is in a turn; nothing was sent.
    #[error("the session is in a turn: wait for its end, or cancel it")]
    Busy,
    /// A turn was cancelled, and the agent never confirmed that.
    #[error("the agent has not ended the turn that was cancelled, so another can't begin")]
    Stuck,
    /// The agent is gone.
    #[error("{agent} has ended{}{}", ended(.exit), said(.stderr))]
    Closed {
        /// The agent.
        agent: String,
        /// How it ended, where that is known.
        exit: Option<Exit>,
        /// What it said last on standard error, without secrets.
        stderr: String,
    },
}

fn hint(text: &str) -> String {
    match text {
        "" => String::new(),
        text => format!("; {text}"),
    }
}

fn said(stderr: &str) -> String {
    match stderr {
        "" => String::new(),
        text => format!("; it said:\n{text}"),
    }
}

fn ended(exit: &Option<Exit>) -> String {
    match exit {
        Some(exit) => format!(" ({exit})"),
        None => String::new(),
    }
}

impl HostError {
    /// A stable name.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotInstalled { .. } => "not-installed",
            Self::Spawn(_) => "spawn-failed",
            Self::Handshake {
                source: HandshakeError::Version { .. },
                ..
            } => "protocol-mismatch",
            Self::Handshake { .. } => "init-failed",
            Self::Timeout { .. } => "timeout",
            Self::AuthRequired { .. } => "auth-required",
            Self::Refused { .. } => "refused",
            Self::Malformed { .. } => "malformed-answer",
            Self::Capability(_) => "capability-not-supported",
            Self::Invalid(_) => "invalid-request",
            Self::Busy => "busy",
            Self::Stuck => "stuck",
            Self::Closed { .. } => "connection-closed",
        }
    }

    /// Whether the same may work with a new process.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Timeout { .. } | Self::Closed { .. } | Self::Stuck
        )
    }

    pub(super) fn from_spawn(agent: &AgentDefinition, error: SpawnError) -> Self {
        match error {
            SpawnError::NotInstalled { program } => Self::NotInstalled {
                agent: agent.id.clone(),
                program,
                install: agent.install.clone(),
            },
            error => Self::Spawn(Arc::new(error)),
        }
    }

    pub(super) fn from_rpc(agent: &AgentDefinition, method: &str, error: RpcError) -> Self {
        let message = shown(&error);
        let id = agent.id.clone();
        match error.code {
            AUTH_REQUIRED => Self::AuthRequired {
                agent: id,
                message,
                sign_in: agent.sign_in.clone(),
            },
            code => Self::Refused {
                agent: id,
                method: method.to_owned(),
                code,
                message,
                data: error.data.map(|mut data| {
                    Redactor::new().redact_json(&mut data);
                    Box::new(data)
                }),
            },
        }
    }

    /// Whether the agent says that it does not know the session.
    #[must_use]
    pub const fn is_not_found(&self) -> bool {
        matches!(
            self,
            Self::Refused {
                code: RESOURCE_NOT_FOUND,
                ..
            }
        )
    }
}

/// The message of an error with the details that some agents put beside it.
fn shown(error: &RpcError) -> String {
    let details = error.data.as_ref().and_then(|data| match data {
        Value::String(details) => Some(details.as_str()),
        data => data["details"]
            .as_str()
            .or_else(|| data["message"].as_str()),
    });
    let message = match details {
        Some(details) if !error.message.contains(details) => {
            format!("{}: {details}", error.message)
        }
        _ => error.message.clone(),
    };
    let message: String = message.chars().take(SHOWN).collect();
    Redactor::new().redact(&message).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::acp::catalogue::Catalogue;

    #[test]
    fn what_agents_say_becomes_an_error_with_a_way_on() {
        let catalogue = Catalogue::built_in();
        let kimi = catalogue.get("kimi").unwrap();
        let error = HostError::from_rpc(kimi, "session/new", RpcError::new(-32000, "Sign in"));
        assert_eq!(
            error.to_string(),
            "kimi needs a sign-in: Sign in; run `kimi login`"
        );
        assert_eq!(
            (error.code(), error.is_transient()),
            ("auth-required", false)
        );

        let mut refused = RpcError::new(-32603, "Internal error");
        refused.data = Some(
            json!({"details": "OPENAI_API_KEY=sk-proj-abcdefghijklmnopqrstuvwxyz012345 is bad"}),
        );
        let error = HostError::from_rpc(kimi, "session/prompt", refused);
        let text = error.to_string();
        assert!(
            text.starts_with("kimi refused session/prompt: Internal error: OPENAI_API_KEY="),
            "{text}"
        );
        assert!(!text.contains("abcdefghijkl"), "{text}");

        let spawn = SpawnError::NotInstalled {
            program: "kimi".to_owned(),
        };
        let error = HostError::from_spawn(kimi, spawn);
        assert_eq!(
            (error.code(), error.is_transient()),
            ("not-installed", false)
        );
        assert!(error.to_string().contains("npm install"), "{error}");
    }
}
