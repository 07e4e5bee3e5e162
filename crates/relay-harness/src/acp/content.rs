//! What is put into a session: the parts of a prompt, and the MCP servers that an agent is to use.

use std::collections::BTreeMap;

use relay_protocol::acp::{AgentCapabilities, McpTransport, PromptPart};
use serde_json::{Value, json};

/// A part of a prompt.
#[derive(Clone, Debug, PartialEq)]
pub enum PromptContent {
    /// Text.
    Text(String),
    /// An inline image.
    Image {
        /// The image in base64.
        data: String,
        /// Its media type.
        mime_type: String,
    },
    /// Inline audio.
    Audio {
        /// The sound in base64.
        data: String,
        /// Its media type.
        mime_type: String,
    },
    /// A reference that the agent resolves; every agent takes it.
    Link {
        /// Where it is.
        uri: String,
        /// What it is called.
        name: String,
    },
    /// A text file with its content.
    Embedded {
        /// Where it is from.
        uri: String,
        /// What it says.
        text: String,
        /// Its media type.
        mime_type: Option<String>,
    },
}

impl PromptContent {
    /// The kind that an agent must advertise.
    #[must_use]
    pub const fn part(&self) -> PromptPart {
        match self {
            Self::Text(_) | Self::Link { .. } => PromptPart::Text,
            Self::Image { .. } => PromptPart::Image,
            Self::Audio { .. } => PromptPart::Audio,
            Self::Embedded { .. } => PromptPart::EmbeddedContext,
        }
    }

    pub(crate) fn to_wire(&self) -> Value {
        match self {
            Self::Text(text) => json!({"type": "text", "text": text}),
            Self::Image { data, mime_type } => {
                json!({"type": "image", "data": data, "mimeType": mime_type})
            }
            Self::Audio { data, mime_type } => {
                json!({"type": "audio", "data": data, "mimeType": mime_type})
            }
            Self::Link { uri, name } => json!({"type": "resource_link", "uri": uri, "name": name}),
            Self::Embedded {
                uri,
                text,
                mime_type,
            } => {
                let mut resource = json!({"uri": uri, "text": text});
                if let Some(mime_type) = mime_type {
                    resource["mimeType"] = mime_type.as_str().into();
                }
                json!({"type": "resource", "resource": resource})
            }
        }
    }
}

impl From<&str> for PromptContent {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for PromptContent {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// A prompt without what the agent can't take.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// What is left.
    pub content: Vec<PromptContent>,
    /// Which kinds were dropped, when some were.
    pub warning: Option<String>,
}

/// Drops from a prompt what an agent can't take, and says which kinds that were.
#[must_use]
pub fn fit(agent: &str, capabilities: &AgentCapabilities, content: Vec<PromptContent>) -> Fitted {
    let parts: Vec<PromptPart> = content.iter().map(PromptContent::part).collect();
    let dropped = capabilities.dropped_parts(&parts);
    let before = content.len();
    let content: Vec<PromptContent> = content
        .into_iter()
        .filter(|content| !dropped.contains(&content.part()))
        .collect();
    let names: Vec<&str> = dropped.iter().map(|part| part.as_str()).collect();
    let warning = (!names.is_empty()).then(|| {
        let lost = before - content.len();
        format!(
            "Agent {agent} does not take {} in a prompt — {lost} of {before} parts are dropped.",
            names.join(", ")
        )
    });
    Fitted { content, warning }
}

/// An MCP server that an agent is to use in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum McpServer {
    /// A program that the agent starts.
    Stdio {
        /// What its tools are called after.
        name: String,
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its variables.
        env: BTreeMap<String, String>,
    },
    /// A server that is reached by HTTP.
    Http {
        /// What its tools are called after.
        name: String,
        /// Where it is.
        url: String,
        /// Headers of every request.
        headers: BTreeMap<String, String>,
    },
    /// A server that is reached by server-sent events.
    Sse {
        /// What its tools are called after.
        name: String,
        /// Where it is.
        url: String,
        /// Headers of every request.
        headers: BTreeMap<String, String>,
    },
}

impl McpServer {
    /// What an agent must be able to do.
    #[must_use]
    pub const fn transport(&self) -> McpTransport {
        match self {
            Self::Stdio { .. } => McpTransport::Stdio,
            Self::Http { .. } => McpTransport::Http,
            Self::Sse { .. } => McpTransport::Sse,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Stdio { name, .. } | Self::Http { name, .. } | Self::Sse { name, .. } => name,
        }
    }

    /// What is missing for it to be of use.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        match self {
            _ if self.name().is_empty() => Some("a name"),
            Self::Stdio { command, .. } if command.is_empty() => Some("a command"),
            Self::Http { url, .. } | Self::Sse { url, .. } if url.is_empty() => Some("a url"),
            _ => None,
        }
    }

    /// The lists are there also when they are empty: the protocol requires them.
    pub(crate) fn to_wire(&self) -> Value {
        match self {
            Self::Stdio {
                name,
                command,
                args,
                env,
            } => json!({"name": name, "command": command, "args": args, "env": pairs(env)}),
            Self::Http { name, url, headers } => {
                json!({"type": "http", "name": name, "url": url, "headers": pairs(headers)})
            }
            Self::Sse { name, url, headers } => {
                json!({"type": "sse", "name": name, "url": url, "headers": pairs(headers)})
            }
        }
    }
}

fn pairs(map: &BTreeMap<String, String>) -> Value {
    let pairs = map.iter();
    pairs
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt() -> Vec<PromptContent> {
        let data = || "AA==".to_owned();
        vec![
            "hello".into(),
            PromptContent::Audio {
                data: data(),
                mime_type: "audio/wav".to_owned(),
            },
            PromptContent::Image {
                data: data(),
                mime_type: "image/png".to_owned(),
            },
            PromptContent::Audio {
                data: data(),
                mime_type: "audio/wav".to_owned(),
            },
            PromptContent::Link {
                uri: "file:///a".to_owned(),
                name: "a".to_owned(),
            },
            PromptContent::Embedded {
                uri: "file:///b".to_owned(),
                text: "b".to_owned(),
                mime_type: None,
            },
        ]
    }

    #[test]
    fn what_an_agent_can_not_take_is_dropped_and_named() {
        let fitted = fit("cline", &AgentCapabilities::baseline(), prompt());
        assert_eq!(fitted.content.len(), 2);
        assert_eq!(
            fitted.warning.as_deref(),
            Some(
                "Agent cline does not take image, audio, embeddedContext in a prompt — 4 of 6 parts are dropped."
            )
        );
        let mut able = AgentCapabilities::baseline();
        able.prompt.image = true;
        able.prompt.audio = true;
        able.prompt.embedded_context = true;
        let fitted = fit("qwen", &able, prompt());
        assert_eq!((fitted.content, fitted.warning), (prompt(), None));
    }

    #[test]
    fn servers_on_the_wire_have_all_required_lists() {
        let one = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        let stdio = McpServer::Stdio {
            name: "relay".to_owned(),
            command: "relay".to_owned(),
            args: vec!["mcp".to_owned()],
            env: one.clone(),
        };
        assert_eq!(
            stdio.to_wire(),
            json!({"name": "relay", "command": "relay", "args": ["mcp"], "env": [{"name": "A", "value": "1"}]})
        );
        let http = McpServer::Http {
            name: "x".to_owned(),
            url: "http://x".to_owned(),
            headers: BTreeMap::new(),
        };
        assert_eq!(
            http.to_wire(),
            json!({"type": "http", "name": "x", "url": "http://x", "headers": []})
        );
        let sse = McpServer::Sse {
            name: "x".to_owned(),
            url: String::new(),
            headers: one,
        };
        assert_eq!(
            sse.to_wire()["headers"],
            json!([{"name": "A", "value": "1"}])
        );
        assert_eq!(sse.fault(), Some("a url"));
        assert_eq!((stdio.fault(), http.fault()), (None, None));
    }
}
