//! JSON Schema of every type that goes over the wire, for other languages and for checking.
//!
//! **To add a type:** a line in the list below, then `RELAY_UPDATE_SCHEMA=1 cargo test -p relay-protocol
//! --test it schema`, which writes `schema/relay.schema.json`. A test fails when a type is missing.

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use crate::api::Page;

/// The schema of each type by its name, complete in itself, for reading (not for writing) it.
#[must_use]
pub fn schemas() -> BTreeMap<&'static str, Schema> {
    types()
        .map(|(name, reference)| (name, root(reference)))
        .collect()
}

/// One document with all types under `$defs`.
#[must_use]
pub fn bundle() -> Value {
    let mut generator = generator();
    let mut definitions = BTreeMap::new();
    for (name, reference) in types() {
        let inline = reference(&mut generator);
        definitions.insert(name.to_owned(), inline.to_value());
    }
    definitions.extend(generator.take_definitions(true));
    definitions.remove(ANY_PAGE);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:relay:schema:1",
        "title": "Relay",
        "description": "The types of Relay's protocol, version 1.",
        "$defs": definitions,
    })
}

/// How the generator calls a page of anything.
const ANY_PAGE: &str = "Page_for_AnyValue";

type Reference = fn(&mut SchemaGenerator) -> Schema;

fn generator() -> SchemaGenerator {
    SchemaSettings::draft2020_12().into_generator()
}

/// The schema that a type has by itself, with everything it refers to.
fn root(reference: Reference) -> Schema {
    let mut generator = generator();
    let mut schema = reference(&mut generator);
    schema.insert(
        "$schema".to_owned(),
        generator.settings().meta_schema.as_deref().into(),
    );
    schema.insert(
        "$defs".to_owned(),
        Value::Object(generator.take_definitions(true)),
    );
    schema
}

fn types() -> impl Iterator<Item = (&'static str, Reference)> {
    let page: (&'static str, Reference) =
        ("Page", |generator| generator.subschema_for::<Page<Value>>());
    let named = TYPES
        .iter()
        .map(|(path, reference)| (last_segment(path), *reference));
    named.chain([page])
}

fn last_segment(path: &'static str) -> &'static str {
    path.rsplit("::").next().unwrap_or(path).trim()
}

macro_rules! wire_types {
    ($($($segment:ident)::+,)+) => {
        &[$((
            stringify!($($segment)::+),
            |generator| generator.subschema_for::<crate::$($segment)::+>(),
        ),)+]
    };
}

const TYPES: &[(&str, Reference)] = wire_types![
    acp::AgentCapabilities,
    acp::McpCapabilities,
    acp::McpTransport,
    acp::PromptCapabilities,
    acp::PromptPart,
    action::ActionCaller,
    action::ActionInfo,
    action::AvailableTo,
    action::CompleteInvocation,
    action::FailInvocation,
    action::Invocation,
    action::InvocationState,
    action::InvokeAction,
    action::Invoked,
    action::RegisterAction,
    agent::AgentIdentity,
    agent::AgentType,
    api::audit::EraseEvents,
    api::audit::EventsErased,
    api::events::EventList,
    api::events::EventQuery,
    api::messages::AddReaction,
    api::messages::AttachmentStored,
    api::messages::Conversation,
    api::messages::DeliverySummary,
    api::messages::EditMessage,
    api::messages::Inbox,
    api::messages::InboxChannel,
    api::messages::InboxConversation,
    api::messages::InboxItem,
    api::messages::InboxWaiting,
    api::messages::MarkRead,
    api::messages::MessageSent,
    api::messages::MessageView,
    api::messages::NewAttachment,
    api::messages::Notice,
    api::messages::NoticeCode,
    api::messages::Reaction,
    api::messages::ReadDoor,
    api::messages::Reader,
    api::messages::ReplyMessage,
    api::messages::SearchHit,
    api::messages::SearchQuery,
    api::messages::SendMessage,
    api::messages::SendTarget,
    api::service::Health,
    api::service::ServiceStatus,
    api::workspace::AgentRegistered,
    api::workspace::ChannelMember,
    api::workspace::CreateChannel,
    api::workspace::CreateObserverToken,
    api::workspace::CreateWorkspace,
    api::workspace::InviteAgents,
    api::workspace::Me,
    api::workspace::ObserverGrant,
    api::workspace::ObserverScope,
    api::workspace::ObserverToken,
    api::workspace::ObserverTokenCreated,
    api::workspace::RegisterAgent,
    api::workspace::TokenRotated,
    api::workspace::UpdateAgent,
    api::workspace::UpdateChannel,
    api::workspace::UpdateWorkspace,
    api::workspace::Workspace,
    api::workspace::WorkspaceCreated,
    capability::ActionCapabilities,
    capability::AgentSessionCapabilities,
    capability::DeliveryCapabilities,
    capability::EventCapabilities,
    capability::LifecycleCapabilities,
    capability::MessagingCapabilities,
    channel::Channel,
    chat::ModelList,
    delivery::AcceptedReceipt,
    delivery::DeferredReceipt,
    delivery::DeliveredReceipt,
    delivery::DeliveryMode,
    delivery::DeliveryReason,
    delivery::DeliveryState,
    delivery::FailedReceipt,
    delivery::MessageContext,
    delivery::MessageReceipt,
    delivery::Priority,
    delivery::Surfaced,
    delivery_record::CancelDelivery,
    delivery_record::DecisionOutcome,
    delivery_record::DeliverContext,
    delivery_record::DeliverMessage,
    delivery_record::Delivery,
    delivery_record::DeliveryAttempt,
    delivery_record::DeliveryDecision,
    delivery_record::Flush,
    delivery_record::Flushed,
    delivery_record::PostReceipt,
    delivery_record::ReceiptSource,
    delivery_record::RetryDelivery,
    delivery_record::StoredReceipt,
    delivery_record::WaitCode,
    delivery_record::WaitReason,
    event::ActionEvent,
    event::ActionOffered,
    event::AgentEvent,
    event::AgentStatusEvent,
    event::AuditErased,
    event::ChannelEvent,
    event::ChannelMemberEvent,
    event::DeliveryAccepted,
    event::DeliveryCancelled,
    event::DeliveryCreated,
    event::DeliveryDeferred,
    event::DeliveryDelivered,
    event::DeliveryFailed,
    event::DeliveryLateReceipt,
    event::GrantEvent,
    event::LoggedEvent,
    event::MessageEvent,
    event::MessageReacted,
    event::MessageRead,
    event::PermissionEnded,
    event::PermissionExecuted,
    event::PermissionRequested,
    event::PermissionTouched,
    event::ReactionChange,
    event::RelayEvent,
    event::SeqRange,
    event::SessionLifecycle,
    event::SessionReport,
    event::TokenEvent,
    event::TokenKind,
    event::WebhookEvent,
    event::WorkspaceUpdated,
    ids::AgentId,
    ids::AttachmentId,
    ids::ChannelId,
    ids::ConnectionId,
    ids::ControlId,
    ids::ConversationId,
    ids::DeliveryId,
    ids::EventId,
    ids::GrantId,
    ids::InvocationId,
    ids::MessageId,
    ids::PermissionId,
    ids::RunId,
    ids::SessionId,
    ids::TokenId,
    ids::WebhookId,
    ids::WorkspaceId,
    link::DeliverCall,
    link::Link,
    link::LinkKind,
    link::NoOptions,
    link::SessionCall,
    link::WebhookLink,
    message::AgentTarget,
    message::Attachment,
    message::AttachmentKind,
    message::ChannelTarget,
    message::ConversationTarget,
    message::MessageAuthor,
    message::RelayEventEnvelope,
    message::RelayMessage,
    message::RelayMessageChannelRef,
    message::RelayMessageSender,
    message::RelayMessageTarget,
    negotiation::LifecycleOp,
    negotiation::Negotiated,
    permission::AskPermission,
    permission::CallRule,
    permission::CancelPermission,
    permission::CreateRun,
    permission::DeciderKind,
    permission::DenyRule,
    permission::EvaluatePermission,
    permission::Evaluation,
    permission::ExecutionState,
    permission::FinishPermission,
    permission::Grant,
    permission::GrantEffect,
    permission::GrantScope,
    permission::PermissionDecider,
    permission::PermissionExecution,
    permission::PermissionOption,
    permission::PermissionOptionKind,
    permission::PermissionOutcome,
    permission::PermissionRecord,
    permission::PermissionResponse,
    permission::PermissionRule,
    permission::PermissionRun,
    permission::PermissionState,
    permission::Permissions,
    permission::RelayEventTag,
    permission::RelayPermission,
    permission::RelayRequest,
    permission::ResolvePermission,
    permission::ResolveRelay,
    permission::RuleDecision,
    permission::RuleSuggestion,
    permission::StartPermission,
    permission::ToolRule,
    policy::MessagePolicy,
    policy::Policy,
    policy::PolicyPatch,
    policy::RedactMessages,
    policy::RetryPolicy,
    policy::RunawayPolicy,
    problem::ErrorCode,
    problem::Problem,
    selector::Filter,
    selector::Selector,
    session::Acked,
    session::AtBoundary,
    session::Attach,
    session::AttachAttempt,
    session::Attached,
    session::BoundaryKind,
    session::CreateSession,
    session::DueDeliveries,
    session::DueDelivery,
    session::EventBatch,
    session::ForkSession,
    session::LifecycleRequest,
    session::NumberedEvent,
    session::Polled,
    session::ReportEvents,
    session::SessionForkedAnswer,
    session::SessionSummary,
    session::SnapshotTaken,
    session_event::ActionCompletedReport,
    session_event::ActionDeniedReport,
    session_event::ActionFailedReport,
    session_event::ActionInvokedReport,
    session_event::AgentSessionEvent,
    session_event::AgentSessionEventType,
    session_event::CommandCompleted,
    session_event::CommandFailed,
    session_event::CommandStarted,
    session_event::DeliveryDeferredReport,
    session_event::DeliveryFailedReport,
    session_event::DeliveryReport,
    session_event::ErrorReport,
    session_event::FileChanged,
    session_event::FileOperation,
    session_event::LogLevel,
    session_event::LogLine,
    session_event::MessageReceivedReport,
    session_event::MessageSentReport,
    session_event::SessionForked,
    session_event::SessionReleased,
    session_event::SessionResumed,
    session_event::SessionStarted,
    session_event::StatusChanged,
    session_event::TerminalOutput,
    session_event::TerminalScreen,
    session_event::TerminalStream,
    session_event::ToolCalled,
    session_event::ToolCompleted,
    session_event::ToolFailed,
    session_event::ToolOutput,
    session_event::TranscriptChunk,
    session_event::TranscriptChunkReport,
    session_event::TranscriptRole,
    session_event::UsageUpdated,
    session_input::SessionEventInput,
    socket::Ack,
    socket::BoundaryFrame,
    socket::ClientFrame,
    socket::ClientRequest,
    socket::ControlFrame,
    socket::ControlOp,
    socket::ControlResult,
    socket::DeliverFrame,
    socket::ErrorFrame,
    socket::EventFrame,
    socket::ForkGrant,
    socket::FrameRef,
    socket::Hello,
    socket::InvocationResult,
    socket::InvokeFrame,
    socket::Lagged,
    socket::OkFrame,
    socket::ReceiptFrame,
    socket::ServerFrame,
    socket::ServerMessage,
    socket::SessionEventFrame,
    socket::SocketLimits,
    socket::Subscribe,
    socket::Unsubscribe,
    socket::Welcome,
    status::AgentStatus,
    time::Timestamp,
    webhook::CreateInboundWebhook,
    webhook::CreateWebhook,
    webhook::InboundMessage,
    webhook::InboundWebhookCreated,
    webhook::InboundWebhookInfo,
    webhook::ReplayWebhook,
    webhook::RotateWebhookSecret,
    webhook::UpdateWebhook,
    webhook::WebhookAttempt,
    webhook::WebhookCreated,
    webhook::WebhookInfo,
    webhook::WebhookReplayed,
    webhook::WebhookSecret,
    webhook::WebhookState,
];
