//! `relay env`: the variables by which a program finds the server and acts there.

use clap::Args;
use serde::Serialize;

use crate::contact::Contact;
use crate::data::word_in_shell;
use crate::failure::Outcome;
use crate::output::Output;

pub(crate) const EXAMPLES: &str = "\
Examples:
  eval \"$(relay env --as bob)\"; python3 my_agent.py
  relay env --as bob --json | jq -r .RELAY_URL

Without --as it is the workspace key, which may do nearly everything: give it to no agent.";

#[derive(Args)]
pub(crate) struct EnvArguments {}

/// What a program needs.
#[derive(Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
struct Variables<'a> {
    relay_url: &'a str,
    relay_token: &'a str,
}

pub(crate) fn run(contact: &Contact, output: &Output) -> Outcome {
    let variables = Variables {
        relay_url: contact.url(),
        relay_token: contact.token(),
    };
    output.show(&variables, |_| {
        format!(
            "export RELAY_URL={}\nexport RELAY_TOKEN={}",
            word_in_shell(variables.relay_url),
            word_in_shell(variables.relay_token)
        )
    })
}
