//! Permission requests: asked, decided once, run at most once, and what is kept of it.

mod asking;
mod deciding;
mod grants;
mod limits;
mod running;
mod runs;
mod waiting;

use relay_core::{Caller, GrantQuery, PageQuery, PermissionQuery, Result};
use relay_protocol::ids::{PermissionId, SessionId};
use relay_protocol::permission::{
    AskPermission, Grant, PermissionRecord, PermissionState, Permissions, ResolvePermission,
    StartPermission,
};
use relay_protocol::problem::{ErrorCode, Problem};
use relay_protocol::wire::decode_value;
use serde_json::{Value, json};

use super::kit::{Lab, now};

/// A call of bash.
fn bash(command: &str) -> AskPermission {
    ask(json!({ "tool": "bash", "params": { "command": command } }))
}

fn ask(body: Value) -> AskPermission {
    decode_value(body).unwrap()
}

fn answer(body: Value) -> ResolvePermission {
    decode_value(body).unwrap()
}

fn rules(rules: Value) -> Permissions {
    decode_value(rules).unwrap()
}

fn problem<T: std::fmt::Debug>(result: Result<T>) -> Problem {
    result.unwrap_err().problem()
}

fn code<T: std::fmt::Debug>(result: Result<T>) -> ErrorCode {
    problem(result).code
}

impl Lab {
    /// A lab with ada, who asks, bob, another agent, and ana, a person.
    fn with_people() -> Self {
        let lab = Self::new(["ada", "bob"]);
        lab.person("ana");
        lab
    }

    fn try_ask(&self, session: Option<SessionId>, body: AskPermission) -> Result<PermissionRecord> {
        let ada = self.who("ada");
        self.drive(self.engine().ask_permission(&ada, session, body))
    }

    fn ask(&self, command: &str) -> PermissionRecord {
        self.try_ask(None, bash(command)).unwrap()
    }

    fn ask_in(&self, session: SessionId, command: &str) -> PermissionRecord {
        self.try_ask(Some(session), bash(command)).unwrap()
    }

    fn resolve(&self, who: &str, id: PermissionId, body: Value) -> Result<PermissionRecord> {
        let engine = self.engine();
        self.drive(engine.resolve_permission(&self.who(who), id, answer(body)))
    }

    fn approve(&self, id: PermissionId) -> PermissionRecord {
        self.resolve("ana", id, json!({ "approved": true }))
            .unwrap()
    }

    fn permission(&self, id: PermissionId) -> PermissionRecord {
        self.step();
        now(self.engine().permission(&self.who("key"), id)).unwrap()
    }

    fn standing(&self, id: PermissionId) -> PermissionState {
        self.permission(id).state
    }

    fn start(&self, record: &PermissionRecord) -> Result<PermissionRecord> {
        self.start_with(record, &record.args_hash, None)
    }

    fn start_with(
        &self,
        record: &PermissionRecord,
        hash: &str,
        start_id: Option<&str>,
    ) -> Result<PermissionRecord> {
        let body = StartPermission {
            args_hash: hash.to_owned(),
            start_id: start_id.map(str::to_owned),
        };
        let ada = self.who("ada");
        self.drive(
            self.engine()
                .start_permission(&ada, record.permission_id, body),
        )
    }

    fn finish(&self, record: &PermissionRecord, state: &str) -> Result<PermissionRecord> {
        let body = decode_value(json!({ "state": state })).unwrap();
        let ada = self.who("ada");
        self.drive(
            self.engine()
                .finish_permission(&ada, record.permission_id, body),
        )
    }

    fn asked_for(&self, who: &Caller, state: Option<PermissionState>) -> Vec<PermissionRecord> {
        let query = PermissionQuery {
            state,
            ..PermissionQuery::default()
        };
        let found = now(self.engine().permissions(who, query, PageQuery::default()));
        found.unwrap().items
    }

    fn grants(&self, who: &str, ended: bool) -> Vec<Grant> {
        let query = GrantQuery {
            ended,
            ..GrantQuery::default()
        };
        let found = now(self
            .engine()
            .grants(&self.who(who), query, PageQuery::default()));
        found.unwrap().items
    }

    /// The names of events about permissions and grants, in their order.
    fn course_of_permissions(&self) -> Vec<String> {
        let names = self.log().into_iter().map(|event| {
            let name = event["type"].as_str().unwrap();
            name.to_owned()
        });
        names
            .filter(|name| name.starts_with("permission.") || name.starts_with("grant."))
            .collect()
    }
}
