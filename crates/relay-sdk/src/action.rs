//! Actions: operations that this process offers to agents, and calls of those that others offer.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use relay_protocol::action::{ActionCaller, AvailableTo, RegisterAction};
use relay_protocol::ids::InvocationId;
use relay_protocol::socket::{InvocationResult, InvokeFrame};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::socket::{Command, Commands, HandlerKey, WeakCommands};

/// What an action is called and takes, for [`Client::register_action`](crate::Client::register_action).
#[derive(Clone, Debug)]
pub struct Action {
    pub(crate) register: RegisterAction,
}

impl Action {
    /// An action whose input is this type: calls with anything else are refused before they get here.
    #[must_use]
    pub fn new<I: JsonSchema>(name: &str) -> Self {
        let settings = schemars::generate::SchemaSettings::draft2020_12().for_deserialize();
        let schema = settings
            .with(|settings| {
                settings.meta_schema = None;
                settings.inline_subschemas = true;
            })
            .into_generator()
            .into_root_schema_for::<I>();
        Self::with_schema(name, schema.to_value())
    }

    /// An action with a JSON Schema of its input.
    #[must_use]
    pub fn with_schema(name: &str, input_schema: Value) -> Self {
        Self {
            register: RegisterAction {
                name: name.to_owned(),
                description: None,
                input_schema,
                output_schema: None,
                available_to: None,
                notify_caller: None,
                at_most_once: None,
                timeout_ms: None,
            },
        }
    }

    /// Says what it does, for agents to read.
    #[must_use]
    pub fn description(mut self, text: &str) -> Self {
        self.register.description = Some(text.to_owned());
        self
    }

    /// The JSON Schema of its output.
    #[must_use]
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.register.output_schema = Some(schema);
        self
    }

    /// Who may call it. Default: every agent.
    #[must_use]
    pub fn available_to(mut self, who: impl IntoIterator<Item = AvailableTo>) -> Self {
        self.register.available_to = Some(who.into_iter().collect());
        self
    }

    /// Lets Relay write to the caller how each call ended.
    #[must_use]
    pub const fn notify_caller(mut self) -> Self {
        self.register.notify_caller = Some(true);
        self
    }

    /// A call that was given to a process that then went away fails; otherwise another process gets it.
    #[must_use]
    pub const fn at_most_once(mut self) -> Self {
        self.register.at_most_once = Some(true);
        self
    }

    /// How long a call may take. Default: 5 minutes.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        self.register.timeout_ms = Some(millis);
        self
    }
}

/// A call of an action.
#[derive(Clone, Debug)]
pub struct ActionCall {
    /// The call.
    pub invocation_id: InvocationId,
    /// The action's name.
    pub action: String,
    /// Who calls.
    pub agent: ActionCaller,
    /// What it is called with.
    pub input: Value,
}

impl ActionCall {
    /// The input as a type.
    pub fn input<I: DeserializeOwned>(&self) -> Result<I, ActionError> {
        serde_json::from_value(self.input.clone())
            .map_err(|error| ActionError::new(format!("input: {error}")))
    }
}

/// Why a call failed, as the caller is told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ActionError {
    /// What went wrong.
    pub message: String,
    /// Whether trying again may help, if that is known.
    pub retryable: Option<bool>,
}

impl ActionError {
    /// A failure with this message.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            retryable: None,
        }
    }
}

impl From<crate::Error> for ActionError {
    fn from(error: crate::Error) -> Self {
        Self {
            retryable: Some(error.is_retryable()),
            message: error.to_string(),
        }
    }
}

/// Handles an action for as long as it is kept, also when the client it was registered with is not; or until that is
/// closed.
#[must_use = "dropping this ends the handling"]
pub struct Handling {
    pub(crate) key: HandlerKey,
    pub(crate) commands: Commands,
}

impl Drop for Handling {
    fn drop(&mut self) {
        let _ = self.commands.send(Command::Unhandle(self.key));
    }
}

/// Begins a call.
pub(crate) type Run = Box<dyn Fn(InvokeFrame) + Send>;

/// A handler that tells the socket what it answers. One that panics has failed.
pub(crate) fn run<F, Fut>(handler: F, commands: WeakCommands) -> Run
where
    F: Fn(ActionCall) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Value, ActionError>> + Send + 'static,
{
    type Running = Pin<Box<dyn Future<Output = Result<Value, ActionError>> + Send>>;
    let handler = Arc::new(move |call: ActionCall| -> Running { Box::pin(handler(call)) });
    Box::new(move |frame| {
        let (handler, commands) = (handler.clone(), commands.clone());
        tokio::spawn(async move {
            let id = frame.invocation_id;
            let call = ActionCall {
                invocation_id: id,
                action: frame.action,
                agent: frame.agent,
                input: frame.input.unwrap_or_else(|| json!({})),
            };
            let running = tokio::spawn(async move { handler(call).await });
            let answer = running.await.unwrap_or_else(|_| {
                let message = "the handler ended without an answer";
                Err(ActionError::new(message))
            });
            if let Some(commands) = commands.upgrade() {
                let _ = commands.send(Command::Answered(Box::new(result(id, answer))));
            }
        });
    })
}

fn result(id: InvocationId, answer: Result<Value, ActionError>) -> InvocationResult {
    let (output, error, retryable) = match answer {
        Ok(output) => (Some(output), None, None),
        Err(error) => (None, Some(error.message), error.retryable),
    };
    InvocationResult {
        invocation_id: id,
        output,
        error,
        retryable,
    }
}
