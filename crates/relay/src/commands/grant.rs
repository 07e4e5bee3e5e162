//! `relay grant`: standing decisions, and taking them back.

use clap::{Args, Subcommand};
use relay_protocol::ids::GrantId;
use relay_protocol::permission::{Grant, GrantEffect};
use relay_sdk::GrantQuery;

use crate::contact::Contact;
use crate::failure::Outcome;
use crate::literal;
use crate::moment::{ago, now, span};
use crate::output::{Output, Style, Table, one_line};
use crate::paging::all_pages;
use crate::words;

#[derive(Subcommand)]
pub(crate) enum GrantCommand {
    /// List what was allowed, or refused, for longer
    #[command(after_help = "Examples:\n  relay grant list\n  relay grant list --agent ada --all")]
    List(ListArguments),
    /// Take a grant back; the next call is asked about again
    #[command(after_help = "Example:\n  relay grant revoke 01a1e393-83fa-798d-8000-01000000000b")]
    Revoke {
        /// The grant
        #[arg(value_parser = literal::id::<GrantId>)]
        grant: GrantId,
    },
}

#[derive(Args)]
pub(crate) struct ListArguments {
    /// Also those that no longer hold
    #[arg(long)]
    all: bool,
    /// Only those that this agent can use
    #[arg(long)]
    agent: Option<String>,
}

pub(crate) async fn run(command: &GrantCommand, contact: &Contact, output: &Output) -> Outcome {
    match command {
        GrantCommand::List(arguments) => list(arguments, contact, output).await,
        GrantCommand::Revoke { grant } => {
            let revoked = contact.relay.permissions().revoke_grant(*grant).await?;
            output.show(&revoked, |_| {
                let (rule, reach) = (one_line(&revoked.rule), words::reach(&revoked));
                format!("revoked {rule} for {reach}; it is asked about again")
            })
        }
    }
}

async fn list(arguments: &ListArguments, contact: &Contact, output: &Output) -> Outcome {
    let permissions = contact.relay.permissions();
    let agent = arguments.agent.as_ref();
    let agent = agent.map(|name| name.trim_start_matches('@').to_owned());
    let all = all_pages(async |cursor| {
        let query = GrantQuery {
            agent: agent.clone(),
            ended: arguments.all,
            cursor: cursor.map(str::to_owned),
            limit: None,
        };
        permissions.grants(&query).await
    })
    .await?;
    output.show(&all, |style| {
        let mut table = Table::new(&["grant", "rule", "for", "by", "holds", "used"]);
        for grant in &all.items {
            table.row([
                grant.grant_id.to_string(),
                rule(style, grant),
                words::reach(grant),
                words::decider(Some(&grant.by)),
                holds(grant),
                grant.last_used_at.map_or("never".to_owned(), ago),
            ]);
        }
        table.text(
            style,
            "no grants; `relay permission approve --always` makes one",
        )
    })
}

fn rule(style: &Style, grant: &Grant) -> String {
    let rule = one_line(&grant.rule);
    match grant.effect {
        GrantEffect::Allow => style.strong(&rule),
        GrantEffect::Deny => format!("{} {rule}", style.bad("never")),
    }
}

/// How long a grant holds, or until when it did.
fn holds(grant: &Grant) -> String {
    match (grant.revoked_at, grant.expires_at) {
        (Some(at), _) => format!("revoked {}", ago(at)),
        (None, Some(at)) if at.as_millis() <= now().as_millis() => format!("ended {}", ago(at)),
        (None, Some(at)) => format!("for {}", span(at.as_millis() - now().as_millis())),
        (None, None) => "until revoked".to_owned(),
    }
}
