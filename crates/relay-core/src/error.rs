//! Everything that can go wrong in the engine, and the one place where it becomes a problem object.

use relay_protocol::action::InvocationState;
use relay_protocol::delivery::DeliveryState;
use relay_protocol::delivery_state::IllegalDeliveryTransition;
use relay_protocol::ids::{
    AttachmentId, ConversationId, DeliveryId, EventId, GrantId, InvocationId, MessageId,
    PermissionId, RunId, SessionId, TokenId, WebhookId, WorkspaceId,
};
use relay_protocol::limits::NAME_CHARS;
use relay_protocol::names::{NameError, RESERVED};
use relay_protocol::negotiation::CapabilityMismatch;
use relay_protocol::policy::PolicyError;
use relay_protocol::problem::{ErrorCode, Problem};
use relay_protocol::status::{AgentStatus, IllegalTransition};

/// What the engine's operations return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation was refused or could not be done. Nothing was changed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// A name can't be taken.
    #[error("{what} name: {error}")]
    Name {
        /// What was to be named.
        what: Noun,
        /// What is wrong with it.
        error: NameError,
    },
    /// Somebody has this name.
    #[error("the {what} name {name:?} is taken; choose another{}", adopt_hint(*what))]
    NameTaken {
        /// What was to be named.
        what: Noun,
        /// The name as its holder writes it.
        name: String,
    },
    /// No agent has this name.
    #[error("no agent is called {name:?}{}", did_you_mean(nearest))]
    UnknownAgent {
        /// The name or id.
        name: String,
        /// Names that come close.
        nearest: Vec<String>,
    },
    /// No channel has this name.
    #[error("no channel is called {name:?}{}", did_you_mean(nearest))]
    UnknownChannel {
        /// The name or id.
        name: String,
        /// Names that come close.
        nearest: Vec<String>,
    },
    /// No action has this name.
    #[error("no action is called {name:?}{}", did_you_mean(nearest))]
    UnknownAction {
        /// The name.
        name: String,
        /// Names that come close.
        nearest: Vec<String>,
    },
    /// No conversation has this id.
    #[error("no conversation has the id {0}")]
    UnknownConversation(ConversationId),
    /// No message has this id.
    #[error("no message has the id {0}")]
    UnknownMessage(MessageId),
    /// No delivery has this id.
    #[error("no delivery has the id {0}")]
    UnknownDelivery(DeliveryId),
    /// No session has this id.
    #[error("no session has the id {0}")]
    UnknownSession(SessionId),
    /// No session that goes on has this resume token.
    #[error("no session of this agent that goes on has this token; attach again without resume")]
    CannotResume,
    /// The session has ended.
    #[error("the session {id} is {status}, which is final; attach a new one")]
    SessionEnded {
        /// The session.
        id: SessionId,
        /// How it ended.
        status: AgentStatus,
    },
    /// A session's event skips numbers.
    #[error("expected event {expected} of the session, found {found}; send those between first")]
    EventGap {
        /// The number that comes next.
        expected: u64,
        /// What was given.
        found: u64,
    },
    /// No permission request has this id.
    #[error("no permission request has the id {0}")]
    UnknownPermission(PermissionId),
    /// No grant has this id.
    #[error("no grant has the id {0}")]
    UnknownGrant(GrantId),
    /// No run has this id.
    #[error("no run has the id {0}")]
    UnknownRun(RunId),
    /// The run has ended.
    #[error("the run {0} has ended; begin a new one")]
    RunEnded(RunId),
    /// A rule refuses what was to be allowed.
    #[error("{why} The request still waits: allow it with other parameters, or deny it")]
    DeniedByRule {
        /// Which rule, in a sentence.
        why: String,
    },
    /// No webhook has this id.
    #[error("no webhook has the id {0}")]
    UnknownWebhook(WebhookId),
    /// No event has this id.
    #[error("no event has the id {0}")]
    UnknownEvent(EventId),
    /// No observer token has this id.
    #[error("no observer token has the id {0}")]
    UnknownToken(TokenId),
    /// No call of an action has this id.
    #[error("no invocation has the id {0}")]
    UnknownInvocation(InvocationId),
    /// The call has ended, in another way than is said now.
    #[error("the invocation {id} has ended already: it is {state}")]
    InvocationEnded {
        /// The call.
        id: InvocationId,
        /// How it ended.
        state: InvocationState,
    },
    /// A delivery can't change like that.
    #[error("{0}")]
    Delivery(IllegalDeliveryTransition),
    /// A delivery that was to be made, or that was meant, has ended.
    #[error("the delivery {id} of this message to @{agent} is {state}; {}", after_end(*state))]
    DeliveryEnded {
        /// The delivery.
        id: DeliveryId,
        /// The recipient's name.
        agent: String,
        /// How it ended.
        state: DeliveryState,
    },
    /// A session's status can't change like that.
    #[error("{0}")]
    Status(IllegalTransition),
    /// The session can't do what is asked.
    #[error("{0}")]
    Capability(CapabilityMismatch),
    /// No attachment has this id.
    #[error("no attachment has the id {0}; uploads that no message uses are kept for a day")]
    UnknownAttachment(AttachmentId),
    /// No workspace has this id.
    #[error("no workspace has the id {0}")]
    UnknownWorkspace(WorkspaceId),
    /// The agent is not in this place.
    #[error("{agent:?} is not a member of {place}; join it first")]
    NotAMember {
        /// The agent's name.
        agent: String,
        /// The channel or conversation.
        place: String,
    },
    /// The channel takes no more messages.
    #[error("#{name} is archived; nothing can be sent to it")]
    ChannelArchived {
        /// The channel's name.
        name: String,
    },
    /// A message without content.
    #[error("expected text or an attachment, found an empty message")]
    EmptyText,
    /// More text than a message can hold.
    #[error("expected at most {most} bytes of text, found {found}; send the rest as an attachment")]
    TextTooLong {
        /// The limit.
        most: usize,
        /// What was given.
        found: usize,
    },
    /// Content that can't be taken.
    #[error("{}: expected {expected}, found {found}", attachment_at(*index))]
    BadAttachment {
        /// Which one of a message's it is.
        index: Option<usize>,
        /// What would be taken.
        expected: String,
        /// What was given.
        found: String,
    },
    /// A cursor that is not from here.
    #[error("cursor: expected {expected}, found {found:?}")]
    BadCursor {
        /// What would be taken.
        expected: String,
        /// What was given.
        found: String,
    },
    /// A policy that can't be applied.
    #[error("policy {0}")]
    BadPolicy(PolicyError),
    /// A field with something that can't be there.
    #[error("{path}: expected {expected}, found {found}")]
    Invalid {
        /// The field.
        path: &'static str,
        /// What would be taken.
        expected: String,
        /// What was given.
        found: String,
    },
    /// A limit was passed.
    #[error("{what}: expected at most {most}, found {found}")]
    LimitExceeded {
        /// What is limited.
        what: &'static str,
        /// The limit.
        most: usize,
        /// What was given.
        found: usize,
    },
    /// Too much waits already; there is room again when some of it has ended.
    #[error("{what}: expected at most {most} at a time; try again when some have ended")]
    TooManyWaiting {
        /// What waits.
        what: &'static str,
        /// The limit.
        most: usize,
    },
    /// The key was used for another request.
    #[error("the idempotency key {key:?} was used for a different request; use a new key")]
    IdempotencyConflict {
        /// The key.
        key: String,
    },
    /// The text holds a secret and the workspace's policy refuses that.
    #[error("the text holds a secret, which this workspace refuses (policy messages.redact)")]
    SecretRefused,
    /// No valid credential.
    #[error("expected a valid token, found none that is known or still valid")]
    Unauthorized,
    /// A valid credential that may not do this.
    #[error("{needs} is needed for this")]
    Forbidden {
        /// The credential that could.
        needs: &'static str,
    },
    /// The agent was released.
    #[error("the agent {name:?} was released")]
    AgentReleased {
        /// The agent's name.
        name: String,
    },
    /// Refused for a reason that is told in full.
    #[error("{}", .0.detail)]
    Refused(Box<Problem>),
    /// The store could not do it.
    #[error("{0}")]
    Storage(StorageError),
}

/// What the store could not do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// More is asked of it than it can take.
    #[error("too many changes wait to be written; try again")]
    Busy,
    /// The disk is full.
    #[error("the disk is full; nothing was written; make room and try again")]
    Full,
    /// It can't write or read at the moment.
    #[error("the store can't be used at the moment ({0}); nothing was written; try again")]
    Unavailable(String),
    /// What it holds is damaged.
    #[error("the stored data is damaged ({0}); restore a backup")]
    Corrupt(String),
    /// What was erased is in no record any more, but may still be in the files.
    #[error(
        "what was erased is gone from the log and all answers, but the files may still have it ({0}); erase the same \
         events again to finish that"
    )]
    NotScrubbed(String),
    /// It was closed.
    #[error("the store was closed")]
    Closed,
}

/// What a name belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noun {
    /// An agent.
    Agent,
    /// A channel.
    Channel,
    /// An action.
    Action,
}

impl std::fmt::Display for Noun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Agent => "agent",
            Self::Channel => "channel",
            Self::Action => "action",
        })
    }
}

fn attachment_at(index: Option<usize>) -> String {
    match index {
        Some(index) => format!("attachments[{index}]"),
        None => "attachment".to_owned(),
    }
}

fn adopt_hint(what: Noun) -> &'static str {
    match what {
        Noun::Agent => ", or adopt it",
        Noun::Channel | Noun::Action => "",
    }
}

fn did_you_mean(nearest: &[String]) -> String {
    if nearest.is_empty() {
        String::new()
    } else {
        format!("; the nearest are {}", nearest.join(", "))
    }
}

impl Error {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Name {
                error: NameError::Reserved { .. },
                ..
            } => ErrorCode::ReservedName,
            Self::Name { .. } => ErrorCode::InvalidName,
            Self::NameTaken { .. } => ErrorCode::NameTaken,
            Self::UnknownAgent { .. } => ErrorCode::UnknownAgent,
            Self::UnknownChannel { .. } => ErrorCode::UnknownChannel,
            Self::UnknownAction { .. } => ErrorCode::UnknownAction,
            Self::UnknownConversation(_) => ErrorCode::UnknownConversation,
            Self::UnknownMessage(_) => ErrorCode::UnknownMessage,
            Self::UnknownDelivery(_) => ErrorCode::UnknownDelivery,
            Self::UnknownSession(_) | Self::CannotResume => ErrorCode::UnknownSession,
            Self::SessionEnded { .. }
            | Self::InvocationEnded { .. }
            | Self::RunEnded(_)
            | Self::Status(_) => ErrorCode::IllegalTransition,
            Self::UnknownPermission(_) => ErrorCode::UnknownPermission,
            Self::UnknownGrant(_) => ErrorCode::UnknownGrant,
            Self::UnknownRun(_) => ErrorCode::UnknownRun,
            Self::DeniedByRule { .. } => ErrorCode::DeniedByRule,
            Self::EventGap { .. } => ErrorCode::EventGap,
            Self::UnknownInvocation(_) => ErrorCode::UnknownInvocation,
            Self::UnknownToken(_) => ErrorCode::UnknownToken,
            Self::UnknownWebhook(_) => ErrorCode::UnknownWebhook,
            Self::UnknownEvent(_) => ErrorCode::UnknownEvent,
            Self::Delivery(IllegalDeliveryTransition { from: state, .. })
            | Self::DeliveryEnded { state, .. } => match state {
                DeliveryState::Delivered => ErrorCode::AlreadyDelivered,
                _ => ErrorCode::IllegalTransition,
            },
            Self::Capability(_) => ErrorCode::CapabilityNotSupported,
            Self::UnknownAttachment(_) => ErrorCode::UnknownAttachment,
            Self::UnknownWorkspace(_) => ErrorCode::UnknownWorkspace,
            Self::NotAMember { .. } => ErrorCode::NotAMember,
            Self::ChannelArchived { .. } => ErrorCode::ChannelArchived,
            Self::EmptyText => ErrorCode::EmptyText,
            Self::TextTooLong { .. } => ErrorCode::TextTooLong,
            Self::BadAttachment { .. } => ErrorCode::BadAttachment,
            Self::BadCursor { .. } => ErrorCode::BadCursor,
            Self::BadPolicy(_) => ErrorCode::BadPolicy,
            Self::Invalid { .. } => ErrorCode::InvalidRequest,
            Self::LimitExceeded { .. } | Self::TooManyWaiting { .. } => ErrorCode::LimitExceeded,
            Self::IdempotencyConflict { .. } => ErrorCode::IdempotencyConflict,
            Self::SecretRefused => ErrorCode::SecretRefused,
            Self::Unauthorized => ErrorCode::Unauthorized,
            Self::Forbidden { .. } => ErrorCode::Forbidden,
            Self::AgentReleased { .. } => ErrorCode::AgentReleased,
            Self::Refused(problem) => problem.code,
            Self::Storage(StorageError::Full) => ErrorCode::StorageFull,
            Self::Storage(StorageError::Corrupt(_)) => ErrorCode::StorageCorrupt,
            Self::Storage(_) => ErrorCode::StorageUnavailable,
        }
    }

    /// The problem object for whoever asked.
    #[must_use]
    pub fn problem(&self) -> Problem {
        let mut problem = Problem::new(self.code(), self.to_string());
        match self {
            Self::Refused(problem) => return (**problem).clone(),
            Self::Delivery(refused) => return Problem::from(*refused),
            Self::Status(refused) => return Problem::from(*refused),
            Self::Capability(mismatch) => return Problem::from(mismatch.clone()),
            Self::DeliveryEnded { state, .. } => problem.found = Some(state.to_string()),
            Self::EventGap { expected, found } => {
                problem.path = Some("n".to_owned());
                problem.expected = Some(expected.to_string());
                problem.found = Some(found.to_string());
            }
            Self::UnknownAgent { nearest, .. }
            | Self::UnknownChannel { nearest, .. }
            | Self::UnknownAction { nearest, .. } => {
                problem.suggestions = (!nearest.is_empty()).then(|| nearest.clone());
            }
            Self::Name { error, .. } => {
                problem.path = Some("name".to_owned());
                (problem.expected, problem.found) = name_comparison(error);
            }
            Self::EmptyText => {
                problem.path = Some("text".to_owned());
                problem.expected = Some("text or an attachment".to_owned());
                problem.found = Some("an empty message".to_owned());
            }
            Self::BadAttachment {
                index,
                expected,
                found,
            } => {
                problem.path = index.map(|index| attachment_at(Some(index)));
                problem.expected = Some(expected.clone());
                problem.found = Some(found.clone());
            }
            Self::BadCursor { expected, found } => {
                problem.expected = Some(expected.clone());
                problem.found = Some(found.clone());
            }
            Self::Invalid {
                path,
                expected,
                found,
            } => {
                problem.path = Some((*path).to_owned());
                problem.expected = Some(expected.clone());
                problem.found = Some(found.clone());
            }
            Self::BadPolicy(PolicyError {
                path,
                expected,
                found,
            }) => {
                problem.path = Some((*path).to_owned());
                problem.expected = Some(expected.clone());
                problem.found = Some(found.clone());
            }
            Self::TextTooLong { most, found } => {
                problem.path = Some("text".to_owned());
                problem.expected = Some(format!("at most {most} bytes"));
                problem.found = Some(format!("{found} bytes"));
            }
            Self::TooManyWaiting { what, most } => {
                // Unlike what is too large, the same can be asked later.
                problem.status = 429;
                problem.retryable = true;
                problem.path = Some((*what).to_owned());
                problem.expected = Some(format!("at most {most} at a time"));
                problem.found = Some(format!("{most}, and one more"));
            }
            Self::LimitExceeded { what, most, found } => {
                problem.path = Some((*what).to_owned());
                problem.expected = Some(format!("at most {most}"));
                problem.found = Some(found.to_string());
            }
            _ => {}
        }
        problem
    }
}

/// What a name should have been and what it was.
fn name_comparison(error: &NameError) -> (Option<String>, Option<String>) {
    let form = format!("1 to {NAME_CHARS} characters of A-Z a-z 0-9 . _ -");
    let (expected, found) = match error {
        NameError::Empty => (form, "an empty name".to_owned()),
        NameError::TooLong { found } => (form, format!("{found} characters")),
        NameError::Character { found } => (form, format!("{found:?}")),
        NameError::Reserved { name } => {
            let expected = format!("none of {}", RESERVED.join(", "));
            (expected, name.clone())
        }
    };
    (Some(expected), Some(found))
}

impl From<IllegalDeliveryTransition> for Error {
    fn from(refused: IllegalDeliveryTransition) -> Self {
        Self::Delivery(refused)
    }
}

impl From<IllegalTransition> for Error {
    fn from(refused: IllegalTransition) -> Self {
        Self::Status(refused)
    }
}

impl From<CapabilityMismatch> for Error {
    fn from(mismatch: CapabilityMismatch) -> Self {
        Self::Capability(mismatch)
    }
}

impl From<StorageError> for Error {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}
/// How a message is delivered again whose delivery ended like this.
const fn after_end(state: DeliveryState) -> &'static str {
    match state {
        DeliveryState::Failed => {
            "POST /v1/deliveries/{id}/retry delivers it again under this id, and without context.id a new \
             delivery is made"
        }
        DeliveryState::Cancelled => "without context.id a new delivery is made",
        _ => {
            "to show the message again, send it as a new one, or deliver it to one session that has not had \
             it (sessionId)"
        }
    }
}
