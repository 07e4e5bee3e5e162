//! `relay permission`: tool calls that wait for a decision, deciding about them, and asking for one.
//!
//! Those who decide have the workspace key or are people; those who ask are agents. Which of them is meant is left to the
//! server: it refuses whoever may not.

mod deciding;
mod reading;
mod running;
mod trial;
mod watch;

use clap::Subcommand;
use relay_protocol::ids::PermissionId;
use relay_protocol::permission::{PermissionRecord, PermissionState};
use relay_sdk::PermissionQuery;

use self::deciding::{ApproveArguments, CancelArguments, DenyArguments};
use self::reading::{ListArguments, ShowArguments};
use self::running::RunArguments;
use self::trial::TestArguments;
use self::watch::WatchArguments;
pub(crate) use self::watch::{Card, Deed};
use crate::contact::Contact;
use crate::failure::{Exit, Failure, Outcome};
use crate::hints;
use crate::output::Output;

/// The door that decisions at the command line come through, for the record.
const VIA: &str = "cli";

#[derive(Subcommand)]
pub(crate) enum PermissionCommand {
    /// List permission requests, newest first
    #[command(
        after_help = "Examples:\n  relay permission list --state pending\n  relay permission list --agent ada"
    )]
    List(ListArguments),
    /// Show a request whole: the call, what "always" would cover, who was told, what became of it
    #[command(
        after_help = "Examples:\n  relay permission show 01a1e393-83fa-768d-8000-01000000000b\n  relay permission show               the one that waits, if it is the only one"
    )]
    Show(ShowArguments),
    /// Allow a call, this time or always
    #[command(after_help = deciding::APPROVE_EXAMPLES)]
    Approve(ApproveArguments),
    /// Refuse a call
    #[command(after_help = deciding::DENY_EXAMPLES)]
    Deny(DenyArguments),
    /// Withdraw a request that is not needed any more
    #[command(
        after_help = "Example:\n  relay permission cancel 01a1e393-83fa-768d-8000-01000000000b --reason 'done by hand' --as ada"
    )]
    Cancel(CancelArguments),
    /// Decide about requests as they come, key by key, or by a policy
    #[command(after_help = watch::EXAMPLES)]
    Watch(WatchArguments),
    /// Say what the rules decide about a call; nobody is asked
    #[command(after_help = trial::EXAMPLES)]
    Test(TestArguments),
    /// Ask whether a command may run, wait, and run it
    #[command(after_help = running::EXAMPLES)]
    Run(RunArguments),
}

pub(crate) async fn run(
    command: &PermissionCommand,
    contact: &Contact,
    output: &Output,
) -> Outcome {
    match command {
        PermissionCommand::List(arguments) => reading::list(arguments, contact, output).await,
        PermissionCommand::Show(arguments) => reading::show(arguments, contact, output).await,
        PermissionCommand::Approve(arguments) => {
            deciding::approve(arguments, contact, output).await
        }
        PermissionCommand::Deny(arguments) => deciding::deny(arguments, contact, output).await,
        PermissionCommand::Cancel(arguments) => deciding::cancel(arguments, contact, output).await,
        PermissionCommand::Watch(arguments) => watch::run(arguments, contact, output).await,
        PermissionCommand::Test(arguments) => trial::run(arguments, contact, output).await,
        PermissionCommand::Run(arguments) => running::run(arguments, contact, output).await,
    }
}

/// The request that is meant: the one that is named, or the only one that waits.
async fn meant(id: Option<PermissionId>, contact: &Contact) -> Outcome<PermissionRecord> {
    let permissions = contact.relay.permissions();
    if let Some(id) = id {
        return Ok(permissions.get(id).await?);
    }
    let two = PermissionQuery {
        limit: Some(2),
        ..PermissionQuery::pending()
    };
    let mut waiting = permissions.list(&two).await?.items;
    let list = hints::command("permission list --state pending");
    match (waiting.pop(), waiting.pop()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err(Failure::new(
            Exit::NotFound,
            "none_pending",
            "nothing waits for a decision",
        )
        .next(format!(
            "`{}` shows what was decided",
            hints::command("permission list")
        ))),
        _ => Err(
            Failure::usage("several requests wait for a decision; say which")
                .next(format!("`{list}` shows them")),
        ),
    }
}

/// The name of the agent that asks.
pub(crate) fn asker(record: &PermissionRecord) -> &str {
    record.agent_name.as_deref().unwrap_or("somebody")
}

/// Whether a request waits.
fn waits(record: &PermissionRecord) -> bool {
    record.state == PermissionState::Pending
}
