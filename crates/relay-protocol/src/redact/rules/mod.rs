//! The rules: each looks at the text around one kind of literal and says what is secret there.
//!
//! To add a token with a prefix of its own, add a row to `tokens::TOKENS`. To add a rule of another
//! kind, write a file with a `check` function, add a variant to [`Rule`] and its literals to
//! [`literals`]. Literals have three bytes or more and no blanks; a rule reads forward
//! through [`Text`] and looks back less than `limits::REACH`. Then add entries to the corpus in
//! `tests/redact/`, to both of its files.

mod assign;
mod aws;
mod basic;
mod bots;
mod command;
mod header;
mod jwt;
pub(super) mod pem;
mod tokens;
mod url;
mod value;

use super::{names, text::Text, view::View};

/// A stretch of plain text that is to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Secret {
    /// Where it begins.
    pub(super) start: usize,
    /// Where it ends.
    pub(super) end: usize,
    /// What the marker says.
    pub(super) kind: &'static str,
    /// Which kind is shown where secrets overlap: the higher one.
    pub(super) rank: usize,
}

impl Secret {
    /// The colour changes inside the secret, which stay in effect after its marker. A private key
    /// has none: its lines are forgotten one by one. Each comes with its place in the original.
    pub(super) fn colours<'t>(&self, view: &View<'t>) -> impl Iterator<Item = (usize, &'t str)> {
        let end = if self.kind == pem::KIND {
            self.start
        } else {
            self.end
        };
        view.inside(self.start, end)
    }
}

/// The rank of what is only known by its name or place.
pub(super) const BY_CONTEXT: usize = 0;

/// The rank of what is known by how it looks.
pub(super) const BY_LOOK: usize = 2;

/// What to do where a literal stands.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    /// A row of the table of tokens.
    Token(&'static tokens::Token),
    /// An id of AWS, perhaps with its secret.
    AwsId,
    /// The words "secret access key" in running text.
    AwsPhrase,
    /// A bot token of Telegram.
    Telegram,
    /// A bot token of Discord.
    Discord,
    /// A signed or encrypted JSON web token.
    Jwt,
    /// The head of a private key; the scanner runs this one itself.
    Pem,
    /// A private key in base64.
    EncodedPem,
    /// An authorization header.
    Authorization,
    /// Bearer credentials anywhere.
    Bearer,
    /// Basic credentials anywhere.
    Basic,
    /// A command line with `-u user:password`.
    Command,
    /// A password in a URL.
    Url,
    /// An assignment to a secret-looking name.
    Assign,
}

/// Every literal with its rule.
pub(super) fn literals() -> Vec<(String, Rule)> {
    let mut all: Vec<(String, Rule)> = Vec::new();
    let mut add = |rule: Rule, literals: &[&str]| {
        all.extend(literals.iter().map(|literal| ((*literal).to_owned(), rule)));
    };
    for token in tokens::TOKENS {
        for literal in token.literals() {
            add(Rule::Token(token), &[&literal]);
        }
    }
    add(Rule::AwsId, aws::ID_PREFIXES);
    add(Rule::AwsPhrase, &["access"]);
    add(Rule::Telegram, &[":AA"]);
    add(Rule::Jwt, &["eyJ"]);
    add(Rule::Pem, pem::HEADS);
    add(Rule::EncodedPem, &[pem::ENCODED_HEAD]);
    add(Rule::Authorization, &["authorization"]);
    add(Rule::Bearer, &["bearer"]);
    add(Rule::Basic, &["basic"]);
    add(Rule::Command, &["curl"]);
    add(Rule::Url, &["://"]);
    add(Rule::Assign, names::KEYWORDS);
    all.extend(bots::discord_literals().map(|literal| (literal, Rule::Discord)));
    all
}

impl Rule {
    /// Whether the rule's literals are words, which may be written in any case.
    pub(super) fn any_case(self) -> bool {
        matches!(
            self,
            Self::AwsPhrase | Self::Authorization | Self::Bearer | Self::Basic | Self::Assign
        )
    }

    /// Looks at the text where one of the rule's literals starts.
    pub(super) fn check(self, text: &Text<'_>, at: usize, found: &mut Vec<Secret>) {
        match self {
            Self::Token(token) => found.extend(token.check(text, at)),
            Self::AwsId => aws::check_id(text, at, found),
            Self::AwsPhrase => found.extend(aws::check_phrase(text, at)),
            Self::Telegram => found.extend(bots::check_telegram(text, at)),
            Self::Discord => found.extend(bots::check_discord(text, at)),
            Self::Jwt => found.extend(jwt::check(text, at)),
            Self::Pem => {}
            Self::EncodedPem => found.extend(pem::check_encoded(text, at)),
            Self::Authorization => found.extend(header::check_authorization(text, at)),
            Self::Bearer => found.extend(header::check_bearer(text, at)),
            Self::Basic => found.extend(basic::check(text, at)),
            Self::Command => found.extend(command::check(text, at)),
            Self::Url => found.extend(url::check(text, at)),
            Self::Assign => found.extend(assign::check(text, at)),
        }
    }
}
