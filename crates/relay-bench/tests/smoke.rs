//! Every part once, with tiny sizes, against a real server in a process of its own: this test started again.

#![allow(
    clippy::unwrap_used,
    reason = "a test with a `main` of its own is not seen as one"
)]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use relay_bench::{Options as BenchOptions, Part, Progress, ServerCommand, Sizes, run};
use relay_core::environment::Environment;
use relay_core::store::sqlite::{SqliteOptions, SqliteStore};
use relay_core::{Caller, Engine};
use relay_mcp::McpServer;
use relay_outbound::{AllowList, Limits, Outbound};
use relay_sdk::{Options, Relay};
use relay_server::{Config, Rate};
use serde_json::json;

#[path = "../../relay/src/mcp_door.rs"]
mod mcp_door;

/// The first argument of the process that is the server.
const SERVE: &str = "--be-the-server";
/// The first argument of the process that speaks MCP.
const SPEAK_MCP: &str = "--speak-mcp";

fn main() {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some(SERVE) => serve(arguments.collect()),
        Some(SPEAK_MCP) => speak_mcp(),
        // What test runners ask before they run something.
        Some("--list") => println!("every_part_measures_something: test"),
        _ => every_part_measures_something(),
    }
}

fn every_part_measures_something() {
    let scratch = tempfile::tempdir().unwrap();
    let options = BenchOptions {
        parts: Part::ALL.to_vec(),
        sizes: tiny(),
        server: ServerCommand {
            program: std::env::current_exe().unwrap(),
            arguments: vec![SERVE.into()],
        },
        mcp: ServerCommand {
            program: std::env::current_exe().unwrap(),
            arguments: vec![SPEAK_MCP.into()],
        },
        redis: PathBuf::from("redis-server"),
        directory: scratch.path().to_owned(),
        wait_for_quiet: Duration::ZERO,
    };
    let begun = Instant::now();
    let tell = &mut |progress: Progress<'_>| {
        if let Progress::Begins(part) = progress {
            println!("{:.1?} {part}", begun.elapsed());
        }
    };
    let report = run(&options, tell).unwrap();
    let found: Vec<Part> = report.sections.iter().map(|it| it.part).collect();
    assert_eq!(found, Part::ALL);
    for section in &report.sections {
        assert_eq!(section.others.len() % options.sizes.rounds, 0);
        for figure in section.rows.iter().flat_map(|row| &row.figures) {
            assert!(figure.median.is_finite(), "{section}");
        }
        // Without Redis there is nothing to compare sends with.
        let compares = !matches!(section.part, Part::Send | Part::Pipelined | Part::Settled);
        let checks = section.checks.iter();
        let judged = checks.filter(|check| check.goal.is_some()).count();
        assert!(
            judged > 0 || !(compares || report.machine.redis),
            "{section}"
        );
    }
    assert!(report.to_string().contains("min-max"));
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["sections"][0]["part"], "send");
    println!("every part measured something in {:.1?}", begun.elapsed());
}

fn tiny() -> Sizes {
    Sizes {
        rounds: 2,
        turn: Duration::from_millis(40),
        senders: 4,
        receivers: 10,
        sessions: 10,
        single: 4,
        subscribers: vec![10],
        recipients: 10,
        casts: 2,
        idle_sessions: 20,
        idle: Duration::from_millis(50),
        actions: 60,
        webhooks: 3,
        calls: 30,
        waiting_permissions: 30,
        stored_small: 100,
        stored_large: 400,
        stored_per_agent: 50,
    }
}

/// What `relay serve` does, as far as a benchmark needs it.
fn serve(arguments: Vec<String>) {
    let data = PathBuf::from(&arguments[1]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let environment = Environment::system();
        let database = SqliteOptions::new(data.join("relay.db"));
        let store = SqliteStore::open(&database, environment.random.clone()).unwrap();
        let engine = Arc::new(Engine::new(Arc::new(store), environment));
        let owner = Caller::process_owner();
        let workspace = engine.create_workspace(&owner, "bench").await.unwrap();
        let credentials = data.join("credentials.json");
        if !credentials.exists() {
            let keys = json!({
                "adminKey": engine.create_admin_key(&owner).await.unwrap(),
                "workspaceKey": workspace.workspace_key,
            });
            std::fs::write(credentials, keys.to_string()).unwrap();
        }
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("url http://{}", listener.local_addr().unwrap());
        let unlimited = Rate {
            per_second: 1_000_000,
            at_once: 1_000_000,
        };
        let (door, doorway) = relay_server::local();
        let config = Config {
            per_token: unlimited,
            mcp: mcp_door::mcp(door),
            outbound: Outbound::new(AllowList::new(["127.0.0.1"]).unwrap(), Limits::default()),
            ..Config::default()
        };
        let never = std::future::pending();
        relay_server::serve((listener, doorway), engine, config, never)
            .await
            .unwrap();
    });
}

/// What `relay mcp` does.
fn speak_mcp() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let variable = |name| std::env::var(name).unwrap();
        let relay = Relay::with_options(&variable("RELAY_URL"), "", Options::default()).unwrap();
        let client = relay.reconnect(&variable("RELAY_TOKEN")).await.unwrap();
        let serving = McpServer::new(client).serve(tokio::io::stdin(), tokio::io::stdout());
        serving.await.unwrap();
    });
}
