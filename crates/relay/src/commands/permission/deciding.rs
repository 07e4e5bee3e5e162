//! `relay permission approve`, `deny` and `cancel`. The first decision counts; whoever comes later is told who was faster.

use std::time::Duration;

use clap::Args;
use relay_protocol::ids::PermissionId;
use relay_protocol::permission::{
    GrantScope, PermissionOption, PermissionOptionKind, PermissionRecord, ResolvePermission,
    ToolParams,
};

use super::{VIA, asker, meant};
use crate::contact::Contact;
use crate::failure::{Failure, Outcome};
use crate::hints;
use crate::literal;
use crate::moment::parse_duration;
use crate::output::{Output, Style, one_line};
use crate::words;

pub(super) const APPROVE_EXAMPLES: &str = "\
Examples:
  relay permission approve                               the one that waits, if it is the only one
  relay permission approve 01a1e393-83fa-768d-8000-01000000000b
  relay permission approve 01a1e393-83fa-768d-8000-01000000000b --always
  relay permission approve 01a1e393-83fa-768d-8000-01000000000b --always --rule 'bash:git push origin **' --for 1h
  relay permission approve 01a1e393-83fa-768d-8000-01000000000b --params '{\"command\": \"git push --dry-run\"}'

`relay permission show` says what --always would cover. Exit code 8: somebody else was faster; the message says who.";

pub(super) const DENY_EXAMPLES: &str = "\
Examples:
  relay permission deny 01a1e393-83fa-768d-8000-01000000000b --reason 'not on a Friday'
  relay permission deny 01a1e393-83fa-768d-8000-01000000000b --stop
  relay permission deny 01a1e393-83fa-768d-8000-01000000000b --guidance 'open a pull request instead'

The agent reads the reason and goes on; --stop ends its turn; --guidance comes to it as a message.";

#[derive(Args)]
pub(crate) struct ApproveArguments {
    /// The request [default: the one that waits, if it is the only one]
    #[arg(value_parser = literal::id::<PermissionId>)]
    permission: Option<PermissionId>,
    /// Allow what the rule covers from now on, too
    #[arg(long)]
    always: bool,
    /// Another rule than the first that is offered; it has to cover the call
    #[arg(long, requires = "always")]
    rule: Option<String>,
    /// How far the rule reaches
    #[arg(long, requires = "always", value_parser = literal::scopes())]
    scope: Option<GrantScope>,
    /// How long the rule holds [default: until it is revoked]
    #[arg(long = "for", value_name = "DURATION", requires = "always", value_parser = parse_duration)]
    lasting: Option<Duration>,
    /// Run it with these parameters instead
    #[arg(long, value_name = "JSON", value_parser = params, conflicts_with = "always")]
    params: Option<ToolParams>,
    /// One of the answers that the request offers
    #[arg(long, value_name = "ID")]
    option: Option<String>,
}

#[derive(Args)]
pub(crate) struct DenyArguments {
    /// The request [default: the one that waits, if it is the only one]
    #[arg(value_parser = literal::id::<PermissionId>)]
    permission: Option<PermissionId>,
    /// Why, for the agent to read
    #[arg(long)]
    reason: Option<String>,
    /// End the agent's turn, too
    #[arg(long)]
    stop: bool,
    /// What the agent should do instead; it gets this as a message
    #[arg(long, value_name = "TEXT")]
    guidance: Option<String>,
    /// One of the answers that the request offers
    #[arg(long, value_name = "ID")]
    option: Option<String>,
}

#[derive(Args)]
pub(crate) struct CancelArguments {
    /// The request
    #[arg(value_parser = literal::id::<PermissionId>)]
    permission: PermissionId,
    /// Why
    #[arg(long)]
    reason: Option<String>,
}

fn params(text: &str) -> Result<ToolParams, String> {
    serde_json::from_str(text).map_err(|error| format!("expected an object as JSON: {error}"))
}

pub(super) async fn approve(
    arguments: &ApproveArguments,
    contact: &Contact,
    output: &Output,
) -> Outcome {
    let record = meant(arguments.permission, contact).await?;
    let lasting = arguments
        .lasting
        .map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX));
    if arguments.always && arguments.rule.is_none() && record.suggestions.is_empty() {
        let message =
            "no rule can be offered for this call, so --always would be for this call only";
        return Err(Failure::usage(message).next("leave --always out, or name one with --rule"));
    }
    let answer = ResolvePermission {
        always: arguments.always.then_some(true),
        rule: arguments.rule.clone(),
        scope: arguments.scope,
        grant_expires_in_ms: lasting,
        updated_params: arguments.params.clone(),
        option_id: arguments.option.clone(),
        ..ResolvePermission::approve()
    };
    resolve(&record, answer, contact, output).await
}

pub(super) async fn deny(arguments: &DenyArguments, contact: &Contact, output: &Output) -> Outcome {
    let record = meant(arguments.permission, contact).await?;
    let answer = ResolvePermission {
        reason: arguments.reason.clone(),
        stop: arguments.stop.then_some(true),
        guidance: arguments.guidance.clone(),
        option_id: arguments.option.clone(),
        ..ResolvePermission::default()
    };
    resolve(&record, answer, contact, output).await
}

/// Decides about exactly what was looked at.
async fn resolve(
    record: &PermissionRecord,
    answer: ResolvePermission,
    contact: &Contact,
    output: &Output,
) -> Outcome {
    let answer = ResolvePermission {
        args_hash: Some(record.args_hash.clone()),
        via: Some(VIA.to_owned()),
        ..answer
    };
    let permissions = contact.relay.permissions();
    let decided = permissions
        .resolve(record.permission_id, answer)
        .await
        .map_err(|error| {
            let options = unknown_option(&record.options);
            match error.problem().and_then(|problem| problem.path.as_deref()) {
                Some("optionId") => Failure::from(error).next(options),
                _ => error.into(),
            }
        })?;
    output.show(&decided, |style| told(style, &decided))
}

fn unknown_option(options: &[PermissionOption]) -> String {
    let option = |option: &PermissionOption| {
        let does = match option.kind {
            PermissionOptionKind::AllowOnce => "allows once",
            PermissionOptionKind::AllowAlways => "allows always",
            PermissionOptionKind::RejectOnce => "denies once",
            PermissionOptionKind::RejectAlways => "denies always",
        };
        format!("{} {does}", one_line(&option.option_id))
    };
    options.iter().map(option).collect::<Vec<_>>().join(", ")
}

/// What was decided about what, and what came of it for later.
pub(super) fn told(style: &Style, record: &PermissionRecord) -> String {
    let state = words::colored_state(style, record.state);
    let mut lines = vec![format!(
        "{state} {}  @{} {}: {}",
        record.permission_id,
        asker(record),
        one_line(&record.tool),
        words::summary(record)
    )];
    let outcome = record.outcome.as_ref();
    let granted = outcome.and_then(|it| Some((it.grant_id?, it.rule.as_ref()?)));
    if let Some((grant, rule)) = granted {
        let revoke = hints::command(&format!("grant revoke {grant}"));
        lines.push(format!(
            "granted {}\ntake it back: {revoke}",
            one_line(rule)
        ));
    }
    if outcome.is_some_and(|it| it.guidance_message_id.is_some()) {
        lines.push(format!(
            "@{} gets a message with what to do instead",
            asker(record)
        ));
    }
    lines.join("\n")
}

pub(super) async fn cancel(
    arguments: &CancelArguments,
    contact: &Contact,
    output: &Output,
) -> Outcome {
    let permissions = contact.relay.permissions();
    let cancelled = permissions
        .cancel(arguments.permission, arguments.reason.as_deref())
        .await?;
    output.show(&cancelled, |style| told(style, &cancelled))
}
