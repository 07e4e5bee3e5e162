//! `relay acp`: coding agents without a server: which there are, which are ready, and a question to one of them.

mod agents;
mod asking;
mod capabilities;
mod deciding;
mod detect;
mod replaying;
mod sessions;
mod telling;

use clap::Subcommand;

use self::asking::{AskArguments, JsonArguments};
use self::capabilities::CapabilitiesArguments;
use self::detect::DetectArguments;
use self::sessions::SessionsArguments;
use crate::coding_agents::ConfigArgument;
use crate::contact::{GlobalArguments, in_runtime};
use crate::failure::Outcome;
use crate::output::Output;

#[derive(Subcommand)]
pub(crate) enum AcpCommand {
    /// List the agents that can be started by name
    #[command(after_help = agents::EXAMPLES)]
    Agents(ConfigArgument),
    /// Say which agents are ready: each that is installed is started and asked
    #[command(after_help = detect::EXAMPLES)]
    Detect(DetectArguments),
    /// Show what an agent can do, as it says itself
    #[command(after_help = capabilities::EXAMPLES)]
    Capabilities(CapabilitiesArguments),
    /// Ask an agent something and print its answer
    #[command(after_help = asking::ASK_EXAMPLES)]
    Ask(AskArguments),
    /// Ask an agent something and print what happens as it happens
    #[command(after_help = asking::STREAM_EXAMPLES)]
    Stream(AskArguments),
    /// Ask an agent for an answer that is valid against a JSON Schema
    #[command(after_help = asking::JSON_EXAMPLES)]
    Json(JsonArguments),
    /// List the sessions that an agent has stored
    #[command(after_help = sessions::EXAMPLES)]
    Sessions(SessionsArguments),
}

pub(crate) fn run(command: &AcpCommand, globals: &GlobalArguments, output: &Output) -> Outcome {
    match command {
        AcpCommand::Agents(config) => agents::run(config, globals, output),
        AcpCommand::Detect(arguments) => in_runtime(detect::run(arguments, globals, output)),
        AcpCommand::Capabilities(arguments) => {
            in_runtime(capabilities::run(arguments, globals, output))
        }
        AcpCommand::Ask(arguments) => in_runtime(asking::ask(arguments, globals, output)),
        AcpCommand::Stream(arguments) => in_runtime(asking::stream(arguments, globals, output)),
        AcpCommand::Json(arguments) => in_runtime(asking::json(arguments, globals, output)),
        AcpCommand::Sessions(arguments) => in_runtime(sessions::run(arguments, globals, output)),
    }
}
