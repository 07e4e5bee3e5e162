//! Actions: named operations that one process offers and agents call. `docs/actions.md` has the picture.

mod validators;

use std::sync::Arc;

use relay_protocol::action::{
    ActionInfo, CompleteInvocation, FailInvocation, Invocation, InvocationState, InvokeAction,
    Invoked as Answer, RegisterAction,
};
use relay_protocol::api::Page;
use relay_protocol::ids::InvocationId;
use relay_protocol::limits::{ACTION_TIMEOUT_MS, ACTION_VALUE_BYTES, REASON_BYTES, TEXT_BYTES};
use relay_protocol::problem::{ErrorCode, Problem};
use serde_json::Value;

pub(crate) use self::validators::Validators;
use crate::caller::Caller;
use crate::engine::{Engine, PageQuery, within};
use crate::error::{Error, Result};
use crate::messages::idempotency;
use crate::runner::HandlerId;
use crate::runner::link::SessionLink;
use crate::store::{
    ActionQuery, ActionRemoval, ActionRow, InvocationEnd, InvocationOutcome, InvocationRow,
    Invoked, NewAction, NewInvocation,
};

/// How often a call looks at its action again that changes all the time.
const LOOKS: usize = 8;

impl Engine {
    /// Registers an action, or replaces what the same owner registered under its name.
    pub async fn register_action(
        &self,
        caller: &Caller,
        body: RegisterAction,
    ) -> Result<ActionInfo> {
        let row = self.register(caller, body).await?;
        Ok(self.action_info(&row))
    }

    /// Registers an action, and gives calls of it to this link from now on, until [`Engine::handler_gone`].
    pub async fn handle_action(
        &self,
        caller: &Caller,
        body: RegisterAction,
        link: Arc<dyn SessionLink>,
    ) -> Result<(ActionInfo, HandlerId)> {
        let row = self.register(caller, body).await?;
        let handler = self.runner.handler_came(row.no, link);
        Ok((self.action_info(&row), handler))
    }

    /// A link that gets calls of an action is gone.
    pub fn handler_gone(&self, handler: HandlerId) {
        self.runner.handler_lost(handler);
    }

    async fn register(&self, caller: &Caller, body: RegisterAction) -> Result<Arc<ActionRow>> {
        let viewer = caller.viewer()?;
        let refused = |problem: Problem| Error::Refused(Box::new(problem));
        body.check().map_err(|error| refused(error.into()))?;
        Validators::check(&body).map_err(|error| refused(error.into()))?;
        let at = self.now();
        self.store
            .register_action(NewAction { viewer, body, at })
            .await
    }

    /// Takes an action back: its open calls fail.
    pub async fn remove_action(&self, caller: &Caller, name: &str) -> Result<()> {
        let removal = ActionRemoval {
            viewer: caller.viewer()?,
            name: name.to_owned(),
            at: self.now(),
        };
        self.store.remove_action(removal).await
    }

    /// The actions that the caller may call or has registered, by name; the workspace sees all.
    pub async fn actions(&self, caller: &Caller, page: PageQuery) -> Result<Page<ActionInfo>> {
        self.list_actions(caller, page, false).await
    }

    /// Those of [`Engine::actions`] that agents have registered: the ones that are tools for others.
    pub async fn tools(&self, caller: &Caller, page: PageQuery) -> Result<Page<ActionInfo>> {
        self.list_actions(caller, page, true).await
    }

    async fn list_actions(
        &self,
        caller: &Caller,
        page: PageQuery,
        of_agents: bool,
    ) -> Result<Page<ActionInfo>> {
        let query = ActionQuery {
            viewer: caller.reader()?,
            of_agents,
            page: page.request()?,
        };
        let found = self.store.actions(query).await?;
        Ok(Page {
            items: found
                .items
                .iter()
                .map(|row| self.action_info(row))
                .collect(),
            next_cursor: found.next_cursor,
        })
    }

    /// Calls an action: answers once the call is written down, before anybody runs it. The same idempotency key and input give
    /// the first call again.
    pub async fn invoke(
        &self,
        caller: &Caller,
        name: &str,
        body: InvokeAction,
        key: Option<&str>,
    ) -> Result<Answer> {
        let viewer = caller.viewer()?;
        check_size("input", body.input.as_ref())?;
        self.store_text_of(caller);
        for _ in 0..LOOKS {
            let action = self.store.action(viewer.workspace_no, name).await?;
            let fault = self.validators.fault(&action, body.input.as_ref());
            let new = NewInvocation {
                viewer,
                input: body.input.clone(),
                fault: fault.as_ref().map(|fault| fault.to_string()),
                offered: self.runner.is_ready(action.no),
                idempotency: idempotency(key, &(&action.body.name, &body))?,
                action,
                at: self.now(),
            };
            let row = match self.store.invoke(new).await? {
                Invoked::Stored(row) => row,
                Invoked::Repeated(invocation_id) => return Ok(Answer { invocation_id }),
                Invoked::Changed => continue,
            };
            return match row.state {
                InvocationState::Denied => Err(refused(ErrorCode::Forbidden, &row)),
                InvocationState::Failed => {
                    let fault = fault.map(Problem::from);
                    let problem = fault.ok_or_else(|| refused(ErrorCode::InvalidRequest, &row))?;
                    Err(Error::Refused(Box::new(problem)))
                }
                _ => Ok(Answer {
                    invocation_id: row.id(),
                }),
            };
        }
        Err(crate::error::StorageError::Busy.into())
    }

    /// One call, for its caller, whoever may answer it, and the workspace.
    pub async fn invocation(&self, caller: &Caller, id: InvocationId) -> Result<Invocation> {
        let row = self.store.invocation(caller.reader()?, id).await?;
        Ok(row.to_invocation())
    }

    /// A handler says that a call ended well. An output that does not fit the action's schema is a failure.
    pub async fn complete_invocation(
        &self,
        caller: &Caller,
        id: InvocationId,
        body: CompleteInvocation,
    ) -> Result<Invocation> {
        check_size("output", body.output.as_ref())?;
        self.store_text_of(caller);
        let row = self.store.invocation(caller.viewer()?, id).await?;
        let action = self.store.action(caller.workspace()?.no, &row.name).await;
        let fault = action.ok().filter(|action| action.no == row.action);
        let fault =
            fault.and_then(|action| self.validators.output_fault(&action, body.output.as_ref()));
        let outcome = match fault {
            None => InvocationOutcome::Completed {
                output: body.output,
            },
            Some(fault) => InvocationOutcome::Failed {
                error: fault.to_string(),
                retryable: Some(false),
            },
        };
        self.end_invocation(caller, &row, outcome).await
    }

    /// A handler says that a call failed.
    pub async fn fail_invocation(
        &self,
        caller: &Caller,
        id: InvocationId,
        body: FailInvocation,
    ) -> Result<Invocation> {
        within("error", REASON_BYTES, body.error.len())?;
        self.store_text_of(caller);
        let row = self.store.invocation(caller.viewer()?, id).await?;
        let outcome = InvocationOutcome::Failed {
            error: body.error,
            retryable: body.retryable,
        };
        self.end_invocation(caller, &row, outcome).await
    }

    async fn end_invocation(
        &self,
        caller: &Caller,
        row: &InvocationRow,
        outcome: InvocationOutcome,
    ) -> Result<Invocation> {
        let viewer = caller.viewer()?;
        let told = row.notify_caller.then(|| self.told(&row.name, &outcome));
        let end = InvocationEnd {
            viewer: Some(viewer),
            call: row.position,
            told,
            outcome,
            at: self.now(),
        };
        Ok(self.store.end_invocation(end).await?.to_invocation())
    }

    /// What the caller reads of the end of a call. Secrets never go into a message this way, whatever the
    /// policy says of those that somebody writes.
    fn told(&self, action: &str, outcome: &InvocationOutcome) -> String {
        let text = told(action, outcome);
        self.redactor.redact(&text).into_owned()
    }

    fn action_info(&self, row: &ActionRow) -> ActionInfo {
        let body = &row.body;
        ActionInfo {
            name: body.name.clone(),
            description: body.description.clone(),
            input_schema: body.input_schema.clone(),
            output_schema: body.output_schema.clone(),
            available_to: body.available_to.clone(),
            notify_caller: body.notify_caller.unwrap_or(false),
            at_most_once: body.at_most_once.unwrap_or(false),
            timeout_ms: body.timeout_ms.unwrap_or(ACTION_TIMEOUT_MS),
            owner: row.owner.as_ref().map(|owner| owner.name.clone()),
            handlers: u32::try_from(self.runner.handlers(row.no)).unwrap_or(u32::MAX),
            created_at: row.created_at,
        }
    }
}

/// How the end of a call is told in words.
pub(crate) fn told(action: &str, outcome: &InvocationOutcome) -> String {
    let text = match outcome {
        InvocationOutcome::Completed { output: None } => format!("The action {action} completed."),
        InvocationOutcome::Completed {
            output: Some(output),
        } => format!("The action {action} completed: {output}"),
        InvocationOutcome::Failed { error, .. } => format!("The action {action} failed: {error}"),
    };
    match text.char_indices().nth(TEXT_BYTES / 4) {
        // Whoever wants all of it asks for the invocation.
        Some((end, _)) => format!("{} [...]", &text[..end]),
        None => text,
    }
}

fn check_size(what: &'static str, value: Option<&Value>) -> Result<()> {
    let size = value.map_or(0, |value| value.to_string().len());
    within(what, ACTION_VALUE_BYTES, size)
}

fn refused(code: ErrorCode, row: &InvocationRow) -> Error {
    let why = row.error.clone().unwrap_or_default();
    Error::Refused(Box::new(Problem::new(code, why)))
}
