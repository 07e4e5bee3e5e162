//! What exactly the other steps bring about: ends, late receipts, and what lets a delivery wait again.

use super::*;
use relay_protocol::api::messages::ReadDoor;

#[test]
fn a_mismatch_fails_it_with_its_problem() {
    let applied = take(&pending(), &mismatch());
    check(
        &applied,
        "failed, 0 attempts, surfaced no, error
         event failed, surfaced no: capability_not_supported
         decided fail: it can't do that
         told failed: capability_not_supported",
    );
    let Applied::Moved(found) = applied else {
        return;
    };
    let fact = found.fact.unwrap();
    assert_eq!(fact.session, Some(session_id(SESSION)));
    let FactKind::Failed { error, .. } = fact.what else {
        panic!("{:?}", fact.what);
    };
    assert_eq!(error, found.row.error);
}

#[test]
fn the_deadline_and_a_cancellation_settle_what_is_out() {
    let out = || Some(Box::new(offer(1)));
    let deadline = |recall| take_at(&pending(), &Step::Expired { recall }, at(3_600_000));
    check(
        &deadline(Recall::NotNeeded),
        "failed, 0 attempts, surfaced no
         event failed, surfaced no: deadline_exceeded
         decided fail: its deadline 2025-11-15T23:14:20.000Z has passed
         told failed: deadline_exceeded",
    );
    check(
        &deadline(Recall::Unanswered(out())),
        "failed, 0 attempts, surfaced unknown
         event failed, surfaced unknown: deadline_exceeded
         offer 1: deadline_exceeded
         receipt by relay: failed: deadline_exceeded
         decided fail: its deadline 2025-11-15T23:14:20.000Z has passed
         told failed: deadline_exceeded",
    );
    check(
        &take(&pending(), &cancelled(Recall::Confirmed(out()))),
        "cancelled, 0 attempts, surfaced no
         event cancelled, surfaced no: no need
         offer 1: cancelled
         receipt by relay: failed: cancelled
         decided cancel: no need
         told failed: cancelled",
    );
}

#[test]
fn whether_it_was_seen_depends_on_who_had_it() {
    use Surfaced::{No, Unknown};
    let redelivered = |row| DeliveryRow {
        redelivered: true,
        ..row
    };
    let out = || Some(Box::new(offer(1)));
    let released = |recall| Step::AgentReleased { recall };
    let cases = [
        (pending(), cancelled(Recall::NotNeeded), No),
        (pending(), cancelled(Recall::Confirmed(out())), No),
        (pending(), cancelled(Recall::Unanswered(out())), Unknown),
        (accepted(), cancelled(Recall::Confirmed(None)), No),
        (accepted(), cancelled(Recall::Unanswered(None)), Unknown),
        // Nobody asked the session that has it.
        (accepted(), cancelled(Recall::NotNeeded), Unknown),
        (accepted(), released(Recall::NotNeeded), Unknown),
        (pending(), released(Recall::NotNeeded), No),
        (pending(), released(Recall::Unanswered(out())), Unknown),
        (pending(), mismatch(), No),
        // A session stayed silent before, or lost its link.
        (
            redelivered(pending()),
            cancelled(Recall::NotNeeded),
            Unknown,
        ),
        (
            redelivered(pending()),
            cancelled(Recall::Confirmed(out())),
            Unknown,
        ),
        (redelivered(pending()), mismatch(), Unknown),
        (redelivered(pending()), answer(no(None)), Unknown),
        (
            redelivered(pending()),
            answer(later(at(3_600_000))),
            Unknown,
        ),
        (pending(), answer(no(None)), No),
    ];
    for (row, step, expected) in cases {
        let found = moved(&row, &step);
        assert_eq!(found.row.surfaced, Some(expected), "{step:?}");
        let told = match found.fact.map(|fact| fact.what) {
            Some(FactKind::Failed { surfaced, .. } | FactKind::Cancelled { surfaced, .. }) => {
                surfaced
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(told, expected, "{step:?}");
    }
}

#[test]
fn a_receipt_after_the_end_is_kept_and_told() {
    check(
        &take(&ended(DeliveryState::Cancelled), &says(seen())),
        "noted
         late receipt by session: delivered
         event late delivered",
    );
    // One for an older offer changes nothing, and is told because the message was seen.
    let older = Step::Receipt {
        session: Some(SESSION),
        offer: Some(Box::new(offer(2))),
        epoch: Some(1),
        receipt: seen(),
    };
    check(
        &take(&pending(), &older),
        "noted
         late receipt by session: delivered
         event late delivered",
    );
}

#[test]
fn a_late_receipt_names_its_session_only_when_that_is_known() {
    let by = |session: Option<SessionNo>, row: &DeliveryRow| {
        let step = Step::Receipt {
            session,
            offer: Some(Box::new(offer(2))),
            epoch: Some(1),
            receipt: seen(),
        };
        match take(row, &step) {
            Applied::Noted { entry, .. } => match *entry {
                Entry::Receipt(stored) => (stored.session_id, stored.epoch, stored.late),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    };
    let known = (Some(session_id(SESSION)), Some(1), true);
    let unknown = (None, Some(1), true);
    assert_eq!(by(Some(SESSION), &pending()), known);
    assert_eq!(by(Some(OTHER_SESSION), &pending()), unknown);
    assert_eq!(by(None, &pending()), unknown);
    let held_again = DeliveryRow {
        holder: Some(Holder {
            session: OTHER_SESSION,
            epoch: 3,
            retryable: true,
        }),
        ..accepted()
    };
    let other = (Some(session_id(OTHER_SESSION)), Some(1), true);
    assert_eq!(by(Some(OTHER_SESSION), &held_again), other);
}

#[test]
fn accepting_twice_changes_nothing() {
    check(
        &take(&accepted(), &says(yes())),
        "noted
         late receipt by session: accepted",
    );
}

#[test]
fn it_waits_again_when_its_time_has_come_or_somebody_says_so() {
    check(
        &take(&put_off(), &Step::Woken),
        "pending, 0 attempts
         decided reopen: its time has come",
    );
    check(
        &take(&put_off(), &Step::Flushed),
        "pending, 0 attempts, flushed
         event deferred until 2000 ms: flushed
         decided reopen: somebody flushed it",
    );
    check(
        &take(&resting(), &Step::Flushed),
        "pending, 1 attempts, flushed
         decided reopen: somebody flushed it",
    );
    let flushed = moved(&pending(), &Step::Flushed).row;
    assert_eq!(take(&flushed, &Step::Flushed), Applied::Nothing);
    let resting = DeliveryRow {
        flushed: true,
        ..resting()
    };
    assert_eq!(moved(&resting, &Step::Flushed).row.not_before, None);
}

#[test]
fn a_retry_begins_a_new_generation() {
    let failed = DeliveryRow {
        attempts: 3,
        redelivered: true,
        error: Some(Box::new(Problem::new(ErrorCode::QueueFull, "full"))),
        ..ended(DeliveryState::Failed)
    };
    let applied = take(&failed, &Step::Retried);
    check(
        &applied,
        "pending, 0 attempts, redelivered
         event deferred until 2000 ms: retry
         decided reopen: retried, generation 2",
    );
    let Applied::Moved(found) = applied else {
        return;
    };
    assert_eq!(found.row.generation, 2);
    assert_eq!(found.row.deadline, failed.deadline);
    // Answers to offers of the generation before come too late.
    assert!(matches!(
        take(&found.row, &answer(no(None))),
        Applied::Noted { fact: None, .. }
    ));
    for late in [answer(seen()), says_belatedly(Some(1), seen())] {
        let noted = take(&found.row, &late);
        assert!(matches!(noted, Applied::Noted { fact: Some(_), .. }));
    }
    // With its deadline behind it, it gets the time that a new one has.
    let now = at(3_600_000);
    let Applied::Moved(found) = take_at(&failed, &Step::Retried, now) else {
        panic!("it is retried");
    };
    let lifetime = millis(policy().default_deadline_ms);
    assert_eq!(found.row.deadline, now.plus_millis(lifetime));
}

fn millis(millis: u64) -> i64 {
    i64::try_from(millis).unwrap()
}

#[test]
fn reading_in_the_inbox_delivers() {
    check(
        &take(&put_off(), &Step::Read(ReadDoor::Inbox.into())),
        "delivered, 0 attempts
         event delivered
         receipt by relay: delivered
         told delivered",
    );
    check(
        &take(&accepted(), &Step::Read(ReadDoor::Inbox.into())),
        "a delivery cannot go from accepted to delivered by being read in the inbox",
    );
    let found = moved(&pending(), &Step::Read(ReadDoor::Inbox.into()));
    let Some(Entry::Receipt(stored)) = found.history.first() else {
        panic!("{:?}", found.history);
    };
    assert_eq!((stored.by, stored.session_id), (ReceiptSource::Relay, None));
    let Some(MessageReceipt::Delivered(delivered)) = found.receipt else {
        panic!("{:?}", found.receipt);
    };
    assert_eq!(delivered.metadata.unwrap()["door"], "inbox");
}
