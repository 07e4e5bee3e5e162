//! May this session have this delivery now, and in which mode?
//!
//! [`decide`] looks at the session, at what the delivery asks of it, at the policy and at the moment;
//! [`decide_delivery`] adds the delivery's own times. Both say why, in words for its explanation.

use std::borrow::Cow;

use relay_protocol::capability::AgentSessionCapabilities;
use relay_protocol::delivery::{DeliveryMode, DeliveryState};
use relay_protocol::delivery_record::{DecisionOutcome, DeliveryDecision};
use relay_protocol::ids::SessionId;
use relay_protocol::message::AttachmentKind;
use relay_protocol::negotiation::{CapabilityMismatch, check_mode};
use relay_protocol::policy::Policy;
use relay_protocol::session::BoundaryKind;
use relay_protocol::status::{AgentStatus, is_safe};
use relay_protocol::time::Timestamp;
use serde_json::json;

use super::lane::{Ask, LaneSet};
use crate::store::DeliveryRow;

/// A session, as decisions see it.
#[derive(Clone, Copy, Debug)]
pub struct SessionView<'a> {
    /// What it can do.
    pub capabilities: &'a AgentSessionCapabilities,
    /// The states in which `on-idle` is open.
    pub safe_states: &'a [AgentStatus],
    /// What it is doing.
    pub status: AgentStatus,
    /// Whether something can be handed to it now without its asking.
    pub linked: bool,
}

/// The moment at which a decision is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Any moment.
    Now,
    /// The session asks for what is due, standing at no boundary.
    Asked,
    /// The session stands at this boundary.
    At(BoundaryKind),
}

/// What is decided about a delivery and a session.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It is offered.
    Offer {
        /// The mode in which it is.
        mode: DeliveryMode,
        /// Why now, and why in this mode.
        why: Cow<'static, str>,
    },
    /// It waits.
    Hold {
        /// The mode whose boundary it waits for.
        waits_for: Option<DeliveryMode>,
        /// Why.
        why: Cow<'static, str>,
    },
    /// The session can't take it at all.
    Mismatch(CapabilityMismatch),
}

/// What is decided about a delivery that waits, its own times included.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// It is offered.
    Offer {
        /// The mode in which it is.
        mode: DeliveryMode,
        /// Why now, and why in this mode.
        why: Cow<'static, str>,
    },
    /// It waits.
    Hold(Hold),
    /// The session can't take it at all.
    Mismatch(CapabilityMismatch),
    /// Its deadline has passed.
    Expire,
}

/// Why a delivery waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The mode whose boundary it waits for.
    pub waits_for: Option<DeliveryMode>,
    /// The time it waits for.
    pub until: Option<Timestamp>,
    /// Why.
    pub why: Cow<'static, str>,
}

impl Hold {
    /// The decision as an explanation shows it; `session` is the one that was looked at.
    #[must_use]
    pub fn decision(&self, at: Timestamp, session: Option<SessionId>) -> DeliveryDecision {
        DeliveryDecision {
            at,
            outcome: match self.until {
                Some(_) => DecisionOutcome::Defer,
                None => DecisionOutcome::Hold,
            },
            reason: self.why.to_string(),
            session_id: session,
            mode: None,
            waits_for: self.waits_for,
            until: self.until,
        }
    }
}

impl From<Verdict> for Decision {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Offer { mode, why } => Self::Offer { mode, why },
            Verdict::Hold { waits_for, why } => Self::Hold(Hold {
                waits_for,
                until: None,
                why,
            }),
            Verdict::Mismatch(mismatch) => Self::Mismatch(mismatch),
        }
    }
}

/// Decides about a delivery that waits: one that is neither held by a session nor ended.
#[must_use]
pub fn decide_delivery(
    session: &SessionView<'_>,
    row: &DeliveryRow,
    policy: &Policy,
    moment: Moment,
    now: Timestamp,
) -> Decision {
    if row.deadline <= now {
        return Decision::Expire;
    }
    match row.not_before.filter(|until| now < *until) {
        Some(until) => Decision::Hold(resting(row, until)),
        None => decide(session, row.ask(), policy, moment).into(),
    }
}

fn resting(row: &DeliveryRow, until: Timestamp) -> Hold {
    let why = match row.state {
        DeliveryState::Deferred => "it was put off",
        _ => "it rests before the next attempt",
    };
    Hold {
        waits_for: None,
        until: Some(until),
        why: why.into(),
    }
}

/// The lanes in which something is to be done: offered, or failed because the session can't take it.
#[must_use]
pub fn open_lanes(session: &SessionView<'_>, policy: &Policy, moment: Moment) -> LaneSet {
    let mut open = LaneSet::default();
    for lane in LaneSet::ALL.iter() {
        let closed = lane.ask().is_none_or(|ask| {
            let verdict = decide(session, ask, policy, moment);
            matches!(verdict, Verdict::Hold { .. })
        });
        if !closed {
            open.insert(lane);
        }
    }
    open
}

/// Decides whether a session may have what asks this of it, at this moment.
///
/// What the session can never take comes first, then its status, then the moment.
#[must_use]
pub fn decide(session: &SessionView<'_>, ask: Ask, policy: &Policy, moment: Moment) -> Verdict {
    let content = check_image(session.capabilities, ask.image);
    let mode = ask
        .mode
        .map(|mode| check_mode(session.capabilities, mode).map(|()| mode));
    let asked = match (&content, mode) {
        (Err(mismatch), _) if !ask.allow_downgrade => return Verdict::Mismatch(mismatch.clone()),
        (_, Some(Err(mismatch))) if !ask.allow_downgrade => return Verdict::Mismatch(mismatch),
        (_, mode) => mode.and_then(Result::ok),
    };
    let case = Case {
        session,
        ask,
        policy,
        moment,
    };
    let verdict = match ask.mode {
        Some(mode) if asked.is_none() => instead_of(mode, case.time(None)),
        _ => case.time(asked),
    };
    match content {
        Ok(()) => verdict,
        Err(_) => without_image(verdict),
    }
}

/// Can the session take a picture?
fn check_image(
    capabilities: &AgentSessionCapabilities,
    image: bool,
) -> Result<(), CapabilityMismatch> {
    let supported = &capabilities.messaging.attachments;
    if !image || supported.contains(&AttachmentKind::Image) {
        return Ok(());
    }
    Err(CapabilityMismatch {
        capability: "messaging.attachments",
        requested: Box::new(json!(AttachmentKind::Image)),
        supported: Box::new(json!(supported)),
    })
}

/// Says in a verdict that the mode asked for is not the one that it is about.
fn instead_of(asked: DeliveryMode, verdict: Verdict) -> Verdict {
    let explain = |used: DeliveryMode, why: &str| {
        Cow::from(format!(
            "{asked} is not supported, {used} is used instead: {why}"
        ))
    };
    match verdict {
        Verdict::Offer { mode, why } => offer(mode, explain(mode, &why)),
        Verdict::Hold {
            waits_for: Some(mode),
            why,
        } => hold(Some(mode), explain(mode, &why)),
        other => other,
    }
}

/// Says in an offer that the session gets words in place of the picture.
fn without_image(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Offer { mode, why } => {
            offer(mode, format!("{why}; its image becomes a line of text"))
        }
        other => other,
    }
}

/// A question of time: the session can take it.
struct Case<'a> {
    session: &'a SessionView<'a>,
    ask: Ask,
    policy: &'a Policy,
    moment: Moment,
}

impl Case<'_> {
    /// Decides for a mode that the session supports, or for the first safe boundary.
    fn time(&self, asked: Option<DeliveryMode>) -> Verdict {
        if !self.session.status.takes_offers() {
            return self.only_at_rest(asked);
        }
        if self.ask.flushed {
            let manual = Some(DeliveryMode::Manual).filter(|mode| self.supports(*mode));
            let mode = asked.or(manual).unwrap_or_else(|| self.best_mode());
            return self.at_once(mode, "somebody flushed it");
        }
        if self.session.capabilities.queues()
            && let Some(mode) = asked.or_else(|| self.mode_for_queue())
        {
            return self.at_once(mode, "the session queues for itself");
        }
        match asked {
            Some(mode) => self.strict(mode),
            None => self.adaptive(),
        }
    }

    /// Decides for a session of a status in which it takes nothing, unless its harness has named that status
    /// as a safe state: then its `on-idle` boundary is open, and no other.
    fn only_at_rest(&self, asked: Option<DeliveryMode>) -> Verdict {
        let waits_for_rest = match asked {
            None | Some(DeliveryMode::OnIdle) => true,
            Some(DeliveryMode::NextToolCall) => self.ask.allow_downgrade,
            Some(_) => false,
        };
        let status = status_text(self.session.status);
        if !waits_for_rest || !self.is_safe() || !self.supports(DeliveryMode::OnIdle) {
            return hold(None, status);
        }
        self.at_once(DeliveryMode::OnIdle, status)
    }

    /// It waits for no boundary, only for a way to the session.
    fn at_once(&self, mode: DeliveryMode, why: &'static str) -> Verdict {
        if self.is_reachable() {
            offer(mode, why)
        } else {
            hold(Some(mode), NO_LINK)
        }
    }

    /// It opens in this mode and in no other.
    fn strict(&self, mode: DeliveryMode) -> Verdict {
        let may_fall_back = mode == DeliveryMode::NextToolCall && self.ask.allow_downgrade;
        if mode == DeliveryMode::Manual {
            hold(Some(mode), "it waits for a flush")
        } else if !self.is_reachable() {
            hold(Some(mode), NO_LINK)
        } else if self.is_open(mode) {
            offer(mode, self.why_open(mode))
        } else if may_fall_back && self.can_idle() {
            offer(DeliveryMode::OnIdle, "the turn ended without a tool call")
        } else {
            hold(Some(mode), self.why_closed(mode))
        }
    }

    /// It opens at the first of the session's boundaries that comes. It never interrupts, unless the policy
    /// says so.
    fn adaptive(&self) -> Verdict {
        let verdict = match self.boundaries().next() {
            Some(first) => self.at_first_of(first),
            None => self.without_boundaries(),
        };
        if self.fits_policy() {
            return verdict;
        }
        const NONE: &str = "the session supports none of the policy's boundaries";
        match verdict {
            Verdict::Offer { mode, why } => offer(mode, format!("{NONE}: {why}")),
            Verdict::Hold { waits_for, why } => hold(waits_for, format!("{NONE}: {why}")),
            other => other,
        }
    }

    fn at_first_of(&self, first: DeliveryMode) -> Verdict {
        let open = self.boundaries().find(|mode| self.is_open(*mode));
        let idle = self.is_safe()
            && !self.supports(DeliveryMode::OnIdle)
            && self.supports(DeliveryMode::Immediate);
        if !self.is_reachable() {
            hold(Some(first), NO_LINK)
        } else if let Some(mode) = open {
            offer(mode, self.why_open(mode))
        } else if idle {
            offer(DeliveryMode::Immediate, status_text(self.session.status))
        } else {
            hold(Some(first), self.why_closed(first))
        }
    }

    /// The session has no boundary. One that can be interrupted gets it while it is at rest, when nothing is
    /// interrupted; another one waits for a flush.
    fn without_boundaries(&self) -> Verdict {
        let rest = DeliveryMode::OnIdle;
        if !self.supports(DeliveryMode::Immediate) {
            self.strict(DeliveryMode::Manual)
        } else if !self.is_reachable() {
            hold(Some(rest), NO_LINK)
        } else if self.is_open(rest) {
            offer(DeliveryMode::Immediate, self.why_open(rest))
        } else {
            hold(Some(rest), self.why_closed(rest))
        }
    }

    /// The mode in which a session that queues for itself gets what was sent without one. Nothing for one that
    /// knows no boundary and can be interrupted: it would be interrupted at once.
    fn mode_for_queue(&self) -> Option<DeliveryMode> {
        let has_boundary = self.boundaries().next().is_some();
        let can_wait = has_boundary || !self.supports(DeliveryMode::Immediate);
        can_wait.then(|| self.best_mode())
    }

    /// The mode in which it goes when it waits for nothing and no mode was asked for.
    fn best_mode(&self) -> DeliveryMode {
        let here = self.boundaries().find(|mode| match self.moment {
            Moment::At(kind) => *mode == kind.mode(),
            Moment::Now | Moment::Asked => false,
        });
        let idle = Some(DeliveryMode::OnIdle).filter(|_| self.can_idle());
        here.or(idle)
            .or_else(|| self.boundaries().next())
            .unwrap_or_else(|| self.any_mode())
    }

    /// The mode for a session without boundaries.
    fn any_mode(&self) -> DeliveryMode {
        if self.supports(DeliveryMode::Immediate) {
            DeliveryMode::Immediate
        } else {
            DeliveryMode::Manual
        }
    }

    /// The boundaries of the session at which something without a mode goes, most wanted first: the policy's,
    /// or the safe ones if it supports none of those.
    fn boundaries(&self) -> impl Iterator<Item = DeliveryMode> {
        let ladder = if self.fits_policy() {
            &self.policy.boundaries
        } else {
            SAFE_BOUNDARIES
        };
        let ladder = ladder.iter().copied();
        ladder.filter(|mode| self.supports(*mode))
    }

    /// Whether the session supports one of the policy's boundaries.
    fn fits_policy(&self) -> bool {
        let wanted = &self.policy.boundaries;
        wanted.iter().any(|mode| self.supports(*mode))
    }

    fn supports(&self, mode: DeliveryMode) -> bool {
        self.session.capabilities.delivery.modes.contains(&mode)
    }

    /// Whether something can be handed over: at any moment by a link, else as the answer.
    fn is_reachable(&self) -> bool {
        self.session.linked || self.moment != Moment::Now
    }

    fn is_safe(&self) -> bool {
        is_safe(self.session.status, self.session.safe_states)
    }

    fn can_idle(&self) -> bool {
        self.supports(DeliveryMode::OnIdle) && self.is_open(DeliveryMode::OnIdle)
    }

    fn is_open(&self, mode: DeliveryMode) -> bool {
        match mode {
            DeliveryMode::Immediate => true,
            DeliveryMode::OnIdle => self.is_safe() || self.is_at(mode),
            DeliveryMode::NextMessage | DeliveryMode::NextToolCall => self.is_at(mode),
            DeliveryMode::Manual => false,
        }
    }

    fn is_at(&self, mode: DeliveryMode) -> bool {
        matches!(self.moment, Moment::At(kind) if kind.mode() == mode)
    }

    fn why_open(&self, mode: DeliveryMode) -> &'static str {
        if mode == DeliveryMode::Immediate {
            "it waits for nothing"
        } else if self.is_at(mode) {
            "the session stands at that boundary"
        } else {
            status_text(self.session.status)
        }
    }

    fn why_closed(&self, mode: DeliveryMode) -> &'static str {
        match (self.moment, self.session.status) {
            (Moment::At(_), _) => "the session stands at another boundary",
            (_, status) if mode == DeliveryMode::OnIdle => status_text(status),
            (_, AgentStatus::Idle) => "the session is idle, not at that boundary",
            (_, AgentStatus::Waiting) => "the session is waiting, not at that boundary",
            (_, AgentStatus::Blocked) => "the session is blocked, not at that boundary",
            (_, status) => status_text(status),
        }
    }
}

/// The boundaries that interrupt nothing, the soonest first.
const SAFE_BOUNDARIES: &[DeliveryMode] = &[
    DeliveryMode::NextToolCall,
    DeliveryMode::NextMessage,
    DeliveryMode::OnIdle,
];

const NO_LINK: &str = "the session has no link at the moment";

const fn status_text(status: AgentStatus) -> &'static str {
    match status {
        AgentStatus::Starting => "the session is starting",
        AgentStatus::Active => "the session is active",
        AgentStatus::Idle => "the session is idle",
        AgentStatus::Waiting => "the session is waiting",
        AgentStatus::Blocked => "the session is blocked",
        AgentStatus::Paused => "the session is paused",
        AgentStatus::Releasing => "the session is releasing",
        AgentStatus::Released => "the session is released",
        AgentStatus::Offline => "the session is offline",
        AgentStatus::Failed => "the session has failed",
    }
}

fn offer(mode: DeliveryMode, why: impl Into<Cow<'static, str>>) -> Verdict {
    Verdict::Offer {
        mode,
        why: why.into(),
    }
}

fn hold(waits_for: Option<DeliveryMode>, why: impl Into<Cow<'static, str>>) -> Verdict {
    Verdict::Hold {
        waits_for,
        why: why.into(),
    }
}

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;
