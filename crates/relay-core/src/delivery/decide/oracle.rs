//! Every combination of ask, status, capabilities, link, moment and policy, against the rules written
//! down once more: as a list of candidates, of which the first that is open is offered.

use relay_protocol::status::DEFAULT_SAFE_STATES;

use super::*;

const MODES: &[DeliveryMode] = DeliveryMode::ALL;

const MOMENTS: [Moment; 5] = [
    Moment::Now,
    Moment::Asked,
    Moment::At(BoundaryKind::NextMessage),
    Moment::At(BoundaryKind::NextToolCall),
    Moment::At(BoundaryKind::OnIdle),
];

/// What a verdict must be, but for its words.
#[derive(Debug, PartialEq)]
enum Expected {
    Offer(DeliveryMode),
    Hold(Option<DeliveryMode>),
    Mismatch(&'static str),
}

/// One row of the table of all combinations.
#[derive(Clone, Debug)]
struct Row {
    modes: Vec<DeliveryMode>,
    boundaries: Vec<DeliveryMode>,
    queue: bool,
    takes_image: bool,
    linked: bool,
    moment: Moment,
    status: AgentStatus,
    ask: Ask,
}

impl Row {
    fn has(&self, mode: DeliveryMode) -> bool {
        self.modes.contains(&mode)
    }

    /// The table of DESIGN: when a mode opens.
    fn opens(&self, mode: DeliveryMode) -> bool {
        use AgentStatus as S;
        let stands_at = |kind| self.moment == Moment::At(kind);
        match mode {
            DeliveryMode::Immediate => true,
            DeliveryMode::NextMessage => stands_at(BoundaryKind::NextMessage),
            DeliveryMode::NextToolCall => stands_at(BoundaryKind::NextToolCall),
            DeliveryMode::OnIdle => {
                matches!(self.status, S::Idle | S::Waiting | S::Blocked)
                    || stands_at(BoundaryKind::OnIdle)
            }
            DeliveryMode::Manual => false,
        }
    }

    fn expected(&self) -> Expected {
        use AgentStatus as S;
        let lacking = [
            (self.ask.image && !self.takes_image, "messaging.attachments"),
            (
                self.ask.mode.is_some_and(|mode| !self.has(mode)),
                "delivery.modes",
            ),
        ];
        let lack = lacking.iter().find(|(lacks, _)| *lacks);
        if let Some((_, what)) = lack.filter(|_| !self.ask.allow_downgrade) {
            return Expected::Mismatch(what);
        }
        if !matches!(self.status, S::Active | S::Idle | S::Waiting | S::Blocked) {
            return Expected::Hold(None);
        }
        let way = self.linked || self.moment != Moment::Now;
        let candidates = self.candidates();
        let open = candidates.iter().find(|(_, open)| *open && way);
        match open {
            Some((mode, _)) => Expected::Offer(*mode),
            None => Expected::Hold(Some(candidates[0].0)),
        }
    }

    /// The modes that come into question, most wanted first, and whether each is open.
    fn candidates(&self) -> Vec<(DeliveryMode, bool)> {
        let asked = self.ask.mode.filter(|mode| self.has(*mode));
        let manual = self.ask.flushed && self.has(DeliveryMode::Manual);
        let waits_for_nothing = self.ask.flushed || self.queue;
        match asked {
            Some(mode) if waits_for_nothing => vec![(mode, true)],
            None if manual => vec![(DeliveryMode::Manual, true)],
            // What was sent without a mode never interrupts.
            None if !self.ask.flushed
                && self.set().is_empty()
                && self.has(DeliveryMode::Immediate) =>
            {
                let rests = self.opens(DeliveryMode::OnIdle);
                vec![
                    (DeliveryMode::OnIdle, false),
                    (DeliveryMode::Immediate, rests),
                ]
            }
            None if waits_for_nothing => vec![(self.most_fitting(), true)],
            Some(mode) => self.one(mode),
            None => self.first_safe_boundary(),
        }
    }

    fn one(&self, mode: DeliveryMode) -> Vec<(DeliveryMode, bool)> {
        let mut list = vec![(mode, self.opens(mode))];
        if mode == DeliveryMode::NextToolCall
            && self.ask.allow_downgrade
            && self.has(DeliveryMode::OnIdle)
        {
            list.push((DeliveryMode::OnIdle, self.opens(DeliveryMode::OnIdle)));
        }
        list
    }

    fn first_safe_boundary(&self) -> Vec<(DeliveryMode, bool)> {
        let mut list: Vec<(DeliveryMode, bool)> = self
            .set()
            .into_iter()
            .map(|mode| (mode, self.opens(mode)))
            .collect();
        if list.is_empty() {
            return self.one(self.last_resort());
        }
        if !self.has(DeliveryMode::OnIdle) && self.has(DeliveryMode::Immediate) {
            let idle = self.status != AgentStatus::Active;
            list.push((DeliveryMode::Immediate, idle));
        }
        list
    }

    fn most_fitting(&self) -> DeliveryMode {
        let set = self.set();
        let here = set.iter().copied().find(|mode| match self.moment {
            Moment::At(kind) => kind.as_str() == mode.as_str(),
            Moment::Now | Moment::Asked => false,
        });
        let idles = self.has(DeliveryMode::OnIdle) && self.opens(DeliveryMode::OnIdle);
        match (here, idles, set.first()) {
            (Some(here), _, _) => here,
            (None, true, _) => DeliveryMode::OnIdle,
            (None, false, Some(first)) => *first,
            (None, false, None) => self.last_resort(),
        }
    }

    fn set(&self) -> Vec<DeliveryMode> {
        let supported = |ladder: &[DeliveryMode]| -> Vec<DeliveryMode> {
            let ladder = ladder.iter().copied();
            ladder.filter(|mode| self.has(*mode)).collect()
        };
        let set = supported(&self.boundaries);
        if set.is_empty() {
            use DeliveryMode as M;
            supported(&[M::NextToolCall, M::NextMessage, M::OnIdle])
        } else {
            set
        }
    }

    fn last_resort(&self) -> DeliveryMode {
        let mut ranked = self.modes.clone();
        ranked.sort_by_key(|mode| match mode {
            DeliveryMode::Immediate => 0,
            DeliveryMode::Manual => 2,
            _ => 1,
        });
        ranked[0]
    }
}

/// Some ways to set the boundaries, the default among them.
fn policies() -> Vec<Vec<DeliveryMode>> {
    use DeliveryMode as M;
    vec![
        Policy::default().boundaries,
        vec![],
        vec![M::NextMessage],
        vec![M::OnIdle, M::Immediate, M::NextToolCall],
    ]
}

/// Every non-empty set of modes; every other one in the opposite order, which matters to a last resort.
fn mode_sets() -> Vec<Vec<DeliveryMode>> {
    (1..1 << MODES.len())
        .map(|bits: usize| {
            let mut modes: Vec<_> = (0..MODES.len())
                .filter(|at| bits >> at & 1 == 1)
                .map(|at| MODES[at])
                .collect();
            if bits.count_ones().is_multiple_of(2) {
                modes.reverse();
            }
            modes
        })
        .collect()
}

fn asks() -> Vec<Ask> {
    let modes = [None].into_iter().chain(MODES.iter().copied().map(Some));
    let mut asks = Vec::new();
    for mode in modes {
        for bits in 0..8 {
            asks.push(Ask {
                mode,
                allow_downgrade: bits & 1 != 0,
                image: bits & 2 != 0,
                flushed: bits & 4 != 0,
            });
        }
    }
    asks
}

/// Goes through sessions and moments; `check` gets each with its view.
fn each_session(
    boundaries: &[DeliveryMode],
    mut check: impl FnMut(&Row, &SessionView<'_>, &Policy),
) {
    let policy = Policy {
        boundaries: boundaries.to_vec(),
        ..Policy::default()
    };
    for modes in mode_sets() {
        for bits in 0..8 {
            let mut capabilities = AgentSessionCapabilities::minimum();
            capabilities.delivery.modes.clone_from(&modes);
            let (queue, takes_image, linked) = (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
            capabilities.delivery.queue = queue.then_some(true);
            if takes_image {
                let kinds = &mut capabilities.messaging.attachments;
                kinds.push(AttachmentKind::Image);
            }
            for moment in MOMENTS {
                for &status in AgentStatus::ALL {
                    let row = Row {
                        modes: modes.clone(),
                        boundaries: boundaries.to_vec(),
                        queue,
                        takes_image,
                        linked,
                        moment,
                        status,
                        ask: asks()[0],
                    };
                    let view = SessionView {
                        capabilities: &capabilities,
                        safe_states: DEFAULT_SAFE_STATES,
                        status,
                        linked,
                    };
                    check(&row, &view, &policy);
                }
            }
        }
    }
}

#[test]
fn every_combination_is_as_the_rules_say() {
    let asks = asks();
    for boundaries in policies() {
        each_session(&boundaries, |row, view, policy| {
            let mut row = row.clone();
            for ask in &asks {
                row.ask = *ask;
                let verdict = decide(view, *ask, policy, row.moment);
                check_words(&verdict);
                let found = match verdict {
                    Verdict::Offer { mode, .. } => Expected::Offer(mode),
                    Verdict::Hold { waits_for, .. } => Expected::Hold(waits_for),
                    Verdict::Mismatch(mismatch) => Expected::Mismatch(mismatch.capability),
                };
                assert_eq!(found, row.expected(), "{row:?}");
            }
        });
    }
}

/// Every verdict has a short reason that goes on in the middle of a sentence.
fn check_words(verdict: &Verdict) {
    let (Verdict::Offer { why, .. } | Verdict::Hold { why, .. }) = verdict else {
        return;
    };
    assert!((5..=200).contains(&why.len()), "{why}");
    assert!(why.starts_with(|c: char| c.is_ascii_lowercase()), "{why}");
    assert!(!why.ends_with(['.', ':', ' ']), "{why}");
}

#[test]
fn a_set_of_lanes_says_what_each_decision_says() {
    each_session(&Policy::default().boundaries, |row, view, policy| {
        let open = open_lanes(view, policy, row.moment);
        for lane in LaneSet::ALL.iter() {
            let verdict = decide(view, lane.ask().unwrap(), policy, row.moment);
            let waits = matches!(verdict, Verdict::Hold { .. });
            assert_eq!(open.contains(lane), !waits, "{lane:?} {row:?}");
        }
    });
}

/// More leave never makes a delivery wait: a link, a flush, a downgrade, a boundary.
#[test]
fn leave_opens_and_never_closes() {
    let asks = asks();
    each_session(&Policy::default().boundaries, |row, view, policy| {
        let offered = |view: &SessionView<'_>, ask: Ask, moment| {
            matches!(decide(view, ask, policy, moment), Verdict::Offer { .. })
        };
        let linked = SessionView {
            linked: true,
            ..*view
        };
        for ask in asks.iter().filter(|ask| offered(view, **ask, row.moment)) {
            let flushed = Ask {
                flushed: true,
                ..*ask
            };
            let lenient = Ask {
                allow_downgrade: true,
                ..*ask
            };
            assert!(offered(&linked, *ask, row.moment), "{row:?} {ask:?}");
            assert!(offered(view, flushed, row.moment), "{row:?} {ask:?}");
            assert!(offered(view, lenient, row.moment), "{row:?} {ask:?}");
            let later = MOMENTS.iter().filter(|_| row.moment == Moment::Now);
            for moment in later {
                assert!(offered(view, *ask, *moment), "{row:?} {ask:?} {moment:?}");
            }
        }
    });
}
