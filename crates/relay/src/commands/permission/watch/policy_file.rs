//! Rules in a file, as an approver.

use std::path::Path;

use relay_protocol::limits::PERMISSION_VIA_BYTES;
use relay_protocol::permission::{PermissionRecord, Permissions, RuleDecision};
use relay_protocol::wire;
use relay_rules::{Call, Files, NoFiles, Policy, RealFiles, Used, Verdict, decide};

use crate::failure::{Exit, Failure, Outcome};

/// The rules of a file.
pub(crate) struct PolicyFile {
    name: String,
    permissions: Permissions,
    policy: Policy,
    /// Where paths lead, on the machine on which the tools run; nowhere where that is not known.
    files: Box<dyn Files>,
}

impl PolicyFile {
    /// Reads it. What can't be read is named before anything begins.
    pub(crate) fn read(path: &Path) -> Outcome<Self> {
        let shown = path.display();
        let text = std::fs::read(path).map_err(|error| {
            let message = format!("the policy {shown} can't be read: {error}");
            Failure::new(Exit::NotFound, "no_policy", message)
        })?;
        let permissions: Permissions = wire::decode(&text).map_err(|error| {
            let place = match error.path.as_str() {
                "" | "." => String::new(),
                path => format!("{path}: "),
            };
            Failure::usage(format!("the policy {shown}: {place}{}", error.message))
                .next("it is an object such as {\"allowlist\": [\"bash:git status **\"]}")
        })?;
        let policy = Policy::compile(&permissions).map_err(|fault| {
            // The file is what the workspace's policy has as `permissions`.
            let fault = fault.to_string();
            let fault = fault.strip_prefix("permissions.").unwrap_or(&fault);
            Failure::usage(format!("the policy {shown}: {fault}"))
        })?;
        let name = path
            .file_name()
            .unwrap_or(path.as_os_str())
            .to_string_lossy();
        Ok(Self {
            name: cut(&name),
            permissions,
            policy,
            files: Box::new(NoFiles),
        })
    }

    /// For calls of the agents of a server: where it is on this machine, so are most likely their files.
    pub(super) fn for_calls_at(mut self, url: &str) -> Self {
        let host = url.split_once("://").map_or(url, |(_, rest)| rest);
        let is_here = ["127.", "localhost", "[::1]"];
        if is_here.iter().any(|here| host.starts_with(here)) {
            self.files = Box::new(RealFiles);
        }
        self
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The rules as the server takes them.
    pub(crate) fn into_permissions(self) -> Permissions {
        self.permissions
    }

    /// What the rules say about a request. Where secrets were taken out nobody knows what would run, so nothing is allowed.
    pub(super) fn decide(&self, record: &PermissionRecord) -> Verdict {
        let call = Call {
            tool: &record.tool,
            params: &record.params,
            tool_call_id: record.tool_call_id.as_deref(),
            cwd: record.cwd.as_deref().map(Path::new),
        };
        let mut verdict = decide(&call, &[&self.policy], &[], &*self.files);
        if record.masked == Some(true) && verdict.decision == RuleDecision::Allow {
            verdict.decision = RuleDecision::Ask;
        }
        verdict
    }

    /// Rules for one call that were used are gone.
    pub(super) fn use_up(&mut self, used: &[Used]) {
        let spent: Vec<usize> = used.iter().map(|used| used.index).collect();
        if !spent.is_empty() {
            self.policy = self.policy.without_once(&spent);
        }
    }
}

/// As much of a name as a decision keeps.
fn cut(name: &str) -> String {
    let mut end = name.len().min(PERMISSION_VIA_BYTES);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].to_owned()
}
