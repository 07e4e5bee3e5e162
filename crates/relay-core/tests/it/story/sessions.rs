//! The life of sessions, and what they report.

use relay_core::Error;
use relay_core::store::{NewSession, PageRequest, ReportKind, Reported, SessionTurn, Viewer};
use relay_protocol::delivery::DeliveryState;
use relay_protocol::event::RelayEvent;
use relay_protocol::ids::{DeliveryId, InvocationId, MessageId};
use relay_protocol::problem::ErrorCode;
use relay_protocol::session_event::{
    ActionInvokedReport, AgentSessionEvent, AgentSessionEventType, LogLevel, LogLine,
    MessageReceivedReport, SessionStarted, ToolCalled,
};
use relay_protocol::status::AgentStatus;
use serde_json::json;

use super::{Cast, Tale};
use crate::backstage::{able, delivered, session_id, status};

/// What is logged when a session has one of the five states that have an event of their own.
const IDLE: [&str; 2] = ["agent.status.changed", "agent.status.idle"];
const ACTIVE: [&str; 2] = ["agent.status.changed", "agent.status.active"];
const OFFLINE: [&str; 2] = ["agent.status.changed", "agent.status.offline"];

impl Tale {
    pub(super) async fn sessions_come_and_go(&mut self, cast: &Cast) {
        let attached = self
            .behind
            .store
            .attach_session(self.behind.new_session("bob", 1))
            .await
            .unwrap();
        let session = &attached.session;
        assert_eq!(session.status, AgentStatus::Idle);
        assert_eq!(session.agent, cast.bob.agent().unwrap().no);
        assert_eq!(attached.head.seq(), self.head().await.seq);
        let events = self
            .logs(&[
                "session.started",
                "agent.status.changed",
                "agent.status.idle",
            ])
            .await;
        let started = json!(events[0]);
        assert_eq!(started["sessionId"], json!(session.id));
        assert_eq!(started["agentName"], "Bob");
        assert_eq!(started["event"]["type"], "session.started");
        assert_eq!(json!(events[1])["status"], "idle");

        self.turn(session, SessionTurn::Paused).await.unwrap();
        let events = self.logs(&["agent.status.changed"]).await;
        assert_eq!(json!(events[0])["previousStatus"], "idle");
        self.turn(session, SessionTurn::Paused).await.unwrap();
        self.logs_nothing().await;
        self.turn(session, SessionTurn::Resumed).await.unwrap();
        self.logs(&[&["session.resumed"][..], &IDLE].concat()).await;

        self.behind
            .report(session, 1, vec![status(AgentStatus::Active)])
            .await
            .unwrap();
        self.logs(&ACTIVE).await;
        let offline = self.turn(session, SessionTurn::Offline).await.unwrap();
        assert_eq!(offline.status_before, Some(AgentStatus::Active));
        self.logs(&OFFLINE).await;
        for (agent, number) in [("bob", 2), ("alice", 1)] {
            let refused = self.behind.resume(agent, number).await;
            assert_eq!(refused.unwrap_err(), Error::CannotResume);
        }
        let again = self.behind.resume("BOB", 1).await.unwrap().session;
        assert_eq!((again.no, again.id), (session.no, session.id));
        assert_eq!((again.status, again.acked), (AgentStatus::Active, 1));
        self.logs(&[&["session.resumed"][..], &ACTIVE].concat())
            .await;
        self.behind.resume("bob", 1).await.unwrap();
        self.logs(&["session.resumed"]).await;

        let early = self.turn(session, SessionTurn::Released).await;
        assert_eq!(early.unwrap_err().code(), ErrorCode::IllegalTransition);
        self.turn(session, SessionTurn::Releasing).await.unwrap();
        let released = self.turn(session, SessionTurn::Released).await.unwrap();
        assert_eq!(released.ended_at, Some(self.behind.now()));
        let events = self
            .logs(&[
                "agent.status.changed",
                "agent.status.changed",
                "session.released",
            ])
            .await;
        assert_eq!(json!(events[2])["reason"], "test");
        let after = self.turn(session, SessionTurn::Offline).await;
        assert_eq!(after.unwrap_err().code(), ErrorCode::IllegalTransition);
        let gone = self.behind.resume("bob", 1).await;
        assert_eq!(gone.unwrap_err(), Error::CannotResume);
        self.logs_nothing().await;
    }

    pub(super) async fn sessions_are_listed(&mut self, cast: &Cast) {
        let carols = self.behind.attach("carol", 3).await;
        let bobs = self.behind.attach("bob", 4).await;
        self.told += 6;
        self.logs_nothing().await;
        let store = self.behind.store.clone();
        let everything = self.behind.viewer();
        let of = |caller: &relay_core::Caller| Viewer {
            agent: Some(caller.agent().unwrap().no),
            ..everything
        };
        let found = store.session(everything, carols.id).await.unwrap();
        assert_eq!(found, carols);
        let own = store.session(of(&cast.carol), carols.id).await.unwrap();
        assert_eq!(own, carols);
        let foreign = store.session(of(&cast.bob), carols.id).await;
        assert_eq!(foreign.unwrap_err(), Error::UnknownSession(carols.id));
        let page = |cursor: Option<String>| PageRequest { cursor, limit: 2 };
        let newest = store.sessions(everything, None, page(None)).await.unwrap();
        assert_eq!(newest.items, [bobs.clone(), carols.clone()]);
        let rest = store.sessions(everything, None, page(newest.next_cursor));
        let ids: Vec<_> = rest.await.unwrap().items.iter().map(|row| row.id).collect();
        assert_eq!(ids, [session_id(1)]);
        let named = Some("Bob".to_owned());
        let of_bob = store.sessions(everything, named.clone(), page(None)).await;
        assert_eq!(of_bob.unwrap().items.len(), 2);
        let forbidden = store.sessions(of(&cast.carol), named, page(None)).await;
        assert_eq!(forbidden.unwrap_err().code(), ErrorCode::Forbidden);
        let open = store.open_sessions(relay_core::store::SessionNo(0), 10);
        assert_eq!(open.await.unwrap(), [carols.clone(), bobs.clone()]);
        let after = store.open_sessions(carols.no, 10).await.unwrap();
        assert_eq!(after, [bobs]);
        let runs = [store.begin_run().await, store.begin_run().await];
        assert_eq!(runs, [Ok(1), Ok(2)]);
        self.logs_nothing().await;
    }

    pub(super) async fn sessions_report(&mut self, cast: &Cast) {
        let session = self.behind.attach("bob", 5).await;
        let sent = self.send(&cast.alice, "@bob", "look").await;
        self.told += 6;
        self.logs_nothing().await;
        let id = sent.deliveries[0].delivery_id;
        let row = self.behind.row(id).await;
        let tool = AgentSessionEvent::ToolCalled(ToolCalled {
            run: None,
            tool: "bash".to_owned(),
            input: None,
        });
        let received = AgentSessionEvent::MessageReceived(MessageReceivedReport {
            message_id: sent.message_id,
            delivery_id: Some(id),
        });
        let started = AgentSessionEvent::SessionStarted(SessionStarted {
            session_id: session.id,
        });
        let reports = || {
            vec![
                status(AgentStatus::Active),
                status(AgentStatus::Active),
                ReportKind::Observation(Box::new(tool.clone())),
                status(AgentStatus::Active),
                ReportKind::Receipt {
                    delivery: id,
                    offer: Some(self.behind.offer(&session, &row, 1)),
                    receipt: delivered(id),
                },
                ReportKind::Known(Box::new(received.clone())),
                ReportKind::Known(Box::new(started.clone())),
                status(AgentStatus::Idle),
            ]
        };
        let stored = self.behind.report(&session, 1, reports()).await.unwrap();
        let expected = Reported {
            acked: 8,
            duplicates: 3,
        };
        assert_eq!(stored, expected);
        let again = self.behind.report(&session, 1, reports()).await.unwrap();
        assert_eq!((again.acked, again.duplicates), (8, 8));
        let told = [
            &ACTIVE[..],
            &["tool.called", "delivery.delivered", "message.received"],
            &IDLE[..],
        ];
        let events = self.logs(&told.concat()).await;
        let Some(RelayEvent::ToolCalled(report)) = &events[2].event else {
            panic!("{events:?}")
        };
        assert_eq!(
            (report.session_id, &report.event),
            (Some(session.id), &tool)
        );
        let told = json!(events[3]);
        assert_eq!(told["sessionId"], json!(session.id));
        assert_eq!(told["event"]["type"], "delivery.delivered");
        assert_eq!(self.behind.row(id).await.state, DeliveryState::Delivered);
        let row = self
            .behind
            .store
            .session(self.behind.viewer(), session.id)
            .await;
        assert_eq!(row.unwrap().acked, 8);
        self.reports_are_refused(cast, &session).await;
    }

    /// Nothing of a report is stored when a part of it can't be.
    async fn reports_are_refused(&mut self, cast: &Cast, session: &relay_core::store::SessionRow) {
        let others = self.send(&cast.alice, "@carol", "not for you").await;
        self.told += 3;
        self.logs_nothing().await;
        let others = others.deliveries[0].delivery_id;
        let known = |event| ReportKind::Known(Box::new(event));
        let nobody = DeliveryId::new(self.behind.now(), 9);
        let nothing = MessageId::new(self.behind.now(), 9);
        let receipt = |delivery| ReportKind::Receipt {
            delivery,
            offer: None,
            receipt: delivered(delivery),
        };
        let invoked = ActionInvokedReport {
            action: "build".to_owned(),
            invocation_id: InvocationId::new(self.behind.now(), 9),
        };
        let unseen = MessageReceivedReport {
            message_id: nothing,
            delivery_id: None,
        };
        let elsewhere = SessionStarted {
            session_id: session_id(99),
        };
        let cases = [
            (receipt(others), ErrorCode::UnknownDelivery),
            (receipt(nobody), ErrorCode::UnknownDelivery),
            (status(AgentStatus::Released), ErrorCode::IllegalTransition),
            (
                known(AgentSessionEvent::ActionInvoked(invoked)),
                ErrorCode::UnknownInvocation,
            ),
            (
                known(AgentSessionEvent::MessageReceived(unseen)),
                ErrorCode::UnknownMessage,
            ),
            (
                known(AgentSessionEvent::SessionStarted(elsewhere)),
                ErrorCode::UnknownSession,
            ),
        ];
        for (bad, code) in cases {
            let reports = vec![status(AgentStatus::Blocked), bad];
            let refused = self.behind.report(session, 9, reports).await;
            assert_eq!(refused.unwrap_err().code(), code);
            self.logs_nothing().await;
        }
        let gap = vec![status(AgentStatus::Blocked)];
        let gap = self.behind.report(session, 10, gap).await.unwrap_err();
        let problem = gap.problem();
        assert_eq!((problem.code, problem.status), (ErrorCode::EventGap, 409));
        assert_eq!(problem.expected.as_deref(), Some("9"));
        self.logs_nothing().await;
    }

    pub(super) async fn sessions_keep_to_what_they_declared(&mut self) {
        let mut modest = able();
        modest.events.emits = vec![AgentSessionEventType::StatusIdle];
        let new = NewSession {
            capabilities: modest,
            status: Some(AgentStatus::Starting),
            ..self.behind.new_session("carol", 6)
        };
        let attached = self.behind.store.attach_session(new).await.unwrap();
        self.logs(&["session.started", "agent.status.changed"])
            .await;
        let line = AgentSessionEvent::Log(LogLine {
            level: LogLevel::Info,
            message: "hello".to_owned(),
        });
        for bad in [
            ReportKind::Observation(Box::new(line)),
            status(AgentStatus::Active),
        ] {
            let refused = self.behind.report(&attached.session, 1, vec![bad]).await;
            let problem = refused.unwrap_err().problem();
            assert_eq!(problem.code, ErrorCode::CapabilityNotSupported);
            assert_eq!(problem.capability.as_deref(), Some("events.emits"));
        }
        let idle = vec![status(AgentStatus::Idle)];
        self.behind
            .report(&attached.session, 1, idle)
            .await
            .unwrap();
        self.logs(&IDLE).await;
        self.turn(&attached.session, SessionTurn::Failed)
            .await
            .unwrap();
        self.logs(&["agent.status.changed"]).await;
        let late = vec![status(AgentStatus::Idle)];
        let late = self.behind.report(&attached.session, 2, late).await;
        assert_eq!(late.unwrap_err().code(), ErrorCode::IllegalTransition);
    }

    pub(super) async fn sessions_are_forked(&mut self, cast: &Cast) {
        let parent = self.behind.attach("bob", 7).await;
        self.told += 3;
        let fork = self.behind.fork(&parent, 8, None).await.unwrap();
        assert_eq!((fork.agent, fork.parent), (parent.agent, Some(parent.id)));
        assert_eq!(fork.status, AgentStatus::Starting);
        assert!(fork.addressed_only && !fork.can_be_current());
        let events = self.logs(&["session.forked", "agent.status.changed"]).await;
        let told = json!(events[0]);
        assert_eq!(told["parentSessionId"], json!(parent.id));
        assert_eq!(told["event"]["parentSessionId"], json!(parent.id));
        self.turn(&fork, SessionTurn::Offline).await.unwrap();
        self.logs(&OFFLINE).await;
        let attached = self.behind.resume("bob", 8).await.unwrap();
        assert_eq!(attached.session.status, AgentStatus::Idle);
        self.logs(&[&["session.resumed"][..], &IDLE].concat()).await;

        let twin = self.behind.fork(&parent, 9, Some("twin")).await.unwrap();
        assert!(!twin.addressed_only);
        self.logs(&[
            "agent.registered",
            "channel.member_joined",
            "session.forked",
            "agent.status.changed",
        ])
        .await;
        let agent = self.engine.agent(&cast.bob, "twin").await.unwrap();
        assert_eq!(agent.agent_type, cast.bob.agent().unwrap().agent_type);
        let parents = NewSession {
            viewer: Viewer {
                agent: Some(parent.agent),
                ..self.behind.viewer()
            },
            resume: true,
            ..self.behind.new_session("twin", 9)
        };
        let by_parent = self.behind.store.attach_session(parents).await.unwrap();
        assert_eq!(by_parent.session.no, twin.no);
        self.logs(&[&["session.resumed"][..], &IDLE].concat()).await;

        let ended = self.behind.attach("carol", 10).await;
        self.turn(&ended, SessionTurn::Failed).await.unwrap();
        self.told += 4;
        let refused = self.behind.fork(&ended, 11, None).await;
        assert_eq!(refused.unwrap_err().code(), ErrorCode::IllegalTransition);
        self.engine
            .release_agent(&self.key, "twin", None)
            .await
            .unwrap();
        self.logs(&["agent.status.changed", "session.released", "agent.released"])
            .await;
        // What follows is about agents without sessions again.
        for session in [parent, attached.session] {
            self.turn(&session, SessionTurn::Failed).await.unwrap();
        }
        self.told += 2;
    }
}
