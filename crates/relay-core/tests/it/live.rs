//! Followers of the log: stored and live events join without a gap and without a repeat, whatever
//! happens meanwhile, and a live event is byte for byte the stored one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use relay_core::store::live::StoredEvent;
use relay_core::store::sqlite::Synchronous;
use relay_core::store::{DeliverTo, NewDelivery, ReportKind, SessionTurn};
use relay_core::{Caller, Followed, Subscription};
use relay_protocol::api::messages::SendMessage;
use relay_protocol::api::workspace::{RegisterAgent, UpdateChannel};
use relay_protocol::delivery::{DeliveryMode, Priority};
use relay_protocol::limits::{LIVE_BYTES, LIVE_ENTRIES, LOG_PAGE_BYTES};
use relay_protocol::policy::PolicyPatch;
use relay_protocol::selector::{Filter, Selector};
use relay_protocol::session_event::{AgentSessionEvent, TerminalOutput};
use relay_protocol::status::AgentStatus;
use serde_json::{Value, json};

use crate::backstage::{accepted, deferred, delivered, failed, status};
use crate::support::{
    START, SqliteWorld, World, all, group, inline_text, named, poll, target, together,
};
use crate::vfs::SplitMix64;

async fn quick_world() -> SqliteWorld {
    SqliteWorld::with(|options| options.synchronous = Synchronous::Off).await
}

async fn follow(world: &World, after: Option<u64>) -> Subscription {
    let followed = world.engine.subscribe(&world.key, Selector::all(), after);
    followed.await.unwrap()
}

/// The next event, which must be there or come soon.
async fn next(subscription: &mut Subscription) -> Followed {
    let next = tokio::time::timeout(Duration::from_secs(300), subscription.next());
    next.await.expect("an event comes").unwrap()
}

async fn next_event(subscription: &mut Subscription) -> Arc<StoredEvent> {
    match next(subscription).await {
        Followed::Event(event) => event,
        Followed::Lagged { resume_after } => panic!("lagged after {resume_after}"),
    }
}

/// The JSON of every stored event after a sequence number.
async fn stored(world: &World, after: u64) -> Vec<String> {
    let events = world.events_after(after).await;
    let json = events.iter().map(|event| event.to_json().get().to_owned());
    json.collect()
}

/// Takes events until the last one, and checks that they are the stored ones.
async fn is_what_is_stored(world: &World, subscription: &mut Subscription) {
    let expected = stored(world, subscription.after()).await;
    for expected in expected {
        let found = next_event(subscription).await;
        assert_eq!(found.json().get(), expected);
    }
    assert_eq!(subscription.after(), world.head().await.seq);
    assert!(poll(std::pin::pin!(subscription.next())).is_pending());
}

const SENDERS: u64 = 4;
const SENT_BY_EACH: u64 = 60;
const FOLLOWERS: u64 = 16;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn followers_miss_nothing_and_see_nothing_twice() {
    for seed in 0..4 {
        let world = Arc::new(quick_world().await);
        let names: Vec<String> = (0..SENDERS).map(|no| format!("s{no}")).collect();
        for name in &names {
            world.agent(name).await;
        }
        let sent = Arc::new(AtomicU64::new(0));
        let following = Arc::new(AtomicU64::new(0));
        let mut random = SplitMix64::new(seed);
        let followers: Vec<_> = (0..FOLLOWERS)
            .map(|_| {
                let begin = random.below(SENDERS * SENT_BY_EACH);
                let cursor = random.next();
                let counts = (sent.clone(), following.clone());
                tokio::spawn(follower(world.clone(), counts, begin, cursor))
            })
            .collect();
        let senders = names.iter().enumerate().map(|(no, name)| {
            let mut random = SplitMix64::new(seed << 8 | no as u64);
            let (world, name, sent) = (world.clone(), name.clone(), sent.clone());
            tokio::spawn(async move {
                for _ in 0..SENT_BY_EACH {
                    act(&world, &world.caller(&name), &mut random).await;
                    sent.fetch_add(1, Ordering::SeqCst);
                }
            })
        });
        for sender in senders.collect::<Vec<_>>() {
            sender.await.unwrap();
        }
        // Who began after the end would wait for it in vain.
        while following.load(Ordering::SeqCst) < FOLLOWERS {
            tokio::task::yield_now().await;
        }
        mark_the_end(&world).await;
        let head = world.head().await.seq;
        let expected = stored(&world, 0).await;
        for follower in followers {
            let (after, seen) = follower.await.unwrap();
            assert_eq!(after + seen.len() as u64, head, "seed {seed}");
            assert_eq!(
                seen,
                expected[usize::try_from(after).unwrap()..],
                "seed {seed}"
            );
        }
        world.check_log().await;
    }
}

/// Does something that logs one or more events.
async fn act(world: &World, caller: &Caller, random: &mut SplitMix64) {
    let sent = match random.below(3) {
        0 => world.send(caller, "#general", "to all").await,
        1 => world.send(&world.key, "@s1", "to one").await,
        _ => world.send(caller, "#general", "to @s2 and all").await,
    };
    if random.coin() && sent.message.channel.is_some() {
        world
            .engine
            .react(caller, sent.message_id, ":eyes:")
            .await
            .unwrap();
    }
    if random.below(4) == 0 && sent.message.from.id.is_some() {
        let edit = world
            .engine
            .edit_message(caller, sent.message_id, "edited".to_owned());
        edit.await.unwrap();
    }
}

async fn mark_the_end(world: &World) {
    let end = UpdateChannel {
        topic: Some("end".to_owned()),
        archived: None,
    };
    let update = world.engine.update_channel(&world.key, "general", end);
    update.await.unwrap();
}

/// Begins after so many sends, at a cursor of its own, and follows to the end.
async fn follower(
    world: Arc<SqliteWorld>,
    (sent, following): (Arc<AtomicU64>, Arc<AtomicU64>),
    begin: u64,
    cursor: u64,
) -> (u64, Vec<String>) {
    while sent.load(Ordering::SeqCst) < begin {
        tokio::task::yield_now().await;
    }
    let head = world.head().await.seq;
    let after = (!cursor.is_multiple_of(4)).then_some(cursor % (head + 1));
    let mut subscription = follow(&world, after).await;
    following.fetch_add(1, Ordering::SeqCst);
    let after = subscription.after();
    let mut seen = Vec::new();
    loop {
        let event = next_event(&mut subscription).await;
        seen.push(event.json().get().to_owned());
        if event.event.event_type == "channel.updated" {
            return (after, seen);
        }
    }
}

#[tokio::test]
async fn a_slow_follower_is_told_so_and_goes_on_without_a_gap() {
    let world = quick_world().await;
    let alice = world.agent("alice").await;
    let mut slow = follow(&world, None).await;
    world.send(&alice, "#general", "first").await;
    next_event(&mut slow).await;
    let many = |count| {
        let body = || SendMessage::text(target("#general"), "more");
        together(
            (0..count)
                .map(|_| world.engine.send(&alice, body()))
                .collect(),
        )
    };
    many(LIVE_ENTRIES).await;
    is_what_is_stored(&world, &mut slow).await;
    let seen = slow.after();
    many(LIVE_ENTRIES + 1).await;
    let Followed::Lagged { resume_after } = next(&mut slow).await else {
        panic!("not told")
    };
    assert_eq!(resume_after, seen);
    is_what_is_stored(&world, &mut slow).await;
    world.send(&alice, "#general", "last").await;
    is_what_is_stored(&world, &mut slow).await;
}

#[tokio::test]
async fn selectors_choose() {
    let world = quick_world().await;
    let [alice, bob] = world.agents(["alice", "bob"]).await;
    let from_bob = Filter {
        from: Some("@bob".to_owned()),
        ..Filter::event("message.*")
    };
    let selectors = [
        Selector::parse("message.*").unwrap(),
        Selector::parse("delivery.created").unwrap(),
        Selector::from_filter(from_bob).unwrap(),
        Selector::parse("webhook.*").unwrap(),
    ];
    let mut followed = Vec::new();
    for selector in &selectors {
        let subscribe = world
            .engine
            .subscribe(&world.key, selector.clone(), Some(0));
        followed.push(subscribe.await.unwrap());
    }
    let sent = world.send(&alice, "#general", "hello @bob").await;
    world.send(&bob, "@alice", "hello").await;
    world
        .engine
        .react(&bob, sent.message_id, ":wave:")
        .await
        .unwrap();
    let all = world.events_after(0).await;
    let counts = [3, 2, 1, 0];
    for ((selector, subscription), count) in selectors.iter().zip(&mut followed).zip(counts) {
        let expected: Vec<_> = all.iter().filter(|event| selector.matches(event)).collect();
        assert_eq!(expected.len(), count);
        for expected in expected {
            assert_eq!(next_event(subscription).await.event, *expected);
        }
        assert!(poll(std::pin::pin!(subscription.next())).is_pending());
        let page = world
            .engine
            .events(&world.key, selector, 0, None)
            .await
            .unwrap();
        assert_eq!((page.events.len(), page.more), (count, false));
        assert_eq!(page.after, world.head().await.seq);
    }
}

#[tokio::test]
async fn a_follower_may_be_cancelled_at_any_time() {
    let world = quick_world().await;
    let alice = world.agent("alice").await;
    let mut kept = follow(&world, Some(0)).await;
    let mut dropped = follow(&world, None).await;
    for no in 0..20 {
        // Asked and given up, before and after something is there.
        assert!(no == 0 || poll(std::pin::pin!(dropped.next())).is_pending());
        world.send(&alice, "#general", &no.to_string()).await;
        assert!(poll(std::pin::pin!(dropped.next())).is_ready());
        while poll(std::pin::pin!(dropped.next())).is_ready() {}
    }
    drop(dropped);
    world.send(&alice, "#general", "after").await;
    is_what_is_stored(&world, &mut kept).await;
    // Nobody follows, then somebody does again.
    drop(kept);
    world.send(&alice, "#general", "unheard").await;
    let mut again = follow(&world, Some(3)).await;
    is_what_is_stored(&world, &mut again).await;
}

#[tokio::test]
async fn every_live_event_is_the_stored_one() {
    let world = quick_world().await;
    let start = world.head().await.seq;
    let mut subscription = follow(&world, Some(start)).await;
    everything_happens(&world).await;
    let mut live = Vec::new();
    let head = world.head().await.seq;
    while subscription.after() < head {
        let event = next_event(&mut subscription).await;
        live.push(event.json().get().to_owned());
    }
    assert_eq!(live, stored(&world, start).await);

    let types: BTreeSet<String> = world.types_after(0).await.into_iter().collect();
    let expected = [
        "agent.registered",
        "agent.released",
        "agent.status.active",
        "agent.status.blocked",
        "agent.status.changed",
        "agent.status.idle",
        "agent.status.offline",
        "agent.status.waiting",
        "audit.erased",
        "channel.created",
        "channel.member_joined",
        "channel.member_left",
        "channel.updated",
        "delivery.accepted",
        "delivery.cancelled",
        "delivery.created",
        "delivery.deferred",
        "delivery.delivered",
        "delivery.failed",
        "delivery.late_receipt",
        "dm.received",
        "group_dm.received",
        "message.created",
        "message.reacted",
        "message.read",
        "message.updated",
        "session.forked",
        "session.released",
        "session.resumed",
        "session.started",
        "terminal.output",
        "thread.reply",
        "token.created",
        "token.revoked",
        "token.rotated",
        "workspace.updated",
    ];
    assert_eq!(types, expected.map(str::to_owned).into_iter().collect());
}

/// Sessions come and go, report, and answer for deliveries in every way.
async fn sessions_live(world: &SqliteWorld, alice: &Caller) {
    let behind = world.behind();
    let session = behind.attach("bob", 1).await;
    behind.fork(&session, 2, None).await.unwrap();
    behind.resume("bob", 1).await.unwrap();
    let soon = behind.now().plus_millis(5_000);
    let mut messages = Vec::new();
    let answers = [
        accepted,
        delivered,
        |id| deferred(id, START.plus_millis(100_000_000)),
        |id| failed(id, true),
        |id| failed(id, false),
    ];
    for answer in answers {
        let sent = world.send(alice, "@bob", "for a session").await;
        let id = sent.deliveries[0].delivery_id;
        behind.answer(&session, id, 1, answer(id)).await.unwrap();
        behind.say(&session, id, deferred(id, soon)).await.unwrap();
        messages.push((sent.message_id, id));
    }
    let (message, id) = messages[3];
    behind.cancel(id).await.unwrap();
    let line = AgentSessionEvent::TerminalOutput(TerminalOutput {
        stream: None,
        text: "\u{1b}[31m$".to_owned(),
    });
    let reports = vec![
        status(AgentStatus::Active),
        status(AgentStatus::Blocked),
        status(AgentStatus::Waiting),
        ReportKind::Observation(Box::new(line)),
    ];
    behind.report(&session, 1, reports).await.unwrap();
    behind.turn(&session, SessionTurn::Offline).await.unwrap();
    let again = NewDelivery {
        viewer: behind.viewer(),
        message,
        to: DeliverTo::Agent("carol".to_owned()),
        id: None,
        mode: Some(DeliveryMode::Manual),
        allow_downgrade: false,
        priority: Priority::Urgent,
        reason: None,
        deadline: None,
        metadata: None,
        at: behind.now(),
        idempotency: None,
    };
    behind.store.deliver(again).await.unwrap();
    let edited = "for a session, edited".to_owned();
    let edit = world.engine.edit_message(alice, message, edited);
    edit.await.unwrap();
}

/// Every kind of event that the engine logs today.
async fn everything_happens(world: &SqliteWorld) {
    let engine = &world.engine;
    let [alice, bob] = world.agents(["alice", "bob"]).await;
    let human = RegisterAgent {
        metadata: Some(awkward_numbers()),
        ..named("carol")
    };
    let carol = engine.register_agent(&world.key, human).await.unwrap();
    let carol = engine.authenticate(&carol.token).await.unwrap();
    engine.rotate_token(&bob, "bob").await.unwrap();
    world.channel(&alice, "dev", &["bob", "carol"]).await;
    let body = SendMessage {
        metadata: Some(awkward_numbers()),
        attachments: Some(vec![inline_text("content")]),
        ..SendMessage::text(target("#dev"), "hello @bob \u{1f680} \u{0}\u{2028}")
    };
    let sent = engine.send(&alice, body).await.unwrap();
    world.reply(&bob, sent.message_id, "yes").await;
    let secret = world.send(&alice, "@bob", "secret").await;
    let body = SendMessage::text(group(&["bob", "carol"]), "three");
    engine.send(&alice, body).await.unwrap();
    world.send(&world.key, "@bob", "notice").await;
    engine
        .edit_message(&alice, sent.message_id, "edited".to_owned())
        .await
        .unwrap();
    engine.react(&bob, sent.message_id, ":eyes:").await.unwrap();
    engine
        .unreact(&bob, sent.message_id, ":eyes:")
        .await
        .unwrap();
    engine.mark_read(&bob, sent.message_id).await.unwrap();
    sessions_live(world, &alice).await;
    let queue = PolicyPatch {
        queue_limit: Some(1),
        ..PolicyPatch::default()
    };
    engine.update_policy(&world.key, queue).await.unwrap();
    let failed = world.send(&alice, "@bob", "too much").await;
    assert_eq!(failed.deliveries[0].state.to_string(), "failed");
    let id = failed.message_id;
    engine
        .edit_message(&alice, id, "too much, edited".to_owned())
        .await
        .unwrap();
    engine.leave_channel(&carol, "dev").await.unwrap();
    let topic = UpdateChannel {
        topic: Some("topic".to_owned()),
        archived: Some(true),
    };
    engine.update_channel(&alice, "dev", topic).await.unwrap();
    let id = secret.message_id;
    engine
        .edit_message(&alice, id, "not so secret".to_owned())
        .await
        .unwrap();
    engine
        .release_agent(&world.key, "bob", Some("done"))
        .await
        .unwrap();
    engine
        .edit_message(&alice, id, "once more".to_owned())
        .await
        .unwrap();
    // Only what was logged before anybody followed.
    engine
        .audit_erase(&world.key, vec![1], "why not")
        .await
        .unwrap();
}

/// Numbers that do not survive a careless reading of their decimal form.
fn awkward_numbers() -> serde_json::Map<String, Value> {
    let mut random = SplitMix64::new(11);
    let floats = (0..200).map(|_| f64::from_bits(random.next()));
    let mut numbers: Vec<Value> = floats.filter(|f| f.is_finite()).map(Value::from).collect();
    numbers.extend([json!(u64::MAX), json!(i64::MIN), json!(-0.0), json!(1e300)]);
    [
        ("z".to_owned(), json!(numbers)),
        ("a".to_owned(), json!({"y": null, "b": []})),
    ]
    .into_iter()
    .collect()
}

#[tokio::test]
async fn what_was_erased_is_not_followed_either() {
    let world = quick_world().await;
    let [alice, bob] = world.agents(["alice", "bob"]).await;
    let queue = PolicyPatch {
        queue_limit: Some(1),
        ..PolicyPatch::default()
    };
    world.engine.update_policy(&world.key, queue).await.unwrap();
    let mut witness = follow(&world, None).await;
    world.send(&alice, "@bob", "fills the queue").await;
    let seq = world.head().await.seq + 1;
    world.send(&alice, "@bob", "hunter2").await;
    is_what_is_stored(&world, &mut witness).await;
    world
        .engine
        .audit_erase(&world.key, vec![seq], "leaked")
        .await
        .unwrap();
    let mut late = follow(&world, Some(seq - 1)).await;
    let expected = stored(&world, seq - 1).await;
    assert!(!expected.concat().contains("hunter2"));
    for expected in expected {
        assert_eq!(next_event(&mut late).await.json().get(), expected);
    }
    // Who was at the end hears of it and has not lagged.
    is_what_is_stored(&world, &mut witness).await;
    let inbox = world.engine.inbox(&bob, all()).await.unwrap();
    assert!(!json!(inbox).to_string().contains("hunter2"));
}

/// Bytes of each large event, and enough of them for more than may be kept.
const LARGE: usize = 400_000;
const LARGE_EVENTS: u64 = (2 * LIVE_BYTES / LARGE) as u64;

#[tokio::test]
async fn large_events_take_no_more_memory_than_their_bound() {
    let world = quick_world().await;
    world.agent("bob").await;
    let behind = world.behind();
    let session = behind.attach("bob", 1).await;
    let memory = behind.store.live().memory().clone();
    // One keeps up, and one never looks.
    let mut following = follow(&world, None).await;
    let sleeping = follow(&world, None).await;
    let begun = world.head().await.seq;
    for n in 1..=LARGE_EVENTS {
        let output = AgentSessionEvent::TerminalOutput(TerminalOutput {
            stream: None,
            text: "x".repeat(LARGE),
        });
        let report = vec![ReportKind::Observation(Box::new(output))];
        behind.report(&session, n, report).await.unwrap();
        let event = next_event(&mut following).await;
        assert_eq!(event.event.seq, begun + n);
        assert!(event.frame().len() > LARGE);
        assert!(memory.bytes() <= LIVE_BYTES, "{}", memory.bytes());
    }
    // What is counted is what is there, not a number of entries.
    assert!(memory.bytes() > LIVE_BYTES / 2, "{}", memory.bytes());
    drop((following, sleeping));
    // A page of the log is bounded, too, and says that it goes on.
    let all = Selector::all();
    let page = world.engine.events(&world.key, &all, begun, Some(200));
    let page = page.await.unwrap();
    assert!(page.more && page.events.len() <= LOG_PAGE_BYTES / LARGE + 1);
    let seqs: Vec<u64> = world
        .events_after(begun)
        .await
        .iter()
        .map(|event| event.seq)
        .collect();
    assert_eq!(seqs, (begun + 1..=begun + LARGE_EVENTS).collect::<Vec<_>>());
}
