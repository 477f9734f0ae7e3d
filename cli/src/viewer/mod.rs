//! The server of `view`: one page for all sessions of a store, on this machine alone.
//!
//! | file | job |
//! |---|---|
//! | `guard.rs` | who may ask, and how |
//! | `routes.rs` | what was asked, by the address |
//! | `answers.rs` | the answers: sessions, turns, texts and messages |
//! | `hits.rs` | those of searches: words by their index, text as it stands |
//! | `screens.rs` | those beside the story: files with blame, storage and pins, operations |
//! | `change.rs` | a change: what it would do, and doing that |
//! | `plans.rs` | plans that wait until somebody says so, once, and for the state they were made for |
//! | `lines.rs` | an answer on its way, while it is written |
//! | `store.rs` | the store, and what others commit to it |
//!
//! It listens on 127.0.0.1 and takes GET alone, from pages that it has served and that know its key;
//! where changes are allowed also two addresses of POST. A document has no data in it; all that stands
//! in a store goes out as JSON. Requests are read and answered on one thread, and what reads the store
//! runs on threads beside it.

mod answers;
mod change;
mod guard;
mod hits;
mod lines;
mod plans;
mod routes;
mod screens;
mod store;

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
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore};
use turntree::Error;
use turntree_exchange::render::{LivePage, live_page};

use self::guard::{Guard, Refusal, too_large};
use self::lines::{Body, Content, document, note, refusal, script};
use self::plans::Changes;
use self::routes::{ChangeStep, Question, Route, change_step};
use self::store::WatchedStore;
use crate::program::invocation::Location;
use crate::view::error::Result;

/// Connections at a time. A browser opens six.
const MAX_CONNECTIONS: usize = 32;

/// Most bytes of a request before its body, which it must not have.
const MAX_HEAD: usize = 16 << 10;

/// Most bytes of a change that is asked for.
const MAX_CHANGE: u64 = 1 << 20;

/// The time in which a request must have come, and in which a connection asks again.
const READ_TIME: Duration = Duration::from_secs(10);

/// The time that answers under way get when the server ends.
const END_TIME: Duration = Duration::from_secs(1);

/// Written to whoever comes while there are too many.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// Whether a store is looked after once it was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Maintenance {
    On,
    Off,
}

/// A server of one store.
pub(crate) struct Viewer {
    guard: Guard,
    page: LivePage,
    store: Arc<WatchedStore>,
    /// None where it only shows.
    changes: Option<Changes>,
    /// Notified once a signal has asked this process to end.
    ending: Arc<Notify>,
}

impl Viewer {
    /// A server of a store that listens on `port` and is asked with `key`, and makes the changes that
    /// its page asks for where it `allows` them. A signal that asks this process to end from now on is
    /// kept for [`Self::serve`].
    ///
    /// # Errors
    /// `Io` when signals cannot be watched for.
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

    /// Answers until a signal asks this process to end.
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
        // A change at work is done first, so that no file is left half way.
        drop(self.changes.as_ref().map(Changes::quiet));
        Ok(served?)
    }

    async fn accept(self: Arc<Self>, listener: tokio::net::TcpListener) {
        let free = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            // A connection that is gone again, or no more descriptors: both pass.
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
        // Whoever leaves in the middle has heard enough.
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

    /// Plans or makes a change, on a thread of its own.
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

    /// Answers from the store, on a thread of its own.
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

/// All of a body that is no larger than a change may be.
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

/// From now on a signal that asks this process to end ends the server.
fn end_on_signals(ending: &Arc<Notify>) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|error| Error::io("watch for signals", error))?;
    let ending = Arc::clone(ending);
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            ending.notify_one();
        }
    });
    Ok(())
}
