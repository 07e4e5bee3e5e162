//! URLs by which messages come into a channel.

use clap::Subcommand;

use super::{Named, removed};
use crate::contact::Contact;
use crate::failure::Outcome;
use crate::hints;
use crate::moment::ago;
use crate::output::{Output, Table, fields, one_line};
use crate::paging::all_pages;

#[derive(Subcommand)]
pub(crate) enum InboundCommand {
    /// Make a URL by which messages come into a channel; its token is printed this once
    #[command(after_help = "\
Examples:
  relay webhook inbound create '#general' --name CI
  curl http://127.0.0.1:4000/hooks/ID -H 'authorization: bearer wh_…' -H 'content-type: application/json' -d \
'{\"message\": \"the build is green\", \"author\": \"builder\"}'

What comes in is shown as \"builder (via webhook)\", never as an agent. An `idempotency-key` header makes posting it \
again harmless.")]
    Create {
        /// The channel
        channel: String,
        /// What people call it
        #[arg(long)]
        name: Option<String>,
    },
    /// List these URLs, without their tokens
    #[command(after_help = "Example:\n  relay webhook inbound list")]
    List,
    /// End such a URL; its token stops working at once
    #[command(
        after_help = "Example:\n  relay webhook inbound remove 01a1e393-83fa-758d-8000-01000000000b"
    )]
    Remove(Named),
}

pub(super) async fn run(command: &InboundCommand, contact: &Contact, output: &Output) -> Outcome {
    match command {
        InboundCommand::Create { channel, name } => {
            create(channel, name.as_deref(), contact, output).await
        }
        InboundCommand::List => list(contact, output).await,
        InboundCommand::Remove(Named { webhook }) => {
            contact.relay.webhooks().delete_inbound(*webhook).await?;
            removed(*webhook, "no messages come in by it any more", output)
        }
    }
}

async fn create(channel: &str, name: Option<&str>, contact: &Contact, output: &Output) -> Outcome {
    let webhooks = contact.relay.webhooks();
    let created = webhooks.create_inbound(channel, name).await?;
    output.show(&created, |style| {
        let known = [
            ("url", created.url.clone()),
            ("token", created.token.clone()),
            ("id", created.id.to_string()),
        ];
        let once = style.faint("the token is shown this once; messages are posted with it:");
        format!(
            "{}\n{once}\n  curl {} -H 'authorization: bearer TOKEN' -H 'content-type: application/json' -d '{}'",
            fields(style, &known),
            created.url,
            r#"{"message": "hello", "author": "me"}"#
        )
    })
}

async fn list(contact: &Contact, output: &Output) -> Outcome {
    let webhooks = contact.relay.webhooks();
    let all = all_pages(async |cursor| webhooks.list_inbound(cursor).await).await?;
    output.show(&all, |style| {
        let mut table = Table::new(&["webhook", "channel", "name", "made"]);
        for webhook in &all.items {
            table.row([
                webhook.id.to_string(),
                format!("#{}", webhook.channel),
                one_line(webhook.name.as_deref().unwrap_or("-")),
                ago(webhook.created_at),
            ]);
        }
        let create = hints::command("webhook inbound create CHANNEL");
        table.text(
            style,
            &format!("no messages come in by URL; `{create}` makes one"),
        )
    })
}
