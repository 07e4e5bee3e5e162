//! `relay audit`: the log as evidence.
//!
//! `verify` and `head` read the database file itself, beside the server if one runs: who checks should not have
//! to trust the one that is checked. `export` and `erase` ask the server.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use relay_core::store::sqlite::Beside;
use relay_core::store::{AuditReport, ChainHead};
use relay_protocol::api::audit::{EventsErased, RetainEvents};
use relay_protocol::api::events::EventQuery;
use relay_protocol::ids::WorkspaceId;
use relay_protocol::limits::PAGE_ITEMS;
use serde::Serialize;

use crate::contact::{Actor, Contact, GlobalArguments, with_server};
use crate::credentials::Credentials;
use crate::data::{DataDirectory, new_private};
use crate::failure::{Exit, Failure, Outcome};
use crate::moment::{Moment, parse_duration};
use crate::output::{Output, Style, fields, one_line};
use crate::words;

#[derive(Subcommand)]
pub(crate) enum AuditCommand {
    /// Check that nothing in the log was changed or removed
    #[command(after_help = "\
Examples:
  relay audit verify
  relay audit verify --anchor 25:3989fecef0cf79c8…    against a head that was kept elsewhere

Without an anchor this shows damage and clumsy changes; whoever owns the file could rewrite the whole chain. With one \
it shows that, too. Exit code 1: the log is not what was written.")]
    Verify {
        /// A head of before, as SEQ:HASH
        #[arg(long, value_name = "SEQ:HASH", value_parser = anchor)]
        anchor: Option<ChainHead>,
    },
    /// Print the end of the chain, to be kept elsewhere
    #[command(after_help = "Example:\n  relay audit head >> ~/relay-heads.txt")]
    Head,
    /// Write all events as lines of JSON
    #[command(after_help = "\
Examples:
  relay audit export --output events.jsonl
  relay audit export --after 1000 | gzip > since-1000.jsonl.gz")]
    Export(ExportArguments),
    /// Remove the content of events, such as a leaked secret; that they were there stays
    #[command(after_help = "\
Example:
  relay audit export | grep sk-live          find the seq of every event that shows it
  relay audit erase 118 --reason 'a key was pasted'

Copies that Relay made go with it: calls, receipts, notices, attachments that no other message uses. The files are \
rewritten, which takes as long as copying them. Backups of before still have it.")]
    Erase {
        /// The numbers of the events
        #[arg(required = true, value_name = "SEQ")]
        seqs: Vec<u64>,
        /// Why; it is logged
        #[arg(long)]
        reason: String,
    },
    /// Remove what the log need not keep any longer
    #[command(after_help = "\
Examples:
  relay audit retain --bulky 30d
  relay audit retain --bulky 30d --all 365d

A server does this by itself with retention.bulky_days and retention.all_days. The chain still holds.")]
    Retain(RetainArguments),
}

#[derive(Args)]
pub(crate) struct RetainArguments {
    /// Terminal output, transcripts and output of tools lose their content when they are older
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, required_unless_present = "all")]
    bulky: Option<Duration>,
    /// Events are cut off the log when they are older; messages stay
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    all: Option<Duration>,
}

#[derive(Args)]
pub(crate) struct ExportArguments {
    /// Only events after this number
    #[arg(long, value_name = "SEQ")]
    after: Option<u64>,
    /// A new file to write to, readable by you only [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

fn anchor(text: &str) -> Result<ChainHead, String> {
    let expected = || "expected SEQ:HASH, as `relay audit head` prints it".to_owned();
    let (seq, hash) = text.split_once(':').ok_or_else(expected)?;
    let is_hash = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    match seq.parse() {
        Ok(seq) if is_hash => Ok(ChainHead {
            seq,
            hash: hash.to_ascii_lowercase(),
        }),
        _ => Err(expected()),
    }
}

pub(crate) fn run(command: &AuditCommand, globals: &GlobalArguments, output: &Output) -> Outcome {
    match command {
        AuditCommand::Verify { anchor } => verify(anchor.as_ref(), globals, output),
        AuditCommand::Head => head(globals, output),
        AuditCommand::Export(arguments) => {
            with_server(globals, Actor::Workspace, async |contact| {
                export(arguments, contact, output).await
            })
        }
        AuditCommand::Erase { seqs, reason } => {
            with_server(globals, Actor::Workspace, async |contact| {
                erase(seqs, reason, contact, output).await
            })
        }
        AuditCommand::Retain(arguments) => {
            with_server(globals, Actor::Workspace, async |contact| {
                retain(arguments, contact, output).await
            })
        }
    }
}

/// The database of a data directory, and the workspace that its credentials are for.
pub(super) fn open(data: &DataDirectory) -> Outcome<(Beside, WorkspaceId)> {
    let found = Credentials::read(&data.credentials())?;
    match (found, data.database().exists()) {
        (Some(credentials), true) => {
            Ok((Beside::open(&data.database())?, credentials.workspace_id))
        }
        _ => {
            let message = format!(
                "expected {} and {}, which a server makes; they are not there",
                data.database().display(),
                data.credentials().display()
            );
            Err(Failure::new(Exit::NotFound, "no_data", message)
                .next("say with --data where the server keeps its data; run this on its machine"))
        }
    }
}

fn head(globals: &GlobalArguments, output: &Output) -> Outcome {
    let data = DataDirectory::locate(globals.data.as_deref())?;
    let (database, workspace) = open(&data)?;
    let head = database.head(workspace)?;
    output.show(&head, |_| format!("{}:{}", head.seq, head.hash))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Verified {
    /// Of the workspace that the credentials are for.
    #[serde(flatten)]
    report: AuditReport,
    /// Of all workspaces.
    intact: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    anchor: Option<Anchored>,
    workspaces: Vec<WorkspaceReport>,
}

/// What was found in the log of one workspace of a database.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WorkspaceReport {
    pub(super) workspace_id: WorkspaceId,
    pub(super) name: String,
    pub(super) intact: bool,
    #[serde(flatten)]
    pub(super) report: AuditReport,
}

/// Checks the logs of all workspaces of a database.
pub(super) fn verify_all(database: &Beside) -> Outcome<Vec<WorkspaceReport>> {
    let known = database.workspaces()?.into_iter();
    let checked = known.map(|(workspace_id, name)| {
        let report = database.verify(workspace_id)?;
        Ok(WorkspaceReport {
            workspace_id,
            name,
            intact: report.is_intact(),
            report,
        })
    });
    checked.collect()
}

/// How an anchor compares to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Anchored {
    /// The log up to there is what it was then.
    Same,
    /// It is another log.
    Different,
    /// No change ended there, or it was cut off since.
    Unknown,
}

fn verify(anchor: Option<&ChainHead>, globals: &GlobalArguments, output: &Output) -> Outcome {
    let data = DataDirectory::locate(globals.data.as_deref())?;
    let (database, workspace) = open(&data)?;
    let workspaces = verify_all(&database)?;
    let own = workspaces
        .iter()
        .find(|checked| checked.workspace_id == workspace);
    let own = own.ok_or(relay_core::Error::UnknownWorkspace(workspace))?;
    let anchored = match anchor {
        Some(anchor) => Some(match database.head_at(workspace, anchor.seq)? {
            Some(found) if found == *anchor => Anchored::Same,
            Some(_) => Anchored::Different,
            None => Anchored::Unknown,
        }),
        None => None,
    };
    let verified = Verified {
        report: own.report.clone(),
        intact: workspaces.iter().all(|checked| checked.intact),
        anchor: anchored,
        workspaces,
    };
    output.show(&verified, |style| {
        let has_others = verified.workspaces.len() > 1;
        let known = verified.workspaces.iter().map(|checked| {
            let is_own = checked.workspace_id == workspace;
            let anchored = verified.anchor.filter(|_| is_own);
            let name = has_others.then_some(checked.name.as_str());
            report_words(style, name, checked, anchored)
        });
        known.collect::<Vec<_>>().join("\n\n")
    })?;
    judge(&verified)
}

fn report_words(
    style: &Style,
    name: Option<&str>,
    checked: &WorkspaceReport,
    anchored: Option<Anchored>,
) -> String {
    let AuditReport {
        rows,
        events,
        from_seq,
        to_seq,
        changed,
        missing,
        erased,
        head,
    } = &checked.report;
    let verdict = match checked.intact {
        true => style.good("intact"),
        false => style.bad("NOT what was written"),
    };
    let list = |what: String, is_empty| match is_empty {
        true => "none".to_owned(),
        false => style.bad(&what),
    };
    let mut known: Vec<(&str, String)> = Vec::new();
    known.extend(name.map(|name| ("workspace", one_line(name))));
    known.extend([
        ("log", verdict),
        (
            "checked",
            format!("{events} events in {rows} rows, {from_seq} to {to_seq}"),
        ),
        ("changed", list(format!("{changed:?}"), changed.is_empty())),
        ("missing", list(format!("{missing:?}"), missing.is_empty())),
        ("erased", format!("{erased} on request")),
        ("head", format!("{to_seq}:{head}")),
    ]);
    known.extend(anchored.map(|anchored| ("anchor", anchor_words(anchored).to_owned())));
    fields(style, &known)
}

const fn anchor_words(anchored: Anchored) -> &'static str {
    match anchored {
        Anchored::Same => "up to there the log is what it was",
        Anchored::Different => "the log is ANOTHER one than when this anchor was taken",
        Anchored::Unknown => "the log has no change that ends there",
    }
}

fn judge(verified: &Verified) -> Outcome {
    let broken = |message: &str| {
        Err(Failure::new(Exit::Failed, "log_changed", message)
            .next("restore a backup, or find out who changed the file"))
    };
    match (verified.intact, verified.anchor) {
        (false, _) => broken("the log is not what was written"),
        (true, None | Some(Anchored::Same)) => Ok(()),
        (true, Some(anchored)) => broken(anchor_words(anchored)),
    }
}

async fn export(arguments: &ExportArguments, contact: &Contact, output: &Output) -> Outcome {
    let mut file = match &arguments.output {
        Some(path) => Some(BufWriter::new(create(path)?)),
        None => None,
    };
    let mut query = EventQuery {
        after: arguments.after.or(Some(0)),
        types: None,
        limit: u32::try_from(PAGE_ITEMS).ok(),
    };
    let mut exported = 0;
    loop {
        let list = contact.relay.read_events(&query).await?;
        for event in &list.items {
            match &mut file {
                Some(file) => write_line(file, event).context("the file can't be written")?,
                None => output.json_line(event)?,
            }
        }
        exported += list.items.len();
        query.after = Some(list.after);
        if list.next_cursor.is_none() {
            break;
        }
    }
    let (Some(file), Some(path)) = (file, &arguments.output) else {
        return Ok(());
    };
    let file = file
        .into_inner()
        .map_err(|error| anyhow::anyhow!("{error}"))?;
    file.sync_all().context("the file can't be written")?;
    let done = Exported {
        events: exported,
        after: query.after.unwrap_or(0),
        file: path,
    };
    output.show(&done, |_| {
        format!(
            "{exported} events up to {} in {}",
            done.after,
            path.display()
        )
    })
}

#[derive(Serialize)]
struct Exported<'a> {
    events: usize,
    /// The last number that was looked at: `--after` of the next export.
    after: u64,
    file: &'a Path,
}

fn create(path: &Path) -> Outcome<File> {
    let made = new_private(path).with_context(|| format!("{} can't be made", path.display()))?;
    Ok(made)
}

fn write_line(file: &mut impl std::io::Write, event: &impl Serialize) -> anyhow::Result<()> {
    serde_json::to_writer(&mut *file, event)?;
    file.write_all(b"\n")?;
    Ok(())
}

async fn erase(seqs: &[u64], reason: &str, contact: &Contact, output: &Output) -> Outcome {
    let mut erased = 0;
    for some in seqs.chunks(PAGE_ITEMS) {
        erased += contact.relay.erase_events(some, reason).await?;
    }
    output.show(&EventsErased { erased }, |_| {
        format!(
            "the content of {} is gone; that it was there, and was erased, stays",
            words::counted(erased, "entry", "entries")
        )
    })
}

async fn retain(arguments: &RetainArguments, contact: &Contact, output: &Output) -> Outcome {
    let before = |age: Duration| Moment::Away(age).ago();
    let body = RetainEvents {
        bulky_before: arguments.bulky.map(before),
        all_before: arguments.all.map(before),
    };
    let retained = contact.relay.retain_events(&body).await?;
    output.show(&retained, |_| {
        format!(
            "{} lost their content; {} were cut off the log",
            words::counted(retained.erased, "entry", "entries"),
            words::counted(retained.cut, "entry", "entries")
        )
    })
}
