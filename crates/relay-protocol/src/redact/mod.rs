//! Removal of secrets from text and JSON before they are stored, shown or sent.
//!
//! A secret is known by its look (`ghp_...`, a private key), by its place (an authorization header,
//! the password of a URL), by the name it is assigned to (`API_KEY=...`), or because its exact value
//! was registered. What is removed is replaced by `[redacted:<kind>]`; names, quotes, users and hosts
//! around it stay, and redacting twice is the same as redacting once.
//!
//! `scan` finds the literals that every secret has near it and asks the `rules`; those read plain
//! text (`view` takes out colours) through `text`. `stream` does the same for text that arrives in
//! pieces, `cut` finds what a text breaks off. Deliberately absent: guessing at secrets that have neither look, place, name nor value.

mod cut;
mod forms;
mod json;
mod limits;
mod literals;
mod marker;
mod names;
mod rules;
mod scan;
mod shape;
mod stream;
mod text;
mod trivial;
mod values;
mod view;

use std::{
    borrow::Cow,
    sync::{Arc, LazyLock},
};

pub use limits::{HOLD_MS, MAX_HELD, MIN_REGISTERED_LEN};
pub use stream::{Stream, StreamPart};

use scan::{Finding, Scanner, Span};
use values::Values;
use view::View;

/// The scanner of everyone who has no values registered.
static PLAIN: LazyLock<Arc<Scanner>> = LazyLock::new(|| Arc::new(Scanner::new(None)));

/// Removes secrets from text and JSON. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Redactor {
    scanner: Arc<Scanner>,
}

impl Redactor {
    /// Creates a redactor that knows secrets by look, place and name.
    pub fn new() -> Self {
        Self {
            scanner: Arc::clone(&PLAIN),
        }
    }

    /// Creates a redactor that also removes exact values, given with the names of their variables.
    ///
    /// Ignored are values shorter than [`MIN_REGISTERED_LEN`], paths, numbers, well-known words such
    /// as `localhost`, variables that every environment has, and addresses, of which only the
    /// password is registered. The others are also found escaped, percent-encoded and in base64.
    pub fn with_values<N, V>(values: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: AsRef<str>,
        V: AsRef<str>,
    {
        match Values::new(values) {
            Some(values) => Self {
                scanner: Arc::new(Scanner::new(Some(values))),
            },
            None => Self::new(),
        }
    }

    /// Replaces the secrets in a text; borrows it when there are none.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let view = View::whole(text);
        let findings = self.scanner.scan(
            &view,
            Span {
                from: 0,
                wall: 0,
                unfinished: false,
            },
        );
        if findings.secrets.is_empty() {
            return Cow::Borrowed(text);
        }
        Cow::Owned(render(&view, &findings.secrets))
    }

    /// Replaces the secrets in all strings of a JSON value; says whether any were found.
    ///
    /// The string value of a member with a secret-looking name is replaced as a whole. Names only
    /// change when they contain a secret themselves.
    pub fn redact_json(&self, value: &mut serde_json::Value) -> bool {
        json::redact(self, value)
    }

    /// Says whether [`redact`](Self::redact) would change the text.
    pub fn contains_secret(&self, text: &str) -> bool {
        self.scanner.any(&View::whole(text))
    }

    /// Starts redacting text that arrives in pieces.
    pub fn stream(&self) -> Stream {
        Stream::new(self.clone())
    }
}

impl Default for Redactor {
    fn default() -> Self {
        Self::new()
    }
}

/// Writes the text with markers in place of the secrets. Colour changes inside one are kept.
fn render(view: &View<'_>, secrets: &[Finding]) -> String {
    let original = view.original();
    let mut out = String::with_capacity(original.len());
    let mut copied = 0;
    for Finding { secret, .. } in secrets {
        out.push_str(&original[copied..view.after(secret.start)]);
        marker::push(&mut out, secret.kind);
        out.extend(secret.colours(view).map(|(_, colour)| colour));
        copied = view.before(secret.end);
    }
    out.push_str(&original[copied..]);
    out
}
