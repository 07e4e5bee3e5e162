//! The server that runs over a data directory, if one does.
//!
//! That is decided by the lock of the database, which a server holds while it runs, and not by what answers at the
//! address in `credentials.json`: over a copy of the data, another server would answer there and take the same keys.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use relay_core::store::sqlite::{Beside, OpenError};

use crate::credentials::Credentials;
use crate::data::DataDirectory;
use crate::failure::{Exit, Failure, Outcome};
use crate::hints;

/// How long to wait for a server that starts to write down its address.
const STARTING_TIMEOUT: Duration = Duration::from_secs(2);

/// How often to look for it.
const STARTING_POLL: Duration = Duration::from_millis(50);

/// What is known of the server of a data directory.
pub(crate) enum LocalServer {
    /// None was ever started there.
    Never,
    /// None runs.
    Stopped,
    /// A process holds the database, and has not written down where it listens. The number may be empty.
    Starting { process: String },
    /// One runs.
    Running {
        process: String,
        url: String,
        credentials: Credentials,
    },
}

impl LocalServer {
    /// Finds the server of a data directory; one that is starting gets a moment to write down its address.
    pub(crate) async fn find(data: &DataDirectory) -> Outcome<Self> {
        let until = Instant::now() + STARTING_TIMEOUT;
        loop {
            let found = Self::look(data)?;
            let is_starting = matches!(found, Self::Starting { .. });
            if !is_starting || Instant::now() >= until {
                return Ok(found);
            }
            tokio::time::sleep(STARTING_POLL).await;
        }
    }

    fn look(data: &DataDirectory) -> Outcome<Self> {
        let holder = Beside::writer_of(&data.database());
        let holder = holder
            .with_context(|| format!("the lock in {} can't be read", data.path().display()))?;
        // After the lock: a server takes the lock first and removes an address that is not its own.
        let found = Credentials::read(&data.credentials())?;
        Ok(match (holder, found) {
            (None, None) => Self::Never,
            (None, Some(_)) => Self::Stopped,
            (Some(process), Some(credentials)) => match credentials.url.clone() {
                Some(url) => Self::Running {
                    process,
                    url,
                    credentials,
                },
                None => Self::Starting { process },
            },
            (Some(process), None) => Self::Starting { process },
        })
    }

    /// The address and the credentials of the server, or why there is none to ask.
    pub(crate) fn running(self, data: &DataDirectory) -> Outcome<(String, Credentials)> {
        let away = |message: String| Failure::new(Exit::ServerAway, "server_away", message);
        let place = data.path().display();
        let up = hints::command("up");
        match self {
            Self::Running {
                url, credentials, ..
            } => Ok((url, credentials)),
            Self::Never => Err(away(format!(
                "expected {}, which a server writes when it starts; found none",
                data.credentials().display()
            ))
            .next(format!(
                "start a server: {up}; or set RELAY_URL and RELAY_TOKEN"
            ))),
            Self::Stopped => Err(away(format!("no server runs over the data in {place}"))
                .next(format!("start it: {up}"))),
            Self::Starting { process } => {
                let path = data.database();
                let locked = OpenError::Locked {
                    path,
                    holder: process,
                };
                Err(away(format!(
                    "no server can be reached over {place} yet: {locked}"
                ))
                .next("try again in a moment"))
            }
        }
    }
}
