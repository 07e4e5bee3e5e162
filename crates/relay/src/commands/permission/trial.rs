//! `relay permission test`: what the rules say about a call, without asking anybody.

use std::path::PathBuf;

use clap::Args;
use relay_protocol::permission::{EvaluatePermission, Evaluation, RuleDecision, ToolParams};
use serde_json::Value;

use super::watch::PolicyFile;
use crate::contact::Contact;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Output, Style, fields, one_line};
use crate::words;

pub(super) const EXAMPLES: &str = "\
Examples:
  relay permission test --command 'git push && rm -rf build'
  relay permission test read '{\"path\": \"/etc/passwd\"}' --as ada
  relay permission test --command 'git status' --policy rules.json

Without --policy the rules in force decide, those of the agent of --as with its grants. Exit code 0: the call may run; \
9: somebody is asked; 126: it may not run.";

#[derive(Args)]
pub(crate) struct TestArguments {
    /// The tool [default: bash, with --command]
    #[arg(required_unless_present = "command")]
    tool: Option<String>,
    /// What it is called with, as JSON
    #[arg(required_unless_present = "command", conflicts_with = "command", value_parser = params)]
    params: Option<ToolParams>,
    /// A shell command, as the parameter `command`
    #[arg(long)]
    command: Option<String>,
    /// Rules to try instead of those in force: a file of JSON, such as {"allowlist": ["bash:git status **"]}
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// The directory that relative paths are meant from [default: this one]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
}

fn params(text: &str) -> Result<ToolParams, String> {
    serde_json::from_str(text).map_err(|error| format!("expected an object as JSON: {error}"))
}

pub(super) async fn run(arguments: &TestArguments, contact: &Contact, output: &Output) -> Outcome {
    let policy = arguments
        .policy
        .as_deref()
        .map(PolicyFile::read)
        .transpose()?;
    let params = match (&arguments.params, &arguments.command) {
        (Some(params), _) => params.clone(),
        (None, Some(command)) => {
            ToolParams::from_iter([("command".to_owned(), Value::from(command.as_str()))])
        }
        (None, None) => ToolParams::new(),
    };
    let cwd = match &arguments.cwd {
        Some(cwd) => std::path::absolute(cwd).ok(),
        None => std::env::current_dir().ok(),
    };
    let call = EvaluatePermission {
        tool: arguments.tool.clone().unwrap_or_else(|| "bash".to_owned()),
        params,
        permissions: policy.map(PolicyFile::into_permissions),
        session_id: None,
        run_id: None,
        cwd: cwd.map(|cwd| cwd.to_string_lossy().into_owned()),
    };
    let found = contact.relay.permissions().evaluate(&call).await?;
    output.show(&found, |style| text(style, &call, &found))?;
    match found.decision {
        RuleDecision::Allow => Ok(()),
        RuleDecision::Ask => Err(Failure::status(Exit::Asks as u8)),
        RuleDecision::Deny => Err(Failure::status(Exit::Denied as u8)),
    }
}

fn text(style: &Style, call: &EvaluatePermission, found: &Evaluation) -> String {
    let decision = match found.decision {
        RuleDecision::Allow => style.good("allow"),
        RuleDecision::Ask => style.open("ask"),
        RuleDecision::Deny => style.bad("deny"),
    };
    let mut rows: Vec<(&str, String)> = Vec::new();
    for (name, value) in &call.params {
        rows.push((name.as_str(), words::value(style, name, value)));
    }
    rows.push(("decision", decision));
    rows.push(("why", one_line(&found.reason)));
    if let Some(rule) = &found.rule {
        rows.push(("rule", one_line(rule)));
    }
    for offer in &found.suggestions {
        rows.push((
            "always",
            format!("{}  {}", one_line(&offer.rule), one_line(&offer.covers)),
        ));
    }
    fields(style, &rows)
}
