//! This program as another process: the model's provider, or the plain server. So what each costs is told apart.

use std::net::SocketAddr;
use std::process::Stdio;

use relay_script::{Script, Server};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use super::machine::Process;
use super::plain;

/// The first argument of a process that plays this script as a provider does; the second is the script.
pub(crate) const PROVIDER: &str = "as-provider";

/// The first argument of a process that is the plain server.
pub(crate) const PLAIN: &str = "as-plain";

/// A process that serves something, until it is dropped.
pub(crate) struct Role {
    pub(crate) address: SocketAddr,
    pub(crate) process: Process,
    _child: Child,
    /// Held, because it is written to.
    _output: BufReader<ChildStdout>,
}

impl Role {
    pub(crate) async fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).await.unwrap();
        Self {
            address: line.trim().parse().unwrap(),
            process: child.id().unwrap().to_string(),
            _child: child,
            _output: output,
        }
    }
}

/// Plays the role that the arguments name, for ever; false if they name none.
pub(crate) async fn play(arguments: &[String]) -> bool {
    match arguments {
        [role, script] if role == PROVIDER => {
            let script: Script = script.parse().unwrap();
            let server = Server::start(script).await.unwrap();
            println!("{}", server.url().trim_start_matches("http://"));
            std::future::pending().await
        }
        [role] if role == PLAIN => {
            super::platform::allow_many_files();
            plain::serve(|address| println!("{address}")).await;
            true
        }
        _ => false,
    }
}
