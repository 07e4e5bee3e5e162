//! Requests as lines, where there is no terminal to ask at. Only a policy decides.

use relay_protocol::ids::PermissionId;
use relay_protocol::permission::{PermissionOutcome, PermissionRecord};
use serde::Serialize;

use super::Decider;
use super::news::{Happening, News};
use crate::commands::permission::{asker, deciding};
use crate::failure::{Failure, Outcome};
use crate::output::{Output, one_line};
use crate::platform::{self, StopSignal};
use crate::words;

/// A line for programs.
#[derive(Serialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
enum Line<'a> {
    Asked {
        permission: &'a PermissionRecord,
    },
    Decided {
        permission: &'a PermissionRecord,
    },
    Ended {
        permission_id: PermissionId,
        outcome: &'a PermissionOutcome,
    },
}

pub(super) async fn run(
    mut decider: Decider,
    mut news: News,
    stop: StopSignal,
    url: &str,
    output: &Output,
) -> Outcome {
    output.hint(&format!("watching {url}; Ctrl-C ends it"));
    let mut stop = std::pin::pin!(stop.come());
    let mut closed = std::pin::pin!(platform::nobody_reads());
    loop {
        let happening = tokio::select! {
            happening = news.next() => happening?,
            () = &mut stop => return Err(Failure::interrupted("stopped; what waits goes on waiting")),
            () = &mut closed => return Err(Failure::nobody_reads()),
        };
        match happening {
            Happening::Asked(record) => {
                asked(&record, output)?;
                decide(&mut decider, &record, output).await?;
            }
            Happening::Ended { id, outcome } => ended(id, &outcome, output)?,
        }
    }
}

fn asked(record: &PermissionRecord, output: &Output) -> Outcome {
    let line = Line::Asked { permission: record };
    output.show(&line, |style| {
        format!(
            "{} @{} {}: {}  {}",
            style.open("asked"),
            asker(record),
            one_line(&record.tool),
            words::summary(record),
            record.permission_id
        )
    })
}

fn ended(id: PermissionId, outcome: &PermissionOutcome, output: &Output) -> Outcome {
    let line = Line::Ended {
        permission_id: id,
        outcome,
    };
    output.show(&line, |style| {
        format!("{}  {id}", words::ended(style, outcome))
    })
}

/// Lets the policy decide. Its decision comes back as an event, too, as those of others do.
async fn decide(decider: &mut Decider, record: &PermissionRecord, output: &Output) -> Outcome {
    match decider.by_policy(record).await {
        None => Ok(()),
        Some(Ok(decided)) => {
            let line = Line::Decided {
                permission: &decided,
            };
            output.show(&line, |style| deciding::told(style, &decided))
        }
        // Somebody was faster: that is told by its event.
        Some(Err(error)) if error.outcome().is_some() => Ok(()),
        Some(Err(error)) => {
            let failure = Failure::from(error);
            output.note(&format!(
                "the policy could not decide: {}",
                failure.message()
            ));
            Ok(())
        }
    }
}
