//! `relay chat` in a real terminal: questions are decided by key, prompts go on, and the model sees what was said before.

use super::modes;
use super::tmux::Terminal;
use crate::chats::Room;

const KEYS: &str = "[a]llow once  [A]lways  [d]eny  deny with a [r]eason  [D]eny and stop";

#[tokio::test]
async fn questions_are_decided_by_key() {
    let room = Room::with(&[("RELAY_CHAT_DEFAULT_MODEL", "scripted/demo")]).await;
    let Some(mut terminal) = Terminal::open(&room.desk.setup).await else {
        return;
    };
    let before = modes(&mut terminal).await;
    terminal.enter("relay chat 'What is here?'").await;
    let card = format!(
        "Let me see what is here.\nasks bash\n  command: ls -la\n  always: bash:ls **  `ls` with any arguments, such as `ls -la`\n{KEYS}"
    );
    terminal.until_shown(&card).await;
    // Arrows end in letters that would decide.
    terminal.press("Up").await;
    terminal.press("a").await;
    terminal.until_shown("\nallowed\ntool bash: ls -la\n").await;
    let end = "What would you like to do with it?\n>";
    terminal.until_count(end, 1).await;

    // Once is not always.
    terminal.type_line("Again?").await;
    terminal.until_count(&card, 2).await;
    terminal.press("A").await;
    terminal
        .until_shown("\nallowed from now on in this conversation\n")
        .await;
    terminal.until_count(end, 2).await;
    terminal.type_line("And again?").await;
    terminal.until_count(end, 3).await;
    terminal.until_count("asks bash", 2).await;
    terminal.press("C-d").await;
    assert_eq!(terminal.ended().await, 0);
    assert_eq!(modes(&mut terminal).await, before);
}

#[tokio::test]
async fn the_model_knows_what_was_said_and_refused() {
    let room = Room::with(&[("RELAY_CHAT_DEFAULT_MODEL", "scripted/demo")]).await;
    let Some(mut terminal) = Terminal::open(&room.desk.setup).await else {
        return;
    };
    let before = modes(&mut terminal).await;
    terminal.enter("relay chat").await;
    terminal.until_shown("\n>").await;
    let calls = r#"script:[[{"tool":"bash","arguments":{"command":"touch ran"}}],"As you like."]"#;
    terminal.type_line(calls).await;
    terminal.until_shown(KEYS).await;
    terminal.press("r").await;
    terminal.until_shown("deny, because:").await;
    terminal.type_line("not today").await;
    terminal
        .until_shown("\ndenied\n  denied: not today\nAs you like.\n>")
        .await;
    // Written otherwise than it was said: the script itself is a part of the conversation.
    let remembers =
        r#"script:[{"when":{"said":"not\u0020today"},"reply":"You said it."},"I know nothing."]"#;
    terminal.type_line(remembers).await;
    terminal.until_shown("\nYou said it.\n>").await;

    terminal.type_line(calls).await;
    terminal.until_count(KEYS, 2).await;
    terminal.press("D").await;
    terminal.until_shown("\ndenied, and stopped\n").await;
    terminal.until_shown("\nstopped\n>").await;

    // Ctrl-C while something is asked cancels the turn, and at the prompt it is the end.
    terminal.type_line(calls).await;
    terminal.until_count(KEYS, 3).await;
    terminal.press("C-c").await;
    terminal
        .until_shown("\ncancelling; Ctrl-C again ends\ncancelled\n>")
        .await;
    terminal.press("C-c").await;
    assert_eq!(terminal.ended().await, 130);
    assert_eq!(modes(&mut terminal).await, before);
    assert!(!room.desk.setup.file("work").join("ran").exists());
}

#[tokio::test]
async fn a_question_that_is_decided_elsewhere_goes_away() {
    let room = Room::with(&[("RELAY_CHAT_DEFAULT_MODEL", "scripted/demo")]).await;
    let Some(mut terminal) = Terminal::open(&room.desk.setup).await else {
        return;
    };
    terminal.enter("relay chat 'What is here?'").await;
    terminal.until_shown(KEYS).await;
    room.desk.ok(&["permission", "approve"]).await;
    terminal
        .until_shown("[D]eny and stop\napproved by the workspace via cli\ntool bash: ls -la\n")
        .await;
    // The terminal edits lines again.
    terminal.until_shown("to do with it?\n>").await;
    terminal.press("C-d").await;
    assert_eq!(terminal.ended().await, 0);
}

#[tokio::test]
async fn whoever_would_talk_to_nobody_is_told_before_typing() {
    let room = Room::new().await;
    let Some(mut terminal) = Terminal::open(&room.desk.setup).await else {
        return;
    };
    terminal.enter("relay chat").await;
    terminal
        .until_shown("relay: this server has no default model\nnext: say one with --model; ")
        .await;
    assert_eq!(terminal.ended().await, 2);
    terminal.enter("relay chat --model scripted/demo").await;
    terminal
        .until_shown("scripted/demo; Ctrl-C cancels what runs, Ctrl-D ends\n>")
        .await;
    terminal.press("C-d").await;
    assert_eq!(terminal.ended().await, 0);
}
