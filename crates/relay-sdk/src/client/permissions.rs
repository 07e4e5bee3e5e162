//! Permissions: asking for them, answering, and what was granted for longer.

use std::sync::Arc;
use std::time::Duration;

use relay_protocol::api::Page;
use relay_protocol::ids::{GrantId, PermissionId, RunId, SessionId};
use relay_protocol::link::NoOptions;
use relay_protocol::permission::{
    AskPermission, CreateRun, EvaluatePermission, Evaluation, Grant, PermissionRecord,
    PermissionRun, PermissionState, ResolvePermission,
};
use serde::Serialize;

use super::{AgentClient, Client};
use crate::error::Result;
use crate::http::{Call, Http, with_query};
use crate::key::new_key;
use crate::permission::{Question, Waiting, cancel, path};

/// Which permission requests are wanted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionQuery {
    /// Only those in this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<PermissionState>,
    /// Only those of this agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Only those of this session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The `nextCursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Most items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

impl PermissionQuery {
    /// Those that wait for a decision.
    #[must_use]
    pub fn pending() -> Self {
        Self {
            state: Some(PermissionState::Pending),
            ..Self::default()
        }
    }
}

/// Which grants are wanted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GrantQuery {
    /// Only those that this agent can use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Also those that no longer hold.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
    /// The `nextCursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Most items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

#[derive(Serialize)]
struct EndQuery<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

impl Client {
    /// Permission requests and grants, for those who decide.
    #[must_use]
    pub fn permissions(&self) -> Permissions {
        Permissions {
            http: self.shared_http(),
        }
    }
}

impl AgentClient {
    /// Asks whether a tool may run. Rules and grants may decide at once; otherwise people are told and decide.
    ///
    /// A session asks by [`AttachedSession::ask_permission`](crate::AttachedSession::ask_permission).
    pub async fn ask_permission(&self, ask: AskPermission) -> Result<Question> {
        Question::ask(self.shared_http(), None, ask).await
    }

    /// Begins a run with rules of its own; under a parent they can narrow that one's, never widen them.
    pub async fn create_run(&self, run: &CreateRun) -> Result<PermissionRun> {
        create_run(self.http(), None, run).await
    }
}

/// Begins a run, in a session if one is named.
pub(crate) async fn create_run(
    http: &Http,
    through: Option<SessionId>,
    run: &CreateRun,
) -> Result<PermissionRun> {
    let call = Call::post("/v1/permissions/runs", run).through(through);
    http.json(call).await
}

/// What can be done about permission requests and grants, by whoever may.
///
/// ```no_run
/// # async fn example(relay: relay_sdk::Relay) -> relay_sdk::Result<()> {
/// use relay_sdk::PermissionQuery;
///
/// let permissions = relay.permissions();
/// for request in permissions.list(&PermissionQuery::pending()).await?.items {
///     println!("{} {:?}", request.tool, request.params);
///     if let Err(error) = permissions.approve(request.permission_id).await {
///         println!("{error}, decided by {:?}", error.outcome());
///     }
/// }
/// # Ok(())
/// # }
/// ```
///
/// What happens to them is told by events: `add_listener("permission.*", …)`, or by name, such as
/// [`PERMISSION_REQUESTED`](crate::events::PERMISSION_REQUESTED).
#[derive(Clone)]
pub struct Permissions {
    http: Arc<Http>,
}

impl Permissions {
    /// Permission requests, newest first.
    pub async fn list(&self, query: &PermissionQuery) -> Result<Page<PermissionRecord>> {
        let path = with_query("/v1/permissions", query);
        self.http.json(Call::get(path)).await
    }

    /// One permission request, also after its end.
    pub async fn get(&self, id: PermissionId) -> Result<PermissionRecord> {
        self.http.json(Call::get(path(id, ""))).await
    }

    /// Waits until a request is no longer pending, across lost connections and restarts of the server, or until the time is
    /// over: the request as it then is. Without a time it waits as long as the request does.
    pub async fn wait(
        &self,
        id: PermissionId,
        within: impl Into<Option<Duration>>,
    ) -> Result<PermissionRecord> {
        Waiting::new(&self.http, id, None).wait(within.into()).await
    }

    /// Decides. When somebody else was faster, the error has what they decided
    /// ([`Error::outcome`](crate::Error::outcome)).
    pub async fn resolve(
        &self,
        id: PermissionId,
        mut answer: ResolvePermission,
    ) -> Result<PermissionRecord> {
        if answer.response_id.is_none() {
            answer.response_id = new_key();
        }
        let repeatable = answer.response_id.is_some();
        let call = Call::post(path(id, "/resolve"), &answer).repeatable_if(repeatable);
        self.http.json(call).await
    }

    /// Allows a call, this time.
    pub async fn approve(&self, id: PermissionId) -> Result<PermissionRecord> {
        self.resolve(id, ResolvePermission::approve()).await
    }

    /// Allows a call and those that the first rule of the request's `suggestions` covers.
    pub async fn approve_always(&self, id: PermissionId) -> Result<PermissionRecord> {
        self.resolve(id, ResolvePermission::approve_always()).await
    }

    /// Refuses a call; the agent reads the reason and goes on.
    pub async fn deny(
        &self,
        id: PermissionId,
        reason: impl Into<String>,
    ) -> Result<PermissionRecord> {
        self.resolve(id, ResolvePermission::deny(reason)).await
    }

    /// Says that a request is no longer needed.
    pub async fn cancel(&self, id: PermissionId, reason: Option<&str>) -> Result<PermissionRecord> {
        cancel(&self.http, id, reason).await
    }

    /// Says that the request is before somebody's eyes.
    pub async fn seen(&self, id: PermissionId) -> Result<PermissionRecord> {
        let call = Call::post(path(id, "/seen"), &NoOptions {}).repeatable();
        self.http.json(call).await
    }

    /// What the rules say about a call. Nobody is asked and nothing is stored.
    pub async fn evaluate(&self, call: &EvaluatePermission) -> Result<Evaluation> {
        let call = Call::post("/v1/permissions/evaluate", call).repeatable();
        self.http.json(call).await
    }

    /// One run, and its own rules.
    pub async fn run(&self, id: RunId) -> Result<PermissionRun> {
        self.http.json(Call::get(run_path(id))).await
    }

    /// Ends a run, and those below it; what they still ask is cancelled.
    pub async fn end_run(&self, id: RunId, reason: Option<&str>) -> Result<PermissionRun> {
        let path = with_query(&run_path(id), &EndQuery { reason });
        self.http.json(Call::delete(path).repeatable()).await
    }

    /// Standing decisions, newest first.
    pub async fn grants(&self, query: &GrantQuery) -> Result<Page<Grant>> {
        let path = with_query("/v1/grants", query);
        self.http.json(Call::get(path)).await
    }

    /// Takes a grant back, from the next call on.
    pub async fn revoke_grant(&self, id: GrantId) -> Result<Grant> {
        let call = Call::delete(format!("/v1/grants/{id}")).repeatable();
        self.http.json(call).await
    }
}

fn run_path(id: RunId) -> String {
    format!("/v1/permissions/runs/{id}")
}
