//! `relay inbox`: what an agent has not read.

use clap::Args;
use relay_protocol::api::messages::{InboxWaiting, SeenBy};

use crate::contact::Contact;
use crate::failure::Outcome;
use crate::output::{Output, Style, one_line};
use crate::words;

pub(crate) const EXAMPLES: &str = "\
Examples:
  relay inbox --as bob              look; nothing changes
  relay inbox --as bob --ack        read; what waited for bob counts as delivered now

What was sent for a moment that has not come (`manual`, or a boundary of a session that works) is named with its reason and can't be read before it; \
`relay delivery flush bob` releases it.";

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
        let items = inbox.items.iter().map(|item| {
            let message = words::message(style, &item.message);
            match item.seen_by {
                Some(SeenBy::Session) => {
                    format!("{message}\n  {}", style.faint("seen by the session"))
                }
                None => message,
            }
        });
        let mut parts: Vec<String> = items.collect();
        let waiting = inbox.waiting.iter().map(|one| waiting(style, one));
        parts.extend(waiting);
        let more = if inbox.more && inbox.unread > 0 {
            " or more"
        } else {
            ""
        };
        let read = if arguments.ack { ", read now" } else { "" };
        let mut counts = if inbox.unread == 0 {
            format!("nothing{more} unread")
        } else {
            format!("{}{more} unread", inbox.unread)
        };
        if inbox.seen > 0 {
            counts.push_str(&format!(", {} seen by the session", inbox.seen));
        }
        parts.push(match inbox.items.is_empty() {
            true => counts,
            false => style.faint(&format!("{counts}{read}")),
        });
        parts.join("\n\n")
    })
}

/// A message that can't be read yet: from whom it is, and what it waits for.
fn waiting(style: &Style, one: &InboxWaiting) -> String {
    let from = one.from.name.as_deref().unwrap_or("somebody else");
    format!(
        "{} {}  {}",
        style.strong(&format!("@{}", one_line(from))),
        style.open(&words::waiting(&one.waiting)),
        style.faint(&one.delivery_id.to_string())
    )
}
