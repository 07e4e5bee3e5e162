//! `relay mcp`: Relay as an MCP server over standard input and output, for one agent.
//!
//! Standard output is the protocol; whatever else there is to say goes to standard error.

mod clients;
mod edit;
mod install;

use clap::{Args, Subcommand};
use relay_harness::acp::tools;
use relay_mcp::McpServer;
use relay_protocol::ids::SessionId;
use relay_sdk::AgentClient;

use crate::config::{LogFormat, LogSettings};
use crate::contact::{Actor, Contact, GlobalArguments, with_server};
use crate::failure::{Exit, Failure, Outcome};
use crate::output::Output;
use crate::{hints, literal, logging};

pub(crate) const EXAMPLES: &str = "\
Examples:
  relay mcp --as bob                          what an MCP client is told to start
  relay mcp install claude-code --as bob      tells one
  RELAY_URL=… RELAY_TOKEN=at_… relay mcp      the same with the agent's own token

It speaks MCP over standard input and output until the client ends. The tools are `send`, `check` and `people`, and every \
action that the agent can call.";

/// What is logged unless `RELAY_LOG_FILTER` says otherwise.
const LOGGED: &str = "warn,rmcp=error";

#[derive(Args)]
pub(crate) struct McpArguments {
    /// The session of the agent through which calls are made; what it did not declare is refused
    #[arg(long, value_name = "ID", env = "RELAY_SESSION", value_parser = literal::id::<SessionId>)]
    session: Option<SessionId>,
    /// Where `relay run` listens for its being started
    #[arg(long, value_name = "ADDRESS", hide = true)]
    announce: Option<String>,
    #[command(subcommand)]
    command: Option<McpCommand>,
}

#[derive(Subcommand)]
enum McpCommand {
    /// Tell an MCP client to start it, in the client's own configuration
    #[command(after_help = install::EXAMPLES)]
    Install(install::InstallArguments),
}

pub(crate) fn run(arguments: &McpArguments, globals: &GlobalArguments, output: &Output) -> Outcome {
    match &arguments.command {
        Some(McpCommand::Install(arguments)) => install::run(arguments, globals, output),
        None => with_server(globals, Actor::Chosen, async |contact| {
            serve(arguments, contact).await
        }),
    }
}

async fn serve(arguments: &McpArguments, contact: &Contact) -> Outcome {
    let filter = std::env::var("RELAY_LOG_FILTER").ok();
    logging::begin(&LogSettings {
        filter: filter.unwrap_or_else(|| LOGGED.to_owned()),
        format: LogFormat::Text,
    })?;
    let client = agent(contact).await?;
    if let Some(address) = &arguments.announce
        && let Err(error) = tools::announce(address).await
    {
        // It is not waited for any more.
        tracing::debug!(%error, "whoever has started the agent does not know that its tools run");
    }
    let server = match arguments.session {
        Some(session) => McpServer::through_session(client, session),
        None => McpServer::new(client),
    };
    let serving = server.serve(tokio::io::stdin(), tokio::io::stdout());
    serving
        .await
        .map_err(|error| Failure::new(Exit::Failed, "failed", error.to_string()))
}

/// The agent whose tools these are. The workspace key is nobody's: what it sends is sent by Relay itself.
async fn agent(contact: &Contact) -> Outcome<AgentClient> {
    if contact.relay.me().await?.agent.is_none() {
        let message = "expected the credential of an agent, found one of the workspace";
        return Err(
            Failure::new(Exit::Refused, "agent_needed", message).next(format!(
                "say with --as NAME which agent it is; `{}` makes one",
                hints::command("agent register NAME")
            )),
        );
    }
    Ok(contact.patient()?.reconnect(contact.token()).await?)
}
