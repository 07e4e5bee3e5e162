//! `relay webhook listen`: a receiver on this machine that verifies and prints what arrives.
//!
//! It listens on the loopback address only. A call is answered once it was printed: with 204, or what was asked for, if
//! it is an event that the secret signed; with 401 if it is not signed, or by somebody else; with 400 if it is no event. With
//! events it makes a webhook that calls it, and removes that when it ends, however it ends, but for `kill -9`.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use clap::Args;
use relay_protocol::event::LoggedEvent;
use relay_protocol::ids::WebhookId;
use relay_protocol::selector::Filter;
use relay_protocol::wire;
use relay_sdk::{ErrorCode, VerifyError, WebhookCreated, WebhookError, WebhookVerifier};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

use super::SecretArgument;
use crate::contact::{Contact, in_runtime};
use crate::failure::{Exit, Failure, Outcome};
use crate::hints;
use crate::literal;
use crate::output::{Output, Style, one_line};
use crate::platform::{self, StopSignal};
use crate::words;

pub(super) const EXAMPLES: &str = "\
Examples:
  relay webhook listen --event message.created       subscribes itself while it listens
  relay webhook listen --event '*' --answer 500      to see how events are sent again
  RELAY_WEBHOOK_SECRET=whsec_… relay webhook listen --port 8080
  relay webhook listen --count 1 --json

Without --secret and --event, signatures are not checked. With --event the server has to be allowed to call this machine: RELAY_OUTBOUND_ALLOW=127.0.0.1 relay up. Ctrl-C ends it, and \
removes the webhook that it has made.";

/// How long calls that have begun may take to end.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

#[derive(Args)]
pub(crate) struct ListenArguments {
    /// The port [default: a free one]
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        hide_default_value = true
    )]
    port: u16,
    #[command(flatten)]
    secret: SecretArgument,
    /// Have the server call it for events of this name or pattern; any number of them
    #[arg(long, value_name = "EVENT")]
    event: Vec<String>,
    /// A filter that must hold as well
    #[arg(long, value_name = "JSON", value_parser = literal::filter, requires = "event")]
    filter: Option<Filter>,
    /// How the server reaches this machine, such as by a tunnel [default: http://127.0.0.1:PORT/]
    #[arg(long, requires = "event")]
    url: Option<String>,
    /// What good calls are answered with
    #[arg(long, value_name = "STATUS", default_value_t = 204,
        value_parser = clap::value_parser!(u16).range(200..600))]
    answer: u16,
    /// End after so many calls
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

impl ListenArguments {
    /// Whether it makes the webhook that calls it.
    pub(super) fn subscribes(&self) -> bool {
        !self.event.is_empty()
    }
}

/// Listens for a webhook that somebody else has made.
pub(super) fn alone(arguments: &ListenArguments, output: &Output) -> Outcome {
    in_runtime(async {
        let verifier = arguments.secret.given().map(verifier).transpose()?;
        let stop = StopSignal::listen()?;
        let door = Door::open(arguments.port).await?;
        begun(&door, None, output)?;
        if verifier.is_none() {
            output.note("signatures are not checked: say with --secret what signs the calls");
        }
        receive(door, verifier, arguments, stop, output).await
    })
}

/// Makes a webhook that calls this process, for as long as that listens.
pub(super) async fn subscribed(
    arguments: &ListenArguments,
    contact: &Contact,
    output: &Output,
) -> Outcome {
    // Before the webhook is made: from then on it has to be removed.
    let stop = StopSignal::listen()?;
    let door = Door::open(arguments.port).await?;
    let created = subscribe(arguments, &door, contact).await?;
    let received = async {
        begun(&door, Some(&created), output)?;
        let verifier = verifier(&created.secret)?;
        receive(door, Some(verifier), arguments, stop, output).await
    };
    let received = received.await;
    match contact.relay.webhooks().delete(created.id).await {
        Err(error) if error.code() != Some(ErrorCode::UnknownWebhook) => {
            Err(left_behind(created.id, error.into()))
        }
        _ => received,
    }
}

fn left_behind(webhook: WebhookId, failure: Failure) -> Failure {
    let remove = hints::command(&format!("webhook remove {webhook}"));
    let why = failure.message().to_owned();
    failure.saying(format!(
        "the webhook is still there, which `{remove}` removes: {why}"
    ))
}

async fn subscribe(
    arguments: &ListenArguments,
    door: &Door,
    contact: &Contact,
) -> Outcome<WebhookCreated> {
    let url = arguments.url.as_ref().unwrap_or(&door.url);
    let mut subscribing = contact.relay.webhooks().subscribe(url, &arguments.event);
    if let Some(filter) = &arguments.filter {
        subscribing = subscribing.filter(filter.clone());
    }
    if let Some(secret) = arguments.secret.given() {
        subscribing = subscribing.secret(secret);
    }
    Ok(subscribing.await?)
}

fn verifier(secret: &str) -> Outcome<WebhookVerifier> {
    WebhookVerifier::new(secret).map_err(|error| Failure::usage(format!("--secret: {error}")))
}

/// A port of this machine that nobody else gets to.
struct Door {
    listener: TcpListener,
    url: String,
}

impl Door {
    async fn open(port: u16) -> Outcome<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let bound = async {
            let listener = TcpListener::bind(address).await?;
            let url = format!("http://{}/", listener.local_addr()?);
            Ok(Self { listener, url })
        };
        bound.await.map_err(|error: std::io::Error| {
            let message = format!("{address} can't be listened at: {error}");
            Failure::new(Exit::Failed, "failed", message)
                .next("choose another --port, or leave it out for a free one")
        })
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Begun<'a> {
    listening: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    webhook_id: Option<WebhookId>,
}

fn begun(door: &Door, created: Option<&WebhookCreated>, output: &Output) -> Outcome {
    let begun = Begun {
        listening: &door.url,
        webhook_id: created.map(|created| created.id),
    };
    output.show(&begun, |style| {
        let listening = format!("listening at {}", style.strong(&door.url));
        match created {
            Some(created) => format!(
                "{listening}\nwebhook {} calls it for {}, until this ends",
                created.id,
                created.events.join(", ")
            ),
            None => listening,
        }
    })
}

/// Whether a call is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Signature {
    Valid,
    Missing,
    Wrong,
    Unchecked,
}

/// A call that came, and what it is answered with.
#[derive(Serialize)]
struct Arrived {
    answered: u16,
    signature: Signature,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<LoggedEvent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// What calls are measured by.
struct Receiver {
    verifier: Option<WebhookVerifier>,
    answer: StatusCode,
    arrivals: mpsc::Sender<(Arrived, oneshot::Sender<()>)>,
}

/// Prints what arrives, until there was enough or somebody ends it; the last answers are given in any case.
async fn receive(
    door: Door,
    verifier: Option<WebhookVerifier>,
    arguments: &ListenArguments,
    stop: StopSignal,
    output: &Output,
) -> Outcome {
    let (queue, mut arrivals) = mpsc::channel(1);
    let receiver = Receiver {
        verifier,
        answer: StatusCode::from_u16(arguments.answer).unwrap_or(StatusCode::NO_CONTENT),
        arrivals: queue,
    };
    let router = Router::new()
        .fallback(post(take))
        .with_state(Arc::new(receiver));
    let (end, ended) = oneshot::channel::<()>();
    let serving = axum::serve(door.listener, router).with_graceful_shutdown(async {
        let _ = ended.await;
    });
    let serving = tokio::spawn(serving.into_future());
    let printed = tokio::select! {
        printed = print(&mut arrivals, arguments.count, output) => printed,
        () = stop.come() => Err(Failure::interrupted("stopped")),
        () = platform::nobody_reads() => Err(Failure::nobody_reads()),
    };
    // Whoever is not printed any more is refused, and comes again.
    drop((arrivals, end));
    let _ = tokio::time::timeout(LAST_ANSWERS, serving).await;
    printed
}

async fn print(
    arrivals: &mut mpsc::Receiver<(Arrived, oneshot::Sender<()>)>,
    count: Option<u64>,
    output: &Output,
) -> Outcome {
    let mut left = count.unwrap_or(u64::MAX);
    while left > 0 {
        let Some((arrived, is_printed)) = arrivals.recv().await else {
            break;
        };
        output.show(&arrived, |style| arrived.told(style))?;
        let _ = is_printed.send(());
        left -= 1;
    }
    Ok(())
}

/// Takes a call, and answers it once it was printed.
async fn take(
    State(receiver): State<Arc<Receiver>>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let arrived = receiver.look(&headers, &body);
    let answered = StatusCode::from_u16(arrived.answered);
    let (printed, is_printed) = oneshot::channel();
    let queued = receiver.arrivals.send((arrived, printed)).await;
    match (queued, is_printed.await, answered) {
        (Ok(()), Ok(()), Ok(answered)) => answered,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    }
}

impl Receiver {
    fn look(&self, headers: &HeaderMap, body: &[u8]) -> Arrived {
        let (good, read) = match &self.verifier {
            Some(verifier) => (Signature::Valid, verifier.verify(headers, body)),
            None => (
                Signature::Unchecked,
                wire::decode_lenient(body).map_err(WebhookError::Unreadable),
            ),
        };
        let error = match read {
            Ok(event) => {
                return Arrived {
                    answered: self.answer.as_u16(),
                    signature: good,
                    event: Some(event),
                    error: None,
                };
            }
            Err(error) => error,
        };
        let (answered, signature) = match &error {
            WebhookError::Unreadable(_) => (StatusCode::BAD_REQUEST, good),
            WebhookError::Signature(VerifyError::Missing(_)) => {
                (StatusCode::UNAUTHORIZED, Signature::Missing)
            }
            WebhookError::Signature(_) => (StatusCode::UNAUTHORIZED, Signature::Wrong),
        };
        Arrived {
            answered: answered.as_u16(),
            signature,
            event: None,
            error: Some(error.to_string()),
        }
    }
}

impl Arrived {
    /// The call on one line: the answer, whether it is signed, and the event.
    fn told(&self, style: &Style) -> String {
        let error = one_line(self.error.as_deref().unwrap_or_default());
        let found = match (&self.event, self.signature) {
            (Some(event), Signature::Valid) => {
                let event = words::event(style, event);
                format!("{} {event}", style.good("signed"))
            }
            (Some(event), _) => {
                let event = words::event(style, event);
                format!("{} {event}", style.open("unchecked"))
            }
            (None, Signature::Missing) => style.bad(&format!("refused, not signed: {error}")),
            (None, Signature::Wrong) => style.bad(&format!("refused, wrong signature: {error}")),
            (None, _) => style.bad(&format!("refused, no event: {error}")),
        };
        format!("{} {found}", style.faint(&self.answered.to_string()))
    }
}
