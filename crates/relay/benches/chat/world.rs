//! The server under test, and a provider of models that it is configured with: each a process.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::machine::{Process, this_process, threads_cpu};
use super::role::{PROVIDER, Role};
use super::server::{Server, ServerCommand};

/// A server with chats, whose tools work in a directory of their own.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) directory: TempDir,
}

impl World {
    /// Starts a server with further settings.
    pub(crate) async fn start(settings: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let command = ServerCommand {
            program: env!("CARGO_BIN_EXE_relay").into(),
            arguments: vec!["serve".into()],
        };
        let work = directory.path().join("work");
        std::fs::create_dir(&work).unwrap();
        let settings = format!("[chat]\ndirectory = {work:?}\n\n{settings}");
        let server = Server::start(&command, directory.path(), &settings);
        Self {
            server: server.await.unwrap(),
            directory,
        }
    }

    pub(crate) fn key(&self) -> &str {
        &self.server.keys.workspace_key
    }
}

/// A server, and a provider that it asks over HTTP.
pub(crate) struct Asking {
    pub(crate) world: World,
    pub(crate) provider: Role,
}

/// Somebody who can be asked for a stream.
pub(crate) struct Way<'a> {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    pub(crate) path: &'static str,
    pub(crate) token: &'a str,
    /// What stands before a model's name.
    prefix: &'static str,
}

impl Way<'_> {
    /// The body that asks a model.
    pub(crate) fn body(&self, model: &str) -> String {
        let model = format!("{}{model}", self.prefix);
        let mut body = json!({ "model": model, "messages": [{ "role": "user", "content": "go" }] });
        if self.prefix.is_empty() {
            body["stream"] = Value::Bool(true);
        }
        body.to_string()
    }
}

impl Asking {
    /// The provider's models are what the script's conditions name.
    pub(crate) async fn start(script: &Value) -> Self {
        let provider = Role::start(&[PROVIDER, &script.to_string()]).await;
        let settings = format!(
            "[providers.local]\nkind = \"openai\"\nbase_url = \"http://{}/v1\"\n",
            provider.address
        );
        Self {
            world: World::start(&settings).await,
            provider,
        }
    }

    /// Asking the provider itself.
    pub(crate) fn direct(&self) -> Way<'_> {
        Way {
            name: "direct",
            address: self.provider.address,
            path: "/v1/chat/completions",
            token: "none",
            prefix: "",
        }
    }

    /// Asking by way of Relay.
    pub(crate) fn relayed(&self) -> Way<'_> {
        Way {
            name: "through Relay",
            address: self.world.server.address,
            path: "/chat",
            token: self.world.key(),
            prefix: "local/",
        }
    }

    /// The processes of the benchmark.
    pub(crate) fn processes(&self) -> [Process; 3] {
        let server = self.world.server.process.clone();
        [self.provider.process.clone(), server, this_process()]
    }

    /// Processor time of provider, Relay, and this program so far, in microseconds.
    pub(crate) fn spent(&self) -> [f64; 3] {
        let processes = self.processes();
        processes.map(|process| super::micros(threads_cpu(&process, |_| true)))
    }
}
