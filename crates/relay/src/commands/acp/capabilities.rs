//! `relay acp capabilities`: what an agent advertises in its handshake.

use clap::Args;
use relay_harness::acp::capabilities::Handshake;
use relay_harness::acp::host::{HostOptions, probe};

use crate::coding_agents::{StartAgent, tell_warnings};
use crate::contact::GlobalArguments;
use crate::failure::Outcome;
use crate::output::{Output, Style, fields, one_line};

pub(super) const EXAMPLES: &str = "\
Examples:
  relay acp capabilities claude
  relay acp capabilities codex --json

The agent is started, asked, and stopped. With --json it is the object of the ACP capabilities, and nothing else.";

#[derive(Args)]
pub(crate) struct CapabilitiesArguments {
    /// The agent
    agent: String,
    #[command(flatten)]
    start: StartAgent,
}

pub(super) async fn run(
    arguments: &CapabilitiesArguments,
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
    let found = probe(agent, environment, start.directory()?, options, false).await?;
    output.show(&found.handshake.capabilities, |style| {
        in_words(style, &arguments.agent, &found.handshake)
    })
}

fn in_words(style: &Style, id: &str, handshake: &Handshake) -> String {
    let capabilities = &handshake.capabilities;
    let mark = |has: bool| match has {
        true => style.good("yes"),
        false => style.faint("no"),
    };
    let rows = [
        ("loadSession", mark(capabilities.load_session)),
        ("forkSession", mark(capabilities.fork_session)),
        ("resumeSession", mark(capabilities.resume_session)),
        ("closeSession", mark(capabilities.close_session)),
        ("listSessions", mark(capabilities.list_sessions)),
        (
            "additionalDirectories",
            mark(capabilities.additional_directories),
        ),
        ("mcp.stdio", mark(capabilities.mcp.stdio)),
        ("mcp.http", mark(capabilities.mcp.http)),
        ("mcp.sse", mark(capabilities.mcp.sse)),
        ("prompt.text", mark(capabilities.prompt.text)),
        ("prompt.image", mark(capabilities.prompt.image)),
        ("prompt.audio", mark(capabilities.prompt.audio)),
        (
            "prompt.embeddedContext",
            mark(capabilities.prompt.embedded_context),
        ),
    ];
    let mut lines = vec![style.strong(&title(id, handshake)), fields(style, &rows)];
    let beyond = beyond(handshake);
    if !beyond.is_empty() {
        lines.push(format!("beyond the protocol: {}", beyond.join(", ")));
    }
    let ways = handshake.auth_methods.iter();
    let ways: Vec<String> = ways.map(|way| one_line(&way.name)).collect();
    if !ways.is_empty() {
        lines.push(format!("signs in by: {}", ways.join(", ")));
    }
    lines.join("\n")
}

/// The agent with the name and version that it tells.
pub(super) fn title(id: &str, handshake: &Handshake) -> String {
    let agent = &handshake.agent;
    let name = agent.title.as_ref().or(agent.name.as_ref());
    let told = [name, agent.version.as_ref()];
    let told: Vec<String> = told.into_iter().flatten().map(|it| one_line(it)).collect();
    match told.is_empty() {
        true => id.to_owned(),
        false => format!("{id}: {}", told.join(" ")),
    }
}

fn beyond(handshake: &Handshake) -> Vec<&'static str> {
    let extensions = handshake.extensions;
    let all = [
        (extensions.steering, "steering"),
        (extensions.prompt_queueing, "prompts during a turn wait"),
        (extensions.system_prompt, "system prompts"),
        (extensions.delete_session, "deleting sessions"),
    ];
    let has = all.into_iter().filter(|(has, _)| *has);
    has.map(|(_, what)| what).collect()
}
