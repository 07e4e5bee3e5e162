//! `relay doctor`: looks at every layer that a message passes, from the files to a session, and says which broke.
//!
//! Each layer has a file here with its checks; a check is a function that answers with a [`Finding`]. Layers are
//! looked at from the bottom up, so the first that failed is the one to mend.
//!
//! To add a check: a function in the file of its layer, with a test, and a line where that layer is looked at.

mod clock;
mod database;
mod disk;
mod files;
mod finding;
mod process;
mod report;
mod round_trip;
mod server;
mod tokens;

use clap::Args;

use self::finding::{Finding, Layer};
use self::report::Report;
use self::server::Server;
use crate::contact::GlobalArguments;
use crate::data::DataDirectory;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::platform::StopSignal;
use crate::throwaway::{Stage, tour};

pub(crate) const EXAMPLES: &str = "\
Examples:
  relay doctor                     a few seconds
  relay doctor --deep              also reads the whole database and its hash chain
  relay doctor --json | jq '.checks[] | select(.outcome == \"failed\")'

Two agents called doctor-... are made, send each other messages in every mode, and are released.
When no server answers, the round trip takes place on one in a temporary directory.

Exit code 0: nothing failed; there may be warnings. 1: something failed; it names the layer that
broke and what to do next.";

#[derive(Args)]
pub(crate) struct DoctorArguments {
    /// Also check every page of the database and every link of the log's hash chain
    #[arg(long)]
    deep: bool,
}

pub(crate) fn run(
    arguments: &DoctorArguments,
    globals: &GlobalArguments,
    output: &Output,
) -> Outcome {
    tour(examine(arguments, globals, output))
}

async fn examine(
    arguments: &DoctorArguments,
    globals: &GlobalArguments,
    output: &Output,
) -> Outcome {
    let stop = StopSignal::listen()?;
    let data = DataDirectory::locate(globals.data.as_deref())?;
    let mut report = Report::new(output);
    // Outside of what may be broken off, so that it can be cleared away then, too.
    let mut stage = None;
    let looked = tokio::select! {
        looked = look(arguments, globals, &data, &mut report, &mut stage) => looked,
        () = stop.come() => Err(Failure::interrupted("stopped before the end")),
    };
    let left = match stage {
        Some(stage) => stage.clear().await,
        None => Vec::new(),
    };
    report.left_behind(&left)?;
    looked?;
    report.finish()
}

/// Looks at everything, from the bottom up.
async fn look(
    arguments: &DoctorArguments,
    globals: &GlobalArguments,
    data: &DataDirectory,
    report: &mut Report<'_>,
    stage: &mut Option<Stage>,
) -> Outcome {
    report.heading(data)?;
    files::look(data, report)?;
    disk::look(data, report)?;
    process::look(report)?;
    database::look(data, arguments.deep, report)?;
    let server = server::look(globals, data, report).await?;
    match server {
        Server::Running { url, key } => *stage = Some(Stage::on(&url, &key)?),
        Server::None => {
            report.remark(
                "No server answers: the round trip takes place on one in a temporary directory.",
            )?;
            *stage = own_stage(report).await?;
        }
        Server::Closed => {}
    }
    match stage {
        Some(stage) => round_trip::look(stage, report).await,
        None => report.skip(
            "round trip",
            Layer::Delivery,
            "it needs a server that lets us in with the workspace key",
        ),
    }
}

async fn own_stage(report: &mut Report<'_>) -> Outcome<Option<Stage>> {
    let begun = report.begin();
    match Stage::own("doctor").await {
        Ok(stage) => {
            report.add(
                "temporary server",
                Layer::Process,
                begun,
                Finding::ok(stage.url()),
            )?;
            Ok(Some(stage))
        }
        Err(failure) => {
            let finding = Finding::failed(failure.message(), "see whether TMPDIR can be written");
            report.add("temporary server", Layer::Process, begun, finding)?;
            Ok(None)
        }
    }
}
