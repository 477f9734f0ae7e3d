//! The rules for names of files, of each kind of system. Pure, so that all of them are tested
//! everywhere.

/// Names of devices of Windows, with any extension.
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];

/// Numbered devices, from 0 to 9.
const PORTS: [&str; 2] = ["com", "lpt"];

/// The superscript digits, which Windows takes for digits here.
const SUPERSCRIPTS: [char; 3] = ['\u{b9}', '\u{b2}', '\u{b3}'];

/// The rules for names of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRules {
    /// Every name without `/` and the zero byte.
    Unix,
    /// Not the names of devices, no trailing dots and spaces, and no character that Windows gives a
    /// meaning.
    Windows,
}

impl NameRules {
    /// Returns true if these rules refuse a character in a name.
    #[must_use]
    pub const fn refuses_char(self, c: char) -> bool {
        match self {
            Self::Unix => matches!(c, '\0' | '/'),
            Self::Windows => {
                matches!(c, '\0'..='\x1f' | '/' | '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|')
            }
        }
    }

    /// Returns true if these rules refuse a name that has no refused character: it is a device, or
    /// the system would drop its end.
    #[must_use]
    pub fn refuses_whole(self, name: &str) -> bool {
        match self {
            Self::Unix => false,
            Self::Windows => name.ends_with(['.', ' ']) || is_device(name),
        }
    }
}

/// Returns true for the name of a device of Windows, such as `CON` or `aux.txt`.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_lowercase();
    let is_digit = |c: char| c.is_ascii_digit() || SUPERSCRIPTS.contains(&c);
    let is_port = |port: &&str| {
        let mut rest = stem.strip_prefix(*port).unwrap_or_default().chars();
        rest.next().is_some_and(is_digit) && rest.next().is_none()
    };
    DEVICES.contains(&&*stem) || PORTS.iter().any(is_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_refuses_devices_ends_and_characters_that_unix_takes() {
        for name in [
            "CON",
            "aux.txt",
            "nul.tar.gz",
            "COM1",
            "lpt9.log",
            "com\u{b2}",
            "dot.",
            "space ",
            "con .",
        ] {
            assert!(NameRules::Windows.refuses_whole(name), "{name}");
            assert!(!NameRules::Unix.refuses_whole(name), "{name}");
        }
        for name in ["console", "com", "com10", "auxiliary.c", ".con", "a.b", "lpt", " x", "comx"] {
            assert!(!NameRules::Windows.refuses_whole(name), "{name}");
        }
        for c in ['\\', ':', '*', '\n'] {
            assert!(
                NameRules::Windows.refuses_char(c) && !NameRules::Unix.refuses_char(c),
                "{c:?}"
            );
        }
        assert!(NameRules::Unix.refuses_char('/') && NameRules::Windows.refuses_char('\0'));
    }
}
