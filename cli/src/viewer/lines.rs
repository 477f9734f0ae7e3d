//! Sends answers: whole documents, and lines that are sent while they are written.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};
use serde::Serialize;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use turntree::Error;
use turntree_exchange::render::{LivePage, note_page};

use crate::loopback::{Body, Part, Refusal};
use crate::view::error::{Exit, Failure, Result};

/// Bytes that are sent together, and how long fewer bytes wait.
const CHUNK: usize = 16 << 10;
const CHUNK_TIME: Duration = Duration::from_millis(20);

/// Chunks that may wait for a slow reader.
const WAITING: usize = 4;

/// How long to wait for a slow reader, and the interval between attempts.
const PATIENCE: Duration = Duration::from_secs(30);
const TRY: Duration = Duration::from_millis(2);

/// The media type of documents.
const HTML: &str = "text/html; charset=utf-8";

/// The content security policy of answers other than documents.
const NOTHING: &str = "default-src 'none'; frame-ancestors 'none'";

/// The format of an answer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Content {
    /// One JSON value.
    Document,
    /// One JSON value a line.
    Lines,
}

impl Content {
    const fn media(self) -> &'static str {
        match self {
            Self::Document => "application/json",
            Self::Lines => "application/x-ndjson",
        }
    }
}

/// The response with the document.
pub(super) fn document(page: &LivePage) -> Response<Body> {
    let html = Bytes::from(page.html.clone());
    response(StatusCode::OK, HTML, &page.policy, Body::Whole(Some(html)))
}

/// The response with the script of screens that are not shown first.
pub(super) fn script(page: &LivePage) -> Response<Body> {
    let script = Bytes::from(page.screens.clone());
    response(StatusCode::OK, "text/javascript; charset=utf-8", NOTHING, Body::Whole(Some(script)))
}

/// The response to a refused request, as JSON.
pub(super) fn refusal(refused: &Refusal) -> Response<Body> {
    let said = serde_json::json!({ "message": refused.message }).to_string();
    let body = Body::Whole(Some(said.into()));
    let mut response = response(refused.status, Content::Document.media(), NOTHING, body);
    if refused.status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
    }
    response
}

/// The response to a refused request of a person who opened an address: a page with a link back.
pub(super) fn note(refused: &Refusal) -> Response<Body> {
    let page = note_page(&refused.message);
    let body = Body::Whole(Some(page.html.into()));
    response(refused.status, HTML, &page.policy, body)
}

/// The response to a change.
pub(super) fn value(value: &impl Serialize) -> Response<Body> {
    let body = Body::Whole(serde_json::to_vec(value).ok().map(Bytes::from));
    response(StatusCode::OK, Content::Document.media(), NOTHING, body)
}

/// A response whose lines arrive in a channel.
pub(super) fn stream(parts: Receiver<Part>) -> Response<Body> {
    let body = Body::Stream(None, parts);
    response(StatusCode::OK, Content::Lines.media(), NOTHING, body)
}

/// The response that `write` writes on its own thread; it is sent while it is written.
pub(super) async fn written<W>(content: Content, write: W) -> Response<Body>
where
    W: FnOnce(&mut Lines) -> Result<()> + Send + 'static,
{
    let (sender, mut parts) = channel(WAITING);
    tokio::task::spawn_blocking(move || {
        let mut lines = Lines::new(sender);
        let done = write(&mut lines);
        lines.finish(done);
    });
    match parts.recv().await {
        Some(Part::Failed(refused)) => refusal(&refused),
        first => {
            let first = first.and_then(|part| match part {
                Part::Bytes(bytes) => Some(bytes),
                Part::Failed(_) => None,
            });
            response(StatusCode::OK, content.media(), NOTHING, Body::Stream(first, parts))
        }
    }
}

fn response(status: StatusCode, media: &str, policy: &str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let same_origin = HeaderValue::from_static("same-origin");
    let text = |text: &str| HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""));
    let headers = [
        (CONTENT_TYPE, text(media)),
        (CONTENT_SECURITY_POLICY, text(policy)),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (HeaderName::from_static("cross-origin-resource-policy"), same_origin.clone()),
        (HeaderName::from_static("cross-origin-opener-policy"), same_origin),
    ];
    response.headers_mut().extend(headers);
    response
}

/// An answer being written. It is sent in chunks; those of a slow answer are sent sooner.
pub(super) struct Lines {
    sender: Sender<Part>,
    chunk: Vec<u8>,
    sent: Instant,
    has_begun: bool,
}

impl Lines {
    fn new(sender: Sender<Part>) -> Self {
        Self { sender, chunk: Vec::new(), sent: Instant::now(), has_begun: false }
    }

    /// Writes a whole answer.
    pub(super) fn put(&mut self, value: &impl Serialize) -> Result<()> {
        self.write_all(&json_of(value)?).map_err(Failure::Output)
    }

    /// Writes a line of an answer.
    pub(super) fn put_line(&mut self, value: &impl Serialize) -> Result<()> {
        let mut line = json_of(value)?;
        line.push(b'\n');
        self.write_all(&line).map_err(Failure::Output)
    }

    /// Returns true if the client has stopped reading the answer.
    pub(super) fn is_left(&self) -> bool {
        self.sender.is_closed()
    }

    /// Sends the remaining bytes, and the error if there was one: as the answer, or as its last
    /// line.
    fn finish(mut self, done: Result<()>) {
        let failed = done.err().filter(|failure| !matches!(failure, Failure::Output(_)));
        if let Some(failure) = &failed {
            if !self.has_begun {
                let refused = Refusal::new(status(failure), failure.message());
                let _ = self.send(Part::Failed(refused));
                return;
            }
            let said = serde_json::json!({ "message": failure.message() });
            self.chunk.extend_from_slice(format!("e{said}\n").as_bytes());
        }
        // A client that disconnected needs no rest.
        let _ = self.flush();
    }

    /// Queues a part. A client that reads nothing for a long time counts as disconnected.
    fn send(&self, mut part: Part) -> io::Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            part = match self.sender.try_send(part) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(part)) if Instant::now() < until => part,
                Err(_) => return Err(io::ErrorKind::BrokenPipe.into()),
            };
            std::thread::sleep(TRY);
        }
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.chunk.extend_from_slice(bytes);
        let is_late = bytes.ends_with(b"\n") && self.sent.elapsed() >= CHUNK_TIME;
        if self.chunk.len() >= CHUNK || is_late {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sent = Instant::now();
        let chunk = std::mem::take(&mut self.chunk);
        if chunk.is_empty() {
            return Ok(());
        }
        self.has_begun = true;
        self.send(Part::Bytes(chunk.into()))
    }
}

fn json_of(value: &impl Serialize) -> Result<Vec<u8>> {
    let written = serde_json::to_vec(value);
    Ok(written.map_err(|error| Error::invalid("the answer").with_source(error))?)
}

/// The status code of a failure.
pub(super) fn status(failure: &Failure) -> StatusCode {
    match failure.exit() {
        Exit::NotFound => StatusCode::NOT_FOUND,
        Exit::Usage => StatusCode::BAD_REQUEST,
        Exit::Conflict | Exit::Locked => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_left_is_noticed_before_anything_is_written() {
        let (sender, parts) = channel(WAITING);
        let lines = Lines::new(sender);
        assert!(!lines.is_left());
        drop(parts);
        assert!(lines.is_left());
    }
}
