//! `relay up`: a server for oneself, with a word about what to do with it.

use std::time::Duration;

use relay_core::store::sqlite::OpenError;
use relay_sdk::{Options, Relay};

use super::serve::{self, Ready, Start, StartArguments};
use crate::config::Layers;
use crate::contact::GlobalArguments;
use crate::credentials::Credentials;
use crate::data::DataDirectory;
use crate::failure::{Exit, Failure, Outcome};
use crate::hints;
use crate::local_server::LocalServer;
use crate::output::{Output, Style, fields};

/// How long the server that is running has to answer.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) const EXAMPLES: &str = "\
Examples:
  relay up                                  a server on 127.0.0.1:4000, data in ~/.local/share/relay
  relay up --data ./team --listen 127.0.0.1:0
                                            another one, on a port that is free

When one over the same data is running already, this says where and ends with 0.";

pub(crate) fn run(
    arguments: &StartArguments,
    globals: &GlobalArguments,
    output: &Output,
) -> Outcome {
    let data = DataDirectory::open(globals.data.as_deref())?;
    // What is proposed is for other terminals, where the environment may say something else.
    hints::repeat_data(data.path());
    if let Some(credentials) = running(&data)? {
        let ready = Ready::new(Start::Running, &data, &credentials);
        return output.show(&ready, |style| summary(style, "is running already", &ready));
    }
    let mut layers = Layers::defaults()?;
    // Whoever starts it by hand wants to read the summary, and what goes wrong.
    layers.flag("relay up", "log.filter", "warn")?;
    serve::start(arguments, &data, layers, &|data, credentials| {
        let ready = Ready::new(Start::Started, data, credentials);
        let _ = output.show(&ready, |style| {
            let stop = style.faint("Ctrl-C stops it; nothing is lost.");
            format!("{}\n\n{stop}", summary(style, "is ready", &ready))
        });
    })?;
    Ok(())
}

/// The credentials of the server that runs over this data, if one does. One that runs and can't be reached is an error:
/// a second one can't start beside it.
fn running(data: &DataDirectory) -> Outcome<Option<Credentials>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Failed, "failed", error.to_string()))?;
    let (process, why) = match runtime.block_on(LocalServer::find(data))? {
        LocalServer::Never | LocalServer::Stopped => return Ok(None),
        LocalServer::Starting { process } => {
            (process, "it has not said where it listens".to_owned())
        }
        LocalServer::Running {
            process,
            url,
            credentials,
        } => {
            let options = Options {
                patience: Duration::ZERO,
                timeout: PATIENCE,
                connect_timeout: PATIENCE,
                ..Options::default()
            };
            let relay = Relay::with_options(&url, &credentials.workspace_key, options)?;
            match runtime.block_on(relay.health()) {
                Ok(_) => return Ok(Some(credentials)),
                Err(error) => (process, format!("it does not answer at {url}: {error}")),
            }
        }
    };
    let locked = OpenError::Locked {
        path: data.database(),
        holder: process,
    };
    Err(Failure::from(locked).next(why))
}

fn summary(style: &Style, state: &str, ready: &Ready<'_>) -> String {
    let title = style.strong(&format!("relay {} {state}", env!("CARGO_PKG_VERSION")));
    let place = fields(
        style,
        &[
            ("url", ready.url.to_owned()),
            ("data", ready.data.display().to_string()),
            ("credentials", ready.credentials.display().to_string()),
        ],
    );
    let chapter = |heading: &str, commands: &[&str]| {
        let commands = commands.iter().map(|words| hints::command(words));
        let lines: Vec<String> = commands.map(|command| format!("\n  {command}")).collect();
        format!("{}{}", style.strong(heading), lines.concat())
    };
    let try_it = chapter(
        "Try it in another terminal",
        &[
            "agent register ada",
            "agent register bob",
            "send bob 'Shall we ship?' --as ada",
            "inbox --as bob",
        ],
    );
    let connect = chapter("Connect an agent", &["agent register NAME --show-token"]);
    let watch = chapter("Watch what happens", &["listen"]);
    format!(
        "{title}\n{place}\n\n{try_it}\n\n{connect}\n  \
         and give it that token as RELAY_TOKEN, with RELAY_URL={url}\n\n{watch}",
        url = ready.url,
    )
}
