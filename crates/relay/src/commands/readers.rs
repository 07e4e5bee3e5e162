//! `relay readers`: who has read a message.

use clap::Args;
use relay_protocol::api::Page;
use relay_protocol::ids::MessageId;

use crate::contact::Contact;
use crate::failure::Outcome;
use crate::literal;
use crate::moment::ago;
use crate::output::{Output, Table};

pub(crate) const EXAMPLES: &str = "\
Example:
  relay readers 01a1e393-83fa-718d-8000-010000000009

The time is known for those whose last read message it is.";

#[derive(Args)]
pub(crate) struct ReadersArguments {
    /// The message
    #[arg(value_parser = literal::id::<MessageId>)]
    message: MessageId,
}

pub(crate) async fn run(
    arguments: &ReadersArguments,
    contact: &Contact,
    output: &Output,
) -> Outcome {
    let readers = Page {
        items: contact.relay.message_readers(arguments.message).await?,
        next_cursor: None,
    };
    output.show(&readers, |style| {
        let mut table = Table::new(&["agent", "read"]);
        for reader in &readers.items {
            table.row([
                style.strong(&format!("@{}", reader.agent_name)),
                reader.read_at.map_or_else(|| "yes".to_owned(), ago),
            ]);
        }
        table.text(style, "no agent has read it")
    })
}
