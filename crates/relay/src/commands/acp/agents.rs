//! `relay acp agents`: the catalogue.

use relay_harness::acp::catalogue::{AgentDefinition, MidTurn};
use serde::Serialize;

use crate::coding_agents::ConfigArgument;
use crate::contact::GlobalArguments;
use crate::failure::Outcome;
use crate::output::{Output, Table, one_line};

pub(super) const EXAMPLES: &str = "\
Examples:
  relay acp agents
  relay acp agents --json

Agents of your own are added by [agents.ID] in relay.toml; the end of Relay's default settings shows how. What an agent can do is not listed \
here, because only the agent knows: `relay acp capabilities AGENT`.";

/// Most characters of a command in the table.
const SHOWN: usize = 40;

/// An agent, for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed<'a> {
    id: &'a str,
    title: &'a str,
    command: &'a str,
    args: &'a [String],
    env_names: &'a [String],
    install: &'a str,
    sign_in: &'a str,
    mid_turn: MidTurn,
    #[serde(skip_serializing_if = "Option::is_none")]
    asking_mode: Option<&'a str>,
    built_in: bool,
}

#[derive(Serialize)]
struct Items<'a> {
    items: Vec<Listed<'a>>,
}

pub(super) fn run(config: &ConfigArgument, globals: &GlobalArguments, output: &Output) -> Outcome {
    let catalogue = config.catalogue(globals)?;
    let items = catalogue.agents().iter().map(listed).collect();
    output.show(&Items { items }, |style| {
        let mut table = Table::new(&["agent", "name", "command", "during a turn", "install"]);
        for agent in catalogue.agents() {
            table.row([
                style.strong(&agent.id),
                one_line(&agent.title),
                command(agent),
                during_a_turn(agent.mid_turn).to_owned(),
                style.faint(match agent.built_in {
                    true => &agent.install,
                    false => "(your own)",
                }),
            ]);
        }
        let mut lines = vec![table.text(style, "none"), String::new()];
        let with_hint = catalogue.agents().iter();
        let with_hint = with_hint.filter(|agent| !agent.sign_in.is_empty());
        lines.push(style.faint("to sign in"));
        lines.extend(with_hint.map(|agent| format!("{}: {}", agent.id, agent.sign_in)));
        lines.join("\n")
    })
}

fn listed(agent: &AgentDefinition) -> Listed<'_> {
    Listed {
        id: &agent.id,
        title: &agent.title,
        command: &agent.command,
        args: &agent.args,
        env_names: &agent.env_names,
        install: &agent.install,
        sign_in: &agent.sign_in,
        mid_turn: agent.mid_turn,
        asking_mode: agent.asking_mode.as_deref(),
        built_in: agent.built_in,
    }
}

/// The command line that starts an agent.
fn command(agent: &AgentDefinition) -> String {
    let words = std::iter::once(&agent.command).chain(&agent.args);
    let words: Vec<&str> = words.map(String::as_str).collect();
    shortened(&one_line(&words.join(" ")))
}

/// How a message gets in, in words. Where the handshake advertises steering, that comes first.
const fn during_a_turn(way: MidTurn) -> &'static str {
    match way {
        MidTurn::Steer => "steered",
        MidTurn::Queue => "queued",
        MidTurn::CancelAndPrompt => "interrupts",
        MidTurn::None => "waits",
    }
}

/// As much of a command as a table has room for.
fn shortened(command: &str) -> String {
    match command.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &command[..end]),
        None => command.to_owned(),
    }
}
