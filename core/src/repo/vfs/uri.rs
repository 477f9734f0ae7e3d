//! URIs of payloads, in all forms that versions of ContextChef write and models repeat.
//!
//! ```text
//! context://vfs/vfs_eff006930bcb6ee9.txt              since 3.7: the hash of the content
//! context://vfs/vfs_1772442000000_1a2b3c4d.txt        before: the time, and a shorter hash
//! context://archive/archive_eff006930bcb6ee9.txt      4.2: any name space, any path
//! .context_vfs/vfs_eff006930bcb6ee9.txt               where the file was, as markers say it
//! vfs_eff006930bcb6ee9.txt, eff006930bcb6ee9          what is left of one
//! ```
//!
//! All forms for one payload are the same [`VfsUri`]. The caller computes and checks the hashes of
//! contents in names: see [`VfsUri::of_digest`] and [`VfsUri::digest`].

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::OnceLock;

use regex::bytes::Regex;

use crate::error::{Error, Result};

/// The longest URI, in bytes.
pub(crate) const MAX_URI_BYTES: usize = 1024;

/// The number of hex digits of a SHA-256 that name a payload.
const NAME_DIGITS: usize = 16;

const SCHEME: &str = "context://";
const NAMESPACE: &str = "vfs";
const DIRECTORY: &str = ".context_vfs/";

/// The pattern of a citation: a URI, or the name of a file of offloaded output.
const CITATION: &str = r#"context://[A-Za-z0-9_.~-]+/[^\s"'`<>\\{}\[\]()|,;]+|vfs_[0-9a-f_]+\.txt"#;

/// Punctuation that may follow a URI in a sentence.
const PUNCTUATION: [char; 5] = ['.', ':', '!', '?', '*'];

/// The URI of a payload: `context://<name space>/<path>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VfsUri(String);

/// The first hex digits of a hash of the content, as found in the name of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameDigest<'a> {
    /// SHA-256, since 3.7: at least 16 digits.
    Sha256(&'a str),
    /// MD5, before.
    Md5(&'a str),
}

impl VfsUri {
    /// Returns the URI of a content from its digest, `context://vfs/vfs_<hex>.txt`. ContextChef
    /// uses the first 8 bytes of the SHA-256 since 3.7.
    #[must_use]
    pub fn of_digest(digest: &[u8]) -> Self {
        Self(format!("{SCHEME}{NAMESPACE}/vfs_{}.txt", hex(digest)))
    }

    /// Creates the URI of the entry `path` in a name space.
    ///
    /// # Errors
    /// `InvalidInput` for a name space or path that escapes its directory or has control
    /// characters, white space or a backslash; `LimitExceeded` over 1,024 bytes.
    pub fn new(namespace: &str, path: &str) -> Result<Self> {
        // A bare hash is an abbreviated name.
        let is_short = namespace == NAMESPACE && is_bare_hash(path);
        let path = if is_short { format!("vfs_{path}.txt") } else { path.to_owned() };
        let uri = format!("{SCHEME}{namespace}/{path}");
        if uri.len() > MAX_URI_BYTES {
            return Err(Error::limit("bytes of a URI", MAX_URI_BYTES as u64, uri.len() as u64));
        }
        let is_odd = |c: char| c.is_control() || c.is_whitespace() || c == '\\';
        let is_odd_part = |part: &str| matches!(part, "" | "." | "..");
        if uri.contains(is_odd) || is_odd_part(namespace) || path.split('/').any(is_odd_part) {
            return Err(expected(&uri));
        }
        Ok(Self(uri))
    }

    /// Returns the URI as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name space: `vfs`, `archive`.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.parts().0
    }

    /// Returns the path in the name space, which is the name of the file.
    #[must_use]
    pub fn path(&self) -> &str {
        self.parts().1
    }

    fn parts(&self) -> (&str, &str) {
        self.0.strip_prefix(SCHEME).and_then(|rest| rest.split_once('/')).unwrap_or_default()
    }

    /// Returns the creation time of a payload, in milliseconds since the Unix epoch, for names from
    /// before 3.7.
    #[must_use]
    pub fn created_millis(&self) -> Option<i64> {
        let (millis, hash) = legacy(self.path())?;
        is_hex(hash).then(|| millis.parse().ok()).flatten()
    }

    /// Returns the digits of the content's hash in the name, for names that have them.
    #[must_use]
    pub fn digest(&self) -> Option<NameDigest<'_>> {
        let path = self.path();
        match legacy(path) {
            Some((_, short)) if is_hex(short) => Some(NameDigest::Md5(short)),
            _ => stem(path)
                .filter(|hash| is_hex(hash) && hash.len() >= NAME_DIGITS)
                .map(NameDigest::Sha256),
        }
    }

    /// Returns the URIs that `text` may cite, with their places. Several for one place if a full
    /// stop may or may not belong to the URI.
    pub fn cited(text: &[u8]) -> impl Iterator<Item = (Self, Range<usize>)> + '_ {
        static PATTERN: OnceLock<Option<Regex>> = OnceLock::new();
        let pattern = PATTERN.get_or_init(|| Regex::new(CITATION).ok()).as_ref();
        let found = pattern.into_iter().flat_map(|pattern| pattern.find_iter(text));
        found.flat_map(|found| {
            let whole = String::from_utf8_lossy(found.as_bytes()).into_owned();
            let short = whole.trim_end_matches(PUNCTUATION).to_owned();
            let short = (short != whole).then_some(short);
            let forms = [Some(whole), short].into_iter().flatten();
            forms.filter_map(move |form| Some((form.parse().ok()?, found.range())))
        })
    }
}

impl fmt::Display for VfsUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for VfsUri {
    type Err = Error;

    /// Parses any of the forms above.
    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        if let Some(rest) = text.strip_prefix(SCHEME) {
            let (namespace, path) = rest.split_once('/').ok_or_else(|| expected(text))?;
            return Self::new(namespace, path);
        }
        if text.contains("://") {
            return Err(expected(text));
        }
        if is_bare_hash(text) {
            return Self::new(NAMESPACE, text);
        }
        let file = match text.rsplit_once(DIRECTORY) {
            Some((_, file)) => file,
            None => text.rsplit('/').next().unwrap_or(text),
        };
        if file.starts_with("vfs_") || text.contains(DIRECTORY) {
            return Self::new(NAMESPACE, file);
        }
        Err(expected(text))
    }
}

fn expected(found: &str) -> Error {
    let shown: String = found.chars().filter(|c| !c.is_control()).take(80).collect();
    Error::invalid(format!(
        "'{shown}' is not the URI of a payload: expected context://<name space>/<path>, such as context://vfs/vfs_0123456789abcdef.txt"
    ))
}

/// Returns the milliseconds and the hash of a name from before 3.7,
/// `vfs_<milliseconds>_<hash>.txt`.
fn legacy(name: &str) -> Option<(&str, &str)> {
    let (millis, hash) = name.strip_prefix("vfs_")?.strip_suffix(".txt")?.split_once('_')?;
    let digits = !millis.is_empty() && millis.bytes().all(|byte| byte.is_ascii_digit());
    digits.then_some((millis, hash))
}

/// Returns the part of a name between its last underscore and `.txt`.
fn stem(path: &str) -> Option<&str> {
    let name = path.rsplit('/').next()?.strip_suffix(".txt")?;
    name.rsplit_once('_').map(|(_, hash)| hash)
}

fn is_bare_hash(text: &str) -> bool {
    text.len() >= NAME_DIGITS && text.len() <= 64 && is_hex(text)
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn uri(text: &str) -> String {
        text.parse::<VfsUri>().map(|uri| uri.to_string()).unwrap_or_default()
    }

    #[test]
    fn every_form_of_a_payload_is_one_uri() {
        let whole = "context://vfs/vfs_eff006930bcb6ee9.txt";
        for form in [
            whole,
            " context://vfs/eff006930bcb6ee9\n",
            "/data/.context_vfs/vfs_eff006930bcb6ee9.txt",
            "out/.context_vfs/vfs_eff006930bcb6ee9.txt",
            "out/.context_vfs/eff006930bcb6ee9",
            "vfs_eff006930bcb6ee9.txt",
            "eff006930bcb6ee9",
        ] {
            assert_eq!(uri(form), whole, "{form}");
        }
        let legacy = "context://vfs/vfs_1772442000000_5d41402a.txt";
        assert_eq!(uri("vfs_1772442000000_5d41402a.txt"), legacy);
        let legacy: VfsUri = legacy.parse().unwrap();
        assert_eq!(legacy.created_millis(), Some(1_772_442_000_000));
        assert_eq!(legacy.digest(), Some(NameDigest::Md5("5d41402a")));
        assert_eq!(uri("context://archive/a/b.txt"), "context://archive/a/b.txt");
    }

    #[test]
    fn what_leads_elsewhere_is_refused_with_what_was_expected() {
        for text in [
            "",
            "vfs",
            "http://vfs/x",
            "context://vfs",
            "context://vfs/",
            "context:///x",
            "context://../x",
            "context://vfs/../x",
            "context://vfs/a//b",
            "context://vfs/a\\b",
            "context://vfs/a b",
            "eff006930bcb6ee",
            "/etc/passwd",
            "context://vfs/\u{1}",
        ] {
            assert_eq!(uri(text), "", "{text:?}");
        }
        let error = "x".parse::<VfsUri>().unwrap_err();
        assert!(error.to_string().contains("expected context://"), "{error}");
        let long = format!("context://vfs/{}", "x".repeat(MAX_URI_BYTES));
        assert_eq!(long.parse::<VfsUri>().unwrap_err().kind(), crate::ErrorKind::LimitExceeded);
    }

    #[test]
    fn a_name_by_digest_says_its_digits() {
        let uri = VfsUri::of_digest(&[0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea]);
        assert_eq!(uri.as_str(), "context://vfs/vfs_ba7816bf8f01cfea.txt");
        assert_eq!(uri.digest(), Some(NameDigest::Sha256("ba7816bf8f01cfea")));
        let note: VfsUri = "context://notes/plan".parse().unwrap();
        assert_eq!((note.digest(), note.namespace(), note.path()), (None, "notes", "plan"));
    }

    #[test]
    fn citations_are_found_in_records_and_sentences() {
        let text = br#"{"content":"Full output: context://vfs/vfs_00.txt\nsee (context://archive/a.txt). And \"context://x/y\", /d/.context_vfs/vfs_11_22.txt"}"#;
        let found: Vec<String> = VfsUri::cited(text).map(|(uri, _)| uri.to_string()).collect();
        assert_eq!(
            found,
            [
                "context://vfs/vfs_00.txt",
                "context://archive/a.txt",
                "context://x/y",
                "context://vfs/vfs_11_22.txt"
            ]
        );
        let end: Vec<_> = VfsUri::cited(b"at context://x/y.").map(|(uri, _)| uri.0).collect();
        assert_eq!(end, ["context://x/y.", "context://x/y"]);
    }

    turntree_properties::properties! {
        #[test]
        fn what_parses_is_written_as_it_reads(text in r"(context://|vfs|/|\.|_|[0-9a-f]{1,16}|\.txt|\\|é| ){0,8}") {
            if let Ok(uri) = text.parse::<VfsUri>() {
                let again: Option<VfsUri> = uri.as_str().parse().ok();
                prop_assert_eq!(again.as_ref(), Some(&uri));
                prop_assert!(!uri.path().split('/').any(|part| part == ".."));
            }
        }
    }
}
