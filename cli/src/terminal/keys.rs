//! Parses the bytes that a terminal sends into keys.
//!
//! The escape key sends one byte, which is also the first byte of an arrow key. So an escape waits
//! a moment for more bytes; the caller decides when that moment is over. An unknown sequence is one
//! key that does nothing.

/// Longest sequence of bytes for one key.
const LONGEST: usize = 32;

const ESCAPE: u8 = 0x1b;

/// A pressed key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Enter,
    Escape,
    Backspace,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    /// Control and a letter.
    Control(char),
    /// Anything else.
    Unknown,
}

/// A parser of keys, with the bytes of an incomplete key.
#[derive(Debug, Default)]
pub(super) struct Keys {
    pending: Vec<u8>,
}

impl Keys {
    /// Adds bytes, and returns the complete keys.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.pending.extend_from_slice(bytes);
        let mut keys = Vec::new();
        while let Some(end) = end_of_key(&self.pending) {
            let rest = self.pending.split_off(end);
            keys.push(key(&self.pending));
            self.pending = rest;
        }
        keys
    }

    /// Returns true if a key is incomplete.
    pub(super) fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Ends the wait for more bytes: parses the pending bytes as they are.
    pub(super) fn settle(&mut self) -> Vec<Key> {
        let pending = std::mem::take(&mut self.pending);
        match pending.split_first() {
            None => Vec::new(),
            Some((&ESCAPE, rest)) => {
                let mut keys = vec![Key::Escape];
                keys.extend(self.take(rest));
                self.pending.clear();
                keys
            }
            Some(_) => vec![Key::Unknown],
        }
    }
}

/// Returns the number of bytes of the first key, if it is complete.
fn end_of_key(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [] | [ESCAPE] => None,
        [ESCAPE, b'[', rest @ ..] => {
            let is_end = |byte: &u8| (0x40..=0x7e).contains(byte);
            // The function keys of a Linux console have a second bracket.
            let skip = usize::from(rest.first() == Some(&b'['));
            let end = rest.iter().skip(skip).position(is_end).map(|at| at + skip + 3);
            end.or((bytes.len() >= LONGEST).then_some(bytes.len()))
        }
        [ESCAPE, b'O', rest @ ..] => (!rest.is_empty()).then_some(3),
        // Escape, followed by another key.
        [ESCAPE, ..] => Some(1),
        [first, ..] => {
            let length = match first {
                0xc2..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xf4 => 4,
                _ => 1,
            };
            (bytes.len() >= length).then_some(length)
        }
    }
}

/// The key of a complete sequence.
fn key(bytes: &[u8]) -> Key {
    match bytes {
        [ESCAPE] => Key::Escape,
        [b'\r' | b'\n'] => Key::Enter,
        [0x7f | 0x08] => Key::Backspace,
        [byte @ 1..=26] => Key::Control(char::from(byte - 1 + b'a')),
        [ESCAPE, b'[', middle @ .., end] => {
            let number: Vec<u8> = middle.iter().copied().take_while(u8::is_ascii_digit).collect();
            match (end, number.as_slice()) {
                (b'~', b"1" | b"7") => Key::Home,
                (b'~', b"4" | b"8") => Key::End,
                (b'~', b"5") => Key::PageUp,
                (b'~', b"6") => Key::PageDown,
                (b'~', _) => Key::Unknown,
                _ => arrow(*end),
            }
        }
        [ESCAPE, b'O', end] => arrow(*end),
        bytes => match std::str::from_utf8(bytes).ok().and_then(|text| text.chars().next()) {
            Some(c) if !c.is_control() => Key::Char(c),
            _ => Key::Unknown,
        },
    }
}

fn arrow(end: u8) -> Key {
    match end {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'H' => Key::Home,
        b'F' => Key::End,
        _ => Key::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        let mut keys = Keys::default();
        let mut found = keys.take(bytes);
        found.extend(keys.settle());
        found
    }

    #[test]
    fn keys_are_what_terminals_send_for_them() {
        for (bytes, expected) in [
            (&b"j"[..], Key::Char('j')),
            ("修".as_bytes(), Key::Char('修')),
            (b"\r", Key::Enter),
            (b"\x1b", Key::Escape),
            (b"\x7f", Key::Backspace),
            (b"\x03", Key::Control('c')),
            (b"\x1b[A", Key::Up),
            (b"\x1bOB", Key::Down),
            (b"\x1b[1;5A", Key::Up),
            (b"\x1b[5~", Key::PageUp),
            (b"\x1b[6~", Key::PageDown),
            (b"\x1b[H", Key::Home),
            (b"\x1bOF", Key::End),
            (b"\x1b[1~", Key::Home),
            (b"\x1b[4~", Key::End),
            (b"\x1b[[A", Key::Up),
            (b"\x1b[200~", Key::Unknown),
            (b"\xff", Key::Unknown),
        ] {
            assert_eq!(keys(bytes), [expected], "{bytes:?}");
        }
    }

    #[test]
    fn an_arrow_that_comes_in_parts_is_an_arrow_and_an_escape_alone_is_one() {
        let mut parts = Keys::default();
        assert_eq!(parts.take(b"\x1b"), []);
        assert!(parts.is_waiting());
        assert_eq!(parts.take(b"["), []);
        assert_eq!(parts.take(b"Bq"), [Key::Down, Key::Char('q')]);
        assert_eq!(parts.take(b"\x1bj"), [Key::Escape, Key::Char('j')]);
        assert_eq!(parts.take(b"\x1b"), []);
        assert_eq!(parts.settle(), [Key::Escape]);
        assert!(!parts.is_waiting());
        assert_eq!(keys(b"\x1b\x1b"), [Key::Escape, Key::Escape]);
        assert_eq!(keys(b"\x1b["), [Key::Escape, Key::Char('[')]);
    }

    turntree_properties::properties! {
        #[test]
        fn bytes_never_pile_up(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let mut keys = Keys::default();
            for part in bytes.chunks(7) {
                keys.take(part);
                proptest::prop_assert!(keys.pending.len() < LONGEST);
            }
            keys.settle();
            proptest::prop_assert!(!keys.is_waiting());
        }
    }
}
