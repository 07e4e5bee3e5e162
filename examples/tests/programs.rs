//! The programs do what they say.

use std::process::Command;

#[test]
fn the_sdk_example_prints_a_conversation() {
    let output = Command::new(env!("CARGO_BIN_EXE_sdk")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let expected = [
        "@echo gets \"hello\", dm",
        "delivered to @echo",
        "@alice: hello",
        "@echo: HELLO",
    ];
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
}
