//! How permission requests end: by an answer, by a grant, by time, or because nobody needs them any more.
//!
//! Every end is one compare-and-set out of `pending`, written together with its event, the grant that comes of it, what
//! the agent is told, and the ends of other requests that the grant covers.

use std::path::Path;
use std::sync::Arc;

use relay_protocol::event::{PermissionEnded, PermissionTouched, RelayEvent};
use relay_protocol::ids::{MessageId, PermissionId};
use relay_protocol::permission::{
    DeciderKind, ExecutionState, GrantEffect, GrantScope, PermissionDecider, PermissionOutcome,
    PermissionState, RuleDecision, ToolParams, args_hash,
};
use relay_protocol::time::Timestamp;
use relay_rules::{Call, KnownFiles, Rule};
use rusqlite::params;

use super::messages;
use super::permissions::{in_workspace, many};
use super::writer::Tx;
use crate::error::{Error, Result};
use crate::permissions::answer::{self, Answer, Granting};
use crate::permissions::machine::{Effect, Move};
use crate::permissions::{decided_by_rule, guidance_to};
use crate::store::news::News;
use crate::store::permission_requests::{
    EndingCause, GrantNo, GrantRow, PermissionEnding, PermissionRow, Resolution, Resolved, Whose,
};
use crate::store::position::id_at;
use crate::store::records::WorkspaceRow;
use crate::store::requests::{Author, Viewer};

/// Takes an answer.
pub(super) fn resolve(tx: &mut Tx<'_>, resolution: &Resolution) -> Result<Resolved> {
    let Resolution {
        viewer, body, at, ..
    } = resolution;
    let row = in_workspace(tx.connection, viewer.workspace_no, resolution.id)?;
    let Some(by) = tx.who_decides(*viewer, &row, *at)? else {
        return Ok(Resolved::NotTheirs);
    };
    if let (Some((id, digest)), Some(again)) = (&row.response, &body.response_id)
        && id == again
    {
        return match *digest == resolution.digest {
            true => Ok(Resolved::Counts(Arc::new(row))),
            false => Err(Error::IdempotencyConflict { key: id.clone() }),
        };
    }
    let answer = match row.state {
        PermissionState::Pending => answer::read(&row, body)?,
        // What it says matters no more; who was first does.
        _ => return Ok(Resolved::TooLate(Arc::new(row))),
    };
    let decide = Move::Decide {
        approved: answer.approved,
    };
    match tx.applied(&row, &decide, *at)? {
        Effect::Ends(PermissionState::Expired) => {
            let row = tx.end_by_itself(row, PermissionState::Expired, None, *at)?;
            Ok(Resolved::TooLate(row))
        }
        Effect::Ends(state) => tx
            .decided(row, state, answer, by, resolution)
            .map(Resolved::Counts),
        _ => Ok(Resolved::TooLate(Arc::new(row))),
    }
}

/// Ends a request that nobody decided about.
pub(super) fn end(tx: &mut Tx<'_>, ending: &PermissionEnding) -> Result<Arc<PermissionRow>> {
    let row = in_workspace(tx.connection, ending.workspace_no, ending.id)?;
    if let Some(viewer) = ending.viewer
        && viewer.agent.is_some_and(|agent| agent != row.agent)
    {
        return Err(Error::UnknownPermission(ending.id));
    }
    let (it, reason) = match &ending.cause {
        EndingCause::Expired => (Move::Expire, None),
        EndingCause::Withdrawn { reason } => (Move::Cancel, reason.clone()),
    };
    match tx.applied(&row, &it, ending.at) {
        Ok(Effect::Ends(state)) => tx.end_by_itself(row, state, reason, ending.at),
        Ok(_) => Ok(Arc::new(row)),
        // Whoever withdraws a question twice, or one whose time is over, has what they want.
        Err(_) if row.state != PermissionState::Approved => Ok(Arc::new(row)),
        Err(error) => Err(error),
    }
}

/// Notes that somebody who may decide has a request before their eyes.
pub(super) fn see(
    tx: &mut Tx<'_>,
    viewer: Viewer,
    id: PermissionId,
    at: Timestamp,
) -> Result<Option<Arc<PermissionRow>>> {
    let row = in_workspace(tx.connection, viewer.workspace_no, id)?;
    let Some(by) = tx.who_decides(viewer, &row, at)? else {
        return Ok(None);
    };
    if row.state == PermissionState::Pending {
        let workspace = tx.workspace(row.workspace_no)?;
        let seen = touched(&row, by, None);
        tx.log(&workspace, at, RelayEvent::PermissionSeen(seen))?;
        if let Some((session, _)) = row.session {
            tx.session_waits(&workspace, session, true, at)?;
        }
    }
    Ok(Some(Arc::new(row)))
}

fn touched(
    row: &PermissionRow,
    by: PermissionDecider,
    reason: Option<String>,
) -> PermissionTouched {
    PermissionTouched {
        permission_id: row.id,
        agent_id: Some(row.agent_id),
        session_id: row.session.map(|(_, id)| id),
        by,
        reason,
    }
}

impl Tx<'_> {
    /// Who decides here. None: whoever it is raised the request, which is written down. To all others who may not
    /// decide, the request does not exist.
    fn who_decides(
        &mut self,
        viewer: Viewer,
        row: &PermissionRow,
        at: Timestamp,
    ) -> Result<Option<PermissionDecider>> {
        if let Some(no) = viewer.agent
            && self.lineage(row)?.contains(&no)
        {
            let by = PermissionDecider {
                kind: DeciderKind::Agent,
                name: Some(self.live_agent(no)?.name.clone()),
            };
            let reason = "whoever asks, or stands above who asks, does not decide";
            let refused = touched(row, by, Some(reason.to_owned()));
            let workspace = self.workspace(row.workspace_no)?;
            self.log(&workspace, at, RelayEvent::PermissionRefused(refused))?;
            return Ok(None);
        }
        match self.decider(viewer)? {
            Some(by) => Ok(Some(by)),
            None => Err(Error::UnknownPermission(row.id)),
        }
    }

    /// Writes a decision, and all that comes of it.
    fn decided(
        &mut self,
        mut row: PermissionRow,
        state: PermissionState,
        answer: Answer,
        by: PermissionDecider,
        resolution: &Resolution,
    ) -> Result<Arc<PermissionRow>> {
        let Resolution {
            viewer, body, at, ..
        } = resolution;
        let workspace = self.workspace(row.workspace_no)?;
        if let Some(params) = &answer.updated_params {
            self.check_not_denied(&row, params, &resolution.files, *at)?;
            row.updated_hash = Some(args_hash(&row.body.tool, params));
        }
        let by = match &body.policy {
            Some(policy) => PermissionDecider {
                kind: DeciderKind::Policy,
                name: Some(policy.clone()),
            },
            None => by,
        };
        let grant = answer.granting.as_ref();
        let grant = grant.map(|granting| self.grant(&row, granting, &by, resolution));
        let grant = grant.transpose()?;
        let guidance = answer.guidance.as_deref();
        let guidance = guidance.map(|text| self.guide(&workspace, &row, *viewer, text, *at));
        row.state = state;
        row.outcome = Some(PermissionOutcome {
            by: Some(by),
            via: Some(body.via.clone().unwrap_or_else(|| "api".to_owned())),
            grant_id: grant.as_ref().map(|grant| grant.id),
            rule: grant.as_ref().map(|grant| grant.rule.clone()),
            option_id: answer.option_id,
            updated_params: answer.updated_params,
            guidance_message_id: guidance.transpose()?,
            stop: answer.stop.then_some(true),
            reason: answer.reason,
            ..PermissionOutcome::new(state, *at)
        });
        row.response = body.response_id.clone().map(|id| (id, resolution.digest));
        let row = self.ended(&workspace, row, *at)?;
        if let Some(grant) = grant {
            self.settle_covered(&grant, &resolution.files, *at)?;
        }
        Ok(row)
    }

    /// Refuses parameters that a rule refuses.
    fn check_not_denied(
        &mut self,
        row: &PermissionRow,
        params: &ToolParams,
        files: &KnownFiles,
        at: Timestamp,
    ) -> Result<()> {
        let call = Call {
            params,
            ..call_of(row)
        };
        let (verdict, _) = self.judge(&whose(row, at), &call, files)?;
        match verdict.decision {
            RuleDecision::Deny => Err(Error::DeniedByRule {
                why: verdict.reason,
            }),
            _ => Ok(()),
        }
    }

    /// Makes the grant that an answer asks for.
    fn grant(
        &mut self,
        row: &PermissionRow,
        granting: &Granting,
        by: &PermissionDecider,
        resolution: &Resolution,
    ) -> Result<GrantRow> {
        let covers = Rule::parse(&granting.rule)
            .is_ok_and(|rule| rule.covers(&call_of(row), &resolution.files));
        // What was offered was checked when it was; the files may be others by now.
        if !covers && !granting.was_offered {
            return Err(Error::Invalid {
                path: "rule",
                expected: "a rule that covers this call".to_owned(),
                found: format!("{:?}", granting.rule),
            });
        }
        self.insert_grant(GrantRow {
            no: GrantNo(0),
            workspace_no: row.workspace_no,
            id: resolution.grant_id,
            rule: granting.rule.clone(),
            effect: granting.effect,
            scope: granting.scope,
            agent: row.agent,
            agent_id: row.agent_id,
            agent_name: row.agent_name.clone(),
            session: row.session,
            turn_id: granting.turn_id.clone(),
            permission: row.id,
            by: by.clone(),
            created_at: resolution.at,
            expires_at: granting.expires_in_ms.map(|millis| {
                resolution
                    .at
                    .plus_millis(i64::try_from(millis).unwrap_or(i64::MAX))
            }),
            last_used_at: None,
            revoked: None,
        })
    }

    /// Sends the agent what it should do instead, by whoever decided.
    fn guide(
        &mut self,
        workspace: &WorkspaceRow,
        row: &PermissionRow,
        viewer: Viewer,
        text: &str,
        at: Timestamp,
    ) -> Result<MessageId> {
        let author = match viewer.agent {
            Some(agent) => Author::Agent(agent),
            None => Author::System(crate::messages::SYSTEM_NAME.into()),
        };
        let message = guidance_to(workspace.no, author, row, text, at);
        let sent = messages::send(self, &message)?;
        Ok(id_at(workspace.id, sent.position, sent.at))
    }

    /// Ends the waiting requests that a new grant covers.
    fn settle_covered(
        &mut self,
        grant: &GrantRow,
        files: &KnownFiles,
        at: Timestamp,
    ) -> Result<()> {
        let reach = match grant.scope {
            GrantScope::Workspace => "p.state = 0 AND p.workspace = ?1 ORDER BY p.no",
            _ => "p.state = 0 AND p.workspace = ?1 AND p.agent = ?2 ORDER BY p.no",
        };
        let waiting = match grant.scope {
            GrantScope::Workspace => many(self.connection, reach, [grant.workspace_no])?,
            _ => many(
                self.connection,
                reach,
                params![grant.workspace_no, grant.agent.0],
            )?,
        };
        for row in waiting {
            // Of what was masked the rules would not see the whole call.
            if row.body.masked {
                continue;
            }
            let (verdict, in_force) = self.judge(&whose(&row, at), &call_of(&row), files)?;
            let state = match (verdict.decision, grant.effect) {
                (RuleDecision::Allow, GrantEffect::Allow) => PermissionState::Approved,
                (RuleDecision::Deny, GrantEffect::Deny) => PermissionState::Denied,
                _ => continue,
            };
            let used = self.use_up(&verdict, &in_force, at)?;
            let mut row = row;
            row.state = state;
            row.outcome = Some(PermissionOutcome {
                via: Some("grant".to_owned()),
                ..decided_by_rule(&verdict, state, used.or(Some(grant.id)), at)
            });
            let workspace = self.workspace(row.workspace_no)?;
            self.ended(&workspace, row, at)?;
        }
        Ok(())
    }

    /// Ends a request without a decision.
    fn end_by_itself(
        &mut self,
        mut row: PermissionRow,
        state: PermissionState,
        reason: Option<String>,
        at: Timestamp,
    ) -> Result<Arc<PermissionRow>> {
        let workspace = self.workspace(row.workspace_no)?;
        row.state = state;
        row.outcome = Some(PermissionOutcome {
            reason,
            ..PermissionOutcome::new(state, at)
        });
        self.ended(&workspace, row, at)
    }

    /// Writes that a request is over, tells of it, and lets its session go on.
    fn ended(
        &mut self,
        workspace: &WorkspaceRow,
        row: PermissionRow,
        at: Timestamp,
    ) -> Result<Arc<PermissionRow>> {
        self.update_permission(&row)?;
        self.log_ended(workspace, &row, at)?;
        self.call_back_notice(&row)?;
        if let Some((session, _)) = row.session {
            self.session_goes_on(workspace, row.agent, session, at)?;
        }
        self.tell(News::PermissionEnded(row.id));
        Ok(Arc::new(row))
    }

    /// Logs how a request ended.
    pub(super) fn log_ended(
        &mut self,
        workspace: &WorkspaceRow,
        row: &PermissionRow,
        at: Timestamp,
    ) -> Result<()> {
        let Some(outcome) = row.outcome.clone() else {
            return Ok(());
        };
        let ended = PermissionEnded {
            permission_id: row.id,
            agent_id: Some(row.agent_id),
            session_id: row.session.map(|(_, id)| id),
            outcome,
        };
        let event = match row.state {
            PermissionState::Expired => RelayEvent::PermissionExpired(ended),
            PermissionState::Cancelled => RelayEvent::PermissionCancelled(ended),
            _ => RelayEvent::PermissionResolved(ended),
        };
        self.log(workspace, at, event)?;
        Ok(())
    }

    /// Ends what somebody has left open who is gone for good: a question is withdrawn, a call that was not begun won't
    /// be, and of one that was begun nobody knows how it ended.
    pub(super) fn abandon(
        &mut self,
        whose: &str,
        no: i64,
        reason: &str,
        at: Timestamp,
    ) -> Result<()> {
        let open = many(
            self.connection,
            &format!("p.is_open = 1 AND {whose} ORDER BY p.no"),
            [no],
        )?;
        for row in open {
            match self.applied(&row, &Move::Abandon, at)? {
                Effect::Ends(state) => {
                    self.end_by_itself(row, state, Some(reason.to_owned()), at)?;
                }
                Effect::Executes(state) => {
                    let error = match state {
                        ExecutionState::Unknown => format!("{reason}; nobody knows how it ended"),
                        _ => reason.to_owned(),
                    };
                    self.write_execution(row, state, Some(error), None, at)?;
                }
                Effect::Nothing => {}
            }
        }
        Ok(())
    }
}

/// The call that a request is about, as far as it is stored.
fn call_of(row: &PermissionRow) -> Call<'_> {
    Call {
        tool: &row.body.tool,
        params: &row.body.params,
        tool_call_id: row.body.tool_call_id.as_deref(),
        cwd: row.body.cwd.as_deref().map(Path::new),
    }
}

fn whose(row: &PermissionRow, at: Timestamp) -> Whose {
    Whose {
        workspace_no: row.workspace_no,
        agent: Some(row.agent),
        session: row.session.map(|(no, _)| no),
        run: row.run.map(|(no, _)| no),
        turn: row.body.turn_id.clone(),
        at,
    }
}
