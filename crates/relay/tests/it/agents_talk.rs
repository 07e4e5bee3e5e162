//! Two coding agents of others that talk: each is run by `relay run` in a process of its own, its model is a script, and
//! nothing else is played. They reach each other through the relay's tools that they were handed, and through their turns.

#[path = "../../../relay-script/tests/it/support/agents.rs"]
#[allow(
    dead_code,
    reason = "the tests of the agents themselves use more of it"
)]
pub(crate) mod agents;
pub(crate) mod pair;

use serde_json::{Value, json};

use self::agents::{COMMAND, shell_call, working};
use self::pair::{Pair, Played, calls_send};
use crate::support::{Desk, soon};

/// Lets both agents use the relay's tools without a question, each as it names them.
const RELAY_TOOLS: &str = r#"permissions={"allowlist": ["mcp__relay__send", {"tool": "execute", "params": {"server": "relay"}}]}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_the_next_turn_of_the_other_and_is_answered() {
    let (Some(claude), Some(codex)) = (working("claude"), working("codex")) else {
        return;
    };
    let desk = Desk::new().await;
    desk.ok(&["policy", "set", RELAY_TOOLS]).await;
    let question = "Which port does the test server use?";
    let answer = "It listens on port 4100.";
    let asks = json!([
        { "when": { "tools": false }, "reply": "A title" },
        { "when": { "user": "find out the port" }, "reply": ["I ask codex.", calls_send("@codex", question, None)] },
        { "when": { "user": answer }, "reply": "So it is 4100." },
        { "when": { "result": "" }, "reply": "Asked." },
    ]);
    let answers = json!([
        { "when": { "tools": false }, "reply": "A title" },
        { "when": { "user": question }, "reply": ["I know that.", calls_send("@claude", answer, None)] },
        { "when": { "result": "" }, "reply": "Answered." },
    ]);
    let mut pair = Pair::start(desk, (claude, asks), (codex, answers)).await;

    pair.first.runs.enter("find out the port").await;
    // The question is a turn of codex, whose model sees who asks.
    let message = pair.second.runs.until("message").await;
    assert_eq!(message["message"]["text"], question);
    assert_eq!(message["message"]["from"]["name"], "claude");
    let asked = soon("codex's model", pair.second.model.nth_saying(1, question)).await;
    assert!(
        asked.request.says("[relay] from agent @claude"),
        "{:#?}",
        asked.request.messages
    );
    // The answer is a turn of claude.
    let message = pair.first.runs.until("message").await;
    assert_eq!(message["message"]["text"], answer);
    assert_eq!(message["message"]["from"]["name"], "codex");
    pair.first.runs.says("So it is 4100.").await;
    let told = soon("claude's model", pair.first.model.nth_saying(1, answer)).await;
    assert!(told.request.says("[relay] from agent @codex"));
    // Each was asked once about the other's words.
    for (played, words) in [(&pair.second, question), (&pair.first, answer)] {
        assert_eq!(played.times_prompted(words), 1, "{words}");
    }

    for delivery in pair.deliveries().await {
        assert_eq!(delivery["state"], "delivered");
        let receipt = last_receipt(&delivery);
        assert_eq!(receipt["metadata"]["door"], "acp.prompt");
        let evidence = &receipt["metadata"]["evidence"];
        assert_eq!(
            evidence["by"], "update",
            "the agent has shown that it has it"
        );
        assert!(evidence["turn"].is_number(), "{evidence}");
    }
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_gets_into_the_turn_that_runs() {
    let (Some(claude), Some(codex)) = (working("claude"), working("codex")) else {
        return;
    };
    let desk = Desk::new().await;
    desk.ok(&["policy", "set", RELAY_TOOLS]).await;
    let news = "Stop: the schema has changed.";
    let tells = json!([
        { "when": { "tools": false }, "reply": "A title" },
        { "when": { "user": "warn claude" }, "reply": ["I warn it.", calls_send("@claude", news, Some("immediate"))] },
        { "when": { "result": "" }, "reply": "Warned." },
    ]);
    let works = json!([
        { "when": { "tools": false }, "reply": "A title" },
        { "when": { "said": news, "result": "" }, "reply": "I have stopped." },
        { "when": { "said": news }, "reply": ["I stop.", calls_send("@codex", "Thank you, I stop.", None)] },
        { "when": { "user": "write the report" }, "reply": ["Writing", { "wait": "never" }] },
    ]);
    let mut pair = Pair::start(desk, (codex, tells), (claude, works)).await;

    pair.second.runs.enter("write the report").await;
    pair.second.runs.says("Writing").await;
    pair.first.runs.enter("warn claude").await;
    let message = pair.second.runs.until("message").await;
    assert_eq!(message["context"]["mode"], "immediate");
    // In the same turn: it has not ended in between, and its model knows both.
    let asked = soon("claude's model", pair.second.model.nth_saying(1, news)).await;
    assert!(asked.request.says("write the report"));
    pair.second.runs.says("I have stopped.").await;
    let ended = pair.second.runs.seen.iter();
    let ended = ended.filter(|step| step["event"]["type"] == "turn-ended");
    assert_eq!(ended.count(), 0);
    let answer = pair.first.runs.until("message").await;
    assert_eq!(answer["message"]["text"], "Thank you, I stop.");

    let deliveries = pair.deliveries().await;
    let warning = deliveries.iter().find(|one| one["agent"] == "claude");
    let receipt = last_receipt(warning.unwrap());
    assert_eq!(receipt["metadata"]["door"], "acp.steer");
    assert_eq!(receipt["metadata"]["evidence"]["outcome"], "injected");
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_agent_may_do_is_decided_from_another_terminal() {
    let Some(claude) = working("claude") else {
        return;
    };
    let desk = Desk::new().await;
    let model = json!([
        { "when": { "tools": false }, "reply": "A title" },
        { "when": { "user": "make a file" }, "reply": ["I will.", shell_call()] },
        { "when": { "result": "" }, "reply": "Done." },
    ]);
    let mut claude = Played::start(&desk, claude, model).await;
    claude.runs.enter("make a file").await;
    let asked = claude.runs.until("asked").await;
    assert_eq!(asked["permission"]["tool"], "Bash");
    assert_eq!(asked["permission"]["params"]["command"], COMMAND);
    let made = claude.place.work().join("made.txt");
    assert!(!made.exists(), "nothing runs before somebody has said so");
    let id = asked["permission"]["permissionId"].as_str().unwrap();
    desk.ok(&["permission", "approve", id]).await;
    let decided = claude.runs.until("decided").await;
    assert_eq!(decided["permission"]["outcome"]["via"], "cli");
    claude.runs.says("Done.").await;
    assert_eq!(std::fs::read_to_string(made).unwrap(), "ran\n");
    let record = desk.json(&["permission", "show", id]).await;
    assert_eq!(record["permission"]["state"], "approved");
    claude.end().await;
}

/// One more, which has no name of its own for the relay's tools and asks nobody before it uses them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_third_agent_uses_the_relays_tools() {
    let Some(opencode) = working("opencode") else {
        return;
    };
    let desk = Desk::new().await;
    desk.ok(&["agent", "register", "ada"]).await;
    let model = json!([
        { "when": { "tools": false }, "reply": "A title" },
        { "when": { "user": "tell ada" }, "reply": ["I tell her.", calls_send("@ada", "The build is green.", None)] },
        { "when": { "result": "" }, "reply": "Told." },
    ]);
    let mut opencode = Played::start(&desk, opencode, model).await;
    opencode.runs.enter("tell ada").await;
    opencode.runs.says("Told.").await;
    let inbox = desk.ok(&["inbox", "--as", "ada"]).await;
    assert!(inbox.contains("The build is green."), "{inbox}");
    assert!(inbox.contains("@opencode"), "{inbox}");
    opencode.end().await;
}

/// The receipt that a delivery ended with.
fn last_receipt(delivery: &Value) -> &Value {
    let receipts = delivery["receipts"].as_array().unwrap();
    &receipts.last().unwrap()["receipt"]
}
