//! Operations for programs, one file each: a typed request in, a typed answer out.
//!
//! `mcp` and `serve` use the same table [`OPERATIONS`], so a tool, a method and their schemas are
//! the same, and answers are `--json` records where these exist. A call uses the handle that the
//! server holds open, after it has read the commits of other processes. A call that may change
//! something waits for other such calls, and gives up its segment of the journal at its end. So any
//! number of servers, commands and collections can use a store concurrently, and each answer is
//! that of a freshly opened store.
//!
//! Answers are bounded: lists end after `limit` items and give the offset of the rest, texts are
//! cut.

mod branch;
mod compact;
mod compare;
mod diff;
mod explore_start;
mod explore_status;
mod exploring;
mod export;
mod ids;
mod lessons;
mod lines;
mod log;
pub(crate) mod mcp;
mod merge;
mod offload;
mod outline;
mod page;
mod pin;
mod plan;
mod read_vfs;
mod resolve;
pub(crate) mod resource;
mod restore;
pub(crate) mod rpc;
mod schema;
mod search;
mod sessions;
mod show;
mod snapshot;
mod spiral;
mod status;
mod tag;
mod undo;

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clap_complete::ArgValueCompleter;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use turntree::object::ObjectId;
use turntree::repo::{BranchName, DEFAULT_SESSION, MAIN_BRANCH, Repository};
use turntree::{Error, ErrorKind};
use turntree_exchange::SecretFilter;

use crate::platform::on_request_to_end;
use crate::porcelain::read::revision::branch_of;
use crate::program::complete::{revisions, sessions};
use crate::program::held_store::HeldStore;
use crate::program::here::Here;
use crate::program::invocation::{Invocation, Location, Opened, Way, act, is_absent, open};
use crate::program::live::client_session;
use crate::view::error::{Exit, Result};

use exploring::{Exploring, ExploringOptions};
pub(crate) use ids::Ids;

/// Every operation, in order of use.
pub(crate) const OPERATIONS: [Operation; 24] = [
    operation::<status::StatusArguments>(),
    operation::<snapshot::SnapshotArguments>(),
    operation::<sessions::SessionsArguments>(),
    operation::<log::LogArguments>(),
    operation::<outline::OutlineArguments>(),
    operation::<show::ShowArguments>(),
    operation::<diff::DiffArguments>(),
    operation::<search::SearchArguments>(),
    operation::<branch::BranchArguments>(),
    operation::<merge::MergeArguments>(),
    operation::<resolve::ResolveArguments>(),
    operation::<compare::CompareArguments>(),
    operation::<explore_start::ExploreStartArguments>(),
    operation::<explore_status::ExploreStatusArguments>(),
    operation::<restore::RestoreArguments>(),
    operation::<undo::UndoArguments>(),
    operation::<tag::TagArguments>(),
    operation::<pin::PinArguments>(),
    operation::<export::ExportArguments>(),
    operation::<compact::CompactArguments>(),
    operation::<offload::OffloadArguments>(),
    operation::<read_vfs::ReadVfsArguments>(),
    operation::<spiral::SpiralArguments>(),
    operation::<lessons::LessonsArguments>(),
];

/// The effect of an operation on the store and the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// None.
    Looks,
    /// It adds content; `undo` reverts that.
    Adds,
    /// It adds content, and runs the command of the server's options.
    Runs,
    /// It adds content, and some of its forms only read.
    MayAdd,
    /// It may overwrite and delete files of the workspace; some of its forms only read.
    MayReplace,
}

/// The arguments of an operation.
trait Request: DeserializeOwned + JsonSchema {
    /// The answer.
    type Answer: Serialize + JsonSchema;
    const NAME: &'static str;
    const TITLE: &'static str;
    /// A description for models and people.
    const ABOUT: &'static str;
    const EFFECT: Effect;

    fn answer(self, call: &ServiceCall<'_>) -> Result<Self::Answer>;
}

/// An operation in the table.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) about: &'static str,
    pub(crate) effect: Effect,
    /// Schema of the arguments, an object.
    pub(crate) input: fn() -> schema::SchemaObject,
    /// Schema of the answer, an object.
    pub(crate) output: fn() -> schema::SchemaObject,
    run: fn(&ServiceCall<'_>, Value) -> Result<Value>,
}

const fn operation<R: Request>() -> Operation {
    Operation {
        name: R::NAME,
        title: R::TITLE,
        about: R::ABOUT,
        effect: R::EFFECT,
        input: schema::of_arguments::<R>,
        output: schema::of_answer::<R::Answer>,
        run: run::<R>,
    }
}

fn run<R: Request>(call: &ServiceCall<'_>, arguments: Value) -> Result<Value> {
    let arguments =
        if arguments.is_null() { Value::Object(schema::SchemaObject::new()) } else { arguments };
    let request: R = serde_json::from_value(arguments)
        .map_err(|error| Error::invalid(format!("arguments of {}: {error}", R::NAME)))?;
    let answer = serde_json::to_value(request.answer(call)?);
    Ok(answer.map_err(|error| Error::new(ErrorKind::Io, format!("write the answer: {error}")))?)
}

/// The branch named by options, in a store that does not exist yet.
fn branch_of_new_store(session: Option<&str>, branch: Option<&str>) -> Result<BranchName> {
    let word = branch.unwrap_or(MAIN_BRANCH);
    let named: BranchName = match (session, word.split_once('/')) {
        (None, Some(_)) => word.parse()?,
        (Some(session), Some((first, _))) if first == session => word.parse()?,
        (session, _) => BranchName::new(session.unwrap_or(DEFAULT_SESSION), word)?,
    };
    named.check_new()?;
    Ok(named)
}

/// Options of a server: the branch and workspace of its calls, and their limits.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Options {
    /// Act on a branch of this session instead of HEAD's; main by default
    #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(sessions))]
    session: Option<String>,
    /// Act on this branch instead of HEAD's
    #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(revisions))]
    branch: Option<String>,
    /// Directory that snapshots capture and restores write to; none by default
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    workspace: Option<PathBuf>,
    /// Refuse calls that change the store or files
    #[arg(long)]
    read_only: bool,
    #[command(flatten)]
    exploring: ExploringOptions,
}

/// A server: a store, with the branch and workspace of its calls.
#[derive(Debug)]
pub(crate) struct Service {
    store: HeldStore,
    maintains: bool,
    /// The branch to act on, instead of HEAD's.
    branch: Mutex<Option<BranchName>>,
    workspace: Option<PathBuf>,
    /// The place of its calls: the workspace, otherwise the directory where it was started.
    here: Option<Here>,
    pub(crate) read_only: bool,
    /// Set if its client may explore.
    exploring: Option<Exploring>,
    ids: Ids,
    /// Held by a call that may change something.
    changing: Mutex<()>,
}

/// A call, with its store.
#[derive(Debug)]
struct ServiceCall<'s> {
    service: &'s Service,
    /// True for a read-only call.
    looks: bool,
    repo: OnceCell<Arc<Repository>>,
    /// The store of a call that may change it.
    opened: OnceCell<Opened>,
}

impl Service {
    /// A read-only server of the store in `dir`.
    pub(crate) fn looking(dir: &Path) -> Self {
        Self {
            store: HeldStore::new(Location {
                dir: dir.to_owned(),
                found: "given",
                way: Way::Meant,
            }),
            maintains: false,
            branch: Mutex::default(),
            workspace: None,
            here: None,
            read_only: true,
            exploring: None,
            ids: Ids::Whole,
            changing: Mutex::default(),
        }
    }

    /// A server of the store that a run of the program uses.
    pub(crate) fn new(run: &Invocation, options: &Options, ids: Ids) -> Result<Self> {
        let Options { session, branch, workspace, read_only, exploring } = options;
        let workspace = workspace.as_deref().map(absolute).transpose()?;
        let mut location = run.locate_from(workspace.as_deref())?.trusted_or_own()?;
        location.dir = absolute(&location.dir)?;
        location.found = "the store of this server";
        let dir = workspace.clone().or_else(|| std::env::current_dir().ok());
        let here = dir.and_then(|dir| Here::new(&dir, &location.dir));
        let branch = match (session.as_deref(), branch.as_deref()) {
            (None, None) => None,
            (session, branch) if is_absent(&location.dir)? => {
                Some(branch_of_new_store(session, branch)?)
            }
            (session, branch) => {
                let repo = act(open(&location)?, here.clone())?;
                Some(branch_of(&repo, session, branch)?)
            }
        };
        Ok(Self {
            store: HeldStore::new(location),
            maintains: run.may_maintain(),
            branch: Mutex::new(branch),
            workspace,
            here,
            read_only: *read_only,
            exploring: Exploring::new(exploring),
            ids,
            changing: Mutex::default(),
        })
    }

    /// The operation called `name`, if this server offers it.
    pub(crate) fn operation(&self, name: &str) -> Option<&'static Operation> {
        self.operations().find(|operation| operation.name == name)
    }

    /// Lists the operations that this server offers.
    pub(crate) fn operations(&self) -> impl Iterator<Item = &'static Operation> {
        let offered = |operation: &&Operation| match operation.effect {
            Effect::Adds => !self.read_only,
            Effect::Runs => self.exploring.is_some(),
            Effect::Looks | Effect::MayAdd | Effect::MayReplace => true,
        };
        OPERATIONS.iter().filter(offered)
    }

    /// Calls an operation. A call that may change something waits for other such calls, and is not
    /// started if the client has cancelled it by then.
    pub(crate) fn call(
        &self,
        operation: &Operation,
        arguments: Value,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Value> {
        let cancelled = || Error::new(ErrorKind::Conflict, "cancelled before it began").into();
        if operation.effect == Effect::Looks {
            return match is_cancelled() {
                true => Err(cancelled()),
                false => self.look(|call| call.run(operation, arguments.clone())),
            };
        }
        let turn = self.quiet();
        if is_cancelled() {
            return Err(cancelled());
        }
        let call = ServiceCall::new(self, false);
        let answer = call.run(operation, arguments);
        let opened = call.opened.into_inner();
        if answer.is_err() {
            // The files may have been damaged or replaced: the next call opens them again.
            self.store.let_go();
        }
        if let Some(repo) = call.repo.get() {
            repo.store().release_segment();
        }
        // Released first, so that the next change can begin while this call is delayed.
        drop((call.repo, turn));
        if let Some(opened) = opened.filter(|_| self.maintains) {
            opened.look_after_and_reap();
        }
        answer
    }

    /// Answers from the open store. Damage may have been repaired since it was opened, so on damage
    /// `work` runs again on a reopened store.
    fn look<T>(&self, work: impl Fn(&ServiceCall<'_>) -> Result<T>) -> Result<T> {
        match work(&ServiceCall::new(self, true)) {
            Err(failure) if failure.is_corrupt() => {
                self.store.let_go();
                work(&ServiceCall::new(self, true))
            }
            answered => answered,
        }
    }

    /// Returns the directory of the store.
    fn dir(&self) -> &Path {
        &self.store.location().dir
    }

    /// The server's own branch, if it has one.
    fn own_branch(&self) -> MutexGuard<'_, Option<BranchName>> {
        self.branch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the server's own branch.
    fn set_own_branch(&self, branch: Option<BranchName>) {
        *self.own_branch() = branch;
        // The open handle acts on the previous branch.
        self.store.let_go();
    }

    /// Prepares an opened store for calls.
    fn prepare(&self, repo: Repository) -> Result<Repository> {
        let own = self.own_branch().clone();
        let repo = match own {
            Some(branch) => repo.acting_on(branch),
            None => act(repo, self.here.clone())?,
        };
        Ok(repo.filtering(Arc::new(SecretFilter::new(false))))
    }

    /// Ends the server's work: waits for the change in progress, and blocks others. An exploration
    /// that its client started is asked to end.
    pub(crate) fn end(&self) -> MutexGuard<'_, ()> {
        let quiet = self.quiet();
        if let Some(exploring) = &self.exploring {
            exploring.end();
        }
        quiet
    }

    /// Waits for the change in progress, and blocks other changes.
    pub(crate) fn quiet(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'s> ServiceCall<'s> {
    fn new(service: &'s Service, looks: bool) -> Self {
        Self { service, looks, repo: OnceCell::new(), opened: OnceCell::new() }
    }

    /// Runs an operation, with ids in the form of the server.
    fn run(&self, operation: &Operation, arguments: Value) -> Result<Value> {
        let mut answer = (operation.run)(self, arguments)?;
        if let (Ids::Short, Some(repo)) = (self.service.ids, self.repo.get()) {
            ids::shorten(&mut answer, repo);
        }
        Ok(answer)
    }

    /// Opens the store, which must exist.
    fn open(&self) -> Result<Arc<Repository>> {
        let service = self.service;
        let repo = service.store.repo(|repo| service.prepare(repo))?;
        match self.looks {
            true => Ok(Arc::clone(self.repo.get_or_init(|| repo))),
            false => Ok(self.remember(repo)),
        }
    }

    /// Returns true if [`ServiceCall::open_or_create`] would create the store.
    fn would_create(&self) -> Result<bool> {
        is_absent(self.service.dir())
    }

    /// Opens or creates the store.
    fn open_or_create(&self) -> Result<Arc<Repository>> {
        match self.would_create()? {
            true => {
                let created = self.service.store.location().create()?;
                Ok(self.remember(Arc::new(self.service.prepare(created)?)))
            }
            false => self.open(),
        }
    }

    fn remember(&self, repo: Arc<Repository>) -> Arc<Repository> {
        let opened = || Opened::new(repo, self.service.dir().to_owned());
        let opened = self.opened.get_or_init(opened);
        Arc::clone(self.repo.get_or_init(|| Arc::clone(&opened.repo)))
    }

    /// Returns true if this server acts on its own branch and leaves HEAD alone. That is also so if
    /// a client started it, for the client's session.
    fn has_own_branch(&self) -> bool {
        self.service.own_branch().is_some() || client_session().is_some()
    }

    /// The place of this server's calls, if known.
    fn here(&self) -> Option<&Here> {
        self.service.here.as_ref()
    }

    fn exploring(&self) -> Option<&Exploring> {
        self.service.exploring.as_ref()
    }

    fn workspace(&self) -> Option<&Path> {
        self.service.workspace.as_deref()
    }

    /// Refuses a change on a read-only server.
    fn check_may_change(&self) -> Result<()> {
        match self.service.read_only {
            false => Ok(()),
            true => {
                let message = "this server is read-only: it was started to change nothing";
                Err(Error::new(ErrorKind::Unsupported, message).into())
            }
        }
    }
}

/// Makes a signal that asks this process to end wait for the change in progress, and then ends the
/// process.
pub(crate) fn end_on_signals(service: &Arc<Service>) -> Result<()> {
    let service = Arc::clone(service);
    let watched = on_request_to_end(move || {
        let _quiet = service.end();
        // The other threads may block on input forever. There is nothing left to write: a change is
        // either durable or not started.
        std::process::exit(Exit::Success as i32);
    });
    Ok(watched.map_err(|error| Error::io("watch for signals", error))?)
}

fn absolute(dir: &Path) -> Result<PathBuf> {
    let found = std::path::absolute(dir);
    Ok(found.map_err(|error| Error::io(format!("find {}", dir.display()), error))?)
}

/// Parses the cursor of a previous answer.
fn parse_cursor(cursor: Option<&str>) -> Result<Option<ObjectId>> {
    let parse = |text: &str| {
        let expected = "expected the next_cursor of the answer before";
        text.parse().map_err(|_| Error::invalid(format!("cursor '{text}': {expected}")))
    };
    Ok(cursor.map(parse).transpose()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients put every tool with its schemas into the prompt of each turn, and agents choose
    /// worse among many tools. So all tools together take fewer bytes than the first twelve did
    /// with full schemas.
    #[test]
    fn operations_have_their_own_names_and_the_list_of_tools_is_bounded() {
        let mut names: Vec<&str> = OPERATIONS.iter().map(|operation| operation.name).collect();
        let bytes = |operation: &Operation| serde_json::to_string(&mcp::tool(operation, false));
        let offered = OPERATIONS.iter().filter(|operation| operation.effect != Effect::Runs);
        let bytes: usize = offered.map(|found| bytes(found).unwrap().len()).sum();
        assert!(bytes <= 38 << 10, "{bytes} bytes");
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), OPERATIONS.len());
    }

    #[test]
    fn schemas_are_objects_that_stand_for_themselves() {
        for operation in &OPERATIONS {
            for schema in [(operation.input)(), (operation.output)()] {
                let name = operation.name;
                assert_eq!(schema.get("type"), Some(&Value::from("object")), "{name}");
                let text = serde_json::to_string(&schema).unwrap();
                // A property may be named `format`; the schema keyword has a string value.
                let has_format = text.contains("\"format\":\"");
                assert!(!text.contains("$ref") && !has_format, "{name}: {text}");
            }
            let input = (operation.input)();
            assert_eq!(input.get("additionalProperties"), Some(&Value::Bool(false)));
            let text = serde_json::to_string(&input).unwrap();
            assert!(!text.contains("null\"") && !text.contains("anyOf"), "{text}");
        }
    }
}
