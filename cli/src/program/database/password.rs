//! Finds the password of a connection: `PGPASSWORD`, or the password file of PostgreSQL.

use std::path::{Path, PathBuf};
use std::{env, fs};

use postgres::Config;
use postgres::config::Host;
use turntree::platform::has_other_users;
use turntree::{Error, ErrorKind, Result};

use crate::view::advice::Advice;

/// The port of PostgreSQL.
const PORT: u16 = 5432;

/// Returns the password of a connection; `None` if the user has not stored one.
///
/// # Errors
/// `Io` if the password file cannot be read, or other users can read it.
pub(super) fn password(server: &Config) -> Result<Option<String>> {
    if let Ok(password) = env::var("PGPASSWORD") {
        return Ok(Some(password));
    }
    let Some(path) = file() else { return Ok(None) };
    let failed = |error| Error::io(format!("read {}", path.display()), error);
    let facts = match fs::metadata(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        facts => facts.map_err(failed)?,
    };
    if has_other_users(&facts) {
        let message = format!("other users can read the passwords in {}", path.display());
        let advice = Advice::from(format!("run 'chmod 600 {}'", path.display()));
        return Err(Error::new(ErrorKind::Io, message).with_source(advice));
    }
    Ok(found(&fs::read_to_string(&path).map_err(failed)?, server))
}

/// The password file: `PGPASSFILE`, else the one of the user.
fn file() -> Option<PathBuf> {
    if let Some(path) = env::var_os("PGPASSFILE") {
        return Some(path.into());
    }
    if cfg!(windows) {
        return Some(Path::new(&env::var_os("APPDATA")?).join("postgresql").join("pgpass.conf"));
    }
    Some(etcetera::home_dir().ok()?.join(".pgpass"))
}

/// The password in the first line `host:port:database:user:password` that matches a connection.
fn found(text: &str, server: &Config) -> Option<String> {
    let host = match server.get_hosts().first()? {
        Host::Tcp(name) => name.clone(),
        // The file calls every socket of this machine so.
        #[cfg(unix)]
        Host::Unix(_) => "localhost".to_owned(),
    };
    let port = server.get_ports().first().copied().unwrap_or(PORT).to_string();
    let database = server.get_dbname().unwrap_or_default();
    let user = server.get_user().unwrap_or_default();
    let wanted = [host.as_str(), &port, database, user];
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = fields(line);
        let [named @ .., password] = fields.as_slice() else { return None };
        let matches = |(named, wanted): (&String, &&str)| named == "*" || named == wanted;
        (named.len() == wanted.len() && named.iter().zip(&wanted).all(matches))
            .then(|| password.clone())
    })
}

/// The five fields of a line; a backslash escapes the next character.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut letters) = (vec![String::new()], line.chars());
    while let Some(letter) = letters.next() {
        let letter = match letter {
            ':' => {
                fields.push(String::new());
                continue;
            }
            '\\' => letters.next().unwrap_or(letter),
            letter => letter,
        };
        if let Some(field) = fields.last_mut() {
            field.push(letter);
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_matching_line_of_the_file_has_the_password() {
        let server: Config = "postgres://ann@db.example/agents".parse().unwrap();
        let found = |text: &str| found(text, &server);
        assert_eq!(found("db.example:5432:agents:ann:word").as_deref(), Some("word"));
        assert_eq!(found("#*:*:*:*:no\n*:*:*:bob:no\n*:*:*:ann:word\n").as_deref(), Some("word"));
        assert_eq!(found("db.example:*:*:*:a\\:b\\\\c").as_deref(), Some("a:b\\c"));
        for other in ["", "db.example:5433:agents:ann:no", "*:*:*:ann", "*:*:*:*:*:no", "word"] {
            assert_eq!(found(other), None, "{other}");
        }
    }
}
