//! How a command finds a server, and as whom it acts there.
//!
//! The server is the one of `RELAY_URL`, or the one that runs over the data directory (`local_server.rs`). The
//! credential is, in this order: the kept token of the agent of `--as`, `RELAY_TOKEN`, the workspace key in
//! `credentials.json`. What changes the workspace itself is done with the workspace key, whoever `--as` is.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser as _};
use relay_protocol::ids::WorkspaceId;
use relay_protocol::names;
use relay_sdk::{ErrorCode, Options, Relay};

use crate::agent_tokens::{AgentTokens, is_same_url};
use crate::data::DataDirectory;
use crate::failure::{Exit, Failure, Outcome};
use crate::hints;
use crate::local_server::LocalServer;
use crate::output::ColorChoice;

/// How long a command that has reached the server goes on trying when the connection breaks.
const PATIENCE: Duration = Duration::from_secs(30);

/// What every command can be told.
#[derive(Args, Clone, Debug)]
pub(crate) struct GlobalArguments {
    /// Where the data is kept, and the credentials are found [default: ~/.local/share/relay]
    #[arg(
        long,
        value_name = "DIR",
        env = "RELAY_DATA",
        value_parser = OsStringValueParser::new().map(PathBuf::from),
        global = true,
        help_heading = "Everywhere"
    )]
    pub(crate) data: Option<PathBuf>,
    /// Whether the directory comes from the command itself and not from the environment.
    #[arg(skip)]
    pub(crate) data_is_flag: bool,
    /// Act as this agent, whose token `relay agent register` has kept
    #[arg(
        long = "as",
        value_name = "AGENT",
        env = "RELAY_AS",
        global = true,
        help_heading = "Everywhere"
    )]
    pub(crate) as_agent: Option<String>,
    /// Print JSON for programs; errors, too
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) json: bool,
    /// When to use colour; by default on a terminal, unless NO_COLOR is set
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        global = true,
        help_heading = "Everywhere"
    )]
    pub(crate) color: ColorChoice,
}

/// As whom a command acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Actor {
    /// The agent of `--as`, or whoever the credential belongs to.
    Chosen,
    /// The workspace, whoever `--as` is.
    Workspace,
}

/// A server that was found, and a credential for it. Whether it answers is not known yet.
pub(crate) struct Contact {
    /// Asks once. Whoever types a command wants to know at once that nobody answers.
    pub(crate) relay: Relay,
    url: String,
    token: String,
    credential: Credential,
    asked: Option<PathBuf>,
    workspace: Option<WorkspaceId>,
}

/// Where the credential came from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Credential {
    File(PathBuf),
    Variable,
    Kept(String),
}

/// Runs a command that asks a server.
pub(crate) fn with_server(
    globals: &GlobalArguments,
    actor: Actor,
    work: impl AsyncFnOnce(&Contact) -> Outcome,
) -> Outcome {
    in_runtime(async {
        let contact = Contact::find(globals, actor).await?;
        let done = Box::pin(work(&contact)).await;
        done.map_err(|failure| contact.explain(failure))
    })
}

/// Runs a command that waits for something.
pub(crate) fn in_runtime(work: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Failed, "failed", error.to_string()))?;
    runtime.block_on(work)
}

impl Contact {
    /// Finds the server and the credential.
    pub(crate) async fn find(globals: &GlobalArguments, actor: Actor) -> Outcome<Self> {
        let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        if let (Some(url), None, Some(agent), Actor::Chosen) = (
            variable("RELAY_URL"),
            variable("RELAY_TOKEN"),
            &globals.as_agent,
            actor,
        ) {
            return Self::with_kept_token(globals, url, agent).await;
        }
        let contact = Self::of_workspace(globals).await?;
        match (&globals.as_agent, actor) {
            (Some(agent), Actor::Chosen) => contact.acting_as(agent).await,
            _ => Ok(contact),
        }
    }

    /// The server of `RELAY_URL`, as an agent whose token for that server is kept.
    async fn with_kept_token(globals: &GlobalArguments, url: String, agent: &str) -> Outcome<Self> {
        check_same_server(globals, &url).await?;
        let agent = agent.trim_start_matches('@');
        let data = DataDirectory::locate(globals.data.as_deref())?;
        // The server of the data directory has moved since its tokens were kept; its workspace has not.
        let local = match LocalServer::find(&data).await? {
            LocalServer::Running {
                url: local,
                credentials,
                ..
            } if is_same_url(&local, &url) => Some(credentials.workspace_id),
            _ => None,
        };
        let kept = match local {
            Some(workspace) => AgentTokens::of(&data, workspace).find(agent)?,
            None => AgentTokens::find_at(&data, &url, agent)?,
        };
        let Some(token) = kept else {
            let message = format!(
                "expected a token of @{agent} for the server at {url} in {}, found none",
                data.agents().display()
            );
            return Err(Failure::new(Exit::Refused, "no_token", message).next(
                "set RELAY_TOKEN to its token, or to the workspace key of that server and register it from here",
            ));
        };
        Ok(Self {
            relay: Relay::with_options(&url, &token, impatient())?,
            url,
            token,
            credential: Credential::Kept(agent.to_owned()),
            asked: globals.data.clone(),
            workspace: local,
        })
    }

    async fn of_workspace(globals: &GlobalArguments) -> Outcome<Self> {
        let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        let (url, token, credential, workspace) = match (
            variable("RELAY_URL"),
            variable("RELAY_TOKEN"),
        ) {
            (Some(url), Some(token)) => {
                check_same_server(globals, &url).await?;
                (url, token, Credential::Variable, None)
            }
            (Some(_), None) => {
                return Err(Failure::usage("RELAY_URL is set and RELAY_TOKEN is not").next(
                        "set RELAY_TOKEN to a key or token of that server, or say --as NAME to act as an agent whose \
                         token for it is kept",
                    ));
            }
            (None, token) => {
                let data = DataDirectory::locate(globals.data.as_deref())?;
                let (url, found) = LocalServer::find(&data).await?.running(&data)?;
                match token {
                    Some(token) => (url, token, Credential::Variable, None),
                    None => {
                        let workspace = Some(found.workspace_id);
                        let file = Credential::File(data.credentials());
                        (url, found.workspace_key, file, workspace)
                    }
                }
            }
        };
        let relay = Relay::with_options(&url, &token, impatient())?;
        Ok(Self {
            relay,
            url,
            token,
            credential,
            asked: globals.data.clone(),
            workspace,
        })
    }

    /// Where tokens are kept. Whoever brings an address and a credential need not have such a place.
    fn data(&self) -> Outcome<DataDirectory> {
        Ok(DataDirectory::locate(self.asked.as_deref())?)
    }

    /// The same server, as an agent whose token is kept.
    async fn acting_as(mut self, agent: &str) -> Outcome<Self> {
        let agent = agent.trim_start_matches('@');
        if self.workspace.is_none() {
            let me = self
                .relay
                .me()
                .await
                .map_err(|error| self.explain(error.into()))?;
            let is_agent = me.agent.as_ref().map(|me| names::fold(&me.name));
            if is_agent == Some(names::fold(agent)) {
                return Ok(self);
            }
            self.workspace = me.workspace.map(|workspace| workspace.workspace_id);
        }
        let kept = match self.workspace {
            Some(workspace) => AgentTokens::of(&self.data()?, workspace).find(agent)?,
            None => None,
        };
        let Some(token) = kept else {
            return Err(self.no_token(agent).await);
        };
        self.relay = Relay::with_options(&self.url, &token, impatient())?;
        self.token = token;
        self.credential = Credential::Kept(agent.to_owned());
        Ok(self)
    }

    /// Why nobody can act as this agent from here.
    pub(crate) async fn no_token(&self, agent: &str) -> Failure {
        if let Err(error) = self.relay.agent(agent).await {
            let failure = self.explain(error.into());
            return match failure.server_code() {
                Some(ErrorCode::UnknownAgent) => {
                    let register = hints::command(&format!("agent register {agent}"));
                    failure.next(format!("`{register}` makes it"))
                }
                _ => failure,
            };
        }
        let place = match self.data() {
            Ok(data) => data.agents().display().to_string(),
            Err(failure) => return failure,
        };
        let message = format!("expected a token of @{agent} in {place}, found none");
        let adopt = hints::command(&format!("agent register {agent} --adopt"));
        Failure::new(Exit::Refused, "no_token", message).next(format!(
            "set RELAY_TOKEN to its token, or take it over with `{adopt}`, which ends the old token within a minute"
        ))
    }

    /// The same as whom it is, but for whoever wants to stay: it comes back when the server does.
    pub(crate) fn patient(&self) -> Outcome<Relay> {
        let options = Options {
            patience: PATIENCE,
            ..Options::default()
        };
        Ok(Relay::with_options(&self.url, &self.token, options)?)
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Whether the credential is the workspace key of the data directory.
    pub(crate) const fn is_of_data(&self) -> bool {
        matches!(self.credential, Credential::File(_))
    }

    /// The credential itself, for whoever asked to see it.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// The tokens that are kept for the agents of this workspace.
    pub(crate) async fn agent_tokens(&self) -> Outcome<AgentTokens> {
        let elsewhere = std::env::var_os("RELAY_URL").is_some_and(|url| !url.is_empty());
        let tokens = AgentTokens::of(&self.data()?, self.workspace_id().await?);
        Ok(tokens.of_server(elsewhere.then_some(self.url.as_str())))
    }

    /// Where agents of this workspace that run here leave what they need the next time; and where all of the data is.
    pub(crate) async fn runs(&self) -> Outcome<(PathBuf, PathBuf)> {
        let data = self.data()?;
        let workspace = self.workspace_id().await?.to_string();
        Ok((data.runs().join(workspace), data.path().to_owned()))
    }

    async fn workspace_id(&self) -> Outcome<WorkspaceId> {
        if let Some(workspace) = self.workspace {
            return Ok(workspace);
        }
        match self.relay.me().await?.workspace {
            Some(workspace) => Ok(workspace.workspace_id),
            None => Ok(self.relay.workspace().await?.workspace_id),
        }
    }

    /// Says about a failure what only this place knows: where the server should be, which credential it was.
    pub(crate) fn explain(&self, failure: Failure) -> Failure {
        let url = &self.url;
        if failure.exit() == Exit::ServerAway {
            let what = match failure.code() {
                "not_relay" => format!("what answers at {url} is not Relay"),
                _ => format!("no server answers at {url}"),
            };
            let why = failure.message().to_owned();
            return failure
                .saying(format!("{what}: {why}"))
                .next(self.how_to_start());
        }
        if failure.server_code() != Some(ErrorCode::Unauthorized) {
            return failure;
        }
        match &self.credential {
            Credential::File(path) => failure
                .saying(format!("the server at {url} does not know the key in {}", path.display()))
                .next(format!(
                    "is another server running at that address? Start the one of this data with `{}`",
                    hints::command("up")
                )),
            Credential::Variable => failure
                .saying(format!(
                    "the server at {url} does not take the token in RELAY_TOKEN: it was revoked, has expired, or \
                     belongs to another server"
                ))
                .next("set RELAY_TOKEN to one that is valid, or unset it to use the workspace key"),
            Credential::Kept(agent) => failure
                .saying(format!(
                    "the server at {url} no longer takes the token that is kept for @{agent}"
                ))
                .next(format!(
                    "`{}` gets a new one",
                    hints::command(&format!("agent rotate {agent}"))
                )),
        }
    }

    fn how_to_start(&self) -> String {
        match &self.credential {
            Credential::Variable if std::env::var_os("RELAY_URL").is_some() => {
                "is RELAY_URL right, and does the server run there?".to_owned()
            }
            _ => format!("start it: {}", hints::command("up")),
        }
    }
}

/// Refuses `--data` for one server and `RELAY_URL` for another: the command would reach the one that was not meant. A
/// directory over which no server was ever started only keeps tokens.
async fn check_same_server(globals: &GlobalArguments, url: &str) -> Outcome {
    let Some(asked) = globals.data.as_deref().filter(|_| globals.data_is_flag) else {
        return Ok(());
    };
    let found = match LocalServer::find(&DataDirectory::locate(Some(asked))?).await? {
        LocalServer::Never => return Ok(()),
        LocalServer::Running { url: local, .. } if is_same_url(&local, url) => return Ok(()),
        LocalServer::Running { url: local, .. } => format!("its server is at {local}"),
        LocalServer::Stopped => "no server runs over it".to_owned(),
        LocalServer::Starting { .. } => "its server is starting".to_owned(),
    };
    let message = format!(
        "RELAY_URL names the server at {url}, and --data the data in {}: {found}",
        asked.display()
    );
    Err(Failure::usage(message).next("unset RELAY_URL, or leave out --data"))
}

fn impatient() -> Options {
    Options {
        patience: Duration::ZERO,
        ..Options::default()
    }
}
