//! One line for each event.

use relay_protocol::event::{
    AuditErased, LoggedEvent, MessageEvent, RelayEvent, SeqRange, SessionReport,
};
use relay_protocol::permission::{Grant, PermissionDecider};
use relay_protocol::session_event::AgentSessionEvent;

use super::call::summary;
use super::counted;
use super::message::{author, place};
use super::permission::{decider, ended, executed, reach};
use crate::moment::clock;
use crate::output::{Style, one_line};

/// The widest common name of an event.
const NAME_WIDTH: usize = 22;

/// An event on one line: when, what, and what about it.
pub(crate) fn event(style: &Style, logged: &LoggedEvent) -> String {
    let about = match &logged.event {
        Some(event) => about(event),
        None => "its content was erased".to_owned(),
    };
    let name = format!("{:NAME_WIDTH$}", logged.event_type);
    let name = match logged.event_type.as_str() {
        "delivery.delivered" => style.good(&name),
        "delivery.failed" | "delivery.cancelled" | "error" => style.bad(&name),
        "message.created" => style.strong(&name),
        _ => name,
    };
    let line = format!(
        "{} {name} {about}",
        style.faint(&format!("{:>6} {}", logged.seq, clock(logged.at)))
    );
    line.trim_end().to_owned()
}

fn about(event: &RelayEvent) -> String {
    use RelayEvent as E;
    match event {
        E::MessageCreated(event)
        | E::MessageUpdated(event)
        | E::ThreadReply(event)
        | E::DmReceived(event)
        | E::GroupDmReceived(event) => message(event),
        E::MessageRead(event) => format!("@{} has read {}", event.agent_name, event.message_id),
        E::MessageReacted(event) => format!(
            "@{} {} {} {}",
            event.agent_name,
            event.action,
            one_line(&event.emoji),
            event.message_id
        ),
        E::DeliveryCreated(event) => format!("to {}  {}", event.agent.handle, event.delivery_id),
        E::DeliveryAccepted(event) => {
            format!(
                "{} has it queued  {}",
                event.agent.handle, event.delivery_id
            )
        }
        E::DeliveryDelivered(event) => {
            format!("{} has it  {}", event.agent.handle, event.delivery_id)
        }
        E::DeliveryDeferred(event) => format!(
            "to {} until {}{}  {}",
            event.agent.handle,
            clock(event.available_at),
            because(event.reason.as_deref()),
            event.delivery_id
        ),
        E::DeliveryFailed(event) => {
            let again = match event.next_attempt_at {
                Some(at) => format!(", again at {}", clock(at)),
                None => String::new(),
            };
            format!(
                "to {}: {}{again}  {}",
                event.agent.handle,
                one_line(&event.reason),
                event.delivery_id
            )
        }
        E::DeliveryCancelled(event) => format!(
            "to {}{}  {}",
            event.agent.handle,
            because(event.reason.as_deref()),
            event.delivery_id
        ),
        E::DeliveryLateReceipt(event) => {
            format!("from {}  {}", event.agent.handle, event.delivery_id)
        }
        E::AgentRegistered(event) | E::AgentReleased(event) => {
            format!("{}{}", event.agent.handle, because(event.reason.as_deref()))
        }
        E::ChannelCreated(event) | E::ChannelUpdated(event) => format!("#{}", event.channel.name),
        E::ChannelMemberJoined(event) | E::ChannelMemberLeft(event) => {
            let channel = event.channel.name.as_deref().unwrap_or_default();
            format!("@{} #{channel}", event.agent_name)
        }
        _ => about_agents_and_sessions(event),
    }
}

fn about_agents_and_sessions(event: &RelayEvent) -> String {
    use RelayEvent as E;
    match event {
        E::AgentStatusChanged(event)
        | E::AgentStatusIdle(event)
        | E::AgentStatusActive(event)
        | E::AgentStatusBlocked(event)
        | E::AgentStatusWaiting(event)
        | E::AgentStatusOffline(event) => {
            let name = event.agent_name.as_deref().unwrap_or_default();
            let from = event.previous_status.map(|status| format!("{status} → "));
            let to = event.status.map(|status| status.to_string());
            let why = because(event.reason.as_deref());
            format!(
                "@{name} {}{}{why}",
                from.unwrap_or_default(),
                to.unwrap_or_default()
            )
        }
        E::SessionStarted(event)
        | E::SessionReleased(event)
        | E::SessionResumed(event)
        | E::SessionForked(event) => {
            let name = event.agent_name.as_deref().unwrap_or_default();
            format!(
                "@{name} {}{}",
                event.session_id,
                because(event.reason.as_deref())
            )
        }
        E::ActionInvoked(event)
        | E::ActionCompleted(event)
        | E::ActionFailed(event)
        | E::ActionDenied(event) => {
            let why = event.reason.as_deref().or(event.error.as_deref());
            let (action, caller) = (&event.action, &event.agent.name);
            format!("{action} by @{caller}{}", because(why))
        }
        E::ActionRegistered(event) | E::ActionRemoved(event) => {
            let owner = event
                .agent
                .as_ref()
                .map(|owner| format!(" of @{}", owner.name));
            format!("{}{}", event.action, owner.unwrap_or_default())
        }
        E::WebhookFailed(event) | E::WebhookDisabled(event) => {
            format!("{}{}", event.webhook_id, because(Some(&event.reason)))
        }
        E::TokenCreated(event) | E::TokenRotated(event) | E::TokenRevoked(event) => {
            let of = event.agent_name.as_ref().map(|name| format!(" of @{name}"));
            format!("{} token{}", event.kind, of.unwrap_or_default())
        }
        E::WorkspaceUpdated(event) => {
            format!(
                "{}, policy version {}",
                one_line(&event.name),
                event.policy_version
            )
        }
        E::AuditErased(event) => format!(
            "{}: {}{}",
            counted(event.entries, "entry", "entries"),
            erased_ranges(event),
            because(Some(&event.reason))
        ),
        other => about_permissions(other),
    }
}

fn about_permissions(event: &RelayEvent) -> String {
    use RelayEvent as E;
    match event {
        E::PermissionRequested(event) => {
            let asked = &event.permission;
            let agent = asked.agent_name.as_deref().unwrap_or_default();
            let (tool, what) = (one_line(&asked.tool), summary(asked));
            format!("@{agent} {tool}: {what}  {}", asked.permission_id)
        }
        E::PermissionResolved(event)
        | E::PermissionExpired(event)
        | E::PermissionCancelled(event) => {
            let how = ended(&Style::new(false), &event.outcome);
            format!("{how}  {}", event.permission_id)
        }
        E::PermissionSeen(event) => {
            format!("by {}  {}", decider(Some(&event.by)), event.permission_id)
        }
        E::PermissionRefused(event) => format!(
            "{} may not decide{}  {}",
            decider(Some(&event.by)),
            because(event.reason.as_deref()),
            event.permission_id
        ),
        E::PermissionStarted(event) | E::PermissionFinished(event) => {
            format!("{}  {}", executed(&event.execution), event.permission_id)
        }
        E::GrantCreated(event) => grant(&event.grant, &event.grant.by),
        E::GrantRevoked(event) => {
            let grant_of = &event.grant;
            grant(
                grant_of,
                grant_of.revoked_by.as_ref().unwrap_or(&grant_of.by),
            )
        }
        other => report_of(other).map(report).unwrap_or_default(),
    }
}

fn grant(grant: &Grant, by: &PermissionDecider) -> String {
    format!(
        "{} {} for {}, by {}  {}",
        grant.effect,
        one_line(&grant.rule),
        reach(grant),
        decider(Some(by)),
        grant.grant_id
    )
}

fn message(event: &MessageEvent) -> String {
    let message = &event.message;
    let text = one_line(&message.text);
    format!(
        "{} in {}: {text}  {}",
        author(message),
        place(message),
        message.id
    )
}

/// The numbers of the events that were erased: `4`, or `4 to 5, 9`.
fn erased_ranges(event: &AuditErased) -> String {
    let whole = [SeqRange {
        from_seq: event.from_seq,
        to_seq: event.to_seq,
    }];
    let ranges = match event.ranges.as_slice() {
        [] => &whole,
        ranges => ranges,
    };
    let range = |range: &SeqRange| match range.from_seq == range.to_seq {
        true => range.from_seq.to_string(),
        false => format!("{} to {}", range.from_seq, range.to_seq),
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(", ")
}

fn because(reason: Option<&str>) -> String {
    reason
        .map(|reason| format!(": {}", one_line(reason)))
        .unwrap_or_default()
}

/// What a session said about itself, where the event is that.
fn report_of(event: &RelayEvent) -> Option<&SessionReport> {
    use RelayEvent as E;
    match event {
        E::MessageReceived(report)
        | E::MessageSent(report)
        | E::ToolCalled(report)
        | E::ToolCompleted(report)
        | E::ToolFailed(report)
        | E::ToolOutput(report)
        | E::TranscriptChunk(report)
        | E::FileChanged(report)
        | E::CommandStarted(report)
        | E::CommandCompleted(report)
        | E::CommandFailed(report)
        | E::TerminalOutput(report)
        | E::TerminalScreen(report)
        | E::UsageUpdated(report)
        | E::Log(report)
        | E::Error(report) => Some(report),
        _ => None,
    }
}

/// A report as its fields: there are many kinds, and who wants one of them in full asks for JSON.
fn report(report: &SessionReport) -> String {
    let event: &AgentSessionEvent = &report.event;
    let fields = match serde_json::to_value(event) {
        Ok(serde_json::Value::Object(mut fields)) => {
            fields.remove("type");
            serde_json::Value::Object(fields).to_string()
        }
        _ => String::new(),
    };
    one_line(&fields)
}
