//! The link of sessions that are called: each delivery and each operation is one signed call, and the answer's
//! body says what became of it.
//!
//! One delivery is under way at a time, which the engine sees to; operations go beside it. A call that comes to
//! nothing, or whose answer is no receipt, is a failed attempt that is tried again: that the session has taken
//! a message is believed only if it says so. Nobody holds such a link open, so after a start the server makes
//! it again from what is stored.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use relay_core::environment::Environment;
use relay_core::link::{Deliver, LinkClosed, Parcel, SessionLink};
use relay_core::{Caller, Engine, Reach};
use relay_outbound::{Answer, Error, Outbound, Request};
use relay_protocol::delivery::{DOOR, FailedReceipt, MessageReceipt};
use relay_protocol::ids::{ControlId, DeliveryId, SessionId};
use relay_protocol::limits::REASON_BYTES;
use relay_protocol::link::{DeliverCall, LinkKind, SessionCall, WebhookLink};
use relay_protocol::problem::{ErrorCode, Problem};
use relay_protocol::session::{Attach, Attached};
use relay_protocol::socket::{ControlFrame, ControlResult, ReceiptFrame};
use relay_protocol::wire;
use relay_signature::Secret;
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access::{Access, Participant};
use crate::refusal::Refusal;

/// The door's name in receipts.
const WEBHOOK: &str = "webhook";
/// Key of a receipt's metadata: the status of the answer that it came in.
const HTTP_STATUS: &str = "httpStatus";
/// Random bytes of a secret that is made here.
const SECRET_BYTES: usize = 32;

/// What all calls need. It must not hold the engine, which holds the links.
pub(crate) struct Calls {
    pub(crate) engine: Weak<Engine>,
    pub(crate) environment: Environment,
    pub(crate) outbound: Outbound,
    pub(crate) tasks: TaskTracker,
    pub(crate) cut_off: CancellationToken,
}

/// The link of one session that is called.
struct CallLink {
    callee: Arc<Callee>,
    closed: AtomicBool,
}

/// A session, and how it is called.
struct Callee {
    calls: Arc<Calls>,
    url: String,
    secret: Secret,
    /// Whoever the answers come from.
    speaker: Caller,
}

/// Attaches a session that will be called.
pub(crate) async fn attach(
    by: &Access<Participant>,
    attach: Attach,
    webhook: WebhookLink,
) -> Result<Attached, Refusal> {
    let calls = by.app().calls();
    let allowed = calls.outbound.check(&webhook.url).await;
    allowed.map_err(|error| unusable("link.url", &error))?;
    let (text, made) = match webhook.secret {
        Some(text) => (text, false),
        None => (new_secret(&calls.environment), true),
    };
    let secret = Secret::parse(&text).map_err(|error| unusable("link.secret", &error))?;
    let webhook = WebhookLink {
        url: webhook.url,
        secret: Some(text.clone()),
    };
    let callee = Callee {
        calls: calls.clone(),
        url: webhook.url.clone(),
        secret,
        speaker: by.caller().clone(),
    };
    let reach = Reach {
        kind: LinkKind::Webhook,
        webhook: Some(webhook),
        link: Some(link(callee)),
    };
    let (mut attached, _) = by.engine().attach(by.caller(), attach, reach).await?;
    attached.webhook_secret = made.then_some(text);
    Ok(attached)
}

/// Gives all sessions their links that are called and were attached before the server was started.
pub(crate) async fn relink(engine: &Engine, calls: &Arc<Calls>) -> relay_core::Result<()> {
    for known in engine.webhook_sessions(&Caller::process_owner()).await? {
        let secret = known.webhook.secret.as_deref().map(Secret::parse);
        let Some(Ok(secret)) = secret else {
            tracing::error!(session.id = %known.session_id, "the stored secret can't be used");
            continue;
        };
        let callee = Callee {
            calls: calls.clone(),
            url: known.webhook.url,
            secret,
            speaker: known.speaker,
        };
        engine.relink(known.session_id, link(callee));
    }
    Ok(())
}

fn link(callee: Callee) -> Arc<CallLink> {
    Arc::new(CallLink {
        callee: Arc::new(callee),
        closed: AtomicBool::new(false),
    })
}

/// Without what was found: it is, or may hold, a secret.
pub(crate) fn unusable(path: &str, error: &impl ToString) -> Refusal {
    let mut problem = Problem::new(
        ErrorCode::InvalidRequest,
        format!("{path}: {}", error.to_string()),
    );
    problem.path = Some(path.to_owned());
    problem.into()
}

pub(crate) fn new_secret(environment: &Environment) -> String {
    let mut bytes = [0; SECRET_BYTES];
    environment.random.fill(&mut bytes);
    Secret::text(&bytes)
}

impl SessionLink for CallLink {
    fn carry(&self, parcel: Parcel) -> Result<(), LinkClosed> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(LinkClosed);
        }
        let callee = self.callee.clone();
        let tasks = &self.callee.calls.tasks;
        match parcel {
            Parcel::Deliver(deliver) => {
                tasks.spawn(async move { callee.deliver(*deliver).await });
            }
            Parcel::Control(control) => {
                tasks.spawn(async move { callee.control(*control).await });
            }
            // Only sockets handle actions.
            Parcel::Invoke(_) => return Err(LinkClosed),
            Parcel::Close(_) => self.closed.store(true, Ordering::Relaxed),
        }
        Ok(())
    }
}

impl Callee {
    async fn deliver(&self, deliver: Deliver) {
        let Deliver {
            session_id,
            message,
            context,
        } = deliver;
        let (id, epoch) = (context.id, context.epoch());
        // Without the engine the server is about to end; what was not handed over is offered again by the next one.
        let Some(engine) = self.calls.engine.upgrade() else {
            return;
        };
        let text = engine.text_for_model(&self.speaker, &message, &context);
        drop(engine);
        let call = SessionCall::Deliver(Box::new(DeliverCall {
            session_id,
            text,
            message,
            context,
        }));
        let Some(answer) = self.call(&id.to_string(), &call).await else {
            return;
        };
        let receipt = receipt_of(id, answer);
        if let Err(error) = self.store(session_id, id, epoch, receipt).await {
            let receipt = no_receipt(&format!("the answer can't be taken: {error}"), true);
            let _ = self.store(session_id, id, epoch, receipt).await;
        }
    }

    async fn store(
        &self,
        session: SessionId,
        delivery_id: DeliveryId,
        epoch: Option<u64>,
        receipt: MessageReceipt,
    ) -> relay_core::Result<()> {
        let Some(engine) = self.calls.engine.upgrade() else {
            return Ok(());
        };
        let frame = ReceiptFrame {
            delivery_id,
            epoch,
            receipt,
        };
        let stored = engine.receipt(&self.speaker, Some(session), frame);
        stored.await.map(drop).inspect_err(|error| {
            tracing::info!(session.id = %session, delivery.id = %delivery_id, %error, "a receipt was refused");
        })
    }

    async fn control(&self, control: ControlFrame) {
        let (id, session) = (control.control_id, control.session_id);
        let call = SessionCall::Control(Box::new(control));
        let Some(answer) = self.call(&id.to_string(), &call).await else {
            return;
        };
        let result = result_of(id, answer);
        if let Some(engine) = self.calls.engine.upgrade() {
            let told = engine.control_result(&self.speaker, session, result);
            if let Err(error) = told.await {
                tracing::info!(session.id = %session, control.id = %id, %error, "a result was refused");
            }
        }
    }

    /// Makes a call; nothing once the server has to end.
    async fn call(&self, id: &str, call: &impl Serialize) -> Option<Result<Answer, Error>> {
        let body = Bytes::from(serde_json::to_vec(call).ok()?);
        let now = self.calls.environment.clock.now().as_millis();
        let signed = self.secret.sign(id, now.unsigned_abs() / 1_000, &body);
        let mut request = Request::post_json(&self.url, body);
        signed.add_to(&mut request.headers);
        tokio::select! {
            answer = self.calls.outbound.call(request) => Some(answer),
            () = self.calls.cut_off.cancelled() => None,
        }
    }
}

/// What an answer to a delivery means.
fn receipt_of(id: DeliveryId, answer: Result<Answer, Error>) -> MessageReceipt {
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return no_receipt(&error.to_string(), error.is_retryable()),
    };
    let status = answer.status.as_u16();
    let mut receipt = if answer.status.is_success() {
        let read = wire::decode::<MessageReceipt>(&answer.body);
        read.unwrap_or_else(|error| {
            let found = format!("expected a receipt of {id} as the answer's body: {error}");
            no_receipt(&found, true)
        })
    } else {
        no_receipt(&format!("the session's server answered {status}"), true)
    };
    let metadata = receipt.metadata_mut().get_or_insert_default();
    metadata.insert(HTTP_STATUS.to_owned(), status.into());
    metadata.entry(DOOR).or_insert_with(|| WEBHOOK.into());
    receipt
}

/// The receipt of a call that brought none.
fn no_receipt(why: &str, retryable: bool) -> MessageReceipt {
    let mut reason = format!("{WEBHOOK}: {why}");
    reason.truncate(reason.floor_char_boundary(REASON_BYTES));
    let door = std::iter::once((DOOR.to_owned(), WEBHOOK.into()));
    MessageReceipt::Failed(FailedReceipt {
        delivery_id: None,
        reason,
        retryable: Some(retryable),
        metadata: Some(door.collect()),
    })
}

/// What an answer to an operation means.
fn result_of(id: ControlId, answer: Result<Answer, Error>) -> ControlResult {
    let failed = |why: String| ControlResult {
        control_id: id,
        ok: false,
        result: None,
        problem: Some(Box::new(Problem::new(ErrorCode::SessionUnreachable, why))),
    };
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return failed(error.to_string()),
    };
    if !answer.status.is_success() {
        return failed(format!(
            "the session's server answered {}",
            answer.status.as_u16()
        ));
    }
    match wire::decode::<ControlResult>(&answer.body) {
        Ok(result) if result.control_id == id => result,
        Ok(other) => failed(format!(
            "expected the result of {id}, found that of {}",
            other.control_id
        )),
        Err(error) => failed(format!("expected a result as the answer's body: {error}")),
    }
}

#[cfg(test)]
mod tests;
