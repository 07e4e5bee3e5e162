//! `relay react`: a reaction to a message.

use clap::Args;
use relay_protocol::api::Page;
use relay_protocol::ids::MessageId;

use crate::contact::Contact;
use crate::failure::Outcome;
use crate::literal;
use crate::output::{Output, safe};

pub(crate) const EXAMPLES: &str = "\
Examples:
  relay react 01a1e393-83fa-718d-8000-010000000009 :rocket: --as bob
  relay react 01a1e393-83fa-718d-8000-010000000009 :rocket: --remove --as bob";

#[derive(Args)]
pub(crate) struct ReactArguments {
    /// The message
    #[arg(value_parser = literal::id::<MessageId>)]
    message: MessageId,
    /// The reaction, such as :rocket:
    emoji: String,
    /// Take it back
    #[arg(long)]
    remove: bool,
}

pub(crate) async fn run(arguments: &ReactArguments, contact: &Contact, output: &Output) -> Outcome {
    let ReactArguments {
        message,
        emoji,
        remove,
    } = arguments;
    let items = match remove {
        true => contact.relay.unreact(*message, emoji).await?,
        false => contact.relay.react(*message, emoji).await?,
    };
    let reactions = Page {
        items,
        next_cursor: None,
    };
    output.show(&reactions, |_| {
        let lines = reactions
            .items
            .iter()
            .map(|reaction| format!("{} {}", safe(&reaction.emoji), reaction.agents.join(", ")));
        let lines: Vec<String> = lines.collect();
        match lines.is_empty() {
            true => "no reactions".to_owned(),
            false => lines.join("\n"),
        }
    })
}
