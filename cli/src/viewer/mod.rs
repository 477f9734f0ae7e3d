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

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::Notify;
use turntree::Error;
use turntree_exchange::render::{LivePage, live_page};

use self::guard::Guard;
use self::lines::{Content, document, note, refusal, script};
use self::plans::Changes;
use self::routes::{ChangeStep, Question, Route, change_step};
use self::store::WatchedStore;
use crate::loopback::{Body, Limits, Refusal, Site, serve, whole};
use crate::platform::on_request_to_end;
use crate::program::invocation::Location;
use crate::view::error::Result;

/// A browser opens six connections.
const LIMITS: Limits = Limits { connections: 32, head_time: READ_TIME };

/// Maximum bytes of a change.
const MAX_CHANGE: u64 = 1 << 20;

/// The time in which a request must arrive.
const READ_TIME: Duration = Duration::from_secs(10);

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
        self.store.watch();
        let served = serve(self, listener, LIMITS, &self.ending);
        // Waits for a change in progress, so that no file is left half written.
        drop(self.changes.as_ref().map(Changes::quiet));
        Ok(served?)
    }

    async fn respond(self: &Arc<Self>, request: Request<Incoming>) -> Response<Body> {
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
        let read = tokio::time::timeout(READ_TIME, whole(request.into_body(), MAX_CHANGE));
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

impl Site for Viewer {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        self.respond(request).await
    }
}

/// Ends the server on the next signal that asks this process to end.
fn end_on_signals(ending: &Arc<Notify>) -> Result<()> {
    let ending = Arc::clone(ending);
    let watched = on_request_to_end(move || ending.notify_one());
    Ok(watched.map_err(|error| Error::io("watch for signals", error))?)
}
