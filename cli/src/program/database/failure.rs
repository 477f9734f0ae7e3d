//! Interprets errors of a database: whether a write may have happened, and messages for people.

use std::error::Error as _;

use postgres::Error as Failed;
use postgres::error::SqlState;
use turntree::{Error, ErrorKind};

use crate::view::advice::Advice;

/// Where passwords belong.
const PASSWORDS: &str = "passwords come from PGPASSWORD or ~/.pgpass";

/// Where certificates come from.
const CERTIFICATES: &str = "SSL_CERT_FILE names a file of trusted certificates";

/// Maximum characters to show of a server's own message.
const MAX_SHOWN: usize = 300;

/// True if the server certainly did not do a write: it answered with an error of the statement.
pub(super) fn is_refused(error: &Failed) -> bool {
    // Class 08 is a lost connection, 40 and 57 end a transaction that a retry may repeat.
    error
        .code()
        .is_some_and(|code| !["08", "40", "57"].iter().any(|class| code.code().starts_with(class)))
}

/// True if another process created the same table at the same time.
pub(super) fn is_made_by_another(error: &Failed) -> bool {
    let codes = [SqlState::UNIQUE_VIOLATION, SqlState::DUPLICATE_TABLE, SqlState::DUPLICATE_OBJECT];
    error.code().is_some_and(|code| codes.contains(code))
}

/// Describes an error: the failed action, and the server's own message.
pub(super) fn failure(action: &str, shown: &str, error: &Failed) -> Error {
    let said = said(error);
    let message = |why: &str| format!("{action} in {shown}: {why}");
    let (why, advice) = match error.code() {
        Some(code) if *code == SqlState::UNDEFINED_TABLE => {
            return Error::not_found(message(
                "the database has no tables of turntree, which 'turntree remote add' creates",
            ));
        }
        Some(code) if *code == SqlState::UNDEFINED_DATABASE => {
            return Error::not_found(message("the server has no such database"));
        }
        Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => ("the server refused it", None),
        Some(code) if code.code().starts_with("28") => {
            ("the server refused the user or the password", Some(PASSWORDS))
        }
        Some(code) if code.code().starts_with("53") => {
            ("the server has no more room or connections", None)
        }
        Some(_) => ("the server answered with an error", None),
        None if said == "password missing" => ("the server wants a password", Some(PASSWORDS)),
        None if said.contains("certificate") => {
            ("the certificate of the server is not trusted", Some(CERTIFICATES))
        }
        None if error.is_closed() => ("the server closed the connection", None),
        None => ("there was no answer", None),
    };
    let error = Error::new(ErrorKind::Io, message(why));
    match advice {
        Some(advice) => error.with_source(Advice::from(format!("{said}; {advice}"))),
        None => error.with_source(std::io::Error::other(said)),
    }
}

/// What the server or the system says of an error.
fn said(error: &Failed) -> String {
    let said = match (error.as_db_error(), error.source()) {
        (Some(said), _) => said.message().to_owned(),
        (None, Some(source)) => source.to_string(),
        (None, None) => error.to_string(),
    };
    said.chars().filter(|letter| !letter.is_control()).take(MAX_SHOWN).collect()
}
