//! `relay serve`: a server over a data directory, until it is told to stop.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use relay_core::environment::Environment;
use relay_core::store::sqlite::{DatabaseLock, SqliteOptions, SqliteStore};
use relay_core::{Caller, Engine, KeepFor};
use relay_outbound::{Limits, Outbound};
use relay_protocol::ids::WorkspaceId;
use relay_protocol::limits::PERMISSION_EXPIRES_MS;
use relay_rules::RealFiles;
use relay_server::{Config, Rate};
use serde::Serialize;
use tokio::net::TcpListener;

use crate::chat_door::Surroundings;
use crate::config::{Layers, Settings};
use crate::contact::GlobalArguments;
use crate::credentials::Credentials;
use crate::data::DataDirectory;
use crate::failure::Outcome;
use crate::output::Output;
use crate::platform::StopSignal;
use crate::{chat_door, logging, mcp_door, memory, platform};

/// The name of the workspace that a new data directory begins with.
const FIRST_WORKSPACE: &str = "default";

/// What a server can be told when it starts.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct StartArguments {
    /// Where to listen; port 0 picks a free one [default: 127.0.0.1:4000]
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<String>,
    /// A configuration file [default: relay.toml in the data directory, if it is there]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Begin a new workspace, because credentials.json is lost; the old ones stay in the database
    #[arg(long)]
    pub(crate) new_workspace: bool,
}

/// How a server says that it is ready. It is called once, when nothing can fail any more: the server runs.
pub(crate) type Announce<'a> = &'a dyn Fn(&DataDirectory, &Credentials);

/// `relay serve`.
pub(crate) fn run(
    arguments: &StartArguments,
    globals: &GlobalArguments,
    output: &Output,
) -> Outcome {
    let data = DataDirectory::open(globals.data.as_deref())?;
    let layers = Layers::defaults()?;
    start(arguments, &data, layers, &|data, credentials| {
        announce(output, data, credentials);
    })?;
    Ok(())
}

/// Runs a server until it is told to stop.
pub(crate) fn start(
    arguments: &StartArguments,
    data: &DataDirectory,
    layers: Layers,
    announce: Announce<'_>,
) -> Result<()> {
    let (settings, origins) = layered(layers, arguments, data)?.finish()?;
    logging::begin(&settings.log).with_context(|| origins["log.filter"].to_string())?;
    platform::raise_file_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .on_thread_park(memory::tidy)
        .build()
        .context("no threads to run on")?;
    runtime.block_on(serve(arguments, data, &settings, announce))
}

/// Puts what the file, the environment and the flags say over what there is.
pub(crate) fn layered(
    mut layers: Layers,
    arguments: &StartArguments,
    data: &DataDirectory,
) -> Result<Layers> {
    let usual = data.config();
    let file = match &arguments.config {
        Some(path) => Some(path.clone()),
        None => usual.exists().then_some(usual),
    };
    if let Some(path) = file {
        let text = std::fs::read_to_string(&path);
        let text = text.with_context(|| format!("{} can't be read", path.display()))?;
        layers.file(&path, &text)?;
    }
    // Not every variable is text; those that aren't are none of ours.
    let variables = std::env::vars_os();
    layers.environment(
        variables.filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        }),
    )?;
    if let Some(listen) = &arguments.listen {
        layers.flag("--listen", "server.listen", listen)?;
    }
    Ok(layers)
}

async fn serve(
    arguments: &StartArguments,
    data: &DataDirectory,
    settings: &Settings,
    announce: Announce<'_>,
) -> Result<()> {
    // From here on somebody may want the server to stop.
    let stop = StopSignal::listen()?;
    // First, because it fails most easily: nothing has been begun then.
    let listen = &settings.server.listen;
    let listener = TcpListener::bind(listen).await.with_context(|| {
        format!("can't listen on {listen}; choose another address with --listen")
    })?;
    let listens_on = listener.local_addr()?;
    let url = url_of(listens_on);
    let options = OpenOptions {
        store: SqliteOptions {
            index_ahead: settings.search.ahead,
            ..SqliteOptions::new(data.database())
        },
        permissions_expire_after: Duration::from_secs(settings.permissions.expires_after_s),
    };
    let (engine, credentials) = open(data, &options, url, arguments.new_workspace).await?;
    let (door, doorway) = relay_server::local();
    let around = Surroundings {
        data: data.path(),
        key: &credentials.workspace_key,
        is_loopback: listens_on.ip().is_loopback(),
    };
    let config = Config {
        chat: chat_door::chat(door.clone(), settings, &around)?,
        mcp: mcp_door::mcp(door),
        ..server_config(settings)
    };
    let ready = || announce(data, &credentials);
    let serving =
        relay_server::serve_announced((listener, doorway), engine, config, ready, stop.come());
    tokio::select! {
        served = serving => Ok(served?),
        never = memory::give_back() => match never {},
    }
}

/// How data is opened.
pub(crate) struct OpenOptions {
    store: SqliteOptions,
    permissions_expire_after: Duration,
}

impl OpenOptions {
    /// As when nobody says otherwise.
    pub(crate) fn usual(data: &DataDirectory) -> Self {
        Self {
            store: SqliteOptions::new(data.database()),
            permissions_expire_after: Duration::from_millis(PERMISSION_EXPIRES_MS),
        }
    }
}

/// Opens the data, and finds the keys to it; what is not there is made. Others find them in the data directory.
pub(crate) async fn open(
    data: &DataDirectory,
    options: &OpenOptions,
    url: String,
    new_workspace: bool,
) -> Result<(Arc<Engine>, Credentials)> {
    data.prepare_database()?;
    let lock = DatabaseLock::take(&data.database())?;
    forget_other_url(data, &url)?;
    let environment = Environment::system();
    let store = SqliteStore::open_locked(lock, &options.store, environment.random.clone())?;
    let is_new = store.is_empty()?;
    // Tools run where their agents do, which for a server of one's own is this machine.
    let engine = Engine::new(Arc::new(store), environment)
        .with_files(Arc::new(RealFiles))
        .with_permissions_expiring(options.permissions_expire_after);
    let engine = Arc::new(engine);
    let found = async {
        let credentials = match Credentials::read(&data.credentials())? {
            Some(known) if !new_workspace => Credentials {
                url: Some(url),
                ..known
            },
            None if !is_new && !new_workspace => bail!(
                "{} is there, but {} is not, so nobody could get in; restore it, or begin a new workspace \
                 beside the old ones with --new-workspace",
                data.database().display(),
                data.credentials().display()
            ),
            _ => begin(&engine, url).await?,
        };
        credentials.write(&data.credentials())?;
        Ok(credentials)
    };
    let credentials = found.await;
    if credentials.is_err() && is_new {
        // Nobody has the keys to it. The next start is to begin with nothing, and to have as much room.
        data.discard_database();
    }
    Ok((engine, credentials?))
}

/// Removes an address from the credentials that is not the one of this server. In a copy of the data it is the address
/// of another server, which must not be taken for this one while the database is opened.
fn forget_other_url(data: &DataDirectory, url: &str) -> Result<()> {
    match Credentials::read(&data.credentials())? {
        Some(known) if known.url.as_deref().is_some_and(|other| other != url) => {
            known.without_url().write(&data.credentials())
        }
        _ => Ok(()),
    }
}

/// Where programs on this machine reach a server that listens there.
pub(crate) fn url_of(address: SocketAddr) -> String {
    let host: IpAddr = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    format!("http://{}", SocketAddr::new(host, address.port()))
}

/// Makes the keys and the workspace that a data directory begins with.
async fn begin(engine: &Engine, url: String) -> Result<Credentials> {
    let owner = Caller::process_owner();
    let admin_key = engine.create_admin_key(&owner).await?;
    let created = engine.create_workspace(&owner, FIRST_WORKSPACE).await?;
    Ok(Credentials {
        url: Some(url),
        admin_key,
        workspace_id: created.workspace_id,
        workspace_key: created.workspace_key,
    })
}

/// Says that the server is ready. Whoever started it may not want to know: then nobody is told.
fn announce(output: &Output, data: &DataDirectory, credentials: &Credentials) {
    let ready = Ready::new(Start::Started, data, credentials);
    let _ = output.show(&ready, |_| {
        format!(
            "relay {} is ready\nurl          {}\ndata         {}\ncredentials  {}\n",
            env!("CARGO_PKG_VERSION"),
            ready.url,
            ready.data.display(),
            ready.credentials.display()
        )
    });
}

/// A server that runs, for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Ready<'a> {
    pub(crate) status: Start,
    pub(crate) url: &'a str,
    pub(crate) data: &'a Path,
    pub(crate) credentials: PathBuf,
    pub(crate) workspace_id: WorkspaceId,
}

/// Whether it was this command that started it.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Start {
    Started,
    Running,
}

impl<'a> Ready<'a> {
    pub(crate) fn new(
        status: Start,
        data: &'a DataDirectory,
        credentials: &'a Credentials,
    ) -> Self {
        Self {
            status,
            url: credentials.url.as_deref().unwrap_or_default(),
            data: data.path(),
            credentials: data.credentials(),
            workspace_id: credentials.workspace_id,
        }
    }
}

/// So many days; nothing for none.
fn days(days: u32) -> Option<Duration> {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    (days > 0).then(|| DAY * days)
}

/// The settings as the server takes them.
pub(crate) fn server_config(settings: &Settings) -> Config {
    let Settings { server, limits, .. } = settings;
    Config {
        allowed_hosts: server.allowed_hosts.clone(),
        allowed_origins: server.allowed_origins.clone(),
        connections: server.connections,
        drain_timeout: Duration::from_secs(server.drain_s),
        header_timeout: Duration::from_secs(server.header_timeout_s),
        body_timeout: Duration::from_secs(server.body_timeout_s),
        ping_every: Duration::from_secs(server.ping_every_s),
        silence: Duration::from_secs(server.silence_s),
        collect_garbage_every: Duration::from_secs(server.collect_garbage_s),
        per_token: Rate {
            per_second: limits.requests_per_second,
            at_once: limits.requests_at_once,
        },
        failed_authentications: Rate {
            per_second: limits.failed_authentications_per_second,
            at_once: limits.failed_authentications_at_once,
        },
        keep_events: KeepFor {
            bulky: days(settings.retention.bulky_days),
            all: days(settings.retention.all_days),
        },
        outbound: Outbound::new(settings.outbound.allow.clone(), Limits::default()),
        ..Config::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_is_one_that_the_server_answers() {
        for (address, url) in [
            ("127.0.0.1:4000", "http://127.0.0.1:4000"),
            ("0.0.0.0:4000", "http://127.0.0.1:4000"),
            ("[::]:4000", "http://[::1]:4000"),
            ("[::1]:4000", "http://[::1]:4000"),
            ("192.168.0.7:80", "http://192.168.0.7:80"),
        ] {
            assert_eq!(url_of(address.parse().unwrap()), url);
        }
    }
}
