//! The server's clock against ours.

use relay_sdk::Timestamp;

use super::finding::Finding;
use crate::moment::span;

/// Clocks that differ by less are the same for people.
const TOLERATED_MS: i64 = 2_000;

/// What the server's time says that it stamped on something between two moments here.
pub(super) fn compare(before: Timestamp, server: Timestamp, after: Timestamp) -> Finding {
    let (before, server, after) = (before.as_millis(), server.as_millis(), after.as_millis());
    let (ahead, behind) = (server - after, before - server);
    let next = "set both clocks by the network: a deadline is judged by the server's";
    if ahead > TOLERATED_MS {
        Finding::warning(format!("the server's is {} ahead", span(ahead)), next)
    } else if behind > TOLERATED_MS {
        Finding::warning(format!("the server's is {} behind", span(behind)), next)
    } else {
        Finding::ok("the server's agrees with the one here")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::finding::Verdict;

    #[test]
    fn a_slow_answer_is_no_wrong_clock() {
        let at = Timestamp::from_millis;
        let verdict = |server| compare(at(100_000), at(server), at(105_000)).verdict;
        assert_eq!(verdict(102_000), Verdict::Ok);
        assert_eq!(verdict(99_000), Verdict::Ok);
        assert_eq!(verdict(90_000), Verdict::Warning);
        assert_eq!(verdict(110_000), Verdict::Warning);
    }
}
