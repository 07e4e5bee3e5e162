//! One look at an agent: it is started, asked who it is, and stopped.

use std::path::PathBuf;

use super::error::HostError;
use super::{Host, HostOptions, OpenSession};
use crate::acp::capabilities::Handshake;
use crate::acp::catalogue::AgentDefinition;
use crate::child::ChildEnvironment;

/// What was found out about an agent.
#[derive(Clone, Debug)]
pub struct Probe {
    /// What it says about itself; without what it can't be believed.
    pub handshake: Handshake,
    /// Whether it opens a session: only then it is ready to work. Nothing when that was not tried.
    pub session: Option<Result<(), HostError>>,
}

/// Starts an agent, asks it, and stops it. With `open` it is also asked for a session, which tells whether somebody has
/// signed in.
pub async fn probe(
    agent: AgentDefinition,
    environment: ChildEnvironment,
    cwd: PathBuf,
    options: HostOptions,
    open: bool,
) -> Result<Probe, HostError> {
    let host = Host::start(agent, environment, cwd.clone(), options).await?;
    let handshake = host.handshake().clone();
    let session = match open {
        true => Some(host.new_session(OpenSession::new(cwd)).await.map(drop)),
        false => None,
    };
    host.stop().await;
    Ok(Probe { handshake, session })
}
