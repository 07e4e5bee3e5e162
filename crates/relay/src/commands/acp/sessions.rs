//! `relay acp sessions`: what an agent has stored, to go on with.

use clap::Args;
use relay_harness::acp::host::{Host, HostOptions, StoredSession};
use serde::Serialize;

use crate::coding_agents::{StartAgent, directory, tell_warnings};
use crate::contact::GlobalArguments;
use crate::failure::{Failure, Outcome};
use crate::hints;
use crate::output::{Output, Table, one_line};

pub(super) const EXAMPLES: &str = "\
Examples:
  relay acp sessions claude
  relay acp sessions codex --cwd ~/site      those of one directory
  relay acp sessions claude --limit 5 --json

Go on with one: relay acp ask claude --resume SESSION 'and now?'";

#[derive(Args)]
pub(crate) struct SessionsArguments {
    /// The agent
    agent: String,
    /// Most sessions to list [default: all]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    #[command(flatten)]
    start: StartAgent,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    session_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_at: Option<String>,
}

impl From<StoredSession> for Listed {
    fn from(session: StoredSession) -> Self {
        Self {
            session_id: session.id,
            cwd: session.cwd.map(|cwd| cwd.display().to_string()),
            title: session.title,
            updated_at: session.updated_at,
        }
    }
}

#[derive(Serialize)]
struct Items {
    items: Vec<Listed>,
}

pub(super) async fn run(
    arguments: &SessionsArguments,
    globals: &GlobalArguments,
    output: &Output,
) -> Outcome {
    let start = &arguments.start;
    let agent = start.config.find(&arguments.agent, globals)?;
    let environment = start.environment(&agent, output);
    let options = HostOptions {
        on_warning: Some(tell_warnings(output)),
        ..HostOptions::default()
    };
    let host = Host::start(agent, environment, start.directory()?, options).await?;
    let listed = list(arguments, &host).await;
    host.stop().await;
    let items = listed?;
    let shown = Items { items };
    output.show(&shown, |style| {
        let mut table = Table::new(&["session", "updated", "directory", "title"]);
        for session in &shown.items {
            let cell = |text: &Option<String>| text.as_deref().map_or("-".to_owned(), one_line);
            table.row([
                style.strong(&one_line(&session.session_id)),
                cell(&session.updated_at),
                cell(&session.cwd),
                cell(&session.title),
            ]);
        }
        let ask = hints::command(&format!("acp ask {} 'hello'", arguments.agent));
        table.text(
            style,
            &format!("no sessions are stored; `{ask}` begins one"),
        )
    })
}

async fn list(arguments: &SessionsArguments, host: &Host) -> Outcome<Vec<Listed>> {
    let most = arguments.limit.unwrap_or(usize::MAX);
    let of = arguments.start.cwd.as_deref().map(directory).transpose()?;
    let unsupported = |error| Failure::from(relay_harness::acp::host::HostError::Capability(error));
    let mut sessions = host.stream_all_sessions(of).map_err(unsupported)?;
    let mut listed = Vec::new();
    while listed.len() < most {
        match sessions.next().await? {
            Some(session) => listed.push(session.into()),
            None => break,
        }
    }
    Ok(listed)
}
