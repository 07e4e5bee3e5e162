//! `relay token`: the credential in use, when it is asked for; and credentials that only look.

use clap::{Args, Subcommand};
use relay_protocol::api::workspace::{
    CreateObserverToken, ObserverGrant, ObserverScope, ObserverToken,
};
use relay_protocol::event::TokenKind;
use relay_protocol::ids::TokenId;
use serde::Serialize;

use crate::contact::{Actor, Contact};
use crate::failure::Outcome;
use crate::hints;
use crate::literal;
use crate::moment::ago;
use crate::output::{Output, Table, fields, one_line};
use crate::paging::all_pages;

#[derive(Subcommand)]
pub(crate) enum TokenCommand {
    /// Print the credential that commands use here: the workspace key, or the token of the agent of --as
    #[command(after_help = "\
Examples:
  RELAY_TOKEN=$(relay token show --as bob) python3 my_agent.py
  curl -H \"authorization: bearer $(relay token show)\" localhost:4000/v1/me")]
    Show,
    /// Make a token that only looks; it is printed this once
    #[command(after_help = "\
Examples:
  relay token create --name wall
  relay token create --channel 'team-*' --event 'message.*'")]
    Create(CreateArguments),
    /// List the tokens that only look, without the secret
    #[command(after_help = "Example:\n  relay token list")]
    List,
    /// Take such a token back
    #[command(after_help = "Example:\n  relay token revoke 01a1e393-83fa-728d-8000-01000000000b")]
    Revoke {
        /// Its id, as in `relay token list`
        #[arg(value_parser = literal::id::<TokenId>)]
        token: TokenId,
    },
}

#[derive(Args)]
pub(crate) struct CreateArguments {
    /// What people call it
    #[arg(long)]
    name: Option<String>,
    /// Only what happens in these channels: names, or patterns such as team-*
    #[arg(long, value_name = "CHANNEL")]
    channel: Vec<String>,
    /// Only events of these names or patterns
    #[arg(long, value_name = "EVENT")]
    event: Vec<String>,
    /// What it may see beyond
    #[arg(long, value_parser = literal::grants())]
    grant: Vec<ObserverGrant>,
}

impl TokenCommand {
    /// Only what is shown depends on who acts.
    pub(crate) const fn actor(&self) -> Actor {
        match self {
            Self::Show => Actor::Chosen,
            _ => Actor::Workspace,
        }
    }
}

pub(crate) async fn run(command: &TokenCommand, contact: &Contact, output: &Output) -> Outcome {
    match command {
        TokenCommand::Show => show(contact, output).await,
        TokenCommand::Create(arguments) => create(arguments, contact, output).await,
        TokenCommand::List => list(contact, output).await,
        TokenCommand::Revoke { token } => revoke(*token, contact, output).await,
    }
}

#[derive(Serialize)]
struct InUse<'a> {
    token: &'a str,
    kind: TokenKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    url: &'a str,
}

async fn show(contact: &Contact, output: &Output) -> Outcome {
    let me = contact.relay.me().await?;
    let in_use = InUse {
        token: contact.token(),
        kind: me.kind,
        agent: me.agent.map(|agent| agent.name),
        url: contact.url(),
    };
    // Nothing but the token, for `$(…)`.
    output.show(&in_use, |_| in_use.token.to_owned())
}

async fn create(arguments: &CreateArguments, contact: &Contact, output: &Output) -> Outcome {
    let some = |items: &Vec<String>| (!items.is_empty()).then(|| items.clone());
    let channels = some(&arguments.channel);
    let body = CreateObserverToken {
        name: arguments.name.clone(),
        scope: Some(ObserverScope {
            channels: channels.map(|names| {
                let names = names
                    .iter()
                    .map(|name| name.trim_start_matches('#').to_owned());
                names.collect()
            }),
            events: some(&arguments.event),
            grants: (!arguments.grant.is_empty()).then(|| arguments.grant.clone()),
        }),
    };
    let created = contact.relay.create_observer_token(&body).await?;
    output.show(&created, |style| {
        let known = [
            ("token", created.token.clone()),
            ("id", created.observer.token_id.to_string()),
            ("sees", scope(&created.observer)),
        ];
        let once = style.faint("the token is shown this once");
        format!("{}\n{once}", fields(style, &known))
    })
}

async fn list(contact: &Contact, output: &Output) -> Outcome {
    let all = all_pages(async |cursor| contact.relay.observer_tokens(cursor).await).await?;
    output.show(&all, |style| {
        let mut table = Table::new(&["id", "name", "sees", "made"]);
        for token in &all.items {
            table.row([
                token.token_id.to_string(),
                one_line(token.name.as_deref().unwrap_or("-")),
                scope(token),
                ago(token.created_at),
            ]);
        }
        let create = hints::command("token create");
        table.text(style, &format!("no observer tokens; `{create}` makes one"))
    })
}

/// What a token may see, in words.
fn scope(token: &ObserverToken) -> String {
    let ObserverScope {
        channels,
        events,
        grants,
    } = &token.scope;
    let mut parts = Vec::new();
    if let Some(channels) = channels {
        parts.push(format!("channels {}", channels.join(", ")));
    }
    if let Some(events) = events {
        parts.push(format!("events {}", events.join(", ")));
    }
    if let Some(grants) = grants {
        let grants: Vec<&str> = grants.iter().map(|grant| grant.as_str()).collect();
        parts.push(format!("also {}", grants.join(", ")));
    }
    match parts.is_empty() {
        true => "everything but transcripts, terminals, permissions".to_owned(),
        false => one_line(&parts.join("; ")),
    }
}

#[derive(Serialize)]
struct Revoked {
    revoked: TokenId,
}

async fn revoke(token: TokenId, contact: &Contact, output: &Output) -> Outcome {
    contact.relay.revoke_observer_token(token).await?;
    output.show(&Revoked { revoked: token }, |_| format!("revoked {token}"))
}
