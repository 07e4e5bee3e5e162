//! Permissions: tool calls that wait for a decision, who decides, and what is kept of it. `docs/permissions.md` has the
//! picture.

pub(crate) mod answer;
pub(crate) mod machine;
mod words;

use std::path::Path;
use std::sync::Arc;

use relay_protocol::api::Page;
use relay_protocol::api::workspace::ObserverGrant;
use relay_protocol::ids::{GrantId, PermissionId, RunId, SessionId};
use relay_protocol::limits::{
    CALL_ID_BYTES, PERMISSION_EXPIRES_MAX_MS, PERMISSION_OPTIONS, PERMISSION_PARAMS_BYTES,
    PERMISSION_TITLE_BYTES, PERMISSION_VIA_BYTES, REASON_BYTES, TEXT_BYTES, TOOL_NAME_BYTES,
};
use relay_protocol::permission::{
    AskPermission, CancelPermission, CreateRun, EvaluatePermission, Evaluation, ExecutionState,
    FinishPermission, Grant, GrantScope, PermissionOption, PermissionOptionKind, PermissionRecord,
    PermissionRun, PermissionState, Permissions, ResolvePermission, RuleSuggestion,
    StartPermission, ToolParams, args_hash,
};
use relay_protocol::problem::{ErrorCode, Problem};
use relay_rules::{Call, Files, KnownFiles, Policy, RuleFault, suggestions};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

pub(crate) use self::words::{
    decided_by_rule, guidance_to, notice_text, notice_to, obstructed, resolved_before, trim,
};
use crate::caller::Caller;
use crate::engine::{Engine, PageQuery, within};
use crate::error::{Error, Result};
use crate::store::{
    EndingCause, ExecutionMove, ExecutionStep, GrantList, GrantQuery, GrantRow, NewPermission,
    NewRun, PageRequest, PermissionBody, PermissionEnding, PermissionList, PermissionQuery,
    PermissionRow, Resolution, Resolved, Whose, judge,
};

/// Most waiting requests whose files are looked at when a grant is made. Those beyond wait for an answer of their own
/// if a rule about paths is what covers them.
const LOOKED_AT: usize = 10_000;

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
            None => None,
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
        self.check_answer(&body)?;
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
                    limit: LOOKED_AT,
                },
            };
            for other in self.store.permissions(list).await?.items {
                look(&other.body.params, &other);
            }
        }
        Ok(files)
    }

    fn check_answer(&self, body: &ResolvePermission) -> Result<()> {
        let texts = [
            ("reason", &body.reason, REASON_BYTES),
            ("guidance", &body.guidance, TEXT_BYTES),
            ("via", &body.via, PERMISSION_VIA_BYTES),
            ("policy", &body.policy, PERMISSION_VIA_BYTES),
            ("responseId", &body.response_id, CALL_ID_BYTES),
        ];
        for (what, text, most) in texts {
            within(what, most, text.as_ref().map_or(0, String::len))?;
        }
        let Some(params) = &body.updated_params else {
            return Ok(());
        };
        let mut updated = Value::Object(params.clone());
        within(
            "updatedParams",
            PERMISSION_PARAMS_BYTES,
            updated.to_string().len(),
        )?;
        // They are kept until the call runs, and secrets are not.
        match self.redactor.redact_json(&mut updated) {
            false => Ok(()),
            true => Err(Error::Refused(Box::new(Problem {
                path: Some("updatedParams".to_owned()),
                ..Problem::new(
                    ErrorCode::SecretRefused,
                    "updatedParams hold a secret, or the mark that stands for one; approve the call as it was asked, or deny it",
                )
            }))),
        }
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
            None => None,
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

fn grant_seen_by(caller: &Caller, row: &GrantRow) -> Grant {
    let mut grant = row.to_grant();
    if !sees_calls(caller) {
        grant.rule.clear();
    }
    grant
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

fn check_ask(body: &AskPermission) -> Result<()> {
    check_call(&body.tool, &body.params)?;
    let texts = [
        ("toolCallId", &body.tool_call_id, CALL_ID_BYTES),
        ("turnId", &body.turn_id, CALL_ID_BYTES),
        ("title", &body.title, PERMISSION_TITLE_BYTES),
        ("cwd", &body.cwd, 4096),
    ];
    for (what, text, most) in texts {
        within(what, most, text.as_ref().map_or(0, String::len))?;
    }
    if let Some(cwd) = body
        .cwd
        .as_deref()
        .filter(|cwd| !Path::new(cwd).is_absolute())
    {
        return Err(invalid("cwd", "an absolute path", cwd));
    }
    if let Some(expires) = body
        .expires_in_ms
        .filter(|it| !(1..=PERMISSION_EXPIRES_MAX_MS).contains(it))
    {
        let expected = format!("1 to {PERMISSION_EXPIRES_MAX_MS}");
        return Err(invalid("expiresInMs", &expected, &expires.to_string()));
    }
    body.options.as_deref().map_or(Ok(()), check_options)
}

fn check_options(options: &[PermissionOption]) -> Result<()> {
    within("options", PERMISSION_OPTIONS, options.len())?;
    if options.is_empty() {
        return Err(invalid("options", "at least one answer", "none"));
    }
    for (at, option) in options.iter().enumerate() {
        within("options.optionId", CALL_ID_BYTES, option.option_id.len())?;
        within("options.name", PERMISSION_TITLE_BYTES, option.name.len())?;
        let before = &options[..at];
        if before
            .iter()
            .any(|other| other.option_id == option.option_id)
        {
            return Err(invalid("options", "each optionId once", &option.option_id));
        }
    }
    Ok(())
}

fn check_call(tool: &str, params: &ToolParams) -> Result<()> {
    within("tool", TOOL_NAME_BYTES, tool.len())?;
    if tool.is_empty() || tool.chars().any(char::is_control) {
        return Err(invalid("tool", "the name of a tool", &format!("{tool:?}")));
    }
    let params = serde_json::to_string(params).map_or(0, |text| text.len());
    within("params", PERMISSION_PARAMS_BYTES, params)
}

/// The answer, as repeats are recognised.
fn digest_of(body: &ResolvePermission) -> [u8; 32] {
    Sha256::digest(serde_json::to_vec(body).unwrap_or_default()).into()
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
