//! The names of a server, its keys, and refusals.

use hyper::header::{HOST, HeaderMap};
use hyper::{Request, StatusCode};

/// The names of this machine that a client may request.
const NAMES: [&str; 2] = ["127.0.0.1", "localhost"];

/// The accepted values of `Host`, with the port. A page of another name that resolves to this
/// machine cannot set `Host`.
#[derive(Debug)]
pub(crate) struct Hosts([String; 2]);

/// A refused request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }
}

impl Hosts {
    /// The names of a server on `port`.
    pub(crate) fn new(port: u16) -> Self {
        Self(NAMES.map(|name| format!("{name}:{port}")))
    }

    /// Refuses a request for another name.
    pub(crate) fn check<B>(&self, request: &Request<B>) -> Result<(), Refusal> {
        let headers = request.headers();
        let asked = only(headers, HOST.as_str());
        let is_ours = |name: &str| self.0.iter().any(|host| host == name);
        let authority = request.uri().authority().map(hyper::http::uri::Authority::as_str);
        if !asked.is_some_and(is_ours) || !authority.is_none_or(is_ours) {
            let message = format!("this server is {}", self.0.join(" and "));
            return Err(Refusal::new(StatusCode::MISDIRECTED_REQUEST, message));
        }
        Ok(())
    }

    /// Returns true if an origin is that of this server.
    pub(crate) fn is_own(&self, origin: &[u8]) -> bool {
        self.0.iter().any(|host| format!("http://{host}").as_bytes() == origin)
    }
}

/// The refusal of a body of more than `most` bytes.
pub(crate) fn too_large(most: u64) -> Refusal {
    let message = format!("a request has at most {most} bytes");
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, message)
}

/// The value of a header that occurs exactly once.
pub(crate) fn only<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    if values.next().is_some() { None } else { first.to_str().ok() }
}

/// Compares keys in constant time.
pub(crate) fn is_same(given: &[u8], key: &[u8]) -> bool {
    let differs = given.iter().zip(key).fold(0, |all, (a, b)| all | (a ^ b));
    given.len() == key.len() && differs == 0
}
