//! `relay webhook`: URLs that events go out to, URLs that messages come in by, and a receiver to try them with. Always
//! as the workspace.

mod inbound;
mod listen;
mod outgoing;

use clap::Subcommand;
use relay_protocol::ids::WebhookId;

use self::inbound::InboundCommand;
use self::listen::ListenArguments;
use self::outgoing::{AttemptsArguments, CreateArguments, ReplayArguments, SecretArguments};
use crate::contact::{Actor, Contact, GlobalArguments, with_server};
use crate::failure::Outcome;
use crate::literal;
use crate::output::Output;

#[derive(Subcommand)]
pub(crate) enum WebhookCommand {
    /// Have a URL called for each event from now on
    #[command(after_help = outgoing::CREATE_EXAMPLES)]
    Create(CreateArguments),
    /// List the URLs that are called
    #[command(after_help = "Example:\n  relay webhook list")]
    List,
    /// Show a webhook, and how it fares
    #[command(after_help = "Example:\n  relay webhook show 01a1e393-83fa-758d-8000-01000000000b")]
    Show(Named),
    /// Switch a webhook on again; it goes on where it was
    #[command(after_help = "Example:\n  relay webhook enable 01a1e393-83fa-758d-8000-01000000000b")]
    Enable(Named),
    /// Switch a webhook off; what happens meanwhile is sent when it is on again
    #[command(
        after_help = "Example:\n  relay webhook disable 01a1e393-83fa-758d-8000-01000000000b"
    )]
    Disable(Named),
    /// Give a webhook another secret; the old one signs, too, for a day
    #[command(after_help = "Example:\n  relay webhook secret 01a1e393-83fa-758d-8000-01000000000b")]
    Secret(SecretArguments),
    /// Show the latest calls of a webhook and what was answered
    #[command(
        after_help = "Example:\n  relay webhook attempts 01a1e393-83fa-758d-8000-01000000000b"
    )]
    Attempts(AttemptsArguments),
    /// Send events once more, by their ids or by a range of the log
    #[command(after_help = outgoing::REPLAY_EXAMPLES)]
    Replay(ReplayArguments),
    /// End a webhook; what waits to be sent is not sent any more
    #[command(after_help = "Example:\n  relay webhook remove 01a1e393-83fa-758d-8000-01000000000b")]
    Remove(Named),
    /// Create, list, remove URLs by which messages come into a channel
    #[command(subcommand)]
    Inbound(InboundCommand),
    /// Receive calls on this machine: verify and print what arrives
    #[command(after_help = listen::EXAMPLES)]
    Listen(ListenArguments),
}

#[derive(clap::Args)]
pub(crate) struct Named {
    /// The webhook
    #[arg(value_parser = literal::id::<WebhookId>)]
    webhook: WebhookId,
}

/// A secret that is brought along; where none is, the server makes one.
#[derive(clap::Args)]
pub(crate) struct SecretArgument {
    /// What signs the calls, at least 16 bytes
    #[arg(long, env = "RELAY_WEBHOOK_SECRET", hide_env_values = true)]
    secret: Option<String>,
}

impl SecretArgument {
    fn given(&self) -> Option<&str> {
        self.secret.as_deref()
    }
}

pub(crate) fn run(command: &WebhookCommand, globals: &GlobalArguments, output: &Output) -> Outcome {
    match command {
        // Who listens for others needs no server.
        WebhookCommand::Listen(arguments) if !arguments.subscribes() => {
            listen::alone(arguments, output)
        }
        _ => with_server(globals, Actor::Workspace, async |contact| {
            ask(command, contact, output).await
        }),
    }
}

async fn ask(command: &WebhookCommand, contact: &Contact, output: &Output) -> Outcome {
    match command {
        WebhookCommand::Create(arguments) => outgoing::create(arguments, contact, output).await,
        WebhookCommand::List => outgoing::list(contact, output).await,
        WebhookCommand::Show(Named { webhook }) => {
            let found = contact.relay.webhooks().get(*webhook).await?;
            outgoing::show(&found, output)
        }
        WebhookCommand::Enable(Named { webhook }) => {
            let changed = contact.relay.webhooks().enable(*webhook).await?;
            outgoing::show(&changed, output)
        }
        WebhookCommand::Disable(Named { webhook }) => {
            let changed = contact.relay.webhooks().disable(*webhook).await?;
            outgoing::show(&changed, output)
        }
        WebhookCommand::Secret(arguments) => outgoing::secret(arguments, contact, output).await,
        WebhookCommand::Attempts(arguments) => outgoing::attempts(arguments, contact, output).await,
        WebhookCommand::Replay(arguments) => outgoing::replay(arguments, contact, output).await,
        WebhookCommand::Remove(Named { webhook }) => {
            contact.relay.webhooks().delete(*webhook).await?;
            removed(*webhook, "it is not called any more", output)
        }
        WebhookCommand::Inbound(command) => inbound::run(command, contact, output).await,
        WebhookCommand::Listen(arguments) => listen::subscribed(arguments, contact, output).await,
    }
}

fn removed(webhook: WebhookId, so: &str, output: &Output) -> Outcome {
    let removed = serde_json::json!({ "removed": webhook });
    output.show(&removed, |_| format!("removed {webhook}: {so}"))
}
