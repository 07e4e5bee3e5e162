//! Help, completions, manual pages, the version.

use tokio::process::Command;

use crate::support::{Setup, finish, text};

#[tokio::test]
async fn every_command_has_help_with_an_example() {
    let setup = Setup::new();
    let mut waiting = vec![Vec::new()];
    let mut seen = 0;
    while let Some(path) = waiting.pop() {
        let path: Vec<String> = path;
        let brief = finish(setup.relay().args(&path).arg("-h")).await;
        let done = finish(setup.relay().args(&path).arg("--help")).await;
        assert_eq!(done.code, 0, "{done:?}");
        let escaped = brief.out.contains('\\') || done.out.contains('\\');
        assert!(!escaped, "{path:?} shows a backslash: {}", done.out);
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
    for page in std::fs::read_dir(&pages).unwrap() {
        let path = page.unwrap().path();
        let page = std::fs::read_to_string(&path).unwrap();
        let shown = ["\\\\", "\\e", "\\(rs"].map(|escape| page.contains(escape));
        assert_eq!(shown, [false; 3], "{} shows a backslash", path.display());
    }
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

#[tokio::test]
async fn the_version_names_commit_and_protocol() {
    let done = finish(Setup::new().relay().arg("--version")).await;
    let begin = format!("relay {} (commit ", env!("CARGO_PKG_VERSION"));
    let rest = done.out.strip_prefix(&begin).unwrap();
    let (commit, rest) = rest.split_once(", ").unwrap();
    assert!(!commit.is_empty(), "{done:?}");
    let protocol = relay_sdk::protocol::socket::PROTOCOL;
    assert_eq!(rest, format!("protocol {protocol})\n"));
}

#[tokio::test]
async fn what_is_built_outside_of_git_knows_its_commit_or_says_that_it_does_not() {
    let setup = Setup::new();
    let script = setup.file("build-script");
    let mut compiler = Command::new("rustc");
    compiler.args(["--edition", "2024", "-o", text(&script)]);
    compiler.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/build.rs"));
    let done = finish(&mut compiler).await;
    assert_eq!(done.code, 0, "{done:?}");
    let folder = setup.file("crates/relay");
    std::fs::create_dir_all(&folder).unwrap();
    let said = async |archived: &str, variable: &str| {
        std::fs::write(folder.join("commit.txt"), archived).unwrap();
        let mut script = Command::new(&script);
        script.current_dir(&folder).env("RELAY_COMMIT", variable);
        let done = finish(script.env("CARGO_MANIFEST_DIR", &folder)).await;
        assert_eq!(done.code, 0, "{done:?}");
        let line = done.out.lines().last().unwrap().to_owned();
        line.replace("cargo:rustc-env=RELAY_BUILD_COMMIT=", "")
    };
    assert_eq!(said("$Format:%h$\n", "").await, "unknown");
    assert_eq!(said("0123abcd\n", "").await, "0123abcd");
    assert_eq!(said("0123abcd\n", "4567cdef").await, "4567cdef");
}
