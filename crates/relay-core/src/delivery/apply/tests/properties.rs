//! What holds of a delivery whatever happens to it.

use proptest::prelude::*;
use relay_protocol::api::messages::ReadDoor;
use relay_protocol::delivery_state::DeliveryCause;

use super::*;

/// Something that happens, still without the offer that is out.
#[derive(Clone, Debug)]
enum Happening {
    Offer { live: bool, other: bool },
    Answer { receipt: MessageReceipt, old: bool },
    Silence,
    Return { cause: ReturnCause, of_offer: bool },
    Mismatch,
    Expire(u8),
    Cancel(u8),
    Plain(Step),
}

fn any_receipt() -> impl Strategy<Value = MessageReceipt> {
    let retryable = prop_oneof![Just(None), Just(Some(true)), Just(Some(false))];
    prop_oneof![
        3 => retryable.clone().prop_map(|retryable| {
            MessageReceipt::Accepted(AcceptedReceipt {
                delivery_id: delivery_id(),
                retryable,
                metadata: None,
            })
        }),
        1 => Just(seen()),
        3 => (0..4_000_000_i64).prop_map(|until| later(at(until))),
        3 => Just(no(Some(true))),
        1 => retryable.prop_map(no),
    ]
}

fn any_cause() -> impl Strategy<Value = ReturnCause> {
    prop_oneof![
        Just(ReturnCause::LinkLost),
        Just(ReturnCause::LeaseExpired),
        Just(ReturnCause::SessionReleased),
        Just(ReturnCause::SessionFailed),
    ]
}

fn any_happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        8 => (any::<bool>(), any::<bool>())
            .prop_map(|(live, other)| Happening::Offer { live, other }),
        8 => (any_receipt(), proptest::bool::weighted(0.2))
            .prop_map(|(receipt, old)| Happening::Answer { receipt, old }),
        4 => Just(Happening::Silence),
        4 => (any_cause(), any::<bool>())
            .prop_map(|(cause, of_offer)| Happening::Return { cause, of_offer }),
        1 => Just(Happening::Mismatch),
        1 => (0..3_u8).prop_map(Happening::Expire),
        1 => (0..3_u8).prop_map(Happening::Cancel),
        6 => Just(Happening::Plain(Step::Woken)),
        1 => Just(Happening::Plain(Step::Read(ReadDoor::Mcp.into()))),
        3 => Just(Happening::Plain(Step::Retried)),
        2 => Just(Happening::Plain(Step::Flushed)),
        1 => Just(Happening::Plain(Step::AgentReleased { recall: Recall::NotNeeded })),
    ]
}

/// A delivery with the offer that is out.
struct Life {
    row: DeliveryRow,
    out: Option<Offer>,
    offers: u64,
    now: i64,
    /// Attempts that were counted in this generation.
    counted: u32,
}

impl Life {
    fn step(&mut self, happening: Happening) -> Option<Step> {
        let out = || self.out.clone().map(Box::new);
        let session = match (&self.out, self.row.holder) {
            (Some(offer), _) => offer.session,
            (None, Some(holder)) => holder.session,
            (None, None) => SESSION,
        };
        Some(match happening {
            Happening::Offer { live, other } => {
                self.offer(live, other);
                return None;
            }
            Happening::Answer { receipt, old } => Step::Receipt {
                session: Some(session),
                offer: out(),
                epoch: old.then_some(0),
                receipt,
            },
            Happening::Silence => Step::NoReceipt { offer: out()? },
            Happening::Return { cause, of_offer } => Step::Returned {
                offer: out().filter(|_| of_offer),
                session,
                cause,
            },
            Happening::Mismatch => mismatch(),
            Happening::Expire(how) => Step::Expired {
                recall: recall(how, out()),
            },
            Happening::Cancel(how) => cancelled(recall(how, out())),
            Happening::Plain(step) => step,
        })
    }

    fn offer(&mut self, live: bool, other: bool) {
        let session = match self.row.only_session {
            Some(session) => session,
            None if other => OTHER_SESSION,
            None => SESSION,
        };
        let waits = matches!(
            self.row.state,
            DeliveryState::Pending | DeliveryState::Deferred
        );
        let due = self
            .row
            .not_before
            .is_none_or(|until| until <= at(self.now));
        if waits && due && self.out.is_none() {
            self.offers += 1;
            self.out = Some(Offer {
                generation: self.row.generation,
                session,
                session_id: session_id(session),
                live,
                ..offer(self.offers)
            });
        }
    }

    fn take(&mut self, step: &Step) {
        match take_at(&self.row, step, at(self.now)) {
            Applied::Moved(moved) => {
                self.check_move(step, &moved);
                self.row = moved.row;
                if moved.settles.is_some() || self.row.state.is_terminal() {
                    self.out = None;
                }
            }
            Applied::Noted { entry, fact } => {
                assert!(matches!(&*entry, Entry::Receipt(stored) if stored.late));
                let was_shown = matches!(
                    step,
                    Step::Receipt {
                        receipt: MessageReceipt::Delivered(_),
                        ..
                    }
                );
                let is_told = was_shown || self.row.state.is_terminal();
                assert_eq!(fact.is_some(), is_told);
            }
            Applied::Nothing => {}
            Applied::Refused(_) => {
                let asked = matches!(step, Step::Cancelled { .. } | Step::Retried | Step::Read(_));
                assert!(asked, "{step:?}");
            }
        }
        self.check_row();
    }

    fn check_row(&self) {
        let row = &self.row;
        let ends = row.state.is_terminal();
        assert_ne!(row.state, DeliveryState::Offered);
        assert_eq!(row.holder.is_some(), row.state == DeliveryState::Accepted);
        assert!(row.not_before.is_none() || !(ends || row.holder.is_some()));
        assert!(row.state != DeliveryState::Deferred || row.not_before.is_some());
        assert_eq!(
            row.surfaced.is_some(),
            ends && row.state != DeliveryState::Delivered
        );
        assert!(row.error.is_none() || row.state == DeliveryState::Failed);
        assert!(row.attempts <= policy().retry.attempts);
        assert!(self.counted <= policy().retry.attempts);
    }

    fn check_move(&mut self, step: &Step, moved: &Moved) {
        let (from, to) = (self.row.state, moved.row.state);
        assert!(self.row != moved.row || moved.settles.is_some(), "{step:?}");
        if from.is_terminal() {
            assert_eq!(*step, Step::Retried);
            assert_eq!(moved.row.generation, self.row.generation + 1);
            self.counted = 0;
        } else {
            assert_eq!(moved.row.generation, self.row.generation);
        }
        self.check_legal(step, moved);
        self.check_told(step, moved);
        self.check_history(moved);
        let unchanged = DeliveryRow {
            state: from,
            used_mode: self.row.used_mode,
            flushed: self.row.flushed,
            redelivered: self.row.redelivered,
            after_accept: self.row.after_accept,
            deadline: self.row.deadline,
            generation: self.row.generation,
            attempts: self.row.attempts,
            not_before: self.row.not_before,
            holder: self.row.holder,
            surfaced: self.row.surfaced,
            error: self.row.error.clone(),
            ..moved.row.clone()
        };
        assert_eq!(unchanged, self.row, "to {to}");
        assert!(moved.row.redelivered || !self.row.redelivered);
    }

    fn check_legal(&self, step: &Step, moved: &Moved) {
        let from = match moved.settles {
            Some(_) => DeliveryState::Offered,
            None => self.row.state,
        };
        let cause = match step {
            Step::Read(_) => DeliveryCause::InboxRead,
            Step::Retried => DeliveryCause::Retry,
            _ => DeliveryCause::Progress,
        };
        let to = moved.row.state;
        assert!(
            from == to || from.check_transition(to, cause).is_ok(),
            "{from} {to} {step:?}"
        );
    }

    fn check_told(&self, step: &Step, moved: &Moved) {
        let what = moved.fact.as_ref().map(|fact| &fact.what);
        let ends = match what {
            Some(FactKind::Delivered { .. }) => Some(DeliveryState::Delivered),
            Some(FactKind::Failed { .. }) => Some(DeliveryState::Failed),
            Some(FactKind::Cancelled { .. }) => Some(DeliveryState::Cancelled),
            _ => None,
        };
        let terminal = Some(moved.row.state).filter(|state| state.is_terminal());
        assert_eq!(ends, terminal);
        let quiet = matches!(step, Step::Woken | Step::Flushed);
        assert!(what.is_some() || quiet, "{step:?}");
        assert_eq!(
            moved.receipt.is_some(),
            moved.row.state != DeliveryState::Pending
                || moved.settles.is_some()
                || self.row.holder.is_some()
        );
    }

    /// Every offer is settled with a receipt; what is decided is said.
    fn check_history(&mut self, moved: &Moved) {
        let mut settled = None;
        let mut answered = None;
        for entry in &moved.history {
            match entry {
                Entry::Offer(SettledOffer { attempt, .. }) => {
                    settled = Some(attempt.epoch);
                    self.counted += u32::from(attempt.counted);
                    assert!(attempt.settled_at.is_some() && attempt.outcome.is_some());
                }
                Entry::Receipt(stored) => {
                    answered = stored.epoch;
                    assert!(!stored.late);
                }
                Entry::Decision(decision) => assert!(!decision.reason.is_empty()),
                Entry::Context(given) => panic!("a step gives no context: {given:?}"),
            }
        }
        assert!(!moved.history.is_empty());
        assert_eq!(settled, moved.settles);
        assert_eq!(
            settled,
            self.out
                .as_ref()
                .map(|out| out.epoch)
                .filter(|_| settled.is_some())
        );
        assert!(settled.is_none() || settled == answered);
    }
}

fn recall(how: u8, out: Option<Box<Offer>>) -> Recall {
    match how {
        0 => Recall::NotNeeded,
        1 => Recall::Confirmed(out),
        _ => Recall::Unanswered(out),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn whatever_happens_the_rules_hold(
        happenings in proptest::collection::vec((any_happening(), 0..200_000_i64), 1..80),
        only in proptest::bool::weighted(0.2),
        flushed in proptest::bool::weighted(0.2),
    ) {
        let mut life = Life {
            row: DeliveryRow {
                only_session: only.then_some(SESSION),
                flushed,
                ..pending()
            },
            out: None,
            offers: 0,
            now: 0,
            counted: 0,
        };
        for (happening, pause) in happenings {
            life.now += pause;
            if let Some(step) = life.step(happening) {
                life.take(&step);
            }
        }
    }
}
