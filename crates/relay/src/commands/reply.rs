//! `relay reply`: an answer in the thread of a message.

use clap::Args;
use relay_protocol::ids::MessageId;

use super::send::{self, MessageArguments};
use crate::contact::Contact;
use crate::failure::Outcome;
use crate::literal;
use crate::output::Output;

pub(crate) const EXAMPLES: &str = "\
Examples:
  relay reply 01a1e393-83fa-718d-8000-010000000009 'On it' --as bob
  make test 2>&1 | tail -5 | relay reply 01a1e393-83fa-718d-8000-010000000009 - --as bob

It is followed like a send; `relay inbox` and `relay listen` show the ids of messages.";

#[derive(Args)]
pub(crate) struct ReplyArguments {
    /// The message that is answered
    #[arg(value_name = "MESSAGE", value_parser = literal::id::<MessageId>)]
    to: MessageId,
    #[command(flatten)]
    message: MessageArguments,
}

pub(crate) async fn run(arguments: &ReplyArguments, contact: &Contact, output: &Output) -> Outcome {
    let text = arguments.message.text()?;
    send::deliver(&arguments.message, contact, output, |relay| {
        relay.reply(arguments.to, text.clone())
    })
    .await
}
