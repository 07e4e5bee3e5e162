//! What can go wrong: how it is told, and with which exit code. Everything that ends a command early comes
//! through here.
//!
//! A failure says what was expected and found, and what to do next. People read two lines on standard error;
//! with `--json` it is one line there: `{"error": {"code", "message", "next"?, "exit", "problem"?}}`.

mod agents;

use std::io::Write as _;
use std::process::ExitCode;

use relay_sdk::{Error, ErrorCode, Problem};
use serde::Serialize;

use crate::hints;
use crate::output::Output;

/// What a command comes to.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// How a command ended, for programs. The table is part of `docs/cli.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Nobody reads the output any more; there is nothing to say about it.
    NobodyReads = 0,
    /// It could not be done.
    Failed = 1,
    /// The command, or a value in it, is not valid.
    Usage = 2,
    /// No server answers.
    ServerAway = 3,
    /// What was named does not exist.
    NotFound = 4,
    /// The credential is not valid, or not allowed to do that.
    Refused = 5,
    /// At least one delivery failed or was cancelled, or the call of an action failed.
    DeliveryFailed = 6,
    /// What was waited for did not come in time.
    NotYet = 7,
    /// It does not go together with how things stand: a name that is taken, a delivery that has ended.
    Conflict = 8,
    /// The rules leave a call to a person.
    Asks = 9,
    /// A command was started once, and nobody can say how it ended.
    OutcomeUnknown = 123,
    /// Nobody decided in time: what `timeout` says.
    Expired = 124,
    /// A question was withdrawn, so that nothing was decided.
    Withdrawn = 125,
    /// Somebody, or a rule, said no: what shells say of a command that may not be run.
    Denied = 126,
    /// Somebody stopped it: what shells tell of a program that Ctrl-C ended.
    Interrupted = 130,
}

/// Why a command ended early.
#[derive(Clone, Debug)]
pub(crate) struct Failure(Box<Told>);

#[derive(Clone, Debug, Serialize)]
struct Told {
    /// A stable name: the server's code, or one of the command line's own.
    code: String,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    #[serde(serialize_with = "as_number")]
    exit: Exit,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Box<Problem>>,
    /// A status to end with, where there is nothing to say about it: the result, or a command, has said it.
    #[serde(skip)]
    status: Option<u8>,
}

fn as_number<S: serde::Serializer>(exit: &Exit, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u8(*exit as u8)
}

#[derive(Serialize)]
struct ErrorLine<'a> {
    error: &'a Told,
}

impl Failure {
    /// A failure of the command line's own.
    pub(crate) fn new(exit: Exit, code: &str, message: impl Into<String>) -> Self {
        Self(Box::new(Told {
            code: code.to_owned(),
            message: message.into(),
            next: None,
            exit,
            problem: None,
            status: None,
        }))
    }

    /// Ends with this status and says nothing: what there is to say was said.
    pub(crate) fn status(status: u8) -> Self {
        let mut failure = Self::new(Exit::Failed, "status", format!("exit code {status}"));
        failure.0.status = Some(status);
        failure
    }

    /// The command, or a value in it, is not valid.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "usage", message)
    }

    /// Somebody stopped it before its end.
    pub(crate) fn interrupted(message: impl Into<String>) -> Self {
        Self::new(Exit::Interrupted, "interrupted", message)
    }

    /// Nobody reads the output any more.
    pub(crate) fn nobody_reads() -> Self {
        Self::new(Exit::NobodyReads, "nobody_reads", "nobody reads the output")
    }

    /// The same with another message.
    pub(crate) fn saying(mut self, message: impl Into<String>) -> Self {
        self.0.message = message.into();
        self
    }

    /// The same with what to do next.
    pub(crate) fn next(mut self, next: impl Into<String>) -> Self {
        self.0.next = Some(next.into());
        self
    }

    pub(crate) fn exit(&self) -> Exit {
        self.0.exit
    }

    pub(crate) fn code(&self) -> &str {
        &self.0.code
    }

    pub(crate) fn message(&self) -> &str {
        &self.0.message
    }

    /// What to do next, where that is known.
    pub(crate) fn advice(&self) -> Option<&str> {
        self.0.next.as_deref()
    }

    /// The server's code, where the server said no.
    pub(crate) fn server_code(&self) -> Option<ErrorCode> {
        self.0.problem.as_ref().map(|problem| problem.code)
    }

    /// Tells it on standard error.
    pub(crate) fn report(&self, output: &Output) -> ExitCode {
        let Told {
            message,
            next,
            exit,
            ..
        } = &*self.0;
        if let Some(status) = self.0.status {
            return ExitCode::from(status);
        }
        let mut lines = match output.is_json() {
            true => serde_json::to_string(&ErrorLine { error: &self.0 }).unwrap_or_default(),
            false => format!("relay: {message}"),
        };
        if let (false, Some(next)) = (output.is_json(), next) {
            lines.push_str(&format!("\n{} {next}", output.error_style().faint("next:")));
        }
        if *exit != Exit::NobodyReads {
            // Where nobody reads errors, nobody misses this one.
            let _ = writeln!(std::io::stderr(), "{lines}");
        }
        ExitCode::from(*exit as u8)
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        let next = next_step(&problem);
        Self(Box::new(Told {
            code: problem.code.to_string(),
            message: problem.detail.clone(),
            next,
            exit: exit_for(problem.code),
            problem: Some(Box::new(problem)),
            status: None,
        }))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let (exit, code) = match error {
            _ if error.is_foreign() => (Exit::ServerAway, "not_relay"),
            Error::Problem(problem) => return (*problem).into(),
            Error::Unreachable(_) | Error::Untrusted(_) => (Exit::ServerAway, "server_away"),
            Error::Broken(_) => (Exit::ServerAway, "connection_lost"),
            Error::TimedOut(_) => (Exit::NotYet, "timed_out"),
            Error::Incompatible { .. } | Error::Unreadable(_) => (Exit::Failed, "incompatible"),
            Error::InvalidUrl(_) | Error::InvalidTarget(_) | Error::Selector(_) => {
                (Exit::Usage, "usage")
            }
            _ => (Exit::Failed, "failed"),
        };
        Self::new(exit, code, error.to_string())
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        let failure = Self::new(Exit::Failed, "failed", format!("{error:#}"));
        match error.chain().any(is_full_disk) {
            true => failure.next("make room on that disk, and try again"),
            false => failure,
        }
    }
}

fn is_full_disk(cause: &(dyn std::error::Error + 'static)) -> bool {
    let cause = cause.downcast_ref::<std::io::Error>();
    cause.is_some_and(|error| error.kind() == std::io::ErrorKind::StorageFull)
}

impl From<relay_core::Error> for Failure {
    fn from(error: relay_core::Error) -> Self {
        error.problem().into()
    }
}

impl From<relay_core::store::sqlite::OpenError> for Failure {
    fn from(error: relay_core::store::sqlite::OpenError) -> Self {
        Self::new(Exit::Failed, "failed", error.to_string())
    }
}

/// How a command ends that the server refused for this reason.
const fn exit_for(code: ErrorCode) -> Exit {
    use ErrorCode as Code;
    match code {
        Code::UnknownAgent
        | Code::UnknownChannel
        | Code::UnknownConversation
        | Code::UnknownMessage
        | Code::UnknownDelivery
        | Code::UnknownAttachment
        | Code::UnknownWorkspace
        | Code::UnknownToken
        | Code::UnknownSession
        | Code::UnknownAction
        | Code::UnknownInvocation
        | Code::UnknownWebhook
        | Code::UnknownPermission
        | Code::UnknownGrant
        | Code::UnknownRun
        | Code::AgentReleased => Exit::NotFound,
        Code::Unauthorized | Code::Forbidden | Code::NotAMember | Code::ForeignOrigin => {
            Exit::Refused
        }
        Code::NameTaken
        | Code::IdempotencyConflict
        | Code::ChannelArchived
        | Code::CapabilityNotSupported
        | Code::UnsupportedOperation
        | Code::IllegalTransition
        | Code::PermissionResolved
        | Code::PermissionNotGranted
        | Code::AlreadyStarted
        | Code::DeniedByRule
        | Code::AlreadyDelivered => Exit::Conflict,
        Code::InvalidRequest
        | Code::InvalidName
        | Code::ReservedName
        | Code::UnknownEvent
        | Code::EmptyText
        | Code::TextTooLong
        | Code::BadAttachment
        | Code::BadCursor
        | Code::BadSelector
        | Code::BadPolicy
        | Code::LimitExceeded
        | Code::BodyTooLarge
        | Code::SecretRefused => Exit::Usage,
        _ => Exit::Failed,
    }
}

/// What helps against a refusal, where the sentence itself does not say it.
fn next_step(problem: &Problem) -> Option<String> {
    let by = |words: &str, does: &str| format!("`{}` {does}", hints::command(words));
    Some(match problem.code {
        ErrorCode::UnknownAgent => by("agent list", "shows who there is"),
        ErrorCode::UnknownChannel => {
            let list = by("channel list", "shows which there are");
            format!("{list}; {}", by("channel create NAME", "makes one"))
        }
        ErrorCode::UnknownDelivery => by("delivery list", "shows the latest"),
        ErrorCode::UnknownSession => by("session list", "shows them"),
        ErrorCode::UnknownToken => by("token list", "shows them"),
        ErrorCode::UnknownWebhook => {
            let outgoing = by("webhook list", "shows those that are called");
            format!("{outgoing}; {}", by("webhook inbound list", "the others"))
        }
        ErrorCode::UnknownPermission => by("permission list", "shows the latest"),
        ErrorCode::UnknownGrant => by("grant list", "shows them"),
        ErrorCode::NotAMember => by("channel join CHANNEL --as AGENT", "joins it"),
        _ => without_command(problem)?.to_owned(),
    })
}

fn without_command(problem: &Problem) -> Option<&'static str> {
    let detail = &problem.detail;
    Some(match problem.code {
        ErrorCode::NameTaken if detail.contains("adopt") => {
            "with --adopt you take it over, and its old token ends within a minute"
        }
        ErrorCode::Forbidden if detail.starts_with("expected an agent token") => {
            "say with --as NAME as which agent to act"
        }
        ErrorCode::Forbidden if detail.starts_with("expected a workspace key") => {
            "only the workspace may do that: use its key, for example by unsetting RELAY_TOKEN"
        }
        ErrorCode::InvalidRequest if detail.contains("`outbound.allow`") => {
            "whoever starts the server can allow it: RELAY_OUTBOUND_ALLOW=HOST, or outbound.allow in relay.toml"
        }
        ErrorCode::StorageFull => {
            "what was acknowledged is safe and can be read; `relay doctor` says how much room the data has"
        }
        _ => return None,
    })
}
