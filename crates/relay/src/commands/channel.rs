//! `relay channel`: named places that agents join.

use clap::{Args, Subcommand};
use relay_protocol::api::Page;
use relay_protocol::api::messages::MessageView;
use relay_protocol::api::workspace::{ChannelMember, UpdateChannel};
use relay_protocol::channel::Channel;
use serde::Serialize;

use crate::contact::Contact;
use crate::failure::{Failure, Outcome};
use crate::hints;
use crate::moment::ago;
use crate::output::{Output, Style, Table, fields, safe};
use crate::paging::all_pages;
use crate::words;

#[derive(Subcommand)]
pub(crate) enum ChannelCommand {
    /// List all channels
    #[command(after_help = "Example:\n  relay channel list")]
    List,
    /// Make a channel
    #[command(after_help = "Example:\n  relay channel create ops --topic 'What runs where'")]
    Create {
        /// The name
        name: String,
        /// What it is about
        #[arg(long)]
        topic: Option<String>,
    },
    /// Show a channel and its members
    #[command(after_help = "Example:\n  relay channel show general")]
    Show {
        /// The channel
        name: String,
    },
    /// Show the latest messages of a channel
    #[command(
        after_help = "Examples:\n  relay channel messages general\n  relay channel messages general --cursor 120"
    )]
    Messages(MessagesArguments),
    /// Join a channel, as the agent of --as
    #[command(after_help = "Example:\n  relay channel join ops --as ada")]
    Join {
        /// The channel
        name: String,
    },
    /// Leave a channel, as the agent of --as
    #[command(after_help = "Example:\n  relay channel leave ops --as ada")]
    Leave {
        /// The channel
        name: String,
    },
    /// Have agents join a channel
    #[command(after_help = "Example:\n  relay channel invite ops ada bob")]
    Invite {
        /// The channel
        name: String,
        /// The agents
        #[arg(required = true)]
        agents: Vec<String>,
    },
    /// Change the topic, or close the channel for messages
    #[command(after_help = "\
Examples:
  relay channel update ops --topic 'Quiet hours'
  relay channel update ops --archive")]
    Update(UpdateArguments),
}

#[derive(Args)]
pub(crate) struct MessagesArguments {
    /// The channel
    name: String,
    /// Where to go on, as the page before said
    #[arg(long)]
    cursor: Option<String>,
}

#[derive(Args)]
pub(crate) struct UpdateArguments {
    /// The channel
    name: String,
    /// What it is about; an empty text removes it
    #[arg(long)]
    topic: Option<String>,
    /// Close it for messages
    #[arg(long, conflicts_with = "unarchive")]
    archive: bool,
    /// Open it again
    #[arg(long)]
    unarchive: bool,
}

pub(crate) async fn run(command: &ChannelCommand, contact: &Contact, output: &Output) -> Outcome {
    let relay = &contact.relay;
    let (done, channel) = match command {
        ChannelCommand::List => return list(contact, output).await,
        ChannelCommand::Show { name } => return show(name, contact, output).await,
        ChannelCommand::Messages(arguments) => return messages(arguments, contact, output).await,
        ChannelCommand::Create { name, topic } => {
            let channel = relay.create_channel(name, topic.as_deref()).await?;
            ("created", channel)
        }
        ChannelCommand::Join { name } => ("joined", relay.join(name).await?),
        ChannelCommand::Leave { name } => ("left", relay.leave(name).await?),
        ChannelCommand::Invite { name, agents } => {
            let agents: Vec<&str> = agents.iter().map(String::as_str).collect();
            ("invited to", relay.invite(name, &agents).await?)
        }
        ChannelCommand::Update(arguments) => ("changed", update(arguments, contact).await?),
    };
    output.show(&channel, |style| {
        format!(
            "{done} {}{}",
            style.strong(&format!("#{}", channel.name)),
            members(&channel)
        )
    })
}

fn members(channel: &Channel) -> String {
    match channel.member_count {
        Some(count) => format!(", {}", words::counted(count, "member", "members")),
        None => String::new(),
    }
}

async fn update(arguments: &UpdateArguments, contact: &Contact) -> Outcome<Channel> {
    let archived = match (arguments.archive, arguments.unarchive) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    };
    if arguments.topic.is_none() && archived.is_none() {
        return Err(Failure::usage(
            "expected --topic, --archive or --unarchive, found none",
        ));
    }
    let change = UpdateChannel {
        topic: arguments.topic.clone(),
        archived,
    };
    Ok(contact
        .relay
        .update_channel(&arguments.name, &change)
        .await?)
}

async fn list(contact: &Contact, output: &Output) -> Outcome {
    let all = all_pages(async |cursor| contact.relay.channels(cursor).await).await?;
    output.show(&all, |style| {
        let mut table = Table::new(&["channel", "members", "topic"]);
        for channel in &all.items {
            let count = channel.member_count.map(|count| count.to_string());
            table.row([
                style.strong(&format!("#{}", channel.name)),
                count.unwrap_or_default(),
                topic(style, channel),
            ]);
        }
        let create = hints::command("channel create NAME");
        table.text(style, &format!("no channels yet; `{create}` makes one"))
    })
}

fn topic(style: &Style, channel: &Channel) -> String {
    match channel.archived_at {
        Some(_) => style.faint("archived"),
        None => safe(channel.topic.as_deref().unwrap_or_default()),
    }
}

#[derive(Serialize)]
struct Shown {
    channel: Channel,
    members: Vec<ChannelMember>,
}

async fn show(name: &str, contact: &Contact, output: &Output) -> Outcome {
    let channel = contact.relay.channel(name).await?;
    let members =
        all_pages(async |cursor| contact.relay.channel_members(name, cursor).await).await?;
    let shown = Shown {
        channel,
        members: members.items,
    };
    output.show(&shown, |style| {
        let Shown { channel, members } = &shown;
        let names: Vec<&str> = members
            .iter()
            .map(|one| one.agent.handle.as_str())
            .collect();
        let members = match names.is_empty() {
            true => "none".to_owned(),
            false => names.join(" "),
        };
        fields(
            style,
            &[
                ("channel", style.strong(&format!("#{}", channel.name))),
                ("topic", topic(style, channel)),
                ("created", ago(channel.created_at)),
                ("members", members),
            ],
        )
    })
}

async fn messages(arguments: &MessagesArguments, contact: &Contact, output: &Output) -> Outcome {
    let MessagesArguments { name, cursor } = arguments;
    let page = contact
        .relay
        .channel_messages(name, cursor.as_deref())
        .await?;
    output.show(&page, |style| conversation(style, &page))
}

/// Newest last, as people read.
fn conversation(style: &Style, page: &Page<MessageView>) -> String {
    let mut parts = Vec::new();
    if let Some(cursor) = &page.next_cursor {
        parts.push(style.faint(&format!("older ones: --cursor {cursor}")));
    }
    parts.extend(page.items.iter().rev().map(|view| {
        let mut text = words::message(style, &view.message);
        for reaction in view.reactions.iter().flatten() {
            let line = format!(
                "\n  {} {}",
                safe(&reaction.emoji),
                reaction.agents.join(", ")
            );
            text.push_str(&style.faint(&line));
        }
        if let Some(replies) = view.replies.filter(|replies| *replies > 0) {
            text.push_str(&style.faint(&format!(
                "\n  {}",
                words::counted(replies, "reply", "replies")
            )));
        }
        text
    }));
    match parts.is_empty() {
        true => "no messages yet".to_owned(),
        false => parts.join("\n\n"),
    }
}
