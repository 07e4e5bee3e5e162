//! `relay inbox`: what an agent has not read.

use clap::Args;

use crate::contact::Contact;
use crate::failure::Outcome;
use crate::output::Output;
use crate::words;

pub(crate) const EXAMPLES: &str = "\
Examples:
  relay inbox --as bob              look; nothing changes
  relay inbox --as bob --ack        read; what waited for bob counts as delivered now";

#[derive(Args)]
pub(crate) struct InboxArguments {
    /// Count what is shown as read, and as delivered
    #[arg(long)]
    ack: bool,
}

pub(crate) async fn run(arguments: &InboxArguments, contact: &Contact, output: &Output) -> Outcome {
    let inbox = match arguments.ack {
        true => contact.relay.take_inbox().await?,
        false => contact.relay.inbox().await?,
    };
    output.show(&inbox, |style| {
        if inbox.items.is_empty() {
            return "nothing unread".to_owned();
        }
        let items = inbox
            .items
            .iter()
            .map(|item| words::message(style, &item.message));
        let mut parts: Vec<String> = items.collect();
        let more = if inbox.more { " or more" } else { "" };
        let read = if arguments.ack { ", read now" } else { "" };
        parts.push(style.faint(&format!("{}{more} unread{read}", inbox.unread)));
        parts.join("\n\n")
    })
}
