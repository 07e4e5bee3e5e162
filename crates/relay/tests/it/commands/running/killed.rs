//! `relay run` that is killed: nothing of it can run any more, and yet no agent stays.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use crate::support::{Desk, Runs, processes_with, soon, text};

#[tokio::test]
async fn after_a_kill_no_agent_stays() {
    let desk = Desk::new().await;
    let escaped = desk.setup.file("escaped");
    // It ignores the end of its input, and has started what left its group and its parent.
    let turn = json!([{"escape": escaped}, {"text": "x"}, {"hang": true}]);
    let log = desk.setup.fake(json!({"stays": true, "turns": [turn]}));
    let mut runs = Runs::attached(&desk, &["fake", "go"]).await;
    runs.says("x").await;
    let number = std::fs::read_to_string(&escaped).unwrap();
    let escaped = Path::new("/proc").join(number.trim()).join("cmdline");
    let escaped_runs = || !std::fs::read(&escaped).unwrap_or_default().is_empty();
    assert!(!processes_with(text(&log)).is_empty() && escaped_runs());
    runs.running.kill().await;
    let gone = async {
        // Nothing tells of the end of a foreign process.
        while !processes_with(text(&log)).is_empty() || escaped_runs() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon("the end of the agent", gone).await;
}
