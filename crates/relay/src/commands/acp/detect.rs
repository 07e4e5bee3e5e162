//! `relay acp detect`: which agents can be used now. A program that is there says nothing: each is started, asked who it is,
//! and asked for a session. Some agents open one although nobody has signed in, and only a question to their model would show it; so
//! "ready" does not say more than that it starts.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use futures_util::{StreamExt as _, stream};
use relay_harness::acp::catalogue::{AgentDefinition, Catalogue, locate};
use relay_harness::acp::host::{HostError, HostOptions, Probe, probe};
use serde::Serialize;

use crate::coding_agents::{ConfigArgument, environment};
use crate::contact::GlobalArguments;
use crate::failure::{Failure, Outcome};
use crate::moment::{parse_duration, span};
use crate::output::{Output, Style, Table, one_line};
use crate::words::counted;

pub(super) const EXAMPLES: &str = "\
Examples:
  relay acp detect
  relay acp detect claude codex
  relay acp detect --timeout 1m --json

Each agent that is found in the PATH is started in an empty directory, asked for a session, and stopped. Whether \
somebody has signed in shows only where an agent opens none without. Exit code 0 also when none is ready.";

/// How many agents are asked at a time: each is a program of its own that wants a core.
const AT_ONCE: usize = 3;

#[derive(Args)]
pub(crate) struct DetectArguments {
    /// Only these agents
    agents: Vec<String>,
    /// How long each may take
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    timeout: Duration,
    #[command(flatten)]
    config: ConfigArgument,
}

/// How an agent stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    Ready,
    NeedsSignIn,
    NotInstalled,
    Failed,
}

/// What is known of the sign-in.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum SignIn {
    /// It was not looked at: that takes a question to the model.
    NotChecked,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Detected {
    id: String,
    title: String,
    state: State,
    /// What is known of the sign-in of one that is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    sign_in: Option<SignIn>,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// What is wrong, where something is.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    took_ms: u64,
}

#[derive(Serialize)]
struct Items {
    items: Vec<Detected>,
}

pub(super) async fn run(
    arguments: &DetectArguments,
    globals: &GlobalArguments,
    output: &Output,
) -> Outcome {
    let catalogue = arguments.config.catalogue(globals)?;
    let agents = chosen(&catalogue, &arguments.agents)?;
    let asked = counted(agents.len() as u64, "agent", "agents");
    output.hint(&format!("asking {asked}…"));
    let detecting = agents
        .into_iter()
        .map(|agent| detect(agent, arguments.timeout));
    let items = stream::iter(detecting).buffered(AT_ONCE).collect().await;
    let found = Items { items };
    output.show(&found, |style| {
        let mut table = Table::new(&["agent", "state", "version", "what to do"]);
        for agent in &found.items {
            table.row([
                style.strong(&agent.id),
                state(style, agent.state),
                agent.version.as_deref().map_or("-".to_owned(), one_line),
                what_to_do(agent),
            ]);
        }
        table.text(style, "no agents")
    })
}

fn chosen(catalogue: &Catalogue, ids: &[String]) -> Outcome<Vec<AgentDefinition>> {
    if ids.is_empty() {
        return Ok(catalogue.agents().to_vec());
    }
    let chosen = ids.iter().map(|id| catalogue.get(id).cloned());
    chosen
        .map(|agent| agent.map_err(Failure::from))
        .collect::<Outcome<Vec<_>>>()
}

async fn detect(agent: AgentDefinition, timeout: Duration) -> Detected {
    let began = Instant::now();
    let environment = environment(&agent, &[]);
    let path = environment.get("PATH").unwrap_or_default();
    let program = locate(&agent.command, path);
    let mut detected = Detected {
        id: agent.id.clone(),
        title: agent.title.clone(),
        state: State::NotInstalled,
        sign_in: None,
        version: None,
        detail: None,
        next: said(&agent.install),
        program: program.clone(),
        took_ms: 0,
    };
    if program.is_some() {
        let asking = tokio::time::timeout(timeout, ask(agent.clone(), environment));
        match asking.await {
            Ok(found) => detected.take(&agent, found),
            Err(_) => detected.fail(&format!("it did not answer within {}", for_people(timeout))),
        }
    }
    detected.took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    detected
}

async fn ask(
    agent: AgentDefinition,
    environment: relay_harness::child::ChildEnvironment,
) -> Result<Probe, HostError> {
    let nowhere = tempfile::tempdir();
    let nowhere = nowhere.map_err(|error| HostError::Invalid(error.to_string()))?;
    let options = HostOptions::default();
    let cwd = nowhere.path().to_owned();
    probe(agent, environment, cwd, options, true).await
}

impl Detected {
    fn take(&mut self, agent: &AgentDefinition, found: Result<Probe, HostError>) {
        let probe = match found {
            Ok(probe) => probe,
            Err(error) => return self.refused(&error),
        };
        self.version = probe.handshake.agent.version;
        let name = probe.handshake.agent.name;
        if let (Some(expected), Some(name)) = (&agent.says, &name)
            && expected != name
        {
            // Another agent has a program of the same name.
            self.detail = Some(format!("what is there calls itself {}", one_line(name)));
            self.version = None;
            return;
        }
        match probe.session {
            Some(Err(error)) => self.refused(&error),
            _ => {
                self.state = State::Ready;
                self.sign_in = Some(SignIn::NotChecked);
                self.next = None;
            }
        }
    }

    fn refused(&mut self, error: &HostError) {
        let failure = Failure::from(error.clone());
        match error {
            HostError::AuthRequired { sign_in, .. } => {
                self.state = State::NeedsSignIn;
                self.detail = Some(failure.message().to_owned());
                self.next = said(sign_in);
            }
            HostError::NotInstalled { .. } => self.detail = Some(failure.message().to_owned()),
            _ => self.fail(failure.message()),
        }
    }

    fn fail(&mut self, why: &str) {
        self.state = State::Failed;
        self.detail = Some(why.to_owned());
        self.next = None;
    }
}

fn said(hint: &str) -> Option<String> {
    (!hint.is_empty()).then(|| hint.to_owned())
}

fn for_people(duration: Duration) -> String {
    span(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
}

fn state(style: &Style, state: State) -> String {
    match state {
        State::Ready => style.good("ready, sign-in not checked"),
        State::NeedsSignIn => style.open("needs a sign-in"),
        State::NotInstalled => style.faint("not installed"),
        State::Failed => style.bad("failed"),
    }
}

fn what_to_do(agent: &Detected) -> String {
    let told = match (agent.state, &agent.next, &agent.detail) {
        (State::Ready, ..) => "",
        (_, Some(next), _) => next,
        (_, None, Some(detail)) => detail,
        (_, None, None) => "",
    };
    one_line(told)
}
