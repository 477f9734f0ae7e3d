//! Operations for programs, one file each: a typed request in, a typed answer out.
//!
//! `mcp` and `serve` answer from the one table [`OPERATIONS`], so a tool, a method and its schemas are
//! the same thing, and answers are the records of `--json` where these have one. A call that only looks
//! is given the handle that the server holds open, once that has seen what others did; a call that may
//! change something opens the store as a command does, and waits for others of its kind. So any number of
//! servers, commands and collections work on a store at once, and each answer is that of a store opened
//! just now.
//!
//! An answer is bounded: lists end after `limit` items and say where they go on, texts are cut where
//! the next part begins.

mod branch;
mod compact;
mod compare;
mod diff;
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

use clap_complete::ArgValueCandidates;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use turntree::object::ObjectId;
use turntree::repo::{BranchName, DEFAULT_SESSION, MAIN_BRANCH, Repository};
use turntree::{Error, ErrorKind};
use turntree_exchange::SecretFilter;

use crate::porcelain::revision::branch_of;
use crate::program::complete::{revisions, sessions};
use crate::program::held_store::HeldStore;
use crate::program::here::Here;
use crate::program::invocation::{Invocation, Location, Opened, Way, act, is_absent, open};
use crate::program::live::client_session;
use crate::view::error::{Exit, Result};

pub(crate) use ids::Ids;

/// Every operation, in the order of work.
pub(crate) const OPERATIONS: [Operation; 22] = [
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
    /// Nothing.
    Looks,
    /// It adds to what is there; `undo` takes that back.
    Adds,
    /// The same, and some of its forms only look.
    MayAdd,
    /// It may overwrite and delete files of the workspace; some of its forms only look.
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

/// An operation, ready to be listed and called.
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

/// The branch that options name in a store that is not there yet.
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
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(sessions))]
    session: Option<String>,
    /// Act on this branch instead of HEAD's
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(revisions))]
    branch: Option<String>,
    /// Directory that snapshots capture and restores write to; none by default
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    workspace: Option<PathBuf>,
    /// Refuse calls that change the store or files
    #[arg(long)]
    read_only: bool,
}

/// A server: a store, and what its calls act on.
#[derive(Debug)]
pub(crate) struct Service {
    store: HeldStore,
    maintains: bool,
    /// The branch to act on, instead of HEAD's.
    branch: Mutex<Option<BranchName>>,
    workspace: Option<PathBuf>,
    /// The place of its calls: that of the workspace, else where it was started.
    here: Option<Here>,
    pub(crate) read_only: bool,
    ids: Ids,
    /// Held by a call that may change something.
    changing: Mutex<()>,
}

/// One call, with the store it is given.
#[derive(Debug)]
struct ServiceCall<'s> {
    service: &'s Service,
    /// Set for a call that changes nothing.
    looks: bool,
    repo: OnceCell<Arc<Repository>>,
    /// The store as a call that may change something opened it.
    opened: OnceCell<Opened>,
}

impl Service {
    /// A server of the store in `dir` that changes nothing.
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
            ids: Ids::Whole,
            changing: Mutex::default(),
        }
    }

    /// A server of the store that a run of the program is about.
    pub(crate) fn new(run: &Invocation, options: &Options, ids: Ids) -> Result<Self> {
        let Options { session, branch, workspace, read_only } = options;
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
            ids,
            changing: Mutex::default(),
        })
    }

    /// The operation called `name`, if there is one and this server offers it.
    pub(crate) fn operation(&self, name: &str) -> Option<&'static Operation> {
        self.operations().find(|operation| operation.name == name)
    }

    /// Lists the operations that this server offers.
    pub(crate) fn operations(&self) -> impl Iterator<Item = &'static Operation> {
        let offered = |operation: &&Operation| !self.read_only || operation.effect != Effect::Adds;
        OPERATIONS.iter().filter(offered)
    }

    /// Calls an operation. One that may change something first waits for the others, and is not begun
    /// when the caller has given up meanwhile.
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
        // The next change may begin while this one is held back.
        drop((call.repo, turn));
        if let Some(opened) = opened.filter(|_| self.maintains) {
            opened.look_after_and_reap();
        }
        answer
    }

    /// Answers from the store that is held open. Damage may have been mended since it was opened, so
    /// `work` is done again on one that is opened anew before damage is the answer.
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

    /// The branch to act on, when it is this server's own.
    fn own_branch(&self) -> MutexGuard<'_, Option<BranchName>> {
        self.branch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Acts on a branch of its own from now on.
    fn set_own_branch(&self, branch: Option<BranchName>) {
        *self.own_branch() = branch;
        // The handle that is held acts on the one before.
        self.store.let_go();
    }

    /// A store that was opened, as calls are given it.
    fn prepare(&self, repo: Repository) -> Result<Repository> {
        let own = self.own_branch().clone();
        let repo = match own {
            Some(branch) => repo.acting_on(branch),
            None => act(repo, self.here.clone())?,
        };
        Ok(repo.filtering(Arc::new(SecretFilter::new(false))))
    }

    /// Keeps every change waiting, once the one at work is done.
    pub(crate) fn quiet(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'s> ServiceCall<'s> {
    fn new(service: &'s Service, looks: bool) -> Self {
        Self { service, looks, repo: OnceCell::new(), opened: OnceCell::new() }
    }

    /// Answers by an operation, with ids as the server shows them.
    fn run(&self, operation: &Operation, arguments: Value) -> Result<Value> {
        let mut answer = (operation.run)(self, arguments)?;
        if let (Ids::Short, Some(repo)) = (self.service.ids, self.repo.get()) {
            ids::shorten(&mut answer, repo);
        }
        Ok(answer)
    }

    /// The store, which must be there.
    fn open(&self) -> Result<Arc<Repository>> {
        let service = self.service;
        match self.looks {
            true => {
                let repo = service.store.repo(|repo| service.prepare(repo))?;
                Ok(Arc::clone(self.repo.get_or_init(|| repo)))
            }
            false => self.remember(open(service.store.location())?),
        }
    }

    /// Returns whether [`ServiceCall::open_or_create`] would make the store.
    fn would_create(&self) -> Result<bool> {
        is_absent(self.service.dir())
    }

    /// Opens the store, or makes it.
    fn open_or_create(&self) -> Result<Arc<Repository>> {
        match self.would_create()? {
            true => self.remember(self.service.store.location().create()?),
            false => self.open(),
        }
    }

    fn remember(&self, repo: Repository) -> Result<Arc<Repository>> {
        let opened = Opened::new(self.service.prepare(repo)?, self.service.dir().to_owned());
        let opened = self.opened.get_or_init(|| opened);
        Ok(Arc::clone(self.repo.get_or_init(|| Arc::clone(&opened.repo))))
    }

    /// Returns whether this server acts on a branch of its own and leaves HEAD alone: also where a
    /// client has started it, for the session of that client.
    fn has_own_branch(&self) -> bool {
        self.service.own_branch().is_some() || client_session().is_some()
    }

    /// The place of the calls of this server, if it is known.
    fn here(&self) -> Option<&Here> {
        self.service.here.as_ref()
    }

    fn workspace(&self) -> Option<&Path> {
        self.service.workspace.as_deref()
    }

    /// Refuses a change on a server that makes none.
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

/// From now on a signal that asks this process to end waits for the change at work, and then does end
/// it, in good order.
pub(crate) fn end_on_signals(service: &Arc<Service>) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|error| Error::io("watch for signals", error))?;
    let service = Arc::clone(service);
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            let _quiet = service.quiet();
            // The other threads wait for input that may never come. Nothing is left to write: a change
            // is durable, or not begun.
            std::process::exit(Exit::Success as i32);
        }
    });
    Ok(())
}

fn absolute(dir: &Path) -> Result<PathBuf> {
    let found = std::path::absolute(dir);
    Ok(found.map_err(|error| Error::io(format!("find {}", dir.display()), error))?)
}

/// Parses the cursor of an earlier answer.
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

    /// Clients put every tool with its schemas into the prompt of each turn, and agents choose worse
    /// among many: all tools take fewer bytes than the first twelve did with whole schemas.
    #[test]
    fn operations_have_their_own_names_and_the_list_of_tools_is_bounded() {
        let mut names: Vec<&str> = OPERATIONS.iter().map(|operation| operation.name).collect();
        let bytes = |operation: &Operation| serde_json::to_string(&mcp::tool(operation, false));
        let bytes: usize = OPERATIONS.iter().map(|found| bytes(found).unwrap().len()).sum();
        assert!(bytes <= 36 << 10, "{bytes} bytes");
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
                // A property may be called so; as a word of a schema it has a text.
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
