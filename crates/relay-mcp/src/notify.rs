//! Tells a client the news it asked for.
//!
//! Clients of before 2026-07-28 are told everything about lists, and of resources those that they subscribed to, from
//! `initialized` to the end of the connection. Newer ones open `subscriptions/listen` and say what they want to hear.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use relay_protocol::ids::MessageId;
use relay_sdk::AgentClient;
use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::service::{Peer, SubscriptionSink};
use rmcp::{ErrorData, RoleServer};

use crate::limits::{KNOWN_REPLIES, THREAD_DEPTH, WATCHED_RESOURCES};
use crate::news::News;
use crate::resources::Address;

/// One thing that a client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    Tools,
    Resources,
    Resource(String),
}

/// Whom it is told.
#[derive(Clone)]
pub(crate) enum Ear {
    /// A whole connection.
    Peer(Peer<RoleServer>),
    /// One subscription; what was not asked for is left out.
    Sink(SubscriptionSink),
}

impl Ear {
    /// Tells it; false when nobody listens any more.
    pub(crate) async fn tell(&self, notice: Notice) -> bool {
        match self {
            Self::Peer(peer) => tell_peer(peer, notice).await,
            Self::Sink(sink) => tell_sink(sink, notice).await,
        }
    }
}

async fn tell_peer(peer: &Peer<RoleServer>, notice: Notice) -> bool {
    let told = match notice {
        Notice::Tools => peer.notify_tool_list_changed().await,
        Notice::Resources => peer.notify_resource_list_changed().await,
        Notice::Resource(uri) => {
            let what = ResourceUpdatedNotificationParam::new(uri);
            peer.notify_resource_updated(what).await
        }
    };
    told.is_ok()
}

async fn tell_sink(sink: &SubscriptionSink, notice: Notice) -> bool {
    let wanted = sink.accepted();
    let told = match notice {
        Notice::Tools if wanted.tools_list_changed == Some(true) => {
            sink.notify_tool_list_changed().await
        }
        Notice::Resources if wanted.resources_list_changed == Some(true) => {
            sink.notify_resource_list_changed().await
        }
        // Only what the client named is ever looked up.
        Notice::Resource(uri) => sink.notify_resource_updated(uri).await,
        Notice::Tools | Notice::Resources => return true,
    };
    told.is_ok()
}

/// The resources that somebody watches, each as the client spelled it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched(BTreeSet<String>);

impl Watched {
    /// Those of a subscription. What is no address is never news.
    pub(crate) fn of(uris: &[String]) -> Self {
        Self(uris.iter().take(WATCHED_RESOURCES).cloned().collect())
    }

    pub(crate) fn add(&mut self, uri: &str) -> Result<(), ErrorData> {
        uri.parse::<Address>()
            .map_err(|why| ErrorData::resource_not_found(why, None))?;
        if self.0.len() >= WATCHED_RESOURCES && !self.0.contains(uri) {
            let why = format!("expected at most {WATCHED_RESOURCES} subscriptions, found one more");
            return Err(ErrorData::invalid_params(why, None));
        }
        self.0.insert(uri.to_owned());
        Ok(())
    }

    pub(crate) fn remove(&mut self, uri: &str) {
        self.0.remove(uri);
    }

    /// What a client that missed something is told: anything may have changed.
    pub(crate) fn everything(&self) -> Vec<Notice> {
        let lists = [Notice::Tools, Notice::Resources];
        lists
            .into_iter()
            .chain(self.0.iter().cloned().map(Notice::Resource))
            .collect()
    }

    /// What news mean for whoever watches these.
    pub(crate) async fn notices(
        &self,
        news: News,
        threads: &Threads,
        client: &AgentClient,
    ) -> Vec<Notice> {
        match news {
            News::Tools => vec![Notice::Tools],
            News::Channels => vec![Notice::Resources],
            News::Message {
                channel,
                id,
                parent,
            } => {
                let root = match self.watches_threads() {
                    true => threads.root(client, id, parent).await,
                    false => None,
                };
                self.touched(channel.as_deref(), root)
            }
        }
    }

    fn watches_threads(&self) -> bool {
        self.addresses()
            .any(|(_, address)| matches!(address, Address::Thread(_)))
    }

    /// Which of these a message in this channel and thread changes.
    fn touched(&self, in_channel: Option<&str>, of_thread: Option<MessageId>) -> Vec<Notice> {
        let touches = |address: &Address| match address {
            Address::Channel(name) => in_channel.is_some_and(|it| it.eq_ignore_ascii_case(name)),
            Address::Thread(root) => of_thread == Some(*root),
            // Content does not change.
            Address::Attachment(..) => false,
        };
        self.addresses()
            .filter(|(_, address)| touches(address))
            .map(|(uri, _)| Notice::Resource(uri.clone()))
            .collect()
    }

    fn addresses(&self) -> impl Iterator<Item = (&String, Address)> {
        self.0
            .iter()
            .filter_map(|uri| Some((uri, uri.parse().ok()?)))
    }
}

/// Where threads begin: a reply says which message it answers, which may be a reply itself.
#[derive(Default)]
pub(crate) struct Threads {
    roots: Mutex<HashMap<MessageId, MessageId>>,
}

impl Threads {
    /// The message that the thread of a message begins with; none when it can't be found.
    async fn root(
        &self,
        client: &AgentClient,
        message: MessageId,
        parent: Option<MessageId>,
    ) -> Option<MessageId> {
        let Some(parent) = parent else {
            return Some(message);
        };
        let mut at = parent;
        let mut passed = vec![message];
        for _ in 0..THREAD_DEPTH {
            if let Some(root) = self.known(at) {
                return Some(self.remember(&passed, root));
            }
            match client.message(at).await.ok()?.message.parent {
                None => return Some(self.remember(&passed, at)),
                Some(parent) => {
                    passed.push(at);
                    at = parent;
                }
            }
        }
        None
    }

    fn known(&self, reply: MessageId) -> Option<MessageId> {
        self.roots().get(&reply).copied()
    }

    fn remember(&self, replies: &[MessageId], root: MessageId) -> MessageId {
        let mut roots = self.roots();
        // What is forgotten is looked up again.
        if roots.len() >= KNOWN_REPLIES {
            roots.clear();
        }
        roots.extend(replies.iter().map(|reply| (*reply, root)));
        root
    }

    fn roots(&self) -> MutexGuard<'_, HashMap<MessageId, MessageId>> {
        self.roots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    reason = "whatever is not as expected ends the test"
)]
mod tests {
    use super::*;

    const ONE: &str = "01963a5c-0000-7000-8000-000000000001";
    const TWO: &str = "01963a5c-0000-7000-8000-000000000002";

    #[test]
    fn what_a_message_changes() {
        let thread = format!("relay://thread/{ONE}");
        let mut watched = Watched::default();
        watched.add("relay://channel/General").unwrap();
        watched.add(&thread).unwrap();
        let check = |channel: Option<&str>, thread: &str, expected: &[&str]| {
            let expected: Vec<_> = expected
                .iter()
                .map(|uri| Notice::Resource((*uri).to_owned()))
                .collect();
            assert_eq!(
                watched.touched(channel, Some(thread.parse().unwrap())),
                expected
            );
        };
        check(Some("general"), TWO, &["relay://channel/General"]);
        check(Some("general"), ONE, &["relay://channel/General", &thread]);
        check(Some("other"), TWO, &[]);
        check(None, ONE, &[&thread]);
    }

    #[test]
    fn only_what_can_be_read_is_watched_and_not_too_much() {
        let mut watched = Watched::default();
        assert!(watched.add("file:///etc/passwd").is_err());
        for number in 0..WATCHED_RESOURCES {
            watched.add(&format!("relay://channel/c{number}")).unwrap();
        }
        assert!(watched.add("relay://channel/more").is_err());
        assert!(
            watched.add("relay://channel/c0").is_ok(),
            "again is no more"
        );
        watched.remove("relay://channel/c0");
        assert!(watched.add("relay://channel/more").is_ok());
        assert_eq!(watched.everything().len(), WATCHED_RESOURCES + 2);
    }
}
