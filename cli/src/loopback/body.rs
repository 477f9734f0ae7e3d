//! Bodies of requests and answers.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::StatusCode;
use hyper::body::{Body as _, Frame, Incoming};
use tokio::sync::mpsc::Receiver;

use super::guard::{Refusal, too_large};

/// The body of an answer.
pub(crate) enum Body {
    /// The whole body, until it is taken.
    Whole(Option<Bytes>),
    /// The first part until it is taken, and the parts after it.
    Stream(Option<Bytes>, Receiver<Part>),
}

/// A part of an answer.
pub(crate) enum Part {
    Bytes(Bytes),
    /// The answer failed before any of it was sent.
    Failed(Refusal),
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
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

/// Reads a whole body of at most `most` bytes.
pub(crate) async fn whole(body: Incoming, most: u64) -> Result<Vec<u8>, Refusal> {
    let (mut body, mut bytes) = (pin!(body), Vec::new());
    while let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
        let gone =
            |_| Refusal::new(StatusCode::BAD_REQUEST, "the request did not arrive completely");
        if let Ok(data) = frame.map_err(gone)?.into_data() {
            bytes.extend_from_slice(&data);
        }
        if bytes.len() as u64 > most {
            return Err(too_large(most));
        }
    }
    Ok(bytes)
}
