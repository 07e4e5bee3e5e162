//! `relay permission watch`: requests as they come, decided key by key, by a policy, or only shown.
//!
//! In a terminal each request is shown until somebody decides (`prompt.rs`); elsewhere they are lines (`lines.rs`). A policy
//! answers before anybody is shown anything.

mod card;
mod editing;
mod lines;
mod news;
mod policy_file;
mod prompt;

use std::path::PathBuf;

use clap::Args;
use relay_protocol::agent::AgentType;
use relay_protocol::permission::{PermissionRecord, ResolvePermission, RuleDecision};
use relay_sdk::{Error, Permissions};

pub(crate) use self::card::{Card, Deed};
use self::news::News;
pub(super) use self::policy_file::PolicyFile;
use self::prompt::Prompt;
use crate::contact::Contact;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::Output;
use crate::platform::{Keyboard, StopSignal};

pub(super) const EXAMPLES: &str = "\
Examples:
  relay permission watch
  relay permission watch --as ann                  decide as a person
  relay permission watch --policy rules.json       what the rules leave open comes to you
  relay permission watch --policy rules.json --json < /dev/null    an approver without a person

The policy is a file of JSON like the workspace's own rules: {\"allowlist\": [\"bash:git status **\"], \"deny\": [\"bash:rm **\"]}. \
Without a terminal requests are printed, and nothing but the policy decides.";

/// The door that decisions come through, for the record.
const VIA: &str = "watch";

#[derive(Args)]
pub(crate) struct WatchArguments {
    /// Answer what these rules allow or deny
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

pub(super) async fn run(arguments: &WatchArguments, contact: &Contact, output: &Output) -> Outcome {
    let policy = arguments
        .policy
        .as_deref()
        .map(PolicyFile::read)
        .transpose()?;
    may_decide(contact).await?;
    let stop = StopSignal::listen()?;
    let relay = contact.patient()?;
    let decider = Decider {
        permissions: relay.permissions(),
        policy: policy.map(|policy| policy.for_calls_at(contact.url())),
    };
    let news = News::begin(&relay).await?;
    let panel = output.panel();
    // The keyboard last: from then on the terminal has to be given back.
    match panel.and_then(|panel| Some((panel, Keyboard::open()?))) {
        Some((panel, keyboard)) => {
            let prompt = Prompt::new(decider, panel, output);
            prompt.run(keyboard, news, stop, contact.url()).await
        }
        None => lines::run(decider, news, stop, contact.url(), output).await,
    }
}

/// Whoever may not decide is told before anything waits for them.
async fn may_decide(contact: &Contact) -> Outcome {
    match contact.relay.me().await?.agent {
        Some(agent) if agent.agent_type != AgentType::Human => {
            let message = format!(
                "expected the workspace key or a person, found @{}, an agent, which asks and does not decide",
                agent.name
            );
            Err(Failure::new(Exit::Refused, "forbidden", message).next(
                "leave out --as, or register a person: relay agent register NAME --type human",
            ))
        }
        _ => Ok(()),
    }
}

/// Decides, and knows what the policy decides.
struct Decider {
    permissions: Permissions,
    policy: Option<PolicyFile>,
}

impl Decider {
    /// Decides about exactly what was looked at.
    async fn resolve(
        &self,
        record: &PermissionRecord,
        answer: ResolvePermission,
    ) -> Result<PermissionRecord, Error> {
        let answer = ResolvePermission {
            args_hash: Some(record.args_hash.clone()),
            via: Some(VIA.to_owned()),
            ..answer
        };
        self.permissions.resolve(record.permission_id, answer).await
    }

    /// What the policy makes of a request; nothing where that is left to somebody.
    async fn by_policy(
        &mut self,
        record: &PermissionRecord,
    ) -> Option<Result<PermissionRecord, Error>> {
        let verdict = self.policy.as_ref()?.decide(record);
        let policy = self.policy.as_ref().map(|policy| policy.name().to_owned());
        let answer = match verdict.decision {
            RuleDecision::Ask => return None,
            RuleDecision::Allow => ResolvePermission {
                policy,
                ..ResolvePermission::approve()
            },
            RuleDecision::Deny => ResolvePermission {
                policy,
                ..ResolvePermission::deny(verdict.deny_reason.unwrap_or(verdict.reason))
            },
        };
        let resolved = self.resolve(record, answer).await;
        if let (Some(policy), Ok(_)) = (&mut self.policy, &resolved) {
            policy.use_up(&verdict.used);
        }
        Some(resolved)
    }
}
