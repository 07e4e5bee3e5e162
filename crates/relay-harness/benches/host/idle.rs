//! What this side keeps for agents and sessions that do nothing.

use relay_harness::acp::host::OpenSession;
use serde_json::json;

use super::Effort;
use super::agent::host;
use super::machine::resident;

/// How many agents the sessions are spread over.
const AGENTS: usize = 20;

pub(crate) async fn run(effort: Effort) {
    println!("\n## Idle sessions\n");
    println!("| | KiB resident here, each |\n|---|---|");
    // The first one pays for what all share.
    let first = host(&json!({})).await;
    let before = here();
    let mut hosts = Vec::new();
    for _ in 0..AGENTS {
        hosts.push(host(&json!({})).await);
    }
    let with_agents = here();
    println!(
        "| agent ({AGENTS}) | {:.1} |",
        (with_agents - before) / AGENTS as f64
    );
    let mut sessions = Vec::new();
    for host in hosts.iter().cycle().take(effort.idle) {
        let open = OpenSession::new(std::env::temp_dir());
        sessions.push(host.new_session(open).await.unwrap());
    }
    let count = sessions.len();
    println!(
        "| session ({count}) | {:.1} |",
        (here() - with_agents) / count as f64
    );
    drop(sessions);
    for host in hosts.iter().chain([&first]) {
        host.stop().await;
    }
}

fn here() -> f64 {
    resident("self", "RssAnon") / 1024.0
}
