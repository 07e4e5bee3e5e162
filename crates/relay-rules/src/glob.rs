//! Patterns of text: `*` is any text within a line or a part of a path, `**` any text, `?` one character.
//!
//! A backslash before `*`, `?` or another backslash makes it an ordinary character; anywhere else it is one itself.
//! There are no sets and no alternatives: `[`, `{` and `!` stand for themselves.

use crate::fault::Unreadable;

/// A piece of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Character(char),
    /// `?`
    One,
    /// `*`
    Some,
    /// `**`
    Deep,
}

/// A compiled pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Glob {
    tokens: Vec<Token>,
    literal: Option<String>,
}

/// Writes text as a pattern that matches it alone.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '*' | '?' | '\\') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

impl Glob {
    pub(crate) fn parse(text: &str) -> Result<Self, Unreadable> {
        let mut tokens = Vec::new();
        let mut characters = text.chars().peekable();
        while let Some(c) = characters.next() {
            let token = match c {
                '\\' => match characters.next_if(|next| matches!(next, '*' | '?' | '\\')) {
                    Some(escaped) => Token::Character(escaped),
                    None => Token::Character('\\'),
                },
                '?' => Token::One,
                '*' if characters.next_if_eq(&'*').is_some() => Token::Deep,
                '*' => Token::Some,
                c => Token::Character(c),
            };
            let stars = |token: &Token| matches!(token, Token::Some | Token::Deep);
            if stars(&token) && tokens.last().is_some_and(stars) {
                return Err(Unreadable::new("at most two stars in a row", text));
            }
            tokens.push(token);
        }
        Ok(Self::from_tokens(tokens))
    }

    pub(crate) fn from_tokens(tokens: Vec<Token>) -> Self {
        let characters = tokens.iter().map(|token| match token {
            Token::Character(c) => Some(*c),
            _ => None,
        });
        Self {
            literal: characters.collect(),
            tokens,
        }
    }

    pub(crate) fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// The only text that it matches, where there is only one.
    pub(crate) fn literal(&self) -> Option<&str> {
        self.literal.as_deref()
    }

    /// Whether it is `*` or `**`.
    pub(crate) fn is_anything(&self) -> bool {
        matches!(self.tokens[..], [Token::Some | Token::Deep])
    }

    /// Whether it matches when `*` stays within a line.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.run(text, false)
    }

    /// Whether it matches when `*` is any text.
    pub(crate) fn matches_widely(&self, text: &str) -> bool {
        self.run(text, true)
    }

    /// Goes through the text once with all places of the pattern that it may have come to, so that no text takes long.
    fn run(&self, text: &str, wide: bool) -> bool {
        if let Some(literal) = &self.literal {
            return literal == text;
        }
        let mut places = vec![false; self.tokens.len() + 1];
        let mut next = places.clone();
        places[0] = true;
        self.skip_stars(&mut places);
        for c in text.chars() {
            next.fill(false);
            let inside = wide || c != '\n';
            for (at, token) in self.tokens.iter().enumerate().filter(|(at, _)| places[*at]) {
                match token {
                    Token::Character(expected) => next[at + 1] |= *expected == c,
                    Token::One => next[at + 1] |= inside,
                    Token::Some => next[at] |= inside,
                    Token::Deep => next[at] = true,
                }
            }
            self.skip_stars(&mut next);
            std::mem::swap(&mut places, &mut next);
        }
        places[self.tokens.len()]
    }

    /// Stars may stand for nothing.
    fn skip_stars(&self, places: &mut [bool]) {
        for (at, token) in self.tokens.iter().enumerate() {
            if matches!(token, Token::Some | Token::Deep) && places[at] {
                places[at + 1] = true;
            }
        }
    }
}
