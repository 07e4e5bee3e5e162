//! `kill -9` under load, again and again, on a good network and on a bad one: every send that was acknowledged
//! ends as delivered, each session is shown each message once, and whoever listens sees the log as it is.

mod peer;
mod witness;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use relay_sdk::protocol::api::workspace::CreateObserverToken;
use relay_sdk::protocol::delivery::DeliveryState;
use relay_sdk::protocol::ids::DeliveryId;
use relay_sdk::{AgentClient, DeliveryQuery, Options, Relay};
use tokio::sync::watch;

use self::peer::{Ack, Peer};
use self::witness::Witness;
use crate::depth;
use crate::support::{Proxy, Server, Setup, Weather, soon};

/// Agents that all send, and all have a session.
const PEERS: usize = 4;
/// Most sends that are acknowledged between two deaths.
const BETWEEN_DEATHS: u64 = 150;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_loses_nothing() {
    let mut setup = Setup::new();
    let server = setup.start().await;
    let url = server.url.clone();
    let load = Load::begin(&setup, &server, &url).await;
    let server = die_and_come_back(&mut setup, server, &load).await;
    load.end().await.check(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_does_it_when_the_network_is_bad_as_well() {
    let mut setup = Setup::new();
    let server = setup.start().await;
    let proxy = Proxy::to(server.address).await;
    let load = Load::begin(&setup, &server, &proxy.url()).await;
    let server = tokio::select! {
        server = die_and_come_back(&mut setup, server, &load) => server,
        () = storm(&proxy) => unreachable!("a storm does not end by itself"),
    };
    proxy.set(Weather::Fine);
    load.end().await.check(&server).await;
}

/// Kills the server in the middle of its work, and starts it again, several times.
async fn die_and_come_back(setup: &mut Setup, mut server: Server, load: &Load) -> Server {
    let mut random = depth::seed();
    for _ in 0..depth::rounds(4) {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        load.progress((random >> 33) % BETWEEN_DEATHS).await;
        server.kill().await;
        server = setup.start().await;
    }
    // The last one has to be of use, too.
    load.progress(1).await;
    server
}

/// A network that drops, delays and cuts.
async fn storm(proxy: &Proxy) {
    let weathers = [
        Weather::Fine,
        Weather::Slow(Duration::from_millis(10)),
        Weather::Down,
        Weather::Fine,
        Weather::Silent,
    ];
    for weather in weathers.iter().cycle() {
        proxy.set(*weather);
        proxy.cut();
        // The storm has a pace of its own; nothing waits for it.
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
}

/// Everybody at work.
struct Load {
    relay: Relay,
    peers: Vec<Peer>,
    witnesses: Vec<Witness>,
    acknowledged: watch::Sender<u64>,
    is_over: watch::Sender<bool>,
}

impl Load {
    /// Everybody comes in, and begins.
    async fn begin(setup: &Setup, server: &Server, url: &str) -> Self {
        server.unhurried().await;
        let options = Options {
            silence: Duration::from_secs(2),
            ..Options::default()
        };
        let relay = Relay::with_options(url, &server.key, options.clone()).unwrap();
        let clients = register(&relay).await;
        let witnesses = witnesses(&relay, url, options, &clients).await;
        let (acknowledged, _) = watch::channel(0);
        let (is_over, _) = watch::channel(false);
        let names: Vec<String> = clients
            .iter()
            .map(|it| it.identity().name.clone())
            .collect();
        let mut peers = Vec::new();
        for client in clients {
            let memory = setup.file(&client.identity().name);
            let mut peer = Peer::attach(client, memory).await;
            peer.begin(names.clone(), acknowledged.clone(), is_over.subscribe());
            peers.push(peer);
        }
        Self {
            relay,
            peers,
            witnesses,
            acknowledged,
            is_over,
        }
    }

    /// Waits until this many more sends were acknowledged.
    async fn progress(&self, more: u64) {
        let mut acknowledged = self.acknowledged.subscribe();
        let goal = *acknowledged.borrow() + more;
        let reached = acknowledged.wait_for(|count| *count >= goal);
        soon("progress", reached).await.unwrap();
    }

    /// Waits until everybody has sent what they had begun to send.
    async fn end(mut self) -> Ended {
        self.is_over.send_replace(true);
        let mut acks = Vec::new();
        for peer in &mut self.peers {
            acks.extend(peer.end().await);
        }
        Ended {
            relay: self.relay,
            peers: self.peers,
            witnesses: self.witnesses,
            acks,
        }
    }
}

async fn register(relay: &Relay) -> Vec<AgentClient> {
    let mut clients: Vec<AgentClient> = Vec::new();
    for number in 0..PEERS {
        let client = relay.register(&format!("peer-{number}")).await.unwrap();
        match clients.is_empty() {
            true => client
                .create_channel("#work", None)
                .await
                .map(drop)
                .unwrap(),
            false => client.join("#work").await.map(drop).unwrap(),
        }
        clients.push(client);
    }
    clients
}

/// Whoever may see all, some kinds, some rooms, only messages.
async fn witnesses(
    relay: &Relay,
    url: &str,
    options: Options,
    agents: &[AgentClient],
) -> Vec<Witness> {
    let anything = CreateObserverToken::default();
    let observer = relay.create_observer_token(&anything).await.unwrap();
    let observer = relay.observer(&observer.token);
    let other = Relay::with_options(url, relay.key(), options).unwrap();
    let agent = relay.reconnect(agents[0].token()).await.unwrap();
    vec![
        Witness::listen((**relay).clone(), "*").await,
        Witness::listen((**relay).clone(), "message.*").await,
        Witness::listen((*other).clone(), "delivery.*").await,
        Witness::listen((*agent).clone(), "*").await,
        Witness::listen(observer, "message.created").await,
    ]
}

/// What is there when everybody has stopped.
struct Ended {
    relay: Relay,
    peers: Vec<Peer>,
    witnesses: Vec<Witness>,
    acks: Vec<Ack>,
}

impl Ended {
    async fn check(mut self, server: &Server) {
        let acknowledged = self.acknowledged();
        println!(
            "{} sends, {} deliveries",
            self.acks.len(),
            acknowledged.len()
        );
        self.witnesses[0].has_seen_delivered(&acknowledged).await;
        self.check_outcomes(server, &acknowledged).await;
        self.check_sessions();
        self.check_repetitions().await;
        for witness in &mut self.witnesses {
            witness.check().await;
        }
    }

    fn acknowledged(&self) -> BTreeSet<DeliveryId> {
        let deliveries = self.acks.iter().flat_map(|ack| &ack.sent.deliveries);
        deliveries.map(|delivery| delivery.delivery_id).collect()
    }

    /// Nothing but what was acknowledged is there, and all of it was delivered.
    async fn check_outcomes(&self, server: &Server, acknowledged: &BTreeSet<DeliveryId>) {
        let relay = server.relay();
        let mut found = BTreeSet::new();
        let mut query = DeliveryQuery {
            limit: Some(200),
            ..DeliveryQuery::default()
        };
        loop {
            let page = relay.list_deliveries(&query).await.unwrap();
            for delivery in page.items {
                assert_eq!(delivery.state, DeliveryState::Delivered, "{delivery:?}");
                assert!(found.insert(delivery.delivery_id));
            }
            query.cursor = page.next_cursor;
            if query.cursor.is_none() {
                break;
            }
        }
        assert_eq!(&found, acknowledged);
    }

    /// Each session was shown what was for its agent, once.
    fn check_sessions(&self) {
        let mut expected: BTreeMap<&str, BTreeMap<DeliveryId, &str>> = BTreeMap::new();
        for ack in &self.acks {
            for delivery in &ack.sent.deliveries {
                let of_agent = expected.entry(&delivery.agent).or_default();
                of_agent.insert(delivery.delivery_id, &ack.text);
            }
        }
        for peer in &self.peers {
            let shown = peer.shown();
            let mut once = BTreeMap::new();
            for (id, text) in &shown {
                assert_eq!(
                    once.insert(*id, text.as_str()),
                    None,
                    "{text} was shown twice"
                );
            }
            assert_eq!(once, expected[peer.name()]);
        }
    }

    /// A send that is repeated under its key is the one that was acknowledged.
    async fn check_repetitions(&self) {
        for ack in self.acks.iter().rev().step_by(20) {
            let client = &self.peers[ack.from].client;
            let again = client
                .send_message(&ack.to, &ack.text)
                .idempotency_key(&ack.text);
            assert_eq!(again.await.unwrap().message_id, ack.sent.message_id);
        }
        assert!(self.relay.workspace().await.is_ok());
    }
}
