//! Streams hold back little, and never what they need not.

use relay_protocol::redact::{MAX_HELD, Redactor};

use crate::corpus;

fn pieces(text: &str, size: usize) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    chars
        .chunks(size)
        .map(|piece| piece.iter().collect())
        .collect()
}

fn streamed(redactor: &Redactor, text: &str, size: usize) -> String {
    let mut stream = redactor.stream();
    let mut out: String = pieces(text, size)
        .iter()
        .map(|piece| stream.push(piece))
        .collect();
    out.push_str(&stream.finish());
    out
}

#[test]
fn the_whole_corpus_in_pieces_of_any_size() {
    let redactor = Redactor::new();
    let secrets: Vec<String> = corpus::secrets()
        .into_iter()
        .map(|entry| entry.input)
        .collect();
    let texts = [secrets.join("\n\n"), secrets.join(" "), corpus::ordinary()];
    for text in &texts {
        let whole = redactor.redact(text);
        for size in [1, 2, 3, 7, 64, 1000, 4096] {
            assert_eq!(streamed(&redactor, text, size), whole, "pieces of {size}");
        }
    }
}

#[test]
fn ordinary_words_go_out_at_once() {
    let mut stream = Redactor::new().stream();
    assert_eq!(stream.push("Hello, wor"), "Hello, ");
    assert_eq!(stream.push("ld. This is "), "world. This is ");
    assert_eq!(stream.push("$ "), "$ ");
    assert_eq!(stream.finish(), "");
}

#[test]
fn a_name_waits_for_its_value() {
    let mut stream = Redactor::new().stream();
    assert_eq!(stream.push("export DB_PASSWORD="), "export ");
    assert_eq!(stream.push("hun"), "");
    assert_eq!(
        stream.push("ter2\n$ "),
        "DB_PASSWORD=[redacted:password]\n$ "
    );
}

#[test]
fn after_a_flush_the_rest_of_a_secret_is_still_removed() {
    let mut stream = Redactor::new().stream();
    assert_eq!(stream.push("DB_PASSWORD="), "");
    assert_eq!(stream.flush(), "DB_PASSWORD=");
    assert_eq!(stream.flush(), "");
    assert_eq!(stream.push("hunter2\nnext "), "[redacted:password]\nnext ");
}

#[test]
fn a_flushed_marker_is_not_repeated() {
    let mut stream = Redactor::new().stream();
    stream.push("DB_PASSWORD=hunter2");
    assert_eq!(stream.flush(), "DB_PASSWORD=[redacted:password]");
    assert_eq!(stream.push("345"), "");
    assert_eq!(stream.flush(), "");
    assert_eq!(stream.push("678 done\n"), " done\n");
}

#[test]
fn a_private_key_is_dropped_line_by_line() {
    let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\n";
    let mut stream = Redactor::new().stream();
    assert_eq!(
        stream.push(concat!("see -----BEGIN ", "PRIVATE KEY-----\n")),
        "see "
    );
    assert_eq!(stream.push(line), "[redacted:private-key]");
    for _ in 0..3 * MAX_HELD / line.len() {
        assert_eq!(stream.push(line), "");
    }
    assert_eq!(stream.flush(), "");
    assert_eq!(stream.push("MIIE"), "");
    assert_eq!(stream.flush(), "");
    assert_eq!(
        stream.push("\n-----END PRIVATE KEY-----\nafter \n"),
        "\nafter \n"
    );
}

#[test]
fn a_key_that_never_ends_gives_way_to_text() {
    let mut stream = Redactor::new().stream();
    stream.push(concat!(
        "-----BEGIN RSA ",
        "PRIVATE KEY-----\n",
        "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj\n"
    ));
    assert_eq!(stream.push("\n"), "");
    assert_eq!(stream.push("$ "), "\n\n$ ");
    assert_eq!(stream.push("ls -l\n"), "ls -l\n");
}

#[test]
fn long_lines_are_not_collected() {
    let redactor = Redactor::with_values([("X", "blue horse 77")]);
    for unit in [
        "abcdefgh",
        "eyJhbGciOiJI.",
        "token=",
        "sk-a1B2",
        "password=\"a1",
        "-----BEGIN PRIVATE KEY-----",
        "://a:b",
        "curl -s ",
        "Bearer x1",
        "MTIzNDU2",
    ] {
        let mut stream = redactor.stream();
        let (mut given, mut returned) = (0, 0);
        for _ in 0..100 {
            let piece = unit.repeat(100);
            given += piece.len();
            // What a secret was replaced with is shorter, so only a lower bound of what went out.
            returned += stream.push(&piece).len();
        }
        let rest = stream.finish();
        assert!(
            rest.len() <= MAX_HELD,
            "{unit}: {} of {given} held, {returned} returned",
            rest.len()
        );
    }
}

#[test]
fn colours_without_text_are_not_collected() {
    for before in [
        "",
        "password: ",
        concat!("-----BEGIN ", "PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG\n"),
    ] {
        let mut stream = Redactor::new().stream();
        stream.push(before);
        for _ in 0..100 {
            stream.push(&"\x1b[31m".repeat(1000));
            let debug = format!("{stream:?}");
            let held = debug
                .chars()
                .filter(char::is_ascii_digit)
                .collect::<String>();
            assert!(held.parse::<usize>().unwrap() <= MAX_HELD, "{debug}");
        }
    }
}

#[test]
fn colours_do_not_hide_secrets() {
    let redactor = Redactor::new();
    let text = "\x1b[1mDB_PASSWORD\x1b[0m=\x1b[32mhunter2\x1b[0m ok\n";
    let expected = "\x1b[1mDB_PASSWORD\x1b[0m=\x1b[32m[redacted:password]\x1b[0m ok\n";
    for size in 1..text.len() {
        assert_eq!(streamed(&redactor, text, size), expected);
    }
}
