//! URLs that are called for each event.

use clap::Args;
use relay_protocol::ids::{EventId, WebhookId};
use relay_protocol::selector::Filter;
use relay_protocol::webhook::{WebhookAttempt, WebhookInfo, WebhookReplayed, WebhookState};

use super::SecretArgument;
use crate::contact::Contact;
use crate::failure::Outcome;
use crate::hints;
use crate::literal;
use crate::moment::{ago, clock, span};
use crate::output::{Output, Style, Table, fields, one_line};
use crate::paging::all_pages;
use crate::words::counted;

pub(super) const CREATE_EXAMPLES: &str = "\
Examples:
  relay webhook create https://dev.example/hook --event message.created --event action.completed
  relay webhook create https://dev.example/hook --event '*' --filter '{\"inChannel\":\"ops\"}'
  relay webhook create https://dev.example/hook --event 'message.*' --header 'x-team: release'
  RELAY_WEBHOOK_SECRET=… relay webhook create https://dev.example/hook --event '*'

Without a secret of yours one is made, and shown this once.

The body of each call is the event, as `relay listen --json` prints it, signed as Standard Webhooks describes it. What is not \
answered with 2xx within 15 s is sent again, for three days. Private addresses are called only if the server's setting \
outbound.allow has them.";

pub(super) const REPLAY_EXAMPLES: &str = "\
Examples:
  relay webhook replay 01a1e393-83fa-758d-8000-01000000000b --id 01a1e393-83fa-798d-8000-01000000000c
  relay webhook replay 01a1e393-83fa-758d-8000-01000000000b --from 100 --to 200

The numbers are those that `relay listen` prints; both ends are included. Only events that the webhook wants are sent.";

#[derive(Args)]
pub(crate) struct CreateArguments {
    /// What is called
    url: String,
    /// An event's name, or a pattern such as `message.*`; any number of them
    #[arg(long, value_name = "EVENT", required = true)]
    event: Vec<String>,
    /// A filter that must hold as well
    #[arg(long, value_name = "JSON", value_parser = literal::filter)]
    filter: Option<Filter>,
    /// A header to send along; any number of them
    #[arg(long, value_name = "NAME: VALUE", value_parser = header)]
    header: Vec<(String, String)>,
    #[command(flatten)]
    secret: SecretArgument,
}

#[derive(Args)]
pub(crate) struct SecretArguments {
    /// The webhook
    #[arg(value_parser = literal::id::<WebhookId>)]
    webhook: WebhookId,
    #[command(flatten)]
    secret: SecretArgument,
}

#[derive(Args)]
pub(crate) struct AttemptsArguments {
    /// The webhook
    #[arg(value_parser = literal::id::<WebhookId>)]
    webhook: WebhookId,
    /// Where to go on, as the page before said
    #[arg(long)]
    cursor: Option<String>,
}

#[derive(Args)]
pub(crate) struct ReplayArguments {
    /// The webhook
    #[arg(value_parser = literal::id::<WebhookId>)]
    webhook: WebhookId,
    /// An event; any number of them
    #[arg(
        long = "id",
        value_name = "EVENT",
        value_parser = literal::id::<EventId>,
        required_unless_present_any = ["from", "to"],
        conflicts_with_all = ["from", "to"]
    )]
    ids: Vec<EventId>,
    /// From this number of the log on
    #[arg(long, value_name = "SEQ")]
    from: Option<u64>,
    /// Up to this number
    #[arg(long, value_name = "SEQ")]
    to: Option<u64>,
}

fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("expected a header such as 'x-team: release'".to_owned()),
    }
}

pub(super) async fn create(
    arguments: &CreateArguments,
    contact: &Contact,
    output: &Output,
) -> Outcome {
    let webhooks = contact.relay.webhooks();
    let mut subscribing = webhooks.subscribe(&arguments.url, &arguments.event);
    if let Some(filter) = &arguments.filter {
        subscribing = subscribing.filter(filter.clone());
    }
    for (name, value) in &arguments.header {
        subscribing = subscribing.header(name, value);
    }
    if let Some(secret) = arguments.secret.given() {
        subscribing = subscribing.secret(secret);
    }
    let created = subscribing.await?;
    output.show(&created, |style| {
        let mut known = vec![
            ("webhook", style.strong(&created.id.to_string())),
            ("calls", one_line(&created.url)),
            ("for", created.events.join(", ")),
        ];
        let shown = arguments.secret.given().is_none();
        if shown {
            known.push(("secret", created.secret.clone()));
        }
        let follow = hints::command(&format!("webhook attempts {}", created.id));
        let mut lines = vec![fields(style, &known)];
        lines.extend(shown.then(|| shown_once(style)));
        lines.push(format!("follow it: {follow}"));
        lines.join("\n")
    })
}

fn shown_once(style: &Style) -> String {
    style.faint("the secret is shown this once; whoever is called verifies the signatures with it")
}

pub(super) async fn list(contact: &Contact, output: &Output) -> Outcome {
    let webhooks = contact.relay.webhooks();
    let all = all_pages(async |cursor| webhooks.list(cursor).await).await?;
    output.show(&all, |style| {
        let mut table = Table::new(&["webhook", "state", "waiting", "events", "calls"]);
        for webhook in &all.items {
            table.row([
                webhook.id.to_string(),
                state(style, webhook),
                webhook.waiting.to_string(),
                webhook.events.join(", "),
                one_line(&webhook.url),
            ]);
        }
        let create = hints::command("webhook create URL --event EVENT");
        table.text(style, &format!("no webhooks; `{create}` makes one"))
    })
}

fn state(style: &Style, webhook: &WebhookInfo) -> String {
    match webhook.state {
        WebhookState::Disabled => style.bad("disabled"),
        WebhookState::Active if webhook.last_error.is_some() => style.open("active"),
        WebhookState::Active => style.good("active"),
    }
}

/// A webhook, and how it fares.
pub(super) fn show(webhook: &WebhookInfo, output: &Output) -> Outcome {
    output.show(webhook, |style| {
        let mut known = vec![
            ("webhook", style.strong(&webhook.id.to_string())),
            ("calls", one_line(&webhook.url)),
            ("for", webhook.events.join(", ")),
        ];
        if let Some(filter) = &webhook.filter {
            let filter = serde_json::to_string(filter).unwrap_or_default();
            known.push(("filter", one_line(&filter)));
        }
        if let Some(names) = &webhook.header_names {
            known.push(("headers", one_line(&names.join(", "))));
        }
        known.push(("state", state(style, webhook)));
        known.push(("waiting", counted(webhook.waiting, "event", "events")));
        let arrived = webhook.last_success_at.map(ago);
        known.push((
            "arrived",
            arrived.unwrap_or_else(|| "nothing yet".to_owned()),
        ));
        if let Some(error) = &webhook.last_error {
            known.push(("failed", style.bad(&one_line(error))));
        }
        fields(style, &known)
    })
}

pub(super) async fn secret(
    arguments: &SecretArguments,
    contact: &Contact,
    output: &Output,
) -> Outcome {
    let webhooks = contact.relay.webhooks();
    let changed = match arguments.secret.given() {
        Some(secret) => webhooks.set_secret(arguments.webhook, secret).await?,
        None => webhooks.rotate_secret(arguments.webhook).await?,
    };
    output.show(&changed, |style| {
        let until = &changed.old_valid_until;
        let replaced = format!("calls are signed with the old secret, too, until {until}");
        match arguments.secret.given() {
            Some(_) => replaced,
            None => {
                let known = [("secret", changed.secret.clone())];
                let once = shown_once(style);
                format!("{}\n{once}\n{replaced}", fields(style, &known))
            }
        }
    })
}

pub(super) async fn attempts(
    arguments: &AttemptsArguments,
    contact: &Contact,
    output: &Output,
) -> Outcome {
    let webhooks = contact.relay.webhooks();
    let cursor = arguments.cursor.as_deref();
    let page = webhooks.attempts(arguments.webhook, cursor).await?;
    output.show(&page, |style| {
        let mut table = Table::new(&["at", "answer", "took", "try", "seq", "event", "why"]);
        for attempt in &page.items {
            table.row([
                clock(attempt.at),
                answer(style, attempt),
                span(i64::try_from(attempt.duration_ms).unwrap_or(i64::MAX)),
                attempt.attempt.to_string(),
                attempt.seq.to_string(),
                attempt.event_type.clone(),
                why(attempt),
            ]);
        }
        let mut text = table.text(style, "it was not called yet");
        if let Some(cursor) = &page.next_cursor {
            text.push_str(&style.faint(&format!("\nmore: --cursor {cursor}")));
        }
        text
    })
}

fn answer(style: &Style, attempt: &WebhookAttempt) -> String {
    let status = attempt.status.map(|status| status.to_string());
    let status = status.unwrap_or_else(|| "none".to_owned());
    match attempt.error {
        None => style.good(&status),
        Some(_) => style.bad(&status),
    }
}

/// What went wrong, and when it is tried again.
fn why(attempt: &WebhookAttempt) -> String {
    let error = attempt.error.as_deref().map(one_line);
    let again = attempt
        .next_attempt_at
        .map(|at| format!("again at {}", clock(at)));
    let known: Vec<String> = error.into_iter().chain(again).collect();
    known.join(", ")
}

pub(super) async fn replay(
    arguments: &ReplayArguments,
    contact: &Contact,
    output: &Output,
) -> Outcome {
    let (webhooks, id) = (contact.relay.webhooks(), arguments.webhook);
    let queued = match (arguments.from, arguments.to) {
        (None, None) => webhooks.replay(id, arguments.ids.iter().copied()).await?,
        (from, None) => webhooks.replay_range(id, from.unwrap_or(1)..).await?,
        (from, Some(to)) => webhooks.replay_range(id, from.unwrap_or(1)..=to).await?,
    };
    output.show(&WebhookReplayed { queued }, |_| match queued {
        0 => "nothing is sent: the webhook wants none of these events".to_owned(),
        _ => {
            let attempts = hints::command(&format!("webhook attempts {id}"));
            let sent = counted(queued, "event is", "events are");
            format!("{sent} sent again\nfollow it: {attempts}")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_a_name() {
        let pair = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));
        assert_eq!(header("x-team: release"), pair("x-team", "release"));
        assert_eq!(header("x-url:http://a"), pair("x-url", "http://a"));
        assert_eq!(header("x-empty:"), pair("x-empty", ""));
        for text in ["", ":", " : x", "x-team"] {
            assert!(header(text).is_err(), "{text}");
        }
    }
}
