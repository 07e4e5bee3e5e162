//! The running server: whether it answers, which one it is, and whether it lets us in.

use std::time::Duration;

use relay_core::store::sqlite::Beside;
use relay_protocol::api::service::Health;
use relay_protocol::api::workspace::Me;
use relay_protocol::event::TokenKind;
use relay_protocol::ids::WorkspaceId;
use relay_protocol::socket::PROTOCOL;
use relay_sdk::Error;

use super::finding::{Finding, Layer, Verdict};
use super::report::Report;
use super::tokens;
use crate::contact::{Actor, Contact, GlobalArguments};
use crate::credentials::Credentials;
use crate::data::DataDirectory;
use crate::failure::{Exit, Failure, Outcome};
use crate::hints;

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// What is known of the server in the end.
pub(super) enum Server {
    /// It runs, and lets us do everything.
    Running { url: String, key: String },
    /// None does.
    None,
    /// It runs, and we can't make agents there.
    Closed,
}

pub(super) async fn look(
    globals: &GlobalArguments,
    data: &DataDirectory,
    report: &mut Report<'_>,
) -> Outcome<Server> {
    let contact = match Contact::find(globals, Actor::Workspace).await {
        Ok(contact) => contact,
        Err(failure) if failure.exit() == Exit::ServerAway => {
            if data.credentials().exists() {
                report.check("server", Layer::Process, || {
                    of(&failure, &hints::command("up"))
                })?;
            } else {
                report.skip("server", Layer::Process, "none was started over this data")?;
            }
            return Ok(Server::None);
        }
        Err(failure) => {
            report.check("server", Layer::Credentials, || {
                of(&failure, "relay up --help")
            })?;
            return Ok(Server::None);
        }
    };
    let Some(health) = answers(&contact, data, report).await? else {
        return Ok(Server::None);
    };
    report.check("version", Layer::Process, || version(&health))?;
    let lets_us_in = credential(&contact, data, report).await?;
    store(&contact, report).await?;
    if !lets_us_in {
        return Ok(Server::Closed);
    }
    tokens::look(&contact, report).await?;
    Ok(Server::Running {
        url: contact.url().to_owned(),
        key: contact.token().to_owned(),
    })
}

/// A failure as a finding.
fn of(failure: &Failure, next: &str) -> Finding {
    Finding::failed(failure.message(), failure.advice().unwrap_or(next))
}

/// Asks something of the server, which may not take for ever.
async fn asked<T>(asking: impl Future<Output = relay_sdk::Result<T>>) -> relay_sdk::Result<T> {
    match tokio::time::timeout(PATIENCE, asking).await {
        Ok(answer) => answer,
        Err(_) => Err(Error::TimedOut(PATIENCE)),
    }
}

async fn answers(
    contact: &Contact,
    data: &DataDirectory,
    report: &mut Report<'_>,
) -> Outcome<Option<Health>> {
    let begun = report.begin();
    let error = match asked(contact.relay.health()).await {
        Ok(health) => {
            let found = Finding::ok(format!("it answers at {}", contact.url()));
            report.add("server", Layer::Network, begun, found)?;
            return Ok(Some(health));
        }
        Err(error) => error,
    };
    let is_silent = matches!(error, Error::Unreachable(_));
    let is_other = matches!(
        error,
        Error::Problem(_) | Error::Unreadable(_) | Error::Broken(_)
    );
    let failure = contact.explain(error.into());
    let writer = match contact.is_of_data() {
        true => Beside::writer_of(&data.database()).ok().flatten(),
        false => None,
    };
    let (layer, finding) = match writer {
        _ if is_other => (Layer::Network, stranger(contact.url(), &failure)),
        Some(process) => (Layer::Network, deaf(&process, contact.url())),
        None if contact.is_of_data() && is_silent => {
            (Layer::Process, of(&failure, &hints::command("up")))
        }
        None => (
            Layer::Network,
            of(&failure, "see whether the server runs there"),
        ),
    };
    report.add("server", layer, begun, finding)?;
    Ok(None)
}

/// Somebody answers, and not as Relay would.
fn stranger(url: &str, failure: &Failure) -> Finding {
    Finding::failed(
        format!("what answers at {url} is not Relay: {}", failure.message()),
        format!(
            "another program has that port; start Relay on a free one: {}",
            hints::command("up --listen 127.0.0.1:0")
        ),
    )
}

/// The server runs, and nobody gets to it.
fn deaf(process: &str, url: &str) -> Finding {
    let (holder, end) = match process.is_empty() {
        true => ("another process".to_owned(), "end it".to_owned()),
        false => (format!("process {process}"), format!("kill {process}")),
    };
    let up = hints::command("up");
    Finding::failed(
        format!("{holder} has the database open, but no server answers at {url}"),
        format!("see what it does; if it hangs: {end}, then {up} (nothing is lost)"),
    )
}

/// Whether server and command line are made for each other.
fn version(server: &Health) -> Finding {
    let (ours, theirs) = (env!("CARGO_PKG_VERSION"), &server.version);
    if server.protocol != PROTOCOL {
        return Finding::failed(
            format!(
                "this program speaks protocol {PROTOCOL}, the server {}",
                server.protocol
            ),
            "use a program and a server of the same version",
        );
    }
    match ours == theirs {
        true => Finding::ok(format!("{theirs}, protocol {PROTOCOL}, the same as here")),
        false => Finding::warning(
            format!("the server is {theirs}, this program {ours}; both speak protocol {PROTOCOL}"),
            "restart the server if you have upgraded since it was started",
        ),
    }
}

/// Whether the credential opens everything, on the right server.
async fn credential(
    contact: &Contact,
    data: &DataDirectory,
    report: &mut Report<'_>,
) -> Outcome<bool> {
    let begun = report.begin();
    let expected = match contact.is_of_data() {
        true => Credentials::read(&data.credentials())?.map(|known| known.workspace_id),
        false => None,
    };
    let finding = match asked(contact.relay.me()).await {
        Ok(me) => judge_credential(&me, expected),
        Err(error) => of(
            &contact.explain(error.into()),
            &hints::command("token show"),
        ),
    };
    let lets_us_in = finding.verdict == Verdict::Ok;
    report.add("credential", Layer::Credentials, begun, finding)?;
    Ok(lets_us_in)
}

fn judge_credential(me: &Me, expected: Option<WorkspaceId>) -> Finding {
    let workspace = me.workspace.as_ref();
    let found = workspace.map(|workspace| workspace.workspace_id);
    match (me.kind, workspace) {
        _ if expected.is_some() && found != expected => Finding::failed(
            "the server has another workspace than credentials.json tells of",
            format!(
                "another server runs at that address; start the one of this data with `{}`",
                hints::command("up")
            ),
        ),
        (TokenKind::Workspace, Some(workspace)) => Finding::ok(format!(
            "the key of workspace {:?} is taken",
            workspace.name
        )),
        (kind, _) => Finding::warning(
            format!(
                "it is valid, but the round trip needs the workspace key, not a token of kind {kind}"
            ),
            "unset RELAY_TOKEN, or set it to the workspace key",
        ),
    }
}

/// Whether the server's store works.
async fn store(contact: &Contact, report: &mut Report<'_>) -> Outcome {
    let begun = report.begin();
    let finding = match asked(contact.relay.ready()).await {
        Ok(_) => Finding::ok("the server reads and writes"),
        Err(error) => Finding::failed(
            format!("the server can't use its store: {error}"),
            format!(
                "look at the server's log, at its disk and at the database with `{}`",
                hints::command("doctor --deep")
            ),
        ),
    };
    report.add("store", Layer::Store, begun, finding)
}

#[cfg(test)]
mod tests {
    use relay_protocol::api::service::ServiceStatus;
    use relay_protocol::api::workspace::Workspace;
    use relay_sdk::Timestamp;

    use super::*;

    fn health(version: &str, protocol: u32) -> Health {
        Health {
            status: ServiceStatus::Ok,
            version: version.to_owned(),
            protocol,
        }
    }

    #[test]
    fn another_version_is_told_and_another_protocol_fails() {
        let ours = env!("CARGO_PKG_VERSION");
        assert_eq!(version(&health(ours, PROTOCOL)).verdict, Verdict::Ok);
        assert_eq!(
            version(&health("9.9.9", PROTOCOL)).verdict,
            Verdict::Warning
        );
        assert_eq!(
            version(&health(ours, PROTOCOL + 1)).verdict,
            Verdict::Failed
        );
    }

    #[test]
    fn the_credential_is_the_workspace_key_of_the_right_server() {
        let id = |text: &str| text.parse::<WorkspaceId>().unwrap();
        let ours = id("01a1e393-8365-7f6e-b943-f323fd1cc0c8");
        let other = id("01a1e393-8374-7d9f-adf0-57f7746666ee");
        let me = |kind| Me {
            kind,
            workspace: Some(Workspace {
                workspace_id: ours,
                name: "default".to_owned(),
                created_at: Timestamp::from_millis(0),
            }),
            agent: None,
            scope: None,
        };
        let verdict = |kind, expected| judge_credential(&me(kind), expected).verdict;
        assert_eq!(verdict(TokenKind::Workspace, None), Verdict::Ok);
        assert_eq!(verdict(TokenKind::Workspace, Some(ours)), Verdict::Ok);
        assert_eq!(verdict(TokenKind::Workspace, Some(other)), Verdict::Failed);
        assert_eq!(verdict(TokenKind::Agent, None), Verdict::Warning);
    }
}
