//! `relay delivery`: what became of messages, and doing something about it.

use clap::{Args, Subcommand};
use relay_protocol::delivery::{DeliveryMode, DeliveryState, MessageReceipt};
use relay_protocol::delivery_record::Flushed;
use relay_protocol::ids::DeliveryId;
use relay_sdk::{DeliveryQuery, FlushInput};

use crate::contact::Contact;
use crate::failure::{Exit, Failure, Outcome};
use crate::hints;
use crate::literal;
use crate::output::{Output, Table, one_line, safe};
use crate::words;

#[derive(Subcommand)]
pub(crate) enum DeliveryCommand {
    /// List deliveries, newest first
    #[command(
        after_help = "Examples:\n  relay delivery list\n  relay delivery list --agent bob --state failed"
    )]
    List(ListArguments),
    /// Tell what happened to a delivery, step by step
    #[command(after_help = "Example:\n  relay delivery show 01a1e393-83fa-728d-8000-01000000000b")]
    Show {
        /// The delivery
        #[arg(value_parser = literal::id::<DeliveryId>)]
        delivery: DeliveryId,
    },
    /// Try a failed delivery again
    #[command(after_help = "Example:\n  relay delivery retry 01a1e393-83fa-728d-8000-01000000000b")]
    Retry {
        /// The delivery
        #[arg(value_parser = literal::id::<DeliveryId>)]
        delivery: DeliveryId,
    },
    /// Call a delivery back that was not seen yet
    #[command(
        after_help = "Example:\n  relay delivery cancel 01a1e393-83fa-728d-8000-01000000000b --reason 'no longer true'"
    )]
    Cancel {
        /// The delivery
        #[arg(value_parser = literal::id::<DeliveryId>)]
        delivery: DeliveryId,
        /// Why
        #[arg(long)]
        reason: Option<String>,
    },
    /// Let everything go now that waits for an agent
    #[command(
        after_help = "Examples:\n  relay delivery flush bob\n  relay delivery flush bob --mode manual"
    )]
    Flush(FlushArguments),
}

#[derive(Args)]
pub(crate) struct ListArguments {
    /// Only those for this agent
    #[arg(long)]
    agent: Option<String>,
    /// Only those in this state
    #[arg(long, value_parser = literal::states())]
    state: Option<DeliveryState>,
    /// Most items
    #[arg(long, default_value_t = 20)]
    limit: u32,
    /// Where to go on, as the page before said
    #[arg(long)]
    cursor: Option<String>,
}

#[derive(Args)]
pub(crate) struct FlushArguments {
    /// The agent
    agent: String,
    /// Only what waits in this mode
    #[arg(long, value_parser = literal::modes())]
    mode: Option<DeliveryMode>,
    /// Only this delivery
    #[arg(long, value_parser = literal::id::<DeliveryId>)]
    delivery: Option<DeliveryId>,
}

pub(crate) async fn run(command: &DeliveryCommand, contact: &Contact, output: &Output) -> Outcome {
    match command {
        DeliveryCommand::List(arguments) => list(arguments, contact, output).await,
        DeliveryCommand::Show { delivery } => show(*delivery, contact, output).await,
        DeliveryCommand::Retry { delivery } => retry(*delivery, contact, output).await,
        DeliveryCommand::Cancel { delivery, reason } => {
            cancel(*delivery, reason.as_deref(), contact, output).await
        }
        DeliveryCommand::Flush(arguments) => flush(arguments, contact, output).await,
    }
}

async fn list(arguments: &ListArguments, contact: &Contact, output: &Output) -> Outcome {
    let agent = arguments.agent.as_ref();
    let query = DeliveryQuery {
        agent: agent.map(|name| name.trim_start_matches('@').to_owned()),
        state: arguments.state,
        cursor: arguments.cursor.clone(),
        limit: Some(arguments.limit),
    };
    let page = contact.relay.list_deliveries(&query).await?;
    output.show(&page, |style| {
        let mut table = Table::new(&["delivery", "agent", "state", "mode", "why"]);
        for delivery in &page.items {
            let mode = delivery.mode.or(delivery.requested_mode);
            let failed = delivery.error.as_ref().map(|error| one_line(&error.detail));
            let why = failed.or_else(|| delivery.waiting.as_ref().map(words::waiting));
            table.row([
                delivery.delivery_id.to_string(),
                format!("@{}", delivery.agent),
                words::colored(style, delivery.state),
                mode.map_or("-".to_owned(), |mode| mode.to_string()),
                why.unwrap_or_default(),
            ]);
        }
        let mut text = table.text(style, "no deliveries");
        if let Some(cursor) = &page.next_cursor {
            text.push_str(&style.faint(&format!("\nmore: --cursor {cursor}")));
        }
        text
    })
}

async fn show(id: DeliveryId, contact: &Contact, output: &Output) -> Outcome {
    let delivery = contact.relay.delivery(id).await?;
    output.show(&delivery, |_| {
        safe(delivery.story.as_deref().unwrap_or_default())
    })
}

async fn retry(id: DeliveryId, contact: &Contact, output: &Output) -> Outcome {
    let receipt = contact.relay.deliveries().retry(id).await?;
    output.show(&receipt, |style| {
        format!("{id}  {}", words::receipt(style, &receipt))
    })?;
    match receipt {
        MessageReceipt::Failed(failed) => {
            Err(
                Failure::new(Exit::DeliveryFailed, "delivery_failed", failed.reason)
                    .next(hints::command(&format!("delivery show {id}"))),
            )
        }
        _ => Ok(()),
    }
}

async fn cancel(
    id: DeliveryId,
    reason: Option<&str>,
    contact: &Contact,
    output: &Output,
) -> Outcome {
    let delivery = contact.relay.deliveries().cancel(id, reason).await?;
    output.show(&delivery, |style| {
        let surfaced = match delivery.surfaced {
            Some(surfaced) => format!(", seen: {surfaced}"),
            None => String::new(),
        };
        format!("{id}  {}{surfaced}", words::colored(style, delivery.state))
    })
}

async fn flush(arguments: &FlushArguments, contact: &Contact, output: &Output) -> Outcome {
    let input = FlushInput {
        agent: arguments.agent.clone(),
        mode: arguments.mode,
        delivery_id: arguments.delivery,
    };
    let receipts = contact.relay.deliveries().flush(input).await?;
    let flushed = Flushed { receipts };
    output.show(&flushed, |style| {
        let lines = flushed.receipts.iter().map(|receipt| {
            let id = match receipt {
                MessageReceipt::Accepted(receipt) => Some(receipt.delivery_id),
                MessageReceipt::Delivered(receipt) => Some(receipt.delivery_id),
                MessageReceipt::Deferred(receipt) => receipt.delivery_id,
                MessageReceipt::Failed(receipt) => receipt.delivery_id,
            };
            let id = id.map(|id| format!("{id}  ")).unwrap_or_default();
            format!("{id}{}", words::receipt(style, receipt))
        });
        let lines: Vec<String> = lines.collect();
        match lines.is_empty() {
            true => "nothing waited".to_owned(),
            false => lines.join("\n"),
        }
    })
}
