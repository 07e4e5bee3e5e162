//! Who sees which events, and how much of each.
//!
//! [`sight`] decides. What it has to know beyond the event (is the agent in that channel, where was that
//! message) it asks of an [`Oracle`], so that a table can test it; [`Look`] is the one that asks the store
//! and remembers the answers while they hold. In doubt nothing is shown.

mod subject;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use relay_protocol::action::{ActionCaller, AvailableTo, is_available};
use relay_protocol::agent::AgentType;
use relay_protocol::api::workspace::{ObserverGrant, ObserverScope};
use relay_protocol::event::{LoggedEvent, RelayEvent};
use relay_protocol::ids::{AgentId, InvocationId, MessageId};
use relay_protocol::selector::Selector;
use relay_protocol::session_event::AgentSessionEvent;
use uuid::Uuid;

use self::subject::{Content, Subject, Whereabouts};
use crate::caller::Caller;
use crate::error::{Error, Result};
use crate::observers::covers_channel;
use crate::store::live::StoredEvent;
use crate::store::{AgentNo, Store, Viewer};

/// Whose eyes look at the log.
#[derive(Clone, Debug)]
enum Eyes {
    /// Those of whoever holds the workspace's key.
    All,
    /// An agent's.
    Agent(Me),
    /// Those of somebody who only looks.
    Observer(Arc<ObserverScope>),
}

/// The agent that looks.
#[derive(Clone, Debug)]
struct Me {
    id: AgentId,
    name: String,
    agent_type: AgentType,
}

impl Me {
    /// People may decide about permissions.
    const fn is_human(&self) -> bool {
        matches!(self.agent_type, AgentType::Human)
    }

    fn as_caller(&self) -> ActionCaller {
        ActionCaller {
            name: self.name.clone(),
            id: Some(self.id),
            agent_type: Some(self.agent_type),
        }
    }
}

/// How much of an event somebody sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sight {
    Whole,
    /// Without what was not granted.
    Trimmed,
    Hidden,
}

impl Sight {
    const fn when(visible: bool) -> Self {
        if visible { Self::Whole } else { Self::Hidden }
    }
}

/// Knows what an event does not say.
trait Oracle {
    /// Whether the agent that looks is in a channel or conversation.
    fn is_in(&mut self, room: Uuid) -> Result<bool>;
    /// Whether the agent that looks is in the channel of this name.
    fn is_in_channel(&mut self, name: &str) -> Result<bool>;
    /// Where a message is, if there is such a message.
    fn whereabouts(&mut self, message: MessageId) -> Result<Option<Whereabouts>>;
    /// Whether the agent that looks has called, or owned the action that was called.
    fn has_part_in(&mut self, call: InvocationId) -> Result<bool>;
}

/// Decides how much of an event is seen.
fn sight(eyes: &Eyes, event: &LoggedEvent, oracle: &mut dyn Oracle) -> Result<Sight> {
    match eyes {
        Eyes::All => Ok(Sight::Whole),
        Eyes::Agent(me) => agent_sees(me, subject::of(event), oracle).map(Sight::when),
        Eyes::Observer(scope) => observer_sees(scope, event, oracle),
    }
}

/// An agent sees its channels' and conversations' messages, deliveries that it sent or receives, how
/// everybody is, actions that it may call, calls that it made or handles, and what is its own.
fn agent_sees(me: &Me, subject: Subject, oracle: &mut dyn Oracle) -> Result<bool> {
    let id = me.id;
    match subject {
        Subject::Message(place) => is_in(&place, oracle),
        Subject::MessageId(id) => match oracle.whereabouts(id)? {
            Some(place) => is_in(&place, oracle),
            None => Ok(false),
        },
        Subject::Delivery { recipient, .. } if recipient == id => Ok(true),
        Subject::Delivery { message, .. } => {
            let place = message.resolve(oracle)?;
            Ok(place.is_some_and(|place| place.author == Some(id)))
        }
        Subject::Channel { member, .. } if member == Some(id) => Ok(true),
        Subject::Channel { id: room, .. } => room.map_or(Ok(false), |room| oracle.is_in(room)),
        Subject::Status => Ok(true),
        Subject::Session { agent, .. } | Subject::Agent(agent) => Ok(agent == id),
        Subject::Action { caller, .. } if caller == Some(id) => Ok(true),
        Subject::Action { call, .. } => call.map_or(Ok(false), |call| oracle.has_part_in(call)),
        Subject::Offer { owner, .. } if owner == Some(id) => Ok(true),
        Subject::Offer { available_to, .. } => may_call(me, available_to.as_deref(), oracle),
        Subject::Permission { agent, .. } => Ok(me.is_human() || agent == Some(id)),
        Subject::Workspace | Subject::Erased => Ok(false),
    }
}

fn may_call(
    me: &Me,
    available_to: Option<&[AvailableTo]>,
    oracle: &mut dyn Oracle,
) -> Result<bool> {
    let oracle = RefCell::new(oracle);
    let unknown = RefCell::new(None);
    let is_member = |name: &str| {
        let found = oracle.borrow_mut().is_in_channel(name);
        found.unwrap_or_else(|error| {
            unknown.replace(Some(error));
            false
        })
    };
    let is_available = is_available(available_to, &me.as_caller(), is_member);
    match unknown.into_inner() {
        Some(error) => Err(error),
        None => Ok(is_available),
    }
}

fn is_in(place: &Whereabouts, oracle: &mut dyn Oracle) -> Result<bool> {
    place.room.map_or(Ok(false), |room| oracle.is_in(room))
}

/// An observer sees everything within its limits, but what agents say, what terminals show and what waits
/// for a decision only if that was granted.
fn observer_sees(
    scope: &ObserverScope,
    event: &LoggedEvent,
    oracle: &mut dyn Oracle,
) -> Result<Sight> {
    if !covers_event(scope, &event.event_type) {
        return Ok(Sight::Hidden);
    }
    let subject = subject::of(event);
    if scope.channels.is_some() {
        let channel = subject.channel(oracle)?;
        let covered = channel.is_some_and(|name| covers_channel(scope, &name));
        return Ok(Sight::when(covered));
    }
    let granted = |grant| {
        let grants = scope.grants.as_deref().unwrap_or_default();
        grants.contains(&grant)
    };
    Ok(match subject {
        Subject::Session { content, .. } => match content {
            Content::Facts => Sight::Whole,
            Content::Transcript => Sight::when(granted(ObserverGrant::Transcript)),
            Content::Terminal => Sight::when(granted(ObserverGrant::Terminal)),
            Content::FactsAndTranscript if granted(ObserverGrant::Transcript) => Sight::Whole,
            Content::FactsAndTranscript => Sight::Trimmed,
        },
        Subject::Permission { .. } if !granted(ObserverGrant::Permissions) => Sight::Trimmed,
        _ => Sight::Whole,
    })
}

fn covers_event(scope: &ObserverScope, event_type: &str) -> bool {
    match &scope.events {
        None => true,
        Some(patterns) => patterns.iter().any(|pattern| {
            Selector::parse(pattern).is_ok_and(|selector| selector.matches_type(event_type))
        }),
    }
}

/// The event without what has to be granted.
fn trimmed(event: &LoggedEvent) -> LoggedEvent {
    let mut event = event.clone();
    match &mut event.event {
        Some(RelayEvent::PermissionRequested(asked)) => {
            crate::permissions::trim(&mut asked.permission);
        }
        Some(
            RelayEvent::PermissionResolved(ended)
            | RelayEvent::PermissionExpired(ended)
            | RelayEvent::PermissionCancelled(ended),
        ) => {
            ended.outcome.updated_params = None;
            ended.outcome.rule = None;
        }
        Some(RelayEvent::GrantCreated(made) | RelayEvent::GrantRevoked(made)) => {
            made.grant.rule.clear();
        }
        Some(
            RelayEvent::ToolCalled(report)
            | RelayEvent::ToolCompleted(report)
            | RelayEvent::ToolFailed(report)
            | RelayEvent::FileChanged(report),
        ) => trim_report(&mut report.event),
        _ => {}
    }
    event
}

fn trim_report(report: &mut AgentSessionEvent) {
    match report {
        AgentSessionEvent::ToolCalled(called) => called.input = None,
        AgentSessionEvent::ToolCompleted(completed) => completed.output = None,
        AgentSessionEvent::ToolFailed(failed) => "not granted".clone_into(&mut failed.error),
        AgentSessionEvent::FileChanged(changed) => changed.diff = None,
        _ => {}
    }
}

/// Most answers of the store that one follower remembers.
const REMEMBERED: usize = 4_096;

/// Looks at events with somebody's eyes.
pub(crate) struct Look {
    eyes: Eyes,
    records: Records,
}

/// What the store said about rooms, while it holds.
struct Records {
    store: Arc<dyn Store>,
    workspace_no: u32,
    agent: Option<AgentNo>,
    rooms: HashMap<Uuid, bool>,
}

impl Look {
    pub(crate) fn of(caller: &Caller, store: Arc<dyn Store>) -> Result<Self> {
        let workspace_no = caller.home()?.no;
        let (eyes, agent) = match (caller.agent(), caller.scope()) {
            (Ok(agent), _) => {
                let me = Me {
                    id: agent.id,
                    name: agent.name.clone(),
                    agent_type: agent.agent_type,
                };
                (Eyes::Agent(me), Some(agent.no))
            }
            (_, Some(scope)) => (Eyes::Observer(scope.clone()), None),
            _ => (Eyes::All, None),
        };
        Ok(Self {
            eyes,
            records: Records {
                store,
                workspace_no,
                agent,
                rooms: HashMap::new(),
            },
        })
    }

    /// The workspace whose log is looked at.
    pub(crate) const fn workspace_no(&self) -> u32 {
        self.records.workspace_no
    }

    /// Takes note of what changes the answers of before.
    pub(crate) fn pass(&mut self, event: &LoggedEvent) {
        if let Some(RelayEvent::ChannelMemberJoined(change) | RelayEvent::ChannelMemberLeft(change)) =
            &event.event
            && let Some(channel) = change.channel.id
        {
            self.records.rooms.remove(&channel.uuid());
        }
    }

    /// The event as it is seen; nothing when it is not.
    pub(crate) fn at(&mut self, event: &Arc<StoredEvent>) -> Result<Option<Arc<StoredEvent>>> {
        Ok(match sight(&self.eyes, &event.event, &mut self.records)? {
            Sight::Whole => Some(event.clone()),
            Sight::Trimmed => Some(Arc::new(StoredEvent::new(
                trimmed(&event.event),
                event.size,
            ))),
            Sight::Hidden => None,
        })
    }
}

impl Oracle for Records {
    fn is_in(&mut self, room: Uuid) -> Result<bool> {
        let Some(agent) = self.agent else {
            return Ok(true);
        };
        if let Some(known) = self.rooms.get(&room) {
            return Ok(*known);
        }
        let found = self.store.is_member(agent, room).wait()?;
        if self.rooms.len() >= REMEMBERED {
            self.rooms.clear();
        }
        self.rooms.insert(room, found);
        Ok(found)
    }

    fn is_in_channel(&mut self, name: &str) -> Result<bool> {
        match self.store.channel(self.workspace_no, name).wait() {
            Ok(channel) if channel.archived_at.is_none() => self.is_in(channel.id.uuid()),
            Ok(_) | Err(Error::UnknownChannel { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn has_part_in(&mut self, call: InvocationId) -> Result<bool> {
        let viewer = Viewer {
            workspace_no: self.workspace_no,
            agent: self.agent,
        };
        match self.store.invocation(viewer, call).wait() {
            Ok(_) => Ok(true),
            Err(Error::UnknownInvocation(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn whereabouts(&mut self, message: MessageId) -> Result<Option<Whereabouts>> {
        let viewer = Viewer {
            workspace_no: self.workspace_no,
            agent: None,
        };
        match self.store.message(viewer, message).wait() {
            Ok(view) => Ok(Some(subject::whereabouts(&view.message))),
            Err(Error::UnknownMessage(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
