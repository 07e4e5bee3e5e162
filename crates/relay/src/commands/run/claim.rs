//! As whom a coding agent runs: an agent of the workspace with its mailbox, which nobody else runs at the same time.
//!
//! With `--as` it is that agent: its kept token, or a new one under that name. Otherwise it is called like the catalogue
//! calls it, with a number behind where that name is somebody else's or runs already: `claude`, `claude-2`. Whoever starts the same
//! again is the same agent again, and finds what came meanwhile.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use relay_protocol::names;
use relay_sdk::{AgentClient, Error, ErrorCode};

use crate::agent_tokens::AgentTokens;
use crate::contact::Contact;
use crate::data::make_private;
use crate::failure::{Exit, Failure, Outcome};
use crate::hints;

/// Most names that are tried.
const MOST_NAMES: usize = 100;

/// An agent that is run here, and by nobody else meanwhile.
pub(super) struct Claim {
    pub(super) agent: AgentClient,
    /// The file that remembers what the agent has seen.
    pub(super) memory: PathBuf,
    /// The data directory, which is none of the agent's business.
    pub(super) data: PathBuf,
    /// Whether the agent is new.
    pub(super) is_new: bool,
    /// Held as long as this lives.
    _lock: File,
}

/// An agent under one name.
enum Found {
    Usable(Box<AgentClient>, bool),
    /// Somebody else has its token.
    Taken,
}

impl Claim {
    pub(super) async fn make(contact: &Contact, wanted: Option<&str>, id: &str) -> Outcome<Self> {
        let wanted = wanted.map(|name| name.trim_start_matches('@'));
        let (folder, data) = contact.runs().await?;
        make_private(&folder).with_context(|| format!("{} can't be made", folder.display()))?;
        let place = Place { folder, data };
        if let Some(me) = contact.relay.me().await?.agent {
            return place.claim_itself(contact, wanted, &me.name).await;
        }
        let tokens = contact.agent_tokens().await?;
        if let Some(name) = wanted {
            return place.claim_wanted(contact, &tokens, name).await;
        }
        let more = (2..=MOST_NAMES).map(|number| format!("{id}-{number}"));
        for name in std::iter::once(id.to_owned()).chain(more) {
            let Some(lock) = place.lock(&name)? else {
                continue;
            };
            if let Found::Usable(agent, is_new) = find(contact, &tokens, &name).await? {
                return Ok(place.claim(*agent, is_new, lock));
            }
        }
        let message = format!("{id} and {MOST_NAMES} names like it are taken");
        Err(Failure::new(Exit::Conflict, "name_taken", message)
            .next("say with --as NAME what it is to be called"))
    }
}

/// Where what is left for the next time is kept.
struct Place {
    folder: PathBuf,
    data: PathBuf,
}

impl Place {
    /// The credential is an agent's: that one it is.
    async fn claim_itself(
        self,
        contact: &Contact,
        wanted: Option<&str>,
        me: &str,
    ) -> Outcome<Claim> {
        if let Some(name) = wanted.filter(|name| names::fold(name) != names::fold(me)) {
            let message = format!("expected the credential of @{name}, found that of @{me}");
            return Err(Failure::new(Exit::Refused, "no_token", message)
                .next("leave out --as, or unset RELAY_TOKEN to use the workspace key"));
        }
        let lock = self.lock(me)?.ok_or_else(|| runs_already(me))?;
        let agent = contact.patient()?.reconnect(contact.token()).await?;
        Ok(self.claim(agent, false, lock))
    }

    async fn claim_wanted(
        self,
        contact: &Contact,
        tokens: &AgentTokens,
        name: &str,
    ) -> Outcome<Claim> {
        names::check_form(name)
            .map_err(|error| Failure::usage(format!("{name:?} is no agent's name: {error}")))?;
        let lock = self.lock(name)?.ok_or_else(|| runs_already(name))?;
        match find(contact, tokens, name).await? {
            Found::Usable(agent, is_new) => Ok(self.claim(*agent, is_new, lock)),
            Found::Taken => Err(contact.no_token(name).await),
        }
    }

    fn claim(self, agent: AgentClient, is_new: bool, lock: File) -> Claim {
        let memory = self.file(&agent.identity().name, "seen");
        Claim {
            agent,
            memory,
            data: self.data,
            is_new,
            _lock: lock,
        }
    }

    fn file(&self, name: &str, kind: &str) -> PathBuf {
        self.folder.join(format!("{}.{kind}", names::fold(name)))
    }

    /// Keeps others from running the same agent; nothing when somebody does.
    fn lock(&self, name: &str) -> Outcome<Option<File>> {
        let path = self.file(name, "lock");
        let open = |path: &Path| {
            let mut options = OpenOptions::new();
            options.create(true).truncate(false).write(true);
            options.open(path)
        };
        let file = open(&path).with_context(|| format!("{} can't be made", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => {
                let error = anyhow::Error::from(error);
                Err(error
                    .context(format!("{} can't be locked", path.display()))
                    .into())
            }
        }
    }
}

/// The agent of this name: by its kept token, or a new one.
async fn find(contact: &Contact, tokens: &AgentTokens, name: &str) -> Outcome<Found> {
    let relay = contact.patient()?;
    if let Some(token) = tokens.find(name)? {
        match relay.reconnect(&token).await {
            Ok(agent) => return Ok(Found::Usable(Box::new(agent), false)),
            // It was released, or somebody has taken it over.
            Err(error) if is(&error, ErrorCode::Unauthorized) => {}
            Err(error) => return Err(error.into()),
        }
    }
    match relay.register(name).await {
        Ok(agent) => {
            tokens.keep(&agent.identity().name, agent.token())?;
            Ok(Found::Usable(Box::new(agent), true))
        }
        Err(error) if is(&error, ErrorCode::NameTaken) => Ok(Found::Taken),
        Err(error) => Err(error.into()),
    }
}

fn is(error: &Error, code: ErrorCode) -> bool {
    error.code() == Some(code)
}

fn runs_already(name: &str) -> Failure {
    let message = format!("@{name} runs already, in another `relay run`");
    let other = hints::command("session list");
    Failure::new(Exit::Conflict, "runs_already", message).next(format!(
        "give this one another name with --as NAME; `{other}` shows what runs"
    ))
}
