//! The round trip: two agents with a session each send each other a message in every mode.
//!
//! What waits for a boundary is looked at before that is opened, so that a message that came too early is found, too.

use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use relay_protocol::delivery::{DeliveryMode, DeliveryState};
use relay_protocol::delivery_record::Delivery;
use relay_protocol::ids::DeliveryId;
use relay_sdk::{AgentStatus, BoundaryKind, FlushInput, Relay};

use super::clock;
use super::disk::millis;
use super::finding::{Finding, Layer};
use super::report::Report;
use crate::failure::{Exit, Failure, Outcome};
use crate::hints;
use crate::moment;
use crate::output::one_line;
use crate::throwaway::{DeliveryWatch, Part, Player, Stage, Step, Surfaced};

/// How long a message may take to reach a session that it waits for no longer.
const PATIENCE: Duration = Duration::from_secs(3);

/// A boundary is a moment: it is said again until what waits for it has come.
const SAY_AGAIN: Duration = Duration::from_millis(200);

/// What to look at when no session can be had.
const NO_SESSIONS: &str = "see in the server's log whether it refuses sockets; server.connections limits how many it takes";

/// What can't happen.
const REPORT: &str = "that is a bug of Relay; please report it with this output";

const PART: Part = Part {
    harness: "relay-doctor",
    modes: DeliveryMode::ALL,
    queues: false,
    status: AgentStatus::Idle,
};

/// Two agents, and those who look on.
struct Pair {
    relay: Relay,
    watch: DeliveryWatch,
    one: Player,
    other: Player,
}

/// How a message went.
struct Trip {
    surfaced_after: Duration,
    settled_after: Duration,
    receipt: &'static str,
}

impl fmt::Display for Trip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            surfaced_after,
            settled_after,
            receipt,
        } = self;
        let (surfaced, settled) = (millis(*surfaced_after), millis(*settled_after));
        write!(f, "surfaced {surfaced}, receipt {receipt} {settled}")
    }
}

pub(super) async fn look(stage: &mut Stage, report: &mut Report<'_>) -> Outcome {
    let begun = report.begin();
    let mut pair = match within("the sessions", begin(stage)).await {
        Ok(pair) => pair,
        Err(failure) => {
            let next = failure.advice().unwrap_or(NO_SESSIONS);
            let finding = Finding::failed(failure.message(), next);
            report.add("two sessions", Layer::Session, begun, finding)?;
            return report.skip("round trip", Layer::Delivery, "it needs two sessions");
        }
    };
    let names = format!(
        "{} and {} are attached",
        pair.one.handle(),
        pair.other.handle()
    );
    report.add("two sessions", Layer::Session, begun, Finding::ok(names))?;
    compare_clocks(&mut pair, report).await?;
    for mode in DeliveryMode::ALL {
        let begun = report.begin();
        let finding = both_ways(&mut pair, *mode).await;
        report.add(mode.as_str(), Layer::Delivery, begun, finding)?;
    }
    Ok(())
}

async fn begin(stage: &mut Stage) -> Outcome<Pair> {
    let watch = DeliveryWatch::begin(stage.relay()).await?;
    let run = run_number();
    let one = stage.register(&format!("doctor-{run:06x}-a")).await?;
    let other = stage.register(&format!("doctor-{run:06x}-b")).await?;
    Ok(Pair {
        relay: stage.relay().clone(),
        watch,
        one: Player::attach(one, PART).await?,
        other: Player::attach(other, PART).await?,
    })
}

/// Two that run at the same time take different names.
fn run_number() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanos = since.map_or(0, |since| since.subsec_nanos());
    (nanos ^ std::process::id().rotate_left(12)) & 0x00ff_ffff
}

/// The server stamps its time on a message.
async fn compare_clocks(pair: &mut Pair, report: &mut Report<'_>) -> Outcome {
    let begun = report.begin();
    let before = moment::now();
    let to = pair.one.handle();
    let sent = pair.other.client.send_message(to, "What time is it?").await;
    let finding = match sent {
        Ok(sent) => clock::compare(before, sent.message.created_at, moment::now()),
        Err(error) => Finding::skipped(format!("no message could be sent: {error}")),
    };
    report.add("clock", Layer::Process, begun, finding)
}

async fn both_ways(pair: &mut Pair, mode: DeliveryMode) -> Finding {
    let Pair {
        relay,
        watch,
        one,
        other,
    } = pair;
    let there = match trip(relay, watch, one, other, mode).await {
        Ok(trip) => trip,
        Err(finding) => return finding,
    };
    let back = match trip(relay, watch, other, one, mode).await {
        Ok(trip) => trip,
        Err(finding) => return finding,
    };
    Finding::ok(format!("there: {there}; back: {back}"))
}

/// Sends a message and follows it to its end.
async fn trip(
    relay: &Relay,
    watch: &DeliveryWatch,
    from: &Player,
    to: &mut Player,
    mode: DeliveryMode,
) -> Result<Trip, Finding> {
    let way = format!("{} to {}", from.handle(), to.handle());
    let failed = |failure: Failure| {
        Finding::failed(
            format!("{way}: {}", failure.message()),
            "look at the server's log",
        )
    };
    if mode == DeliveryMode::OnIdle {
        to.become_status(AgentStatus::Active)
            .await
            .map_err(failed)?;
    }
    let begun = Instant::now();
    let sent = from
        .client
        .send_message(to.handle(), "Are you there?")
        .mode(mode)
        .await;
    let sent = sent.map_err(|error| failed(error.into()))?;
    let Some(delivery) = sent.deliveries.first() else {
        return Err(failed(unexpected("the send made no delivery")));
    };
    let id = delivery.delivery_id;
    if mode != DeliveryMode::Immediate || delivery.state != DeliveryState::Pending {
        let waiting = relay
            .delivery(id)
            .await
            .map_err(|error| failed(error.into()))?;
        judge_waiting(&waiting, mode)?;
    }
    let opened = match mode {
        DeliveryMode::Immediate => begun,
        _ => Instant::now(),
    };
    let (surfaced, ended) = tokio::join!(
        open(relay, to, mode, id),
        within("its end", watch.until(id, Step::is_end))
    );
    let settled_after = opened.elapsed();
    let known = relay
        .delivery(id)
        .await
        .map_err(|error| failed(error.into()))?;
    let receipt = judge_end(&known, mode)?;
    let (surfaced, _) = (surfaced.map_err(failed)?, ended.map_err(failed)?);
    Ok(Trip {
        surfaced_after: surfaced.at.saturating_duration_since(opened),
        settled_after,
        receipt,
    })
}

/// Opens what a message waits for, and waits until it has come.
async fn open(
    relay: &Relay,
    to: &mut Player,
    mode: DeliveryMode,
    id: DeliveryId,
) -> Outcome<Surfaced> {
    let boundary = match mode {
        DeliveryMode::NextMessage => Some(BoundaryKind::NextMessage),
        DeliveryMode::NextToolCall => Some(BoundaryKind::NextToolCall),
        _ => None,
    };
    match mode {
        DeliveryMode::OnIdle => to.become_status(AgentStatus::Idle).await?,
        DeliveryMode::Manual => {
            let agent = to.client.identity().name.clone();
            let flush = FlushInput::all(agent.as_str()).mode(DeliveryMode::Manual);
            relay.deliveries().flush(flush).await?;
        }
        _ => {}
    }
    within("the message", async {
        let Some(boundary) = boundary else {
            return reached(to, id).await;
        };
        loop {
            to.stand_at(boundary).await?;
            if let Ok(surfaced) = tokio::time::timeout(SAY_AGAIN, reached(to, id)).await {
                return surfaced;
            }
        }
    })
    .await
}

/// Waits until this message has reached the session.
async fn reached(to: &mut Player, id: DeliveryId) -> Outcome<Surfaced> {
    while let Some(surfaced) = to.next().await {
        if surfaced.delivery == id {
            return Ok(surfaced);
        }
    }
    Err(unexpected("the session ended"))
}

async fn within<T>(what: &str, work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(done) => done,
        Err(_) => Err(unexpected(&format!(
            "{what} did not come within {} s",
            PATIENCE.as_secs()
        ))),
    }
}

fn unexpected(message: &str) -> Failure {
    Failure::new(Exit::Failed, "failed", message)
}

/// A message that waits for a boundary has not been shown yet.
fn judge_waiting(delivery: &Delivery, mode: DeliveryMode) -> Result<(), Finding> {
    match delivery.state {
        DeliveryState::Deferred | DeliveryState::Failed => judge_end(delivery, mode).map(drop),
        DeliveryState::Delivered | DeliveryState::Accepted => Err(Finding::failed(
            format!(
                "it was surfaced before its boundary came: {}",
                told(delivery)
            ),
            REPORT,
        )),
        _ => Ok(()),
    }
}

/// It was delivered, in the mode that was asked for; by which receipt.
fn judge_end(delivery: &Delivery, mode: DeliveryMode) -> Result<&'static str, Finding> {
    match delivery.state {
        DeliveryState::Delivered if delivery.mode == Some(mode) => receipt(delivery),
        DeliveryState::Delivered => Err(Finding::failed(
            format!("it was not surfaced as {mode}: {}", told(delivery)),
            REPORT,
        )),
        DeliveryState::Deferred => Err(Finding::warning(
            format!("it is held back: {}", told(delivery)),
            format!(
                "see whether the policy is as you want it: {}",
                hints::command("policy show")
            ),
        )),
        state => Err(Finding::failed(
            format!("it is {state}: {}", told(delivery)),
            format!(
                "{} tells the whole story",
                hints::command(&format!("delivery show {}", delivery.delivery_id))
            ),
        )),
    }
}

/// The last that is known of a delivery.
fn told(delivery: &Delivery) -> String {
    let story = delivery.story.as_deref().unwrap_or_default();
    let mut last: Vec<&str> = story.lines().rev().take(2).collect();
    last.reverse();
    one_line(&last.join("; "))
}

/// What the session said in the end.
fn receipt(delivery: &Delivery) -> Result<&'static str, Finding> {
    let receipts = delivery.receipts.as_deref().unwrap_or_default();
    let last = receipts.last().map(|stored| stored.receipt.tag());
    last.ok_or_else(|| Finding::failed("it is delivered without a receipt", REPORT))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::commands::doctor::finding::Verdict;

    fn delivery(state: &str, mode: &str) -> Delivery {
        let id = "01a1e393-8365-7f6e-b943-f323fd1cc0c8";
        let receipt =
            json!({"status": "delivered", "deliveryId": id, "metadata": {"door": "callback"}});
        serde_json::from_value(json!({
            "deliveryId": id, "messageId": id, "agent": "doctor-b", "state": state, "reason": "dm",
            "priority": "normal", "allowDowngrade": false, "mode": mode, "attempt": 1, "generation": 0,
            "deadline": "2026-11-16T12:00:00.000Z", "story": "made\n+1 ms  offered\nend: known",
            "receipts": [{"at": "2026-11-16T12:00:00.000Z", "by": "session", "late": false, "receipt": receipt}],
        }))
        .unwrap()
    }

    #[test]
    fn it_must_be_delivered_in_the_mode_that_was_asked_for() {
        let judge = |state, mode| judge_end(&delivery(state, mode), DeliveryMode::OnIdle);
        assert_eq!(judge("delivered", "on-idle").unwrap(), "delivered");
        let verdict = |state, mode| judge(state, mode).unwrap_err().verdict;
        assert_eq!(verdict("delivered", "immediate"), Verdict::Failed);
        assert_eq!(verdict("pending", "on-idle"), Verdict::Failed);
        assert_eq!(verdict("deferred", "on-idle"), Verdict::Warning);
        let failed = judge("failed", "on-idle").unwrap_err();
        assert_eq!(failed.detail, "it is failed: +1 ms offered; end: known");
    }

    #[test]
    fn it_must_not_be_surfaced_too_early() {
        let judge = |state| judge_waiting(&delivery(state, "manual"), DeliveryMode::Manual);
        assert!(judge("pending").is_ok());
        assert_eq!(judge("delivered").unwrap_err().verdict, Verdict::Failed);
        // Nor is anything waited for that can't come.
        assert_eq!(judge("deferred").unwrap_err().verdict, Verdict::Warning);
    }
}
