//! `relay policy`: how deliveries are made in this workspace, and which tool calls need no question. Always as the
//! workspace.

use clap::Subcommand;
use relay_protocol::permission::Permissions;
use relay_protocol::policy::{Policy, PolicyPatch};
use relay_protocol::suggest::nearest;
use relay_protocol::wire;
use serde_json::{Map, Value};

use crate::contact::Contact;
use crate::failure::{Exit, Failure, Outcome};
use crate::hints;
use crate::output::{Output, Style, fields};

#[derive(Subcommand)]
pub(crate) enum PolicyCommand {
    /// Show the policy
    #[command(after_help = "Example:\n  relay policy show")]
    Show,
    /// Change values of the policy
    #[command(after_help = "\
Examples:
  relay policy set window=8 retry.attempts=5
  relay policy set boundaries=on-idle,next-tool-call messages.redact=mask
  relay policy set permissions='{\"allowlist\": [\"bash:git status **\"], \"deny\": [\"bash:rm **\"]}'
  relay policy set permissions.allowlist='[\"bash:cargo test **\", \"read:/srv/**\"]'
  relay policy set permissions='{}'              no rules: everything is asked

Rules are JSON. `relay permission test` says what they would decide.")]
    Set {
        /// What to change, as name=value; `relay policy show` has the names
        #[arg(required = true, value_name = "NAME=VALUE")]
        changes: Vec<String>,
    },
}

pub(crate) async fn run(command: &PolicyCommand, contact: &Contact, output: &Output) -> Outcome {
    let policy = contact.relay.policy().await?;
    let policy = match command {
        PolicyCommand::Show => policy,
        PolicyCommand::Set { changes } => {
            let patch = patch(&policy, changes)?;
            contact.relay.update_policy(&patch).await?
        }
    };
    output.show(&policy, |style| text(style, &policy))
}

fn text(style: &Style, policy: &Policy) -> String {
    let mut all = Vec::new();
    if let Ok(Value::Object(values)) = serde_json::to_value(policy) {
        flatten("", &values, &mut all);
    }
    let shown: Vec<(&str, String)> = all
        .iter()
        .map(|(name, value)| match name.starts_with(RULES) {
            // As they can be given back: in patterns there may be commas.
            true => (name.as_str(), value.to_string()),
            false => (name.as_str(), plain(value)),
        })
        .collect();
    fields(style, &shown)
}

/// The part of the policy that is about tool calls, which is JSON also when it is set.
const RULES: &str = "permissions";

/// Every value by its dotted name.
fn flatten(before: &str, values: &Map<String, Value>, all: &mut Vec<(String, Value)>) {
    for (name, value) in values {
        let name = format!("{before}{name}");
        match value {
            Value::Object(inner) => flatten(&format!("{name}."), inner, all),
            value => all.push((name, value.clone())),
        }
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(","),
        value => value.to_string(),
    }
}

/// The changes as the server takes them. The version goes with them, so that a change by somebody else in
/// between is not overwritten.
fn patch(policy: &Policy, changes: &[String]) -> Outcome<PolicyPatch> {
    let broken = |error: serde_json::Error| Failure::new(Exit::Usage, "usage", error.to_string());
    let mut whole = serde_json::to_value(policy).map_err(broken)?;
    let mut patch = Map::new();
    for change in changes {
        let Some((name, text)) = change.split_once('=') else {
            return Err(Failure::usage(format!(
                "expected name=value, found {change:?}"
            )));
        };
        if name == RULES || name.starts_with("permissions.") {
            let rules = rules(&whole[RULES], name, text)?;
            whole[RULES] = rules.clone();
            patch.insert(RULES.to_owned(), rules);
            continue;
        }
        let path = format!("/{}", name.replace('.', "/"));
        let value = match whole.pointer_mut(&path) {
            Some(value) if !value.is_object() && name != "version" => value,
            _ => return Err(unknown(policy, name)),
        };
        *value = read(value, name, text)?;
        let top = name.split('.').next().unwrap_or(name);
        patch.insert(top.to_owned(), whole[top].clone());
    }
    patch.insert("version".to_owned(), policy.version.into());
    serde_json::from_value(Value::Object(patch)).map_err(broken)
}

/// The rules with this change: all of them, or one list.
fn rules(before: &Value, name: &str, text: &str) -> Outcome<Value> {
    let value: Value = serde_json::from_str(text).map_err(|error| {
        Failure::usage(format!("{name}: expected JSON: {error}"))
            .next("quote it: permissions.allowlist='[\"bash:git status **\"]'")
    })?;
    let changed = match name.split_once('.') {
        Some((_, list)) => {
            let mut changed = before.as_object().cloned().unwrap_or_default();
            changed.insert(list.to_owned(), value);
            Value::Object(changed)
        }
        None => value,
    };
    match wire::decode_value::<Permissions>(changed.clone()) {
        Ok(_) => Ok(changed),
        Err(error) if error.path.is_empty() => {
            Err(Failure::usage(format!("permissions: {}", error.message)))
        }
        Err(error) => Err(Failure::usage(format!(
            "permissions.{}: {}",
            error.path, error.message
        ))),
    }
}

/// A value of the kind that was there.
fn read(before: &Value, name: &str, text: &str) -> Outcome<Value> {
    match before {
        Value::Number(_) => text.parse::<u64>().map(Value::from).map_err(|_| {
            Failure::usage(format!("{name}: expected a whole number, found {text:?}"))
        }),
        Value::Array(_) => {
            let items = text
                .split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty());
            Ok(items.map(Value::from).collect())
        }
        _ => Ok(Value::from(text)),
    }
}

fn unknown(policy: &Policy, name: &str) -> Failure {
    let mut all = Vec::new();
    if let Ok(Value::Object(values)) = serde_json::to_value(policy) {
        flatten("", &values, &mut all);
    }
    let names = all
        .iter()
        .map(|(name, _)| name)
        .filter(|name| *name != "version");
    let near = nearest(name, names, 3);
    let message = match near.is_empty() {
        true => format!("the policy has no {name:?}"),
        false => format!(
            "the policy has no {name:?}; the nearest are {}",
            near.join(", ")
        ),
    };
    Failure::usage(message).next(format!("`{}` has all names", hints::command("policy show")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(changes: &[&str]) -> Outcome<PolicyPatch> {
        let changes: Vec<String> = changes.iter().map(|&text| text.to_owned()).collect();
        patch(&Policy::default(), &changes)
    }

    #[test]
    fn nested_values_take_the_rest_of_their_group_along() {
        let patch = changed(&["retry.attempts=5", "window=8", "boundaries=on-idle"]).unwrap();
        let found = serde_json::to_value(&patch).unwrap();
        let expected = serde_json::json!({
            "boundaries": ["on-idle"],
            "retry": { "attempts": 5, "minMs": 1_000, "maxMs": 300_000 },
            "window": 8,
            "version": 1,
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_not_in_the_policy_is_refused() {
        for (change, expected) in [
            (
                "windw=8",
                "the policy has no \"windw\"; the nearest are window",
            ),
            ("retry=8", "the policy has no \"retry\""),
            ("version=8", "the policy has no \"version\""),
            ("window", "expected name=value, found \"window\""),
            (
                "window=many",
                "window: expected a whole number, found \"many\"",
            ),
        ] {
            let failure = changed(&[change]).unwrap_err();
            assert!(
                failure.message().starts_with(expected),
                "{}",
                failure.message()
            );
        }
    }
}
