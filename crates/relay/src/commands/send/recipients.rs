//! To whom a message goes, as people write it.

use relay_protocol::api::messages::SendTarget;

use crate::contact::Contact;
use crate::failure::{Failure, Outcome};

/// Reads `bob`, `@bob`, `ada,bob` or `#general`. A bare name is an agent: guessing between agents and channels
/// could send a message where it should not go.
pub(super) fn read(text: &str) -> Outcome<SendTarget> {
    if let Some(channel) = text.strip_prefix('#') {
        return match channel.contains(',') {
            true => Err(Failure::usage(format!(
                "expected one channel, or agents with commas between; found {text:?}"
            ))),
            false => Ok(SendTarget::Channel(channel.to_owned())),
        };
    }
    let parts = text.split(',').map(str::trim);
    let mut names: Vec<String> = parts
        .filter(|part| !part.is_empty())
        .map(|part| part.trim_start_matches('@').to_owned())
        .collect();
    match names.len() {
        0 => Err(
            Failure::usage("expected an agent or a #channel, found nothing").next(
                "quote a channel, or the shell takes it for a comment: relay send '#general' …",
            ),
        ),
        1 => Ok(SendTarget::Agent(names.remove(0))),
        _ if names.iter().any(|name| name.starts_with('#')) => Err(Failure::usage(format!(
            "expected one channel, or agents with commas between; found {text:?}"
        ))),
        _ => Ok(SendTarget::Agents(names)),
    }
}

/// An agent that does not exist may be a channel that does.
pub(super) async fn mistaken(failure: Failure, to: &str, contact: &Contact) -> Failure {
    if to.starts_with(['@', '#']) || to.contains(',') {
        return failure;
    }
    match contact.relay.channel(to).await {
        Ok(channel) => failure.next(format!(
            "there is a channel of that name: relay send '#{}' …",
            channel.name
        )),
        Err(_) => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipients_are_agents_or_one_channel() {
        let agent = |name: &str| SendTarget::Agent(name.to_owned());
        assert_eq!(read("bob").unwrap(), agent("bob"));
        assert_eq!(read("@bob").unwrap(), agent("bob"));
        assert_eq!(read("#ops").unwrap(), SendTarget::Channel("ops".to_owned()));
        let both = SendTarget::Agents(vec!["ada".to_owned(), "bob".to_owned()]);
        assert_eq!(read("ada, @bob").unwrap(), both);
        for text in ["", ",", "ada,#ops", "#ops,ada"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
