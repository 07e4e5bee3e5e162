//! Keys as they are pressed. The terminal is as it was before once this is dropped, whatever the reason.

use std::sync::mpsc as threads;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::stdio::stdin;
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr,
    tcsetattr,
};
use tokio::sync::mpsc;

use crate::platform::Key;

/// What stands for "no such key" in a terminal's settings.
const DISABLED: u8 = if cfg!(target_os = "linux") { 0 } else { 0xff };

const ESCAPE: u8 = 0x1b;

/// How long the rest of a key may take that begins like Escape.
const REST: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 25_000_000,
};

const AT_ONCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// The keyboard of the terminal that standard input is.
pub(crate) struct Keyboard {
    watch: Watch,
    before: Termios,
    /// What was typed and not taken yet.
    bytes: Vec<u8>,
}

impl Keyboard {
    /// Takes it; nothing where standard input is no terminal.
    pub(crate) fn open() -> Option<Self> {
        let before = tcgetattr(stdin()).ok()?;
        let keyboard = Self {
            watch: Watch::begin()?,
            before,
            bytes: Vec::new(),
        };
        keyboard.take();
        Some(keyboard)
    }

    /// Keys come one by one and are not shown. Ctrl-C is still a signal; Ctrl-Z is nothing.
    pub(crate) fn take(&self) {
        let mut modes = self.before.clone();
        modes
            .local_modes
            .remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::IEXTEN);
        modes.special_codes[SpecialCodeIndex::VMIN] = 1;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        modes.special_codes[SpecialCodeIndex::VSUSP] = DISABLED;
        let _ = tcsetattr(stdin(), OptionalActions::Now, &modes);
    }

    /// Leaves the terminal as it was, for somebody else or for good.
    pub(crate) fn give_back(&self) {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }

    /// Forgets what was typed so far: it was meant for what was there before.
    pub(crate) fn forget(&mut self) {
        self.bytes.clear();
        let _ = tcflush(stdin(), QueueSelector::IFlush);
    }

    /// Whether more was typed than was taken: pasted, most likely.
    pub(crate) fn has_more(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// The next key; nothing once the terminal is gone.
    pub(crate) async fn key(&mut self) -> Option<Key> {
        loop {
            if let Some(key) = next_key(&mut self.bytes) {
                return Some(key);
            }
            self.watch.something_typed().await?;
            // Somebody else may have read it: an editor, for example.
            if !has_input(&AT_ONCE) {
                continue;
            }
            read(&mut self.bytes)?;
            if self.bytes.ends_with(&[ESCAPE]) && has_input(&REST) {
                read(&mut self.bytes)?;
            }
        }
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// A thread that sees when something is typed, and leaves it where it is. Nobody waits for it: it sleeps until a key is
/// pressed or the process ends.
struct Watch {
    look: threads::Sender<()>,
    seen: mpsc::UnboundedReceiver<()>,
    is_looking: bool,
}

impl Watch {
    fn begin() -> Option<Self> {
        let (look, asked) = threads::channel::<()>();
        let (tell, seen) = mpsc::unbounded_channel();
        let watching = move || {
            while asked.recv().is_ok() {
                let stdin = stdin();
                let mut watched = [PollFd::new(&stdin, PollFlags::IN)];
                let _ = poll(&mut watched, None);
                if tell.send(()).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().spawn(watching).ok()?;
        Some(Self {
            look,
            seen,
            is_looking: false,
        })
    }

    /// Waits until there is something to read. Whoever stops waiting may begin again.
    async fn something_typed(&mut self) -> Option<()> {
        if !self.is_looking {
            self.look.send(()).ok()?;
            self.is_looking = true;
        }
        let seen = self.seen.recv().await;
        self.is_looking = false;
        seen
    }
}

fn has_input(within: &Timespec) -> bool {
    let stdin = stdin();
    let mut watched = [PollFd::new(&stdin, PollFlags::IN)];
    poll(&mut watched, Some(within)).is_ok_and(|ready| ready > 0)
}

fn read(bytes: &mut Vec<u8>) -> Option<()> {
    let mut buffer = [0; 256];
    match rustix::io::read(stdin(), &mut buffer) {
        Ok(0) => None,
        Ok(count) => {
            bytes.extend_from_slice(&buffer[..count]);
            Some(())
        }
        Err(Errno::INTR | Errno::AGAIN) => Some(()),
        Err(_) => None,
    }
}

/// Takes the first key from what was typed; nothing while it is not whole.
fn next_key(bytes: &mut Vec<u8>) -> Option<Key> {
    let (key, length) = match *bytes.first()? {
        b'\r' | b'\n' => (Key::Enter, 1),
        0x7f | 0x08 => (Key::Backspace, 1),
        0x04 => (Key::End, 1),
        // Arrows and their like: their letters are not meant as letters.
        ESCAPE => match bytes.get(1) {
            None => (Key::Escape, 1),
            Some(b'[') => {
                let last = bytes[2..]
                    .iter()
                    .position(|byte| (0x40..=0x7e).contains(byte));
                (Key::Other, last.map_or(bytes.len(), |last| last + 3))
            }
            Some(b'O') => (Key::Other, bytes.len().min(3)),
            Some(_) => (Key::Other, 2),
        },
        0x00..0x20 => (Key::Other, 1),
        first => {
            let length = match first {
                0xf0.. => 4,
                0xe0.. => 3,
                0xc0.. => 2,
                _ => 1,
            };
            let letter = bytes.get(..length)?;
            let letter = std::str::from_utf8(letter)
                .ok()
                .and_then(|text| text.chars().next());
            (letter.map_or(Key::Other, Key::Letter), length)
        }
    };
    bytes.drain(..length);
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(typed: &str) -> Vec<Key> {
        let mut bytes = typed.as_bytes().to_vec();
        std::iter::from_fn(|| next_key(&mut bytes)).collect()
    }

    #[test]
    fn arrows_are_no_letters() {
        assert_eq!(keys("aA"), [Key::Letter('a'), Key::Letter('A')]);
        assert_eq!(keys("\u{1b}[A"), [Key::Other]);
        assert_eq!(keys("\u{1b}OD"), [Key::Other]);
        assert_eq!(keys("\u{1b}[1;5Ad"), [Key::Other, Key::Letter('d')]);
        assert_eq!(keys("\u{1b}"), [Key::Escape]);
        assert_eq!(keys("\u{4}"), [Key::End]);
        assert_eq!(keys("\u{1b}A"), [Key::Other]);
        assert_eq!(
            keys("é\u{7f}\n"),
            [Key::Letter('é'), Key::Backspace, Key::Enter]
        );
    }

    #[test]
    fn half_a_letter_waits_for_the_rest() {
        let mut bytes = vec![0xc3];
        assert_eq!(next_key(&mut bytes), None);
        bytes.push(0xa9);
        assert_eq!(next_key(&mut bytes), Some(Key::Letter('é')));
    }
}
