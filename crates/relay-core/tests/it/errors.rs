//! Everything that can be wrong in an input has a named error, says what was expected and found, and
//! changes nothing. Limits hold at their edge: the limit itself passes, one more does not.

mod content;
mod ids;
mod limits;
mod names;
mod rights;
mod sends;

use std::future::Future;

use relay_core::environment::Clock as _;
use relay_core::store::sqlite::Synchronous;
use relay_core::{Caller, Result};
use relay_protocol::api::messages::{NewAttachment, SendMessage, SendTarget};
use relay_protocol::api::workspace::{CreateChannel, UpdateChannel};
use relay_protocol::ids::{DeliveryId, MessageId};
use relay_protocol::message::RelayMessageTarget;
use relay_protocol::problem::{ErrorCode, Problem};
use relay_protocol::time::Timestamp;
use relay_protocol::wire;

use crate::support::{SqliteWorld, World, named, target};

/// A world in which inputs are refused.
struct Lab {
    world: SqliteWorld,
    alice: Caller,
    bob: Caller,
}

impl std::ops::Deref for Lab {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl Lab {
    /// Alice and Bob are in `#dev` and `#general`, Carol only in the latter.
    async fn new() -> Self {
        let world = SqliteWorld::with(|options| options.synchronous = Synchronous::Off).await;
        let [alice, bob, _] = world.agents(["alice", "bob", "carol"]).await;
        world.channel(&alice, "dev", &["bob"]).await;
        Self { world, alice, bob }
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Checks that an input is refused with this code and that nothing was written.
    async fn refuses<T>(
        &self,
        name: &str,
        code: ErrorCode,
        asked: impl Future<Output = Result<T>>,
    ) -> Problem {
        let before = self.head().await;
        let Err(error) = asked.await else {
            panic!("{name}: was accepted")
        };
        assert_eq!(error.code(), code, "{name}: {error}");
        let problem = error.problem();
        let (status, title, retryable) = code.facts();
        assert_eq!(problem.status, status, "{name}");
        assert_eq!(
            (problem.title.as_str(), problem.retryable),
            (title, retryable)
        );
        assert_eq!(problem.detail, error.to_string());
        let says_both = problem.expected.is_some() && problem.found.is_some();
        assert!(
            says_both || !COMPARES.contains(&code),
            "{name}: {problem:?}"
        );
        let json = serde_json::to_vec(&problem).unwrap();
        assert_eq!(wire::decode::<Problem>(&json).unwrap(), problem);
        assert_eq!(self.head().await, before, "{name}: nothing was written");
        problem
    }

    async fn refuses_send(&self, name: &str, code: ErrorCode, body: SendMessage) -> Problem {
        self.refuses(name, code, self.engine.send(&self.alice, body))
            .await
    }

    /// Checks that a send with this content is refused.
    async fn refuses_content(&self, name: &str, code: ErrorCode, content: NewAttachment) {
        self.refuses_send(name, code, with(vec![content])).await;
    }

    /// A workspace beside this one in the same store, with one agent, and a message to `#general`.
    async fn foreign(&self) -> (Caller, Caller, MessageId, DeliveryId) {
        let owner = Caller::process_owner();
        let created = self.engine.create_workspace(&owner, "other").await.unwrap();
        let key = self
            .engine
            .authenticate(&created.workspace_key)
            .await
            .unwrap();
        let agent = self
            .engine
            .register_agent(&key, named("mallory"))
            .await
            .unwrap();
        let agent = self.engine.authenticate(&agent.token).await.unwrap();
        let body = SendMessage::text(target("#general"), "ours");
        let sent = self.engine.send(&key, body).await.unwrap();
        (key, agent, sent.message_id, sent.deliveries[0].delivery_id)
    }
}

/// The codes of errors that compare something with what was expected.
const COMPARES: &[ErrorCode] = &[
    ErrorCode::InvalidRequest,
    ErrorCode::InvalidName,
    ErrorCode::EmptyText,
    ErrorCode::TextTooLong,
    ErrorCode::BadAttachment,
    ErrorCode::BadCursor,
    ErrorCode::BadPolicy,
    ErrorCode::LimitExceeded,
];

fn post(text: impl Into<String>) -> SendMessage {
    SendMessage::text(target("#dev"), text)
}

fn to(target: RelayMessageTarget) -> SendMessage {
    SendMessage::text(SendTarget::Target(target), "hello")
}

fn channel(name: &str) -> CreateChannel {
    CreateChannel {
        name: name.to_owned(),
        topic: None,
    }
}

fn with(attachments: Vec<NewAttachment>) -> SendMessage {
    SendMessage {
        attachments: Some(attachments),
        ..post("look")
    }
}

fn topic(topic: String) -> UpdateChannel {
    UpdateChannel {
        topic: Some(topic),
        archived: None,
    }
}
