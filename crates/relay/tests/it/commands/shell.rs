//! Help, completions, manual pages.

use crate::support::{Setup, finish, text};

#[tokio::test]
async fn every_command_has_help_with_an_example() {
    let setup = Setup::new();
    let mut waiting = vec![Vec::new()];
    let mut seen = 0;
    while let Some(path) = waiting.pop() {
        let path: Vec<String> = path;
        let done = finish(setup.relay().args(&path).arg("--help")).await;
        assert_eq!(done.code, 0, "{done:?}");
        let commands = done.out.split("\nCommands:\n").nth(1);
        let Some(commands) = commands else {
            assert!(done.out.contains("\nExample"), "{path:?} has no example");
            assert!(done.out.contains("--json"), "{path:?} has no JSON");
            seen += 1;
            continue;
        };
        let names = commands.lines().take_while(|line| !line.is_empty());
        let names = names.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
        for name in names.filter(|name| !name.is_empty() && *name != "help") {
            let mut path = path.clone();
            path.push(name.to_owned());
            waiting.push(path);
        }
    }
    assert!(seen > 40, "{seen}");
}

#[tokio::test]
async fn shells_and_the_manual_know_the_commands() {
    let setup = Setup::new();
    for shell in ["bash", "zsh", "fish"] {
        let done = finish(setup.relay().args(["completions", shell])).await;
        assert_eq!(done.code, 0);
        assert!(
            done.out.contains("relay") && done.out.contains("allow-downgrade"),
            "{shell}"
        );
    }
    let pages = setup.file("man1");
    let done = finish(setup.relay().args(["man", text(&pages)])).await;
    assert_eq!(done.code, 0, "{done:?}");
    let page = std::fs::read_to_string(pages.join("relay-send.1")).unwrap();
    assert!(
        page.contains("Send a message and see what becomes of it"),
        "{page}"
    );
    let done = finish(
        setup
            .relay()
            .args(["man", "--json"])
            .arg(setup.file("other")),
    )
    .await;
    assert!(done.out.contains("\"pages\":"), "{done:?}");
}
