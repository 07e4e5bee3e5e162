//! What can go wrong with a coding agent, as a failure of a command.

use relay_harness::acp::catalogue::CatalogueError;
use relay_harness::acp::direct::DirectError;
use relay_harness::acp::host::HostError;

use super::{Exit, Failure};
use crate::hints;

impl From<CatalogueError> for Failure {
    fn from(error: CatalogueError) -> Self {
        let failure = Self::new(Exit::NotFound, "unknown_coding_agent", error.to_string());
        let list = hints::command("acp agents");
        failure.next(format!("`{list}` shows which there are"))
    }
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        let exit = match &error {
            HostError::NotInstalled { .. } => Exit::NotFound,
            HostError::AuthRequired { .. } => Exit::Refused,
            HostError::Timeout { .. } => Exit::NotYet,
            HostError::Capability(_) => Exit::Conflict,
            HostError::Invalid(_) => Exit::Usage,
            _ if error.is_not_found() => Exit::NotFound,
            _ => Exit::Failed,
        };
        let next = match &error {
            HostError::NotInstalled { install, .. } => Some(install.clone()),
            HostError::AuthRequired { sign_in, .. } => Some(sign_in.clone()),
            HostError::Capability(_) => Some(format!(
                "`{}` shows what the agent can do",
                hints::command("acp capabilities AGENT")
            )),
            _ => None,
        };
        let next = next.filter(|next| !next.is_empty());
        // What comes as advice is not said twice.
        let mut message = error.to_string();
        if let Some(next) = &next {
            message = message.replace(&format!("; {next}"), "");
        }
        let failure = Self::new(exit, error.code(), message);
        match next {
            Some(next) => failure.next(next),
            None => failure,
        }
    }
}

impl From<DirectError> for Failure {
    fn from(error: DirectError) -> Self {
        let exit = match &error {
            DirectError::Host(error) => return error.clone().into(),
            DirectError::Schema(_) => Exit::Usage,
            _ => Exit::Failed,
        };
        Self::new(exit, error.code(), error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_do_is_said_once() {
        let error = HostError::AuthRequired {
            agent: "kimi".to_owned(),
            message: "Sign in".to_owned(),
            sign_in: "run `kimi login`".to_owned(),
        };
        let failure = Failure::from(error);
        assert_eq!(failure.message(), "kimi needs a sign-in: Sign in");
        assert_eq!(failure.advice(), Some("run `kimi login`"));
        assert_eq!(failure.exit(), Exit::Refused);
    }
}
