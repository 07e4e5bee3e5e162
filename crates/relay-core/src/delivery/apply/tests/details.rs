//! What exactly a step brings about: the row, the event, what is kept, and who is told.

use super::*;

/// Checks a change against its text.
#[track_caller]
fn check(applied: &Applied, expected: &str) {
    let found = shown(applied);
    let expected: String = expected
        .trim()
        .lines()
        .map(|line| format!("{}\n", line.trim()))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn an_offer_is_accepted_then_delivered() {
    let applied = take(&pending(), &answer(yes()));
    check(
        &applied,
        "accepted, 0 attempts
         event accepted
         offer 1: accepted
         receipt by session: accepted
         told accepted",
    );
    let Applied::Moved(held) = applied else {
        return;
    };
    assert_eq!(
        (held.settles, held.row.holder),
        (Some(1), accepted().holder)
    );
    assert_eq!(held.row.used_mode, Some(DeliveryMode::OnIdle));
    let told = held.fact.and_then(|fact| fact.session);
    assert_eq!(told, Some(session_id(SESSION)));
    let applied = take(&held.row, &says(seen()));
    check(
        &applied,
        "delivered, 0 attempts
         event delivered
         receipt by session: delivered
         told delivered",
    );
    let Applied::Moved(done) = applied else {
        return;
    };
    assert_eq!((done.settles, done.row.holder), (None, None));
    assert_eq!(
        done.fact.and_then(|fact| fact.session),
        Some(session_id(SESSION))
    );
}

#[test]
fn an_offer_is_delivered_at_once() {
    check(
        &take(&pending(), &answer(seen())),
        "delivered, 0 attempts
         event delivered
         offer 1: delivered
         receipt by session: delivered
         told delivered",
    );
}

#[test]
fn a_session_puts_it_off() {
    let deferred = "deferred, 0 attempts, until 9000 ms
         event deferred until 9000 ms: busy
         offer 1: deferred
         receipt by session: deferred
         decided defer until 9000 ms: the session put it off
         told deferred";
    check(&take(&pending(), &answer(later(at(9_000)))), deferred);
    let held = deferred.replace("offer 1: deferred\n", "");
    check(&take(&accepted(), &says(later(at(9_000)))), &held);
    // Into the past: the least wait.
    for past in [at(0), at(2_000)] {
        let found = moved(&pending(), &answer(later(past)));
        assert_eq!(found.row.not_before, Some(at(3_000)));
    }
    let found = moved(&pending(), &answer(later(at(2_001))));
    assert_eq!(found.row.not_before, Some(at(2_001)));
}

#[test]
fn a_session_puts_it_off_beyond_the_deadline() {
    check(
        &take(&pending(), &answer(later(at(3_600_000)))),
        "failed, 0 attempts, surfaced no
         event failed, surfaced no: deferred_past_deadline
         offer 1: deferred
         receipt by session: deferred
         decided fail: the session put it off beyond its deadline
         told failed: deferred_past_deadline",
    );
    // The least wait can lead there, too.
    let nearly = DeliveryRow {
        deadline: at(3_000),
        ..pending()
    };
    let found = moved(&nearly, &answer(later(at(0))));
    assert_eq!(found.row.state, DeliveryState::Failed);
}

#[test]
fn a_failed_attempt_is_repeated_until_none_is_left() {
    check(
        &take(&pending(), &answer(no(Some(true)))),
        "pending, 1 attempts, until 3000 ms
         event attempt 1 failed, next 3000 ms: broken
         offer 1: broken, counted
         receipt by session: failed, retryable: broken
         decided defer until 3000 ms: 1 of 3 attempts are used up
         told failed, retryable: broken",
    );
    let twice = DeliveryRow {
        attempts: 2,
        ..pending()
    };
    check(
        &take(&twice, &answer(no(Some(true)))),
        "failed, 3 attempts, surfaced no
         event failed at attempt 3, surfaced no: attempts_exhausted: broken
         offer 1: broken, counted
         receipt by session: failed, retryable: broken
         decided fail: all 3 attempts are used up
         told failed: attempts_exhausted: broken",
    );
}

#[test]
fn a_failure_that_is_not_retryable_ends_it() {
    for retryable in [None, Some(false)] {
        check(
            &take(&pending(), &answer(no(retryable))),
            "failed, 1 attempts, surfaced no
             event failed at attempt 1, surfaced no: broken
             offer 1: broken, counted
             receipt by session: failed: broken
             told failed: broken",
        );
    }
    // What had been accepted fails the same way.
    check(
        &take(&accepted(), &says(no(None))),
        "failed, 1 attempts, surfaced no
         event failed at attempt 1, surfaced no: broken
         receipt by session: failed: broken
         told failed: broken",
    );
}

#[test]
fn silence_is_a_failed_attempt_after_which_nobody_can_tell() {
    check(
        &take(&pending(), &silence()),
        "pending, 1 attempts, until 3000 ms, redelivered
         event attempt 1 failed, next 3000 ms: no_receipt
         offer 1: no_receipt, counted
         receipt by relay: failed, retryable: no_receipt
         decided defer until 3000 ms: 1 of 3 attempts are used up
         told failed, retryable: no_receipt",
    );
    let twice = DeliveryRow {
        attempts: 2,
        ..pending()
    };
    check(
        &take(&twice, &silence()),
        "failed, 3 attempts, surfaced unknown, redelivered
         event failed at attempt 3, surfaced unknown: attempts_exhausted: no_receipt
         offer 1: no_receipt, counted
         receipt by relay: failed, retryable: no_receipt
         decided fail: all 3 attempts are used up
         told failed: attempts_exhausted: no_receipt",
    );
}

#[test]
fn only_offers_over_a_live_link_count() {
    let quiet = Offer {
        live: false,
        ..offer(1)
    };
    let exhausted = DeliveryRow {
        attempts: 2,
        ..pending()
    };
    for step in [
        answer_to(quiet.clone(), no(Some(true))),
        Step::NoReceipt {
            offer: Box::new(quiet),
        },
    ] {
        let found = moved(&exhausted, &step);
        assert_eq!(found.row.state, DeliveryState::Pending);
        assert_eq!(found.row.attempts, 2);
        let counted = found
            .history
            .iter()
            .any(|entry| matches!(entry, Entry::Offer(settled) if settled.attempt.counted));
        assert!(!counted);
    }
}

#[test]
fn an_offer_of_what_was_accepted_before_does_not_count_once() {
    let after_accept = DeliveryRow {
        attempts: 2,
        after_accept: true,
        ..pending()
    };
    let found = moved(&after_accept, &silence());
    assert_eq!(
        (found.row.state, found.row.attempts, found.row.after_accept),
        (DeliveryState::Pending, 2, false)
    );
    let again = DeliveryRow {
        not_before: None,
        ..found.row
    };
    let found = moved(&again, &silence());
    assert_eq!(
        (found.row.state, found.row.attempts),
        (DeliveryState::Failed, 3)
    );
}

#[test]
fn what_a_session_accepted_and_then_failed_counts() {
    let found = moved(&accepted(), &says(no(Some(true))));
    assert_eq!(
        (found.row.state, found.row.attempts),
        (DeliveryState::Pending, 1)
    );
    assert_eq!((found.settles, found.row.holder), (None, None));
}

#[test]
fn a_lost_link_gives_the_offer_back() {
    let found = take(&resting(), &returned(Some(offer(1)), ReturnCause::LinkLost));
    check(
        &found,
        "pending, 1 attempts, redelivered
         event deferred until 2000 ms: link_lost
         offer 1: link_lost
         receipt by relay: failed, retryable: link_lost
         decided reopen: the link was lost before an answer came
         told failed, retryable: link_lost",
    );
    // Whether it repeats what was accepted is not forgotten by it.
    let after_accept = DeliveryRow {
        after_accept: true,
        ..pending()
    };
    let found = moved(
        &after_accept,
        &returned(Some(offer(1)), ReturnCause::LinkLost),
    );
    assert!(found.row.after_accept);
}

#[test]
fn the_end_of_a_lease_gives_back_what_was_accepted() {
    check(
        &take(&accepted(), &returned(None, ReturnCause::LeaseExpired)),
        "pending, 0 attempts, redelivered, after accept
         event deferred until 2000 ms: lease_expired
         receipt by relay: failed, retryable: lease_expired
         decided reopen: the session that held it was away for too long
         told failed, retryable: lease_expired",
    );
    check(
        &take(&accepted_once(), &returned(None, ReturnCause::LeaseExpired)),
        "failed, 0 attempts, surfaced unknown
         event failed, surfaced unknown: lease_expired
         receipt by relay: failed: lease_expired
         decided fail: the session that held it was away for too long; it was not to be offered again
         told failed: lease_expired",
    );
}

#[test]
fn what_only_one_session_may_have_ends_with_it() {
    let only = |row| DeliveryRow {
        only_session: Some(SESSION),
        ..row
    };
    let released = ReturnCause::SessionReleased;
    let failed = "failed, 0 attempts, surfaced unknown
         event failed, surfaced unknown: session_released
         offer 1: session_released
         receipt by relay: failed: session_released
         decided fail: its session was released; no other may have it
         told failed: session_released";
    check(
        &take(&only(pending()), &returned(Some(offer(1)), released)),
        failed,
    );
    check(
        &take(&only(accepted()), &returned(None, released)),
        &failed.replace("offer 1: session_released\n", ""),
    );
    // It had not even been offered.
    check(
        &take(
            &only(pending()),
            &returned(None, ReturnCause::SessionFailed),
        ),
        "failed, 0 attempts, surfaced no
         event failed, surfaced no: session_failed
         decided fail: its session failed; no other may have it
         told failed: session_failed",
    );
    // The session itself may come back.
    for cause in [ReturnCause::LinkLost, ReturnCause::LeaseExpired] {
        assert_eq!(
            take(&only(pending()), &returned(None, cause)),
            Applied::Nothing
        );
        let found = moved(&only(pending()), &returned(Some(offer(1)), cause));
        assert_eq!(found.row.state, DeliveryState::Pending);
    }
}

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
    let cases = [
        (pending(), cancelled(Recall::NotNeeded), No),
        (pending(), cancelled(Recall::Confirmed(out())), No),
        (pending(), cancelled(Recall::Unanswered(out())), Unknown),
        (accepted(), cancelled(Recall::Confirmed(None)), No),
        (accepted(), cancelled(Recall::Unanswered(None)), Unknown),
        // Nobody asked the session that has it.
        (accepted(), cancelled(Recall::NotNeeded), Unknown),
        (accepted(), Step::AgentReleased, Unknown),
        (pending(), Step::AgentReleased, No),
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
    // One for an older offer is kept only.
    let older = Step::Receipt {
        session: Some(SESSION),
        offer: Some(Box::new(offer(2))),
        epoch: Some(1),
        receipt: seen(),
    };
    check(
        &take(&pending(), &older),
        "noted
         late receipt by session: delivered",
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
        take(&found.row, &answer(seen())),
        Applied::Noted { fact: None, .. }
    ));
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
        &take(&put_off(), &Step::Read),
        "delivered, 0 attempts
         event delivered
         receipt by relay: delivered
         told delivered",
    );
    check(
        &take(&accepted(), &Step::Read),
        "a delivery cannot go from accepted to delivered by being read in the inbox",
    );
    let found = moved(&pending(), &Step::Read);
    let Some(Entry::Receipt(stored)) = found.history.first() else {
        panic!("{:?}", found.history);
    };
    assert_eq!((stored.by, stored.session_id), (ReceiptSource::Relay, None));
    let Some(MessageReceipt::Delivered(delivered)) = found.receipt else {
        panic!("{:?}", found.receipt);
    };
    assert_eq!(delivered.metadata.unwrap()["door"], "inbox");
}
