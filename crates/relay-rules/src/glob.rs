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
        Ok(Self { tokens })
    }

    pub(crate) fn from_tokens(tokens: Vec<Token>) -> Self {
        Self { tokens }
    }

    pub(crate) fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// The only text that it matches, where there is only one.
    pub(crate) fn literal(&self) -> Option<String> {
        let characters = self.tokens.iter().map(|token| match token {
            Token::Character(c) => Some(*c),
            _ => None,
        });
        characters.collect()
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

    fn run(&self, text: &str, wide: bool) -> bool {
        let characters: Vec<char> = text.chars().collect();
        let (mut token, mut at) = (0, 0);
        // Where to go on when what was tried fails: after the last `*`, then after the last `**`.
        let mut some: Option<(usize, usize)> = None;
        let mut deep: Option<(usize, usize)> = None;
        loop {
            match self.tokens.get(token) {
                Some(Token::Deep) => {
                    deep = Some((token, at));
                    some = None;
                    token += 1;
                    continue;
                }
                Some(Token::Some) => {
                    some = Some((token, at));
                    token += 1;
                    continue;
                }
                Some(Token::One) if at < characters.len() && (wide || characters[at] != '\n') => {
                    (token, at) = (token + 1, at + 1);
                    continue;
                }
                Some(Token::Character(c)) if characters.get(at) == Some(c) => {
                    (token, at) = (token + 1, at + 1);
                    continue;
                }
                None if at == characters.len() => return true,
                _ => {}
            }
            let extend = |place: &mut Option<(usize, usize)>, crosses: bool| {
                let (star, from) = place.as_mut()?;
                let next = characters.get(*from)?;
                (crosses || *next != '\n').then(|| {
                    *from += 1;
                    (*star + 1, *from)
                })
            };
            match extend(&mut some, wide).or_else(|| {
                some = None;
                extend(&mut deep, true)
            }) {
                Some(next) => (token, at) = next,
                None => return false,
            }
        }
    }
}
