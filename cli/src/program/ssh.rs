//! Remotes over ssh: this program runs on the host, and answers on its streams.
//!
//! `TURNTREE_SSH_COMMAND` works like git's `GIT_SSH_COMMAND`: a shell command that gets the host
//! and the remote command as further arguments.

use std::env;
use std::process::{Child, Command, Stdio};

use turntree::transfer::remote::{Pipe, PipeBucket};
use turntree::{Error, ErrorKind, Result};

/// The variable with the command.
const COMMAND: &str = "TURNTREE_SSH_COMMAND";

/// The default command. A silent connection ends after a minute.
const SSH: &str = "ssh -o ServerAliveInterval=20 -o ServerAliveCountMax=3";

/// A folder on another machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Host {
    /// The host, with the user if there is one.
    host: String,
    port: Option<u16>,
    path: String,
}

impl Host {
    /// Parses `ssh://[USER@]HOST[:PORT]/PATH` and `[USER@]HOST:PATH`; `None` for other URLs.
    ///
    /// # Errors
    /// `InvalidInput` for a URL that begins like these and is not valid.
    pub(super) fn parse(url: &str) -> Result<Option<Self>> {
        let expected = "expected ssh://HOST/PATH or HOST:PATH";
        let invalid = || Error::invalid(format!("{url:?} is not a folder on a host: {expected}"));
        let (host, port, path) = match url.strip_prefix("ssh://") {
            Some(rest) => {
                let (host, path) = rest.split_once('/').ok_or_else(invalid)?;
                // As in git, a path may begin with a user's home directory.
                let root = if path.starts_with('~') { "" } else { "/" };
                let (host, port) = match host.rsplit_once(':') {
                    Some((host, port)) if !port.contains(']') => {
                        (host, Some(port.parse().map_err(|_| invalid())?))
                    }
                    _ => (host, None),
                };
                (host, port, format!("{root}{path}"))
            }
            None => match url.split_once(':') {
                // A single letter is a drive on other systems, and a slash before the colon makes
                // it a path.
                Some((host, path)) if host.len() > 1 && !host.contains('/') => {
                    (host, None, path.to_owned())
                }
                _ => return Ok(None),
            },
        };
        let host = host.trim_matches(['[', ']']);
        let is_host = |c: char| c.is_ascii_alphanumeric() || "-_.@:%".contains(c);
        // A leading dash would make it an option of ssh.
        let is_fine = !host.is_empty() && !host.starts_with('-') && host.chars().all(is_host);
        let is_path =
            !path.is_empty() && !path.starts_with('-') && !path.chars().any(char::is_control);
        if !is_fine || !is_path {
            return Err(invalid());
        }
        Ok(Some(Self { host: host.to_owned(), port, path }))
    }

    /// The folder as a bucket. No process is started yet; with `make`, the process creates the
    /// folder.
    pub(super) fn bucket(self, make: bool) -> PipeBucket {
        PipeBucket::new(move || self.start(make))
    }

    fn start(&self, make: bool) -> Result<Pipe> {
        let command = env::var(COMMAND).ok().filter(|command| !command.trim().is_empty());
        let command = command.as_deref().unwrap_or(SSH);
        let make = if make { " --make" } else { "" };
        let there = format!("turntree remote serve{make} {}", quoted(&self.path));
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("{command} \"$@\"")).arg(command);
        if let Some(port) = self.port {
            shell.arg("-p").arg(port.to_string());
        }
        shell.arg(&self.host).arg(there).stdin(Stdio::piped()).stdout(Stdio::piped());
        let failed = |error| Error::io(format!("start {command}"), error);
        let mut child = shell.spawn().map_err(failed)?;
        match (child.stdout.take(), child.stdin.take()) {
            (Some(input), Some(output)) => Ok(Pipe {
                input: Box::new(input),
                output: Box::new(output),
                guard: Box::new(Running(child)),
            }),
            _ => Err(Error::new(ErrorKind::Io, format!("{command} was started without streams"))),
        }
    }
}

/// A process that is not needed once its streams are closed.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Quotes a path for the shell; a leading home directory stays unquoted.
fn quoted(path: &str) -> String {
    let quote = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    match path.split_once('/') {
        Some(("~", rest)) => format!("~/{}", quote(rest)),
        _ => quote(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(url: &str) -> Option<(String, Option<u16>, String)> {
        Host::parse(url).unwrap().map(|Host { host, port, path }| (host, port, path))
    }

    #[test]
    fn both_forms_name_a_host_and_a_folder() {
        for (url, host, port, path) in [
            ("ssh://box/srv/a", "box", None, "/srv/a"),
            ("ssh://me@box:2222/srv/a", "me@box", Some(2222), "/srv/a"),
            ("ssh://[::1]:22/a", "::1", Some(22), "/a"),
            ("ssh://[::1]/a", "::1", None, "/a"),
            ("ssh://box/~/a", "box", None, "~/a"),
            ("me@box:agents", "me@box", None, "agents"),
            ("box:/srv/a b", "box", None, "/srv/a b"),
        ] {
            assert_eq!(parts(url), Some((host.to_owned(), port, path.to_owned())), "{url}");
        }
        for path in ["/srv/a", "./a:b", "a", "c:/a", "../x:y/z"] {
            assert_eq!(parts(path), None, "{path}");
        }
        for bad in
            ["ssh://box", "ssh://-oProxyCommand=x/a", "-oX:a", "ssh://box:x/a", "box:", "b x:a"]
        {
            assert!(Host::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_path_is_one_word_there() {
        assert_eq!(quoted("/srv/it's $HOME"), r"'/srv/it'\''s $HOME'");
        assert_eq!(quoted("~/a b"), "~/'a b'");
    }
}
