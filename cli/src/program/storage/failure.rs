//! Interprets errors of object storage: the outcome of a write, and messages for people.

use std::error::Error as _;

use turntree::{Error, ErrorKind};

use super::place::Service;

/// Maximum characters to show of a storage's own message.
const MAX_SAID: usize = 300;

/// The outcome of a failed conditional write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The condition does not hold: the object exists, or has changed.
    Lost,
    /// The write may have been done.
    Unknown,
    /// The write was not done, and will not be.
    Refused,
}

/// Returns the outcome of a conditional write with an error.
pub(super) fn outcome(error: &object_store::Error, service: Service, is_new: bool) -> Outcome {
    use object_store::Error as E;
    match error {
        // S3 answers 409 to concurrent writes, and 412 if the condition does not hold.
        E::AlreadyExists { source, .. } if service == Service::S3 => {
            let is_found = source.downcast_ref::<E>().is_some_and(|inner| {
                matches!(inner, E::Precondition { .. } | E::NotModified { .. })
            });
            if is_new && is_found { Outcome::Lost } else { Outcome::Unknown }
        }
        E::AlreadyExists { .. }
        | E::Precondition { .. }
        | E::NotModified { .. }
        // The expected object was deleted.
        | E::NotFound { .. } => Outcome::Lost,
        E::NotImplemented { .. } | E::NotSupported { .. } => Outcome::Refused,
        _ => match status(error) {
            Some(408 | 409 | 429) => Outcome::Unknown,
            Some(300..=499 | 501) => Outcome::Refused,
            _ => Outcome::Unknown,
        },
    }
}

/// True if a range is beyond the end of its object. Some servers ignore that, and `object_store`
/// then reports it with its own message.
pub(super) fn is_beyond_the_end(error: &object_store::Error) -> bool {
    status(error) == Some(416) || causes(error).contains("Wanted range starting at")
}

/// True if the bucket is missing, not the object.
pub(super) fn is_bucket_missing(error: &object_store::Error) -> bool {
    let is_missing = matches!(error, object_store::Error::NotFound { .. })
        || matches!(error, object_store::Error::Precondition { .. })
        || status(error) == Some(404);
    let codes = ["NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist"];
    is_missing && {
        let said = causes(error);
        codes.iter().any(|code| said.contains(code))
    }
}

/// Describes an error: the failed action, and the storage's own message.
pub(super) fn failure(action: &str, error: &object_store::Error) -> Error {
    let said = said(error);
    let why = match status(error) {
        Some(401 | 403) => "the storage refused it",
        Some(300..=399) => "the storage redirects: check region and endpoint",
        Some(400..=499) => "the storage rejected it",
        Some(500..=599) => "the storage is unavailable",
        _ if said.contains("169.254.169.254") || said.contains("metadata.google.internal") => {
            "there are no credentials: none in the environment, in a profile or of this instance"
        }
        _ => "the storage gave an invalid answer",
    };
    let source = std::io::Error::other(said);
    Error::new(ErrorKind::Io, format!("{action}: {why}")).with_source(source)
}

/// The HTTP status of an error.
fn status(error: &object_store::Error) -> Option<u16> {
    use object_store::Error as E;
    match error {
        E::PermissionDenied { .. } => Some(403),
        E::Unauthenticated { .. } => Some(401),
        E::NotFound { .. } => Some(404),
        _ => {
            let said = causes(error);
            let (_, rest) = said.split_once("status code: ")?;
            rest.get(..3)?.parse().ok()
        }
    }
}

/// The message of an error, with all of its causes.
fn causes(error: &object_store::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let cause = error.to_string();
        // Most errors repeat their causes.
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
        next = error.source();
    }
    text
}

/// The storage's own message on one line, without the rest of its answer.
fn said(error: &object_store::Error) -> String {
    let text = causes(error);
    let text = text.split_once(" - ").map_or(text.as_str(), |(_, said)| said);
    let text = text.strip_prefix("Server returned non-2xx status code: ").unwrap_or(text);
    let element = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        rest.split_once(&format!("</{name}>")).map(|(value, _)| value)
    };
    let text = match (text.split(':').next(), element("Code"), element("Message")) {
        (Some(status), Some(code), Some(message)) => format!("{status}: {code}: {message}"),
        (Some(status), Some(code), None) => format!("{status}: {code}"),
        _ => text.to_owned(),
    };
    let is_shown = |c: &char| !c.is_control();
    let words: Vec<String> = text
        .chars()
        .take(4 * MAX_SAID)
        .map(|c| if c.is_whitespace() { ' ' } else { c })
        .filter(is_shown)
        .collect::<String>()
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    let line = words.join(" ");
    match line.char_indices().nth(MAX_SAID) {
        Some((end, _)) => format!("{} ...", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(text: &str) -> object_store::Error {
        object_store::Error::Generic { store: "S3", source: text.to_owned().into() }
    }

    const PUT: &str =
        "Error performing PUT http://h/b/k in 1ms - Server returned non-2xx status code: ";

    #[test]
    fn what_a_storage_says_is_one_short_line() {
        let xml = "403 Forbidden: <?xml?>\n<Error><Code>AccessDenied</Code>\
                   <Message>Access\u{1b}[2J\nDenied</Message><RequestId>1</RequestId></Error>";
        let said = said(&generic(&format!("{PUT}{xml}")));
        assert_eq!(said, "403 Forbidden: AccessDenied: Access[2J Denied");
        let page = generic(&format!("{PUT}500 Oops: <html>{}</html>", "x".repeat(5000)));
        assert!(super::said(&page).len() < MAX_SAID + 10);
        assert!(failure("write k", &page).to_string().contains("is unavailable"));
    }

    #[test]
    fn a_write_is_refused_only_by_an_answer_that_says_so() {
        let of = |text: &str| outcome(&generic(&format!("{PUT}{text}")), Service::S3, true);
        for (status, expected) in [
            ("400 Bad Request", Outcome::Refused),
            ("403 Forbidden", Outcome::Refused),
            ("301 Moved Permanently", Outcome::Refused),
            ("501 Not Implemented", Outcome::Refused),
            ("408 Request Timeout", Outcome::Unknown),
            ("409 Conflict", Outcome::Unknown),
            ("429 Too Many Requests", Outcome::Unknown),
            ("500 Oops", Outcome::Unknown),
            ("503 Slow Down", Outcome::Unknown),
        ] {
            assert_eq!(of(status), expected, "{status}");
        }
        assert_eq!(outcome(&generic("connection reset"), Service::S3, true), Outcome::Unknown);
        let path = || "k".to_owned();
        let found = object_store::Error::Precondition { path: path(), source: "412".into() };
        assert_eq!(outcome(&found, Service::S3, false), Outcome::Lost);
        let exists = |source| object_store::Error::AlreadyExists { path: path(), source };
        assert_eq!(outcome(&exists(Box::new(found)), Service::S3, true), Outcome::Lost);
        assert_eq!(outcome(&exists("409".into()), Service::S3, true), Outcome::Unknown);
        assert_eq!(outcome(&exists("409".into()), Service::Azure, true), Outcome::Lost);
    }
}
