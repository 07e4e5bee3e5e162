//! `relay listen`: events as they happen, or from a place in the log on.
//!
//! The connection looks after itself: when the server restarts, this goes on where it was, with no event
//! missed and none twice.

use clap::Args;
use relay_protocol::event::LoggedEvent;
use relay_protocol::selector::Filter;
use relay_sdk::{Listen, Relay, after};
use tokio::sync::mpsc;

use crate::contact::Contact;
use crate::failure::{Exit, Failure, Outcome};
use crate::literal;
use crate::output::Output;
use crate::{platform, words};

pub(crate) const EXAMPLES: &str = "\
Examples:
  relay listen                                everything from now on
  relay listen 'message.*' --channel general
  relay listen delivery.failed --agent bob --json
  relay listen '*' --since 0 --json           the whole log, then what comes
  relay listen '{\"or\":[{\"event\":\"dm.received\"},{\"mentions\":\"ada\"}]}'

Each event has a number (`seq`). --since goes on after one: keep the last you have seen, and nothing is missed. \
It stays until it is stopped, also while the server restarts.";

/// Events that may wait to be printed.
const QUEUED: usize = 256;

#[derive(Args)]
pub(crate) struct ListenArguments {
    /// An event's name, a pattern such as `message.*`, or a filter as JSON
    #[arg(default_value = "*")]
    selector: String,
    /// Only what is about this agent
    #[arg(long)]
    agent: Option<String>,
    /// Only what happens in this channel
    #[arg(long)]
    channel: Option<String>,
    /// Only messages by this agent
    #[arg(long, value_name = "AGENT")]
    from: Option<String>,
    /// Only messages that name this agent
    #[arg(long, value_name = "AGENT")]
    mentions: Option<String>,
    /// Begin after this number, with what is stored
    #[arg(long, value_name = "SEQ")]
    since: Option<u64>,
    /// End after so many events
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

pub(crate) async fn run(
    arguments: &ListenArguments,
    contact: &Contact,
    output: &Output,
) -> Outcome {
    let filter = arguments.filter()?;
    watch(filter, arguments.since, arguments.count, contact, output).await
}

/// Shows events as they come, until there were so many, or somebody ends it.
pub(super) async fn watch(
    filter: Filter,
    since: Option<u64>,
    count: Option<u64>,
    contact: &Contact,
    output: &Output,
) -> Outcome {
    // Whether somebody is there, before anything that would wait for it.
    contact.relay.me().await?;
    let relay = contact.patient()?;
    let mut events = match since {
        Some(seq) => follow(&relay, after(seq, filter)).await?,
        None => follow(&relay, filter).await?,
    };
    output.hint(&format!("listening at {}; Ctrl-C ends it", contact.url()));
    let mut closed = std::pin::pin!(platform::nobody_reads());
    let mut left = count.unwrap_or(u64::MAX);
    while left > 0 {
        let event = tokio::select! {
            event = events.recv() => event,
            () = &mut closed => return Err(Failure::nobody_reads()),
        };
        let Some(event) = event else {
            return Err(ended(&relay).await);
        };
        output.show(&event, |style| words::event(style, &event))?;
        left -= 1;
    }
    Ok(())
}

/// Puts events into a queue, one after the other.
pub(super) async fn follow<L>(relay: &Relay, listen: L) -> Outcome<mpsc::Receiver<LoggedEvent>>
where
    L: Listen<Event = LoggedEvent>,
{
    let (queue, events) = mpsc::channel(QUEUED);
    relay
        .add_listener(listen, move |event| {
            let queue = queue.clone();
            async move {
                let _ = queue.send(event).await;
            }
        })
        .await?;
    Ok(events)
}

/// Why no more events come: most likely the credential has ended.
pub(super) async fn ended(relay: &Relay) -> Failure {
    match relay.me().await {
        Err(error) => error.into(),
        Ok(_) => Failure::new(
            Exit::Failed,
            "failed",
            "the server ended the stream of events",
        ),
    }
}

impl ListenArguments {
    fn filter(&self) -> Outcome<Filter> {
        let mut filter = match self.selector.starts_with('{') {
            true => literal::filter(&self.selector).map_err(|error| {
                Failure::usage(error).next("`relay listen --help` has an example")
            })?,
            false => Filter::event(self.selector.clone()),
        };
        let conditions = Filter {
            agent: self.agent.clone(),
            in_channel: self.channel.clone(),
            from: self.from.clone(),
            mentions: self.mentions.clone(),
            ..Filter::default()
        };
        if conditions != Filter::default() {
            filter = Filter {
                and: Some(vec![filter, conditions]),
                ..Filter::default()
            };
        }
        Ok(filter)
    }
}
