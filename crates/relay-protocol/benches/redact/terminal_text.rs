//! What terminals show: builds, logs, code, listings and prose, for measuring redaction.

use std::fmt::Write as _;

/// Builds, logs, code, listings and prose, the same on every run.
pub(crate) fn ordinary_text(size: usize) -> String {
    let mut random = Random(42);
    let mut text = String::with_capacity(size + 4096);
    while text.len() < size {
        match random.below(5) {
            0 => push_build(&mut text, &mut random),
            1 => push_log(&mut text, &mut random),
            2 => text.push_str(CODE),
            3 => push_listing(&mut text, &mut random),
            _ => text.push_str(PROSE),
        }
    }
    text.truncate(text.floor_char_boundary(size));
    text
}

fn push_build(text: &mut String, random: &mut Random) {
    const CRATES: &[&str] = &[
        "serde",
        "tokio",
        "jsonwebtoken",
        "secrecy",
        "keyring",
        "regex",
        "hyper",
        "unicode-ident",
    ];
    for _ in 0..12 {
        let name = CRATES[random.below(CRATES.len())];
        let (minor, patch) = (random.below(90), random.below(20));
        let _ = writeln!(
            text,
            "\x1b[1m\x1b[32m   Compiling\x1b[0m {name} v1.{minor}.{patch} (/home/jo/src/{name})"
        );
    }
    text.push_str("warning: unused variable: `token`\n  --> src/auth/token.rs:42:9\n   |\n42 |     let token = parser.next_token();\n   |         ^^^^^ help: prefix it with an underscore: `_token`\n");
}

fn push_log(text: &mut String, random: &mut Random) {
    for _ in 0..12 {
        let (a, b, c) = (random.next(), random.next(), random.below(1000));
        let _ = writeln!(
            text,
            "2024-05-01T12:{:02}:{:02}.{c:03}Z  INFO relay::server::routes: request finished method=POST path=/v1/messages status=200 latency_ms={c} request_id={:08x}-{:04x}-4{:03x}-8{:03x}-{:012x} trace={:016x}",
            c % 60,
            (c / 7) % 60,
            a as u32,
            b as u16,
            a >> 52,
            b >> 52,
            a & 0xffff_ffff_ffff,
            b,
        );
    }
}

fn push_listing(text: &mut String, random: &mut Random) {
    for _ in 0..15 {
        let (size, day, id) = (
            random.below(900_000),
            random.below(28) + 1,
            random.next() as u32,
        );
        let _ = writeln!(
            text,
            "-rw-r--r--  1 jo staff {size:>8} May {day:>2} 12:00 module_{id:08x}.rs"
        );
    }
}

/// A small generator, so that every run measures the same text.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

const CODE: &str = r#"
impl Parser<'_> {
    /// Reads the next token, or says which key was expected.
    pub fn next_token(&mut self) -> Result<Token, ParseError> {
        let token = self.lexer.next().ok_or(ParseError::Eof)?;
        if let Some(key) = self.keywords.get(token.text()) {
            return Ok(Token::Keyword(key.clone()));
        }
        let password: Option<String> = None;
        self.authenticate(user, password.as_deref())?;
        Ok(token)
    }
}
const response = await fetch(`${baseUrl}/v1/keys`, { headers: { Authorization: `Bearer ${token}` } });
def tokenize(text: str, max_tokens: int = 4096) -> list[int]:
    return [vocabulary[token] for token in text.split() if token in vocabulary]
"#;

const PROSE: &str = "The key to a good password is length; a token effort is not enough. When the \
server starts it reads its configuration, opens the database and listens for agents, and every \
message that arrives is stored before it is acknowledged. Authentication is described in the guide: \
see https://example.com/guide/authentication?lang=en for how tokens, keys and secrets are handled. \
If the password is wrong three times, the account is locked for an hour and a basic report is sent \
to its author, who may access it from the keyboard of any machine that passes the checks.\n";
