//! Every part once, with tiny sizes, against a real server in a process of its own: this test started again.

#![allow(
    clippy::unwrap_used,
    reason = "a test with a `main` of its own is not seen as one"
)]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use relay_bench::{Options, Part, Progress, ServerCommand, Sizes, run};
use relay_core::environment::Environment;
use relay_core::store::sqlite::{SqliteOptions, SqliteStore};
use relay_core::{Caller, Engine};
use relay_server::{Config, Rate};
use serde_json::json;

/// The first argument of the process that is the server.
const SERVE: &str = "--be-the-server";

fn main() {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some(SERVE) => serve(arguments.collect()),
        // What test runners ask before they run something.
        Some("--list") => println!("every_part_measures_something: test"),
        _ => every_part_measures_something(),
    }
}

fn every_part_measures_something() {
    let scratch = tempfile::tempdir().unwrap();
    let options = Options {
        parts: Part::ALL.to_vec(),
        sizes: tiny(),
        server: ServerCommand {
            program: std::env::current_exe().unwrap(),
            arguments: vec![SERVE.into()],
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
        let config = Config {
            per_token: unlimited,
            ..Config::default()
        };
        let never = std::future::pending();
        relay_server::serve(listener, engine, config, never)
            .await
            .unwrap();
    });
}
