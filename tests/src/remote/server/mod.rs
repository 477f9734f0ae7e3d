//! An S3 server on loopback, with real conditions, a counter, and planned faults.
//!
//! The test decides about every request by its number, never by time: it may be refused, lost,
//! answered otherwise, or be the last action of a client.

mod http;
mod s3;

use std::collections::BTreeMap;
use std::io::{self, BufReader};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use self::http::{Answered, Asked};
use self::s3::Storage;
use super::fault::Requests;

/// The accepted key id. Requests signed with a different key are refused.
pub const KEY_ID: &str = "AKIATURNTREETESTS";

/// The bucket that it has.
pub const BUCKET: &str = "agents";

/// How long it waits for the id of the process to kill.
const PATIENCE: Duration = Duration::from_secs(120);

/// A request, as the plan sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The number of requests, including this one.
    pub number: u64,
    /// The method.
    pub method: String,
    /// The key. Empty for requests about the bucket.
    pub key: String,
    /// True if it is a write with a condition.
    pub is_conditional: bool,
}

/// The fault of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing is done, and the answer has this status and code.
    Refused(u16, &'static str),
    /// Nothing is done, and the connection ends.
    RequestLost,
    /// The request is done, and the connection ends without an answer.
    AnswerLost,
    /// The request is done twice, and the second answer is returned.
    SentTwice,
    /// The client is killed before it is done.
    KilledBefore,
    /// The client is killed after it was done, before it gets the answer.
    KilledAfter,
    /// The client is terminated after it was done, before it gets the answer. A background job may
    /// ignore the signal of Ctrl-C, and this one ends a process in the same way.
    Interrupted,
    /// The request is done, and the answer is this page.
    Page(&'static str),
    /// Nothing is done, and the client is redirected.
    Redirected(&'static str),
    /// The answer is this many bytes longer, or shorter, than its length header.
    Length(i64),
    /// The answer never ends.
    Endless,
}

type Plan = Box<dyn FnMut(&Request) -> Option<Trouble> + Send>;

/// A server; it ends with its last handle.
pub struct ObjectServer(Arc<Shared>);

struct Shared {
    address: SocketAddr,
    state: Mutex<State>,
    victim: Mutex<Option<u32>>,
    has_victim: Condvar,
    is_over: AtomicBool,
}

#[derive(Default)]
struct State {
    storage: Storage,
    requests: Requests,
    number: u64,
    plan: Option<Plan>,
}

/// The objects of a server at a moment.
#[derive(Debug, Clone)]
pub struct SavedObjects(BTreeMap<String, Vec<u8>>);

impl ObjectServer {
    /// Starts a server.
    ///
    /// # Panics
    /// If loopback has no port.
    #[must_use]
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut state = State::default();
        state.storage.buckets.insert(BUCKET.to_owned());
        let shared = Arc::new(Shared {
            address: listener.local_addr().expect("an address"),
            state: Mutex::new(state),
            victim: Mutex::new(None),
            has_victim: Condvar::new(),
            is_over: AtomicBool::new(false),
        });
        let server = Arc::clone(&shared);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                if server.is_over.load(Ordering::Relaxed) {
                    break;
                }
                let (Ok(connection), server) = (connection, Arc::clone(&server)) else { continue };
                // Tests cause these errors.
                std::thread::spawn(move || drop(server.converse(&connection)));
            }
        });
        Self(shared)
    }

    /// The URL of a remote in its bucket.
    #[must_use]
    pub fn url(&self, prefix: &str) -> String {
        format!("s3://{BUCKET}/{prefix}?region=test-1&endpoint={}", self.endpoint())
    }

    /// The address.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.0.address)
    }

    /// The environment variables of clients.
    #[must_use]
    pub fn environment(&self) -> [(&'static str, String); 2] {
        [("AWS_ACCESS_KEY_ID", KEY_ID.to_owned()), ("AWS_SECRET_ACCESS_KEY", "of tests".to_owned())]
    }

    /// Sets the plan, which decides about later requests.
    pub fn plan(&self, plan: impl FnMut(&Request) -> Option<Trouble> + Send + 'static) {
        self.0.state().plan = Some(Box::new(plan));
    }

    /// Removes the plan.
    pub fn calm(&self) {
        self.0.state().plan = None;
        *self.0.victim.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Sets the process that the plan kills.
    pub fn aim(&self, process: u32) {
        *self.0.victim.lock().unwrap_or_else(PoisonError::into_inner) = Some(process);
        self.0.has_victim.notify_all();
    }

    /// The number of received requests.
    #[must_use]
    pub fn requests(&self) -> Requests {
        self.0.state().requests
    }

    /// Ignores the conditions of writes, or checks them.
    pub fn ignore_conditions(&self, ignores: bool) {
        self.0.state().storage.ignores_conditions = ignores;
    }

    /// The objects by their keys.
    #[must_use]
    pub fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        let root = format!("{BUCKET}/");
        let all = self.0.state().storage.objects.clone().into_iter();
        all.filter_map(|(path, bytes)| Some((path.strip_prefix(&root)?.to_owned(), bytes)))
            .collect()
    }

    /// Writes or deletes an object directly. The key need not be valid.
    pub fn set(&self, key: &str, bytes: Option<&[u8]>) {
        let (path, mut state) = (format!("{BUCKET}/{key}"), self.0.state());
        match bytes {
            Some(bytes) => drop(state.storage.objects.insert(path, bytes.to_vec())),
            None => drop(state.storage.objects.remove(&path)),
        }
    }

    /// Saves every object.
    #[must_use]
    pub fn save(&self) -> SavedObjects {
        SavedObjects(self.0.state().storage.objects.clone())
    }

    /// Restores saved objects.
    pub fn restore(&self, saved: &SavedObjects) {
        self.0.state().storage.objects.clone_from(&saved.0);
    }
}

impl Drop for ObjectServer {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(self.0.address));
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a client until the client or a fault ends the connection.
    fn converse(&self, connection: &TcpStream) -> io::Result<()> {
        connection.set_nodelay(true)?;
        let (mut from, mut to) = (BufReader::new(connection), connection);
        while let Some(asked) = http::read(&mut from, &mut to)? {
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            let is_head = asked.method == "HEAD";
            match self.decide(&asked) {
                Some((answer, 0)) => answer.write(&mut to, answer.body.len(), is_head)?,
                Some((answer, lie)) => {
                    let length = answer.body.len().saturating_add_signed(lie as isize);
                    answer.write(&mut to, length, is_head)?;
                    break;
                }
                None => break,
            }
        }
        connection.shutdown(Shutdown::Both)
    }

    /// Does the request or its planned fault. Returns the answer and the error of its length.
    fn decide(&self, asked: &Asked) -> Option<(Answered, i64)> {
        let mut state = self.state();
        state.number += 1;
        let trouble = state.trouble(asked);
        let mut answer = || {
            let answer = state.answer(asked);
            state.requests.bytes_read += answer.body.len() as u64;
            answer
        };
        match trouble {
            None => Some((answer(), 0)),
            Some(Trouble::Refused(status, code)) => Some((Answered::error(status, code), 0)),
            Some(Trouble::RequestLost) => None,
            Some(Trouble::AnswerLost) => {
                answer();
                None
            }
            Some(Trouble::SentTwice) => {
                answer();
                Some((answer(), 0))
            }
            Some(Trouble::KilledBefore) => {
                drop(state);
                self.kill(Signal::KILL);
                None
            }
            Some(Trouble::KilledAfter) => {
                answer();
                drop(state);
                self.kill(Signal::KILL);
                None
            }
            Some(Trouble::Interrupted) => {
                answer();
                drop(state);
                self.kill(Signal::TERM);
                None
            }
            Some(Trouble::Page(page)) => {
                answer();
                let page = Answered { body: page.into(), ..Answered::new(200) };
                Some((page.with("Content-Type", "text/html"), 0))
            }
            Some(Trouble::Redirected(to)) => Some((Answered::new(307).with("Location", to), 0)),
            Some(Trouble::Length(more)) => Some((answer(), more)),
            Some(Trouble::Endless) => {
                let mut answer = answer();
                answer.body.resize(answer.body.len() + (64 << 20), b'x');
                Some((answer, 0))
            }
        }
    }

    /// Kills the aimed process once it is known, and waits for its end: before it receives the
    /// signal, a client could retry and succeed.
    fn kill(&self, signal: Signal) {
        let victim = self.victim.lock().unwrap_or_else(PoisonError::into_inner);
        let waited =
            self.has_victim.wait_timeout_while(victim, PATIENCE, |victim| victim.is_none());
        let (victim, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let pid = victim.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        drop(victim);
        let Some(pid) = pid else { return };
        // It may have ended already. Its parent, which is this process, reaps it later.
        let _ = kill_process(pid, signal);
        let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
    }
}

impl State {
    fn trouble(&mut self, asked: &Asked) -> Option<Trouble> {
        let path = asked.path.trim_start_matches('/');
        let request = Request {
            number: self.number,
            method: asked.method.clone(),
            key: path.split_once('/').map(|(_, key)| key.to_owned()).unwrap_or_default(),
            is_conditional: ["if-match", "if-none-match"]
                .iter()
                .any(|name| asked.method == "PUT" && asked.headers.contains_key(*name)),
        };
        self.count(&request, asked.body.len() as u64);
        self.plan.as_mut().and_then(|plan| plan(&request))
    }

    fn count(&mut self, request: &Request, bytes: u64) {
        self.requests.bytes_written += bytes;
        let count = match (request.method.as_str(), request.key.is_empty()) {
            ("GET", true) => &mut self.requests.lists,
            ("GET" | "HEAD", _) => &mut self.requests.gets,
            ("DELETE", _) | ("POST", true) => &mut self.requests.deletes,
            _ if request.is_conditional => &mut self.requests.puts,
            _ => &mut self.requests.uploads,
        };
        *count += 1;
    }

    fn answer(&mut self, asked: &Asked) -> Answered {
        let signed = format!("AWS4-HMAC-SHA256 Credential={KEY_ID}/");
        let is_signed =
            asked.headers.get("authorization").is_some_and(|value| value.starts_with(&signed));
        if is_signed {
            self.storage.answer(asked)
        } else {
            Answered::error(403, "InvalidAccessKeyId")
        }
    }
}

impl std::fmt::Debug for ObjectServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ObjectServer").field(&self.0.address).finish()
    }
}
