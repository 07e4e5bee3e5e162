//! Short ways to write policies and calls.

use std::path::{Path, PathBuf};

use relay_protocol::permission::{Permissions, RuleDecision, ToolParams};
use relay_protocol::wire::decode_value;
use relay_rules::{Call, Files, Policy, Rule, RuleFault, Verdict, decide};
use serde_json::{Value, json};

/// Files without links, where everything may be.
pub(crate) struct PlainFiles;

impl Files for PlainFiles {
    fn resolve(&self, path: &Path) -> Option<PathBuf> {
        let mut clean = PathBuf::new();
        for part in path.components() {
            match part {
                std::path::Component::ParentDir => drop(clean.pop()),
                std::path::Component::CurDir => {}
                part => clean.push(part),
            }
        }
        // What leads through `/link` leads to `/secret`.
        match clean.strip_prefix("/link") {
            Ok(rest) => Some(Path::new("/secret").join(rest)),
            Err(_) => Some(clean),
        }
    }
}

pub(crate) fn compile(permissions: Value) -> Result<Policy, RuleFault> {
    let permissions: Permissions = decode_value(permissions).unwrap();
    Policy::compile(&permissions)
}

pub(crate) fn policy(permissions: Value) -> Policy {
    compile(permissions).unwrap()
}

pub(crate) fn params(params: Value) -> ToolParams {
    params.as_object().unwrap().clone()
}

/// Decides about a call of a tool in `/work`.
pub(crate) fn verdict(policy: &Policy, grants: &[&Rule], tool: &str, given: Value) -> Verdict {
    let params = params(given);
    let call = Call {
        tool,
        params: &params,
        tool_call_id: Some("call_1"),
        cwd: Some(Path::new("/work")),
    };
    decide(&call, &[policy], grants, &PlainFiles)
}

pub(crate) fn decision(policy: &Policy, tool: &str, given: Value) -> RuleDecision {
    verdict(policy, &[], tool, given).decision
}

/// Decides about a command.
pub(crate) fn on_bash(policy: &Policy, command: &str) -> RuleDecision {
    decision(policy, "bash", json!({ "command": command }))
}
