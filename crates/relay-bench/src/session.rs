//! Sessions that the load plays: they take what comes and answer it at once, or never.

use std::borrow::Cow;
use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::wire::WebSocket;
use crate::world::Agent;

const DELIVER: &[u8] = br#"{"type":"deliver""#;
/// How an answer to one of our frames begins.
const ANSWER: &[u8] = br#"{"ref":"#;
const ERROR: &[u8] = br#"{"type":"error""#;

/// Opens a socket as an agent.
pub(crate) async fn connect(server: SocketAddr, token: &str) -> Result<WebSocket> {
    let mut socket = WebSocket::connect(server, "/v1/ws", token).await?;
    socket.expect(r#"{"type":"welcome""#).await?;
    Ok(socket)
}

/// Opens a socket and makes it the link of a session that takes everything at once.
pub(crate) async fn attach(server: SocketAddr, agent: &Agent) -> Result<WebSocket> {
    let mut socket = connect(server, &agent.token).await?;
    let attach = format!(
        r#"{{"type":"attach","agent":"{}","harness":"bench","capabilities":{{"messaging":{{"receive":true,"attachments":["text"]}},"delivery":{{"modes":["immediate"]}},"events":{{"emits":["status.changed"]}},"lifecycle":{{"release":true}}}}}}"#,
        agent.name
    );
    socket.say(&attach).await?;
    socket.expect(r#"{"type":"attached""#).await?;
    Ok(socket)
}

/// What a session does with what it is offered.
pub(crate) trait Handler: Send + 'static {
    /// A message came, in a frame of so many bytes. Says whether to answer that it was delivered.
    fn delivered(&mut self, bytes: usize) -> bool;

    /// The answer about a message of the sender with this number is stored.
    fn settled(&mut self, _sender: usize) {}
}

#[derive(Deserialize)]
struct Offer<'a> {
    #[serde(borrow)]
    message: Message<'a>,
    #[serde(borrow)]
    context: Context<'a>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    from: Author<'a>,
}

#[derive(Deserialize)]
struct Author<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Context<'a> {
    id: &'a str,
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    epoch: u64,
}

#[derive(Deserialize)]
struct Done<'a> {
    r#ref: usize,
    r#type: &'a str,
}

/// Serves a session until its socket ends.
pub(crate) async fn serve(mut socket: WebSocket, mut handler: impl Handler) -> Result<()> {
    loop {
        let frame = socket.next().await?;
        if frame.starts_with(DELIVER) {
            let offer: Offer<'_> = serde_json::from_slice(frame)?;
            let sender = number(&offer.message.from.name)?;
            if handler.delivered(frame.len()) {
                let receipt = receipt(&offer.context, sender);
                socket.queue(&receipt);
            }
        } else if frame.starts_with(ANSWER) {
            let done: Done<'_> = serde_json::from_slice(frame)?;
            if done.r#type != "ok" {
                bail!("a receipt was answered {}", String::from_utf8_lossy(frame));
            }
            handler.settled(done.r#ref);
        } else if frame.starts_with(ERROR) {
            bail!("a session was told {}", String::from_utf8_lossy(frame));
        }
        if !socket.has_more() {
            socket.flush().await?;
        }
    }
}

fn receipt(context: &Context<'_>, sender: usize) -> String {
    let (id, epoch) = (context.id, context.metadata.epoch);
    format!(
        r#"{{"type":"receipt","ref":{sender},"deliveryId":"{id}","epoch":{epoch},"receipt":{{"status":"delivered","deliveryId":"{id}","metadata":{{"door":"callback"}}}}}}"#
    )
}

/// The number at the end of a name.
fn number(name: &str) -> Result<usize> {
    let number = name.rsplit_once('-').and_then(|(_, it)| it.parse().ok());
    number.with_context(|| format!("{name:?} has no number"))
}
