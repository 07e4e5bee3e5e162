//! `relay permission list` and `show`.

use std::time::Duration;

use clap::Args;
use relay_protocol::api::events::EventQuery;
use relay_protocol::api::messages::DeliverySummary;
use relay_protocol::event::RelayEvent;
use relay_protocol::ids::PermissionId;
use relay_protocol::limits::PAGE_ITEMS;
use relay_protocol::permission::{PermissionDecider, PermissionRecord, PermissionState};
use relay_sdk::{PermissionQuery, Timestamp};
use serde::Serialize;

use super::{asker, meant, waits};
use crate::contact::Contact;
use crate::failure::Outcome;
use crate::literal;
use crate::moment::{ago, clock};
use crate::output::{Output, Style, Table, fields, one_line};
use crate::words;

/// How long the log may be looked through for those who saw a request.
const LOOKING: Duration = Duration::from_secs(2);

#[derive(Args)]
pub(crate) struct ListArguments {
    /// Only those in this state
    #[arg(long, value_parser = literal::permission_states())]
    state: Option<PermissionState>,
    /// Only those of this agent
    #[arg(long)]
    agent: Option<String>,
    /// Most items
    #[arg(long, default_value_t = 20)]
    limit: u32,
    /// Where to go on, as the page before said
    #[arg(long)]
    cursor: Option<String>,
}

#[derive(Args)]
pub(crate) struct ShowArguments {
    /// The request [default: the one that waits, if it is the only one]
    #[arg(value_parser = literal::id::<PermissionId>)]
    permission: Option<PermissionId>,
}

pub(super) async fn list(arguments: &ListArguments, contact: &Contact, output: &Output) -> Outcome {
    let agent = arguments.agent.as_ref();
    let query = PermissionQuery {
        state: arguments.state,
        agent: agent.map(|name| name.trim_start_matches('@').to_owned()),
        session: None,
        cursor: arguments.cursor.clone(),
        limit: Some(arguments.limit),
    };
    let page = contact.relay.permissions().list(&query).await?;
    output.show(&page, |style| {
        let mut table = Table::new(&["permission", "agent", "tool", "state", "what"]);
        for record in &page.items {
            table.row([
                record.permission_id.to_string(),
                format!("@{}", asker(record)),
                one_line(&record.tool),
                standing(style, record),
                words::summary(record),
            ]);
        }
        let mut text = table.text(style, "no permission requests");
        if let Some(cursor) = &page.next_cursor {
            text.push_str(&style.faint(&format!("\nmore: --cursor {cursor}")));
        }
        text
    })
}

/// The state, and for what waits how long it still does.
fn standing(style: &Style, record: &PermissionRecord) -> String {
    let state = words::colored_state(style, record.state);
    match waits(record) {
        true => format!("{state}, {}", words::countdown(record.expires_at)),
        false => state,
    }
}

/// A request and what the log knows of those who were told of it.
#[derive(Serialize)]
struct Shown {
    permission: PermissionRecord,
    /// Those who were told, and whether it reached them.
    told: Vec<DeliverySummary>,
    /// Those who had it before their eyes; absent where the log could not be looked through.
    #[serde(skip_serializing_if = "Option::is_none")]
    seen: Option<Vec<Sight>>,
}

#[derive(Serialize)]
struct Sight {
    by: PermissionDecider,
    at: Timestamp,
}

pub(super) async fn show(arguments: &ShowArguments, contact: &Contact, output: &Output) -> Outcome {
    let permission = meant(arguments.permission, contact).await?;
    // Those who ask may not know who decides.
    let told = match permission.message_id {
        Some(id) => contact
            .relay
            .message_deliveries(id)
            .await
            .unwrap_or_default(),
        None => Vec::new(),
    };
    let looking = tokio::time::timeout(LOOKING, sights(contact, permission.permission_id));
    let seen = looking.await.ok().and_then(Result::ok);
    let shown = Shown {
        permission,
        told,
        seen,
    };
    output.show(&shown, |style| shown.text(style))
}

/// Who had a request before their eyes, by the log.
async fn sights(contact: &Contact, id: PermissionId) -> Result<Vec<Sight>, relay_sdk::Error> {
    let mut found = Vec::new();
    let mut query = EventQuery {
        after: Some(0),
        types: Some("permission.seen".to_owned()),
        limit: Some(PAGE_ITEMS as u32),
    };
    loop {
        let page = contact.relay.read_events(&query).await?;
        for event in page.items {
            if let Some(RelayEvent::PermissionSeen(seen)) = event.event
                && seen.permission_id == id
            {
                found.push(Sight {
                    by: seen.by,
                    at: event.at,
                });
            }
        }
        match page.next_cursor {
            Some(_) => query.after = Some(page.after),
            None => return Ok(found),
        }
    }
}

impl Shown {
    fn text(&self, style: &Style) -> String {
        let record = &self.permission;
        let mut rows = call_fields(style, record);
        if !self.told.is_empty() {
            let told = self.told.iter().map(|delivery| {
                let state = words::colored(style, delivery.state);
                format!("@{} ({state})", one_line(&delivery.agent))
            });
            rows.push(("told", told.collect::<Vec<_>>().join(", ")));
        }
        for sight in self.seen.iter().flatten() {
            let by = words::decider(Some(&sight.by));
            rows.push(("seen", format!("by {by} at {}", clock(sight.at))));
        }
        rows.push((
            "state",
            match &record.outcome {
                Some(outcome) => words::ended(style, outcome),
                None => standing(style, record),
            },
        ));
        rows.extend(self.decision_fields());
        let heading = heading(style, record);
        format!("{heading}\n{}", fields(style, &rows))
    }

    fn decision_fields(&self) -> Vec<(&'static str, String)> {
        let record = &self.permission;
        let mut rows = Vec::new();
        let outcome = record.outcome.as_ref();
        if let Some(rule) = outcome.and_then(|outcome| outcome.rule.as_ref()) {
            rows.push(("rule", one_line(rule)));
        }
        if let Some(grant) = outcome.and_then(|outcome| outcome.grant_id) {
            rows.push(("grant", grant.to_string()));
        }
        if let Some(params) = outcome.and_then(|outcome| outcome.updated_params.as_ref()) {
            let text = serde_json::to_string(params).unwrap_or_default();
            rows.push(("ran with", one_line(&text)));
        }
        if let Some(execution) = &record.execution {
            rows.push(("call", words::executed(execution)));
        }
        rows
    }
}

/// Who asks for what, and when.
pub(super) fn heading(style: &Style, record: &PermissionRecord) -> String {
    let title = record
        .title
        .as_ref()
        .map(|title| format!(": {}", one_line(title)));
    format!(
        "{} wants {}{} {}",
        style.strong(&format!("@{}", asker(record))),
        style.strong(&one_line(&record.tool)),
        title.unwrap_or_default(),
        style.faint(&format!(
            "{}  {}",
            ago(record.created_at),
            record.permission_id
        ))
    )
}

/// The call: parameters, directory, what deserves a second look, what `always` would cover.
pub(super) fn call_fields<'a>(
    style: &Style,
    record: &'a PermissionRecord,
) -> Vec<(&'a str, String)> {
    let mut rows: Vec<(&str, String)> = Vec::new();
    for (name, value) in &record.params {
        let shown = words::value(style, name, value);
        let mut lines = shown.split('\n');
        rows.push((name.as_str(), lines.next().unwrap_or_default().to_owned()));
        rows.extend(lines.map(|line| ("", line.to_owned())));
    }
    if let Some(cwd) = &record.cwd {
        rows.push(("in", one_line(cwd)));
    }
    if record.masked == Some(true) {
        rows.push((
            "masked",
            "secrets in it are not shown, but will be used".to_owned(),
        ));
    }
    for danger in words::dangers(record) {
        rows.push(("look at", style.danger(&danger)));
    }
    let offers = record.suggestions.iter();
    rows.extend(offers.map(|offer| ("always", words::offer(style, asker(record), offer))));
    if record.suggestions.is_empty() {
        rows.push((
            "always",
            "no rule can be offered; it is for this call only".to_owned(),
        ));
    }
    rows
}
