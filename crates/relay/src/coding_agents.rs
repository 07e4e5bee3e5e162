//! Coding agents that speak the Agent Client Protocol, as commands find and start them: which there are, with which
//! environment they run, and where.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use relay_harness::acp::catalogue::{AgentDefinition, Catalogue};
use relay_harness::acp::host::OnWarning;
use relay_harness::child::{ChildEnvironment, Withheld};

use crate::commands::serve::{self, StartArguments};
use crate::config::Layers;
use crate::contact::GlobalArguments;
use crate::data::DataDirectory;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, safe};

/// Where agents of one's own are found.
#[derive(Args, Clone, Debug)]
pub(crate) struct ConfigArgument {
    /// A configuration file with agents of your own [default: relay.toml in the data directory, if it is there]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// How an agent is started.
#[derive(Args, Clone, Debug)]
pub(crate) struct StartAgent {
    /// Where it works [default: the current directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// A variable that it gets beside the usual ones; any number of them
    #[arg(long = "env", value_name = "NAME")]
    pub(crate) variables: Vec<String>,
    #[command(flatten)]
    pub(crate) config: ConfigArgument,
}

impl ConfigArgument {
    /// The agents that can be started by name.
    pub(crate) fn catalogue(&self, globals: &GlobalArguments) -> Outcome<Catalogue> {
        let start = StartArguments {
            config: self.config.clone(),
            ..StartArguments::default()
        };
        // Without a place for data there is no file in it either.
        let Ok(data) = DataDirectory::locate(globals.data.as_deref()) else {
            return Ok(Catalogue::built_in());
        };
        let (settings, _) = serve::layered(Layers::defaults()?, &start, &data)?.finish()?;
        Ok(settings.agents)
    }

    /// The agent of this name.
    pub(crate) fn find(&self, id: &str, globals: &GlobalArguments) -> Outcome<AgentDefinition> {
        Ok(self.catalogue(globals)?.get(id)?.clone())
    }
}

impl StartAgent {
    /// Where the agent works: a directory that is there.
    pub(crate) fn directory(&self) -> Outcome<PathBuf> {
        directory(self.cwd.as_deref().unwrap_or(Path::new(".")))
    }

    /// The environment of an agent. What was asked for by name and kept back is told.
    pub(crate) fn environment(&self, agent: &AgentDefinition, output: &Output) -> ChildEnvironment {
        let environment = environment(agent, &self.variables);
        for withheld in environment.withheld() {
            let (name, why) = match withheld {
                Withheld::Credential(name) => (name, "it holds a credential of Relay"),
                Withheld::Own(name) => (name, "it is Relay's own"),
                Withheld::Malformed(name) => (name, "it can't be a variable"),
            };
            if self.variables.contains(name) {
                output.note(&format!("the agent does not get {}: {why}", safe(name)));
            }
        }
        environment
    }
}

/// The environment of an agent: what every program may know, what the catalogue names, and these.
pub(crate) fn environment(agent: &AgentDefinition, more: &[String]) -> ChildEnvironment {
    let names: Vec<&String> = agent.env_names.iter().chain(more).collect();
    ChildEnvironment::for_agent(std::env::vars_os(), &names, [("", ""); 0])
}

/// A directory that is there, with its whole path.
pub(crate) fn directory(path: &Path) -> Outcome<PathBuf> {
    let whole = path.canonicalize().ok().filter(|path| path.is_dir());
    whole.ok_or_else(|| {
        Failure::usage(format!(
            "expected a directory, found nothing of that kind at {}",
            path.display()
        ))
    })
}

/// Tells warnings beside the result.
pub(crate) fn tell_warnings(output: &Output) -> OnWarning {
    let output = output.clone();
    Arc::new(move |warning| output.note(&safe(warning)))
}
