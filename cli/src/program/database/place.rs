//! The URL of a remote in a PostgreSQL database.
//!
//! The form is `postgres://USER@HOST:PORT/DATABASE/PREFIX?sslmode=MODE`. A URL is stored and shown
//! in the clear, so it never contains a password.

use std::net::IpAddr;
use std::str::FromStr as _;
use std::time::Duration;

use postgres::Config;
use postgres::config::{Host, SslMode};
use turntree::transfer::remote::Key;
use turntree::{Error, Result};

/// The schemes of these URLs.
pub(super) const SCHEMES: &[&str] = &["postgres", "postgresql"];

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection may be silent.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);

/// A location in a database.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// The server, user and database, without a password.
    pub(super) server: Config,
    /// The prefix of the remote in the tables; empty for none.
    pub(super) prefix: String,
    /// The location for messages.
    pub(super) shown: String,
}

impl Place {
    /// Parses a URL.
    ///
    /// # Errors
    /// `InvalidInput` for another form, for a password and for options that are not understood.
    pub(super) fn parse(url: &str) -> Result<Self> {
        let expected = "expected postgres://USER@HOST/DATABASE/PREFIX";
        // The URL may contain a password, so messages do not show it.
        let invalid =
            |what: &str| Error::invalid(format!("the URL of the remote {what}: {expected}"));
        let (scheme, rest) = url.split_once("://").ok_or_else(|| invalid("has no scheme"))?;
        if !SCHEMES.contains(&scheme) {
            return Err(invalid("has another scheme"));
        }
        let (address, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = address.split_once('/').unwrap_or((address, ""));
        let (database, prefix) = path.split_once('/').unwrap_or((path, ""));
        if database.is_empty() {
            return Err(invalid("names no database"));
        }
        if authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':')) {
            return Err(Error::invalid(
                "the URL of a remote contains a password, and would be stored with it: put the \
                 password into PGPASSWORD or ~/.pgpass",
            ));
        }
        let prefix = match prefix.trim_end_matches('/') {
            "" => String::new(),
            prefix => Key::new(prefix)?.to_string(),
        };
        let (mode, rest) = options(query)?;
        let server = format!("postgres://{authority}/{database}?{rest}");
        let mut server = Config::from_str(&server)
            .map_err(|error| invalid("cannot be read").with_source(error))?;
        if server.get_hosts().is_empty() {
            return Err(invalid("names no host"));
        }
        let is_local = server.get_hosts().iter().all(is_local);
        server
            .ssl_mode(mode.unwrap_or(if is_local { SslMode::Disable } else { SslMode::Require }))
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_user_timeout(SILENCE_TIMEOUT)
            .application_name("turntree");
        Ok(Self { server, prefix, shown: format!("{scheme}://{address}") })
    }
}

/// The encryption of a connection, and the options of a query that are the driver's.
fn options(query: &str) -> Result<(Option<SslMode>, String)> {
    let (mut mode, mut others) = (None, Vec::new());
    for option in query.split('&').filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some(("sslmode", "disable")) => mode = Some(SslMode::Disable),
            Some(("sslmode", "prefer")) => mode = Some(SslMode::Prefer),
            // The certificate is always verified.
            Some(("sslmode", "require" | "verify-ca" | "verify-full")) => {
                mode = Some(SslMode::Require);
            }
            Some(("host" | "port", _)) => others.push(option),
            // The value may be a secret, so it is not shown.
            _ => {
                let name = option.split('=').next().unwrap_or_default();
                return Err(Error::invalid(format!(
                    "the URL of a remote has the option {name:?}: expected host=DIRECTORY, \
                     port=NUMBER or sslmode=disable, prefer, require or verify-full"
                )));
            }
        }
    }
    Ok((mode, others.join("&")))
}

/// True if a connection stays on this machine.
fn is_local(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_a_server_a_database_and_a_prefix() {
        let place = Place::parse("postgres://ann@db.example:5433/agents/team/a").unwrap();
        assert_eq!(place.server.get_hosts(), [Host::Tcp("db.example".into())]);
        assert_eq!(place.server.get_ports(), [5433]);
        assert_eq!(place.server.get_user(), Some("ann"));
        assert_eq!(place.server.get_dbname(), Some("agents"));
        assert_eq!(place.prefix, "team/a");
        assert_eq!(place.shown, "postgres://ann@db.example:5433/agents/team/a");
        for url in ["postgresql://db/agents", "postgres://db/agents/", "postgres://db/agents?"] {
            assert_eq!(Place::parse(url).unwrap().prefix, "", "{url}");
        }
    }

    #[test]
    fn connections_to_other_machines_are_encrypted_unless_the_url_says_otherwise() {
        let mode = |url: &str| Place::parse(url).unwrap().server.get_ssl_mode();
        assert_eq!(mode("postgres://db.example/a"), SslMode::Require);
        assert_eq!(mode("postgres://db.example/a?sslmode=verify-full"), SslMode::Require);
        assert_eq!(mode("postgres://db.example/a?sslmode=prefer"), SslMode::Prefer);
        assert_eq!(mode("postgres://db.example/a?sslmode=disable"), SslMode::Disable);
        assert_eq!(mode("postgres://localhost,db.example/a"), SslMode::Require);
        for local in ["localhost", "127.0.0.1", "[::1]"] {
            assert_eq!(mode(&format!("postgres://{local}/a")), SslMode::Disable, "{local}");
        }
        #[cfg(unix)]
        assert_eq!(mode("postgres:///a?host=/run/postgresql"), SslMode::Disable);
    }

    #[test]
    fn other_urls_are_refused_without_showing_a_secret() {
        let bad = [
            "postgres://",
            "postgres://db",
            "postgres://db/",
            "postgres:///agents",
            "postgres://ann:hush@db/agents",
            "postgres://db/agents/../a",
            "postgres://db/agents//a",
            "postgres://db:port/agents",
            "postgres://db/agents?password=hush",
            "postgres://db/agents?sslmode=hush",
            "postgres://db/agents?sslmode",
            "mysql://db/agents",
        ];
        for url in bad {
            let error = Place::parse(url).unwrap_err().to_string();
            assert!(!error.contains("hush"), "{error}");
        }
    }
}
