//! What begins with `$` or a backquote. What is inside is read, too, so that rules that refuse see it.

use super::reader::{Reader, read_nested};
use super::{Reading, Word};
use relay_protocol::limits::COMMAND_DEPTH;

impl Reader<'_> {
    /// Reads what a `$` begins.
    pub(super) fn dollar(&mut self, word: &mut Word, in_double: bool) {
        let start = self.at;
        match self.peek_at(1) {
            Some(b'(') => {
                if self.peek_at(2) == Some(b'(') {
                    self.trouble(start, "arithmetic");
                }
                self.substitution(word, 2);
            }
            Some(b'{') => self.parameter(word),
            Some(b'[') => {
                self.trouble(start, "arithmetic");
                self.at += 2;
                word.expansions.substitution = true;
            }
            Some(b'\'') if !in_double => self.ansi(word),
            Some(b'"') if !in_double => {
                self.at += 1;
                word.expansions.dollar_quote = true;
                self.double(word);
            }
            Some(byte) if byte.is_ascii_alphanumeric() || b"_@*#?-$!".contains(&byte) => {
                word.expansions.parameter = true;
                word.text.push('$');
                self.at += 1;
            }
            _ => {
                word.text.push('$');
                self.at += 1;
            }
        }
    }

    /// Reads `$( )`, `<( )` or `>( )`, whose beginning is so long.
    pub(super) fn substitution(&mut self, word: &mut Word, opening: usize) {
        let start = self.at;
        word.expansions.substitution = true;
        self.at += opening;
        self.depth += 1;
        if self.depth > COMMAND_DEPTH {
            self.trouble(start, "commands that are nested too deep");
            self.stop();
        }
        let segments = self.list(Some(b')'));
        self.reading.nested.extend(segments);
        self.depth -= 1;
        if self.peek() == Some(b')') {
            self.at += 1;
        } else {
            self.trouble(start, "a substitution that is not closed");
        }
        word.text.push_str(&self.text[start..self.at]);
    }

    /// Reads `${ }`.
    fn parameter(&mut self, word: &mut Word) {
        let start = self.at;
        word.expansions.parameter = true;
        self.at += 2;
        self.depth += 1;
        if self.depth > COMMAND_DEPTH {
            self.trouble(start, "commands that are nested too deep");
            self.stop();
        }
        let mut inside = Word::default();
        loop {
            match self.peek() {
                None => {
                    self.trouble(start, "a parameter that is not closed");
                    break;
                }
                Some(b'}') => {
                    self.at += 1;
                    break;
                }
                Some(b'$') => self.dollar(&mut inside, true),
                Some(b'`') => self.backquotes(&mut inside, true),
                Some(b'"') => self.double(&mut inside),
                Some(b'\\') => {
                    self.at += 1;
                    if self.peek().is_some() {
                        self.take();
                    }
                }
                Some(b'\'') => {
                    // Whether it quotes depends on what is around it.
                    self.trouble(self.at, "a quote inside of ${ }");
                    self.at += 1;
                }
                Some(_) => {
                    self.take();
                }
            }
        }
        self.depth -= 1;
        word.expansions.substitution |= inside.expansions.substitution;
        let raw = &self.text[start..self.at];
        let name = raw.trim_start_matches("${").trim_end_matches('}');
        if !is_name(name) {
            // Subscripts, offsets, indirection and `@P` evaluate text that is not here.
            self.trouble(start, "more than a name inside of ${ }");
        }
        word.text.push_str(raw);
    }

    /// Reads a substitution in backquotes, inside of which a backslash hides some characters.
    pub(super) fn backquotes(&mut self, word: &mut Word, in_double: bool) {
        let start = self.at;
        word.expansions.substitution = true;
        self.at += 1;
        let mut inside = String::new();
        loop {
            match self.peek() {
                None => {
                    self.trouble(start, "a substitution that is not closed");
                    break;
                }
                Some(b'`') => {
                    self.at += 1;
                    break;
                }
                Some(b'\\') => {
                    self.at += 1;
                    match self.peek() {
                        Some(b'`' | b'\\' | b'$') => {}
                        Some(b'"') if in_double => {}
                        _ => inside.push('\\'),
                    }
                    if self.peek().is_some() {
                        inside.push(self.take());
                    }
                }
                Some(_) => inside.push(self.take()),
            }
        }
        word.text.push_str(&self.text[start..self.at]);
        let Reading {
            segments,
            nested,
            trouble,
            ..
        } = read_nested(&inside, self.depth + 1);
        if let Some(trouble) = trouble {
            self.trouble(start, trouble.why);
        }
        let range = start..self.at;
        self.reading
            .nested
            .extend(segments.into_iter().chain(nested).map(|mut segment| {
                segment.range = range.clone();
                segment
            }));
    }

    /// Reads `$' '`.
    fn ansi(&mut self, word: &mut Word) {
        let start = self.at;
        word.quoted = true;
        word.expansions.dollar_quote = true;
        self.at += 2;
        loop {
            match self.peek() {
                None => return self.open_quote(start),
                Some(b'\'') => {
                    self.at += 1;
                    return;
                }
                Some(b'\\') => {
                    self.at += 1;
                    self.ansi_escape(word, start);
                }
                Some(_) => {
                    let taken = self.take();
                    word.text.push(taken);
                }
            }
        }
    }

    fn ansi_escape(&mut self, word: &mut Word, start: usize) {
        let Some(byte) = self.peek() else { return };
        let (radix, most) = match byte {
            b'x' => (16, 2),
            b'u' => (16, 4),
            b'U' => (16, 8),
            b'0'..=b'7' => (8, 3),
            _ => {
                let taken = self.take();
                match taken {
                    'n' => word.text.push('\n'),
                    't' => word.text.push('\t'),
                    '\\' | '\'' | '"' | '?' => word.text.push(taken),
                    _ => self.trouble(start, "an escape that is not known"),
                }
                return;
            }
        };
        if radix == 16 {
            self.at += 1;
        }
        let rest = &self.text[self.at..];
        let digits = rest
            .bytes()
            .take(most)
            .take_while(|digit| (*digit as char).is_digit(radix))
            .count();
        let code = u32::from_str_radix(&rest[..digits], radix).ok();
        self.at += digits;
        match code.and_then(char::from_u32) {
            Some(decoded) if !decoded.is_control() && (decoded.is_ascii() || byte == b'u') => {
                word.text.push(decoded);
            }
            _ => self.trouble(start, "an escape that is not known"),
        }
    }
}

fn is_name(name: &str) -> bool {
    name.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !name.is_empty()
}
