//! Server and client in one process, over pipes.

use relay_core::Caller;
use relay_sdk::protocol::delivery::DeliveryState;
use relay_sdk::{Options, Relay, delivered};
use relay_server::{Config, local, serve};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::sessions::{answering, ended};
use crate::support::{next, open, soon};

#[tokio::test]
async fn server_and_client_meet_in_one_process() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(&directory);
    let owner = Caller::process_owner();
    let created = engine.create_workspace(&owner, "lab").await.unwrap();
    // Pipes carry the same bytes, whatever the server listens on beside them.
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let (door, doorway) = local();
    let (stop, stopped) = oneshot::channel::<()>();
    let config = Config::default();
    let serving = tokio::spawn(serve((listener, doorway), engine, config, async {
        let _ = stopped.await;
    }));
    let dial = {
        let door = door.clone();
        move || {
            let door = door.clone();
            async move { door.connect().await }
        }
    };
    let relay = Relay::over(dial, &created.workspace_key, Options::default());
    let alice = relay.register("alice").await.unwrap();
    let bob = relay.register("bob").await.unwrap();
    let (session, mut told) = answering(&bob, |_, id| Ok(delivered(id)));
    let session = bob.attach(session).await.unwrap();
    let sent = alice.send_message("@bob", "over a pipe").await.unwrap();
    let id = sent.deliveries[0].delivery_id;
    let got = next("the message", &mut told).await;
    assert_eq!(got, ("over a pipe".to_owned(), id));
    assert_eq!(ended(&alice, id).await.0, DeliveryState::Delivered);
    drop((session, alice, bob, relay));
    drop(stop);
    soon("the end", serving).await.unwrap().unwrap();
    assert!(door.connect().await.is_err());
}
