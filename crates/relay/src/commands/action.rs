//! `relay action`: what agents can call, calling it, and watching calls.

use std::io::{IsTerminal as _, Read as _};
use std::time::Duration;

use clap::{Args, Subcommand};
use relay_protocol::action::{Invocation, InvocationState};
use relay_protocol::ids::InvocationId;
use relay_sdk::{Filter, Relay};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::listen;
use crate::contact::Contact;
use crate::failure::{Exit, Failure, Outcome};
use crate::hints;
use crate::literal;
use crate::moment::{parse_duration, span};
use crate::output::{Output, Style, Table, one_line, safe};
use crate::paging::all_pages;

const INVOKE_EXAMPLES: &str = "\
Examples:
  relay action invoke classify '{\"text\": \"you win\"}' --as ada
  echo '{\"text\": \"you win\"}' | relay action invoke classify - --json
  relay action invoke deploy --no-wait

The call is stored before it is answered, and run by a process that has registered the action. This waits until it \
has ended, for 5 minutes. Exit code 6: it failed; 7: --wait was not enough.";

/// How long is waited when nobody says: as long as an action has that does not say either.
const WAIT: &str = "5m";

#[derive(Subcommand)]
pub(crate) enum ActionCommand {
    /// List what can be called
    #[command(after_help = "Examples:\n  relay action list\n  relay action list --as ada")]
    List,
    /// Call an action and see how that ends
    #[command(after_help = INVOKE_EXAMPLES)]
    Invoke(InvokeArguments),
    /// Tell how a call stands
    #[command(after_help = "Example:\n  relay action show 01a1e393-83fa-748d-8000-01000000000b")]
    Show {
        /// The call
        #[arg(value_parser = literal::id::<InvocationId>)]
        invocation: InvocationId,
    },
    /// Watch all actions, or one: how they come, are called, and go
    #[command(after_help = "Examples:\n  relay action watch\n  relay action watch classify --json")]
    Watch(WatchArguments),
    /// Take an action back; its open calls fail
    #[command(after_help = "Example:\n  relay action remove classify")]
    Remove {
        /// The action
        name: String,
    },
}

#[derive(Args)]
pub(crate) struct InvokeArguments {
    /// The action
    name: String,
    /// What it is called with, as JSON; `-` takes it from standard input [default: {}]
    input: Option<String>,
    /// Record the call once, however often the command runs with this key
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Do not wait for the end
    #[arg(long)]
    no_wait: bool,
    /// Wait so long
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = WAIT)]
    wait: Duration,
}

#[derive(Args)]
pub(crate) struct WatchArguments {
    /// Only this action
    name: Option<String>,
    /// Begin after this number, with what is stored
    #[arg(long, value_name = "SEQ")]
    since: Option<u64>,
    /// End after so many events
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

pub(crate) async fn run(command: &ActionCommand, contact: &Contact, output: &Output) -> Outcome {
    match command {
        ActionCommand::List => list(contact, output).await,
        ActionCommand::Invoke(arguments) => invoke(arguments, contact, output).await,
        ActionCommand::Show { invocation } => {
            let found = contact.relay.invocation(*invocation).await?;
            output.show(&found, |style| told(style, &found))
        }
        ActionCommand::Watch(arguments) => {
            let filter = match &arguments.name {
                Some(name) => Filter::action(name),
                None => Filter::event("action.*"),
            };
            listen::watch(filter, arguments.since, arguments.count, contact, output).await
        }
        ActionCommand::Remove { name } => {
            contact.relay.unregister_action(name).await?;
            output.show(&json!({ "removed": name }), |_| {
                format!("{name} can't be called any more")
            })
        }
    }
}

async fn list(contact: &Contact, output: &Output) -> Outcome {
    let all = all_pages(async |cursor| contact.relay.actions(cursor).await).await?;
    output.show(&all, |style| {
        let mut table = Table::new(&["action", "by", "handlers", "what it does"]);
        for action in &all.items {
            let owner = action.owner.as_ref().map(|name| format!("@{name}"));
            let handlers = match action.handlers {
                0 => style.bad("none"),
                count => count.to_string(),
            };
            table.row([
                style.strong(&action.name),
                owner.unwrap_or_else(|| "workspace".to_owned()),
                handlers,
                one_line(action.description.as_deref().unwrap_or_default()),
            ]);
        }
        table.text(
            style,
            "no actions; a process registers them with the SDK or the API",
        )
    })
}

async fn invoke(arguments: &InvokeArguments, contact: &Contact, output: &Output) -> Outcome {
    let input = arguments.input()?;
    let relay = contact.patient()?;
    // Before the call: then its end can't be missed.
    let mut ends = ends(&relay, &arguments.name).await?;
    let name = &arguments.name;
    let id = match &arguments.key {
        Some(key) => contact.relay.invoke_with_key(name, input, key).await?,
        None => contact.relay.invoke(name, input).await?,
    };
    if arguments.no_wait {
        return output.show(&json!({ "invocationId": id }), |_| {
            let show = hints::command(&format!("action show {id}"));
            format!("called {id}\nfollow it: {show}")
        });
    }
    let ended = async {
        while let Some(end) = ends.recv().await {
            if end == Some(id) {
                break;
            }
        }
    };
    // With a key it may have ended long ago.
    if relay.invocation(id).await?.state == InvocationState::Invoked {
        // Whatever came of waiting: how it stands is asked for.
        let _ = tokio::time::timeout(arguments.wait, ended).await;
    }
    let call = relay.invocation(id).await?;
    output.show(&call, |style| told(style, &call))?;
    match call.state {
        InvocationState::Completed => Ok(()),
        InvocationState::Invoked => {
            let message = format!("{} has not ended yet", arguments.name);
            let show = hints::command(&format!("action show {id}"));
            Err(Failure::new(Exit::NotYet, "not_yet", message).next(show))
        }
        InvocationState::Failed | InvocationState::Denied => {
            let why = call.error.or(call.reason).unwrap_or_default();
            let failed = Failure::new(Exit::DeliveryFailed, "action_failed", safe(&why));
            Err(match call.retryable {
                Some(true) => failed.next("try again"),
                _ => failed,
            })
        }
    }
}

/// Which calls of an action end from now on.
async fn ends(relay: &Relay, name: &str) -> Outcome<mpsc::UnboundedReceiver<Option<InvocationId>>> {
    let (tell, told) = mpsc::unbounded_channel();
    for predicate in [relay.action(name).completed(), relay.action(name).failed()] {
        let tell = tell.clone();
        relay
            .add_listener(predicate, move |event| {
                let _ = tell.send(event.invocation_id);
                async {}
            })
            .await?;
    }
    Ok(told)
}

impl InvokeArguments {
    fn input(&self) -> Outcome<Value> {
        let text = match self.input.as_deref() {
            None => return Ok(json!({})),
            Some("-") => {
                let mut text = String::new();
                let mut stdin = std::io::stdin();
                if stdin.is_terminal() {
                    return Err(Failure::usage(
                        "expected JSON on standard input, found a terminal",
                    ));
                }
                let read = stdin.read_to_string(&mut text);
                read.map_err(|error| Failure::usage(format!("standard input: {error}")))?;
                text
            }
            Some(text) => text.to_owned(),
        };
        serde_json::from_str(&text).map_err(|error| {
            Failure::usage(format!("expected JSON as the input: {error}"))
                .next("quote it: '{\"text\": \"hello\"}'")
        })
    }
}

/// How a call stands, in words.
fn told(style: &Style, call: &Invocation) -> String {
    let took = call
        .duration_ms
        .map(|ms| format!(" after {}", span(i64::try_from(ms).unwrap_or(i64::MAX))));
    let took = took.unwrap_or_default();
    let why = || {
        safe(
            call.error
                .as_deref()
                .or(call.reason.as_deref())
                .unwrap_or_default(),
        )
    };
    let end = match call.state {
        InvocationState::Invoked if call.offers == 0 => "waits for a handler".to_owned(),
        InvocationState::Invoked => format!("is being run (given to {} so far)", call.offers),
        InvocationState::Completed => format!("{}{took}", style.good("completed")),
        InvocationState::Failed => format!("{}{took}: {}", style.bad("failed"), why()),
        InvocationState::Denied => format!("{}: {}", style.bad("denied"), why()),
    };
    let mut lines = vec![format!("{} {end}", style.strong(&call.action))];
    if let Some(output) = &call.output {
        let text = serde_json::to_string_pretty(output).unwrap_or_default();
        lines.push(safe(&text));
    }
    lines.push(style.faint(&format!("by {}  {}", call.agent.name, call.invocation_id)));
    lines.join("\n")
}
