//! What an ACP agent advertises in its `initialize` handshake, normalised, and the explicit errors for
//! what it does not.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problem::{ErrorCode, Problem};
use crate::wire::literals;

/// What an ACP agent can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentCapabilities {
    /// Whether a session can be loaded by its id.
    pub load_session: bool,
    /// Whether an existing session can be forked.
    pub fork_session: bool,
    /// Whether a session can be resumed.
    pub resume_session: bool,
    /// Whether a session can be closed without ending the process.
    pub close_session: bool,
    /// Whether sessions can be listed.
    pub list_sessions: bool,
    /// Whether a session can be given more directories to read.
    pub additional_directories: bool,
    /// The transports over which it reaches MCP servers.
    pub mcp: McpCapabilities,
    /// The content it takes in a prompt.
    pub prompt: PromptCapabilities,
}

/// The transports over which an agent reaches MCP servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct McpCapabilities {
    /// A child process; every agent has it.
    pub stdio: bool,
    /// HTTP.
    pub http: bool,
    /// Server-sent events.
    pub sse: bool,
}

/// The content an agent takes in a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PromptCapabilities {
    /// Text; every agent takes it.
    pub text: bool,
    /// Inline images.
    pub image: bool,
    /// Inline audio.
    pub audio: bool,
    /// Embedded context, such as files that the agent resolves.
    pub embedded_context: bool,
}

literals! {
    /// How an MCP server is reached.
    pub enum McpTransport {
        /// A child process.
        Stdio = "stdio",
        /// HTTP.
        Http = "http",
        /// Server-sent events.
        Sse = "sse",
    }
}

literals! {
    /// A kind of content in a prompt.
    pub enum PromptPart {
        /// Text.
        Text = "text",
        /// An inline image.
        Image = "image",
        /// Inline audio.
        Audio = "audio",
        /// Embedded context.
        EmbeddedContext = "embeddedContext",
    }
}

/// Something was asked of an agent that it does not advertise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("CapabilityNotSupportedError: the agent does not advertise {capability}")]
pub struct CapabilityNotSupportedError {
    /// The capability's name, such as `mcpCapabilities.http`.
    pub capability: &'static str,
}

impl From<CapabilityNotSupportedError> for Problem {
    fn from(error: CapabilityNotSupportedError) -> Self {
        Self {
            capability: Some(error.capability.to_owned()),
            requested: Some(true.into()),
            supported: Some(false.into()),
            ..Self::new(ErrorCode::CapabilityNotSupported, error.to_string())
        }
    }
}

impl AgentCapabilities {
    /// What every agent has: text prompts and MCP servers that are child processes.
    #[must_use]
    pub const fn baseline() -> Self {
        Self {
            load_session: false,
            fork_session: false,
            resume_session: false,
            close_session: false,
            list_sessions: false,
            additional_directories: false,
            mcp: McpCapabilities {
                stdio: true,
                http: false,
                sse: false,
            },
            prompt: PromptCapabilities {
                text: true,
                image: false,
                audio: false,
                embedded_context: false,
            },
        }
    }

    /// Refuses to load a session where that is not possible.
    pub const fn check_load_session(&self) -> Result<(), CapabilityNotSupportedError> {
        advertised(self.load_session, "loadSession")
    }

    /// Refuses to list sessions where that is not possible.
    pub const fn check_list_sessions(&self) -> Result<(), CapabilityNotSupportedError> {
        advertised(self.list_sessions, "sessionCapabilities.list")
    }

    /// Refuses MCP servers that the agent can't reach, before anything is sent.
    pub fn check_mcp_servers(
        &self,
        servers: impl IntoIterator<Item = McpTransport>,
    ) -> Result<(), CapabilityNotSupportedError> {
        servers
            .into_iter()
            .try_for_each(|transport| match transport {
                McpTransport::Stdio => Ok(()),
                McpTransport::Http => advertised(self.mcp.http, "mcpCapabilities.http"),
                McpTransport::Sse => advertised(self.mcp.sse, "mcpCapabilities.sse"),
            })
    }

    /// The warning when directories must be left out; the session goes on without them.
    #[must_use]
    pub fn directories_warning(&self, agent: &str, entries: usize) -> Option<String> {
        let dropped = !self.additional_directories && entries > 0;
        dropped.then(|| {
            format!(
                "Agent {agent} does not advertise additionalDirectories capability — ignoring {entries} entries."
            )
        })
    }

    /// The parts of a prompt that must be left out, each kind once.
    #[must_use]
    pub fn dropped_parts(&self, parts: &[PromptPart]) -> Vec<PromptPart> {
        let mut dropped: Vec<PromptPart> = parts
            .iter()
            .copied()
            .filter(|part| !self.takes(*part))
            .collect();
        dropped.sort_unstable();
        dropped.dedup();
        dropped
    }

    const fn takes(&self, part: PromptPart) -> bool {
        match part {
            PromptPart::Text => true,
            PromptPart::Image => self.prompt.image,
            PromptPart::Audio => self.prompt.audio,
            PromptPart::EmbeddedContext => self.prompt.embedded_context,
        }
    }
}

const fn advertised(is: bool, capability: &'static str) -> Result<(), CapabilityNotSupportedError> {
    if is {
        Ok(())
    } else {
        Err(CapabilityNotSupportedError { capability })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn everything() -> AgentCapabilities {
        let mut all = AgentCapabilities::baseline();
        all.load_session = true;
        all.list_sessions = true;
        all.additional_directories = true;
        all.mcp.http = true;
        all.mcp.sse = true;
        all.prompt.image = true;
        all.prompt.audio = true;
        all.prompt.embedded_context = true;
        all
    }

    #[test]
    fn missing_capabilities_are_named() {
        use McpTransport::{Http, Sse, Stdio};
        let none = AgentCapabilities::baseline();
        let all = everything();
        let name = |result: Result<(), CapabilityNotSupportedError>| {
            result.err().map(|error| error.capability)
        };
        assert_eq!(name(none.check_load_session()), Some("loadSession"));
        assert_eq!(
            name(none.check_list_sessions()),
            Some("sessionCapabilities.list")
        );
        assert_eq!(name(none.check_mcp_servers([Stdio])), None);
        assert_eq!(
            name(none.check_mcp_servers([Stdio, Http])),
            Some("mcpCapabilities.http")
        );
        assert_eq!(
            name(none.check_mcp_servers([Sse, Http])),
            Some("mcpCapabilities.sse")
        );
        assert_eq!(name(all.check_load_session()), None);
        assert_eq!(name(all.check_list_sessions()), None);
        assert_eq!(name(all.check_mcp_servers([Stdio, Http, Sse])), None);
    }

    #[test]
    fn directories_are_dropped_with_a_warning() {
        let none = AgentCapabilities::baseline();
        assert_eq!(
            none.directories_warning("codex", 2).as_deref(),
            Some(
                "Agent codex does not advertise additionalDirectories capability — ignoring 2 entries."
            )
        );
        assert_eq!(none.directories_warning("codex", 0), None);
        assert_eq!(everything().directories_warning("codex", 2), None);
    }

    #[test]
    fn parts_that_cannot_be_taken_are_listed() {
        use PromptPart::{Audio, Image, Text};
        let parts = [Text, Audio, Image, Audio];
        assert_eq!(
            AgentCapabilities::baseline().dropped_parts(&parts),
            [Image, Audio]
        );
        assert!(everything().dropped_parts(PromptPart::ALL).is_empty());
    }

    #[test]
    fn the_error_is_a_problem() {
        let error = AgentCapabilities::baseline()
            .check_load_session()
            .unwrap_err();
        let problem = Problem::from(error);
        assert_eq!(problem.capability.as_deref(), Some("loadSession"));
        assert_eq!(problem.code, ErrorCode::CapabilityNotSupported);
    }
}
