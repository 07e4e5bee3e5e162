//! `relay agent`: who there is. Always as the workspace.

use std::path::Path;

use clap::{Args, Subcommand};
use relay_protocol::agent::{AgentIdentity, AgentPresence, AgentType, Metadata};
use relay_protocol::session::SessionSummary;
use relay_sdk::Timestamp;
use serde::Serialize;

use crate::contact::Contact;
use crate::failure::Outcome;
use crate::hints;
use crate::literal;
use crate::moment::ago;
use crate::output::{Output, Style, Table, fields, safe};
use crate::paging::all_pages;

#[derive(Subcommand)]
pub(crate) enum AgentCommand {
    /// Take a name; the token is kept, so that --as NAME can act as it
    #[command(after_help = "\
Examples:
  relay agent register ada
  relay agent register kim --type human
  relay agent register ada --show-token      to give the token to a program
  relay agent register ada --adopt           to take over a name whose token is lost")]
    Register(RegisterArguments),
    /// List all agents
    #[command(after_help = "Example:\n  relay agent list")]
    List,
    /// Show an agent and its sessions
    #[command(after_help = "Example:\n  relay agent show ada")]
    Show {
        /// The agent
        name: String,
    },
    /// Give an agent a new token; the old one works for a minute more
    #[command(
        after_help = "Examples:\n  relay agent rotate ada\n  relay agent rotate ada --show-token"
    )]
    Rotate {
        /// The agent
        name: String,
        /// Print the new token
        #[arg(long)]
        show_token: bool,
    },
    /// Release an agent: its sessions end, and what waits for it fails
    #[command(after_help = "Example:\n  relay agent release ada --reason 'the task is done'")]
    Release {
        /// The agent
        name: String,
        /// Why
        #[arg(long)]
        reason: Option<String>,
    },
}

#[derive(Args)]
pub(crate) struct RegisterArguments {
    /// The name: 1 to 64 of A-Z a-z 0-9 . _ -
    name: String,
    /// What kind of participant it is
    #[arg(long = "type", value_name = "TYPE", value_parser = literal::agent_types())]
    agent_type: Option<AgentType>,
    /// What others may know about it, as a JSON object
    #[arg(long, value_name = "JSON", value_parser = metadata)]
    metadata: Option<Metadata>,
    /// Take over the agent that has this name; its old token ends within a minute
    #[arg(long)]
    adopt: bool,
    /// Print the token
    #[arg(long)]
    show_token: bool,
    /// Do not keep the token here; it is printed, since nobody else has it
    #[arg(long)]
    no_keep: bool,
}

fn metadata(text: &str) -> Result<Metadata, String> {
    serde_json::from_str(text).map_err(|error| format!("expected a JSON object: {error}"))
}

pub(crate) async fn run(command: &AgentCommand, contact: &Contact, output: &Output) -> Outcome {
    match command {
        AgentCommand::Register(arguments) => register(arguments, contact, output).await,
        AgentCommand::List => list(contact, output).await,
        AgentCommand::Show { name } => show(name, contact, output).await,
        AgentCommand::Rotate { name, show_token } => {
            rotate(name, *show_token, contact, output).await
        }
        AgentCommand::Release { name, reason } => {
            release(name, reason.as_deref(), contact, output).await
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Registered<'a> {
    agent: &'a AgentIdentity,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_file: Option<&'a Path>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
}

async fn register(arguments: &RegisterArguments, contact: &Contact, output: &Output) -> Outcome {
    // First of all, so that no agent is made whose token nobody could keep.
    let tokens = contact.agent_tokens().await?;
    let mut registering = contact.relay.register(&arguments.name);
    if let Some(agent_type) = arguments.agent_type {
        registering = registering.agent_type(agent_type);
    }
    if let Some(metadata) = &arguments.metadata {
        registering = registering.metadata(metadata.clone());
    }
    if arguments.adopt {
        registering = registering.adopt();
    }
    let agent = registering.await?;
    let (identity, token) = (agent.identity(), agent.token());
    let file = match arguments.no_keep {
        true => None,
        false => Some(tokens.keep(&identity.name, token)?),
    };
    let shown = arguments.show_token || arguments.no_keep;
    let registered = Registered {
        agent: identity,
        token_file: file.as_deref(),
        token: shown.then_some(token),
    };
    output.show(&registered, |style| {
        let mut lines = vec![format!("registered {}", style.strong(&identity.handle))];
        lines.extend(credential(style, file.as_deref(), registered.token));
        if !shown {
            let name = &identity.name;
            let inbox = hints::command(&format!("inbox --as {name}"));
            lines.push(format!("act as it with --as {name}: {inbox}"));
        }
        lines.join("\n")
    })
}

/// The token where it is shown, and where it is kept.
fn credential(style: &Style, file: Option<&Path>, token: Option<&str>) -> Option<String> {
    let token = token.map(|token| ("token", token.to_owned()));
    let file = file.map(|file| ("kept in", file.display().to_string()));
    let known: Vec<_> = token.into_iter().chain(file).collect();
    (!known.is_empty()).then(|| fields(style, &known))
}

async fn list(contact: &Contact, output: &Output) -> Outcome {
    let all = all_pages(async |cursor| contact.relay.agents(cursor).await).await?;
    output.show(&all, |style| {
        let mut table = Table::new(&["agent", "type", "status", "since", "id"]);
        for agent in &all.items {
            let (status, since) = presence(&agent.presence);
            table.row([
                style.strong(&agent.handle),
                agent.agent_type.to_string(),
                status,
                since,
                style.faint(&agent.id.to_string()),
            ]);
        }
        let register = hints::command("agent register NAME");
        table.text(style, &format!("no agents yet; `{register}` makes one"))
    })
}

/// What an agent is doing, and since when.
fn presence(presence: &AgentPresence) -> (String, String) {
    match presence.since {
        Some(since) => (presence.status.to_string(), ago(since)),
        None => ("-".to_owned(), "-".to_owned()),
    }
}

#[derive(Serialize)]
struct Shown {
    agent: AgentIdentity,
    sessions: Vec<SessionSummary>,
}

async fn show(name: &str, contact: &Contact, output: &Output) -> Outcome {
    let agent = contact.relay.agent(name).await?;
    let sessions = contact.relay.sessions(Some(&agent.name), None).await?;
    let shown = Shown {
        agent,
        sessions: sessions.items,
    };
    output.show(&shown, |style| {
        let Shown { agent, sessions } = &shown;
        let mut known = vec![
            ("agent", style.strong(&agent.handle)),
            ("type", agent.agent_type.to_string()),
            ("id", agent.id.to_string()),
        ];
        if let Some(metadata) = &agent.metadata {
            let metadata = serde_json::to_string(metadata).unwrap_or_default();
            known.push(("metadata", safe(&metadata)));
        }
        let live = sessions.iter().filter(|session| session.ended_at.is_none());
        let live: Vec<String> = live
            .map(|session| {
                let current = if session.current { ", current" } else { "" };
                let SessionSummary {
                    session_id,
                    status,
                    harness,
                    ..
                } = session;
                format!("{session_id}  {status}{current}, {}", safe(harness))
            })
            .collect();
        match live.is_empty() {
            true => known.push(("sessions", "none; messages wait in its inbox".to_owned())),
            false => known.extend(live.into_iter().map(|session| ("session", session))),
        }
        fields(style, &known)
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Rotated<'a> {
    agent: &'a str,
    grace_until: Timestamp,
    token_file: &'a Path,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
}

async fn rotate(name: &str, show_token: bool, contact: &Contact, output: &Output) -> Outcome {
    let tokens = contact.agent_tokens().await?;
    let agent = contact.relay.agent(name).await?;
    let new = contact.relay.rotate_token(&agent.name).await?;
    let file = tokens.keep(&agent.name, &new.token)?;
    let rotated = Rotated {
        agent: &agent.name,
        grace_until: new.grace_until,
        token_file: &file,
        token: show_token.then_some(&new.token),
    };
    output.show(&rotated, |style| {
        let mut lines = vec![format!(
            "{} has a new token; the old one works until {}",
            style.strong(&agent.handle),
            new.grace_until
        )];
        lines.extend(credential(style, Some(&file), rotated.token));
        lines.join("\n")
    })
}

#[derive(Serialize)]
struct Released<'a> {
    released: &'a str,
}

async fn release(name: &str, reason: Option<&str>, contact: &Contact, output: &Output) -> Outcome {
    let agent = contact.relay.agent(name).await?;
    contact.relay.release_agent(&agent.name, reason).await?;
    contact.agent_tokens().await?.forget(&agent.name)?;
    let released = Released {
        released: &agent.name,
    };
    output.show(&released, |style| {
        format!(
            "released {}: its sessions end, and what waited for it has failed",
            style.strong(&agent.handle)
        )
    })
}
