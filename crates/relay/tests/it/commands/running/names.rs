//! As whom an agent runs, and that it is the same one the next time.

use serde_json::json;

use crate::support::{Desk, Runs, soon, told};

#[tokio::test]
async fn a_second_one_gets_a_number_and_a_later_one_the_mailbox() {
    let (desk, log) =
        Desk::with_fake(json!({"turns": [[{"text": "Heard."}, {"stop": "end_turn"}]]})).await;
    desk.register(&["ada"]).await;
    let mut first = Runs::start(&desk, &["fake"]);
    assert_eq!(first.until("attached").await["name"], "fake");
    let mut second = Runs::start(&desk, &["fake"]);
    assert_eq!(second.until("attached").await["name"], "fake-2");
    let (code, said) = desk.refused(&["run", "fake", "--as", "fake"]).await;
    assert_eq!(code, 8);
    assert!(
        said.starts_with("relay: @fake runs already, in another `relay run`\n"),
        "{said}"
    );
    let sent = desk.json(&["send", "fake", "One", "--as", "ada"]).await;
    assert_eq!(sent["deliveries"][0]["state"], "delivered");
    first.says("Heard.").await;
    first.end().await;
    second.end().await;

    // What came meanwhile is there, what was seen is not shown again.
    desk.run(&["send", "fake", "Two", "--as", "ada", "--no-wait"])
        .await;
    let before = told(&log, "session/prompt").len();
    let mut again = Runs::start(&desk, &["fake"]);
    assert_eq!(again.until("attached").await["name"], "fake");
    let message = again.until("message").await;
    assert_eq!(message["message"]["text"], "Two");
    again.says("Heard.").await;
    assert_eq!(told(&log, "session/prompt").len(), before + 1);
    again.end().await;
}

#[tokio::test]
async fn a_name_of_somebody_else_is_not_taken() {
    let (desk, _log) = Desk::with_fake(json!({})).await;
    desk.ok(&["agent", "register", "fake", "--no-keep"]).await;
    let (code, said) = desk.refused(&["run", "fake", "--as", "fake"]).await;
    assert_eq!(code, 5);
    assert!(
        said.starts_with("relay: expected a token of @fake in "),
        "{said}"
    );
    let mut runs = Runs::start(&desk, &["fake"]);
    assert_eq!(runs.until("attached").await["name"], "fake-2");
    runs.end().await;
    let (code, said) = desk.refused(&["run", "fake", "--as", "no name"]).await;
    assert_eq!(code, 2, "{said}");
}

#[tokio::test]
async fn an_agents_own_token_is_enough() {
    let (desk, _log) = Desk::with_fake(json!({})).await;
    desk.register(&["bob"]).await;
    let token = desk.json(&["token", "show", "--as", "bob"]).await;
    let token = token["token"].as_str().unwrap();
    let mut running = desk.start_with(&[("RELAY_TOKEN", token)], &["run", "fake"]);
    let line = soon("a line", running.unmasked_line()).await;
    assert!(line.starts_with("@bob runs Fake in "), "{line}");
    running.terminate();
    assert_eq!(running.end().await.0, 0);
}
