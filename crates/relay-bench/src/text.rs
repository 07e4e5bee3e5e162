//! The text of messages. The foundation benchmark of `relay-core` includes this file.

/// Bytes of text in a message.
pub(crate) const TEXT_BYTES: usize = 256;

/// Text of the usual length, different for each number.
pub(crate) fn text(number: usize) -> String {
    const WORDS: [&str; 16] = [
        "build", "agent", "branch", "review", "deploy", "failing", "module", "merge", "the", "and",
        "please", "queue", "schema", "ready", "when", "tests",
    ];
    let mut text = format!("message {number}:");
    let mut state = number as u64 ^ 0x9e37_79b9_7f4a_7c15;
    while text.len() < TEXT_BYTES {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        text.push(' ');
        text.push_str(WORDS[(state >> 60) as usize]);
    }
    text.truncate(TEXT_BYTES);
    text
}
