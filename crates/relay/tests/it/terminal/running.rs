//! `relay run` in a real terminal: what is typed is a prompt, a key decides, and the terminal is as it was afterwards.

use serde_json::json;

use super::modes;
use super::tmux::Terminal;
use crate::support::{Desk, processes_with, text, told};

#[tokio::test]
async fn somebody_sits_with_an_agent() {
    let ask = json!({"ask": {
        "toolCall": {"toolCallId": "c", "kind": "execute", "title": "rm x", "rawInput": {"command": "rm x"}},
        "options": [
            {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ],
    }});
    let (desk, log) = Desk::with_fake(json!({"turns": [
        [{"text": "Hello "}, {"text": "there.\nAnd "}, {"text": "more."}, {"stop": "end_turn"}],
        [ask, {"stop": "end_turn"}],
        [ask, {"stop": "end_turn"}],
        [{"text": "Working"}, {"untilCancelled": true}, {"stop": "cancelled"}],
    ]}))
    .await;
    let Some(mut terminal) = Terminal::open(&desk.setup).await else {
        return;
    };
    let before = modes(&mut terminal).await;
    terminal.enter("relay run fake --cwd /").await;
    let idle = "@fake is idle; Ctrl-C cancels its turn, Ctrl-D ends it\n> _";
    terminal
        .until_shown("@fake runs Fake in /  session-1")
        .await;
    terminal.until_shown(idle).await;

    // What is typed is a prompt.
    for key in ["h", "x", "BSpace", "i", "Enter"] {
        terminal.press(key).await;
    }
    terminal
        .until_shown(&format!("\n> hi\nHello there.\nAnd more.\n{idle}"))
        .await;
    let prompts = told(&log, "session/prompt");
    assert_eq!(prompts[0]["params"]["prompt"][0]["text"], "hi");

    // A key decides; arrows do not.
    terminal.press("b").await;
    terminal.press("Enter").await;
    terminal.until_shown("command  rm x\n").await;
    terminal
        .until_shown("[a]llow once  [A]lways  [d]eny  [D]eny and stop  [g]uidance  [s]kip")
        .await;
    terminal.press("Up").await;
    terminal.press("a").await;
    terminal
        .until_shown("approved by the workspace via run at ")
        .await;
    terminal.until_shown(r#""optionId":"yes""#).await;
    terminal.until_shown(idle).await;

    // Somebody else is faster: the question is taken away.
    terminal.press("c").await;
    terminal.press("Enter").await;
    terminal.until_shown("[a]llow once  [A]lways").await;
    desk.ok(&["permission", "deny"]).await;
    terminal
        .until_shown("denied by the workspace via cli at ")
        .await;
    terminal.until_shown(r#""optionId":"no""#).await;
    terminal.until_shown(idle).await;

    // Ctrl-C cancels the turn and nothing else.
    terminal.press("d").await;
    terminal.press("Enter").await;
    terminal.until_shown("Working\n@fake is active").await;
    terminal.press("C-c").await;
    terminal.until_shown("the turn was cancelled").await;
    terminal.until_shown(idle).await;
    desk.register(&["ada"]).await;
    desk.ok(&["session", "list"]).await;

    terminal.press("C-d").await;
    assert_eq!(terminal.ended().await, 0);
    terminal.until_shown("\nreleased").await;
    assert_eq!(modes(&mut terminal).await, before);
    assert!(terminal.is_cursor_visible().await);
    assert_eq!(processes_with(text(&log)), [""; 0]);
}

#[tokio::test]
async fn a_question_without_a_server_is_asked_in_the_terminal() {
    let ask = json!({"ask": {
        "toolCall": {"toolCallId": "c", "kind": "execute", "title": "rm x", "rawInput": {"command": "rm x"}},
        "options": [
            {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ],
    }});
    let (desk, _log) = Desk::with_fake(json!({"turns": [[ask, {"stop": "end_turn"}]]})).await;
    let Some(mut terminal) = Terminal::open(&desk.setup).await else {
        return;
    };
    let before = modes(&mut terminal).await;
    for (key, says, option) in [("a", "allowed", "yes"), ("d", "rejected", "no")] {
        terminal.enter("relay acp ask fake go").await;
        terminal
            .until_shown("fake wants to use execute\n  rm x\n  command: rm x\n[a]llow once  [d]eny")
            .await;
        terminal.press(key).await;
        assert_eq!(terminal.ended().await, 0);
        terminal.until_shown(&format!("[d]eny  {says}")).await;
        terminal
            .until_shown(&format!(r#""optionId":"{option}""#))
            .await;
        assert_eq!(modes(&mut terminal).await, before);
    }
}
