//! The agents' tokens that are kept here: whether the server still takes them.

use relay_sdk::ErrorCode;

use super::finding::{Finding, Layer};
use super::report::Report;
use crate::contact::Contact;
use crate::failure::Outcome;
use crate::hints;
use crate::words::counted;

/// Tokens that are tried; a server slows those down that come with too many wrong ones.
const TRIED: usize = 20;
const WRONG: usize = 3;

pub(super) async fn look(contact: &Contact, report: &mut Report<'_>) -> Outcome {
    let begun = report.begin();
    let kept = contact.agent_tokens().await?.all();
    let finding = match kept {
        Err(error) => Finding::failed(
            format!("{error:#}"),
            format!(
                "remove that file and get a new token: {}",
                hints::command("agent rotate NAME")
            ),
        ),
        Ok(kept) => {
            let (mut tried, mut wrong) = (0, Vec::new());
            for one in kept.iter().take(TRIED) {
                tried += 1;
                let taken = contact.relay.reconnect(&one.token).await;
                if taken.is_err_and(|error| error.code() == Some(ErrorCode::Unauthorized)) {
                    wrong.push(one.agent.as_str());
                }
                if wrong.len() == WRONG {
                    break;
                }
            }
            judge(tried, &wrong)
        }
    };
    report.add("kept tokens", Layer::Credentials, begun, finding)
}

fn judge(tried: usize, wrong: &[&str]) -> Finding {
    match wrong {
        [] if tried == 0 => Finding::ok("none are kept"),
        [] => {
            let tokens = counted(tried as u64, "agent's token is", "agents' tokens are");
            Finding::ok(format!("{tokens} taken"))
        }
        [first, ..] => Finding::warning(
            format!(
                "the server does not take the token that is kept for @{}",
                wrong.join(", @")
            ),
            format!(
                "{} gets a new one",
                hints::command(&format!("agent rotate {first}"))
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_are_wrong_are_named() {
        assert_eq!(judge(0, &[]), Finding::ok("none are kept"));
        assert_eq!(judge(1, &[]), Finding::ok("1 agent's token is taken"));
        assert_eq!(judge(2, &[]), Finding::ok("2 agents' tokens are taken"));
        let wrong = judge(3, &["ada", "bob"]);
        assert!(wrong.detail.ends_with("for @ada, @bob"));
        assert_eq!(wrong.next.unwrap(), "relay agent rotate ada gets a new one");
    }
}
