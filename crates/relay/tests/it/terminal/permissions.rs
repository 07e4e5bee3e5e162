//! `relay permission watch` in a real terminal: requests appear, keys decide, and the terminal is as it was afterwards.

use super::modes;
use super::tmux::Terminal;
use crate::commands::permissions::ada_asks;
use crate::support::Desk;

#[tokio::test]
async fn requests_are_decided_key_by_key() {
    let desk = Desk::new().await;
    let Some(mut terminal) = Terminal::open(&desk.setup).await else {
        return;
    };
    desk.register(&["ada"]).await;
    let before = modes(&mut terminal).await;
    // This one waits already when somebody begins to watch.
    let mut run = ada_asks(
        &desk,
        &["--expires", "10m", "--", "echo one && echo $(echo two)"],
    );
    let watch = "EDITOR='sed -i s/six/seven/' relay permission watch";
    terminal.enter(watch).await;
    terminal
        .until_shown("command  echo one && echo $(echo two)\n")
        .await;
    terminal.until_shown("\nlook at  $(echo two)\n").await;
    terminal.until_shown("[a]llow once  [A]lways  [d]eny").await;
    let screen = terminal.colored_screen().await;
    assert!(screen.contains("\u{1b}[36m&&"), "{screen}");
    let danger = screen
        .lines()
        .find(|line| line.contains("command"))
        .unwrap();
    assert!(danger.contains("31m$(echo two)"), "{danger:?}");
    countdown_moves(&terminal).await;
    let shown = desk.json(&["permission", "show"]).await;
    assert_eq!(shown["seen"][0]["by"]["kind"], "workspace");
    // Arrows end in letters that would decide.
    terminal.press("Up").await;
    terminal.press("a").await;
    assert_eq!(run.line().await, "one");
    assert_eq!(run.line().await, "two");
    assert_eq!(run.end().await.0, 0);
    terminal
        .until_shown("bash: echo one && echo $(echo two)\nwaiting for requests")
        .await;

    // Always: what comes next is not asked.
    let run = ada_asks(&desk, &["--", "echo", "three"]);
    terminal
        .until_shown("always   bash:echo **  @ada: `echo` with any arguments")
        .await;
    terminal.press("A").await;
    assert_eq!(run.end().await.0, 0);
    terminal
        .until_shown("\ngranted bash:echo **\ntake it back: relay grant revoke ")
        .await;
    let (code, said) = ada_asks(&desk, &["--", "echo", "four"]).end().await;
    assert_eq!((code, said.as_str()), (0, "allowed by a grant\n"));
    let grants = desk.json(&["grant", "list"]).await;
    let grant = grants["items"][0]["grantId"].as_str().unwrap();
    desk.ok(&["grant", "revoke", grant]).await;

    // Asked again; somebody else decides.
    let run = ada_asks(&desk, &["--", "echo", "five"]);
    terminal.until_shown("command  echo five\n").await;
    desk.ok(&["permission", "approve"]).await;
    terminal
        .until_shown("approved by the workspace via cli at ")
        .await;
    assert_eq!(run.end().await.0, 0);

    // Changed in an editor.
    let mut run = ada_asks(&desk, &["--", "echo", "six"]);
    terminal.until_shown("command  echo six\n").await;
    terminal.press("e").await;
    terminal.until_shown("command  echo seven\n").await;
    terminal
        .until_shown("changed by you; [a] allows it like this")
        .await;
    terminal.press("a").await;
    assert_eq!(run.line().await, "seven");
    assert_eq!(run.end().await.0, 0);

    // Denied, with what to do instead.
    let run = ada_asks(&desk, &["--", "echo", "eight"]);
    terminal.until_shown("command  echo eight\n").await;
    terminal.press("g").await;
    terminal.until_shown("deny, and do instead: _").await;
    for key in ["r", "e", "x", "BSpace", "s", "t"] {
        terminal.press(key).await;
    }
    terminal.until_shown("deny, and do instead: rest_").await;
    terminal.press("Enter").await;
    assert_eq!(run.end().await.0, 126);
    let inbox = desk.ok(&["inbox", "--as", "ada"]).await;
    assert!(inbox.contains("\n  rest\n"), "{inbox}");

    // Skipped: it goes on waiting.
    let run = ada_asks(&desk, &["--", "echo", "nine"]);
    terminal.until_shown("command  echo nine\n").await;
    terminal.press("s").await;
    terminal.until_shown("skipped, it goes on waiting  ").await;
    terminal.press("q").await;
    assert_eq!(terminal.ended().await, 0);
    terminal
        .until_shown("1 request goes on waiting: relay permission list --state pending")
        .await;
    assert_eq!(modes(&mut terminal).await, before);

    terminal.run("clear").await;
    terminal.enter(watch).await;
    terminal.until_shown("command  echo nine\n").await;
    terminal.press("C-c").await;
    assert_eq!(terminal.ended().await, 130);
    assert_eq!(modes(&mut terminal).await, before);
    assert!(terminal.is_cursor_visible().await);
    desk.ok(&["permission", "deny"]).await;
    assert_eq!(run.end().await.0, 126);
}

/// The time that is left changes in place.
async fn countdown_moves(terminal: &Terminal) {
    let left = |screen: &str| {
        let at = screen.find(" left  [a]llow")?;
        let time = screen[..at].rsplit('\n').next()?;
        Some(time.to_owned())
    };
    let first = terminal.until("a countdown", left).await;
    assert!(first.starts_with("9:"), "{first}");
    terminal
        .until("another time", |screen| {
            left(screen).filter(|now| *now != first)
        })
        .await;
}
