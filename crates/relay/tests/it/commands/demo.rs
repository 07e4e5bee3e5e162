//! `relay demo`: what becomes of its deliveries, and that nothing is left of it.

use std::path::Path;

use serde_json::Value;

use crate::support::{Desk, Setup, finish, soon};

fn steps(out: &str) -> Vec<Value> {
    out.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// State, mode and number of attempts of each delivery.
fn outcomes(steps: &[Value]) -> Vec<(String, String, u64)> {
    let deliveries = steps.iter().filter(|step| step["step"] == "delivery");
    let text = |value: &Value| value.as_str().unwrap_or("none").to_owned();
    deliveries
        .map(|step| {
            let attempt = step["attempt"].as_u64().unwrap();
            (text(&step["state"]), text(&step["mode"]), attempt)
        })
        .collect()
}

const EXPECTED: [(&str, &str); 9] = [
    ("delivered", "immediate"),
    ("delivered", "next-tool-call"),
    ("delivered", "on-idle"),
    ("delivered", "next-message"),
    ("delivered", "manual"),
    ("delivered", "on-idle"),
    ("delivered", "on-idle"),
    ("delivered", "on-idle"),
    ("failed", "none"),
];

#[tokio::test]
async fn it_plays_every_mode_on_a_server_of_its_own_and_explains_each_delivery() {
    let setup = Setup::new();
    let done = finish(setup.relay().args(["demo", "--fast", "--json"])).await;
    assert_eq!(done.code, 0, "{done:?}");
    let steps = steps(&done.out);
    let outcomes = outcomes(&steps);
    let found: Vec<(&str, &str)> = outcomes
        .iter()
        .map(|(state, mode, _)| (&**state, &**mode))
        .collect();
    assert_eq!(found, EXPECTED);
    let story = |number: usize| {
        let mut deliveries = steps.iter().filter(|step| step["step"] == "delivery");
        deliveries.nth(number - 1).unwrap()["story"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert!(
        story(4).contains("accepted, by the session"),
        "{}",
        story(4)
    );
    assert!(story(6).contains("deferred until"), "{}", story(6));
    assert!(
        story(7).contains("to be tried again: the editor did not answer"),
        "{}",
        story(7)
    );
    assert!(story(7).contains("(offer 2)"), "{}", story(7));
    assert!(story(8).contains("the session has no link"), "{}", story(8));
    assert!(story(9).contains("does not support"), "{}", story(9));
    let end = steps.last().unwrap();
    assert_eq!((&end["delivered"], &end["failed"]), (&8.into(), &1.into()));
    let data = steps[0]["data"].as_str().unwrap();
    assert!(!Path::new(data).exists(), "{data} is left behind");
}

#[tokio::test]
async fn people_read_what_to_look_at() {
    let setup = Setup::new();
    let done = finish(setup.relay().args(["demo", "--fast"])).await;
    assert_eq!(done.code, 0, "{done:?}");
    for expected in [
        "A server runs at http://127.0.0.1:",
        "Watch every event in another terminal: relay listen --data /",
        "\n1  immediate: interrupt an agent that works\n   @coder is active: ",
        "\n   @planner -> @coder (immediate) \"",
        "   * delivered after ",
        "   * deferred until ",
        "   * failed at once: the session does not support",
        "\n9  @planner -> @reviewer  failed\n   delivery ",
        "8 delivered, 1 failed, each with its reason; none was lost.",
    ] {
        assert!(done.out.contains(expected), "{expected:?} in {}", done.out);
    }
    assert!(!done.out.contains('\u{1b}'), "colour in a pipe");
}

#[tokio::test]
async fn on_the_running_server_the_agents_go_and_what_was_said_stays() {
    let desk = Desk::new().await;
    // Twice: the names are free again.
    for _ in 0..2 {
        let done = desk.run(&["demo", "--here", "--fast", "--json"]).await;
        assert_eq!(done.code, 0, "{done:?}");
        let agents = desk.json(&["agent", "list"]).await;
        assert_eq!(agents["items"].as_array().unwrap().len(), 0, "{agents}");
    }
    let failed = desk.json(&["delivery", "list", "--state", "failed"]).await;
    assert_eq!(failed["items"].as_array().unwrap().len(), 2, "{failed}");
}

#[tokio::test]
async fn stopped_half_way_it_leaves_nothing_behind() {
    let desk = Desk::new().await;
    let mut running = desk.start(&["demo", "--here"]);
    while !running
        .line()
        .await
        .contains("@demo-planner -> @demo-coder")
    {}
    running.interrupt();
    let mut child = running.stop_reading();
    let ended = soon("the end", child.wait()).await.unwrap();
    assert_eq!(ended.code(), Some(130));
    let agents = desk.json(&["agent", "list"]).await;
    assert_eq!(agents["items"].as_array().unwrap().len(), 0, "{agents}");
}

#[tokio::test]
async fn without_a_running_server_here_says_how_to_start_one() {
    let setup = Setup::new();
    let done = finish(
        setup
            .relay()
            .args(["demo", "--here", "--data"])
            .arg(setup.data()),
    )
    .await;
    assert_eq!(done.code, 3, "{done:?}");
    assert!(done.err.contains("relay up"), "{done:?}");
}
