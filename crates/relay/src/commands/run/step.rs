//! What happens while an agent runs: a line for programs, or words for people.

use relay_harness::acp::event::{Event, SessionEvent};
use relay_protocol::delivery::MessageContext;
use relay_protocol::ids::SessionId;
use relay_protocol::message::RelayMessage;
use relay_protocol::permission::PermissionRecord;
use relay_protocol::status::AgentStatus;
use serde::Serialize;

use crate::hints;
use crate::moment::span;
use crate::output::{Style, one_line, safe};
use crate::words::{self, Doing, Told};

/// Something that happened.
#[derive(Debug, Serialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub(super) enum Step {
    /// The agent is on the relay.
    Attached {
        agent: String,
        name: String,
        session_id: SessionId,
        /// The session as the agent calls it: `--load` goes on with it.
        agent_session_id: String,
        cwd: String,
    },
    /// Its user said something to it.
    Prompt { text: String },
    /// The agent did something.
    Event(Box<SessionEvent>),
    /// A message came for it.
    Message {
        message: Box<RelayMessage>,
        context: Box<MessageContext>,
    },
    /// It has another status on the relay.
    Status { status: AgentStatus },
    /// It waits for somebody's permission.
    Asked { permission: Box<PermissionRecord> },
    /// What it waited for was decided, or is not needed any more.
    Decided { permission: Box<PermissionRecord> },
    /// Something beside.
    Warning { text: String },
    /// The agent has ended by itself.
    AgentEnded {
        error: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        restart_in_ms: Option<u64>,
    },
    /// The session has left the relay in order.
    Released,
}

impl Step {
    /// What people are told of it.
    pub(super) fn tell(&self, style: &Style, doing: &mut Doing) -> Option<Told> {
        let line = match self {
            Self::Attached {
                agent,
                name,
                agent_session_id,
                cwd,
                ..
            } => format!(
                "{} runs {} in {}  {}",
                style.strong(&format!("@{name}")),
                one_line(agent),
                one_line(cwd),
                style.faint(&one_line(agent_session_id))
            ),
            Self::Prompt { text } => format!("{} {}", style.strong(">"), safe(text)),
            // The requests themselves are told.
            Self::Event(event) => match &event.event {
                Event::PermissionAsked { .. } | Event::PermissionAnswered { .. } => return None,
                event => return doing.tell(style, event),
            },
            Self::Message { message, .. } => {
                format!(
                    "{} {}",
                    style.joint("message"),
                    words::message(style, message)
                )
            }
            Self::Status { status } => style.faint(&format!("is {status}")),
            Self::Asked { permission } => format!(
                "{} {}\ndecide: {}",
                style.open("asks"),
                call(permission),
                hints::command(&format!("permission approve {}", permission.permission_id))
            ),
            Self::Decided { permission } => decided(style, permission),
            Self::Warning { text } => style.open(&safe(text)),
            Self::AgentEnded {
                error,
                restart_in_ms,
            } => {
                let next = match restart_in_ms {
                    Some(ms) => {
                        let delay = span(i64::try_from(*ms).unwrap_or(i64::MAX));
                        format!("; it is started again in {delay}")
                    }
                    None => String::new(),
                };
                style.bad(&format!("{}{next}", safe(error)))
            }
            Self::Released => style.faint("released"),
        };
        Some(Told::Line(line))
    }
}

fn decided(style: &Style, record: &PermissionRecord) -> String {
    let how = match &record.outcome {
        Some(outcome) => words::ended(style, outcome),
        None => words::colored_state(style, record.state),
    };
    format!("{how}  {}", call(record))
}

/// A call on one line. Many agents say its name or its command again as its title.
fn call(record: &PermissionRecord) -> String {
    let mut record = record.clone();
    let summary = |record: &PermissionRecord| words::summary(record);
    let title = record.title.take();
    let says_more = |title: &String| *title != record.tool && *title != summary(&record);
    record.title = title.filter(says_more);
    format!("{}: {}", one_line(&record.tool), summary(&record))
}
