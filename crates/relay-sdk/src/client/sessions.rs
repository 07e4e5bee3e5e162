//! Sessions: serving one in this process, and directing those of others.

use relay_protocol::api::Page;
use relay_protocol::ids::SessionId;
use relay_protocol::link::NoOptions;
use relay_protocol::problem::{ErrorCode, Problem};
use relay_protocol::session::{
    ForkSession, LifecycleRequest, SessionForkedAnswer, SessionSummary, SnapshotTaken,
};
use relay_protocol::session_event::AgentSessionEvent;
use serde::Serialize;

use super::{Client, bare};
use crate::error::Result;
use crate::http::{Call, with_query};
use crate::session::{AgentSession, Attaching};

#[derive(Serialize)]
struct SessionQuery<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<&'a str>,
}

fn path(id: SessionId, rest: &str) -> String {
    format!("/v1/sessions/{id}{rest}")
}

fn because(reason: Option<&str>) -> LifecycleRequest {
    LifecycleRequest {
        reason: reason.map(str::to_owned),
    }
}

impl Client {
    /// Serves a session of an agent over this client's socket.
    pub fn attach<S: AgentSession>(&self, session: S) -> Attaching {
        let directory = self.sessions_here().clone();
        Attaching::new(
            session,
            self.shared_http(),
            self.commands().clone(),
            directory,
        )
    }

    /// Reports something for a session that this client has attached. It is sent in order, and again until the
    /// server has it.
    pub fn emit_session_event(
        &self,
        session_id: SessionId,
        event: AgentSessionEvent,
    ) -> Result<()> {
        match self.sessions_here().get(session_id) {
            Some(handler) => handler.emit(event),
            None => {
                let detail = format!("this client has not attached the session {session_id}");
                Err(Problem::new(ErrorCode::UnknownSession, detail).into())
            }
        }
    }

    /// Sessions, newest first, of one agent or of all. `cursor` is the `nextCursor` of the page before.
    pub async fn sessions(
        &self,
        agent: Option<&str>,
        cursor: Option<&str>,
    ) -> Result<Page<SessionSummary>> {
        let agent = agent.map(bare);
        let path = with_query("/v1/sessions", &SessionQuery { agent, cursor });
        self.http().json(Call::get(path)).await
    }

    /// One session.
    pub async fn session(&self, id: SessionId) -> Result<SessionSummary> {
        self.http().json(Call::get(path(id, ""))).await
    }

    /// Ends a session.
    pub async fn release_session(
        &self,
        id: SessionId,
        reason: Option<&str>,
    ) -> Result<SessionSummary> {
        let call = Call::post(path(id, "/release"), &because(reason));
        self.http().json(call).await
    }

    /// Holds a session, if it can be.
    pub async fn pause_session(
        &self,
        id: SessionId,
        reason: Option<&str>,
    ) -> Result<SessionSummary> {
        let call = Call::post(path(id, "/pause"), &because(reason));
        self.http().json(call).await
    }

    /// Lets a paused session go on.
    pub async fn resume_session(
        &self,
        id: SessionId,
        reason: Option<&str>,
    ) -> Result<SessionSummary> {
        let call = Call::post(path(id, "/resume"), &because(reason));
        self.http().json(call).await
    }

    /// Makes a second session from one: of the same agent, or of a new one.
    pub async fn fork_session(
        &self,
        id: SessionId,
        as_agent: Option<&str>,
    ) -> Result<SessionForkedAnswer> {
        let body = ForkSession {
            as_agent: as_agent.map(|name| bare(name).to_owned()),
        };
        let call = Call::post(path(id, "/fork"), &body);
        self.http().json(call).await
    }

    /// Has a session write itself down.
    pub async fn snapshot_session(&self, id: SessionId) -> Result<SnapshotTaken> {
        let call = Call::post(path(id, "/snapshot"), &NoOptions {});
        self.http().json(call).await
    }
}
