//! What the engine asks of a store about permissions, runs and grants, and the rows that come back.

use std::sync::Arc;

use relay_protocol::ids::{AgentId, GrantId, PermissionId, RunId, SessionId, WorkspaceId};
use relay_protocol::permission::{
    AskPermission, ExecutionState, Grant, GrantEffect, GrantScope, PermissionDecider,
    PermissionExecution, PermissionOption, PermissionOutcome, PermissionRecord, PermissionRun,
    PermissionState, Permissions, ResolvePermission, RuleSuggestion, ToolParams,
};
use relay_protocol::time::Timestamp;
use relay_rules::KnownFiles;
use serde::{Deserialize, Serialize};

use super::chain::Hash;
use super::position::{Position, id_at};
use super::records::{AgentNo, SessionNo};
use super::requests::{PageRequest, Viewer};

/// The row of a permission request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PermissionNo(pub i64);

/// The row of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunNo(pub i64);

/// The row of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GrantNo(pub i64);

/// What is asked about. Secrets are removed already.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PermissionBody {
    /// The tool's name.
    pub tool: String,
    /// What it would be called with.
    pub params: ToolParams,
    /// Whether secrets were removed from that.
    pub masked: bool,
    /// The provider's id of the call.
    pub tool_call_id: Option<String>,
    /// The turn in which it is asked.
    pub turn_id: Option<String>,
    /// The directory that relative paths are meant from.
    pub cwd: Option<String>,
    /// A line for people.
    pub title: Option<String>,
    /// The answers that can be given.
    pub options: Vec<PermissionOption>,
    /// The rules that `always` would grant.
    pub suggestions: Vec<RuleSuggestion>,
}

/// A permission request as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct PermissionRow {
    /// Its row.
    pub no: PermissionNo,
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The workspace's number.
    pub workspace_no: u32,
    /// Its id.
    pub id: PermissionId,
    /// The agent that asks.
    pub agent: AgentNo,
    /// Its id.
    pub agent_id: AgentId,
    /// Its name.
    pub agent_name: String,
    /// The session that asks.
    pub session: Option<(SessionNo, SessionId)>,
    /// The run that asks.
    pub run: Option<(RunNo, RunId)>,
    /// Where it stands.
    pub state: PermissionState,
    /// What is asked about.
    pub body: PermissionBody,
    /// When it was asked.
    pub created_at: Timestamp,
    /// When it is taken as unanswered.
    pub expires_at: Timestamp,
    /// The hash of what was asked about.
    pub hash: String,
    /// The message that tells those who may decide.
    pub notice: Option<Position>,
    /// How it ended.
    pub outcome: Option<PermissionOutcome>,
    /// The hash of what may run, where that is something else than what was asked about.
    pub updated_hash: Option<String>,
    /// The answer that can be repeated: its id, and the hash of all of it.
    pub response: Option<(String, Hash)>,
    /// What became of the call.
    pub execution: Option<PermissionExecution>,
    /// The id by which the start can be repeated.
    pub start_id: Option<String>,
}

impl PermissionRow {
    /// The request, as those see it who may.
    #[must_use]
    pub fn to_record(&self) -> PermissionRecord {
        let body = self.body.clone();
        PermissionRecord {
            permission_id: self.id,
            state: self.state,
            agent_id: Some(self.agent_id),
            agent_name: Some(self.agent_name.clone()),
            session_id: self.session.map(|(_, id)| id),
            tool: body.tool,
            params: body.params,
            masked: body.masked.then_some(true),
            cwd: body.cwd,
            run_id: self.run.map(|(_, id)| id),
            turn_id: body.turn_id,
            tool_call_id: body.tool_call_id,
            title: body.title,
            created_at: self.created_at,
            expires_at: self.expires_at,
            args_hash: self.hash.clone(),
            options: body.options,
            suggestions: body.suggestions,
            message_id: self
                .notice
                .map(|place| id_at(self.workspace, place, self.created_at)),
            outcome: self.outcome.clone(),
            execution: self.execution.clone(),
        }
    }

    /// The hash of what may run.
    #[must_use]
    pub fn running_hash(&self) -> &str {
        self.updated_hash.as_deref().unwrap_or(&self.hash)
    }
}

/// A permission request to write down, and to decide about where the rules do.
pub struct NewPermission {
    /// Who asks.
    pub agent: AgentNo,
    /// The workspace.
    pub workspace_no: u32,
    /// Through which session.
    pub session: Option<SessionNo>,
    /// Its id, if it is new.
    pub id: PermissionId,
    /// What is asked, word for word: the rules look at this, and none of it is stored.
    pub asked: AskPermission,
    /// What is stored of it.
    pub body: PermissionBody,
    /// The hash of what is asked about.
    pub hash: String,
    /// What those who may decide are told.
    pub notice: String,
    /// Where paths lead: the writer waits for no file system.
    pub files: KnownFiles,
    /// When.
    pub at: Timestamp,
    /// When it is taken as unanswered.
    pub expires_at: Timestamp,
}

/// An answer to a permission request.
pub struct Resolution {
    /// Who answers.
    pub viewer: Viewer,
    /// The request.
    pub id: PermissionId,
    /// The answer.
    pub body: ResolvePermission,
    /// The hash of all of it, for repeats.
    pub digest: Hash,
    /// The grant's id, if one comes of it.
    pub grant_id: GrantId,
    /// Where paths of waiting requests lead.
    pub files: KnownFiles,
    /// When.
    pub at: Timestamp,
}

/// What became of an answer.
pub enum Resolved {
    /// It counts.
    Counts(Arc<PermissionRow>),
    /// It was over before: somebody else decided, or time did.
    TooLate(Arc<PermissionRow>),
    /// Whoever answered may not.
    NotTheirs,
}

/// An end that nobody decided.
pub struct PermissionEnding {
    /// Who wants it; none: Relay itself.
    pub viewer: Option<Viewer>,
    /// The workspace.
    pub workspace_no: u32,
    /// The request.
    pub id: PermissionId,
    /// What ends it.
    pub cause: EndingCause,
    /// When.
    pub at: Timestamp,
}

/// Why a request ends without a decision.
#[derive(Clone, Debug, PartialEq)]
pub enum EndingCause {
    /// Nobody answered in time.
    Expired,
    /// Whoever asked does not need it any more.
    Withdrawn {
        /// Why.
        reason: Option<String>,
    },
}

/// A step of what was allowed.
pub struct ExecutionStep {
    /// Who takes it.
    pub viewer: Viewer,
    /// The request.
    pub id: PermissionId,
    /// The step.
    pub step: ExecutionMove,
    /// When.
    pub at: Timestamp,
}

/// What happens to what was allowed.
#[derive(Clone, Debug, PartialEq)]
pub enum ExecutionMove {
    /// It is about to run.
    Start {
        /// The hash of what runs.
        hash: String,
        /// The id by which this can be repeated.
        start_id: Option<String>,
    },
    /// It is over.
    Finish {
        /// How.
        state: ExecutionState,
        /// What went wrong.
        error: Option<String>,
    },
}

/// Which permission requests are wanted.
#[derive(Clone, Debug, Default)]
pub struct PermissionQuery {
    /// Those that stand like this.
    pub state: Option<PermissionState>,
    /// Those of this agent.
    pub agent: Option<String>,
    /// Those of this session.
    pub session: Option<SessionId>,
}

/// Which grants are wanted.
#[derive(Clone, Debug, Default)]
pub struct GrantQuery {
    /// Those that reach this agent alone.
    pub agent: Option<String>,
    /// Those, too, that have ended.
    pub ended: bool,
}

/// A list of permission requests, as somebody may see it.
pub struct PermissionList {
    /// Who looks; an agent that is no human sees its own.
    pub viewer: Viewer,
    /// Whether everything is seen.
    pub sees_all: bool,
    /// What is wanted.
    pub query: PermissionQuery,
    /// Which part of the list.
    pub page: PageRequest,
}

/// A list of grants, as somebody may see it.
pub struct GrantList {
    /// Who looks.
    pub viewer: Viewer,
    /// Whether everything is seen.
    pub sees_all: bool,
    /// What is wanted.
    pub query: GrantQuery,
    /// Which part of the list.
    pub page: PageRequest,
    /// What has not ended by now.
    pub now: Timestamp,
}

/// A run to begin.
pub struct NewRun {
    /// Who begins it.
    pub agent: AgentNo,
    /// The workspace.
    pub workspace_no: u32,
    /// In which session.
    pub session: Option<SessionNo>,
    /// Its id.
    pub id: RunId,
    /// The run that starts it.
    pub parent: Option<RunId>,
    /// Its own rules.
    pub permissions: Option<Permissions>,
    /// When.
    pub at: Timestamp,
}

/// A run as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRow {
    /// Its row.
    pub no: RunNo,
    /// The workspace.
    pub workspace_no: u32,
    /// Its id.
    pub id: RunId,
    /// Whose run it is.
    pub agent: AgentNo,
    /// Its name.
    pub agent_name: String,
    /// The session it runs in.
    pub session: Option<(SessionNo, SessionId)>,
    /// The run above it.
    pub parent: Option<(RunNo, RunId)>,
    /// How many are above it.
    pub depth: u32,
    /// Its own rules.
    pub permissions: Option<Permissions>,
    /// When it began.
    pub created_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

impl RunRow {
    /// The run, as its agent sees it.
    #[must_use]
    pub fn to_run(&self) -> PermissionRun {
        PermissionRun {
            run_id: self.id,
            agent_name: self.agent_name.clone(),
            session_id: self.session.map(|(_, id)| id),
            parent_run_id: self.parent.map(|(_, id)| id),
            depth: self.depth,
            permissions: self.permissions.clone(),
            created_at: self.created_at,
            ended_at: self.ended_at,
        }
    }
}

/// A grant as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct GrantRow {
    /// Its row.
    pub no: GrantNo,
    /// The workspace.
    pub workspace_no: u32,
    /// Its id.
    pub id: GrantId,
    /// What it is about.
    pub rule: String,
    /// Whether it allows or refuses.
    pub effect: GrantEffect,
    /// How far it reaches.
    pub scope: GrantScope,
    /// The agent it came from; for the workspace's scope it reaches all.
    pub agent: AgentNo,
    /// That agent's id.
    pub agent_id: AgentId,
    /// That agent's name.
    pub agent_name: String,
    /// The session it is for.
    pub session: Option<(SessionNo, SessionId)>,
    /// The turn it is for.
    pub turn_id: Option<String>,
    /// The request it came from.
    pub permission: PermissionId,
    /// Who granted it.
    pub by: PermissionDecider,
    /// When.
    pub created_at: Timestamp,
    /// When it ends.
    pub expires_at: Option<Timestamp>,
    /// When it last decided something.
    pub last_used_at: Option<Timestamp>,
    /// When, and by whom, it was taken back.
    pub revoked: Option<(Timestamp, Option<PermissionDecider>)>,
}

impl GrantRow {
    /// The grant, as those see it who may.
    #[must_use]
    pub fn to_grant(&self) -> Grant {
        let is_wide = self.scope == GrantScope::Workspace;
        let is_narrow = matches!(self.scope, GrantScope::Session | GrantScope::Turn);
        Grant {
            grant_id: self.id,
            rule: self.rule.clone(),
            effect: self.effect,
            scope: self.scope,
            agent_name: (!is_wide).then(|| self.agent_name.clone()),
            session_id: self.session.map(|(_, id)| id).filter(|_| is_narrow),
            turn_id: self.turn_id.clone(),
            permission_id: Some(self.permission),
            by: self.by.clone(),
            created_at: self.created_at,
            expires_at: self.expires_at,
            last_used_at: self.last_used_at,
            revoked_at: self.revoked.as_ref().map(|(at, _)| *at),
            revoked_by: self.revoked.as_ref().and_then(|(_, by)| by.clone()),
        }
    }
}

/// Rules that apply to a call, each narrowing those before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// The run whose rules these are; none: the workspace's alone.
    pub run: Option<RunNo>,
    /// The rules; the outermost run's together with the workspace's.
    pub permissions: Permissions,
    /// The places in `allowOnce` that were used up.
    pub spent: Vec<usize>,
}

/// What decides about calls: rules and grants, as they are at one moment.
#[derive(Clone, Debug)]
pub struct InForce {
    /// The rules, the outermost first.
    pub layers: Vec<Layer>,
    /// The grants that reach the call.
    pub grants: Vec<Arc<GrantRow>>,
}

/// Whose rules are wanted.
#[derive(Clone, Debug)]
pub struct Whose {
    /// The workspace.
    pub workspace_no: u32,
    /// The agent.
    pub agent: Option<AgentNo>,
    /// The session.
    pub session: Option<SessionNo>,
    /// The run.
    pub run: Option<RunNo>,
    /// The turn.
    pub turn: Option<String>,
    /// At this moment.
    pub at: Timestamp,
}
