//! The database itself, beside the server if one runs.

use relay_core::store::sqlite::Beside;

use super::finding::{Finding, Layer};
use super::report::Report;
use crate::commands::audit;
use crate::data::DataDirectory;
use crate::failure::{Failure, Outcome};
use crate::hints;
use crate::words::counted;

/// Faults that are told.
const TOLD: usize = 3;

/// What helps against damage.
const RESTORE: &str =
    "stop the server, keep a copy of the directory, and restore a backup: relay restore --help";

pub(super) fn look(data: &DataDirectory, deep: bool, report: &mut Report<'_>) -> Outcome {
    let layer = Layer::Store;
    if !data.database().exists() {
        return report.skip("database", layer, "there is none yet");
    }
    report.check("database", layer, || match Beside::open(&data.database()) {
        Ok(_) => Finding::ok("it can be read, and its format is known"),
        Err(error) => unreadable(error.into()),
    })?;
    if deep {
        report.check("integrity", layer, || integrity(data))?;
        report.check("hash chain", layer, || chain(data))?;
    }
    Ok(())
}

fn unreadable(failure: Failure) -> Finding {
    Finding::failed(failure.message(), RESTORE)
}

/// Every page and every index.
fn integrity(data: &DataDirectory) -> Finding {
    let checked = Beside::open(&data.database())
        .map_err(Failure::from)
        .and_then(|database| Ok(database.check_integrity()?));
    match checked {
        Ok(faults) => judge_integrity(&faults),
        Err(failure) => unreadable(failure),
    }
}

fn judge_integrity(faults: &[String]) -> Finding {
    if faults.is_empty() {
        return Finding::ok("every page and every index is as it should be");
    }
    let first: Vec<&str> = faults.iter().take(TOLD).map(String::as_str).collect();
    let found = counted(faults.len() as u64, "fault", "faults");
    Finding::failed(format!("{found}: {}", first.join("; ")), RESTORE)
}

/// Every link of the log's chain, as `relay audit verify` does it.
fn chain(data: &DataDirectory) -> Finding {
    let verified = audit::open(data).and_then(|(database, _)| audit::verify_all(&database));
    match verified {
        Ok(checked) if checked.iter().all(|workspace| workspace.intact) => {
            let reports = || checked.iter().map(|workspace| &workspace.report);
            Finding::ok(format!(
                "{} in {}, nothing changed or missing",
                counted(
                    reports().map(|report| report.events).sum(),
                    "event",
                    "events"
                ),
                counted(reports().map(|report| report.rows).sum(), "row", "rows")
            ))
        }
        Ok(_) => Finding::failed(
            "the log is not what was written",
            format!(
                "{} tells which events; restore a backup, or find out who changed the file",
                hints::command("audit verify")
            ),
        ),
        Err(failure) => unreadable(failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_faults_are_told_and_all_are_counted() {
        let faults: Vec<String> = (1..=5).map(|page| format!("page {page}")).collect();
        assert_eq!(
            judge_integrity(&faults).detail,
            "5 faults: page 1; page 2; page 3"
        );
        assert_eq!(judge_integrity(&faults[..1]).detail, "1 fault: page 1");
    }
}
