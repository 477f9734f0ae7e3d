//! The error type of the library: kind, place, and the expected value.
//!
//! Rules that every layer keeps:
//! - The message names the thing (file and offset, id, ref, line and column) and the expected
//!   value; it starts in lower case, has no final period, and does not repeat its source.
//! - The kind is for programs: it decides the exit code and whether a retry makes sense.
//! - Bad bytes from disk or from other users give [`ErrorKind::Corrupt`] or
//!   [`ErrorKind::InvalidInput`], never a panic.

use std::error::Error as StdError;
use std::fmt;

/// The result of every fallible function of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an error, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The named object, ref, path or store does not exist.
    NotFound,
    /// The snapshot existed and was elided by retention.
    Expired,
    /// The content existed and was erased on purpose.
    Redacted,
    /// An abbreviation names more than one thing.
    Ambiguous,
    /// A ref did not have its expected value: another writer changed it first. Retry from the new
    /// value.
    Conflict,
    /// Stored bytes do not verify.
    Corrupt,
    /// Another process holds the lock.
    Locked,
    /// A newer format, an unknown feature, or an operation this build cannot do.
    Unsupported,
    /// A stated limit would be exceeded.
    LimitExceeded,
    /// Arguments or input bytes do not match the format, or the contract of the function.
    InvalidInput,
    /// A store is encrypted, and its key is missing or wrong.
    Encrypted,
    /// The operating system returned an error.
    Io,
}

impl ErrorKind {
    /// Returns the stable lower-case name of the kind, for programs.
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

/// An error with its kind, message and cause.
#[derive(Debug)]
pub struct Error {
    inner: Box<Inner>,
}

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    /// True if an object is missing and other objects reference it.
    is_missing_object: bool,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// Returns an error of this kind with this message.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let (message, is_missing_object) = (message.into(), false);
        Self { inner: Box::new(Inner { kind, is_missing_object, message, source: None }) }
    }

    /// Returns an [`ErrorKind::NotFound`] error.
    #[must_use]
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// Returns an [`ErrorKind::NotFound`] error for an object that other objects reference and no
    /// file of the store has. The store refuses commits with such links, so a repair accepted the
    /// loss, or the reader used a wrong id.
    #[must_use]
    pub fn missing_object(message: impl Into<String>) -> Self {
        let mut error = Self::not_found(message);
        error.inner.is_missing_object = true;
        error
    }

    /// Returns an [`ErrorKind::Corrupt`] error: `place` (file and offset, or id) has `found`
    /// instead of `expected`.
    #[must_use]
    pub fn corrupt(
        place: impl fmt::Display,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Self {
        Self::new(ErrorKind::Corrupt, format!("{place}: expected {expected}, found {found}"))
    }

    /// Returns an [`ErrorKind::Corrupt`] error: the bytes at `place` are not `expected`, and have
    /// no short description.
    #[must_use]
    pub fn malformed(place: impl fmt::Display, expected: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Corrupt, format!("{place}: expected {expected}"))
    }

    /// Returns an [`ErrorKind::InvalidInput`] error.
    #[must_use]
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// Returns an [`ErrorKind::LimitExceeded`] error: `what` is limited to `limit`.
    #[must_use]
    pub fn limit(what: impl fmt::Display, limit: u64, found: u64) -> Self {
        Self::new(ErrorKind::LimitExceeded, format!("{what}: {found} is over the limit of {limit}"))
    }

    /// Returns an [`ErrorKind::Io`] error: the system call of `action` failed.
    #[must_use]
    pub fn io(action: impl Into<String>, source: std::io::Error) -> Self {
        Self::new(ErrorKind::Io, action).with_source(source)
    }

    /// Attaches a cause to the error.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.inner.source = Some(source.into());
        self
    }

    /// Returns true if an object is missing or does not verify. This is a loss if the object must
    /// exist.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        matches!(self.kind(), ErrorKind::NotFound | ErrorKind::Corrupt)
    }

    /// Returns true if stored data is damaged or missing. An unknown name is not damage.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        self.kind() == ErrorKind::Corrupt || self.inner.is_missing_object
    }

    /// Prefixes the message with the place of the error.
    #[must_use]
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        self.inner.message = format!("{place}: {}", self.inner.message);
        self
    }

    /// Returns the kind of the error, for programs.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// Returns the message, for people. It does not include the causes.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// Returns the message and those of all causes, on one line.
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
