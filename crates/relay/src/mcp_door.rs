//! `/mcp` of a server: MCP is spoken by `relay-mcp`, which reaches the server through its own door, as the agent that asks.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use relay_mcp::{Connect, McpHttp, Visitor};
use relay_sdk::{Options, Relay};
use relay_server::{Body, LocalDoor, Mcp, McpAnswer, McpService, McpVisit};

/// MCP for the server that this door leads to.
pub(crate) fn mcp(door: LocalDoor) -> Mcp {
    Mcp::by(Service(McpHttp::new(clients(door))))
}

/// Makes clients of tokens.
pub(crate) fn clients(door: LocalDoor) -> Connect {
    let dial = move || {
        let door = door.clone();
        async move { door.connect().await }
    };
    // Whoever asks brings a token.
    let relay = Arc::new(Relay::over(dial, "", Options::default()));
    Box::new(move |token| {
        let relay = relay.clone();
        Box::pin(async move { relay.reconnect(&token).await })
    })
}

pub(crate) struct Service(pub(crate) McpHttp);

impl McpService for Service {
    fn answer(&self, visit: McpVisit) -> BoxFuture<'static, McpAnswer> {
        let McpVisit {
            request,
            token,
            session,
            written,
        } = visit;
        let mcp = self.0.clone();
        Box::pin(async move {
            let flushed =
                Box::new(move || -> BoxFuture<'static, bool> { Box::pin(written.flushed()) });
            let visitor = Visitor { token, session };
            let response = mcp.answer(request, visitor, flushed).await?;
            Ok(response.map(Body::new))
        })
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        let mcp = self.0.clone();
        Box::pin(async move { mcp.stop().await })
    }
}
