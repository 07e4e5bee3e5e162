//! `kill -9` between an event and its webhook's answer, and between the call of an action and its end, on either side, again and
//! again: every event arrives, always under the same id, and every call ends once.

mod caller;
mod receiver;

use std::collections::{BTreeMap, BTreeSet};

use relay_sdk::protocol::api::events::EventQuery;
use relay_sdk::protocol::ids::{EventId, InvocationId};
use relay_sdk::{InvocationState, LoggedEvent, Relay, RelayEvent, WebhookVerifier};
use serde_json::json;

use self::caller::{Caller, Handler, WORK};
use self::receiver::Receiver;
use crate::depth;
use crate::support::{Server, Setup, soon};

/// Most calls that are acknowledged between two deaths.
const BETWEEN_DEATHS: u64 = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_event_arrives_and_every_call_ends_once() {
    let mut setup = Setup::new().with("RELAY_OUTBOUND_ALLOW", "127.0.0.1");
    let mut server = setup.start().await;
    let relay = server.relay();
    let mut random = depth::seed();
    let mut receiver = Receiver::start(random).await;
    let webhook = relay
        .webhooks()
        .subscribe(&receiver.url, ["action.*"])
        .await
        .unwrap();
    receiver.believe(WebhookVerifier::new(&webhook.secret).unwrap());
    let worker = relay.register(WORK).await.unwrap();
    let agent = relay.register("asker").await.unwrap();
    let mut handler = Handler::start(&server.url, worker.token()).await;
    let caller = Caller::start(agent);
    for round in 0..depth::rounds(6) {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        caller.progress((random >> 33) % BETWEEN_DEATHS).await;
        // In turn the server, whoever handles calls, and both.
        if round % 3 != 1 {
            server.kill().await;
            server = setup.start().await;
            caller.try_again();
        }
        if round % 3 != 0 {
            handler.kill().await;
            handler = Handler::start(&server.url, worker.token()).await;
        }
    }
    caller.progress(1).await;
    let acknowledged = caller.end().await;
    let relay = server.relay();
    check_calls(&relay, &acknowledged).await;
    check_events(&server, &mut receiver).await;
}

/// Each call that was acknowledged comes to its one end.
async fn check_calls(relay: &Relay, acknowledged: &BTreeMap<InvocationId, u64>) {
    for (id, number) in acknowledged {
        let ended = async {
            loop {
                let call = relay.invocation(*id).await.unwrap();
                if call.state != InvocationState::Invoked {
                    return call;
                }
                tokio::task::yield_now().await;
            }
        };
        let call = soon("the end of a call", ended).await;
        assert_eq!(call.state, InvocationState::Completed, "{call:?}");
        assert_eq!(call.output, Some(json!({ "double": number * 2 })));
    }
    let mut ends = BTreeSet::new();
    let mut begun = BTreeSet::new();
    for event in log(relay).await {
        match event.event.unwrap() {
            RelayEvent::ActionInvoked(call) => assert!(begun.insert(call.invocation_id)),
            RelayEvent::ActionCompleted(call) => {
                assert!(ends.insert(call.invocation_id), "{call:?} ended twice");
            }
            RelayEvent::ActionRegistered(_) => {}
            other => panic!("{other:?}"),
        }
    }
    println!("{} calls, {} acknowledged", begun.len(), acknowledged.len());
    assert!(acknowledged.keys().all(|id| ends.contains(&Some(*id))));
    assert!(ends.is_subset(&begun));
}

/// Everything in the log comes to the receiver, and nothing else.
async fn check_events(server: &Server, receiver: &mut Receiver) {
    // What was begun and not acknowledged ends, too; and what failed is tried again after what arrives.
    let logged: BTreeMap<EventId, LoggedEvent> = loop {
        let log = log(&server.relay()).await;
        let count = |name: &str| log.iter().filter(|event| event.event_type == name).count();
        if count("action.invoked") == count("action.completed") {
            break log.into_iter().map(|event| (event.id, event)).collect();
        }
        tokio::task::yield_now().await;
    };
    let arrived = receiver.until_all(logged.keys().copied().collect()).await;
    assert_eq!(arrived, logged);
}

async fn log(relay: &Relay) -> Vec<LoggedEvent> {
    let mut found = Vec::new();
    let mut query = EventQuery {
        after: Some(0),
        types: Some("action.*".to_owned()),
        limit: Some(200),
    };
    loop {
        let page = relay.read_events(&query).await.unwrap();
        found.extend(page.items);
        query.after = Some(page.after);
        if page.next_cursor.is_none() {
            return found;
        }
    }
}
