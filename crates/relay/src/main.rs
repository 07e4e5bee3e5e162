//! Relay's command line. Each command is a module; this file says which there are and what they share.

mod agent_tokens;
mod chat_door;
mod coding_agents;
mod commands;
mod config;
mod contact;
mod credentials;
mod data;
mod failure;
mod hints;
mod literal;
mod local_server;
mod logging;
mod mcp_door;
mod memory;
mod models;
mod moment;
mod output;
mod paging;
mod platform;
mod throwaway;
mod words;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use relay_harness::child::{reap_orphans, set_orphan_reaper};

use crate::commands::serve::StartArguments;
use crate::commands::{
    acp, action, agent, audit, backup, bench, channel, chat, completions, config as config_command,
    delivery, demo, doctor, env, grant, inbox, listen, man, mcp, permission, policy, react,
    readers, reply, restore, run as run_command, search, send, serve, session, token, up, webhook,
};
use crate::contact::{Actor, GlobalArguments, with_server};
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{ColorChoice, Output};

/// Version, commit and protocol.
fn version() -> String {
    format!(
        "{} (commit {}, protocol {})",
        env!("CARGO_PKG_VERSION"),
        env!("RELAY_BUILD_COMMIT"),
        relay_protocol::socket::PROTOCOL
    )
}

/// Durable mailboxes for AI agents, delivered at the right moment, told truthfully.
#[derive(Parser)]
#[command(name = "relay", version = version(), arg_required_else_help = true)]
#[command(after_help = "\
Begin with `relay up`.

Exit codes: 0 done, 1 failed, 2 usage, 3 no server answers, 4 not found, 5 refused,
            6 a delivery or a call failed, 7 not yet, 8 conflict; `relay permission`
            has some of its own")]
struct Arguments {
    #[command(flatten)]
    globals: GlobalArguments,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start a server for yourself and say what to try
    #[command(after_help = up::EXAMPLES)]
    Up(StartArguments),
    /// Run a server until it is told to stop
    #[command(
        after_help = "Example:\n  relay serve --data /var/lib/relay --config /etc/relay.toml"
    )]
    Serve(StartArguments),
    /// Look at the settings
    #[command(subcommand)]
    Config(config_command::ConfigCommand),
    /// Register, list, show, rotate, release agents
    #[command(subcommand)]
    Agent(agent::AgentCommand),
    /// Send a message and see what becomes of it
    #[command(after_help = send::EXAMPLES)]
    Send(send::SendArguments),
    /// Answer a message in its thread
    #[command(after_help = reply::EXAMPLES)]
    Reply(reply::ReplyArguments),
    /// React to a message
    #[command(after_help = react::EXAMPLES)]
    React(react::ReactArguments),
    /// Show what an agent has not read
    #[command(after_help = inbox::EXAMPLES)]
    Inbox(inbox::InboxArguments),
    /// Show who has read a message
    #[command(after_help = readers::EXAMPLES)]
    Readers(readers::ReadersArguments),
    /// List, create, show, join, leave, read channels
    #[command(subcommand)]
    Channel(channel::ChannelCommand),
    /// Find messages
    #[command(after_help = search::EXAMPLES)]
    Search(search::SearchArguments),
    /// Watch events as they happen
    #[command(after_help = listen::EXAMPLES)]
    Listen(listen::ListenArguments),
    /// List, show, release, pause, resume, fork sessions
    #[command(subcommand)]
    Session(session::SessionCommand),
    /// List, explain, retry, cancel, flush deliveries
    #[command(subcommand)]
    Delivery(delivery::DeliveryCommand),
    /// List, call, watch actions
    #[command(subcommand)]
    Action(action::ActionCommand),
    /// List, show, decide about, watch, ask for permissions
    #[command(subcommand)]
    Permission(permission::PermissionCommand),
    /// List and revoke standing permissions
    #[command(subcommand)]
    Grant(grant::GrantCommand),
    /// Talk with a model of the server; what it wants to do is asked
    #[command(after_help = chat::EXAMPLES)]
    Chat(chat::ChatArguments),
    /// Run a coding agent on the relay, with you beside it
    #[command(after_help = run_command::EXAMPLES)]
    Run(run_command::RunArguments),
    /// List, detect, ask coding agents that speak ACP
    #[command(subcommand)]
    Acp(acp::AcpCommand),
    /// Be an MCP server for an agent, over standard input and output
    #[command(after_help = mcp::EXAMPLES)]
    Mcp(mcp::McpArguments),
    /// Have events sent to URLs, let messages in by URLs, receive calls here
    #[command(subcommand)]
    Webhook(webhook::WebhookCommand),
    /// Show and change how deliveries are made, and which tool calls need no question
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
    /// Show the credential in use; make, list, revoke observer tokens
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Print the variables by which a program finds the server and acts there
    #[command(after_help = env::EXAMPLES)]
    Env(env::EnvArguments),
    /// Verify, anchor, export the log; erase from it, apply retention
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// Copy all data while the server runs, or not
    #[command(after_help = backup::EXAMPLES)]
    Backup(backup::BackupArguments),
    /// Put a backup into an empty data directory
    #[command(after_help = restore::EXAMPLES)]
    Restore(restore::RestoreArguments),
    /// Check that everything works, with a round trip in every mode
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(doctor::DoctorArguments),
    /// Watch three agents talk for a minute, and have it explained
    #[command(after_help = demo::EXAMPLES)]
    Demo(demo::DemoArguments),
    /// Measure Relay on this machine, beside Redis and plain sockets
    #[command(after_help = bench::EXAMPLES)]
    Bench(bench::BenchArguments),
    /// Print completions for a shell
    #[command(after_help = completions::EXAMPLES)]
    Completions(completions::CompletionsArguments),
    /// Write manual pages into a directory
    #[command(after_help = man::EXAMPLES)]
    Man(man::ManArguments),
}

/// The argument with which this program starts itself to end the agents that are left when it is killed. No command for people.
const REAP_ORPHANS: &str = "reap-orphans";

fn main() -> ExitCode {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|it| it == REAP_ORPHANS)
    {
        reap_orphans(std::io::stdin().lock());
        return ExitCode::SUCCESS;
    }
    if let Ok(program) = std::env::current_exe() {
        set_orphan_reaper(program, vec![REAP_ORPHANS.into()]);
    }
    let arguments = match parse() {
        Ok(arguments) => arguments,
        Err(error) => return misused(&error),
    };
    let globals = &arguments.globals;
    let output = Output::new(globals.json, globals.color);
    match run(&arguments.command, globals, &output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(&output),
    }
}

/// Reads the arguments. Who says where the data is by a flag wants to hear it in every hint.
fn parse() -> Result<Arguments, clap::Error> {
    let matches = Arguments::command().try_get_matches()?;
    let mut arguments = Arguments::from_arg_matches(&matches)
        .map_err(|error| error.format(&mut Arguments::command()))?;
    let was_flag = matches.value_source("data") == Some(ValueSource::CommandLine);
    arguments.globals.data_is_flag = was_flag;
    match &arguments.globals.data {
        Some(data) if data.as_os_str().is_empty() && was_flag => {
            let empty = "expected a directory after --data, found an empty text";
            return Err(Arguments::command().error(ErrorKind::InvalidValue, empty));
        }
        // A variable that is empty says nothing.
        Some(data) if data.as_os_str().is_empty() => arguments.globals.data = None,
        Some(data) if was_flag => hints::repeat_data(data),
        _ => {}
    }
    Ok(arguments)
}

fn run(command: &Command, globals: &GlobalArguments, output: &Output) -> Outcome {
    use Actor::{Chosen, Workspace};
    match command {
        Command::Up(arguments) => up::run(arguments, globals, output),
        Command::Serve(arguments) => serve::run(arguments, globals, output),
        Command::Config(command) => config_command::run(command, globals, output),
        Command::Agent(command) => with_server(globals, Workspace, async |contact| {
            agent::run(command, contact, output).await
        }),
        Command::Send(arguments) => with_server(globals, Chosen, async |contact| {
            send::run(arguments, contact, output).await
        }),
        Command::Reply(arguments) => with_server(globals, Chosen, async |contact| {
            reply::run(arguments, contact, output).await
        }),
        Command::React(arguments) => with_server(globals, Chosen, async |contact| {
            react::run(arguments, contact, output).await
        }),
        Command::Readers(arguments) => with_server(globals, Chosen, async |contact| {
            readers::run(arguments, contact, output).await
        }),
        Command::Inbox(arguments) => with_server(globals, Chosen, async |contact| {
            inbox::run(arguments, contact, output).await
        }),
        Command::Channel(command) => with_server(globals, Chosen, async |contact| {
            channel::run(command, contact, output).await
        }),
        Command::Search(arguments) => with_server(globals, Chosen, async |contact| {
            search::run(arguments, contact, output).await
        }),
        Command::Listen(arguments) => with_server(globals, Chosen, async |contact| {
            listen::run(arguments, contact, output).await
        }),
        Command::Session(command) => with_server(globals, Chosen, async |contact| {
            session::run(command, contact, output).await
        }),
        Command::Delivery(command) => with_server(globals, Chosen, async |contact| {
            delivery::run(command, contact, output).await
        }),
        Command::Action(command) => with_server(globals, Chosen, async |contact| {
            action::run(command, contact, output).await
        }),
        Command::Permission(command) => with_server(globals, Chosen, async |contact| {
            permission::run(command, contact, output).await
        }),
        Command::Grant(command) => with_server(globals, Chosen, async |contact| {
            grant::run(command, contact, output).await
        }),
        Command::Chat(arguments) => with_server(globals, Chosen, async |contact| {
            chat::run(arguments, contact, output).await
        }),
        Command::Run(arguments) => run_command::run(arguments, globals, output),
        Command::Acp(command) => acp::run(command, globals, output),
        Command::Mcp(arguments) => mcp::run(arguments, globals, output),
        Command::Webhook(command) => webhook::run(command, globals, output),
        Command::Policy(command) => with_server(globals, Workspace, async |contact| {
            policy::run(command, contact, output).await
        }),
        Command::Token(command) => with_server(globals, command.actor(), async |contact| {
            token::run(command, contact, output).await
        }),
        Command::Env(env::EnvArguments {}) => {
            with_server(globals, Chosen, async |contact| env::run(contact, output)).map(drop)
        }
        Command::Audit(command) => audit::run(command, globals, output),
        Command::Backup(arguments) => backup::run(arguments, globals, output),
        Command::Restore(arguments) => restore::run(arguments, globals, output),
        Command::Doctor(arguments) => doctor::run(arguments, globals, output),
        Command::Demo(arguments) => demo::run(arguments, globals, output),
        Command::Bench(arguments) => bench::run(arguments, output),
        Command::Completions(arguments) => completions::run(arguments, output),
        Command::Man(arguments) => man::run(arguments, output),
    }
}

/// Tells what clap has to say: help and the version as they are, what is wrong like every other error.
fn misused(error: &clap::Error) -> ExitCode {
    let is_help = matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    let wants_json = std::env::args_os().any(|argument| argument == "--json");
    if is_help || !wants_json {
        let _ = error.print();
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Exit::Usage as u8));
    }
    let text = error.to_string();
    let text = text.trim_start_matches("error: ").trim_end();
    let failure = Failure::usage(text).next("`relay help` shows how commands are written");
    failure.report(&Output::new(true, ColorChoice::Never))
}
