//! `relay send`: a message on its way, and what becomes of it.

mod content;
mod following;
mod recipients;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use relay_protocol::api::messages::MessageSent;
use relay_protocol::delivery::DeliveryMode;
use relay_sdk::{ErrorCode, Relay, Sending};

use crate::contact::Contact;
use crate::failure::Outcome;
use crate::literal;
use crate::moment::{Moment, parse_duration};
use crate::output::{Output, safe};
use following::Following;

pub(crate) const EXAMPLES: &str = "\
Examples:
  relay send bob 'Shall we ship?' --as ada
  relay send ada,bob 'Stand-up in five minutes' --deadline 10m
  relay send '#general' 'Deployed' --no-wait
  git diff | relay send bob - --attach notes.md --mode on-idle

Recipients: `bob` and `@bob` are the agent, `ada,bob` both, `#general` the channel (quote it).

It waits until every recipient's session has the message, for 30 s; an agent that is not connected gets it when \
it is back, and is not waited for. Exit code 6: a delivery failed; 7: --wait was given and was not enough.";

/// How long is waited for sessions when nobody says.
const WAIT: Duration = Duration::from_secs(30);

#[derive(Args)]
pub(crate) struct SendArguments {
    /// To whom: an agent, several with commas between, or a #channel
    to: String,
    #[command(flatten)]
    message: MessageArguments,
}

/// What can be said about a message, here and in a reply.
#[derive(Args)]
pub(crate) struct MessageArguments {
    /// The text; `-`, or nothing in a pipe, takes it from standard input
    text: Vec<String>,
    /// When it is to be shown [default: at the first safe boundary]
    #[arg(long, value_parser = literal::modes())]
    mode: Option<DeliveryMode>,
    /// Let another boundary do where a session can't do the mode, and a line of text for an image
    #[arg(long)]
    allow_downgrade: bool,
    /// Let it come before others that are due
    #[arg(long)]
    urgent: bool,
    /// When it is of no use any more: 10m, 2h, or a time
    #[arg(long, value_name = "WHEN", value_parser = Moment::parse)]
    deadline: Option<Moment>,
    /// A file to go with it; may be given several times
    #[arg(long, value_name = "FILE")]
    attach: Vec<PathBuf>,
    /// The same key sends the message once, however often the command runs
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Do not wait for what becomes of it
    #[arg(long, conflicts_with = "wait")]
    no_wait: bool,
    /// Wait so long for every recipient, also for those that are not connected
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    wait: Option<Duration>,
}

/// How long is waited, and for whom.
#[derive(Clone, Copy, Debug)]
struct Patience {
    at_most: Duration,
    /// Whether that is for those without a session, too, and a failure when it was not enough.
    was_asked_for: bool,
}

pub(crate) async fn run(arguments: &SendArguments, contact: &Contact, output: &Output) -> Outcome {
    let to = recipients::read(&arguments.to)?;
    let text = arguments.message.text()?;
    let sent = deliver(&arguments.message, contact, output, |relay| {
        relay.send_message_to(to.clone(), text.clone())
    });
    match sent.await {
        Err(failure) if failure.server_code() == Some(ErrorCode::UnknownAgent) => {
            Err(recipients::mistaken(failure, &arguments.to, contact).await)
        }
        sent => sent,
    }
}

/// Sends a message that is made by `begin`, and follows it.
pub(super) async fn deliver(
    arguments: &MessageArguments,
    contact: &Contact,
    output: &Output,
    begin: impl Fn(&Relay) -> Sending,
) -> Outcome {
    // Whether somebody is there, before anything that would wait for it.
    contact.relay.me().await?;
    let relay = contact.patient()?;
    let attachments = content::upload(&arguments.attach, &relay).await?;
    let mut sending = arguments.apply(begin(&relay));
    for attachment in attachments {
        sending = sending.attachment(attachment);
    }
    if arguments.no_wait {
        let sent = sending.await?;
        return tell_sent(output, &sent, true);
    }
    // From before it is sent, so that nothing that becomes of it is missed.
    let following = Following::begin(&relay).await?;
    let sent = sending.await?;
    if !output.is_json() {
        tell_sent(output, &sent, false)?;
    }
    let patience = Patience {
        at_most: arguments.wait.unwrap_or(WAIT),
        was_asked_for: arguments.wait.is_some(),
    };
    following.follow(sent, patience, output).await
}

impl MessageArguments {
    fn apply(&self, mut sending: Sending) -> Sending {
        if let Some(mode) = self.mode {
            sending = sending.mode(mode);
        }
        if self.allow_downgrade {
            sending = sending.allow_downgrade();
        }
        if self.urgent {
            sending = sending.urgent();
        }
        if let Some(deadline) = self.deadline {
            sending = sending.deadline(deadline.ahead());
        }
        if let Some(key) = &self.key {
            sending = sending.idempotency_key(key.clone());
        }
        sending
    }

    /// The text that a message with these arguments has.
    pub(super) fn text(&self) -> Outcome<String> {
        content::text(&self.text)
    }
}

/// Says that a message is stored, and with `with_recipients` for whom.
fn tell_sent(output: &Output, sent: &MessageSent, with_recipients: bool) -> Outcome {
    for notice in sent.notices.iter().flatten() {
        output.note(&format!("note: {}", safe(&notice.message)));
    }
    output.show(sent, |style| {
        let mut lines = vec![format!(
            "sent {}",
            style.strong(&sent.message_id.to_string())
        )];
        if with_recipients {
            lines.extend(sent.deliveries.iter().map(|delivery| {
                let state = crate::words::colored(style, delivery.state);
                let line = format!("@{}  {state}  {}", delivery.agent, delivery.delivery_id);
                match &delivery.waiting {
                    Some(waiting) => format!("{line}  {}", crate::words::waiting(waiting)),
                    None => line,
                }
            }));
        }
        lines.join("\n")
    })
}
