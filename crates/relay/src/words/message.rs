//! Messages as people read them.

use relay_protocol::message::{RelayMessage, RelayMessageTarget};

use crate::moment::ago;
use crate::output::{Style, safe};

/// Who wrote a message.
pub(crate) fn author(message: &RelayMessage) -> String {
    let from = &message.from;
    match (&from.handle, &from.name) {
        (Some(handle), _) => handle.clone(),
        (None, Some(name)) => name.clone(),
        (None, None) => "somebody".to_owned(),
    }
}

/// Where a message is: a channel, an agent, a conversation.
pub(crate) fn place(message: &RelayMessage) -> String {
    let channel = message
        .channel
        .as_ref()
        .and_then(|channel| channel.name.as_ref());
    match (&message.to, channel) {
        (RelayMessageTarget::Channel(to), _) => format!("#{}", to.channel_name),
        (_, Some(channel)) => format!("#{channel}"),
        (RelayMessageTarget::Agent(to), None) => format!("@{}", to.agent_name),
        (RelayMessageTarget::Dm(_), None) => "a direct conversation".to_owned(),
        (RelayMessageTarget::GroupDm(_), None) => "a group conversation".to_owned(),
    }
}

/// Author, place, age and id on one line.
pub(crate) fn heading(style: &Style, message: &RelayMessage) -> String {
    let place = match &message.to {
        RelayMessageTarget::Dm(_) => String::new(),
        _ => format!(" in {}", place(message)),
    };
    let edited = match message.updated_at {
        Some(_) => ", edited",
        None => "",
    };
    format!(
        "{}{place} {}",
        style.strong(&author(message)),
        style.faint(&format!(
            "{}{edited}  {}",
            ago(message.created_at),
            message.id
        )),
    )
}

/// A message whole: heading, text, attachments.
pub(crate) fn message(style: &Style, message: &RelayMessage) -> String {
    let mut lines = vec![heading(style, message)];
    lines.extend(safe(&message.text).lines().map(|line| format!("  {line}")));
    for attachment in &message.attachments {
        let name = safe(attachment.name.as_deref().unwrap_or("attachment"));
        let line = format!(
            "  [{name}, {}, {} bytes]",
            attachment.media_type, attachment.size
        );
        lines.push(style.faint(&line));
    }
    lines.join("\n")
}
