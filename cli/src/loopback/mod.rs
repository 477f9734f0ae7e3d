//! HTTP servers for this machine alone: those of `view` and of `replay`.
//!
//! | file | job |
//! |---|---|
//! | `guard.rs` | the names of a server, its keys, and refusals |
//! | `body.rs` | bodies of requests and answers |
//!
//! A server listens on 127.0.0.1. It has a limited number of connections, each of which has a
//! limited time to send a request.

mod body;
mod guard;

use std::future::Future;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use getrandom::getrandom;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore};
use turntree::{Error, Result};

pub(crate) use self::body::{Body, Part, whole};
pub(crate) use self::guard::{Hosts, Refusal, is_same, only, too_large};

/// Maximum bytes of a request line and headers.
const MAX_HEAD: usize = 16 << 10;

/// How long unfinished answers may take when a server ends.
const END_TIME: Duration = Duration::from_secs(1);

/// Bytes of a key.
const KEY_BYTES: usize = 32;

/// Sent to connections above the limit.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// The limits of a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Concurrent connections.
    pub(crate) connections: usize,
    /// The time in which the head of a request must arrive, and in which an open connection must
    /// send the next.
    pub(crate) head_time: Duration,
}

/// What a server answers.
pub(crate) trait Site: Send + Sync + 'static {
    /// Answers a request.
    fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Body>> + Send;
}

/// Answers requests until `ending` is notified.
///
/// # Errors
/// `Io` if the system does not let this process serve.
pub(crate) fn serve<S: Site>(
    site: &Arc<S>,
    listener: TcpListener,
    limits: Limits,
    ending: &Notify,
) -> Result<()> {
    let failed = |error| Error::io("serve", error);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(limits.connections)
        .build()
        .map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let served = runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).map_err(failed)?;
        tokio::spawn(accept(Arc::clone(site), listener, limits));
        ending.notified().await;
        Ok(())
    });
    runtime.shutdown_timeout(END_TIME);
    served
}

/// A new key: 256 random bits as hexadecimal digits.
///
/// # Errors
/// `Io` if the system has no random bits.
pub(crate) fn new_key() -> Result<String> {
    let mut bytes = [0; KEY_BYTES];
    let made = getrandom(&mut bytes);
    made.map_err(|error| Error::io("make a key", std::io::Error::from(error)))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

async fn accept<S: Site>(site: Arc<S>, listener: tokio::net::TcpListener, limits: Limits) {
    let free = Arc::new(Semaphore::new(limits.connections));
    loop {
        // Both errors are temporary: a connection that was closed again, or too many descriptors.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let Ok(place) = Arc::clone(&free).try_acquire_owned() else {
            let _ = stream.try_write(FULL);
            continue;
        };
        let site = Arc::clone(&site);
        tokio::spawn(async move {
            talk(site, stream, limits).await;
            drop(place);
        });
    }
}

async fn talk<S: Site>(site: Arc<S>, stream: TcpStream, limits: Limits) {
    let answer = move |request| {
        let site = Arc::clone(&site);
        async move { Ok::<_, std::convert::Infallible>(site.answer(request).await) }
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service_fn(answer));
    // Errors are ignored: the client may disconnect at any time.
    let _ = connection.await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_256_bits_and_are_others_each_time() {
        let (one, other) = (new_key().unwrap(), new_key().unwrap());
        assert_eq!(one.len(), 64);
        assert_ne!(one, other);
    }
}
