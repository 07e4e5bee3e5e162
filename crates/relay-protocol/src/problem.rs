//! The one table of errors: RFC 9457 problem details with a stable code.
//!
//! To add an error: a line in [`ErrorCode`] and in the table [`ErrorCode::facts`].

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::permission::PermissionOutcome;
use crate::wire::{self, literals};

/// What went wrong, in a form that programs and people can both read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Problem {
    /// A URN that names the kind of problem.
    #[serde(rename = "type")]
    pub problem_type: String,
    /// The kind of problem in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened here.
    pub detail: String,
    /// The stable code.
    pub code: ErrorCode,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// Where in the request, as a dotted path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What was expected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// What was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// The nearest names that exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestions: Option<Vec<String>>,
    /// The capability that is missing, as a dotted path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capability: Option<String>,
    /// What was asked of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested: Option<Value>,
    /// What it supports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supported: Option<Value>,
    /// The operation that is not supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Why it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// When to try again, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The operation that helps before the request is repeated, such as `attach`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The decision that was there first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Box<PermissionOutcome>>,
}

impl Problem {
    /// A problem of this kind, with its own sentence.
    #[must_use]
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        let (status, title, retryable) = code.facts();
        Self {
            problem_type: format!("urn:relay:problem:{code}"),
            title: title.to_owned(),
            status,
            detail: detail.into(),
            code,
            retryable,
            path: None,
            expected: None,
            found: None,
            suggestions: None,
            capability: None,
            requested: None,
            supported: None,
            operation: None,
            why: None,
            retry_after_ms: None,
            next: code.next().map(str::to_owned),
            outcome: None,
        }
    }

    /// Reads a problem that a session reports, of which any member may be missing: what is missing comes from the table of codes.
    /// A code that the table does not have counts as `unsupported_operation` and stays readable in `detail`.
    pub(crate) fn deserialize_reported<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Box<Self>>, D::Error> {
        let members: Option<Map<String, Value>> = Option::deserialize(deserializer)?;
        members.map(complete).map(wire::variant).transpose()
    }

    /// Describes what [`Problem::deserialize_reported`] reads.
    pub(crate) fn reported_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Self::json_schema(generator);
        schema.remove("required");
        schema.insert("type".to_owned(), serde_json::json!(["object", "null"]));
        let code = schema
            .get_mut("properties")
            .and_then(|properties| properties.get_mut("code"));
        if let Some(code) = code {
            *code = serde_json::json!({
                "description": "The stable code; one that Relay does not know counts as `unsupported_operation`.",
                "type": "string",
            });
        }
        schema
    }
}

/// Adds the required members that a reported problem leaves out.
fn complete(mut members: Map<String, Value>) -> Value {
    members.retain(|_, value| !value.is_null());
    let said = |name: &str| members.get(name).and_then(Value::as_str).map(str::to_owned);
    let code = said("code");
    let known = code.as_deref().and_then(|code| code.parse().ok());
    let detail = said("detail")
        .or_else(|| said("title"))
        .or_else(|| code.clone())
        .unwrap_or_else(|| "the session did not say why".to_owned());
    let detail = match (&code, known) {
        (Some(code), None) if *code != detail => format!("{detail} ({code})"),
        _ => detail,
    };
    let base = Problem::new(known.unwrap_or(ErrorCode::UnsupportedOperation), detail);
    if code.is_some() && known.is_none() {
        members.remove("code");
        members.remove("detail");
    }
    let required = [
        ("type", base.problem_type.into()),
        ("title", base.title.into()),
        ("status", base.status.into()),
        ("detail", base.detail.into()),
        ("code", base.code.to_string().into()),
        ("retryable", base.retryable.into()),
    ];
    for (name, value) in required {
        members.entry(name).or_insert(value);
    }
    members.into()
}

literals! {
    /// The stable names of everything that can go wrong.
    pub enum ErrorCode {
        /// No route has this path.
        NotFound = "not_found",
        /// The route does not take this method.
        MethodNotAllowed = "method_not_allowed",
        /// The body is of a kind that the route does not take.
        UnsupportedMediaType = "unsupported_media_type",
        /// The body or the frame is larger than is taken.
        BodyTooLarge = "body_too_large",
        /// The request did not come in time.
        RequestTimeout = "request_timeout",
        /// The request comes through a page or a name that is not the server's.
        ForeignOrigin = "foreign_origin",
        /// A credential in a URL, where others see it.
        TokenInUrl = "token_in_url",
        /// Too much in too short a time.
        RateLimited = "rate_limited",
        /// The server has as much to do as it can.
        Overloaded = "overloaded",
        /// The body is not JSON or not of the expected shape.
        InvalidRequest = "invalid_request",
        /// A name has characters or a length that names can't have.
        InvalidName = "invalid_name",
        /// A name that nobody may take.
        ReservedName = "reserved_name",
        /// Somebody has this name.
        NameTaken = "name_taken",
        /// No agent has this name or id.
        UnknownAgent = "unknown_agent",
        /// No channel has this name or id.
        UnknownChannel = "unknown_channel",
        /// No conversation has this id.
        UnknownConversation = "unknown_conversation",
        /// No message has this id.
        UnknownMessage = "unknown_message",
        /// No delivery has this id.
        UnknownDelivery = "unknown_delivery",
        /// No attachment has this id.
        UnknownAttachment = "unknown_attachment",
        /// No workspace has this id.
        UnknownWorkspace = "unknown_workspace",
        /// No observer token has this id.
        UnknownToken = "unknown_token",
        /// No session has this id.
        UnknownSession = "unknown_session",
        /// No action has this name.
        UnknownAction = "unknown_action",
        /// No call of an action has this id.
        UnknownInvocation = "unknown_invocation",
        /// No webhook has this id.
        UnknownWebhook = "unknown_webhook",
        /// No permission request has this id.
        UnknownPermission = "unknown_permission",
        /// No standing permission has this id.
        UnknownGrant = "unknown_grant",
        /// No run has this id.
        UnknownRun = "unknown_run",
        /// Somebody else has decided, or the question was over; `outcome` says how.
        PermissionResolved = "permission_resolved",
        /// The call was not allowed, or not with these parameters.
        PermissionNotGranted = "permission_not_granted",
        /// The call was started once and is not started again.
        AlreadyStarted = "already_started",
        /// A rule refuses what was to be allowed.
        DeniedByRule = "denied_by_rule",
        /// A session event skips numbers; `expected` names the next one.
        EventGap = "event_gap",
        /// No event has this name.
        UnknownEvent = "unknown_event",
        /// The agent is not in this channel or conversation.
        NotAMember = "not_a_member",
        /// The channel takes no more messages.
        ChannelArchived = "channel_archived",
        /// A message without content.
        EmptyText = "empty_text",
        /// More text than a message can hold.
        TextTooLong = "text_too_long",
        /// Content that is too large, or is not what it claims to be.
        BadAttachment = "bad_attachment",
        /// A cursor that is not from here.
        BadCursor = "bad_cursor",
        /// A selector or filter that can't be evaluated.
        BadSelector = "bad_selector",
        /// A policy that can't be applied.
        BadPolicy = "bad_policy",
        /// A limit was passed.
        LimitExceeded = "limit_exceeded",
        /// The agent has too many messages waiting.
        QueueFull = "queue_full",
        /// The key was used for another request.
        IdempotencyConflict = "idempotency_conflict",
        /// The text holds a secret and the policy refuses that.
        SecretRefused = "secret_refused",
        /// No valid credential.
        Unauthorized = "unauthorized",
        /// A valid credential that may not do this.
        Forbidden = "forbidden",
        /// The agent was released.
        AgentReleased = "agent_released",
        /// The session can't do what was asked.
        CapabilityNotSupported = "capability_not_supported",
        /// The operation does not exist here.
        UnsupportedOperation = "unsupported_operation",
        /// A change of state that is not legal.
        IllegalTransition = "illegal_transition",
        /// The message was seen before it could be called back.
        AlreadyDelivered = "already_delivered",
        /// The session has no link or did not answer.
        SessionUnreachable = "session_unreachable",
        /// The store can't write at the moment.
        StorageUnavailable = "storage_unavailable",
        /// The disk is full.
        StorageFull = "storage_full",
        /// The stored data is damaged.
        StorageCorrupt = "storage_corrupt",
        /// A fault of Relay's own.
        Internal = "internal",
    }
}

impl ErrorCode {
    /// HTTP status, title, and whether the same request may succeed later.
    #[must_use]
    pub const fn facts(self) -> (u16, &'static str, bool) {
        match self {
            Self::NotFound => (404, "No such route", false),
            Self::MethodNotAllowed => (405, "Not a method of this route", false),
            Self::UnsupportedMediaType => (415, "Not a kind of body that is taken", false),
            Self::BodyTooLarge => (413, "The body is too large", false),
            Self::RequestTimeout => (408, "The request took too long", true),
            Self::ForeignOrigin => (403, "From a foreign host or page", false),
            Self::TokenInUrl => (400, "A credential in the URL", false),
            Self::RateLimited => (429, "Too many requests", true),
            Self::Overloaded => (503, "The server is too busy", true),
            Self::InvalidRequest => (400, "The request is not of the expected shape", false),
            Self::InvalidName => (400, "The name is not valid", false),
            Self::ReservedName => (400, "The name is reserved", false),
            Self::NameTaken => (409, "The name is taken", false),
            Self::UnknownAgent => (404, "No such agent", false),
            Self::UnknownChannel => (404, "No such channel", false),
            Self::UnknownConversation => (404, "No such conversation", false),
            Self::UnknownMessage => (404, "No such message", false),
            Self::UnknownDelivery => (404, "No such delivery", false),
            Self::UnknownAttachment => (404, "No such attachment", false),
            Self::UnknownWorkspace => (404, "No such workspace", false),
            Self::UnknownToken => (404, "No such observer token", false),
            Self::UnknownSession => (404, "No such session", false),
            Self::UnknownAction => (404, "No such action", false),
            Self::UnknownInvocation => (404, "No such invocation", false),
            Self::UnknownWebhook => (404, "No such webhook", false),
            Self::UnknownPermission => (404, "No such permission request", false),
            Self::UnknownGrant => (404, "No such grant", false),
            Self::UnknownRun => (404, "No such run", false),
            Self::PermissionResolved => (409, "It was decided already", false),
            Self::PermissionNotGranted => (409, "That was not allowed", false),
            Self::AlreadyStarted => (409, "It was started already", false),
            Self::DeniedByRule => (422, "A rule refuses that", false),
            Self::EventGap => (409, "A session event is missing", false),
            Self::UnknownEvent => (400, "No such event", false),
            Self::NotAMember => (403, "Not a member", false),
            Self::ChannelArchived => (409, "The channel is archived", false),
            Self::EmptyText => (400, "The message is empty", false),
            Self::TextTooLong => (413, "The text is too long", false),
            Self::BadAttachment => (400, "The attachment can't be taken", false),
            Self::BadCursor => (400, "The cursor is not valid", false),
            Self::BadSelector => (400, "The selector is not valid", false),
            Self::BadPolicy => (400, "The policy is not valid", false),
            Self::LimitExceeded => (400, "A limit was passed", false),
            Self::QueueFull => (429, "Too many messages wait for this agent", true),
            Self::IdempotencyConflict => (409, "The key was used for another request", false),
            Self::SecretRefused => (422, "The text holds a secret", false),
            Self::Unauthorized => (401, "No valid credential", false),
            Self::Forbidden => (403, "Not allowed", false),
            Self::AgentReleased => (410, "The agent was released", false),
            Self::CapabilityNotSupported => (409, "The session can't do that", false),
            Self::UnsupportedOperation => (501, "Not supported", false),
            Self::IllegalTransition => (409, "Not possible in this state", false),
            Self::AlreadyDelivered => (409, "Already delivered", false),
            Self::SessionUnreachable => (503, "The session can't be reached", false),
            Self::StorageUnavailable => (503, "The store can't write at the moment", true),
            Self::StorageFull => (507, "The disk is full", true),
            Self::StorageCorrupt => (500, "The stored data is damaged", false),
            Self::Internal => (500, "A fault inside Relay", false),
        }
    }

    /// The operation that helps before a request is repeated that this code refused.
    const fn next(self) -> Option<&'static str> {
        match self {
            Self::SessionUnreachable => Some("attach"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reported(problem: Value) -> Result<Problem, wire::DecodeError> {
        #[derive(Deserialize)]
        struct Report {
            #[serde(deserialize_with = "Problem::deserialize_reported")]
            problem: Option<Box<Problem>>,
        }
        let report: Report = wire::decode_value(json!({ "problem": problem }))?;
        Ok(*report.problem.expect("a problem"))
    }

    #[test]
    fn a_reported_problem_needs_no_member() {
        let silent = "the session did not say why";
        let cases = [
            (json!({}), "unsupported_operation", silent),
            (json!({ "type": null }), "unsupported_operation", silent),
            (json!({ "code": "overloaded" }), "overloaded", "overloaded"),
            (
                json!({ "title": "Not now" }),
                "unsupported_operation",
                "Not now",
            ),
            (
                json!({ "title": "Not now", "detail": "in a tool call" }),
                "unsupported_operation",
                "in a tool call",
            ),
            (json!({ "code": "busy" }), "unsupported_operation", "busy"),
            (
                json!({ "code": "busy", "detail": "in a tool call" }),
                "unsupported_operation",
                "in a tool call (busy)",
            ),
        ];
        for (problem, code, detail) in cases {
            let found = reported(problem.clone()).unwrap();
            assert_eq!(found.code.to_string(), code, "{problem}");
            assert_eq!(found.detail, detail, "{problem}");
            let (status, _, retryable) = found.code.facts();
            assert_eq!((found.status, found.retryable), (status, retryable));
        }
    }

    #[test]
    fn a_reported_problem_keeps_what_it_says() {
        let whole = Problem {
            retryable: true,
            path: Some("x".to_owned()),
            ..Problem::new(ErrorCode::AlreadyDelivered, "seen")
        };
        assert_eq!(reported(json!(whole)).unwrap(), whole);
        let wrong = reported(json!({ "status": "no" })).unwrap_err();
        assert_eq!(wrong.path, "problem.status");
        assert!(reported(json!({ "color": "red" })).is_err());
    }

    #[test]
    fn a_full_disk_is_507_and_worth_a_repetition() {
        let problem = Problem::new(ErrorCode::StorageFull, "no room");
        assert_eq!(problem.code.as_str(), "storage_full");
        assert_eq!((problem.status, problem.retryable), (507, true));
    }

    #[test]
    fn an_unreachable_session_has_to_attach_before_anything_is_repeated() {
        let problem = Problem::new(ErrorCode::SessionUnreachable, "gone");
        assert!(!problem.retryable);
        assert_eq!(problem.next.as_deref(), Some("attach"));
        assert_eq!(Problem::new(ErrorCode::Overloaded, "x").next, None);
    }
}
