//! Exact values are removed in every form.

use relay_protocol::redact::Redactor;

const MARKER: &str = "[redacted:registered-value]";

fn check(value: &str, input: &str, expected: &str) {
    let redactor = Redactor::with_values([("SOME_NAME", value)]);
    let expected = expected.replace("<>", MARKER);
    assert_eq!(redactor.redact(input), expected);
    assert_eq!(redactor.redact(&expected), expected);
    let mut stream = redactor.stream();
    let mut joined: String = input.chars().map(|c| stream.push(&c.to_string())).collect();
    joined.push_str(&stream.finish());
    assert_eq!(joined, expected, "as a stream");
}

#[test]
fn as_it_is() {
    check("blue-horse", "the blue-horse runs", "the <> runs");
    check("blue-horse", "xblue-horsex blue-horse", "x<>x <>");
    check(
        "blue horse 7",
        "a blue horse 7 runs, a blue horse 8 too",
        "a <> runs, a blue horse 8 too",
    );
    check(
        "line one\nline two",
        "> line one\nline two\nline three",
        "> <>\nline three",
    );
    check("zażółć gęślą", "x zażółć gęślą y", "x <> y");
}

#[test]
fn escaped_and_encoded() {
    check(
        "q\"uote\\d va/lue",
        r#"{"a":"q\"uote\\d va/lue"}"#,
        r#"{"a":"<>"}"#,
    );
    check(
        "q\"uote\\d va/lue",
        "?a=q%22uote%5Cd%20va%2Flue&b",
        "?a=<>&b",
    );
    check("q\"uote\\d va/lue", "?a=q%22uote%5cd+va%2flue&b", "?a=<>&b");
    check("blue-horse-77", "x Ymx1ZS1ob3JzZS03Nw== y", "x <>== y");
}

#[test]
fn inside_longer_base64() {
    // "user:blue-horse-77" and "me:blue-horse-77;" in base64
    for encoded in ["dXNlcjpibHVlLWhvcnNlLTc3", "bWU6Ymx1ZS1ob3JzZS03Nzs="] {
        let redactor = Redactor::with_values([("X", "blue-horse-77")]);
        let input = format!("see {encoded} here");
        assert!(redactor.redact(&input).contains(MARKER), "{encoded}");
    }
}

#[test]
fn the_longest_of_several() {
    let redactor = Redactor::with_values([("A", "horse-battery"), ("B", "horse-battery-staple")]);
    assert_eq!(
        redactor.redact("x horse-battery-staple y"),
        format!("x {MARKER} y")
    );
    assert_eq!(
        redactor.redact("horse-batteryhorse-battery"),
        format!("{MARKER}{MARKER}")
    );
}

#[test]
fn trivial_values_change_nothing() {
    let values = [
        ("A", "true"),
        ("B", "localhost"),
        ("PATH", "/usr/bin:/bin"),
        ("C", "12345"),
        ("HOME", "/home/someone"),
    ];
    let text = "true localhost /usr/bin:/bin 12345 /home/someone";
    assert_eq!(Redactor::with_values(values).redact(text), text);
}

#[test]
fn in_json_keys_and_values() {
    let redactor = Redactor::with_values([("X", "blue \"horse\"")]);
    let mut value = serde_json::json!({ "blue \"horse\" key": ["a blue \"horse\""] });
    assert!(redactor.redact_json(&mut value));
    assert_eq!(
        value.to_string(),
        format!("{{\"{MARKER} key\":[\"a {MARKER}\"]}}")
    );
}

#[test]
fn debug_output_has_no_secrets() {
    let redactor = Redactor::with_values([("X", "blue-horse-77")]);
    let mut stream = redactor.stream();
    stream.push("DB_PASSWORD=hunter2");
    let debug = format!("{redactor:?} {stream:?}");
    assert!(
        !debug.contains("horse") && !debug.contains("hunter"),
        "{debug}"
    );
}
