//! An MCP client, and short names for what every test does with it.

use relay_mcp::{McpServer, ServeError};
use relay_sdk::AgentClient;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientConfig, ResourceUpdatedNotificationParam,
};
use rmcp::service::{NotificationContext, RunningService};
use rmcp::{ClientHandler, ClientLifecycleMode, RoleClient};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::support::{next, soon};

/// Bytes that the pipe between client and server holds.
const PIPE: usize = 64 * 1024;

/// A client and the server that it talks to.
pub(crate) struct Mcp {
    pub(crate) client: RunningService<RoleClient, Ears>,
    told: mpsc::UnboundedReceiver<String>,
    serving: JoinHandle<Result<(), ServeError>>,
}

/// Hears what the server says without being asked.
pub(crate) struct Ears(mpsc::UnboundedSender<String>);

impl ClientHandler for Ears {
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        let _ = self.0.send("tools".to_owned());
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        let _ = self.0.send("resources".to_owned());
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let _ = self.0.send(params.uri);
    }

    fn get_info(&self) -> ClientConfig {
        ClientConfig::default()
    }
}

impl Mcp {
    /// A client that begins with `initialize`, as most do.
    pub(crate) async fn open(agent: &AgentClient) -> Self {
        let server = McpServer::new(agent.clone());
        Self::over(server, ClientLifecycleMode::Initialize).await
    }

    pub(crate) async fn over(server: McpServer, lifecycle: ClientLifecycleMode) -> Self {
        let (ours, theirs) = tokio::io::duplex(PIPE);
        let (read, write) = tokio::io::split(theirs);
        let serving = tokio::spawn(server.serve(read, write));
        let (tell, told) = mpsc::unbounded_channel();
        let opening = rmcp::serve_client_with_lifecycle(Ears(tell), ours, lifecycle);
        let client = soon("the handshake", opening).await.unwrap();
        Self {
            client,
            told,
            serving,
        }
    }

    /// Calls a tool; whether it is an error, and the text.
    pub(crate) async fn call(&self, tool: &str, input: Value) -> (bool, String) {
        let result = self.result(tool, input).await;
        let texts = result.content.iter().filter_map(|block| block.as_text());
        let texts: Vec<&str> = texts.map(|text| text.text.as_str()).collect();
        (result.is_error == Some(true), texts.join("\n"))
    }

    pub(crate) async fn result(&self, tool: &str, input: Value) -> CallToolResult {
        let arguments = input.as_object().cloned().unwrap();
        let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let calling = Box::pin(self.client.call_tool(request));
        soon(tool, calling).await.unwrap()
    }

    /// What a tool says that has to succeed.
    pub(crate) async fn ok(&self, tool: &str, input: Value) -> String {
        let (is_error, text) = self.call(tool, input).await;
        assert!(!is_error, "{text}");
        text
    }

    /// What a tool says that has to fail.
    pub(crate) async fn refused(&self, tool: &str, input: Value) -> String {
        let (is_error, text) = self.call(tool, input).await;
        assert!(is_error, "{text}");
        text
    }

    /// The names of all tools.
    pub(crate) async fn tools(&self) -> Vec<String> {
        let tools = soon("the tools", self.client.list_all_tools()).await;
        let tools = tools.unwrap().into_iter();
        tools.map(|tool| tool.name.into_owned()).collect()
    }

    /// The next thing that the server says by itself.
    pub(crate) async fn hear(&mut self) -> String {
        next("something to hear", &mut self.told).await
    }

    /// Waits until it says this.
    pub(crate) async fn hear_of(&mut self, what: &str) {
        while self.hear().await != what {}
    }

    /// Ends the client; the server ends by itself.
    pub(crate) async fn close(self) {
        self.client.cancel().await.unwrap();
        soon("the end", self.serving).await.unwrap().unwrap();
    }
}
