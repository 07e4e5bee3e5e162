//! Relay's command line. Each command is a module; this file only says which there are.

mod config;
mod credentials;
mod data;
mod logging;
mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use mimalloc::MiMalloc;

/// The system's own keeps what thousands of sessions have freed; this one gives it back.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Durable mailboxes for AI agents, delivered at the right moment, told truthfully.
#[derive(Parser)]
#[command(name = "relay", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a server until it is told to stop
    Serve(serve::ServeArguments),
}

fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    let outcome = match command {
        Command::Serve(arguments) => serve::run(arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("relay: {error:#}");
            ExitCode::FAILURE
        }
    }
}
