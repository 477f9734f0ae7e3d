//! Failures as people and programs see them: messages, hints, exit codes.

use std::error::Error as _;
use std::io;

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use turntree::repo::{Availability, AvailableTurn};
use turntree::{Error, ErrorKind};

use crate::view::advice::Advice;
use crate::view::json;
use crate::view::output::{is_reader_gone, stderr_line};

/// Maximum characters of a message in JSON.
const MESSAGE_CHARS: usize = 2000;

/// The name of an unavailable turn in open-codesign, and so in `--json`.
pub(crate) const SNAPSHOT_EXPIRED: &str = "snapshot_expired";

/// The exit code of the program. The numbers are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done.
    Success = 0,
    /// Done, and the answer is no: differences with `--exit-code`.
    Negative = 1,
    /// The arguments or the input are not valid for the command.
    Usage = 2,
    /// Another process committed first; the same command may work now.
    Conflict = 3,
    /// Stored bytes are damaged.
    Corrupt = 4,
    /// Another process holds a lock or a file.
    Locked = 5,
    /// The object that was named does not exist, was dropped by retention, or was redacted.
    NotFound = 6,
    /// A request differed from the recording of a replay, and was refused.
    Differs = 7,
    /// The system refused, or turntree has a bug.
    Internal = 70,
}

/// The answer of a successful command, besides its output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// No further answer.
    Yes,
    /// The answer is no.
    No,
    /// A replay met a difference, which was refused.
    Differs,
}

impl From<Answer> for Exit {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Yes => Self::Success,
            Answer::No => Self::Negative,
            Answer::Differs => Self::Differs,
        }
    }
}

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error of the library or the arguments.
    Library {
        /// The error.
        error: Error,
        /// Advice on it.
        hint: Option<Advice>,
        /// Its name in `--json` if another system has a name for it; otherwise the name of its kind
        /// is used.
        name: Option<&'static str>,
    },
    /// Writing to stdout failed.
    Output(io::Error),
}

/// The result of all fallible functions in this crate.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Library { error, hint: None, name: None }
    }
}

/// Only writing to stdout is converted by `?`; other I/O errors name their file and become
/// [`Error`].
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Adds a hint to an error.
pub(crate) trait Hint<T> {
    /// Adds advice to an error of `kind`.
    fn hint(self, kind: ErrorKind, hint: impl Into<Advice>) -> Result<T>;

    /// Adds advice to an error about damaged or missing data.
    fn hint_damage(self, hint: impl Into<Advice>) -> Result<T>;
}

impl<T, E: Into<Failure>> Hint<T> for Result<T, E> {
    fn hint(self, kind: ErrorKind, hint: impl Into<Advice>) -> Result<T> {
        self.map_err(|failure| failure.into().hinted_if(|error| error.kind() == kind, hint))
    }

    fn hint_damage(self, hint: impl Into<Advice>) -> Result<T> {
        self.map_err(|failure| failure.into().hinted_if(Error::is_damage, hint))
    }
}

/// An error as one JSON object on stderr.
#[derive(Serialize)]
struct ErrorRecord<'a> {
    error: &'a str,
    message: &'a str,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    /// The turns of a session that are available after one expired.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    left: Option<&'a Left>,
}

/// The turns of a session that are available after retention.
#[derive(Serialize)]
struct Left {
    oldest_available: Option<json::AvailableTurn>,
    pinned: Vec<json::AvailableTurn>,
    /// The oldest of all, in open-codesign's form.
    #[serde(rename = "oldestAvailable")]
    oldest: Option<u64>,
    /// True if that one is pinned.
    #[serde(rename = "oldestAvailablePinned")]
    is_pinned: bool,
}

impl From<&Availability> for Left {
    fn from(available: &Availability) -> Self {
        let record =
            |turn: &AvailableTurn| json::AvailableTurn { turn: turn.turn, id: turn.id.to_string() };
        let (unpinned, pinned) = (available.oldest, available.pinned.first());
        let oldest = unpinned.iter().chain(pinned).min();
        Self {
            oldest: oldest.map(|turn| turn.turn),
            is_pinned: oldest.is_some() && oldest == pinned,
            oldest_available: available.oldest.as_ref().map(record),
            pinned: available.pinned.iter().map(record).collect(),
        }
    }
}

impl Failure {
    /// An error with advice.
    pub(crate) fn hinted(error: Error, hint: impl Into<Advice>) -> Self {
        Self::Library { error, hint: Some(hint.into()), name: None }
    }

    /// Adds a hint if there is none and `applies` is true for the error.
    fn hinted_if(self, applies: impl Fn(&Error) -> bool, hint: impl Into<Advice>) -> Self {
        match self {
            Self::Library { error, hint: None, name } if applies(&error) => {
                Self::Library { error, hint: Some(hint.into()), name }
            }
            failure => failure,
        }
    }

    /// Sets the name of the error in `--json`.
    pub(crate) fn named(self, name: &'static str) -> Self {
        match self {
            Self::Library { error, hint, .. } => Self::Library { error, hint, name: Some(name) },
            output => output,
        }
    }

    /// Formats the error and its causes on one line.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Output(error) => format!("write to stdout: {error}"),
            Self::Library { error, .. } => {
                let Report { message, causes, .. } = Report::of(error, None);
                [&[message], &*causes].concat().join(": ")
            }
        }
    }

    /// The message with the advice, on one line.
    #[cfg(feature = "ui")]
    pub(crate) fn with_advice(&self) -> String {
        let hint = match self {
            Self::Output(_) => None,
            Self::Library { error, hint, .. } => own_advice(error).or(hint.as_ref()),
        };
        match hint.and_then(Advice::for_commands) {
            Some(hint) => format!("{}: {hint}", self.message()),
            None => self.message(),
        }
    }

    /// The error as one JSON object, as in `--json`, with the advice for callers of operations at
    /// the end of the message. Its size is bounded, even if the request was long.
    pub(crate) fn to_json(&self) -> String {
        match self {
            Self::Output(_) => Report::new("io", self.message()).to_json(),
            Self::Library { error, hint, name } => {
                let mut report = Report::of(error, None);
                report.kind = name.unwrap_or(report.kind);
                if let Some((cut, _)) = report.message.char_indices().nth(MESSAGE_CHARS) {
                    report.message.truncate(cut);
                    report.message.push('…');
                }
                let hint = own_advice(error).or(hint.as_ref());
                if let Some(hint) = hint.and_then(Advice::for_calls) {
                    report.message = format!("{} ({hint})", report.message);
                }
                report.to_json()
            }
        }
    }

    /// Returns the exit code.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Output(_) => Exit::Internal,
            Self::Library { error, .. } => exit_of(error.kind()),
        }
    }

    /// Returns true if the request must be changed.
    pub(crate) fn is_usage(&self) -> bool {
        self.exit() == Exit::Usage
    }

    /// Returns true if the object does not exist, or was dropped.
    pub(crate) fn is_not_found(&self) -> bool {
        self.exit() == Exit::NotFound
    }

    /// Returns true if stored bytes are damaged.
    pub(crate) fn is_corrupt(&self) -> bool {
        self.exit() == Exit::Corrupt
    }

    /// Returns true if the reader closed the output early, which is not an error.
    fn is_closed_pipe(&self) -> bool {
        match self {
            Self::Output(error) => is_reader_gone(error),
            Self::Library { error, .. } => is_closed_pipe(error),
        }
    }

    /// Reports the failure on stderr, and returns the exit code. A closed pipe is not a failure:
    /// the reader had enough.
    pub(crate) fn report(&self, json: bool) -> Exit {
        match self {
            failure if failure.is_closed_pipe() => Exit::Success,
            Self::Output(_) => {
                Report::new("io", self.message()).print(json);
                self.exit()
            }
            Self::Library { error, hint, name } => {
                let hint = own_advice(error).or(hint.as_ref()).and_then(Advice::for_commands);
                let hint = hint.or_else(|| advice_on_system(error));
                let report = Report::of(error, hint);
                Report { kind: name.unwrap_or(report.kind), ..report }.print(json);
                self.exit()
            }
        }
    }
}

/// The advice attached to an error of the library, which is more specific than any other.
fn own_advice(error: &Error) -> Option<&Advice> {
    error.source().and_then(|cause| cause.downcast_ref())
}

/// The advice on an error of the system that no command can avoid.
fn advice_on_system(error: &Error) -> Option<&'static str> {
    let cause = error.source()?.downcast_ref::<io::Error>()?;
    match cause.kind() {
        io::ErrorKind::ReadOnlyFilesystem => {
            Some("the file system is read-only: commands that only read work there")
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Some("the disk is full: what was stored before is whole; free space and run it again")
        }
        _ => None,
    }
}

/// Ignores a closed output, if the answer is valid even when not all of it is read.
pub(crate) fn read_or_not(written: Result<()>) -> Result<()> {
    written.or_else(|failure| if failure.is_closed_pipe() { Ok(()) } else { Err(failure) })
}

/// Returns true if the library could not write because the reader closed the output.
fn is_closed_pipe(error: &Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    cause.is_some_and(is_reader_gone)
}

/// The full report of a failure.
pub(crate) struct Report<'a> {
    kind: &'static str,
    message: String,
    causes: Vec<String>,
    hint: Option<&'a str>,
    left: Option<Left>,
}

impl<'a> Report<'a> {
    /// The report of invalid arguments, with a hint, which may be empty.
    pub(crate) fn usage(message: String, hint: &'a str) -> Self {
        let hint = Some(hint).filter(|hint| !hint.is_empty());
        Self { hint, ..Self::new("usage", message) }
    }

    /// The report of a bug in the program.
    pub(crate) fn internal(message: String) -> Self {
        Self::new("internal", message)
    }

    fn new(kind: &'static str, message: String) -> Self {
        Self { kind, message, causes: Vec::new(), hint: None, left: None }
    }

    fn of(error: &Error, hint: Option<&'a str>) -> Self {
        let mut report = Self::new(name(error.kind()), error.message().to_owned());
        report.hint = hint;
        let mut next = error.source();
        while let Some(cause) = next {
            // The available turns are not a cause, but continue the sentence. Advice is not a cause
            // either.
            if let Some(available) = cause.downcast_ref::<Availability>() {
                report.message = format!("{}; {available}", report.message);
                report.left = Some(available.into());
            } else if !cause.is::<Advice>() {
                report.causes.push(cause.to_string());
            }
            next = cause.source();
        }
        report
    }

    fn to_json(&self) -> String {
        let message = [std::slice::from_ref(&self.message), &self.causes].concat().join(": ");
        let (left, hint) = (self.left.as_ref(), self.hint);
        let record = ErrorRecord { error: self.kind, message: &message, hint, left };
        serde_json::to_string(&record).unwrap_or(message)
    }

    /// Prints it on stderr, for people or as one JSON object.
    pub(crate) fn print(self, json: bool) {
        if json {
            stderr_line(Style::new(), "", &self.to_json());
            return;
        }
        let Self { message, causes, hint, .. } = self;
        stderr_line(AnsiColor::Red.on_default().bold(), "error: ", &message);
        for cause in causes {
            stderr_line(Style::new().bold(), "  caused by: ", &cause);
        }
        if let Some(hint) = hint {
            stderr_line(AnsiColor::Cyan.on_default().bold(), "hint: ", hint);
        }
    }
}

/// The name of an error kind in `--json`.
fn name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Expired => SNAPSHOT_EXPIRED,
        kind => kind.name(),
    }
}

/// Maps an error to its exit code. A limit is about the input, and an unsupported store is about
/// the program's version, so the caller can change both.
fn exit_of(kind: ErrorKind) -> Exit {
    match kind {
        ErrorKind::NotFound | ErrorKind::Expired | ErrorKind::Redacted => Exit::NotFound,
        ErrorKind::Conflict => Exit::Conflict,
        ErrorKind::Corrupt => Exit::Corrupt,
        ErrorKind::Locked => Exit::Locked,
        ErrorKind::Ambiguous
        | ErrorKind::Encrypted
        | ErrorKind::InvalidInput
        | ErrorKind::LimitExceeded
        | ErrorKind::Unsupported => Exit::Usage,
        _ => Exit::Internal,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use turntree::object::{Kind, ObjectId};

    use super::*;
    use crate::view::output::Heard;

    #[test]
    fn every_kind_of_error_has_its_exit_code() {
        for (kind, code) in [
            (ErrorKind::InvalidInput, 2),
            (ErrorKind::Ambiguous, 2),
            (ErrorKind::Encrypted, 2),
            (ErrorKind::LimitExceeded, 2),
            (ErrorKind::Unsupported, 2),
            (ErrorKind::Conflict, 3),
            (ErrorKind::Corrupt, 4),
            (ErrorKind::Locked, 5),
            (ErrorKind::NotFound, 6),
            (ErrorKind::Expired, 6),
            (ErrorKind::Redacted, 6),
            (ErrorKind::Io, 70),
        ] {
            assert_eq!(exit_of(kind) as u8, code, "{kind:?}");
        }
        assert_eq!(Exit::from(Answer::Yes) as u8, 0);
        assert_eq!(Exit::from(Answer::No) as u8, 1);
    }

    #[test]
    fn an_expired_turn_is_answered_with_what_is_left() {
        let id = ObjectId::of(Kind::Commit, b"x");
        let turn = |turn| AvailableTurn { turn, id };
        let available = Availability { oldest: Some(turn(900)), pinned: vec![turn(40)] };
        let error = Error::new(ErrorKind::Expired, "turn 12 of demo was dropped by retention");
        let report = Report::of(&error.with_source(available), None);
        let short = id.short(12);
        let message = format!(
            "turn 12 of demo was dropped by retention; the oldest available is turn 900 ({short}), \
             pinned: turn 40 ({short})"
        );
        assert_eq!((report.message.as_str(), report.causes.len()), (message.as_str(), 0));
        let expected = format!(
            r#"{{"error":"snapshot_expired","message":"{message}","oldest_available":{{"turn":900,"id":"{id}"}},"pinned":[{{"turn":40,"id":"{id}"}}],"oldestAvailable":40,"oldestAvailablePinned":true}}"#
        );
        assert_eq!(report.to_json(), expected);
        let other = Report::of(&Error::not_found("nothing"), None);
        assert_eq!(other.to_json(), r#"{"error":"not-found","message":"nothing"}"#);
    }

    #[test]
    fn a_hint_goes_only_to_the_kind_it_is_for() {
        let failed = |kind| Err::<(), _>(Error::new(kind, "x"));
        let hinted = failed(ErrorKind::NotFound).hint(ErrorKind::NotFound, "look again");
        assert!(
            matches!(hinted, Err(Failure::Library { hint: Some(hint), .. }) if hint == "look again".into())
        );
        let other = failed(ErrorKind::Io).hint(ErrorKind::NotFound, "look again");
        assert!(matches!(other, Err(Failure::Library { hint: None, .. })));
    }

    #[test]
    fn a_closed_output_is_quiet_and_any_other_broken_pipe_a_failure() {
        struct Unread;

        impl Write for Unread {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }

            fn flush(&mut self) -> io::Result<()> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
        }

        let mut buffered = io::BufWriter::new(Heard(Unread));
        buffered.write_all(b"x").unwrap();
        let closed = [buffered.flush(), Heard(Unread).write_all(b"x"), Heard(Unread).flush()];
        for closed in closed.map(Result::unwrap_err) {
            let again = io::Error::new(closed.kind(), closed.to_string());
            assert_eq!(Failure::from(again).report(false), Exit::Internal, "it is not the output");
            assert_eq!(Failure::from(closed).report(false), Exit::Success);
        }
        let gone = Heard(Unread).flush().unwrap_err();
        let library = Failure::from(Error::io("write the bundle", gone));
        assert_eq!(library.report(false), Exit::Success);
        let other = Failure::from(Error::io("ask a program", io::ErrorKind::BrokenPipe.into()));
        assert_eq!(other.report(false), Exit::Internal);
    }
}
