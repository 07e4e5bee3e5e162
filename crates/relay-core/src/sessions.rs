//! Sessions: attaching, standing at boundaries, and their life.

use std::collections::HashMap;
use std::sync::Arc;

use relay_protocol::agent::AgentIdentity;
use relay_protocol::api::Page;
use relay_protocol::delivery::MessageContext;
use relay_protocol::ids::{AttachmentId, ControlId, DeliveryId, SessionId};
use relay_protocol::limits::{
    ATTACH_CLIENT_BYTES, ATTACHMENT_BYTES, BOUNDARY_BYTES, BOUNDARY_DELIVERIES, HARNESS_BYTES,
    REASON_BYTES,
};
use relay_protocol::link::{LinkKind, WebhookLink};
use relay_protocol::message::{Attachment, AttachmentKind, RelayMessage};
use relay_protocol::names;
use relay_protocol::negotiation::{LifecycleOp, check_lifecycle, negotiate};
use relay_protocol::problem::Problem;
use relay_protocol::render::{AttachmentAccess, render_for};
use relay_protocol::session::{
    AtBoundary, Attach, AttachAttempt, Attached, BoundaryKind, DueDeliveries, ForkSession,
    LifecycleRequest, SessionForkedAnswer, SessionSummary, SnapshotTaken,
};
use relay_protocol::socket::{ControlOp, ControlResult, ForkGrant};
use relay_protocol::status::{AgentStatus, DEFAULT_SAFE_STATES};
use tokio::sync::oneshot;

use crate::agents::bare;
use crate::caller::{Caller, hash_token, secret};
use crate::engine::{Engine, PageQuery, within};
use crate::error::{Error, Noun, Result, StorageError};
use crate::runner::link::{LinkId, SessionLink};
use crate::runner::{Ask, Asked, unreachable_session};
use crate::store::{
    AgentRow, AttachedSession, NewAttachmentRow, NewFork, NewSession, SessionNo, SessionRow,
    SessionTurn,
};

/// What every resume token begins with.
const RESUME_PREFIX: &str = "st_";

/// How a session that attaches can be reached.
pub struct Reach {
    /// The kind of link.
    pub kind: LinkKind,
    /// What a webhook link needs.
    pub webhook: Option<WebhookLink>,
    /// The link itself; none for a session that comes by at its boundaries.
    pub link: Option<Arc<dyn SessionLink>>,
}

impl Reach {
    /// Over a link in this process.
    #[must_use]
    pub fn in_process(link: Arc<dyn SessionLink>) -> Self {
        Self {
            kind: LinkKind::InProcess,
            webhook: None,
            link: Some(link),
        }
    }

    /// Not at all: the session comes by at its boundaries.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            kind: LinkKind::None,
            webhook: None,
            link: None,
        }
    }
}

/// A session that the server reaches by calls.
pub struct WebhookSession {
    /// The session.
    pub session_id: SessionId,
    /// What is called.
    pub webhook: WebhookLink,
    /// Whoever the answers to the calls come from.
    pub speaker: Caller,
}

impl Engine {
    /// Attaches a session to an agent, or lets one go on with its resume token.
    ///
    /// The link's id is for [`Engine::link_lost`]. The link may be given parcels before this returns; the
    /// session has to learn of the answer first.
    pub async fn attach(
        &self,
        caller: &Caller,
        body: Attach,
        reach: Reach,
    ) -> Result<(Attached, Option<LinkId>)> {
        let workspace = self.current(caller)?;
        if body.resume.is_none() {
            self.require_agent_or_key(caller, &body.agent)?;
        }
        within("harness", HARNESS_BYTES, body.harness.len())?;
        if let Some(attempt) = &body.attempt {
            within("attempt.client", ATTACH_CLIENT_BYTES, attempt.client.len())?;
        }
        let safe_states = body
            .safe_states
            .unwrap_or_else(|| DEFAULT_SAFE_STATES.to_vec());
        body.capabilities
            .validate(reach.kind, &safe_states)
            .map_err(|error| Error::Refused(Box::new(error.into())))?;
        check_first_status(body.status)?;
        let at = self.now();
        let token = match &body.resume {
            Some(token) => token.clone(),
            None => secret(RESUME_PREFIX, &*self.environment.random),
        };
        let token_hash = hash_token(&token);
        let id = SessionId::new(at, self.bits());
        let known = match body.resume {
            // The store refuses an unknown token when it is asked to attach.
            Some(_) => self.store.session_of_token(token_hash).await?,
            None => None,
        };
        let (no, attaching_id) = known.map_or((None, id), |(no, id)| (Some(no), id));
        // Held until the link is connected, or this call fails or is given up.
        let _attaching = self.runner.begin_attach(attaching_id, no).await;
        if let Some(no) = no {
            // What it reported over its link of before comes first, and is acknowledged with the answer.
            self.runner.held.end_session(no);
        }
        let attached = self
            .store
            .attach_session(NewSession {
                viewer: caller.viewer()?,
                agent: bare(&body.agent).to_owned(),
                at,
                id,
                token: token_hash,
                resume: body.resume.is_some(),
                harness: body.harness,
                link: reach.kind,
                webhook: reach.webhook,
                capabilities: body.capabilities,
                safe_states,
                status: body.status,
                keeps_messages: body.keeps_messages.unwrap_or(false),
            })
            .await?;
        let AttachedSession { session, head } = attached;
        let keep = match body.resume {
            Some(_) => self.kept(session.no, body.attempt.as_ref()).await?,
            None => Vec::new(),
        };
        let link = self
            .runner
            .connect(session.no, &workspace, head, reach.link, body.attempt)?;
        let answer = Attached {
            session_id: session.id,
            resume_token: token,
            negotiated: negotiate(&session.capabilities, &session.safe_states),
            keep,
            acked: session.acked,
            webhook_secret: None,
        };
        Ok((answer, link))
    }

    /// What a session that comes back still answers for. A receipt that came over its link of before may
    /// be on its way to the store; only after it is that known.
    async fn kept(
        &self,
        session: SessionNo,
        attempt: Option<&AttachAttempt>,
    ) -> Result<Vec<DeliveryId>> {
        self.runner.supersede(session, attempt).await?;
        self.store.held_by(session).await
    }

    /// The sessions that the server reaches by calls. Nobody attaches those again when it was started
    /// anew, so whoever serves the engine gives them their links with [`Engine::relink`].
    pub async fn webhook_sessions(&self, owner: &Caller) -> Result<Vec<WebhookSession>> {
        owner.require_admin()?;
        let mut found = Vec::new();
        for row in self
            .runner
            .living_sessions(|row| row.link == LinkKind::Webhook)
        {
            let Some(webhook) = row.webhook.clone() else {
                continue;
            };
            let workspace = self.store.workspace_by_no(row.workspace_no).await?;
            let agent = self.store.agent_by_no(row.agent).await?;
            found.push(WebhookSession {
                session_id: row.id,
                webhook,
                speaker: Caller::agent_itself(workspace, agent),
            });
        }
        Ok(found)
    }

    /// Ends the sessions of agents that lived in a process which is gone: nobody attaches those again. What they asked is cancelled
    /// with the reason, what they had waits for others. Says how many there were.
    pub async fn release_left(
        &self,
        owner: &Caller,
        lived_there: impl Fn(&AgentIdentity) -> bool,
        reason: &str,
    ) -> Result<usize> {
        owner.require_admin()?;
        let mut left = Vec::new();
        // Looked up once for each agent: a server that starts may have very many sessions of few.
        let mut known = HashMap::new();
        for row in self.runner.living_sessions(|_| true) {
            let is_left = match known.get(&row.agent) {
                Some(is_left) => *is_left,
                None => {
                    let agent = self.store.agent_by_no(row.agent).await?;
                    let is_left = lived_there(&agent.identity());
                    known.insert(row.agent, is_left);
                    is_left
                }
            };
            if is_left {
                left.push(row);
            }
        }
        // All at once, so that they share their commits.
        let mut ending = Vec::with_capacity(left.len());
        for row in &left {
            let reason = Some(reason.to_owned());
            ending.push(self.begin_turn(row, SessionTurn::Releasing, reason.clone()));
            ending.push(self.begin_turn(row, SessionTurn::Released, reason));
        }
        for ended in ending {
            stored(ended).await?;
        }
        Ok(left.len())
    }

    /// Gives a session that the server reaches by calls its link again.
    pub fn relink(&self, session: SessionId, link: Arc<dyn SessionLink>) -> Option<LinkId> {
        let row = self.runner.session(session)?;
        self.runner.relink(row.no, link)
    }

    /// Says that a link broke. What was out over it is offered again; after the grace time the session
    /// is offline.
    pub fn link_lost(&self, session: SessionId, link: LinkId) {
        if let Some(row) = self.runner.session(session) {
            self.runner.disconnect(row.no, link);
        }
    }

    /// One session.
    pub async fn session(&self, caller: &Caller, id: SessionId) -> Result<SessionSummary> {
        let row = self.store.session(caller.reader()?, id).await?;
        self.summary(&row).await
    }

    /// Sessions, newest first: of one agent, or all that the caller may see.
    pub async fn sessions(
        &self,
        caller: &Caller,
        agent: Option<&str>,
        page: PageQuery,
    ) -> Result<Page<SessionSummary>> {
        let agent = agent.map(|name| bare(name).to_owned());
        let rows = self
            .store
            .sessions(caller.reader()?, agent, page.request()?)
            .await?;
        let mut items = Vec::with_capacity(rows.items.len());
        for row in &rows.items {
            items.push(self.summary(row).await?);
        }
        Ok(Page {
            items,
            next_cursor: rows.next_cursor,
        })
    }

    async fn summary(&self, row: &SessionRow) -> Result<SessionSummary> {
        let agent = self.store.agent_by_no(row.agent).await?;
        Ok(SessionSummary {
            session_id: row.id,
            agent: agent.identity(),
            harness: row.harness.clone(),
            link: row.link,
            status: row.status,
            reason: row.reason.clone(),
            current: self
                .runner
                .current(row.agent)
                .is_some_and(|current| current.no == row.no),
            capabilities: row.capabilities.clone(),
            safe_states: row.safe_states.clone(),
            parent_session_id: row.parent,
            created_at: row.created_at,
            last_seen_at: Some(row.seen_at),
            ended_at: row.ended_at,
        })
    }

    /// Says that a session stands at a boundary; what is due has gone over its link when this returns.
    pub async fn at_boundary(
        &self,
        caller: &Caller,
        session: SessionId,
        kind: BoundaryKind,
    ) -> Result<()> {
        let row = self.own_session(caller, session).await?;
        self.runner.stand_at(row.no, kind).await;
        Ok(())
    }

    /// What is due for a session that stands at a boundary: each is offered and settled by a receipt.
    pub async fn boundary(
        &self,
        caller: &Caller,
        session: SessionId,
        body: AtBoundary,
    ) -> Result<DueDeliveries> {
        let limit = at_most("limit", body.limit, BOUNDARY_DELIVERIES)?;
        let bytes = at_most("maxBytes", body.max_bytes, BOUNDARY_BYTES)?;
        self.take_due(caller, session, Some(body.kind), limit, bytes)
            .await
    }

    /// What is due for a session that asks without standing at a boundary.
    pub async fn due_now(
        &self,
        caller: &Caller,
        session: SessionId,
        limit: Option<u32>,
    ) -> Result<DueDeliveries> {
        let limit = at_most("limit", limit, BOUNDARY_DELIVERIES)?;
        self.take_due(caller, session, None, limit, BOUNDARY_BYTES)
            .await
    }

    async fn take_due(
        &self,
        caller: &Caller,
        session: SessionId,
        kind: Option<BoundaryKind>,
        limit: u32,
        bytes: u32,
    ) -> Result<DueDeliveries> {
        let row = self.own_session(caller, session).await?;
        self.runner.heard_of(row.no);
        let most = (limit as usize, bytes as usize);
        let (deliveries, more) = self
            .runner
            .take_due(row.no, kind, most, |deliver| {
                self.text_for_model(caller, &deliver.message, &deliver.context)
            })
            .await;
        Ok(DueDeliveries { deliveries, more })
    }

    /// A message as text for a model behind a session that has no library of ours: with the text of its attachments, as far as it fits,
    /// inside fences whose token its author could not know.
    pub fn text_for_model(
        &self,
        reader: &Caller,
        message: &RelayMessage,
        context: &MessageContext,
    ) -> String {
        let token = secret("", &*self.environment.random);
        let access = Some(AttachmentAccess::Http);
        let is_text = |attachment: &Attachment| attachment.kind == AttachmentKind::Text;
        if !message.attachments.iter().any(is_text) {
            return render_for(message, context, &token, access);
        }
        let mut message = message.clone();
        for attachment in message.attachments.iter_mut().filter(|it| is_text(it)) {
            let Some((id, viewer)) = attachment.attachment_id.zip(reader.viewer().ok()) else {
                continue;
            };
            // Reads are answered on the spot. What can't be read is named without its text, with the request that gets it.
            if let Ok(found) = self.store.attachment(viewer, id).wait() {
                attachment.put_content(&found.data);
            }
        }
        render_for(&message, context, &token, access)
    }

    /// Ends a session: it is asked to, and after a while it has ended whether it answered or not.
    pub async fn release_session(
        &self,
        caller: &Caller,
        session: SessionId,
        body: LifecycleRequest,
    ) -> Result<SessionSummary> {
        let row = self.own_session(caller, session).await?;
        let reason = checked_reason(body.reason)?;
        self.turn(&row, SessionTurn::Releasing, reason.clone())
            .await?;
        let released = self.ask_turn(&row, SessionTurn::Released, reason).await?;
        self.summary(&released).await
    }

    /// Holds a session, if it can be held: nothing is offered to it until it goes on.
    pub async fn pause_session(
        &self,
        caller: &Caller,
        session: SessionId,
        body: LifecycleRequest,
    ) -> Result<SessionSummary> {
        self.pause_or_resume(caller, session, body, SessionTurn::Paused)
            .await
    }

    /// Lets a paused session go on.
    pub async fn resume_session(
        &self,
        caller: &Caller,
        session: SessionId,
        body: LifecycleRequest,
    ) -> Result<SessionSummary> {
        self.pause_or_resume(caller, session, body, SessionTurn::Resumed)
            .await
    }

    async fn pause_or_resume(
        &self,
        caller: &Caller,
        session: SessionId,
        body: LifecycleRequest,
        turn: SessionTurn,
    ) -> Result<SessionSummary> {
        let row = self.own_session(caller, session).await?;
        let op = match turn {
            SessionTurn::Paused => LifecycleOp::Pause,
            _ => LifecycleOp::Resume,
        };
        require_op(&row, op)?;
        let reason = checked_reason(body.reason)?;
        let row = self.ask_turn(&row, turn, reason).await?;
        self.summary(&row).await
    }

    /// Asks a session to take a turn, which is stored once it has. One that has no link and is to end
    /// has ended.
    async fn ask_turn(
        &self,
        row: &SessionRow,
        turn: SessionTurn,
        reason: Option<String>,
    ) -> Result<Arc<SessionRow>> {
        let (tell, told) = oneshot::channel();
        let ask = Ask {
            op: match turn {
                SessionTurn::Paused => ControlOp::Pause,
                SessionTurn::Resumed => ControlOp::Resume,
                _ => ControlOp::Release,
            },
            delivery_id: None,
            mode: None,
            as_agent: None,
            fork: None,
            reason: reason.clone(),
            asked: Asked::Turn {
                turn,
                reason,
                answer: Some(tell),
            },
        };
        match self.runner.ask(row.no, ask) {
            Ok(()) => {}
            Err(Asked::Turn {
                turn: SessionTurn::Released,
                reason,
                answer: Some(answer),
            }) => self
                .runner
                .turn(row.no, SessionTurn::Released, reason, answer),
            Err(_) => return Err(unreachable_session()),
        }
        stored(told).await
    }

    /// Stores a turn that needs no question.
    async fn turn(
        &self,
        row: &SessionRow,
        turn: SessionTurn,
        reason: Option<String>,
    ) -> Result<Arc<SessionRow>> {
        stored(self.begin_turn(row, turn, reason)).await
    }

    fn begin_turn(
        &self,
        row: &SessionRow,
        turn: SessionTurn,
        reason: Option<String>,
    ) -> oneshot::Receiver<Result<Arc<SessionRow>>> {
        let (tell, told) = oneshot::channel();
        self.runner.turn(row.no, turn, reason, tell);
        told
    }

    /// Makes a second session from one that can be forked. It attaches with the token that the first one
    /// is given.
    pub async fn fork_session(
        &self,
        caller: &Caller,
        session: SessionId,
        body: ForkSession,
    ) -> Result<SessionForkedAnswer> {
        let row = self.own_session(caller, session).await?;
        require_op(&row, LifecycleOp::Fork)?;
        let as_agent = body.as_agent.as_deref().map(|name| bare(name).to_owned());
        if let Some(name) = &as_agent {
            caller.require_workspace_key()?;
            names::check(name).map_err(|error| Error::Name {
                what: Noun::Agent,
                error,
            })?;
        }
        let at = self.now();
        let token = secret(RESUME_PREFIX, &*self.environment.random);
        let fork = self
            .store
            .fork_session(NewFork {
                parent: row.no,
                id: SessionId::new(at, self.bits()),
                token: hash_token(&token),
                as_agent: as_agent.clone(),
                at,
            })
            .await?;
        let grant = ForkGrant {
            session_id: fork.id,
            resume_token: token,
        };
        let asked = self
            .question(&row, ControlOp::Fork, as_agent, Some(grant))
            .await;
        if let Err(error) = asked {
            let reason = Some("the fork was not made".to_owned());
            self.turn(&fork, SessionTurn::Failed, reason).await?;
            return Err(error);
        }
        let agent: Arc<AgentRow> = self.store.agent_by_no(fork.agent).await?;
        Ok(SessionForkedAnswer {
            session_id: fork.id,
            agent: agent.identity(),
        })
    }

    /// Has a session write itself down, if it can; what it answers is kept.
    pub async fn snapshot_session(
        &self,
        caller: &Caller,
        session: SessionId,
    ) -> Result<SnapshotTaken> {
        let row = self.own_session(caller, session).await?;
        require_op(&row, LifecycleOp::Snapshot)?;
        let answer = self.question(&row, ControlOp::Snapshot, None, None).await?;
        let data = serde_json::to_vec(&answer.unwrap_or_default()).unwrap_or_default();
        within("snapshot", ATTACHMENT_BYTES, data.len())?;
        let at = self.now();
        let id = self
            .store
            .store_attachment(NewAttachmentRow {
                workspace_no: row.workspace_no,
                id: AttachmentId::new(at, self.bits()),
                owner: Some(row.agent),
                kind: AttachmentKind::Text,
                media_type: "application/json".to_owned(),
                name: Some(format!("snapshot-{}.json", row.id)),
                data,
                at,
                keep: true,
            })
            .await?;
        Ok(SnapshotTaken {
            snapshot_id: id.to_string(),
        })
    }

    async fn question(
        &self,
        row: &SessionRow,
        op: ControlOp,
        as_agent: Option<String>,
        fork: Option<ForkGrant>,
    ) -> Result<Option<serde_json::Value>> {
        let (tell, told) = oneshot::channel();
        let ask = Ask {
            op,
            delivery_id: None,
            mode: None,
            as_agent,
            fork,
            reason: None,
            asked: Asked::Question(tell),
        };
        if self.runner.ask(row.no, ask).is_err() {
            return Err(unreachable_session());
        }
        stored(told).await
    }

    /// Takes a session's answer to something that was asked of it.
    pub async fn control_result(
        &self,
        caller: &Caller,
        session: SessionId,
        result: ControlResult,
    ) -> Result<ControlId> {
        let row = self.own_session(caller, session).await?;
        let id = result.control_id;
        self.runner.control_answered(row.no, result)?;
        Ok(id)
    }

    /// A session of the calling agent or forked from one of its own, or any for the workspace. What it has
    /// reported comes before what the caller does with it.
    pub(crate) async fn own_session(
        &self,
        caller: &Caller,
        id: SessionId,
    ) -> Result<Arc<SessionRow>> {
        let row = self.session_of(caller, id).await?;
        self.runner.held.end_session(row.no);
        Ok(row)
    }

    /// The same, for reports, which may continue what the session has reported.
    pub(crate) async fn session_of(
        &self,
        caller: &Caller,
        id: SessionId,
    ) -> Result<Arc<SessionRow>> {
        let viewer = caller.viewer()?;
        let in_mind = self.runner.session(id);
        let is_new = in_mind.is_none();
        let row = match in_mind {
            Some(row) => row,
            None => self.store.session(viewer, id).await?,
        };
        let own = viewer.agent.is_none_or(|agent| agent == row.agent);
        let forked = match row.parent {
            // Found only if it is one of the caller's own.
            Some(parent) if !own => self.store.session(viewer, parent).await.is_ok(),
            _ => false,
        };
        if (own || forked) && row.workspace_no == viewer.workspace_no {
            if is_new && !row.status.is_terminal() {
                self.runner.remember(&row);
            }
            Ok(row)
        } else {
            Err(Error::UnknownSession(id))
        }
    }
}

/// A session that attaches is at work; how it ends is told later.
fn check_first_status(status: Option<AgentStatus>) -> Result<()> {
    match status {
        None => Ok(()),
        Some(status) if status.takes_offers() || status == AgentStatus::Starting => Ok(()),
        Some(status) => Err(Error::Invalid {
            path: "status",
            expected: "starting, active, idle, waiting or blocked".to_owned(),
            found: status.to_string(),
        }),
    }
}

/// What became of something that was handed to the runner.
async fn stored<T>(told: oneshot::Receiver<Result<T>>) -> Result<T> {
    told.await.unwrap_or(Err(StorageError::Closed.into()))
}

fn checked_reason(reason: Option<String>) -> Result<Option<String>> {
    if let Some(reason) = &reason {
        within("reason", REASON_BYTES, reason.len())?;
    }
    Ok(reason)
}

/// Refuses what the session did not declare, before anything is sent.
fn require_op(row: &SessionRow, op: LifecycleOp) -> Result<()> {
    check_lifecycle(&row.capabilities, op)
        .map_err(|mismatch| Error::Refused(Box::new(Problem::from(mismatch))))
}

fn at_most(path: &'static str, asked: Option<u32>, most: u32) -> Result<u32> {
    match asked {
        None => Ok(most),
        Some(asked) if (1..=most).contains(&asked) => Ok(asked),
        Some(asked) => Err(Error::Invalid {
            path,
            expected: format!("1 to {most}"),
            found: asked.to_string(),
        }),
    }
}
