//! Who asks, and the credentials that prove it.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use relay_protocol::api::workspace::ObserverScope;
use relay_protocol::event::TokenKind;
use relay_protocol::ids::TokenId;
use relay_protocol::message::RelayMessage;
use relay_protocol::time::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::environment::Random;
use crate::error::{Error, Result};
use crate::observers;
use crate::store::chain::Hash;
use crate::store::{AgentRow, Credential, InboundRow, NewToken, Viewer, WorkspaceRow};

/// Random bytes of a credential.
const TOKEN_BYTES: usize = 32;

/// A party whose identity is proved.
#[derive(Clone, Debug)]
pub struct Caller(Who);

#[derive(Clone, Debug)]
enum Who {
    Admin,
    Workspace(Arc<WorkspaceRow>),
    Agent(Arc<WorkspaceRow>, Arc<AgentRow>),
    Observer(Arc<WorkspaceRow>, Arc<ObserverScope>),
    Webhook(Arc<WorkspaceRow>, Arc<InboundRow>),
}

impl Caller {
    /// Whoever runs this process, for the program that owns the engine.
    #[must_use]
    pub const fn process_owner() -> Self {
        Self(Who::Admin)
    }

    /// Whoever holds the workspace's key.
    #[must_use]
    pub const fn workspace_key(workspace: Arc<WorkspaceRow>) -> Self {
        Self(Who::Workspace(workspace))
    }

    /// An agent that answers a call of ours, which is how we know that it is the one.
    pub(crate) const fn agent_itself(workspace: Arc<WorkspaceRow>, agent: Arc<AgentRow>) -> Self {
        Self(Who::Agent(workspace, agent))
    }

    /// What a credential stands for at this time.
    pub(crate) fn from_credential(credential: Credential, now: Timestamp) -> Result<Self> {
        if credential.valid_until.is_some_and(|until| until <= now) {
            return Err(Error::Unauthorized);
        }
        match (credential.kind, credential.workspace, credential.agent) {
            (TokenKind::Admin, _, _) => Ok(Self(Who::Admin)),
            (TokenKind::Workspace, Some(workspace), _) => Ok(Self(Who::Workspace(workspace))),
            (TokenKind::Agent, Some(workspace), Some(agent)) if agent.released_at.is_none() => {
                Ok(Self(Who::Agent(workspace, agent)))
            }
            (TokenKind::Observer, Some(workspace), _) => {
                let scope = credential.scope.ok_or(Error::Unauthorized)?;
                Ok(Self(Who::Observer(workspace, scope)))
            }
            (TokenKind::Webhook, Some(workspace), _) => {
                let inbound = credential.inbound.ok_or(Error::Unauthorized)?;
                Ok(Self(Who::Webhook(workspace, inbound)))
            }
            _ => Err(Error::Unauthorized),
        }
    }

    /// What kind of credential it is.
    #[must_use]
    pub const fn kind(&self) -> TokenKind {
        match &self.0 {
            Who::Admin => TokenKind::Admin,
            Who::Workspace(_) => TokenKind::Workspace,
            Who::Agent(..) => TokenKind::Agent,
            Who::Observer(..) => TokenKind::Observer,
            Who::Webhook(..) => TokenKind::Webhook,
        }
    }

    /// The workspace, for every caller that takes part in one.
    pub fn workspace(&self) -> Result<&Arc<WorkspaceRow>> {
        match &self.0 {
            Who::Workspace(workspace) | Who::Agent(workspace, _) => Ok(workspace),
            Who::Admin | Who::Observer(..) | Who::Webhook(..) => Err(Error::Forbidden {
                needs: "a workspace key or an agent token",
            }),
        }
    }

    /// The agent, for callers that act as one.
    pub fn agent(&self) -> Result<&Arc<AgentRow>> {
        match &self.0 {
            Who::Agent(_, agent) => Ok(agent),
            _ => Err(Error::Forbidden {
                needs: "an agent token",
            }),
        }
    }

    /// Where its messages go, for a webhook.
    pub(crate) fn inbound(&self) -> Result<(&Arc<WorkspaceRow>, &Arc<InboundRow>)> {
        match &self.0 {
            Who::Webhook(workspace, inbound) => Ok((workspace, inbound)),
            _ => Err(Error::Forbidden {
                needs: "the token of an inbound webhook",
            }),
        }
    }

    /// Refuses all but the server's admin key.
    pub(crate) fn require_admin(&self) -> Result<()> {
        match &self.0 {
            Who::Admin => Ok(()),
            _ => Err(Error::Forbidden {
                needs: "the server's admin key",
            }),
        }
    }

    /// The workspace, for its key alone.
    pub(crate) fn require_workspace_key(&self) -> Result<&Arc<WorkspaceRow>> {
        match &self.0 {
            Who::Workspace(workspace) => Ok(workspace),
            _ => Err(Error::Forbidden {
                needs: "the workspace key",
            }),
        }
    }

    /// The workspace, for every caller that belongs to one, even if it only looks.
    pub(crate) fn home(&self) -> Result<&Arc<WorkspaceRow>> {
        match &self.0 {
            Who::Observer(workspace, _) => Ok(workspace),
            _ => self.workspace(),
        }
    }

    /// What an observer may see; nothing for everybody else.
    pub(crate) fn scope(&self) -> Option<&Arc<ObserverScope>> {
        match &self.0 {
            Who::Observer(_, scope) => Some(scope),
            _ => None,
        }
    }

    /// Whose eyes look at something that is in no channel, or in any. Observers look, too, if nothing
    /// limits them.
    pub(crate) fn reader(&self) -> Result<Viewer> {
        match &self.0 {
            Who::Observer(workspace, scope) if observers::sees_records(scope) => Ok(Viewer {
                workspace_no: workspace.no,
                agent: None,
            }),
            Who::Observer(..) => Err(observers::limited()),
            _ => self.viewer(),
        }
    }

    /// Whose eyes look into a channel.
    pub(crate) fn reader_in(&self, channel: &str) -> Result<Viewer> {
        match &self.0 {
            Who::Observer(workspace, scope) if observers::sees_channel(scope, channel) => {
                Ok(Viewer {
                    workspace_no: workspace.no,
                    agent: None,
                })
            }
            Who::Observer(..) => Err(observers::limited()),
            _ => self.viewer(),
        }
    }

    /// Whose eyes look at a message, before [`Caller::check_sees`] has said whether they may.
    pub(crate) fn eyes(&self) -> Result<Viewer> {
        match &self.0 {
            Who::Observer(workspace, _) => Ok(Viewer {
                workspace_no: workspace.no,
                agent: None,
            }),
            _ => self.viewer(),
        }
    }

    /// Whether an observer may see a message. For others the store has decided that already.
    pub(crate) fn check_sees(&self, message: &RelayMessage) -> Result<()> {
        let Some(scope) = self.scope() else {
            return Ok(());
        };
        let channel = message.channel.as_ref().and_then(|it| it.name.as_deref());
        let sees = observers::sees_records(scope)
            || channel.is_some_and(|name| observers::sees_channel(scope, name));
        if sees {
            Ok(())
        } else {
            Err(Error::UnknownMessage(message.id))
        }
    }

    /// Whose eyes take part.
    pub(crate) fn viewer(&self) -> Result<Viewer> {
        let agent = match &self.0 {
            Who::Agent(_, agent) => Some(agent.no),
            _ => None,
        };
        Ok(Viewer {
            workspace_no: self.workspace()?.no,
            agent,
        })
    }
}

/// The prefix by which people tell credentials apart.
const fn prefix(kind: TokenKind) -> &'static str {
    match kind {
        TokenKind::Admin => "ak_",
        TokenKind::Workspace => "rk_",
        TokenKind::Agent => "at_",
        TokenKind::Observer => "ot_",
        TokenKind::Webhook => "wh_",
    }
}

/// Makes a credential: what its holder keeps, and what the store keeps of it.
pub(crate) fn make_token(
    kind: TokenKind,
    random: &dyn Random,
    at: Timestamp,
) -> (String, NewToken) {
    let token = secret(prefix(kind), random);
    let hash = hash_token(&token);
    let id = TokenId::new(at, random.bits());
    (token, NewToken { id, hash, at })
}

/// A secret that nobody can guess.
pub(crate) fn secret(prefix: &str, random: &dyn Random) -> String {
    let mut secret = [0; TOKEN_BYTES];
    random.fill(&mut secret);
    format!("{prefix}{}", URL_SAFE_NO_PAD.encode(secret))
}

/// The form in which credentials are stored. A look-up by it tells nothing of the token through time.
pub(crate) fn hash_token(token: &str) -> Hash {
    Sha256::digest(token.as_bytes()).into()
}
