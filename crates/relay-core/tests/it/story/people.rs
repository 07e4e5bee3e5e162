//! Workspaces, agents, tokens and channels.

use relay_core::{Caller, Error};
use relay_protocol::agent::AgentType;
use relay_protocol::api::workspace::{CreateChannel, RegisterAgent, UpdateChannel};
use relay_protocol::delivery::DeliveryState;
use relay_protocol::event::RelayEvent;
use relay_protocol::limits::TOKEN_GRACE_MS;
use relay_protocol::policy::PolicyPatch;
use relay_protocol::problem::ErrorCode;
use serde_json::json;

use super::{Cast, DM, REGISTERED, Tale};
use crate::support::{all, named};

impl Tale {
    pub(super) async fn the_server_has_a_key(&mut self) {
        let owner = Caller::process_owner();
        let first = self.engine.create_admin_key(&owner).await.unwrap();
        let admin = self.engine.authenticate(&first).await.unwrap();
        let second = self.engine.create_admin_key(&admin).await.unwrap();
        let refused = self.engine.authenticate(&first).await;
        assert_eq!(refused.unwrap_err(), Error::Unauthorized);
        let admin = self.engine.authenticate(&second).await.unwrap();
        let opened = self.engine.open_workspace(&admin, self.workspace_id).await;
        assert_eq!(opened.unwrap().workspace().unwrap().name, "lab");
        self.logs_nothing().await;
    }

    pub(super) async fn the_workspace_is_named_and_has_a_policy(&mut self) {
        self.engine
            .rename_workspace(&self.key, "The Lab")
            .await
            .unwrap();
        let events = self.logs(&["workspace.updated"]).await;
        let Some(RelayEvent::WorkspaceUpdated(updated)) = &events[0].event else {
            panic!("{events:?}")
        };
        assert_eq!(
            (updated.name.as_str(), updated.policy_version),
            ("The Lab", 1)
        );

        let before = self.engine.policy(&self.key).unwrap();
        let patch = PolicyPatch {
            default_deadline_ms: Some(60_000),
            version: Some(1),
            ..PolicyPatch::default()
        };
        let after = self.engine.update_policy(&self.key, patch).await.unwrap();
        assert_eq!((after.default_deadline_ms, after.version), (60_000, 2));
        assert_eq!(after.retry, before.retry);
        assert_eq!(self.engine.policy(&self.key).unwrap(), after);
        self.logs(&["workspace.updated"]).await;
    }

    pub(super) async fn agents_register(&mut self) -> Cast {
        let alice = self.agent("alice").await;
        self.logs(REGISTERED).await;
        let registered = self.engine.register_agent(&self.key, named("Bob")).await;
        let bobs_first_token = registered.unwrap().token;
        let bob = self.engine.authenticate(&bobs_first_token).await.unwrap();
        self.know("Bob", &bob);
        self.logs(REGISTERED).await;
        let human = RegisterAgent {
            agent_type: Some(AgentType::Human),
            metadata: Some([("team".to_owned(), json!("ops"))].into_iter().collect()),
            ..named("carol")
        };
        let registered = self.engine.register_agent(&self.key, human).await.unwrap();
        assert_eq!(registered.agent.handle, "@carol");
        let carol = self.engine.authenticate(&registered.token).await.unwrap();
        self.know("carol", &carol);
        let events = self.logs(REGISTERED).await;
        let Some(RelayEvent::AgentRegistered(event)) = &events[0].event else {
            panic!("{events:?}")
        };
        assert_eq!(event.agent, registered.agent);

        let found = self.engine.agent(&alice, "@CAROL").await.unwrap();
        assert_eq!(found, registered.agent);
        let names = self.engine.agents(&alice, all()).await.unwrap().items;
        let names: Vec<_> = names.iter().map(|agent| agent.name.as_str()).collect();
        assert_eq!(names, ["alice", "Bob", "carol"]);
        let taken = self.engine.register_agent(&self.key, named("bob")).await;
        assert_eq!(taken.unwrap_err().code(), ErrorCode::NameTaken);
        self.logs_nothing().await;
        Cast {
            alice,
            bob,
            carol,
            bobs_first_token,
        }
    }

    pub(super) async fn a_name_is_adopted(&mut self, cast: &Cast) {
        let adopting = RegisterAgent {
            adopt: Some(true),
            metadata: Some([("model".to_owned(), json!("m1"))].into_iter().collect()),
            ..named("BOB")
        };
        let adopted = self.engine.register_agent(&self.key, adopting).await;
        let adopted = adopted.unwrap();
        assert_eq!(adopted.agent.id, cast.bob.agent().unwrap().id);
        assert_eq!(adopted.agent.name, "Bob");
        assert_ne!(adopted.token, cast.bobs_first_token);
        let events = self.logs(&["agent.registered", "token.rotated"]).await;
        let Some(RelayEvent::AgentRegistered(event)) = &events[0].event else {
            panic!("{events:?}")
        };
        assert_eq!(
            (event.reason.as_deref(), event.by.as_deref()),
            (Some("adopted"), Some("relay"))
        );
        self.engine.authenticate(&adopted.token).await.unwrap();
        let data = [("model".to_owned(), json!("m2"))].into_iter().collect();
        let updated = self
            .engine
            .update_agent(&cast.bob, "bob", data)
            .await
            .unwrap();
        assert_eq!(updated.metadata.unwrap()["model"], "m2");
        self.logs_nothing().await;
    }

    pub(super) async fn a_token_is_replaced(&mut self, cast: &Cast) {
        let mine = self.engine.rotate_token(&cast.alice, "@Alice").await;
        let first = mine.unwrap();
        assert_eq!(first.grace_until.as_millis() - self.now(), TOKEN_GRACE_MS);
        let second = self.engine.rotate_token(&self.key, "alice").await.unwrap();
        self.engine.authenticate(&first.token).await.unwrap();
        self.clock.advance(TOKEN_GRACE_MS - 1);
        self.engine.authenticate(&first.token).await.unwrap();
        self.clock.advance(1);
        let late = self.engine.authenticate(&first.token).await;
        assert_eq!(late.unwrap_err(), Error::Unauthorized);
        self.engine.authenticate(&second.token).await.unwrap();
        let events = self.logs(&["token.rotated", "token.rotated"]).await;
        let by = events.iter().map(|event| match &event.event {
            Some(RelayEvent::TokenRotated(event)) => event.by.clone(),
            other => panic!("{other:?}"),
        });
        let by: Vec<_> = by.map(Option::unwrap).collect();
        assert_eq!(by, ["alice", "relay"]);
    }

    pub(super) async fn channels_come_and_go(&mut self, cast: &Cast) {
        let Cast {
            alice, bob, carol, ..
        } = cast;
        let body = CreateChannel {
            name: "#Dev".to_owned(),
            topic: Some("the code".to_owned()),
        };
        let channel = self.engine.create_channel(alice, body).await.unwrap();
        assert_eq!(
            (channel.name.as_str(), channel.member_count),
            ("Dev", Some(1))
        );
        self.logs(&["channel.created", "channel.member_joined"])
            .await;
        let topic = |topic: &str| UpdateChannel {
            topic: Some(topic.to_owned()),
            archived: None,
        };
        let changed = self
            .engine
            .update_channel(alice, "dev", topic("code"))
            .await;
        assert_eq!(changed.unwrap().topic.as_deref(), Some("code"));
        let removed = self
            .engine
            .update_channel(&self.key, "dev", topic(""))
            .await;
        assert_eq!(removed.unwrap().topic, None);
        self.logs(&["channel.updated", "channel.updated"]).await;

        let joined = self.engine.join_channel(bob, "#dev").await.unwrap();
        assert_eq!(joined.member_count, Some(2));
        self.logs(&["channel.member_joined"]).await;
        self.engine.join_channel(bob, "dev").await.unwrap();
        self.logs_nothing().await;
        let invited = ["@carol".to_owned(), "bob".to_owned()];
        self.engine.invite(alice, "dev", &invited).await.unwrap();
        let events = self.logs(&["channel.member_joined"]).await;
        let Some(RelayEvent::ChannelMemberJoined(event)) = &events[0].event else {
            panic!("{events:?}")
        };
        assert_eq!(
            (event.agent_name.as_str(), event.by.as_deref()),
            ("carol", Some("alice"))
        );
        let members = self
            .engine
            .channel_members(carol, "dev", all())
            .await
            .unwrap();
        let names: Vec<_> = members
            .items
            .iter()
            .map(|m| m.agent.name.as_str())
            .collect();
        assert_eq!(names, ["alice", "Bob", "carol"]);
        let left = self.engine.leave_channel(carol, "dev").await.unwrap();
        assert_eq!(left.member_count, Some(2));
        self.logs(&["channel.member_left"]).await;
        self.engine.leave_channel(carol, "dev").await.unwrap();
        self.logs_nothing().await;
        self.the_channel_is_archived(alice).await;

        let channels = self.engine.channels(carol, all()).await.unwrap().items;
        let names: Vec<_> = channels
            .iter()
            .map(|channel| channel.name.as_str())
            .collect();
        assert_eq!(names, ["Dev", "general"]);
        assert_eq!(channels[0], self.engine.channel(bob, "#DEV").await.unwrap());
        let body = CreateChannel {
            name: "dev".to_owned(),
            topic: None,
        };
        let taken = self.engine.create_channel(&self.key, body).await;
        assert_eq!(taken.unwrap_err().code(), ErrorCode::NameTaken);
        self.logs_nothing().await;
    }

    async fn the_channel_is_archived(&mut self, member: &Caller) {
        let archived = |archived| UpdateChannel {
            topic: None,
            archived: Some(archived),
        };
        let closed = self
            .engine
            .update_channel(member, "dev", archived(true))
            .await;
        assert_eq!(closed.unwrap().archived_at.unwrap().as_millis(), self.now());
        let refused = self.try_send(member, "#dev", "anybody?").await;
        assert_eq!(refused.unwrap_err().code(), ErrorCode::ChannelArchived);
        let open = self
            .engine
            .update_channel(member, "dev", archived(false))
            .await;
        assert_eq!(open.unwrap().archived_at, None);
        self.logs(&["channel.updated", "channel.updated"]).await;
    }

    pub(super) async fn a_released_agent_is_gone(&mut self, cast: &Cast) {
        let frank = self
            .engine
            .register_agent(&self.key, named("frank"))
            .await
            .unwrap();
        let caller = self.engine.authenticate(&frank.token).await.unwrap();
        let waiting = self.send(&cast.alice, "@frank", "are you there?").await;
        self.logs(&[REGISTERED, DM].concat()).await;
        let released = self
            .engine
            .release_agent(&caller, "frank", Some("done"))
            .await;
        released.unwrap();
        let events = self
            .logs(&["delivery.failed", "token.revoked", "agent.released"])
            .await;
        let (Some(RelayEvent::TokenRevoked(revoked)), Some(RelayEvent::AgentReleased(gone))) =
            (&events[1].event, &events[2].event)
        else {
            panic!("{events:?}")
        };
        assert_eq!(
            (revoked.by.as_deref(), gone.by.as_deref()),
            (Some("frank"), Some("frank"))
        );
        let Some(RelayEvent::DeliveryFailed(failed)) = &events[0].event else {
            panic!("{events:?}")
        };
        assert_eq!(failed.delivery_id, waiting.deliveries[0].delivery_id);
        assert_eq!(
            (failed.reason.as_str(), failed.terminal),
            ("agent_released", Some(true))
        );
        assert_eq!(failed.message, waiting.message);
        assert_eq!(json!(events[2])["reason"], "done");
        let stored = self
            .engine
            .deliveries(&cast.alice, waiting.message_id)
            .await
            .unwrap();
        assert_eq!(stored[0].state, DeliveryState::Failed);
        let dead = self.engine.authenticate(&frank.token).await;
        assert_eq!(dead.unwrap_err(), Error::Unauthorized);
        let late = self.try_send(&caller, "#general", "I am still here").await;
        assert_eq!(late.unwrap_err().code(), ErrorCode::AgentReleased);
        let unknown = self.try_send(&cast.alice, "@frank", "hello?").await;
        assert_eq!(unknown.unwrap_err().code(), ErrorCode::UnknownAgent);
        let general = self
            .engine
            .channel_members(&cast.alice, "general", all())
            .await
            .unwrap();
        assert!(
            general
                .items
                .iter()
                .all(|member| member.agent.name != "frank")
        );
        self.logs_nothing().await;

        let second = self
            .engine
            .register_agent(&self.key, named("Frank"))
            .await
            .unwrap();
        assert_ne!(second.agent.id, frank.agent.id);
        let caller = self.engine.authenticate(&second.token).await.unwrap();
        assert_eq!(self.inbox(&caller).await.unread, 0);
        self.logs(REGISTERED).await;
        let sent = self.send(&cast.alice, "@frank", "you are new").await;
        assert_ne!(sent.message.to, waiting.message.to);
        self.logs(&["message.created", "dm.received", "delivery.created"])
            .await;
    }
}
