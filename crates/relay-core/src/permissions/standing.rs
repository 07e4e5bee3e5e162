//! Rules that are in force: what they would decide, the runs that ask under rules of their own, and grants.

use std::path::Path;

use relay_protocol::api::Page;
use relay_protocol::ids::{GrantId, RunId, SessionId};
use relay_protocol::limits::REASON_BYTES;
use relay_protocol::permission::{
    CancelPermission, CreateRun, EvaluatePermission, Evaluation, Grant, PermissionRun, Permissions,
};
use relay_protocol::problem::{ErrorCode, Problem};
use relay_rules::{Call, KnownFiles, Policy, RuleFault};

use super::form::check_call;
use super::{sees_all, sees_calls};
use crate::caller::Caller;
use crate::engine::{Engine, PageQuery, within};
use crate::error::{Error, Result};
use crate::store::{GrantList, GrantQuery, GrantRow, NewRun, Whose, judge};

impl Engine {
    /// Says what the rules would decide, without asking anybody.
    pub async fn evaluate_permission(
        &self,
        caller: &Caller,
        body: EvaluatePermission,
    ) -> Result<Evaluation> {
        check_call(&body.tool, &body.params)?;
        let viewer = caller.viewer()?;
        let (mut agent, mut session, mut run) = (viewer.agent, None, None);
        if let Some(id) = body.session_id {
            let row = self.store.session(viewer, id).await?;
            (agent, session) = (Some(row.agent), Some(row.no));
        }
        if let Some(id) = body.run_id {
            let row = self.store.permission_run(viewer, id).await?;
            agent = Some(row.agent);
            run = Some(row.no);
            session = session.or(row.session.map(|(no, _)| no));
        }
        let call = Call {
            tool: &body.tool,
            params: &body.params,
            tool_call_id: None,
            cwd: body.cwd.as_deref().map(Path::new),
        };
        let files = KnownFiles::of(&call, &*self.files);
        let verdict = match &body.permissions {
            Some(permissions) => {
                let policy = Policy::compile(permissions).map_err(bad_rule)?;
                relay_rules::decide(&call, &[&policy], &[], &files)
            }
            None => {
                let whose = Whose {
                    workspace_no: viewer.workspace_no,
                    agent,
                    session,
                    run,
                    turn: None,
                    at: self.now(),
                };
                judge(&self.store.rules_in_force(whose).await?, &call, &files)?
            }
        };
        Ok(Evaluation {
            decision: verdict.decision,
            rule: verdict.rule,
            reason: verdict.reason,
            suggestions: self.offered_rules(&call, &files, session.is_some()),
        })
    }

    /// Begins a run that asks under rules of its own.
    pub async fn create_run(
        &self,
        caller: &Caller,
        session: Option<SessionId>,
        body: CreateRun,
    ) -> Result<PermissionRun> {
        let agent = caller.agent()?.no;
        let session = match session {
            Some(id) => Some(self.own_session(caller, id).await?.no),
            None => {
                self.store_text_of(caller);
                None
            }
        };
        if let Some(permissions) = &body.permissions {
            Policy::compile(permissions).map_err(bad_rule)?;
        }
        let at = self.now();
        let new = NewRun {
            agent,
            workspace_no: caller.workspace()?.no,
            session,
            id: RunId::new(at, self.bits()),
            parent: body.parent_run_id,
            permissions: body.permissions,
            at,
        };
        Ok(self.store.create_run(new).await?.to_run())
    }

    /// One run.
    pub async fn permission_run(&self, caller: &Caller, id: RunId) -> Result<PermissionRun> {
        Ok(self
            .store
            .permission_run(caller.viewer()?, id)
            .await?
            .to_run())
    }

    /// Ends a run and those below it: what they have asked is withdrawn.
    pub async fn end_run(
        &self,
        caller: &Caller,
        id: RunId,
        body: CancelPermission,
    ) -> Result<PermissionRun> {
        within(
            "reason",
            REASON_BYTES,
            body.reason.as_ref().map_or(0, String::len),
        )?;
        let ended = self
            .store
            .end_run(caller.viewer()?, id, body.reason, self.now());
        Ok(ended.await?.to_run())
    }

    /// Standing decisions, newest first.
    pub async fn grants(
        &self,
        caller: &Caller,
        query: GrantQuery,
        page: PageQuery,
    ) -> Result<Page<Grant>> {
        let list = GrantList {
            viewer: caller.reader()?,
            sees_all: sees_all(caller),
            query: GrantQuery {
                agent: query
                    .agent
                    .map(|name| crate::agents::bare(&name).to_owned()),
                ..query
            },
            page: page.request()?,
            now: self.now(),
        };
        let found = self.store.grants(list).await?;
        Ok(Page {
            items: found
                .items
                .iter()
                .map(|row| grant_seen_by(caller, row))
                .collect(),
            next_cursor: found.next_cursor,
        })
    }

    /// Takes a standing decision back; the next call is asked about again.
    pub async fn revoke_grant(&self, caller: &Caller, id: GrantId) -> Result<Grant> {
        let row = self
            .store
            .revoke_grant(caller.viewer()?, id, self.now())
            .await?;
        Ok(row.to_grant())
    }
}

fn grant_seen_by(caller: &Caller, row: &GrantRow) -> Grant {
    let mut grant = row.to_grant();
    if !sees_calls(caller) {
        grant.rule.clear();
    }
    grant
}

/// Checks the rules of a workspace. What may run once has no meaning for all runs there will be.
pub(crate) fn check_workspace_rules(permissions: &Permissions) -> Result<()> {
    if permissions.allow_once.is_some() {
        let path = "permissions.allowOnce".to_owned();
        return Err(bad_rule(RuleFault {
            path,
            expected: "nothing: it is for a run".to_owned(),
            found: "rules".to_owned(),
        }));
    }
    Policy::compile(permissions).map(drop).map_err(bad_rule)
}

fn bad_rule(fault: RuleFault) -> Error {
    let detail = fault.to_string();
    Error::Refused(Box::new(Problem {
        path: Some(fault.path),
        expected: Some(fault.expected),
        found: Some(fault.found),
        ..Problem::new(ErrorCode::BadPolicy, detail)
    }))
}
