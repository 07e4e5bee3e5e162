//! The programs do what they say.

use std::process::Command;

use anyhow::Result;

fn check(program: &str, expected: &[&str]) -> Result<()> {
    let output = Command::new(program).output()?;
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout)?;
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
    Ok(())
}

#[test]
fn the_sdk_example_prints_a_conversation() -> Result<()> {
    let expected = [
        "@echo gets \"hello\", dm",
        "delivered to @echo",
        "@alice: hello",
        "@echo: HELLO",
    ];
    check(env!("CARGO_BIN_EXE_sdk"), &expected)
}

#[test]
fn the_events_example_calls_an_action_and_gets_webhooks() -> Result<()> {
    let expected = [
        r#"listener: classify {"label":"spam"}"#,
        "codex-1 reads: Classified as spam",
        "the call is completed",
        r#"webhook: action.completed, message.created "Classified as spam""#,
        "gemini-1: classify is not available to gemini-1 (forbidden)",
        "listener: action.denied for gemini-1",
    ];
    check(env!("CARGO_BIN_EXE_events"), &expected)
}
