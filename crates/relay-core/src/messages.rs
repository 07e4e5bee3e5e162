//! Messages: sending, replying, editing, reacting.

use std::sync::Arc;

use relay_protocol::agent::Metadata;
use relay_protocol::api::messages::{
    DeliverySummary, MessageSent, Reaction, ReplyMessage, SendMessage, SendTarget,
};
use relay_protocol::delivery::Priority;
use relay_protocol::event::ReactionChange;
use relay_protocol::ids::{MessageId, WebhookId};
use relay_protocol::limits::{
    EMOJI_BYTES, IDEMPOTENCY_KEY_CHARS, NAME_CHARS, RECIPIENTS_PER_SEND, TEXT_BYTES,
};
use relay_protocol::message::{AttachmentKind, RelayMessage};
use relay_protocol::names;
use relay_protocol::policy::RedactMessages;
use relay_protocol::render::clean;
use relay_protocol::time::Timestamp;
use relay_protocol::webhook::InboundMessage;
use sha2::{Digest as _, Sha256};

use crate::agents::check_metadata;
use crate::caller::Caller;
use crate::engine::{Engine, within};
use crate::error::{Error, Result};
use crate::store::chain::Hash;
use crate::store::requests::NewContent;
use crate::store::{
    Author, InboundRow, MessageEdit, NewAttachmentRow, NewMessage, ReactionRequest, SendRecord,
    Viewer, WorkspaceRow,
};

/// The author of what the workspace key sends.
pub(crate) const SYSTEM_NAME: &str = "relay";

impl Engine {
    /// Stores a message and one delivery for each recipient; answers once all of it is on disk.
    pub async fn send(&self, caller: &Caller, body: SendMessage) -> Result<MessageSent> {
        let record = self.send_record(caller, body).await?;
        self.sent(&record).await
    }

    /// Sends, and answers with the stored record itself.
    pub async fn send_record(&self, caller: &Caller, body: SendMessage) -> Result<Arc<SendRecord>> {
        check_target(&body.to)?;
        let idempotency = idempotency(body.idempotency_key.as_deref(), &body)?;
        let SendMessage { to, reply_to, .. } = &body;
        let route = Route {
            to: Some(to.clone()),
            reply_to: *reply_to,
            idempotency,
        };
        let reply = ReplyMessage {
            text: body.text,
            attachments: body.attachments,
            mode: body.mode,
            allow_downgrade: body.allow_downgrade,
            priority: body.priority,
            deadline: body.deadline,
            idempotency_key: body.idempotency_key,
            metadata: body.metadata,
        };
        let draft = self.draft(caller, route, reply)?;
        self.store_text_of(caller);
        self.store.send(draft).await
    }

    /// Answers a message in its thread.
    pub async fn reply(
        &self,
        caller: &Caller,
        message: MessageId,
        body: ReplyMessage,
    ) -> Result<MessageSent> {
        let idempotency = idempotency(body.idempotency_key.as_deref(), &(message, &body))?;
        let route = Route {
            to: None,
            reply_to: Some(message),
            idempotency,
        };
        let draft = self.draft(caller, route, body)?;
        self.store_text_of(caller);
        let record = self.store.send(draft).await?;
        self.sent(&record).await
    }

    /// Posts what comes in by a webhook, into its channel. It is shown as from outside, whatever name it gives itself.
    pub async fn receive(
        &self,
        caller: &Caller,
        id: WebhookId,
        body: InboundMessage,
        idempotency_key: Option<String>,
    ) -> Result<MessageSent> {
        let (workspace, inbound) = caller.inbound()?;
        if inbound.id != id {
            return Err(Error::UnknownWebhook(id));
        }
        if body.message.trim().is_empty() {
            return Err(Error::Invalid {
                path: "message",
                expected: "text".to_owned(),
                found: "an empty message".to_owned(),
            });
        }
        within("message", TEXT_BYTES, body.message.len())?;
        let idempotency = idempotency(idempotency_key.as_deref(), &body)?;
        let name = author_name(&body, inbound)?;
        let author = Author::Webhook(inbound.no, format!("{name} (via webhook)").into());
        let route = Route {
            to: Some(SendTarget::Channel(inbound.channel.clone())),
            reply_to: None,
            idempotency,
        };
        let workspace = self.newest(workspace);
        let body = ReplyMessage {
            text: body.message,
            attachments: None,
            mode: None,
            allow_downgrade: None,
            priority: None,
            deadline: None,
            idempotency_key,
            metadata: None,
        };
        let new = self.compose(&workspace, author, Vec::new(), route, body)?;
        let record = self.store.send(new).await?;
        self.sent(&record).await
    }

    /// Makes the answer of a send: its deliveries as they stood then, and what they wait for.
    async fn sent(&self, record: &SendRecord) -> Result<MessageSent> {
        let message = record.message().clone();
        let mut deliveries = record.deliveries();
        if record.replayed.is_some() {
            self.add_waits_of_before(record, &mut deliveries).await?;
        } else {
            let waits = self.runner.waits_of_send(record);
            for (delivery, waiting) in deliveries.iter_mut().zip(waits) {
                delivery.waiting = waiting;
            }
        }
        Ok(MessageSent {
            message_id: message.id,
            message,
            deliveries,
            notices: (!record.notices.is_empty()).then(|| record.notices.clone()),
        })
    }

    /// Adds to the first answer of a repeated send what those deliveries wait for that still do.
    async fn add_waits_of_before(
        &self,
        record: &SendRecord,
        deliveries: &mut [DeliverySummary],
    ) -> Result<()> {
        let viewer = Viewer {
            workspace_no: record.position.workspace_no(),
            agent: None,
        };
        let stories = self.store.deliveries(viewer, record.message().id).await?;
        let standings = self.runner.standings(&stories);
        for (story, (_, waiting)) in stories.iter().zip(standings) {
            let mut all = deliveries.iter_mut();
            if let Some(delivery) = all.find(|delivery| delivery.delivery_id == story.id) {
                delivery.waiting = waiting;
            }
        }
        Ok(())
    }

    fn draft(&self, caller: &Caller, route: Route, body: ReplyMessage) -> Result<NewMessage> {
        let author = match caller.agent() {
            Ok(agent) => Author::Agent(agent.no),
            Err(_) => Author::System(SYSTEM_NAME.into()),
        };
        let workspace = self.current(caller)?;
        let contents = self.contents(caller, body.attachments.clone())?;
        self.compose(&workspace, author, contents, route, body)
    }

    fn compose(
        &self,
        workspace: &WorkspaceRow,
        author: Author,
        contents: Vec<NewContent>,
        route: Route,
        body: ReplyMessage,
    ) -> Result<NewMessage> {
        let at = self.now();
        check_text(&body.text, !contents.is_empty())?;
        check_metadata(body.metadata.as_ref())?;
        let redact = workspace.policy.messages.redact;
        // Time and policy move on; they must not refuse the repetition of what was taken once.
        let objection = check_deadline(body.deadline, at).err();
        let mut content = MessageContent {
            text: body.text,
            metadata: body.metadata,
            attachments: contents,
        };
        let (redacted, objection) = match self.redact_content(redact, &mut content) {
            Ok(redacted) => (redacted, objection),
            Err(refused) => {
                content = MessageContent::default();
                (false, objection.or(Some(refused)))
            }
        };
        let MessageContent {
            text,
            metadata,
            attachments,
        } = content;
        Ok(NewMessage {
            workspace_no: workspace.no,
            at,
            author,
            to: route.to,
            reply_to: route.reply_to,
            mentions: names::mentions(&text),
            text,
            attachments,
            metadata,
            mode: body.mode,
            allow_downgrade: body.allow_downgrade.unwrap_or(false),
            priority: body.priority.unwrap_or(Priority::Normal),
            deadline: body.deadline,
            idempotency: route.idempotency,
            redacted,
            objection,
            reason: None,
        })
    }

    /// Applies the workspace's policy to everything in a message that models or people read; says whether that changed it.
    fn redact_content(&self, policy: RedactMessages, content: &mut MessageContent) -> Result<bool> {
        let text = std::mem::take(&mut content.text);
        let (text, mut redacted) = self.apply_redaction(policy, text)?;
        content.text = text;
        if let Some(metadata) = &mut content.metadata {
            redacted |= self.redact_metadata(policy, metadata)?;
        }
        for attachment in &mut content.attachments {
            if let NewContent::Inline(row) = attachment {
                redacted |= self.redact_attachment(policy, row)?;
            }
        }
        Ok(redacted)
    }

    /// Applies the policy to metadata; says whether that changed it.
    fn redact_metadata(&self, policy: RedactMessages, metadata: &mut Metadata) -> Result<bool> {
        if policy == RedactMessages::Off {
            return Ok(false);
        }
        let mut value = serde_json::Value::Object(metadata.clone());
        if !self.redactor.redact_json(&mut value) {
            return Ok(false);
        }
        if policy == RedactMessages::Refuse {
            return Err(Error::SecretRefused);
        }
        if let serde_json::Value::Object(masked) = value {
            *metadata = masked;
        }
        Ok(true)
    }

    /// Applies the policy to the name of an attachment and, if it is text, to its content; says whether that changed it.
    pub(crate) fn redact_attachment(
        &self,
        policy: RedactMessages,
        row: &mut NewAttachmentRow,
    ) -> Result<bool> {
        let mut redacted = false;
        if let Some(name) = row.name.take() {
            let (name, changed) = self.apply_redaction(policy, name)?;
            row.name = Some(name);
            redacted = changed;
        }
        if row.kind == AttachmentKind::Text
            && let Ok(text) = std::str::from_utf8(&row.data)
        {
            let (text, changed) = self.apply_redaction(policy, text.to_owned())?;
            if changed {
                row.data = text.into_bytes();
                redacted = true;
            }
        }
        Ok(redacted)
    }

    /// What the workspace's policy makes of a text, and whether that changed it.
    fn apply_redaction(&self, policy: RedactMessages, text: String) -> Result<(String, bool)> {
        match policy {
            RedactMessages::Off => Ok((text, false)),
            RedactMessages::Mask => match self.redactor.redact(&text) {
                std::borrow::Cow::Borrowed(_) => Ok((text, false)),
                std::borrow::Cow::Owned(masked) => Ok((masked, true)),
            },
            RedactMessages::Refuse if self.redactor.contains_secret(&text) => {
                Err(Error::SecretRefused)
            }
            RedactMessages::Refuse => Ok((text, false)),
        }
    }

    /// Replaces a message's text. Only its author can; waiting deliveries will show the new text.
    pub async fn edit_message(
        &self,
        caller: &Caller,
        message: MessageId,
        text: String,
    ) -> Result<Arc<RelayMessage>> {
        let workspace = self.current(caller)?;
        check_text(&text, false)?;
        let (text, _) = self.apply_redaction(workspace.policy.messages.redact, text)?;
        let mentions = names::mentions(&text);
        let viewer = caller.viewer()?;
        let edit = MessageEdit {
            viewer,
            message,
            text,
            mentions,
            at: self.now(),
        };
        self.store.edit_message(edit).await
    }

    /// Adds a reaction; adding it again changes nothing.
    pub async fn react(
        &self,
        caller: &Caller,
        message: MessageId,
        emoji: &str,
    ) -> Result<Vec<Reaction>> {
        self.change_reaction(caller, message, emoji, ReactionChange::Added)
            .await
    }

    /// Takes a reaction back; taking back what is not there changes nothing.
    pub async fn unreact(
        &self,
        caller: &Caller,
        message: MessageId,
        emoji: &str,
    ) -> Result<Vec<Reaction>> {
        self.change_reaction(caller, message, emoji, ReactionChange::Removed)
            .await
    }

    async fn change_reaction(
        &self,
        caller: &Caller,
        message: MessageId,
        emoji: &str,
        change: ReactionChange,
    ) -> Result<Vec<Reaction>> {
        let agent = caller.agent()?;
        check_emoji(emoji)?;
        self.store
            .react(ReactionRequest {
                workspace_no: agent.workspace_no,
                agent: agent.no,
                message,
                emoji: emoji.to_owned(),
                change,
                at: self.now(),
            })
            .await
    }
}

/// What the author of a message from outside is called.
fn author_name(body: &InboundMessage, inbound: &InboundRow) -> Result<String> {
    let given = body.author.as_deref().or(inbound.name.as_deref());
    let name = given.map(clean).unwrap_or_default();
    let name = name.trim();
    within("author", NAME_CHARS, name.chars().count())?;
    Ok(match name {
        "" => "somebody".to_owned(),
        name => name.replace('\n', " "),
    })
}

/// What is in a message.
#[derive(Default)]
struct MessageContent {
    text: String,
    metadata: Option<Metadata>,
    attachments: Vec<NewContent>,
}

/// Where a send goes and how a repetition of it is known.
struct Route {
    to: Option<SendTarget>,
    reply_to: Option<MessageId>,
    idempotency: Option<(String, Hash)>,
}

fn check_text(text: &str, has_content: bool) -> Result<()> {
    if text.trim().is_empty() && !has_content {
        return Err(Error::EmptyText);
    }
    if text.len() > TEXT_BYTES {
        return Err(Error::TextTooLong {
            most: TEXT_BYTES,
            found: text.len(),
        });
    }
    Ok(())
}

fn check_target(to: &SendTarget) -> Result<()> {
    match to {
        SendTarget::Agents(names) => within("to", RECIPIENTS_PER_SEND, names.len()),
        _ => Ok(()),
    }
}

pub(crate) fn check_deadline(deadline: Option<Timestamp>, now: Timestamp) -> Result<()> {
    match deadline {
        Some(deadline) if deadline <= now => Err(Error::Invalid {
            path: "deadline",
            expected: format!("a time after {now}"),
            found: deadline.to_string(),
        }),
        _ => Ok(()),
    }
}

fn check_emoji(emoji: &str) -> Result<()> {
    if emoji.is_empty() || emoji.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(Error::Invalid {
            path: "emoji",
            expected: "an emoji such as :rocket:, without spaces".to_owned(),
            found: format!("{emoji:?}"),
        });
    }
    within("emoji", EMOJI_BYTES, emoji.len())
}

/// The key and the hash of the request that it stands for, as it came in.
pub(crate) fn idempotency(
    key: Option<&str>,
    body: &impl serde::Serialize,
) -> Result<Option<(String, Hash)>> {
    let Some(key) = key else { return Ok(None) };
    if key.is_empty() {
        return Err(Error::Invalid {
            path: "idempotencyKey",
            expected: format!("1 to {IDEMPOTENCY_KEY_CHARS} characters"),
            found: "none".to_owned(),
        });
    }
    within("idempotencyKey", IDEMPOTENCY_KEY_CHARS, key.chars().count())?;
    let bytes = serde_json::to_vec(body).unwrap_or_default();
    Ok(Some((key.to_owned(), Sha256::digest(bytes).into())))
}
