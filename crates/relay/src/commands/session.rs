//! `relay session`: the live bodies of agents.

use clap::{Args, Subcommand};
use relay_protocol::api::Page;
use relay_protocol::ids::SessionId;
use relay_protocol::session::SessionSummary;
use relay_protocol::status::AgentStatus;

use crate::contact::Contact;
use crate::failure::Outcome;
use crate::literal;
use crate::moment::ago;
use crate::output::{Output, Style, Table, fields, one_line};

#[derive(Subcommand)]
pub(crate) enum SessionCommand {
    /// List sessions, newest first
    #[command(
        after_help = "Examples:\n  relay session list\n  relay session list --agent ada --all"
    )]
    List(ListArguments),
    /// Show a session and what it can do
    #[command(after_help = "Example:\n  relay session show 01a1e393-b029-7db0-bef2-676dc047b5be")]
    Show {
        /// The session
        #[arg(value_parser = literal::id::<SessionId>)]
        session: SessionId,
    },
    /// End a session
    #[command(
        after_help = "Example:\n  relay session release 01a1e393-b029-7db0-bef2-676dc047b5be --reason 'done'"
    )]
    Release(LifecycleArguments),
    /// Hold a session, if it can be; its messages wait
    #[command(after_help = "Example:\n  relay session pause 01a1e393-b029-7db0-bef2-676dc047b5be")]
    Pause(LifecycleArguments),
    /// Let a paused session go on
    #[command(after_help = "Example:\n  relay session resume 01a1e393-b029-7db0-bef2-676dc047b5be")]
    Resume(LifecycleArguments),
    /// Make a second session from one, if it can be
    #[command(
        after_help = "Example:\n  relay session fork 01a1e393-b029-7db0-bef2-676dc047b5be --into ada2"
    )]
    Fork {
        /// The session
        #[arg(value_parser = literal::id::<SessionId>)]
        session: SessionId,
        /// A new agent that the fork becomes [default: the same agent]
        #[arg(long, value_name = "AGENT")]
        into: Option<String>,
    },
}

#[derive(Args)]
pub(crate) struct ListArguments {
    /// Only those of this agent
    #[arg(long)]
    agent: Option<String>,
    /// Those that have ended, too, a page at a time
    #[arg(long)]
    all: bool,
    /// With --all: where to go on, as the page before said
    #[arg(long, requires = "all")]
    cursor: Option<String>,
}

#[derive(Args)]
pub(crate) struct LifecycleArguments {
    /// The session
    #[arg(value_parser = literal::id::<SessionId>)]
    session: SessionId,
    /// Why
    #[arg(long)]
    reason: Option<String>,
}

pub(crate) async fn run(command: &SessionCommand, contact: &Contact, output: &Output) -> Outcome {
    let relay = &contact.relay;
    let (done, session) = match command {
        SessionCommand::List(arguments) => return list(arguments, contact, output).await,
        SessionCommand::Fork { session, into } => {
            return fork(*session, into.as_deref(), contact, output).await;
        }
        SessionCommand::Show { session } => {
            let session = relay.session(*session).await?;
            return output.show(&session, |style| details(style, &session));
        }
        SessionCommand::Release(LifecycleArguments { session, reason }) => (
            "released",
            relay.release_session(*session, reason.as_deref()).await?,
        ),
        SessionCommand::Pause(LifecycleArguments { session, reason }) => (
            "paused",
            relay.pause_session(*session, reason.as_deref()).await?,
        ),
        SessionCommand::Resume(LifecycleArguments { session, reason }) => (
            "resumed",
            relay.resume_session(*session, reason.as_deref()).await?,
        ),
    };
    output.show(&session, |style| {
        let SessionSummary {
            session_id,
            agent,
            status,
            ..
        } = &session;
        format!(
            "{done} {session_id} of {}, now {}",
            agent.handle,
            colored(style, *status)
        )
    })
}

async fn list(arguments: &ListArguments, contact: &Contact, output: &Output) -> Outcome {
    let agent = arguments.agent.as_deref();
    let page = match arguments.all {
        true => {
            contact
                .relay
                .sessions(agent, arguments.cursor.as_deref())
                .await?
        }
        false => live(agent, contact).await?,
    };
    output.show(&page, |style| {
        let mut table = Table::new(&["session", "agent", "status", "link", "harness", "since"]);
        for session in &page.items {
            let current = if session.current { " *" } else { "" };
            table.row([
                session.session_id.to_string(),
                style.strong(&session.agent.handle),
                format!("{}{current}", colored(style, session.status)),
                session.link.to_string(),
                one_line(&session.harness),
                ago(session.created_at),
            ]);
        }
        let mut text = table.text(style, "no sessions; messages wait in the agents' inboxes");
        if page.items.iter().any(|session| session.current) {
            text.push_str(&style.faint("\n* gets the agent's messages"));
        }
        if let Some(cursor) = &page.next_cursor {
            text.push_str(&style.faint(&format!("\nmore: --cursor {cursor}")));
        }
        text
    })
}

/// All sessions that have not ended.
async fn live(agent: Option<&str>, contact: &Contact) -> Outcome<Page<SessionSummary>> {
    let mut items = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = contact.relay.sessions(agent, cursor.as_deref()).await?;
        items.extend(
            page.items
                .into_iter()
                .filter(|session| session.ended_at.is_none()),
        );
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    Ok(Page {
        items,
        next_cursor: None,
    })
}

fn colored(style: &Style, status: AgentStatus) -> String {
    let word = status.as_str();
    match status {
        AgentStatus::Idle | AgentStatus::Active => style.good(word),
        AgentStatus::Failed | AgentStatus::Blocked => style.bad(word),
        AgentStatus::Released => style.faint(word),
        _ => style.open(word),
    }
}

fn details(style: &Style, session: &SessionSummary) -> String {
    let can = &session.capabilities;
    let modes: Vec<&str> = can
        .delivery
        .modes
        .iter()
        .map(|mode| mode.as_str())
        .collect();
    let lifecycle = &can.lifecycle;
    let abilities = [
        ("pause", lifecycle.pause),
        ("resume", lifecycle.resume),
        ("fork", lifecycle.fork),
        ("snapshot", lifecycle.snapshot),
        ("queue for itself", can.delivery.queue),
        ("send", can.messaging.send),
    ];
    let abilities = abilities.iter().filter(|(_, able)| *able == Some(true));
    let abilities: Vec<&str> = abilities.map(|(name, _)| *name).collect();
    let mut known = vec![
        ("session", session.session_id.to_string()),
        ("agent", style.strong(&session.agent.handle)),
        ("status", colored(style, session.status)),
        ("harness", one_line(&session.harness)),
        ("link", session.link.to_string()),
        ("modes", modes.join(", ")),
        ("can", abilities.join(", ")),
        ("since", ago(session.created_at)),
    ];
    if let Some(reason) = &session.reason {
        known.push(("reason", one_line(reason)));
    }
    if let Some(at) = session.last_seen_at {
        known.push(("last seen", ago(at)));
    }
    if let Some(at) = session.ended_at {
        known.push(("ended", ago(at)));
    }
    let current = if session.current { "yes" } else { "no" };
    known.push(("current", current.to_owned()));
    fields(style, &known)
}

async fn fork(
    session: SessionId,
    into: Option<&str>,
    contact: &Contact,
    output: &Output,
) -> Outcome {
    let fork = contact.relay.fork_session(session, into).await?;
    output.show(&fork, |style| {
        format!(
            "forked {session} into {} of {}",
            fork.session_id,
            style.strong(&fork.agent.handle)
        )
    })
}
