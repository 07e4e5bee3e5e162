//! One word: quotes, escapes, and what the shell would expand in it.

use super::Word;
use super::reader::Reader;

impl Reader<'_> {
    /// Reads a word that begins here. It takes at least one character.
    pub(super) fn word(&mut self) -> Word {
        let mut word = Word {
            range: self.at..self.at,
            ..Word::default()
        };
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' => break,
                b'<' | b'>' if self.peek_at(1) == Some(b'(') => self.substitution(&mut word, 2),
                b'<' | b'>' => break,
                b'\\' => self.escape(&mut word),
                b'\'' => self.single(&mut word),
                b'"' => self.double(&mut word),
                b'$' => self.dollar(&mut word, false),
                b'`' => self.backquotes(&mut word, false),
                _ => self.plain(&mut word),
            }
        }
        word.range.end = self.at;
        self.look_back(&mut word);
        word
    }

    fn plain(&mut self, word: &mut Word) {
        let taken = self.take();
        match taken {
            '*' | '?' | '[' => word.expansions.glob = true,
            '{' => word.expansions.brace = true,
            '~' if self.tilde_expands(word) => word.expansions.tilde = true,
            _ => {}
        }
        word.text.push(taken);
    }

    /// Whether the tilde that was just taken stands where it would be expanded.
    fn tilde_expands(&self, word: &Word) -> bool {
        let before = &self.text[word.range.start..self.at - 1];
        before.is_empty() || before.ends_with(['=', ':'])
    }

    fn escape(&mut self, word: &mut Word) {
        self.at += 1;
        match self.peek() {
            None => self.trouble(self.at - 1, "a backslash at the end"),
            Some(b'\n') => self.at += 1,
            Some(_) => {
                word.quoted = true;
                let taken = self.take();
                word.text.push(taken);
            }
        }
    }

    fn single(&mut self, word: &mut Word) {
        let start = self.at;
        let rest = &self.text[start + 1..];
        word.quoted = true;
        match rest.find('\'') {
            Some(end) => {
                word.text.push_str(&rest[..end]);
                self.at = start + 1 + end + 1;
            }
            None => self.open_quote(start),
        }
    }

    pub(super) fn open_quote(&mut self, start: usize) {
        self.trouble(start, "a quote that is not closed");
        self.stop();
    }

    pub(super) fn double(&mut self, word: &mut Word) {
        let start = self.at;
        self.at += 1;
        word.quoted = true;
        loop {
            match self.peek() {
                None => return self.open_quote(start),
                Some(b'"') => {
                    self.at += 1;
                    return;
                }
                Some(b'\\') => self.escape_in_double(word),
                Some(b'$') => self.dollar(word, true),
                Some(b'`') => self.backquotes(word, true),
                Some(_) => {
                    let taken = self.take();
                    word.text.push(taken);
                }
            }
        }
    }

    fn escape_in_double(&mut self, word: &mut Word) {
        self.at += 1;
        match self.peek() {
            Some(b'\n') => self.at += 1,
            Some(b'$' | b'`' | b'"' | b'\\') => {
                let taken = self.take();
                word.text.push(taken);
            }
            _ => word.text.push('\\'),
        }
    }

    /// What shows only when the whole word is known.
    fn look_back(&self, word: &mut Word) {
        let raw = &self.text[word.range.clone()];
        if raw == "[" {
            word.expansions.glob = false;
        }
        // Quotes between the braces are not looked at: rather ask once too often.
        if word.expansions.brace {
            let inside = raw.split_once('{').map_or("", |(_, inside)| inside);
            let separated = inside.contains(',') || inside.contains("..");
            word.expansions.brace = separated && inside.contains('}');
        }
    }
}
