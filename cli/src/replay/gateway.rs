//! Decides on requests: a recorded answer, a refusal, or the real model.

use std::net::TcpListener;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::Notify;
use turntree::{Error, Result};
use turntree_exchange::replay::{
    Difference, Endpoint, Interface, Purpose, Recording, Reply, Request as Asked, Verdict, models,
    refusal,
};

use super::forward::{Arrived, Upstream, forward};
use super::tally::{Tally, first_line};
use crate::loopback::{Body, Hosts, Limits, Refusal, Site, is_same, serve, whole};

/// A client has a connection for each request that runs, and some for side requests.
const LIMITS: Limits = Limits { connections: 64, head_time: Duration::from_secs(60) };

/// Maximum bytes of a request. A conversation with pictures has tens of MiB.
const MAX_REQUEST: u64 = 64 << 20;

/// The time in which a request must arrive.
const READ_TIME: Duration = Duration::from_secs(60);

/// What happens to a request that differs or goes beyond the recording.
#[derive(Debug)]
pub(crate) enum Then {
    Refuse,
    Forward(Upstream),
}

/// A gateway for one client.
#[derive(Debug)]
pub(crate) struct Gateway {
    hosts: Hosts,
    port: u16,
    key: String,
    recording: Recording,
    /// True if a result of a tool that is not the recorded one is a difference.
    is_strict: bool,
    then: Then,
    tally: Mutex<Tally>,
    ending: Notify,
}

/// What to do with a request.
enum Decision {
    Answer(Reply),
    Refuse(Reply),
    Forward,
}

impl Gateway {
    /// Creates a gateway for a recording on `port`, with the key `key`.
    pub(crate) fn new(
        port: u16,
        key: String,
        recording: Recording,
        is_strict: bool,
        then: Then,
    ) -> Self {
        let (hosts, tally, ending) = (Hosts::new(port), Mutex::default(), Notify::new());
        Self { hosts, port, key, recording, is_strict, then, tally, ending }
    }

    /// The address for clients, without an end.
    pub(crate) fn address(&self) -> String {
        format!("http://127.0.0.1:{}/{}", self.port, self.key)
    }

    /// Answers requests until [`Self::end`].
    pub(crate) fn serve(self: &Arc<Self>, listener: TcpListener) -> Result<()> {
        serve(self, listener, LIMITS, &self.ending)
    }

    /// Ends the server.
    pub(crate) fn end(&self) {
        self.ending.notify_one();
    }

    /// What happened so far.
    pub(crate) fn tally(&self) -> Tally {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn respond(
        self: &Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Refusal> {
        self.hosts.check(&request)?;
        let path = self.path_after_key(request.uri().path())?.to_owned();
        if request.method() == Method::HEAD {
            return Ok(response(StatusCode::OK, models(), true));
        }
        if request.method() == Method::GET && path.contains("/models") {
            return Ok(response(StatusCode::OK, models(), false));
        }
        let query = request.uri().query().map(str::to_owned);
        let endpoint = Endpoint::of(&path, query.as_deref());
        let Some(endpoint) = endpoint.filter(|_| request.method() == Method::POST) else {
            let message = format!("{} {path} is no address of an answer", request.method());
            return Err(Refusal::new(StatusCode::NOT_FOUND, message));
        };
        let coding = request.headers().get(CONTENT_ENCODING);
        if coding.is_some_and(|coding| coding != "identity") {
            let message = "the request is compressed: expected one that is not";
            return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
        }
        let headers = request.headers().clone();
        let late =
            |_| Refusal::new(StatusCode::REQUEST_TIMEOUT, "the request did not arrive in time");
        let read = tokio::time::timeout(READ_TIME, whole(request.into_body(), MAX_REQUEST));
        let body = read.await.map_err(late)??;
        let interface = endpoint.interface;
        let path = query.map_or(path.clone(), |query| format!("{path}?{query}"));
        let arrived = Arrived { interface, path, headers, body };
        let gateway = Arc::clone(self);
        let decided = tokio::task::spawn_blocking(move || {
            let decision = gateway.decide(&endpoint, &arrived.body);
            (decision, arrived)
        });
        let failed = |_| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the answer failed");
        let (decision, arrived) = decided.await.map_err(failed)?;
        Ok(match (decision, &self.then) {
            (Decision::Answer(reply), _) => response(StatusCode::OK, reply, false),
            (Decision::Forward, Then::Forward(upstream)) => {
                let sent = forward(upstream, arrived).await;
                sent.unwrap_or_else(|refused| {
                    self.lock().failed = Some(refused.message.clone());
                    response(refused.status, refusal(Some(interface), &refused.message), false)
                })
            }
            (Decision::Refuse(reply), _) => response(StatusCode::BAD_REQUEST, reply, false),
            (Decision::Forward, Then::Refuse) => {
                let reply = refusal(Some(interface), "nothing is forwarded");
                response(StatusCode::BAD_REQUEST, reply, false)
            }
        })
    }

    /// The path of an interface. Other processes of this machine do not know the key.
    fn path_after_key<'p>(&self, path: &'p str) -> Result<&'p str, Refusal> {
        let rest = path.strip_prefix('/').unwrap_or_default();
        let (key, _) = rest.split_once('/').unwrap_or((rest, ""));
        if !is_same(key.as_bytes(), self.key.as_bytes()) {
            let message = "expected the key of this gateway, which its command has";
            return Err(Refusal::new(StatusCode::UNAUTHORIZED, message));
        }
        Ok(rest.get(key.len()..).unwrap_or_default())
    }

    fn decide(&self, endpoint: &Endpoint, body: &[u8]) -> Decision {
        let interface = endpoint.interface;
        if endpoint.purpose == Purpose::Count {
            return Decision::Answer(Reply::count(interface, body.len()));
        }
        let asked = match Asked::parse(endpoint, body) {
            Ok(asked) => asked,
            Err(error) => {
                self.lock().refused += 1;
                return Decision::Refuse(refusal(Some(interface), &error.to_string()));
            }
        };
        let verdict = self.recording.verdict(&asked);
        let mut tally = self.lock();
        match verdict {
            Verdict::Recorded { answer, number, results } => {
                if let Some(result) = self.strict(&results) {
                    return self.differs(&mut tally, interface, result);
                }
                tally.add_results(results);
                tally.requests += 1;
                tally.served.extend(number);
                Decision::Answer(self.recording.reply(&asked, answer, number))
            }
            Verdict::Beyond { results } => {
                if let Some(result) = self.strict(&results) {
                    return self.differs(&mut tally, interface, result);
                }
                tally.add_results(results);
                let message = "turntree replay: the recording ends here";
                self.go_on(&mut tally, interface, message)
            }
            Verdict::Differs(difference) => self.differs(&mut tally, interface, difference),
            Verdict::Aside if tally.is_over() && matches!(self.then, Then::Forward(_)) => {
                tally.forwarded += 1;
                Decision::Forward
            }
            Verdict::Aside => {
                tally.asides += 1;
                Decision::Answer(self.recording.reply_aside(&asked))
            }
        }
    }

    /// The first result that ends the replay.
    fn strict(&self, results: &[Difference]) -> Option<Difference> {
        results.first().filter(|_| self.is_strict).cloned()
    }

    fn differs(&self, tally: &mut Tally, interface: Interface, difference: Difference) -> Decision {
        let message = first_line(&difference);
        let message = format!("turntree replay: the request is not the recorded one {message}");
        tally.difference.get_or_insert(difference);
        self.go_on(tally, interface, &message)
    }

    fn go_on(&self, tally: &mut Tally, interface: Interface, message: &str) -> Decision {
        match self.then {
            Then::Forward(_) => {
                tally.forwarded += 1;
                Decision::Forward
            }
            Then::Refuse => {
                tally.refused += 1;
                Decision::Refuse(refusal(Some(interface), message))
            }
        }
    }
}

impl Site for Gateway {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let refused =
            |refused: Refusal| response(refused.status, refusal(None, &refused.message), false);
        self.respond(request).await.unwrap_or_else(refused)
    }
}

fn response(status: StatusCode, reply: Reply, is_head: bool) -> Response<Body> {
    let body = (!is_head).then(|| reply.body.into());
    let mut response = Response::new(Body::Whole(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(reply.media));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

impl Then {
    /// The address to forward to, or a refusal.
    ///
    /// # Errors
    /// `Unsupported` if this program was built without a client for HTTP.
    pub(crate) fn of(forwards: bool, upstream: Option<&str>) -> Result<Self> {
        match (forwards, cfg!(feature = "storage")) {
            (false, _) => Ok(Self::Refuse),
            (true, true) => Ok(Self::Forward(Upstream::of(upstream)?)),
            (true, false) => {
                let message = "this build cannot forward requests: expected the feature storage";
                Err(Error::new(turntree::ErrorKind::Unsupported, message))
            }
        }
    }
}
