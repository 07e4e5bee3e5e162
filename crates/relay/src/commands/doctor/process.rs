//! The program, and what the system grants it.

use super::finding::{Finding, Layer};
use super::report::Report;
use crate::failure::Outcome;
use crate::platform::{self, FileLimit};

/// Fewer connections than this are soon used up.
const FEW_FILES: u64 = 4_096;

pub(super) fn look(report: &mut Report<'_>) -> Outcome {
    report.check("open files", Layer::Process, || {
        open_files(platform::file_limit())
    })
}

/// A server takes as many as it may; each agent that is connected needs one.
fn open_files(limit: FileLimit) -> Finding {
    match limit.at_most.or(limit.now) {
        None => Finding::ok("as many as a server needs"),
        Some(files) if files < FEW_FILES => Finding::warning(
            format!("a server started from here may have {files}, which is about as many agents"),
            "raise the limit before you start it: ulimit -n 65536, or LimitNOFILE= of its unit",
        ),
        Some(files) => Finding::ok(format!("a server started from here may have {files}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::finding::Verdict;

    #[test]
    fn the_limit_that_can_be_had_counts() {
        let of = |now, at_most| open_files(FileLimit { now, at_most }).verdict;
        assert_eq!(of(Some(1_024), Some(1_048_576)), Verdict::Ok);
        assert_eq!(of(Some(1_024), None), Verdict::Warning);
        assert_eq!(of(Some(256), Some(1_024)), Verdict::Warning);
        assert_eq!(of(None, None), Verdict::Ok);
    }
}
