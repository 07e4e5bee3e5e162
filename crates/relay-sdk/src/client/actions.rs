//! Actions: offering them, finding them, calling them.

use relay_protocol::action::{
    ActionInfo, CompleteInvocation, FailInvocation, Invocation, InvokeAction, Invoked,
};
use relay_protocol::api::Page;
use relay_protocol::ids::InvocationId;
use serde_json::Value;
use tokio::sync::oneshot;

use super::{Client, page, part};
use crate::action::{Action, ActionCall, ActionError, Handling, run};
use crate::error::{Error, Result};
use crate::http::Call;
use crate::key::new_key;
use crate::socket::{Command, HandlerKey, NewHandler};

impl Client {
    /// Registers an action, and runs its calls here until the [`Handling`] is dropped. Registered by an agent it
    /// is a tool for others; registered by the workspace it is not.
    ///
    /// Calls come over the socket, several at a time. Each is run once in this process, however often the connection is
    /// lost; after a loss of this process another one that handles the action gets it.
    pub async fn register_action<F, Fut>(&self, action: Action, handler: F) -> Result<Handling>
    where
        F: Fn(ActionCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Value, ActionError>> + Send + 'static,
    {
        let commands = self.commands();
        let key = HandlerKey::next();
        let (ready, is_ready) = oneshot::channel();
        let new = NewHandler {
            key,
            register: action.register,
            run: run(handler, commands.downgrade()),
            ready,
        };
        let handling = Handling {
            key,
            commands: commands.clone(),
        };
        let sent = commands.send(Command::Handle(Box::new(new)));
        sent.map_err(|_| Error::Closed)?;
        let patience = self.http().options.patience;
        match tokio::time::timeout(patience, is_ready).await {
            Ok(ready) => ready.map_err(|_| Error::Closed)?.map(|()| handling),
            Err(_) => Err(Error::TimedOut(patience)),
        }
    }

    /// The actions that this credential may call or has registered, by name. `cursor` is the `nextCursor` of the
    /// page before.
    pub async fn actions(&self, cursor: Option<&str>) -> Result<Page<ActionInfo>> {
        let path = page("/v1/actions", cursor);
        self.http().json(Call::get(path)).await
    }

    /// Takes an action back; its open calls fail.
    pub async fn unregister_action(&self, name: &str) -> Result<()> {
        let path = format!("/v1/actions/{}", part(name));
        self.http().done(Call::delete(path)).await
    }

    /// Calls an action. How it ended is told by events, and by [`Client::invocation`].
    ///
    /// It carries a key of its own, so that it is recorded once however often the request has to be sent.
    pub async fn invoke(&self, name: &str, input: Value) -> Result<InvocationId> {
        self.invoke_under(name, input, new_key()).await
    }

    /// Calls an action under an idempotency key: the same key and input give the first call again, also from another process.
    pub async fn invoke_with_key(
        &self,
        name: &str,
        input: Value,
        key: impl Into<String> + Send,
    ) -> Result<InvocationId> {
        self.invoke_under(name, input, Some(key.into())).await
    }

    async fn invoke_under(
        &self,
        name: &str,
        input: Value,
        key: Option<String>,
    ) -> Result<InvocationId> {
        let path = format!("/v1/actions/{}/invoke", part(name));
        let body = InvokeAction { input: Some(input) };
        let call = Call::post(path, &body).keyed(key);
        let invoked: Invoked = self.http().json(call).await?;
        Ok(invoked.invocation_id)
    }

    /// One call, and how it stands.
    pub async fn invocation(&self, id: InvocationId) -> Result<Invocation> {
        self.http()
            .json(Call::get(format!("/v1/invocations/{id}")))
            .await
    }

    /// Says that a call ended well, for those who handle it without [`Client::register_action`].
    pub async fn complete_invocation(
        &self,
        id: InvocationId,
        output: Option<Value>,
    ) -> Result<Invocation> {
        let path = format!("/v1/invocations/{id}/complete");
        // The same answer again changes nothing.
        let call = Call::post(path, &CompleteInvocation { output }).repeatable();
        self.http().json(call).await
    }

    /// Says that a call failed, for those who handle it without [`Client::register_action`].
    pub async fn fail_invocation(
        &self,
        id: InvocationId,
        error: ActionError,
    ) -> Result<Invocation> {
        let path = format!("/v1/invocations/{id}/fail");
        let body = FailInvocation {
            error: error.message,
            retryable: error.retryable,
        };
        let call = Call::post(path, &body).repeatable();
        self.http().json(call).await
    }
}
