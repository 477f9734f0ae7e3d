//! The one error type of the library: what kind, where, and what was expected.
//!
//! Rules that every layer keeps:
//! - The message names the thing (file and offset, id, ref, line and column) and what was expected;
//!   it starts in lower case, has no final period, and does not repeat its source.
//! - The kind is for programs: it decides the exit code and whether a retry makes sense.
//! - Bytes from disk or from others end in [`ErrorKind::Corrupt`] or [`ErrorKind::InvalidInput`],
//!   never in a panic.

use std::error::Error as StdError;
use std::fmt;

/// Result of every fallible function of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The named object, ref, path or store does not exist.
    NotFound,
    /// The snapshot existed and was dropped by retention.
    Expired,
    /// The content existed and was erased on purpose.
    Redacted,
    /// An abbreviation names more than one thing.
    Ambiguous,
    /// A ref was not at its expected value: somebody else was faster. Retry from the new value.
    Conflict,
    /// Stored bytes do not verify.
    Corrupt,
    /// Another process holds what is needed.
    Locked,
    /// A newer format, an unknown feature, or an operation this build cannot do.
    Unsupported,
    /// A stated limit would be exceeded.
    LimitExceeded,
    /// Arguments or input bytes are not what the format or function asks for.
    InvalidInput,
    /// A store is encrypted, and its key was not given, or another one.
    Encrypted,
    /// The operating system refused.
    Io,
}

impl ErrorKind {
    /// Returns its name, in lower case: the same for every program that hears of it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NotFound => "not-found",
            Self::Expired => "expired",
            Self::Redacted => "redacted",
            Self::Ambiguous => "ambiguous",
            Self::Conflict => "conflict",
            Self::Corrupt => "corrupt",
            Self::Locked => "locked",
            Self::Unsupported => "unsupported",
            Self::LimitExceeded => "limit-exceeded",
            Self::InvalidInput => "invalid-input",
            Self::Encrypted => "encrypted",
            Self::Io => "io",
        }
    }
}

/// An error with its kind, its place, and what caused it.
#[derive(Debug)]
pub struct Error {
    inner: Box<Inner>,
}

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    /// True if an object is missing that others refer to.
    is_missing_object: bool,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of `kind` that says `message`.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let (message, is_missing_object) = (message.into(), false);
        Self { inner: Box::new(Inner { kind, is_missing_object, message, source: None }) }
    }

    /// [`ErrorKind::NotFound`].
    #[must_use]
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// [`ErrorKind::NotFound`]: an object that others refer to is in no file of the store. The store
    /// refuses commits with such links, so a repair has left it behind, or the reader used a wrong id.
    #[must_use]
    pub fn missing_object(message: impl Into<String>) -> Self {
        let mut error = Self::not_found(message);
        error.inner.is_missing_object = true;
        error
    }

    /// [`ErrorKind::Corrupt`]: `place` (file and offset, or id) holds `found` where `expected` belongs.
    #[must_use]
    pub fn corrupt(
        place: impl fmt::Display,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Self {
        Self::new(ErrorKind::Corrupt, format!("{place}: expected {expected}, found {found}"))
    }

    /// [`ErrorKind::Corrupt`]: bytes at `place` that are not what was expected, where what was found
    /// instead has no short name.
    #[must_use]
    pub fn malformed(place: impl fmt::Display, expected: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Corrupt, format!("{place}: expected {expected}"))
    }

    /// [`ErrorKind::InvalidInput`].
    #[must_use]
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// [`ErrorKind::LimitExceeded`]: `what` is limited to `limit`.
    #[must_use]
    pub fn limit(what: impl fmt::Display, limit: u64, found: u64) -> Self {
        Self::new(ErrorKind::LimitExceeded, format!("{what}: {found} is over the limit of {limit}"))
    }

    /// [`ErrorKind::Io`]: the system call behind `action` failed.
    #[must_use]
    pub fn io(action: impl Into<String>, source: std::io::Error) -> Self {
        Self::new(ErrorKind::Io, action).with_source(source)
    }

    /// The same error with its cause attached.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.inner.source = Some(source.into());
        self
    }

    /// Returns true if what was asked for is not there or is not what was written: a loss, where it
    /// must be there.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        matches!(self.kind(), ErrorKind::NotFound | ErrorKind::Corrupt)
    }

    /// Returns true if stored data is damaged or missing, as opposed to a name that leads nowhere.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        self.kind() == ErrorKind::Corrupt || self.inner.is_missing_object
    }

    /// The same error, its message led by the place where it happened.
    #[must_use]
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        self.inner.message = format!("{place}: {}", self.inner.message);
        self
    }

    /// What went wrong, for programs.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// What went wrong, for people; the sources are not repeated in it.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// The message and those of all causes, on one line.
    #[must_use]
    pub fn with_causes(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.inner.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.inner.source.as_ref().map(|source| &**source as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_word_and_names_its_place() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
        let error = Error::corrupt("journal/a.seg at 64", "batch magic", "zeros").at("store");
        assert_eq!(
            error.to_string(),
            "store: journal/a.seg at 64: expected batch magic, found zeros"
        );
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn a_source_is_kept_beside_the_message() {
        let error = Error::io("open superblock", std::io::Error::other("disk on fire"));
        assert_eq!(error.to_string(), "open superblock");
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("disk on fire"));
        let outer = Error::not_found("no store").with_source(error);
        assert_eq!(outer.with_causes(), "no store: open superblock: disk on fire");
    }

    #[test]
    fn a_kind_has_the_name_that_programs_know() {
        assert_eq!(ErrorKind::NotFound.name(), "not-found");
        assert_eq!(ErrorKind::Expired.name(), "expired");
        assert_eq!(ErrorKind::LimitExceeded.name(), "limit-exceeded");
        assert_eq!(ErrorKind::Io.name(), "io");
    }
}
