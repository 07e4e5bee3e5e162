//! A transport that sees which answers were written, and has what they tell settled.

use rmcp::RoleServer;
use rmcp::model::JsonRpcMessage;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

use crate::server::McpServer;

/// Another transport, watched on behalf of a server.
pub(crate) struct Witness<T> {
    transport: T,
    server: McpServer,
}

impl<T> Witness<T> {
    pub(crate) const fn new(transport: T, server: McpServer) -> Self {
        Self { transport, server }
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for Witness<T> {
    type Error = T::Error;

    /// The library waits for this future before it closes, so what was written at the end is settled, too.
    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let told = match &item {
            JsonRpcMessage::Response(answer) => self.server.leaves(&answer.id),
            _ => None,
        };
        let writing = self.transport.send(item);
        async move {
            let written = writing.await;
            if let Some((told, settler)) = told {
                settler.settle(told, written.is_ok()).await;
            }
            written
        }
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleServer>>> + Send {
        self.transport.receive()
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.transport.close()
    }
}
