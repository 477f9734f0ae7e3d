//! `view`: shows all sessions in a browser, and updates them live.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use clap::Args;
use clap_complete::ArgValueCompleter;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;
use turntree::repo::{BranchName, MAIN_BRANCH, Repository};
use turntree::workspace::{Claim, read_note, write_note};
use turntree::{Error, ErrorKind};

use super::Verb;
use crate::loopback::new_key;
use crate::porcelain::read::revision::resolve;
use crate::program::browser;
use crate::program::complete::revisions;
use crate::program::invocation::{Invocation, Location};
use crate::view::error::{Answer, Failure, Result};
use crate::view::json;
use crate::view::output::note;
use crate::viewer::{Maintenance, Viewer};

/// The claim of a store's server.
const CLAIM: &str = "view";

/// The note with the server's address.
const ADDRESS: &str = "address of view";

/// The timeout of a connection to a recorded server.
const KNOCK: Duration = Duration::from_secs(1);

/// How long a browser may take to read the file with the address.
const READ: Duration = Duration::from_secs(3);

/// Characters that are not percent-encoded in an address, besides letters and digits.
const PLAIN: &[u8] = b"-._~";

/// Browse all sessions in a browser, and watch agents while they work
///
/// Prints an address on this machine and serves it until Ctrl-C. The address has a key after the #,
/// without which nothing is shown; the key changes with each start. The page cannot change
/// anything, unless --allow-changes is given: then it forks, tags, pins, restores, rolls back,
/// merges, resolves conflicts and undoes, each after showing its plan.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree view --open           # all sessions
  turntree view parser-fix       # this session
  turntree view turn:42          # this turn
  turntree view --allow-changes  # fork, restore and merge from the page, too
  turntree view --port 8400      # behind 'ssh -L 8400:127.0.0.1:8400 HOST', from elsewhere")]
pub(crate) struct ViewSessions {
    /// The session, branch or snapshot to show first; a list of all sessions by default
    #[arg(value_name = "REV", add = ArgValueCompleter::new(revisions))]
    revision: Option<String>,
    /// Port to listen on, only on this machine; by default the last one if it is free, otherwise
    /// any
    #[arg(long, value_name = "N")]
    port: Option<u16>,
    /// Allow the page to change the store, and the files of a workspace that is restored
    #[arg(long)]
    allow_changes: bool,
    /// Open it in the browser
    #[arg(long)]
    open: bool,
}

/// The note about a server for other runs of the program.
#[derive(Default, Serialize, Deserialize)]
struct Address {
    port: u16,
    /// Empty once the server has ended.
    key: String,
    /// True if its page may change the store.
    #[serde(default)]
    allows_changes: bool,
}

impl Verb for ViewSessions {
    fn may_write(&self) -> bool {
        self.allow_changes
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let location = run.locate()?;
        let repo = run.open()?;
        let place = match &self.revision {
            Some(revision) => place_of(&repo, revision)?,
            None => Place::default(),
        };
        let dir = std::path::absolute(&location.dir)
            .map_err(|error| Error::io(format!("find {}", location.dir.display()), error))?;
        let claim = (!repo.store().keeps_no_caches()).then(|| Claim::take(&dir, CLAIM)).flatten();
        let last = last_address(&repo);
        if claim.is_none()
            && let Some(address) = last.as_ref().filter(|address| answers(address))
        {
            if self.allow_changes != address.allows_changes {
                return Err(other_rights(address));
            }
            if self.show(run, address, &place)?.is_some() {
                std::thread::sleep(READ);
            }
            return Ok(Answer::Yes);
        }
        let listener = self.listen(last.map(|address| address.port))?;
        let port = listener.local_addr().map_err(|error| Error::io("listen", error))?.port();
        let allows_changes = self.allow_changes;
        let address = Address { port, key: new_key()?, allows_changes };
        keep(&repo, &address);
        let location = Location { dir, ..location };
        let maintenance = if run.may_maintain() { Maintenance::On } else { Maintenance::Off };
        let allows = allows_changes.then_some(maintenance);
        let viewer = Viewer::new(location, port, address.key.clone(), allows)?;
        // Kept until the browser has read it.
        let _file = self.show(run, &address, &place)?;
        if !run.out.json {
            note("Ctrl-C ends it");
        }
        let served = viewer.serve(listener);
        keep(&repo, &Address { port, key: String::new(), allows_changes: false });
        served.map(|()| Answer::Yes)
    }
}

impl ViewSessions {
    /// Listens on the given port; otherwise on the last one, so that open pages find the server
    /// again; otherwise on any free port.
    fn listen(&self, last: Option<u16>) -> Result<TcpListener> {
        let bind = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        let failed = |port: u16, error| Error::io(format!("listen on 127.0.0.1:{port}"), error);
        if let Some(port) = self.port {
            return bind(port).map_err(|error| match error.kind() {
                io::ErrorKind::AddrInUse => {
                    let taken = format!("port {port} is in use by another program");
                    let taken = Error::new(ErrorKind::Locked, taken);
                    Failure::hinted(taken, "without --port a free one is taken")
                }
                _ => failed(port, error).into(),
            });
        }
        let again = last.filter(|port| *port != 0).map(bind);
        match again {
            Some(Ok(listener)) => Ok(listener),
            _ => Ok(bind(0).map_err(|error| failed(0, error))?),
        }
    }

    /// Prints the address, and opens it in the browser if requested. The returned file must exist
    /// until the browser has read it.
    fn show(
        &self,
        run: &mut Invocation,
        address: &Address,
        place: &Place,
    ) -> Result<Option<NamedTempFile>> {
        let Address { port, key, .. } = address;
        let url = format!("http://127.0.0.1:{port}/{}#key={key}{}", place.path, place.fragment);
        match run.out.json {
            true => run.out.record(&json::ViewAddress { url: url.clone(), port: *port })?,
            false => writeln!(run.out, "{url}")?,
        }
        run.out.flush()?;
        if !self.open {
            return Ok(None);
        }
        let opened = open_in_browser(&url);
        if opened.is_none() {
            note("there is no browser to open it in: open the address yourself");
        }
        Ok(opened)
    }
}

/// The error if a server with other rights is running.
fn other_rights(address: &Address) -> Failure {
    let (is, wanted) = match address.allows_changes {
        true => ("allows changes", "only shows"),
        false => ("only shows", "allows changes"),
    };
    let message = format!("the server on port {} {is}, expected one that {wanted}", address.port);
    Failure::hinted(Error::new(ErrorKind::Locked, message), "end it with Ctrl-C, and try again")
}

/// The page to show first.
#[derive(Default)]
struct Place {
    path: String,
    fragment: String,
}

fn place_of(repo: &Repository, revision: &str) -> Result<Place> {
    let found = resolve(repo, revision)?;
    let commit = repo.commit(&found.commit)?;
    let branch = found.branch.as_ref();
    let session = branch.map_or(commit.session.as_str(), |branch| branch.session());
    let is_tip = branch.is_some_and(|branch| repo.tip(branch) == Some(found.commit));
    let side = match branch.map(BranchName::branch) {
        Some(name) if name != MAIN_BRANCH => format!("@{}", encoded(name)),
        _ => String::new(),
    };
    let fragment = match is_tip {
        true if side.is_empty() => String::new(),
        true => format!("&overview{side}"),
        false => format!("&turn-{}{side}", commit.turn),
    };
    Ok(Place { path: format!("s/{}", encoded(session)), fragment })
}

/// Percent-encodes a text for an address, like `encodeURIComponent`.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() || PLAIN.contains(&byte) => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// The address of the last server; only the owner of the store can read its key.
fn last_address(repo: &Repository) -> Option<Address> {
    serde_json::from_slice(&read_note(repo, ADDRESS)?).ok()
}

/// Stores an address for the next run. Errors are ignored, for example on a read-only store.
fn keep(repo: &Repository, address: &Address) {
    let _ = write_note(repo, ADDRESS, &serde_json::to_vec(address).unwrap_or_default());
}

/// Returns true if the server is running.
fn answers(address: &Address) -> bool {
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, address.port));
    !address.key.is_empty() && TcpStream::connect_timeout(&at, KNOCK).is_ok()
}

/// Opens a page in the browser; `None` without a browser. The address is passed in a file readable
/// by its owner only, because all users of this machine can see the arguments of a process.
fn open_in_browser(url: &str) -> Option<NamedTempFile> {
    let mut file = tempfile::Builder::new().prefix("turntree-").suffix(".html").tempfile().ok()?;
    let html = format!(
        "<!doctype html><meta charset=\"utf-8\"><title>turntree</title>\
         <meta http-equiv=\"refresh\" content=\"0;url={url}\"><p><a href=\"{url}\">turntree</a></p>\n"
    );
    file.write_all(html.as_bytes()).ok()?;
    browser::open(file.path().as_os_str()).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_in_addresses_as_browsers_write_them() {
        assert_eq!(encoded("a-b.c_d~e"), "a-b.c_d~e");
        assert_eq!(encoded("a/b c\"<ä"), "a%2Fb%20c%22%3C%C3%A4");
    }
}
