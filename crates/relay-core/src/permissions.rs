//! Permissions: tool calls that wait for a decision, who decides, and what is kept of it. `docs/permissions.md` has the
//! picture.

pub(crate) mod answer;
mod form;
pub(crate) mod machine;
mod standing;
mod words;

use std::path::Path;
use std::sync::Arc;

use relay_protocol::api::Page;
use relay_protocol::api::workspace::ObserverGrant;
use relay_protocol::ids::{GrantId, PermissionId, SessionId};
use relay_protocol::limits::{CALL_ID_BYTES, PERMISSIONS_LOOKED_AT, REASON_BYTES};
use relay_protocol::permission::{
    AskPermission, CancelPermission, ExecutionState, FinishPermission, GrantScope,
    PermissionOption, PermissionOptionKind, PermissionRecord, PermissionState, ResolvePermission,
    RuleSuggestion, StartPermission, ToolParams, args_hash,
};
use relay_rules::{Call, Files, KnownFiles, suggestions};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use self::form::{check_answer, check_ask};
pub(crate) use self::standing::check_workspace_rules;
pub(crate) use self::words::{
    decided_by_rule, guidance_to, notice_text, notice_to, obstructed, resolved_before, trim,
};
use crate::caller::Caller;
use crate::engine::{Engine, PageQuery, within};
use crate::error::{Error, Result};
use crate::store::{
    EndingCause, ExecutionMove, ExecutionStep, NewPermission, PageRequest, PermissionBody,
    PermissionEnding, PermissionList, PermissionQuery, PermissionRow, Resolution, Resolved,
};

impl Engine {
    /// Asks whether a tool may be called. The rules decide at once, or the request waits for somebody who may.
    pub async fn ask_permission(
        &self,
        caller: &Caller,
        session: Option<SessionId>,
        body: AskPermission,
    ) -> Result<PermissionRecord> {
        let agent = caller.agent()?.no;
        let session = match session {
            Some(id) => Some(self.own_session(caller, id).await?.no),
            None => {
                self.store_text_of(caller);
                None
            }
        };
        check_ask(&body)?;
        let at = self.now();
        let expires_in = body.expires_in_ms.unwrap_or(self.permissions_expire_ms);
        let call = call_of(&body);
        let files = KnownFiles::of(&call, &*self.files);
        let mut params = Value::Object(body.params.clone());
        let masked = self.redactor.redact_json(&mut params);
        let Value::Object(params) = params else {
            return Err(invalid("params", "an object", "something else"));
        };
        let stored = PermissionBody {
            tool: body.tool.clone(),
            params,
            masked,
            tool_call_id: body.tool_call_id.clone(),
            turn_id: body.turn_id.clone(),
            cwd: self.shown(body.cwd.as_deref()),
            title: self.shown(body.title.as_deref()),
            options: self.shown_options(body.options.as_deref()),
            suggestions: self.offered_rules(&call, &files, session.is_some()),
        };
        let new = NewPermission {
            agent,
            workspace_no: caller.workspace()?.no,
            session,
            id: PermissionId::new(at, self.bits()),
            hash: args_hash(&body.tool, &body.params),
            notice: notice_text(&caller.agent()?.name, &stored),
            body: stored,
            files,
            at,
            expires_at: at.plus_millis(i64::try_from(expires_in).unwrap_or(i64::MAX)),
            asked: body,
        };
        Ok(self.store.ask_permission(new).await?.to_record())
    }

    /// Text as it is stored and shown.
    fn shown(&self, text: Option<&str>) -> Option<String> {
        text.map(|text| self.redactor.redact(text).into_owned())
    }

    fn shown_options(&self, options: Option<&[PermissionOption]>) -> Vec<PermissionOption> {
        let Some(options) = options else {
            return usual_options();
        };
        let shown = |option: &PermissionOption| PermissionOption {
            name: self.redactor.redact(&option.name).into_owned(),
            ..option.clone()
        };
        options.iter().map(shown).collect()
    }

    /// What `always` would grant. A rule that holds a secret is not offered.
    fn offered_rules(
        &self,
        call: &Call<'_>,
        files: &KnownFiles,
        has_session: bool,
    ) -> Vec<RuleSuggestion> {
        let clean = |offer: &RuleSuggestion| {
            !self.redactor.contains_secret(&offer.rule)
                && !self.redactor.contains_secret(&offer.covers)
        };
        let reaching = |offer: RuleSuggestion| RuleSuggestion {
            scope: match has_session {
                true => offer.scope,
                false => GrantScope::Agent,
            },
            ..offer
        };
        let offers = suggestions(call, files).into_iter();
        offers.filter(clean).map(reaching).collect()
    }

    /// One request.
    pub async fn permission(&self, caller: &Caller, id: PermissionId) -> Result<PermissionRecord> {
        let row = self.store.permission(caller.reader()?, id).await?;
        Ok(seen_by(caller, &row))
    }

    /// One request, once it waits no longer.
    pub async fn permission_decided(
        &self,
        caller: &Caller,
        id: PermissionId,
    ) -> Result<PermissionRecord> {
        let viewer = caller.reader()?;
        let mut row = self.store.permission(viewer, id).await?;
        if row.state == PermissionState::Pending {
            // Whoever waits first and looks then misses nothing.
            let ended = self.runner.permission_ended(id);
            row = self.store.permission(viewer, id).await?;
            if row.state == PermissionState::Pending {
                ended.await;
                row = self.store.permission(viewer, id).await?;
            }
        }
        Ok(seen_by(caller, &row))
    }

    /// Requests, newest first: all for people and the workspace, its own for an agent.
    pub async fn permissions(
        &self,
        caller: &Caller,
        query: PermissionQuery,
        page: PageQuery,
    ) -> Result<Page<PermissionRecord>> {
        let list = PermissionList {
            viewer: caller.reader()?,
            sees_all: sees_all(caller),
            query: PermissionQuery {
                agent: query
                    .agent
                    .map(|name| crate::agents::bare(&name).to_owned()),
                ..query
            },
            page: page.request()?,
        };
        let found = self.store.permissions(list).await?;
        Ok(Page {
            items: found.items.iter().map(|row| seen_by(caller, row)).collect(),
            next_cursor: found.next_cursor,
        })
    }

    /// Decides about a request. The first decision counts.
    pub async fn resolve_permission(
        &self,
        caller: &Caller,
        id: PermissionId,
        body: ResolvePermission,
    ) -> Result<PermissionRecord> {
        let viewer = caller.viewer()?;
        check_answer(&self.redactor, &body)?;
        let at = self.now();
        let files = self.files_of_waiting(caller, id, &body).await?;
        let body = ResolvePermission {
            reason: self.shown(body.reason.as_deref()),
            ..body
        };
        let resolution = Resolution {
            viewer,
            id,
            digest: digest_of(&body),
            grant_id: GrantId::new(at, self.bits()),
            files,
            at,
            body,
        };
        match self.store.resolve_permission(resolution).await? {
            Resolved::Counts(row) => Ok(row.to_record()),
            Resolved::TooLate(row) => Err(resolved_before(&row)),
            Resolved::NotTheirs => Err(not_theirs()),
        }
    }

    /// Where the paths lead that an answer may be about: those of the call as it is changed, and those of waiting
    /// calls that a grant may cover.
    async fn files_of_waiting(
        &self,
        caller: &Caller,
        id: PermissionId,
        body: &ResolvePermission,
    ) -> Result<KnownFiles> {
        let mut files = KnownFiles::default();
        let may_grant =
            body.always == Some(true) || body.option_id.is_some() || body.rule.is_some();
        if body.updated_params.is_none() && !may_grant {
            return Ok(files);
        }
        let viewer = caller.viewer()?;
        let Ok(row) = self.store.permission(viewer, id).await else {
            return Ok(files);
        };
        // The store refuses those who may not decide; they cause no work before.
        if !sees_all(caller) || viewer.agent == Some(row.agent) {
            return Ok(files);
        }
        let mut look = |params: &ToolParams, row: &PermissionRow| {
            let call = Call {
                tool: &row.body.tool,
                params,
                tool_call_id: None,
                cwd: row.body.cwd.as_deref().map(Path::new),
            };
            files.extend(KnownFiles::of(&call, &*self.files));
        };
        if let Some(params) = &body.updated_params {
            look(params, &row);
        }
        if may_grant {
            look(&row.body.params, &row);
            let is_wide = body.scope == Some(GrantScope::Workspace);
            let list = PermissionList {
                viewer,
                sees_all: true,
                query: PermissionQuery {
                    state: Some(PermissionState::Pending),
                    agent: (!is_wide).then(|| row.agent_name.clone()),
                    session: None,
                },
                page: PageRequest {
                    cursor: None,
                    limit: PERMISSIONS_LOOKED_AT,
                },
            };
            for other in self.store.permissions(list).await?.items {
                look(&other.body.params, &other);
            }
        }
        Ok(files)
    }

    /// Withdraws a request: whoever asked does not need an answer any more.
    pub async fn cancel_permission(
        &self,
        caller: &Caller,
        id: PermissionId,
        body: CancelPermission,
    ) -> Result<PermissionRecord> {
        let viewer = caller.viewer()?;
        within(
            "reason",
            REASON_BYTES,
            body.reason.as_ref().map_or(0, String::len),
        )?;
        let ending = PermissionEnding {
            viewer: Some(viewer),
            workspace_no: viewer.workspace_no,
            id,
            cause: EndingCause::Withdrawn {
                reason: self.shown(body.reason.as_deref()),
            },
            at: self.now(),
        };
        Ok(self.store.end_permission(ending).await?.to_record())
    }

    /// Notes that somebody who may decide has the request before their eyes.
    pub async fn see_permission(
        &self,
        caller: &Caller,
        id: PermissionId,
    ) -> Result<PermissionRecord> {
        let seen = self.store.see_permission(caller.viewer()?, id, self.now());
        let row = seen.await?.ok_or_else(not_theirs)?;
        Ok(row.to_record())
    }

    /// Writes down that what was allowed is about to run. Only then may it.
    pub async fn start_permission(
        &self,
        caller: &Caller,
        id: PermissionId,
        body: StartPermission,
    ) -> Result<PermissionRecord> {
        within("argsHash", CALL_ID_BYTES, body.args_hash.len())?;
        within(
            "startId",
            CALL_ID_BYTES,
            body.start_id.as_ref().map_or(0, String::len),
        )?;
        let start = ExecutionMove::Start {
            hash: body.args_hash,
            start_id: body.start_id,
        };
        self.execute_permission(caller, id, start).await
    }

    /// Writes down how what was allowed has ended.
    pub async fn finish_permission(
        &self,
        caller: &Caller,
        id: PermissionId,
        body: FinishPermission,
    ) -> Result<PermissionRecord> {
        within(
            "error",
            REASON_BYTES,
            body.error.as_ref().map_or(0, String::len),
        )?;
        if body.state == ExecutionState::Started {
            let ends = "completed, failed, unknown or cancelled";
            return Err(invalid("state", ends, "started"));
        }
        let error = body.error.as_deref();
        let finish = ExecutionMove::Finish {
            state: body.state,
            error: error.map(|text| self.redactor.redact(text).into_owned()),
        };
        self.execute_permission(caller, id, finish).await
    }

    async fn execute_permission(
        &self,
        caller: &Caller,
        id: PermissionId,
        step: ExecutionMove,
    ) -> Result<PermissionRecord> {
        caller.agent()?;
        let step = ExecutionStep {
            viewer: caller.viewer()?,
            id,
            step,
            at: self.now(),
        };
        Ok(self.store.execute_permission(step).await?.to_record())
    }
}

/// People and the workspace see everything, an agent its own.
fn sees_all(caller: &Caller) -> bool {
    caller.agent().map_or(true, |agent| agent.is_human())
}

/// The request as somebody sees it. Observers see what a call is made with only if that was granted.
fn seen_by(caller: &Caller, row: &PermissionRow) -> PermissionRecord {
    let mut record = row.to_record();
    if !sees_calls(caller) {
        trim(&mut record);
    }
    record
}

fn sees_calls(caller: &Caller) -> bool {
    caller.scope().is_none_or(|scope| {
        let grants = scope.grants.as_deref().unwrap_or_default();
        grants.contains(&ObserverGrant::Permissions)
    })
}

fn call_of(body: &AskPermission) -> Call<'_> {
    Call {
        tool: &body.tool,
        params: &body.params,
        tool_call_id: body.tool_call_id.as_deref(),
        cwd: body.cwd.as_deref().map(Path::new),
    }
}

/// The answers that are offered when whoever asks names none.
fn usual_options() -> Vec<PermissionOption> {
    use PermissionOptionKind::{AllowAlways, AllowOnce, RejectOnce};
    let option = |kind: PermissionOptionKind, name: &str| PermissionOption {
        option_id: kind.to_string(),
        kind,
        name: name.to_owned(),
    };
    vec![
        option(AllowOnce, "Allow once"),
        option(AllowAlways, "Allow always"),
        option(RejectOnce, "Deny"),
    ]
}

/// The answer, as repeats are recognised.
fn digest_of(body: &ResolvePermission) -> [u8; 32] {
    Sha256::digest(serde_json::to_vec(body).unwrap_or_default()).into()
}

const fn not_theirs() -> Error {
    Error::Forbidden {
        needs: "somebody else's decision: whoever asks, or stands above who asks, does not decide; the workspace key or the token of another person",
    }
}

pub(crate) fn invalid(path: &'static str, expected: &str, found: &str) -> Error {
    Error::Invalid {
        path,
        expected: expected.to_owned(),
        found: found.to_owned(),
    }
}

/// Asks a machine about paths; see [`Engine::with_files`].
pub(crate) type SharedFiles = Arc<dyn Files + Send + Sync>;
