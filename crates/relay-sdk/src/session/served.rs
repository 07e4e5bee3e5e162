//! A session of any type, so that the loop that serves it is compiled once.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use relay_protocol::delivery::{MessageContext, MessageReceipt};
use relay_protocol::ids::DeliveryId;
use relay_protocol::message::RelayMessage;
use serde_json::Value;

use super::handle::EventHandler;
use super::traits::{AgentSession, ControlError, Fork, SessionError};

/// A session of any type.
pub(super) trait Served: Send + Sync {
    fn receive_message(
        self: Arc<Self>,
        message: RelayMessage,
        ctx: MessageContext,
    ) -> BoxFuture<'static, Result<MessageReceipt, SessionError>>;
    fn on_event(self: Arc<Self>, handler: EventHandler);
    fn release(&self, reason: Option<String>) -> BoxFuture<'_, ()>;
    fn pause(&self, reason: Option<String>) -> BoxFuture<'_, Result<(), ControlError>>;
    fn resume(&self, reason: Option<String>) -> BoxFuture<'_, Result<(), ControlError>>;
    fn fork(&self, fork: Fork) -> BoxFuture<'_, Result<(), ControlError>>;
    fn snapshot(&self) -> BoxFuture<'_, Result<Value, ControlError>>;
    fn flush(
        &self,
        id: Option<DeliveryId>,
    ) -> BoxFuture<'_, Result<Vec<MessageReceipt>, ControlError>>;
    fn cancel(
        &self,
        id: DeliveryId,
        reason: Option<String>,
    ) -> BoxFuture<'_, Result<(), ControlError>>;
}

impl<S: AgentSession> Served for S {
    fn receive_message(
        self: Arc<Self>,
        message: RelayMessage,
        ctx: MessageContext,
    ) -> BoxFuture<'static, Result<MessageReceipt, SessionError>> {
        Box::pin(async move { S::receive_message(&self, message, ctx).await })
    }

    fn on_event(self: Arc<Self>, handler: EventHandler) {
        S::on_event(&self, handler);
    }

    fn release(&self, reason: Option<String>) -> BoxFuture<'_, ()> {
        Box::pin(S::release(self, reason))
    }

    fn pause(&self, reason: Option<String>) -> BoxFuture<'_, Result<(), ControlError>> {
        Box::pin(S::pause(self, reason))
    }

    fn resume(&self, reason: Option<String>) -> BoxFuture<'_, Result<(), ControlError>> {
        Box::pin(S::resume(self, reason))
    }

    fn fork(&self, fork: Fork) -> BoxFuture<'_, Result<(), ControlError>> {
        Box::pin(S::fork(self, fork))
    }

    fn snapshot(&self) -> BoxFuture<'_, Result<Value, ControlError>> {
        Box::pin(S::snapshot(self))
    }

    fn flush(
        &self,
        id: Option<DeliveryId>,
    ) -> BoxFuture<'_, Result<Vec<MessageReceipt>, ControlError>> {
        Box::pin(S::flush(self, id))
    }

    fn cancel(
        &self,
        id: DeliveryId,
        reason: Option<String>,
    ) -> BoxFuture<'_, Result<(), ControlError>> {
        Box::pin(S::cancel(self, id, reason))
    }
}
