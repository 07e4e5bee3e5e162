//! What clients are told without asking: that tools or resources changed.
//!
//! Nothing here asks again and again. One listener on the agent's events hears of messages, of channels, and of actions that
//! come and go. Whether the tools changed takes a look at the actions: which of them the agent may call also depends on the
//! channels that it is in. So whatever may have to do with it ([`of`]) leads to one look, and clients are told when the actions
//! differ from what they were told last ([`Listed`]). A call that finds its action gone leads to one, too.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, MutexGuard, PoisonError};

use relay_protocol::event::{MessageEvent, RelayEvent};
use relay_protocol::ids::MessageId;
use relay_sdk::{ErrorCode, Filter};
use rmcp::model::Tool;

/// Something that a client may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// There are other tools than before.
    Tools,
    /// There are other channels than before.
    Channels,
    /// A message is new or says something else.
    Message {
        /// The channel that it is in.
        channel: Option<String>,
        /// The message.
        id: MessageId,
        /// The one that it answers.
        parent: Option<MessageId>,
    },
}

/// What an event is a reason for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// To tell clients.
    Tell(News),
    /// To look whether the tools are others.
    LookAtTools,
}

/// The events that [`of`] wants to see.
pub(crate) fn wanted() -> Filter {
    let named = [
        "message.created",
        "message.updated",
        "channel.*",
        "action.*",
    ];
    Filter {
        or: Some(named.map(|name| Filter::event(name.to_owned())).to_vec()),
        ..Filter::default()
    }
}

/// What follows from an event.
pub(crate) fn of(event: &RelayEvent) -> Vec<Reason> {
    use RelayEvent as Event;
    match event {
        Event::MessageCreated(event) | Event::MessageUpdated(event) => {
            vec![Reason::Tell(message(event))]
        }
        Event::ChannelCreated(_) | Event::ChannelUpdated(_) => {
            vec![Reason::Tell(News::Channels)]
        }
        // Actions may be for the members of a channel, and everybody who comes or goes brings or takes actions.
        Event::ChannelMemberJoined(_) | Event::ChannelMemberLeft(_) => vec![Reason::LookAtTools],
        Event::ActionRegistered(_) | Event::ActionRemoved(_) => vec![Reason::LookAtTools],
        // The action may be gone, or not for this agent any more.
        Event::ActionDenied(_) | Event::ActionFailed(_) => vec![Reason::LookAtTools],
        _ => Vec::new(),
    }
}

fn message(event: &MessageEvent) -> News {
    let message = &event.message;
    let channel = message.channel.as_ref();
    News::Message {
        channel: channel.and_then(|channel| channel.name.clone()),
        id: message.id,
        parent: message.parent,
    }
}

/// Whether a call that was refused for this reason says something about the tools.
pub(crate) const fn is_about_tools(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::UnknownAction | ErrorCode::Forbidden)
}

/// What the client knows of the actions' tools: a digest of the list that it was told last.
#[derive(Default)]
pub(crate) struct Listed {
    state: Mutex<ListedState>,
}

#[derive(Default)]
struct ListedState {
    /// Of a list that is told page by page, what was told so far.
    under_way: Digest,
    told: Option<u64>,
}

/// A digest of tools, in their order.
#[derive(Clone, Default)]
pub(crate) struct Digest(DefaultHasher);

impl Digest {
    pub(crate) fn add(&mut self, tools: &[Tool]) {
        for tool in tools {
            tool.name.hash(&mut self.0);
            tool.description.hash(&mut self.0);
            let schema = serde_json::to_string(&*tool.input_schema);
            schema.unwrap_or_default().hash(&mut self.0);
        }
    }
}

/// Where a page is in its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) is_first: bool,
    pub(crate) is_last: bool,
}

impl Listed {
    /// A page of actions' tools is told to the client.
    pub(crate) fn page(&self, tools: &[Tool], place: Place) {
        let mut state = self.state();
        if place.is_first {
            state.under_way = Digest::default();
        }
        state.under_way.add(tools);
        if place.is_last {
            state.told = Some(state.under_way.0.finish());
        }
    }

    /// The tools are these, and the client is taken to know them.
    pub(crate) fn know(&self, digest: &Digest) {
        self.state().told = Some(digest.0.finish());
    }

    /// Whether a client has been told a list at all.
    pub(crate) fn is_told(&self) -> bool {
        self.state().told.is_some()
    }

    /// The tools are these now: whether that is news to the client. It is told once.
    pub(crate) fn is_news(&self, digest: &Digest) -> bool {
        let mut state = self.state();
        let now = Some(digest.0.finish());
        let is_news = state.told.is_some() && state.told != now;
        if is_news {
            state.told = now;
        }
        is_news
    }

    fn state(&self) -> MutexGuard<'_, ListedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    reason = "whatever is not as expected ends the test"
)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    const ID: &str = "01963a5c-0000-7000-8000-000000000001";

    fn event(value: Value) -> RelayEvent {
        serde_json::from_value(value).unwrap()
    }

    fn message(kind: &str) -> RelayEvent {
        event(json!({
            "type": kind,
            "message": {
                "id": ID, "messageId": ID, "from": { "name": "ada" },
                "to": { "kind": "channel", "channelName": "general" },
                "channel": { "name": "general" }, "parent": ID,
                "text": "x", "attachments": [], "mentions": [],
                "createdAt": "2026-11-16T00:00:00.000Z", "version": 1,
            },
            "envelope": {},
        }))
    }

    #[test]
    fn what_follows_from_events() {
        let told = Reason::Tell(News::Message {
            channel: Some("general".to_owned()),
            id: ID.parse().unwrap(),
            parent: Some(ID.parse().unwrap()),
        });
        let channel =
            json!({ "id": ID, "name": "general", "createdAt": "2026-11-16T00:00:00.000Z" });
        let member = |kind: &str| {
            event(
                json!({ "type": kind, "channel": { "name": "general" }, "agentId": ID, "agentName": "bob" }),
            )
        };
        let action = |kind: &str| {
            event(json!({
                "type": kind, "action": "deploy", "agent": { "name": "ada" },
                "at": "2026-11-16T00:00:00.000Z",
            }))
        };
        for (event, expected) in [
            (message("message.created"), vec![told.clone()]),
            (message("message.updated"), vec![told]),
            (message("thread.reply"), vec![]),
            (
                event(json!({ "type": "channel.created", "channel": channel })),
                vec![Reason::Tell(News::Channels)],
            ),
            (member("channel.member_joined"), vec![Reason::LookAtTools]),
            (member("channel.member_left"), vec![Reason::LookAtTools]),
            (action("action.registered"), vec![Reason::LookAtTools]),
            (action("action.removed"), vec![Reason::LookAtTools]),
            (action("action.denied"), vec![Reason::LookAtTools]),
            (action("action.failed"), vec![Reason::LookAtTools]),
            (action("action.invoked"), vec![]),
            (action("action.completed"), vec![]),
        ] {
            assert_eq!(of(&event), expected, "{event:?}");
        }
    }

    fn tools(names: &[&'static str]) -> Vec<Tool> {
        let tool = |name: &&'static str| Tool::new(*name, "does it", Arc::default());
        names.iter().map(tool).collect()
    }

    fn digest(names: &[&'static str]) -> Digest {
        let mut digest = Digest::default();
        digest.add(&tools(names));
        digest
    }

    #[test]
    fn only_who_knows_a_list_is_told_that_it_changed_and_once() {
        let listed = Listed::default();
        assert!(
            !listed.is_news(&digest(&["a"])),
            "nobody has asked for a list"
        );
        let whole = |is_first, is_last| Place { is_first, is_last };
        listed.page(&tools(&["a"]), whole(true, false));
        assert!(!listed.is_told(), "the list is not whole");
        listed.page(&tools(&["b"]), whole(false, true));
        assert!(
            !listed.is_news(&digest(&["a", "b"])),
            "pages make no difference"
        );
        assert!(listed.is_news(&digest(&["a"])));
        assert!(!listed.is_news(&digest(&["a"])));
        listed.page(&tools(&["c"]), whole(true, true));
        assert!(listed.is_news(&digest(&["a"])), "a new list counts anew");
    }
}
