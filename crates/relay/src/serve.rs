//! `relay serve`: a server over a data directory, until it is told to stop.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use relay_core::environment::Environment;
use relay_core::store::sqlite::{SqliteOptions, SqliteStore};
use relay_core::{Caller, Engine};
use relay_server::{Config, Rate};
use tokio::net::TcpListener;

use crate::config::{Layers, Settings};
use crate::credentials::Credentials;
use crate::data::DataDirectory;
use crate::logging;

/// The name of the workspace that a new data directory begins with.
const FIRST_WORKSPACE: &str = "default";

/// What `relay serve` can be told.
#[derive(Args)]
pub(crate) struct ServeArguments {
    /// Where the data is kept [default: ~/.local/share/relay]
    #[arg(long, value_name = "DIR", env = "RELAY_DATA")]
    data: Option<PathBuf>,
    /// Where to listen; port 0 picks a free one [default: 127.0.0.1:4000]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// A configuration file [default: relay.toml in the data directory, if it is there]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Begin a new workspace, because credentials.json is lost; the old ones stay in the database
    #[arg(long)]
    new_workspace: bool,
}

/// Runs a server.
pub(crate) fn run(arguments: ServeArguments) -> Result<()> {
    let data = DataDirectory::open(arguments.data.clone())?;
    let settings = settings(&arguments, &data)?;
    logging::begin(&settings.log)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("no threads to run on")?;
    runtime.block_on(serve(&arguments, &data, &settings))
}

fn settings(arguments: &ServeArguments, data: &DataDirectory) -> Result<Settings> {
    let mut layers = Layers::defaults()?;
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
    layers.finish().map(|(settings, _)| settings)
}

async fn serve(
    arguments: &ServeArguments,
    data: &DataDirectory,
    settings: &Settings,
) -> Result<()> {
    let is_new = !data.database().exists();
    let environment = Environment::system();
    let store = SqliteStore::open(
        &SqliteOptions::new(data.database()),
        environment.random.clone(),
    )?;
    let engine = Arc::new(Engine::new(Arc::new(store), environment));
    let listen = &settings.server.listen;
    let listener = TcpListener::bind(listen).await.with_context(|| {
        format!("can't listen on {listen}; choose another address with --listen")
    })?;
    let url = format!("http://{}", listener.local_addr()?);
    let known = Credentials::read(&data.credentials())?;
    let credentials = match known {
        Some(known) if !arguments.new_workspace => Credentials { url, ..known },
        None if !is_new && !arguments.new_workspace => bail!(
            "{} is there, but {} is not, so nobody could get in; restore it, or begin a new workspace \
             beside the old ones with --new-workspace",
            data.database().display(),
            data.credentials().display()
        ),
        _ => begin(&engine, url).await?,
    };
    credentials.write(&data.credentials())?;
    announce(data, &credentials);
    relay_server::serve(listener, engine, server_config(settings), stop_signal()).await?;
    Ok(())
}

/// Makes the keys and the workspace that a data directory begins with.
async fn begin(engine: &Engine, url: String) -> Result<Credentials> {
    let owner = Caller::process_owner();
    let admin_key = engine.create_admin_key(&owner).await?;
    let created = engine.create_workspace(&owner, FIRST_WORKSPACE).await?;
    Ok(Credentials {
        url,
        admin_key,
        workspace_id: created.workspace_id,
        workspace_key: created.workspace_key,
    })
}

fn announce(data: &DataDirectory, credentials: &Credentials) {
    println!("relay {} is ready", env!("CARGO_PKG_VERSION"));
    println!("url          {}", credentials.url);
    println!("data         {}", data.path().display());
    println!("credentials  {}", data.credentials().display());
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
        per_token: Rate {
            per_second: limits.requests_per_second,
            at_once: limits.requests_at_once,
        },
        failed_authentications: Rate {
            per_second: limits.failed_authentications_per_second,
            at_once: limits.failed_authentications_at_once,
        },
        ..Config::default()
    }
}

/// Ready when somebody wants the server to stop: Ctrl-C, or the signal that service managers send.
async fn stop_signal() {
    let interrupted = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let Ok(mut terminated) = signal(SignalKind::terminate()) else {
            let _ = interrupted.await;
            return;
        };
        tokio::select! {
            _ = interrupted => {}
            _ = terminated.recv() => {}
        }
    }
    #[cfg(not(unix))]
    let _ = interrupted.await;
}
