//! The names of all events. A listener for one of them gets that event's own type.

pub use relay_protocol::event::{
    ActionEvent, ActionOffered, AgentEvent, AgentStatusEvent, AuditErased, ChannelEvent,
    ChannelMemberEvent, DeliveryAccepted, DeliveryCancelled, DeliveryCreated, DeliveryDeferred,
    DeliveryDelivered, DeliveryFailed, DeliveryLateReceipt, GrantEvent, MessageEvent,
    MessageReacted, MessageRead, PermissionEnded, PermissionExecuted, PermissionRequested,
    PermissionTouched, SessionLifecycle, SessionReport, TokenEvent, WebhookEvent, WorkspaceUpdated,
};
use relay_protocol::event::{LoggedEvent, RelayEvent};

use super::{Choice, Event, Listen, Narrow, narrow};

/// The name of an event, and the type of its payload.
#[derive(Clone, Copy, Debug)]
pub struct EventName<T> {
    name: &'static str,
    narrow: Narrow<T>,
}

impl<T> EventName<T> {
    /// The name as it is on the wire.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        self.name
    }
}

impl<T> AsRef<str> for EventName<T> {
    fn as_ref(&self) -> &str {
        self.name
    }
}

impl<T: Send + 'static> Listen for EventName<T> {
    type Event = Event<T>;

    fn choice(&self) -> Choice {
        Choice::Pattern(self.name.to_owned())
    }

    fn narrow(&self) -> Box<dyn Fn(LoggedEvent) -> Option<Event<T>> + Send> {
        let payload = self.narrow;
        Box::new(move |event| narrow(event, payload))
    }
}

macro_rules! event_names {
    ($($(#[$doc:meta])* $constant:ident = $name:literal, $variant:ident($payload:ty);)+) => {
        $($(#[$doc])*
        pub const $constant: EventName<$payload> = EventName {
            name: $name,
            narrow: |event| match event {
                RelayEvent::$variant(payload) => Some(payload),
                _ => None,
            },
        };)+

        /// Every name.
        #[cfg(test)]
        const ALL: &[&str] = &[$($name),+];
    };
}

event_names! {
    /// A message was sent.
    MESSAGE_CREATED = "message.created", MessageCreated(MessageEvent);
    /// A message was edited.
    MESSAGE_UPDATED = "message.updated", MessageUpdated(MessageEvent);
    /// A message answers another in a thread.
    THREAD_REPLY = "thread.reply", ThreadReply(MessageEvent);
    /// A message between two participants.
    DM_RECEIVED = "dm.received", DmReceived(MessageEvent);
    /// A message between more than two participants.
    GROUP_DM_RECEIVED = "group_dm.received", GroupDmReceived(MessageEvent);
    /// An agent has read a message, and all before it in the same place.
    MESSAGE_READ = "message.read", MessageRead(MessageRead);
    /// A reaction was added or removed.
    MESSAGE_REACTED = "message.reacted", MessageReacted(MessageReacted);
    /// An action was called.
    ACTION_INVOKED = "action.invoked", ActionInvoked(ActionEvent);
    /// An action ended well.
    ACTION_COMPLETED = "action.completed", ActionCompleted(ActionEvent);
    /// An action failed.
    ACTION_FAILED = "action.failed", ActionFailed(ActionEvent);
    /// An action was refused.
    ACTION_DENIED = "action.denied", ActionDenied(ActionEvent);
    /// An action can be called, or is another than before.
    ACTION_REGISTERED = "action.registered", ActionRegistered(ActionOffered);
    /// An action can't be called any more.
    ACTION_REMOVED = "action.removed", ActionRemoved(ActionOffered);
    /// A session's status changed.
    AGENT_STATUS_CHANGED = "agent.status.changed", AgentStatusChanged(AgentStatusEvent);
    /// A session became idle.
    AGENT_STATUS_IDLE = "agent.status.idle", AgentStatusIdle(AgentStatusEvent);
    /// A session became active.
    AGENT_STATUS_ACTIVE = "agent.status.active", AgentStatusActive(AgentStatusEvent);
    /// A session became blocked.
    AGENT_STATUS_BLOCKED = "agent.status.blocked", AgentStatusBlocked(AgentStatusEvent);
    /// A session became waiting.
    AGENT_STATUS_WAITING = "agent.status.waiting", AgentStatusWaiting(AgentStatusEvent);
    /// A session became offline.
    AGENT_STATUS_OFFLINE = "agent.status.offline", AgentStatusOffline(AgentStatusEvent);
    /// A delivery was created with its message.
    DELIVERY_CREATED = "delivery.created", DeliveryCreated(DeliveryCreated);
    /// A session has taken a delivery over.
    DELIVERY_ACCEPTED = "delivery.accepted", DeliveryAccepted(DeliveryAccepted);
    /// A session has seen a delivery.
    DELIVERY_DELIVERED = "delivery.delivered", DeliveryDelivered(DeliveryDelivered);
    /// A delivery was put off.
    DELIVERY_DEFERRED = "delivery.deferred", DeliveryDeferred(DeliveryDeferred);
    /// An attempt failed, or the delivery as a whole.
    DELIVERY_FAILED = "delivery.failed", DeliveryFailed(DeliveryFailed);
    /// A delivery was called back.
    DELIVERY_CANCELLED = "delivery.cancelled", DeliveryCancelled(DeliveryCancelled);
    /// A receipt came after the end.
    DELIVERY_LATE_RECEIPT = "delivery.late_receipt", DeliveryLateReceipt(DeliveryLateReceipt);
    /// A channel was created.
    CHANNEL_CREATED = "channel.created", ChannelCreated(ChannelEvent);
    /// A channel's topic changed or it was archived.
    CHANNEL_UPDATED = "channel.updated", ChannelUpdated(ChannelEvent);
    /// An agent joined a channel.
    CHANNEL_MEMBER_JOINED = "channel.member_joined", ChannelMemberJoined(ChannelMemberEvent);
    /// An agent left a channel.
    CHANNEL_MEMBER_LEFT = "channel.member_left", ChannelMemberLeft(ChannelMemberEvent);
    /// An agent was registered or adopted.
    AGENT_REGISTERED = "agent.registered", AgentRegistered(AgentEvent);
    /// An agent was released.
    AGENT_RELEASED = "agent.released", AgentReleased(AgentEvent);
    /// A tool call needs a decision.
    PERMISSION_REQUESTED = "permission.requested", PermissionRequested(PermissionRequested);
    /// A decision was made.
    PERMISSION_RESOLVED = "permission.resolved", PermissionResolved(PermissionEnded);
    /// Nobody answered in time.
    PERMISSION_EXPIRED = "permission.expired", PermissionExpired(PermissionEnded);
    /// The question is no longer needed.
    PERMISSION_CANCELLED = "permission.cancelled", PermissionCancelled(PermissionEnded);
    /// Somebody who may decide has it before their eyes.
    PERMISSION_SEEN = "permission.seen", PermissionSeen(PermissionTouched);
    /// Somebody answered who may not.
    PERMISSION_REFUSED = "permission.refused", PermissionRefused(PermissionTouched);
    /// What was allowed is about to run.
    PERMISSION_STARTED = "permission.started", PermissionStarted(PermissionExecuted);
    /// What was allowed has run, or won't.
    PERMISSION_FINISHED = "permission.finished", PermissionFinished(PermissionExecuted);
    /// A standing decision was made.
    GRANT_CREATED = "grant.created", GrantCreated(GrantEvent);
    /// A standing decision was taken back.
    GRANT_REVOKED = "grant.revoked", GrantRevoked(GrantEvent);
    /// A webhook attempt failed.
    WEBHOOK_FAILED = "webhook.failed", WebhookFailed(WebhookEvent);
    /// A webhook was switched off after too many failures.
    WEBHOOK_DISABLED = "webhook.disabled", WebhookDisabled(WebhookEvent);
    /// A credential was made.
    TOKEN_CREATED = "token.created", TokenCreated(TokenEvent);
    /// A credential was replaced.
    TOKEN_ROTATED = "token.rotated", TokenRotated(TokenEvent);
    /// A credential was withdrawn.
    TOKEN_REVOKED = "token.revoked", TokenRevoked(TokenEvent);
    /// The workspace's name or policy changed.
    WORKSPACE_UPDATED = "workspace.updated", WorkspaceUpdated(WorkspaceUpdated);
    /// Payloads were removed from the log.
    AUDIT_ERASED = "audit.erased", AuditErased(AuditErased);
    /// A session began.
    SESSION_STARTED = "session.started", SessionStarted(SessionLifecycle);
    /// A session was released.
    SESSION_RELEASED = "session.released", SessionReleased(SessionLifecycle);
    /// A session goes on.
    SESSION_RESUMED = "session.resumed", SessionResumed(SessionLifecycle);
    /// A session was forked.
    SESSION_FORKED = "session.forked", SessionForked(SessionLifecycle);
    /// A session was given a message.
    MESSAGE_RECEIVED = "message.received", MessageReceived(SessionReport);
    /// A session sent a message.
    MESSAGE_SENT = "message.sent", MessageSent(SessionReport);
    /// A tool is about to run.
    TOOL_CALLED = "tool.called", ToolCalled(SessionReport);
    /// A tool has ended well.
    TOOL_COMPLETED = "tool.completed", ToolCompleted(SessionReport);
    /// A tool has failed.
    TOOL_FAILED = "tool.failed", ToolFailed(SessionReport);
    /// A tool printed something.
    TOOL_OUTPUT = "tool.output", ToolOutput(SessionReport);
    /// A piece of the conversation.
    TRANSCRIPT_CHUNK = "transcript.chunk", TranscriptChunk(SessionReport);
    /// A file was created, changed or deleted.
    FILE_CHANGED = "file.changed", FileChanged(SessionReport);
    /// A command was started.
    COMMAND_STARTED = "command.started", CommandStarted(SessionReport);
    /// A command has ended.
    COMMAND_COMPLETED = "command.completed", CommandCompleted(SessionReport);
    /// A command could not run or failed.
    COMMAND_FAILED = "command.failed", CommandFailed(SessionReport);
    /// A terminal printed something.
    TERMINAL_OUTPUT = "terminal.output", TerminalOutput(SessionReport);
    /// What a terminal shows.
    TERMINAL_SCREEN = "terminal.screen", TerminalScreen(SessionReport);
    /// Tokens and cost so far.
    USAGE_UPDATED = "usage.updated", UsageUpdated(SessionReport);
    /// A line for the log.
    LOG = "log", Log(SessionReport);
    /// Something went wrong in a session.
    ERROR = "error", Error(SessionReport);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_has_its_name() {
        assert_eq!(ALL, RelayEvent::TAGS);
    }
}
