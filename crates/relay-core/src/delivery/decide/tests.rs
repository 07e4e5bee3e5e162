//! What is decided, as a table for people to read; [`super::oracle`] goes through all combinations.

use relay_protocol::delivery::Priority;
use relay_protocol::status::DEFAULT_SAFE_STATES;

use super::*;
use crate::delivery::apply::fixtures::{at, pending};
use crate::delivery::lane::Lane;

/// What is asked | the session and the moment | the verdict.
///
/// An ask is a mode or `any`, then what else holds of the delivery. A session is its status and its
/// modes, then what else holds of it; it has a link unless it says otherwise. `at:` is a boundary.
const TABLE: &str = r#"
# An explicit mode is kept strictly.
immediate | active immediate | offer immediate: it waits for nothing
immediate | idle immediate on-idle | offer immediate: it waits for nothing
immediate | active immediate next-tool-call at:next-tool-call | offer immediate: it waits for nothing
on-idle | idle immediate on-idle | offer on-idle: the session is idle
on-idle | waiting on-idle | offer on-idle: the session is waiting
on-idle | blocked on-idle | offer on-idle: the session is blocked
on-idle | active on-idle | hold on-idle: the session is active
on-idle | waiting on-idle safe:idle | hold on-idle: the session is waiting
on-idle | active on-idle safe:active | offer on-idle: the session is active
on-idle | active on-idle at:on-idle | offer on-idle: the session stands at that boundary
on-idle | active on-idle at:next-message | hold on-idle: the session stands at another boundary
next-message | active next-message | hold next-message: the session is active
next-message | idle next-message | hold next-message: the session is idle, not at that boundary
next-message | active next-message at:next-message | offer next-message: the session stands at that boundary
next-message | active next-message at:next-tool-call | hold next-message: the session stands at another boundary
next-tool-call | active next-tool-call on-idle | hold next-tool-call: the session is active
next-tool-call | waiting next-tool-call on-idle | hold next-tool-call: the session is waiting, not at that boundary
next-tool-call | blocked next-tool-call on-idle | hold next-tool-call: the session is blocked, not at that boundary
next-tool-call | active next-tool-call at:next-tool-call | offer next-tool-call: the session stands at that boundary
manual | idle manual on-idle | hold manual: it waits for a flush
manual | idle manual at:next-message | hold manual: it waits for a flush
# A turn that ended without a tool call.
next-tool-call downgrade | idle next-tool-call on-idle | offer on-idle: the turn ended without a tool call
next-tool-call downgrade | active next-tool-call on-idle at:on-idle | offer on-idle: the turn ended without a tool call
next-tool-call downgrade | active next-tool-call on-idle | hold next-tool-call: the session is active
next-tool-call downgrade | idle next-tool-call immediate | hold next-tool-call: the session is idle, not at that boundary
next-message downgrade | idle next-message on-idle | hold next-message: the session is idle, not at that boundary
# A mode that the session does not have.
immediate | idle on-idle | mismatch: the session does not support "immediate" for delivery.modes; it supports ["on-idle"]
manual flushed | idle on-idle | mismatch: the session does not support "manual" for delivery.modes; it supports ["on-idle"]
manual | paused on-idle immediate | mismatch: the session does not support "manual" for delivery.modes; it supports ["on-idle","immediate"]
immediate downgrade | idle on-idle | offer on-idle: immediate is not supported, on-idle is used instead: the session is idle
immediate downgrade | active on-idle | hold on-idle: immediate is not supported, on-idle is used instead: the session is active
on-idle downgrade | active next-message immediate | hold next-message: on-idle is not supported, next-message is used instead: the session is active
next-tool-call downgrade | active immediate | hold on-idle: next-tool-call is not supported, on-idle is used instead: the session supports none of the policy's boundaries: the session is active
next-tool-call downgrade | idle immediate | offer immediate: next-tool-call is not supported, immediate is used instead: the session supports none of the policy's boundaries: the session is idle
manual downgrade flushed | active next-message | offer next-message: manual is not supported, next-message is used instead: somebody flushed it
immediate downgrade | paused on-idle | hold: the session is paused
# An image that the session can't take.
any image | idle on-idle | mismatch: the session does not support "image" for messaging.attachments; it supports ["text"]
immediate image | idle on-idle | mismatch: the session does not support "image" for messaging.attachments; it supports ["text"]
any image | idle on-idle image | offer on-idle: the session is idle
any image downgrade | idle on-idle | offer on-idle: the session is idle; its image becomes a line of text
any image downgrade | active on-idle | hold on-idle: the session is active
# States in which nothing is offered.
immediate | starting immediate | hold: the session is starting
immediate | paused immediate | hold: the session is paused
any | releasing on-idle | hold: the session is releasing
any | released on-idle queue | hold: the session is released
any flushed | offline on-idle | hold: the session is offline
any flushed | failed on-idle at:on-idle | hold: the session has failed
# A harness may name any of them as a safe state: then on-idle is open, and nothing else.
on-idle | paused on-idle safe:paused | offer on-idle: the session is paused
any | paused on-idle immediate safe:paused | offer on-idle: the session is paused
any flushed | paused on-idle manual safe:paused | offer on-idle: the session is paused
next-tool-call downgrade | starting next-tool-call on-idle safe:starting | offer on-idle: the session is starting
next-tool-call | starting next-tool-call on-idle safe:starting | hold: the session is starting
immediate | paused on-idle immediate safe:paused | hold: the session is paused
manual flushed | paused on-idle manual safe:paused | hold: the session is paused
any | paused immediate safe:paused | hold: the session is paused
on-idle | paused on-idle queue safe:idle | hold: the session is paused
on-idle | paused on-idle queue safe:paused | offer on-idle: the session is paused
on-idle | offline on-idle safe:offline unlinked | hold on-idle: the session has no link at the moment
on-idle | released on-idle safe:released | hold: the session is released
# Somebody flushed it.
any flushed | active on-idle next-message | offer next-message: somebody flushed it
any flushed | active on-idle manual | offer manual: somebody flushed it
on-idle flushed | active on-idle manual | offer on-idle: somebody flushed it
manual flushed | active manual | offer manual: somebody flushed it
any flushed | active on-idle next-message unlinked | hold next-message: the session has no link at the moment
any flushed | active on-idle next-message unlinked at:next-message | offer next-message: somebody flushed it
# The session queues for itself.
any | active next-message on-idle queue | offer next-message: the session queues for itself
any | idle next-tool-call on-idle queue | offer on-idle: the session queues for itself
any | active next-tool-call next-message queue at:next-message | offer next-message: the session queues for itself
any | active immediate manual queue | hold on-idle: the session supports none of the policy's boundaries: the session is active
any | idle immediate manual queue | offer immediate: the session supports none of the policy's boundaries: the session is idle
any | active immediate on-idle queue policy:next-message | offer on-idle: the session queues for itself
any | active manual queue | offer manual: the session queues for itself
manual | active manual queue | offer manual: the session queues for itself
on-idle | active on-idle queue unlinked | hold on-idle: the session has no link at the moment
# There is no link.
any | idle next-message on-idle unlinked | hold next-message: the session has no link at the moment
on-idle | idle on-idle unlinked | hold on-idle: the session has no link at the moment
immediate | idle immediate unlinked | hold immediate: the session has no link at the moment
manual | idle manual unlinked | hold manual: it waits for a flush
immediate | idle immediate unlinked at:next-message | offer immediate: it waits for nothing
# No mode: the first safe boundary.
any | idle next-tool-call on-idle | offer on-idle: the session is idle
any | active next-tool-call on-idle | hold next-tool-call: the session is active
any | active on-idle next-message immediate | hold next-message: the session is active
any | active next-tool-call next-message at:next-tool-call | offer next-tool-call: the session stands at that boundary
any | active next-tool-call next-message at:next-message | offer next-message: the session stands at that boundary
any | active next-tool-call next-message at:on-idle | hold next-tool-call: the session stands at another boundary
any | active on-idle at:on-idle | offer on-idle: the session stands at that boundary
any | idle next-tool-call immediate | offer immediate: the session is idle
any | active next-tool-call immediate | hold next-tool-call: the session is active
any | idle next-tool-call | hold next-tool-call: the session is idle, not at that boundary
# The session supports none of the policy's boundaries.
any | active immediate | hold on-idle: the session supports none of the policy's boundaries: the session is active
any | idle immediate | offer immediate: the session supports none of the policy's boundaries: the session is idle
any | active immediate at:on-idle | offer immediate: the session supports none of the policy's boundaries: the session stands at that boundary
any | active immediate unlinked | hold on-idle: the session supports none of the policy's boundaries: the session has no link at the moment
any | active immediate on-idle policy:next-message | hold on-idle: the session supports none of the policy's boundaries: the session is active
any | active immediate on-idle next-message policy:next-tool-call | hold next-message: the session supports none of the policy's boundaries: the session is active
any | active immediate on-idle next-message policy:next-tool-call at:next-message | offer next-message: the session supports none of the policy's boundaries: the session stands at that boundary
any | idle immediate next-message policy:next-tool-call | offer immediate: the session supports none of the policy's boundaries: the session is idle
any | idle manual | hold manual: the session supports none of the policy's boundaries: it waits for a flush
any | active manual on-idle policy:next-message | hold on-idle: the session supports none of the policy's boundaries: the session is active
any | idle manual on-idle policy: | offer on-idle: the session supports none of the policy's boundaries: the session is idle
# Other policies.
any | active immediate on-idle policy:immediate | offer immediate: it waits for nothing
any | idle next-tool-call on-idle policy:next-tool-call | hold next-tool-call: the session is idle, not at that boundary
"#;

#[test]
fn the_table_holds() {
    let rows = TABLE.lines().filter(|line| line.contains('|'));
    for row in rows {
        let columns: Vec<&str> = row.split(" | ").collect();
        let [ask, session, expected] = columns[..] else {
            panic!("three columns in {row}");
        };
        assert_eq!(decided(ask, session), expected, "{row}");
    }
}

fn decided(ask: &str, session: &str) -> String {
    let scene = Scene::of(session);
    let verdict = decide(&scene.view(), ask_of(ask), &scene.policy, scene.moment);
    match verdict {
        Verdict::Offer { mode, why } => format!("offer {mode}: {why}"),
        Verdict::Hold {
            waits_for: Some(mode),
            why,
        } => format!("hold {mode}: {why}"),
        Verdict::Hold { why, .. } => format!("hold: {why}"),
        Verdict::Mismatch(mismatch) => format!("mismatch: {mismatch}"),
    }
}

fn ask_of(text: &str) -> Ask {
    let words: Vec<&str> = text.split(' ').collect();
    Ask {
        mode: words[0].parse().ok(),
        allow_downgrade: words.contains(&"downgrade"),
        image: words.contains(&"image"),
        flushed: words.contains(&"flushed"),
    }
}

struct Scene {
    capabilities: AgentSessionCapabilities,
    safe_states: Vec<AgentStatus>,
    status: AgentStatus,
    linked: bool,
    moment: Moment,
    policy: Policy,
}

impl Scene {
    fn of(text: &str) -> Self {
        let (status, rest) = text.split_once(' ').unwrap();
        let mut scene = Self {
            capabilities: AgentSessionCapabilities::minimum(),
            safe_states: DEFAULT_SAFE_STATES.to_vec(),
            status: status.parse().unwrap(),
            linked: true,
            moment: Moment::Now,
            policy: Policy::default(),
        };
        scene.capabilities.delivery.modes.clear();
        for word in rest.split(' ') {
            scene.add(word);
        }
        scene
    }

    fn add(&mut self, word: &str) {
        let delivery = &mut self.capabilities.delivery;
        match word.split_once(':').unwrap_or((word, "")) {
            ("at", kind) => self.moment = Moment::At(kind.parse().unwrap()),
            ("safe", status) => self.safe_states = vec![status.parse().unwrap()],
            ("policy", modes) => self.policy.boundaries = modes.parse().into_iter().collect(),
            ("queue", _) => delivery.queue = Some(true),
            ("unlinked", _) => self.linked = false,
            ("image", _) => {
                let kinds = &mut self.capabilities.messaging.attachments;
                kinds.push(AttachmentKind::Image);
            }
            (mode, _) => delivery.modes.push(mode.parse().unwrap()),
        }
    }

    fn view(&self) -> SessionView<'_> {
        SessionView {
            capabilities: &self.capabilities,
            safe_states: &self.safe_states,
            status: self.status,
            linked: self.linked,
        }
    }
}

#[test]
fn a_lane_is_open_unless_what_is_in_it_waits() {
    let scene = Scene::of("active next-tool-call on-idle at:on-idle");
    let open = open_lanes(&scene.view(), &scene.policy, scene.moment);
    let is_open = |ask| {
        let lanes = [Priority::Urgent, Priority::Normal]
            .map(|priority| Lane::for_ask(ask_of(ask), priority));
        assert_eq!(open.contains(lanes[0]), open.contains(lanes[1]), "{ask}");
        open.contains(lanes[0])
    };
    for ask in ["any", "on-idle", "any flushed", "next-tool-call downgrade"] {
        assert!(is_open(ask), "{ask}");
    }
    // These can't be taken at all, which has to be said.
    for ask in ["immediate", "next-message", "manual", "on-idle image"] {
        assert!(is_open(ask), "{ask}");
    }
    assert!(!is_open("next-tool-call"));
    let special = [Lane::ADDRESSED, Lane::HELD, Lane::RESTING];
    assert!(special.iter().all(|lane| !open.contains(*lane)));
}

#[test]
fn a_session_that_takes_no_offers_opens_only_what_it_can_never_take() {
    let scene = Scene::of("paused immediate next-message next-tool-call on-idle manual image");
    let open = open_lanes(&scene.view(), &scene.policy, scene.moment);
    assert!(open.is_empty());
}

#[test]
fn times_come_before_the_session() {
    let scene = Scene::of("idle on-idle");
    let deciding = |row: &DeliveryRow, now| {
        let view = scene.view();
        decide_delivery(&view, row, &scene.policy, scene.moment, now)
    };
    let resting_until = |until, why: &'static str| {
        Decision::Hold(Hold {
            waits_for: None,
            until: Some(until),
            why: why.into(),
        })
    };
    let offered = Decision::Offer {
        mode: DeliveryMode::OnIdle,
        why: "the session is idle".into(),
    };
    let fresh = pending();
    let failed_once = DeliveryRow {
        not_before: Some(at(5_000)),
        attempts: 1,
        ..pending()
    };
    let put_off = DeliveryRow {
        state: DeliveryState::Deferred,
        ..failed_once.clone()
    };
    let cases = [
        (&fresh, at(0), offered.clone()),
        (&fresh, at(3_599_999), offered.clone()),
        (&fresh, at(3_600_000), Decision::Expire),
        (
            &failed_once,
            at(4_999),
            resting_until(at(5_000), "it rests before the next attempt"),
        ),
        (&failed_once, at(5_000), offered.clone()),
        (
            &put_off,
            at(4_999),
            resting_until(at(5_000), "it was put off"),
        ),
        (&put_off, at(5_000), offered),
        (&put_off, at(3_600_000), Decision::Expire),
    ];
    for (row, now, expected) in cases {
        assert_eq!(deciding(row, now), expected, "{:?} at {now}", row.state);
    }
}

#[test]
fn a_hold_is_shown_as_a_decision() {
    let session = SessionId::new(at(0), 1);
    let hold = Hold {
        waits_for: Some(DeliveryMode::OnIdle),
        until: None,
        why: "the session is active".into(),
    };
    let shown = hold.decision(at(1), Some(session));
    assert_eq!(
        shown,
        DeliveryDecision {
            at: at(1),
            outcome: DecisionOutcome::Hold,
            reason: "the session is active".to_owned(),
            session_id: Some(session),
            mode: None,
            waits_for: Some(DeliveryMode::OnIdle),
            until: None,
        }
    );
    let until = Hold {
        until: Some(at(9)),
        ..hold
    };
    let shown = until.decision(at(1), None);
    assert_eq!(
        (shown.outcome, shown.until),
        (DecisionOutcome::Defer, Some(at(9)))
    );
}
