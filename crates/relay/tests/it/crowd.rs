//! Thousands of sessions that are attached and idle, then messages for all of them: nothing is lost, each comes
//! once, and the memory that it takes is bounded. When they go their memory is free for others: the same
//! crowd again costs nothing. (It does not show as less resident memory: the system's allocator keeps what
//! is freed in between what is not.)

mod member;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use relay_sdk::protocol::delivery::DeliveryState;
use relay_sdk::{DeliveryQuery, Relay};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;

use self::member::{Member, Ticket, Told};
use crate::depth;
use crate::support::{Server, Setup, skipped, soon};

/// Connections that are being made at a time: more would not find a place in the listener's queue.
const KNOCKING: usize = 64;
/// Most memory that an attached session may take, in KiB. The goal of a release build is 12; without
/// optimisation futures are larger.
const SESSION_KIB: u64 = 32;
/// Most memory that messages may take beside, in KiB: what the store keeps of them at hand.
const TRAFFIC_KIB: u64 = 160 * 1024;
/// Most memory that a session may take which was there before, in KiB: what one thread has freed another can't take
/// at once. A session that is never let go would take twice as much.
const AGAIN_KIB: u64 = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_sessions_get_what_is_theirs_and_cost_little() {
    let (sessions, messages) = match depth::is_full() {
        true => (10_000, 100_000),
        false => (1_000, 5_000),
    };
    if let Err(why) = raise_file_limit(sessions + 500) {
        return skipped("crowd", &why);
    }
    let mut setup = Setup::new();
    let server = setup.start().await;
    server.unhurried().await;
    let tickets = register(&server.relay(), sessions).await;
    let alone = server.memory_kib();

    let (tell, told) = mpsc::unbounded_channel();
    let (go_home, home_time) = watch::channel(false);
    let crowd = attach(server.address, tickets, &tell, &home_time).await;
    assert_eq!(server.metric("relay_sockets").await, sessions as u64);
    let idle = server.memory_kib();

    let sending = member::send(server.address, server.key.clone(), sessions, messages);
    let sending = tokio::spawn(sending);
    collect(told, sessions, messages).await;
    soon("the last answer", sending).await.unwrap();
    nothing_waits(&server.relay()).await;
    let busy = server.memory_kib();

    go_home.send_replace(true);
    let tickets = leave(&server, crowd).await;
    let empty = server.memory_kib();
    let (_go_home, home_time) = watch::channel(false);
    let _crowd = attach(server.address, tickets, &tell, &home_time).await;
    let again = server.memory_kib();

    let each = idle.saturating_sub(alone) as f64 / sessions as f64;
    println!(
        "{sessions} sessions, {messages} messages; KiB: alone {alone}, idle {idle} ({each:.1} each), \
         busy {busy}, empty {empty}, again {again}"
    );
    assert!(idle <= alone + SESSION_KIB * sessions as u64);
    assert!(busy <= idle + TRAFFIC_KIB);
    assert!(again <= busy + AGAIN_KIB * sessions as u64);
}

/// Lets this process, and those that it starts, open so many files.
fn raise_file_limit(files: usize) -> Result<(), String> {
    let wanted = files as u64;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let limit = Rlimit {
        current: Some(wanted),
        maximum: maximum.map(|maximum| maximum.max(wanted)),
    };
    setrlimit(Resource::Nofile, limit)
        .map_err(|error| format!("{wanted} open files are needed and not allowed: {error}"))
}

fn name(number: usize) -> String {
    format!("member-{number}")
}

/// Registers agents, each with what its session needs to come in.
async fn register(relay: &Relay, agents: usize) -> Vec<Ticket> {
    let registering = stream::iter(0..agents).map(|number| {
        let registering = relay.register(&name(number));
        async move {
            Ticket {
                number,
                token: registering.await.unwrap().token().to_owned(),
                resume: None,
            }
        }
    });
    registering.buffered(KNOCKING).collect().await
}

/// A session for each agent, on a socket of its own.
async fn attach(
    address: SocketAddr,
    tickets: Vec<Ticket>,
    tell: &mpsc::UnboundedSender<Told>,
    home_time: &watch::Receiver<bool>,
) -> JoinSet<Ticket> {
    let doors = Arc::new(Semaphore::new(KNOCKING));
    let mut crowd = JoinSet::new();
    let (arrived, mut arrivals) = mpsc::unbounded_channel();
    let expected = tickets.len();
    for ticket in tickets {
        let door = soon("a free door", doors.clone().acquire_owned())
            .await
            .unwrap();
        let arrived = arrived.clone();
        let (tell, home_time) = (tell.clone(), home_time.clone());
        crowd.spawn(async move {
            let member = Member::attach(address, ticket).await;
            drop(door);
            arrived.send(()).unwrap();
            member.take_part(&tell, home_time).await
        });
    }
    for _ in 0..expected {
        soon("a session", arrivals.recv()).await.unwrap();
    }
    crowd
}

/// Waits until all have gone; with what they come back.
async fn leave(server: &Server, mut crowd: JoinSet<Ticket>) -> Vec<Ticket> {
    let mut tickets = Vec::new();
    while let Some(ended) = soon("an end", crowd.join_next()).await {
        tickets.push(ended.unwrap());
    }
    soon("the last socket", async {
        while server.metric("relay_sockets").await > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    tickets
}

/// Waits until every message came where it belongs, and every receipt was stored; each once.
async fn collect(mut told: mpsc::UnboundedReceiver<Told>, sessions: usize, messages: usize) {
    let mut came = HashSet::new();
    let mut stored = 0;
    while stored < messages {
        match soon("the next message", told.recv()).await.unwrap() {
            Told::Came { to, number } => {
                assert_eq!(number % sessions, to, "a message of somebody else's");
                assert!(came.insert(number), "message {number} came twice");
            }
            Told::Stored => stored += 1,
        }
    }
    assert_eq!(came.len(), messages);
}

async fn nothing_waits(relay: &Relay) {
    use DeliveryState::{Accepted, Cancelled, Deferred, Failed, Offered, Pending};
    for state in [Pending, Offered, Accepted, Deferred, Failed, Cancelled] {
        let query = DeliveryQuery {
            state: Some(state),
            ..DeliveryQuery::default()
        };
        let found = relay.list_deliveries(&query).await.unwrap();
        assert!(found.items.is_empty(), "{:?}", found.items);
    }
}
