//! Every step against every state.

use super::*;
use relay_protocol::api::messages::ReadDoor;

/// Columns: pending, resting before another attempt, deferred, accepted, accepted once and never
/// again, delivered, failed, cancelled.
///
/// `p` pending, `a` accepted, `d` deferred, `D` delivered, `F` failed, `C` cancelled: it becomes that.
/// `l` it is only noted as late, `L` and an event tells it, `x` it is refused, `.` nothing.
const TABLE: &[(&str, &str)] = &[
    ("accepted", "aaallLLL"),
    ("delivered", "DDDDDLLL"),
    ("deferred", "dddddLLL"),
    ("deferred into the past", "dddddLLL"),
    ("deferred beyond the deadline", "FFFFFLLL"),
    ("failed, retryable", "pppppLLL"),
    ("failed, not retryable", "FFFFFLLL"),
    ("failed, nothing said of retries", "FFFFFLLL"),
    ("accepted while no offer is out", "lllllLLL"),
    ("delivered while no offer is out", "LLLDDLLL"),
    ("delivered for an older offer", "LLLLLLLL"),
    ("delivered by another session", "LLLLLLLL"),
    ("delivered for an older generation", "LLLDDLLL"),
    ("delivered belatedly, the newest offer", "DDDDDLLL"),
    ("delivered belatedly, of no known offer", "DDDDDLLL"),
    ("delivered belatedly, an older offer", "LLLLLLLL"),
    ("delivered belatedly, by another session", "LLLLLLLL"),
    ("delivered belatedly, by nobody known", "DDDDDLLL"),
    (
        "delivered belatedly, of no known offer by nobody known",
        "LLLDDLLL",
    ),
    (
        "delivered while the offer is about to be settled",
        "DDDLLLLL",
    ),
    ("accepted belatedly", "lllllLLL"),
    ("failed belatedly", "lllppLLL"),
    ("silence", "ppp....."),
    ("silence in an older generation", "........"),
    ("link lost, offer out", "ppp....."),
    ("link lost, offer to another session out", "........"),
    ("session released, offer out", "ppp....."),
    ("session failed, offer out", "ppp....."),
    ("link lost", "........"),
    ("lease expired", "...pF..."),
    ("session released", "...pF..."),
    ("session failed", "...pF..."),
    ("lease of another session expired", "........"),
    ("mismatch", "FFF....."),
    ("deadline, not needed to recall", "FFFFF..."),
    ("deadline, recall confirmed", "FFFFF..."),
    ("deadline, recall unanswered", "FFFFF..."),
    ("deadline, too early", "........"),
    ("cancelled, not needed to recall", "CCCCCxxx"),
    ("cancelled, recall confirmed", "CCCCCxxx"),
    ("cancelled, recall unanswered", "CCCCCxxx"),
    ("woken", ".pp....."),
    ("woken too early", "........"),
    ("read", "DDDxxxxx"),
    ("retried", "xxxxxxpx"),
    ("flushed", "ppp....."),
    ("agent released", "FFFFF..."),
];

fn rows() -> [DeliveryRow; 8] {
    [
        pending(),
        resting(),
        put_off(),
        accepted(),
        accepted_once(),
        ended(DeliveryState::Delivered),
        ended(DeliveryState::Failed),
        ended(DeliveryState::Cancelled),
    ]
}

fn step(name: &str) -> (Step, Timestamp) {
    let soon = at(2_000);
    let out = || Some(Box::new(offer(1)));
    let step = match name {
        "accepted" => answer(yes()),
        "delivered" => answer(seen()),
        "deferred" => answer(later(at(9_000))),
        "deferred into the past" => answer(later(at(0))),
        "deferred beyond the deadline" => answer(later(at(3_600_000))),
        "failed, retryable" => answer(no(Some(true))),
        "failed, not retryable" => answer(no(Some(false))),
        "failed, nothing said of retries" => answer(no(None)),
        "accepted while no offer is out" => says(yes()),
        "delivered while no offer is out" => says(seen()),
        "delivered for an older offer" => Step::Receipt {
            session: Some(SESSION),
            offer: out(),
            epoch: Some(0),
            receipt: seen(),
        },
        "delivered by another session" => Step::Receipt {
            session: Some(OTHER_SESSION),
            offer: out(),
            epoch: None,
            receipt: seen(),
        },
        "delivered for an older generation" => answer_to(older(), seen()),
        "delivered belatedly, the newest offer" => says_belatedly(Some(1), seen()),
        "delivered belatedly, of no known offer" => says_belatedly(None, seen()),
        "delivered belatedly, an older offer" => says_belatedly(Some(0), seen()),
        "delivered belatedly, by another session" => Step::BelatedReceipt {
            session: Some(OTHER_SESSION),
            offer: None,
            epoch: Some(1),
            receipt: seen(),
        },
        "delivered belatedly, by nobody known" => Step::BelatedReceipt {
            session: None,
            offer: None,
            epoch: Some(1),
            receipt: seen(),
        },
        "delivered belatedly, of no known offer by nobody known" => Step::BelatedReceipt {
            session: None,
            offer: None,
            epoch: None,
            receipt: seen(),
        },
        "delivered while the offer is about to be settled" => Step::BelatedReceipt {
            session: Some(SESSION),
            offer: Some(Box::new(offer(2))),
            epoch: Some(2),
            receipt: seen(),
        },
        "accepted belatedly" => says_belatedly(Some(1), yes()),
        "failed belatedly" => says_belatedly(Some(1), no(Some(true))),
        "silence" => silence(),
        "silence in an older generation" => Step::NoReceipt {
            offer: Box::new(older()),
        },
        "link lost, offer out" => returned(Some(offer(1)), ReturnCause::LinkLost),
        "link lost, offer to another session out" => {
            let other = Offer {
                session: OTHER_SESSION,
                ..offer(1)
            };
            returned(Some(other), ReturnCause::LinkLost)
        }
        "session released, offer out" => returned(Some(offer(1)), ReturnCause::SessionReleased),
        "session failed, offer out" => returned(Some(offer(1)), ReturnCause::SessionFailed),
        "link lost" => returned(None, ReturnCause::LinkLost),
        "lease expired" => returned(None, ReturnCause::LeaseExpired),
        "session released" => returned(None, ReturnCause::SessionReleased),
        "session failed" => returned(None, ReturnCause::SessionFailed),
        "lease of another session expired" => Step::Returned {
            offer: None,
            session: OTHER_SESSION,
            cause: ReturnCause::LeaseExpired,
        },
        "mismatch" => mismatch(),
        "deadline, not needed to recall" => return (expired(Recall::NotNeeded), at(3_600_000)),
        "deadline, recall confirmed" => return (expired(Recall::Confirmed(out())), at(3_600_000)),
        "deadline, recall unanswered" => {
            return (expired(Recall::Unanswered(out())), at(3_600_000));
        }
        "deadline, too early" => return (expired(Recall::NotNeeded), at(3_599_999)),
        "cancelled, not needed to recall" => cancelled(Recall::NotNeeded),
        "cancelled, recall confirmed" => cancelled(Recall::Confirmed(out())),
        "cancelled, recall unanswered" => cancelled(Recall::Unanswered(out())),
        "woken" => return (Step::Woken, at(1_000)),
        "woken too early" => return (Step::Woken, at(999)),
        "read" => Step::Read(ReadDoor::Inbox.into()),
        "retried" => Step::Retried,
        "flushed" => Step::Flushed,
        "agent released" => Step::AgentReleased {
            recall: Recall::NotNeeded,
        },
        other => panic!("no step {other}"),
    };
    (step, soon)
}

fn older() -> Offer {
    Offer {
        generation: 0,
        ..offer(1)
    }
}

fn expired(recall: Recall) -> Step {
    Step::Expired { recall }
}

fn letter(applied: &Applied) -> char {
    match applied {
        Applied::Moved(moved) => match moved.row.state {
            DeliveryState::Pending => 'p',
            DeliveryState::Offered => 'o',
            DeliveryState::Accepted => 'a',
            DeliveryState::Deferred => 'd',
            DeliveryState::Delivered => 'D',
            DeliveryState::Failed => 'F',
            DeliveryState::Cancelled => 'C',
        },
        Applied::Noted { fact: Some(_), .. } => 'L',
        Applied::Noted { fact: None, .. } => 'l',
        Applied::Nothing => '.',
        Applied::Refused(_) => 'x',
    }
}

#[test]
fn every_step_in_every_state_has_its_outcome() {
    for (name, expected) in TABLE {
        let (step, now) = step(name);
        let found: String = rows()
            .iter()
            .map(|row| letter(&take_at(row, &step, now)))
            .collect();
        assert_eq!(found, *expected, "{name}");
    }
}
