//! `relay run`: a coding agent on the relay, with its user beside it.
//!
//! `claim.rs` says as whom it runs, `body.rs` starts it and puts it on the relay, `desk.rs` collects what happens, `view.rs` shows
//! it. This file has what is asked for, and the life of the agent: it goes on until somebody ends it, and a dead one is started again.

mod body;
mod claim;
mod desk;
mod life;
mod screen;
mod step;
mod view;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use relay_harness::acp::catalogue::{AgentDefinition, locate};
use relay_harness::acp::host::HostError;
use relay_harness::child::{ChildEnvironment, RestartPolicy};

use self::body::Plan;
use self::claim::Claim;
use self::life::Life;
use crate::coding_agents::{StartAgent, directory};
use crate::contact::{Actor, Contact, GlobalArguments, with_server};
use crate::failure::{Failure, Outcome};
use crate::hints;
use crate::output::Output;
use crate::platform::StopSignal;

pub(crate) const EXAMPLES: &str = "\
Examples:
  relay run claude                                    as @claude, here
  relay run codex --as reviewer --cwd ~/site 'Review the last commit'
  relay run claude --load 6f1c…                       go on with a conversation of before
  relay run gemini --interrupt                        messages may cancel a turn, where the agent has no other way
  relay run claude --json < prompts.txt               one event a line
  relay run my-agent -- --verbose                     more arguments for the agent

What you type is a prompt. Messages of others come by themselves: into the turn that runs, or as the next one. What the agent may not do by \
itself is asked here and wherever else somebody decides: the first answer counts. Ctrl-C cancels the turn; Ctrl-D, or Ctrl-C \
when nothing runs, ends the agent.";

#[derive(Args)]
pub(crate) struct RunArguments {
    /// The agent: one of `relay acp agents`
    agent: Option<String>,
    /// What to ask it first
    prompt: Option<String>,
    /// The agent's mode [default: the one in which it asks before it acts, where that is known]
    #[arg(long)]
    mode: Option<String>,
    /// The model, as the agent calls it
    #[arg(long)]
    model: Option<String>,
    /// Go on with a session that the agent has stored
    #[arg(long, value_name = "SESSION", visible_alias = "resume")]
    load: Option<String>,
    /// A directory that it may read beside its own; any number of them
    #[arg(long = "add-dir", value_name = "DIR")]
    add_dirs: Vec<PathBuf>,
    /// Let urgent messages cancel a turn, where the agent takes them no other way
    #[arg(long)]
    interrupt: bool,
    /// Whether an agent that ends by itself is started again
    #[arg(long, value_name = "POLICY", default_value = "on-failure")]
    restart: Restart,
    #[command(flatten)]
    start: StartAgent,
    /// More arguments for the agent
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<String>,
}

/// Whether an agent that ends by itself is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Restart {
    // No comments for users here: with them clap would show the long form of every help.
    Never,
    OnFailure,
    Always,
}

impl Restart {
    const fn policy(self) -> RestartPolicy {
        match self {
            Self::Never => RestartPolicy::NEVER,
            Self::OnFailure => RestartPolicy::STANDARD,
            Self::Always => RestartPolicy {
                attempts: u32::MAX,
                ..RestartPolicy::STANDARD
            },
        }
    }
}

pub(crate) fn run(arguments: &RunArguments, globals: &GlobalArguments, output: &Output) -> Outcome {
    let agent = arguments.agent(globals)?;
    let environment = arguments.start.environment(&agent, output);
    // Before anything is done under the agent's name.
    installed(&agent, &environment)?;
    with_server(globals, Actor::Workspace, async |contact| {
        let plan = arguments.plan(agent, environment, contact)?;
        let stop = StopSignal::listen()?;
        let wanted = globals.as_agent.as_deref();
        let claim = Claim::make(contact, wanted, &plan.agent.id).await?;
        let mut life = Life::new(&plan, &claim, contact, output, stop).await?;
        let restart = arguments.restart.policy();
        let first = arguments.prompt.clone();
        life.lead(restart, arguments.load.clone(), first).await
    })
}

impl RunArguments {
    fn agent(&self, globals: &GlobalArguments) -> Outcome<AgentDefinition> {
        let Some(id) = &self.agent else {
            let list = hints::command("acp agents");
            let message = match self.args.is_empty() {
                true => "expected an agent to run, found none",
                false => {
                    "expected an agent that speaks ACP before `--`; other programs can't be run on the relay yet"
                }
            };
            return Err(Failure::usage(message).next(format!("`{list}` shows which there are")));
        };
        let mut agent = self.start.config.find(id, globals)?;
        agent.args.extend(self.args.iter().cloned());
        Ok(agent)
    }

    fn plan(
        &self,
        agent: AgentDefinition,
        environment: ChildEnvironment,
        contact: &Contact,
    ) -> Outcome<Plan> {
        let add_dirs = self.add_dirs.iter().map(|path| directory(path));
        Ok(Plan {
            agent,
            environment,
            cwd: self.start.directory()?,
            add_dirs: add_dirs.collect::<Outcome<_>>()?,
            mode: self.mode.clone(),
            model: self.model.clone(),
            may_interrupt: self.interrupt,
            url: contact.url().to_owned(),
        })
    }
}

fn installed(agent: &AgentDefinition, environment: &ChildEnvironment) -> Outcome {
    let path = environment.get("PATH").unwrap_or_default();
    match locate(&agent.command, path) {
        Some(_) => Ok(()),
        None => Err(HostError::NotInstalled {
            agent: agent.id.clone(),
            program: agent.command.clone(),
            install: agent.install.clone(),
        }
        .into()),
    }
}
