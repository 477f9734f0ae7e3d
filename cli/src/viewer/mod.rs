//! The server of `view`: one page for all sessions of a store, on this machine alone.
//!
//! | file | job |
//! |---|---|
//! | `guard.rs` | which requests are answered |
//! | `routes.rs` | parses addresses into questions |
//! | `answers.rs` | the answers: sessions, turns, texts and messages |
//! | `briefs.rs` | briefs of sessions of the list: what their newest turns did |
//! | `known_briefs.rs` | briefs that were read before |
//! | `hits.rs` | answers to searches: words by the index, literal text |
//! | `screens.rs` | answers of other screens: files with blame, storage and pins, operations |
//! | `change.rs` | plans and makes a change |
//! | `plans.rs` | plans that wait for a confirmation, valid once and for one state |
//! | `lines.rs` | sends an answer while it is written |
//! | `store.rs` | the store, watched for commits of other processes |
//! | `waiting.rs` | sessions that are forgotten soon, and secrets that were found |
//!
//! It listens on 127.0.0.1 and accepts only GET, from pages that it served and that know its key;
//! where changes are allowed, it also accepts POST at two addresses. A document contains no data;
//! all data of a store is sent as JSON. One thread reads requests and sends answers; other threads
//! read the store.

mod answers;
mod briefs;
mod change;
mod guard;
mod hits;
mod known_briefs;
mod lines;
mod plans;
mod routes;
mod screens;
mod store;
mod waiting;

use std::future::poll_fn;
use std::net::TcpListener;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore};
use turntree::Error;
use turntree_exchange::render::{LivePage, live_page};

use self::guard::{Guard, Refusal, too_large};
use self::lines::{Body, Content, document, note, refusal, script};
use self::plans::Changes;
use self::routes::{ChangeStep, Question, Route, change_step};
use self::store::WatchedStore;
use crate::platform::on_request_to_end;
use crate::program::invocation::Location;
use crate::view::error::Result;

/// Concurrent connections. A browser opens six.
const MAX_CONNECTIONS: usize = 32;

/// Maximum bytes of a request line and headers.
const MAX_HEAD: usize = 16 << 10;

/// Maximum bytes of a change.
const MAX_CHANGE: u64 = 1 << 20;

/// The time in which a request must arrive, and in which an open connection must send the next.
const READ_TIME: Duration = Duration::from_secs(10);

/// How long unfinished answers may take when the server ends.
const END_TIME: Duration = Duration::from_secs(1);

/// Sent to connections above the limit.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// Whether maintenance runs after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Maintenance {
    On,
    Off,
}

/// A server for one store.
pub(crate) struct Viewer {
    guard: Guard,
    page: LivePage,
    store: Arc<WatchedStore>,
    /// `None` if the server is read-only.
    changes: Option<Changes>,
    /// Notified once a signal asks this process to end.
    ending: Arc<Notify>,
}

impl Viewer {
    /// Creates a server for a store on `port` with the key `key`. It makes changes if it `allows`
    /// them. A signal to end that arrives from now on is kept for [`Self::serve`].
    ///
    /// # Errors
    /// `Io` when signals cannot be watched.
    pub(crate) fn new(
        location: Location,
        port: u16,
        key: String,
        allows: Option<Maintenance>,
    ) -> Result<Arc<Self>> {
        let changes = allows.map(|after| Changes::new(location.clone(), after == Maintenance::On));
        let (guard, store) = (Guard::new(port, key), Arc::new(WatchedStore::new(location)));
        let ending = Arc::new(Notify::new());
        end_on_signals(&ending)?;
        let page = live_page(changes.is_some());
        Ok(Arc::new(Self { guard, page, store, changes, ending }))
    }

    /// Answers requests until a signal asks this process to end.
    pub(crate) fn serve(self: &Arc<Self>, listener: TcpListener) -> Result<()> {
        let failed = |error| Error::io("serve", error);
        self.store.watch();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(MAX_CONNECTIONS)
            .build()
            .map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let served = runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).map_err(failed)?;
            tokio::spawn(Arc::clone(self).accept(listener));
            self.ending.notified().await;
            Ok::<_, Error>(())
        });
        runtime.shutdown_timeout(END_TIME);
        // Waits for a change in progress, so that no file is left half written.
        drop(self.changes.as_ref().map(Changes::quiet));
        Ok(served?)
    }

    async fn accept(self: Arc<Self>, listener: tokio::net::TcpListener) {
        let free = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            // Both errors are temporary: a connection that was closed again, or too many
            // descriptors.
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            let Ok(place) = Arc::clone(&free).try_acquire_owned() else {
                let _ = stream.try_write(FULL);
                continue;
            };
            let viewer = Arc::clone(&self);
            tokio::spawn(async move {
                viewer.talk(stream).await;
                drop(place);
            });
        }
    }

    async fn talk(self: Arc<Self>, stream: TcpStream) {
        let answer = move |request| {
            let viewer = Arc::clone(&self);
            async move { Ok::<_, std::convert::Infallible>(viewer.answer(request).await) }
        };
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(READ_TIME)
            .max_buf_size(MAX_HEAD)
            .serve_connection(TokioIo::new(stream), service_fn(answer));
        // Errors are ignored: the client may disconnect at any time.
        let _ = connection.await;
    }

    async fn answer(self: &Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        if let (&Method::POST, Some(step)) = (request.method(), change_step(request.uri().path())) {
            return self.change(step, request).await.unwrap_or_else(|refused| refusal(&refused));
        }
        if let Err(refused) = self.guard.admit(&request) {
            return refusal(&refused);
        }
        match routes::route(request.uri()) {
            Ok(Route::Page) => document(&self.page),
            Ok(Route::Screens) => script(&self.page),
            Ok(Route::Question(question)) => match self.guard.check_key(request.headers()) {
                Ok(()) => self.look(question).await,
                Err(refused) => refusal(&refused),
            },
            Err(refused) if routes::is_opened(request.headers()) => note(&refused),
            Err(refused) => refusal(&refused),
        }
    }

    /// Plans or makes a change, on its own thread.
    async fn change(
        self: &Arc<Self>,
        step: ChangeStep,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Refusal> {
        self.guard.admit_change(&request, MAX_CHANGE)?;
        if self.changes.is_none() {
            let message =
                "this server is read-only: 'turntree view --allow-changes' allows changes";
            return Err(Refusal::new(StatusCode::FORBIDDEN, message));
        }
        let late =
            |_| Refusal::new(StatusCode::REQUEST_TIMEOUT, "the change did not arrive in time");
        let read = tokio::time::timeout(READ_TIME, whole(request.into_body()));
        let asked = read.await.map_err(late)??;
        let viewer = Arc::clone(self);
        let answered = tokio::task::spawn_blocking(move || {
            let changes = viewer.changes.as_ref()?;
            Some(match step {
                ChangeStep::Plan => changes.plan(&asked).map(|plan| lines::value(&plan)),
                ChangeStep::Do => changes.carry_out(&asked).map(|done| lines::value(&done)),
            })
        });
        let failed = || Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the change failed");
        answered.await.ok().flatten().ok_or_else(failed)?
    }

    /// Answers a question from the store, on its own thread.
    async fn look(self: &Arc<Self>, question: Question) -> Response<Body> {
        if matches!(question, Question::Events) {
            return lines::stream(self.store.subscribe());
        }
        let content = match question.is_of_lines() {
            true => Content::Lines,
            false => Content::Document,
        };
        let viewer = Arc::clone(self);
        lines::written(content, move |out| answers::write(&viewer.store, &question, out)).await
    }
}

/// Reads a whole body. The size was checked before.
async fn whole(body: Incoming) -> Result<Vec<u8>, Refusal> {
    let (mut body, mut bytes) = (pin!(body), Vec::new());
    while let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
        let gone =
            |_| Refusal::new(StatusCode::BAD_REQUEST, "the change did not arrive completely");
        if let Ok(data) = frame.map_err(gone)?.into_data() {
            bytes.extend_from_slice(&data);
        }
        if bytes.len() as u64 > MAX_CHANGE {
            return Err(too_large(MAX_CHANGE));
        }
    }
    Ok(bytes)
}

/// Ends the server on the next signal that asks this process to end.
fn end_on_signals(ending: &Arc<Notify>) -> Result<()> {
    let ending = Arc::clone(ending);
    let watched = on_request_to_end(move || ending.notify_one());
    Ok(watched.map_err(|error| Error::io("watch for signals", error))?)
}
