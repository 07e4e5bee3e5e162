//! What exactly an answer brings about, or its absence: the row, the event, what is kept, who is told.

use super::*;

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
