//! Many agents, one after the other and side by side: nothing piles up.

use relay_harness::acp::host::{HostOptions, OpenSession};
use relay_harness::child::MARK_VARIABLE;
use serde_json::json;

use super::support::{ask, folder, soon, try_start};
use crate::processes::{alone, descriptors, until, with_prefix};

/// How many agents.
const AGENTS: usize = 50;

/// Agents of this process: their marks begin with its number.
fn own_agents() -> usize {
    with_prefix(&format!("{MARK_VARIABLE}={}-", std::process::id())).len()
}

fn tasks() -> usize {
    tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks()
}

#[test]
fn fifty_agents_leave_nothing() {
    alone("acp::leaks::fifty_agents");
}

#[tokio::test]
#[ignore = "counts what the process has: run alone, by the test above"]
async fn fifty_agents() {
    // The first one makes the runtime's own descriptors and threads.
    play(true).await;
    until("the first is gone", || tasks() == 0).await;
    let before = descriptors();
    for number in 0..AGENTS {
        play(number % 2 == 0).await;
    }
    until("all processes are gone", || own_agents() == 0).await;
    until("all tasks are gone", || tasks() == 0).await;
    until("all descriptors are closed", || descriptors() == before).await;
}

/// Starts an agent, has a turn, and stops it; or just drops it in the middle of a turn.
async fn play(to_the_end: bool) {
    let place = tempfile::tempdir().unwrap();
    let last = match to_the_end {
        true => json!({"stop": "end_turn"}),
        false => json!({"hang": true}),
    };
    let script =
        json!({"turns": [[{"escape": place.path().join("escaped")}, {"text": "x"}, last]]});
    let host = soon(try_start(&script, HostOptions::default()))
        .await
        .unwrap();
    let session = host.new_session(OpenSession::new(folder())).await.unwrap();
    if to_the_end {
        assert_eq!(soon(ask(&session)).await.0, "x");
        soon(host.stop()).await;
    } else {
        let mut turn = session.prompt(["go"]).await.unwrap();
        super::support::until_text(&mut turn, "x").await;
    }
}
