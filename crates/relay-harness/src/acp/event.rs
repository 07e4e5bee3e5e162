//! What happens in a session: the agent's updates, read with tolerance.
//!
//! An update that is not known, or not of the form it should have, is an [`Event::Raw`]: nothing is lost, nothing fails.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Something that happened in a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionEvent {
    /// The turn that it belongs to, counted from 1; nothing when it belongs to the session as such, or came between turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
    /// What happened.
    pub event: Event,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
pub enum Event {
    /// The agent says something.
    Text {
        /// A piece of the text.
        text: String,
    },
    /// The agent thinks.
    Thought {
        /// A piece of the text.
        text: String,
    },
    /// The user's words, when an old conversation is played back.
    UserText {
        /// A piece of the text.
        text: String,
    },
    /// A tool is called.
    ToolCall(ToolCall),
    /// A tool call went on: what has changed of it.
    ToolCallUpdate(ToolCall),
    /// What the agent is going to do, as it came.
    Plan {
        /// The whole plan.
        plan: Value,
    },
    /// The slash commands that there are.
    Commands {
        /// Their names.
        names: Vec<String>,
    },
    /// The mode changed.
    Mode {
        /// The mode that is on.
        mode: String,
    },
    /// Options changed: all of them, as they came.
    ConfigOptions {
        /// The options.
        options: Value,
    },
    /// The session has another title.
    Title {
        /// The title.
        title: String,
    },
    /// Tokens and cost so far.
    Usage(Usage),
    /// A permission was asked for.
    PermissionAsked {
        /// The tool call that waits.
        tool_call: ToolCall,
    },
    /// The question was answered.
    PermissionAnswered {
        /// The option that was chosen; nothing: none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        option_id: Option<String>,
    },
    /// Something that is not known here, as it came.
    Raw {
        /// The update.
        update: Value,
    },
    /// Whoever reads was too slow; events are missing here.
    Lagged {
        /// How many.
        dropped: u64,
    },
    /// A turn is over.
    TurnEnded {
        /// Why.
        stop_reason: StopReason,
        /// The tokens that it took, where the agent says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokens: Option<Tokens>,
    },
    /// A turn is over because something went wrong.
    TurnFailed {
        /// What.
        error: String,
    },
}

/// A tool call, or what has changed of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolCall {
    /// The call's id, the same in all its updates.
    pub id: String,
    /// A line for people; on many agents the command line. No name of a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The tool's name, where the agent says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What kind of tool: read, edit, execute, and so on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Where it stands: pending, in_progress, completed, failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// What it is called with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// What it answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// What it shows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<ToolContent>,
    /// The files it works on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<String>,
}

/// What a tool call shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
pub enum ToolContent {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A change of a file.
    Diff {
        /// The file.
        path: String,
        /// What was in it; nothing when it is new.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        old_text: Option<String>,
        /// What is in it.
        new_text: String,
    },
    /// A terminal of the client.
    Terminal {
        /// Which.
        terminal_id: String,
    },
    /// Something else, as it came.
    Raw {
        /// The content.
        content: Value,
    },
}

/// Tokens and cost of a session so far. The cost only ever grows; it is not that of a turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Tokens in the context now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<u64>,
    /// Tokens that fit in the context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The cost so far, where it is told in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// The tokens that an answer to a prompt tells of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Tokens {
    /// Read.
    pub input: u64,
    /// Written.
    pub output: u64,
    /// All, as the agent counts them.
    pub total: u64,
}

/// Why a turn is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum StopReason {
    /// The agent is done.
    EndTurn,
    /// The model's limit of tokens.
    MaxTokens,
    /// The limit of model requests in one turn.
    MaxTurnRequests,
    /// The agent refused.
    Refusal,
    /// It was cancelled.
    Cancelled,
    /// A reason that is not known here.
    Other(String),
}

impl From<String> for StopReason {
    fn from(reason: String) -> Self {
        match reason.as_str() {
            "end_turn" => Self::EndTurn,
            "max_tokens" => Self::MaxTokens,
            "max_turn_requests" => Self::MaxTurnRequests,
            "refusal" => Self::Refusal,
            "cancelled" => Self::Cancelled,
            _ => Self::Other(reason),
        }
    }
}

impl From<StopReason> for String {
    fn from(reason: StopReason) -> Self {
        reason.as_str().to_owned()
    }
}

impl StopReason {
    /// As it is on the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::EndTurn => "end_turn",
            Self::MaxTokens => "max_tokens",
            Self::MaxTurnRequests => "max_turn_requests",
            Self::Refusal => "refusal",
            Self::Cancelled => "cancelled",
            Self::Other(reason) => reason,
        }
    }
}

impl Event {
    /// Reads the `update` of a `session/update`.
    pub(crate) fn read(update: Value) -> Self {
        Self::known(&update).unwrap_or(Self::Raw { update })
    }

    fn known(update: &Value) -> Option<Self> {
        let text = || match &update["content"] {
            content if content["type"] == "text" => string(&content["text"]),
            _ => None,
        };
        Some(match update["sessionUpdate"].as_str()? {
            "agent_message_chunk" => Self::Text { text: text()? },
            "agent_thought_chunk" => Self::Thought { text: text()? },
            "user_message_chunk" => Self::UserText { text: text()? },
            "tool_call" => Self::ToolCall(ToolCall::read(update)?),
            "tool_call_update" => Self::ToolCallUpdate(ToolCall::read(update)?),
            "plan" => Self::Plan {
                plan: update.get("entries")?.clone(),
            },
            "available_commands_update" => Self::Commands {
                names: names(update.get("availableCommands")?),
            },
            "current_mode_update" => Self::Mode {
                mode: string(&update["currentModeId"])?,
            },
            "config_option_update" => Self::ConfigOptions {
                options: update.get("configOptions")?.clone(),
            },
            "session_info_update" => Self::Title {
                title: string(&update["title"])?,
            },
            "usage_update" => Self::Usage(Usage::read(update)),
            _ => return None,
        })
    }

    /// Whether it tells of the session rather than of a turn. Such events outlive a turn that was cancelled.
    #[must_use]
    pub const fn is_of_session(&self) -> bool {
        matches!(
            self,
            Self::Commands { .. }
                | Self::Mode { .. }
                | Self::ConfigOptions { .. }
                | Self::Title { .. }
                | Self::Usage(_)
        )
    }

    /// Whether it is the last one of its turn.
    #[must_use]
    pub const fn ends_turn(&self) -> bool {
        matches!(self, Self::TurnEnded { .. } | Self::TurnFailed { .. })
    }
}

impl ToolCall {
    /// Reads a tool call or an update of one; nothing when it has no id.
    pub(crate) fn read(call: &Value) -> Option<Self> {
        let content = call["content"].as_array().into_iter().flatten();
        let locations = call["locations"].as_array().into_iter().flatten();
        Some(Self {
            id: string(&call["toolCallId"])?,
            title: string(&call["title"]),
            name: string(&call["name"]).or_else(|| name_in_meta(&call["_meta"])),
            kind: string(&call["kind"]),
            status: string(&call["status"]),
            input: present(&call["rawInput"]),
            output: present(&call["rawOutput"]),
            content: content.map(ToolContent::read).collect(),
            locations: locations
                .filter_map(|location| string(&location["path"]))
                .collect(),
        })
    }

    /// The best name that there is: the tool's own, else its kind. Never the title, which the model may have written.
    #[must_use]
    pub fn tool(&self) -> &str {
        let name = self.name.as_deref().or(self.kind.as_deref());
        name.unwrap_or("tool")
    }
}

/// Finds the tool's name in the metadata of agents that don't say it in its place: `toolName` (Qwen), `<agent>.toolName`
/// (Claude), or `<agent>.toolCall.toolName` (Goose).
fn name_in_meta(meta: &Value) -> Option<String> {
    let mut metas = meta.as_object()?.values();
    string(&meta["toolName"]).or_else(|| {
        metas.find_map(|meta| {
            string(&meta["toolName"]).or_else(|| string(&meta["toolCall"]["toolName"]))
        })
    })
}

impl ToolContent {
    fn read(content: &Value) -> Self {
        Self::known(content).unwrap_or_else(|| Self::Raw {
            content: content.clone(),
        })
    }

    fn known(content: &Value) -> Option<Self> {
        Some(match content["type"].as_str()? {
            "content" if content["content"]["type"] == "text" => Self::Text {
                text: string(&content["content"]["text"])?,
            },
            "diff" => Self::Diff {
                path: string(&content["path"])?,
                old_text: string(&content["oldText"]),
                new_text: string(&content["newText"])?,
            },
            "terminal" => Self::Terminal {
                terminal_id: string(&content["terminalId"])?,
            },
            _ => return None,
        })
    }
}

impl Usage {
    fn read(update: &Value) -> Self {
        let cost = &update["cost"];
        let dollars = cost["currency"]
            .as_str()
            .is_none_or(|currency| currency == "USD");
        Self {
            used: update["used"].as_u64(),
            size: update["size"].as_u64(),
            cost_usd: cost["amount"].as_f64().filter(|_| dollars),
        }
    }
}

impl Tokens {
    /// Reads them from the answer to a prompt; some agents have them in a place of their own.
    pub(crate) fn read(answer: &Value) -> Option<Self> {
        let usage = match &answer["usage"] {
            Value::Null => &answer["_meta"]["quota"]["token_count"],
            usage => usage,
        };
        let count = |names: [&str; 2]| names.iter().find_map(|name| usage[*name].as_u64());
        let input = count(["inputTokens", "input_tokens"]);
        let output = count(["outputTokens", "output_tokens"]);
        let total = count(["totalTokens", "total_tokens"]);
        if input.is_none() && output.is_none() && total.is_none() {
            return None;
        }
        let (input, output) = (input.unwrap_or_default(), output.unwrap_or_default());
        Some(Self {
            input,
            output,
            total: total.unwrap_or(input.saturating_add(output)),
        })
    }
}

fn names(commands: &Value) -> Vec<String> {
    let commands = commands.as_array().into_iter().flatten();
    commands
        .filter_map(|command| string(&command["name"]))
        .collect()
}

fn string(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn present(value: &Value) -> Option<Value> {
    (!value.is_null()).then(|| value.clone())
}

#[cfg(test)]
mod tests;
