//! Answers on their way: whole documents, and lines that go out while they are written.

use std::convert::Infallible;
use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::Frame;
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

use super::guard::Refusal;
use crate::view::error::{Exit, Failure, Result};

/// Bytes that go out together, and the longest that fewer wait.
const CHUNK: usize = 16 << 10;
const CHUNK_TIME: Duration = Duration::from_millis(20);

/// Chunks that wait for whoever reads.
const WAITING: usize = 4;

/// The longest time that one waits, and how often it is tried.
const PATIENCE: Duration = Duration::from_secs(30);
const TRY: Duration = Duration::from_millis(2);

/// The kind of documents.
const HTML: &str = "text/html; charset=utf-8";

/// The policy of what is no document.
const NOTHING: &str = "default-src 'none'; frame-ancestors 'none'";

/// The body of an answer.
pub(super) enum Body {
    /// All of it, until it is taken.
    Whole(Option<Bytes>),
    /// The first part until it is taken, and those that come.
    Stream(Option<Bytes>, Receiver<Part>),
}

/// The kind of an answer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Content {
    /// One JSON value.
    Document,
    /// One a line.
    Lines,
}

/// A part of an answer.
pub(super) enum Part {
    Bytes(Bytes),
    /// It has failed before anything of it was sent.
    Failed(Refusal),
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Infallible>>> {
        let frame = |bytes| Ok(Frame::data(bytes));
        match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(frame)),
            Self::Stream(first, rest) => match first.take() {
                Some(first) => Poll::Ready(Some(frame(first))),
                None => rest.poll_recv(context).map(|part| match part {
                    Some(Part::Bytes(bytes)) => Some(frame(bytes)),
                    Some(Part::Failed(_)) | None => None,
                }),
            },
        }
    }
}

impl Content {
    const fn media(self) -> &'static str {
        match self {
            Self::Document => "application/json",
            Self::Lines => "application/x-ndjson",
        }
    }
}

/// The document.
pub(super) fn document(page: &LivePage) -> Response<Body> {
    let html = Bytes::from(page.html.clone());
    response(StatusCode::OK, HTML, &page.policy, Body::Whole(Some(html)))
}

/// The script of screens that are not shown first.
pub(super) fn script(page: &LivePage) -> Response<Body> {
    let script = Bytes::from(page.screens.clone());
    response(StatusCode::OK, "text/javascript; charset=utf-8", NOTHING, Body::Whole(Some(script)))
}

/// The answer to what is not answered.
pub(super) fn refusal(refused: &Refusal) -> Response<Body> {
    let said = serde_json::json!({ "message": refused.message }).to_string();
    let body = Body::Whole(Some(said.into()));
    let mut response = response(refused.status, Content::Document.media(), NOTHING, body);
    if refused.status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
    }
    response
}

/// The same to a person who has opened an address: in words, with a way back.
pub(super) fn note(refused: &Refusal) -> Response<Body> {
    let page = note_page(&refused.message);
    let body = Body::Whole(Some(page.html.into()));
    response(refused.status, HTML, &page.policy, body)
}

/// The answer to a change.
pub(super) fn value(value: &impl Serialize) -> Response<Body> {
    let body = Body::Whole(serde_json::to_vec(value).ok().map(Bytes::from));
    response(StatusCode::OK, Content::Document.media(), NOTHING, body)
}

/// Lines that somebody else sends.
pub(super) fn stream(parts: Receiver<Part>) -> Response<Body> {
    let body = Body::Stream(None, parts);
    response(StatusCode::OK, Content::Lines.media(), NOTHING, body)
}

/// The answer that `write` writes on a thread of its own, which goes out meanwhile.
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

/// An answer that is being written. It goes out in chunks, those of a slow answer sooner.
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

    /// Whether nobody reads the answer any more.
    pub(super) fn is_left(&self) -> bool {
        self.sender.is_closed()
    }

    /// Sends what is left, and says what went wrong: instead of the answer, or in its last line.
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
        // Whoever has left needs nothing more.
        let _ = self.flush();
    }

    /// Hands a part over; whoever does not take it for long is as good as gone.
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

/// What a failure is to a browser.
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
