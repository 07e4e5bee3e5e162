//! Who gets a message, and why. Pure.

use relay_protocol::delivery::DeliveryReason;

use crate::store::AgentNo;

/// What the decision depends on.
#[derive(Clone, Copy, Debug)]
pub struct Audience<'a> {
    /// The author, if it has a mailbox.
    pub author: Option<AgentNo>,
    /// True for conversations, false for channels.
    pub direct: bool,
    /// Everybody in the place, in ascending order.
    pub members: &'a [AgentNo],
    /// Author of the root and earlier repliers, for a reply.
    pub thread: Option<&'a [AgentNo]>,
    /// Members that the text names.
    pub mentioned: &'a [AgentNo],
}

/// The recipients in ascending order, each with the reason it will be told.
#[must_use]
pub fn decide_recipients(audience: Audience<'_>) -> Vec<(AgentNo, DeliveryReason)> {
    let everybody = audience.direct || audience.thread.is_none();
    audience
        .members
        .iter()
        .copied()
        .filter(|&agent| Some(agent) != audience.author)
        .filter(|agent| everybody || takes_part(audience, *agent))
        .map(|agent| (agent, decide_reason(audience, agent)))
        .collect()
}

fn takes_part(audience: Audience<'_>, agent: AgentNo) -> bool {
    audience.mentioned.contains(&agent)
        || audience
            .thread
            .is_some_and(|participants| participants.contains(&agent))
}

/// Why a message reaches an agent.
#[must_use]
pub fn decide_reason(audience: Audience<'_>, agent: AgentNo) -> DeliveryReason {
    if audience.mentioned.contains(&agent) {
        DeliveryReason::Mention
    } else if audience.thread.is_some() {
        DeliveryReason::ThreadReply
    } else if audience.direct {
        DeliveryReason::Dm
    } else {
        DeliveryReason::Message
    }
}

#[cfg(test)]
mod tests {
    use super::DeliveryReason::{Dm, Mention, Message, ThreadReply};
    use super::*;

    #[test]
    fn table() {
        let no = AgentNo;
        let members = [no(1), no(2), no(3), no(4)];
        let channel = Audience {
            author: Some(no(1)),
            direct: false,
            members: &members,
            thread: None,
            mentioned: &[],
        };
        let direct = Audience {
            direct: true,
            ..channel
        };
        type Told<'a> = &'a [(i64, DeliveryReason)];
        let cases: [(&str, Audience<'_>, Told<'_>); 8] = [
            (
                "a post reaches all but its author",
                channel,
                &[(2, Message), (3, Message), (4, Message)],
            ),
            (
                "a post of the system reaches all",
                Audience {
                    author: None,
                    ..channel
                },
                &[(1, Message), (2, Message), (3, Message), (4, Message)],
            ),
            (
                "a mention is told as one",
                Audience {
                    mentioned: &[no(3)],
                    ..channel
                },
                &[(2, Message), (3, Mention), (4, Message)],
            ),
            (
                "a reply reaches those in the thread",
                Audience {
                    thread: Some(&[no(2), no(1)]),
                    ..channel
                },
                &[(2, ThreadReply)],
            ),
            (
                "a reply reaches mentioned members too",
                Audience {
                    thread: Some(&[no(2)]),
                    mentioned: &[no(4)],
                    ..channel
                },
                &[(2, ThreadReply), (4, Mention)],
            ),
            (
                "who left the channel gets no reply",
                Audience {
                    thread: Some(&[no(9)]),
                    ..channel
                },
                &[],
            ),
            (
                "a direct message reaches the others",
                direct,
                &[(2, Dm), (3, Dm), (4, Dm)],
            ),
            (
                "a reply in a conversation reaches everybody in it",
                Audience {
                    thread: Some(&[no(2)]),
                    ..direct
                },
                &[(2, ThreadReply), (3, ThreadReply), (4, ThreadReply)],
            ),
        ];
        for (name, audience, expected) in cases {
            let expected: Vec<_> = expected
                .iter()
                .map(|(agent, why)| (no(*agent), *why))
                .collect();
            assert_eq!(decide_recipients(audience), expected, "{name}");
        }
    }
}
