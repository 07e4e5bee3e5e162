//! `relay completions`: what shells need to complete commands.

use clap::{Args, CommandFactory as _};
use clap_complete::{Shell, generate};

use crate::Arguments;
use crate::failure::Outcome;
use crate::output::Output;

pub(crate) const EXAMPLES: &str = "\
Examples:
  relay completions bash > ~/.local/share/bash-completion/completions/relay
  relay completions zsh > ~/.zfunc/_relay
  relay completions fish > ~/.config/fish/completions/relay.fish";

#[derive(Args)]
pub(crate) struct CompletionsArguments {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(arguments: &CompletionsArguments, output: &Output) -> Outcome {
    let mut script = Vec::new();
    generate(
        arguments.shell,
        &mut Arguments::command(),
        "relay",
        &mut script,
    );
    output.write(&String::from_utf8_lossy(&script))
}
