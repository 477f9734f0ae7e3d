//! `clone`: creates a store with everything from a remote.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use turntree::context::MessagePolicy;
use turntree::local::create_repository;
use turntree::repo::check_remote_name;
use turntree::{Error, ErrorKind};
use turntree_exchange::formats::tool_use;

use super::fetch::{Wanted, fetch};
use crate::commands::Verb;
use crate::porcelain::broad_directory::expect_narrow;
use crate::porcelain::transfer::new_remotes::FoundRemote;
use crate::porcelain::transfer::remotes::ORIGIN;
use crate::program::directory_map::{MappedDirectory, add_pairs, parse_pair};
use crate::program::global::STORE_DIR;
use crate::program::here::Here;
use crate::program::invocation::{Invocation, act, is_absent, stamp};
use crate::program::trust::{Standing, note_remotes};
use crate::view::error::{Answer, Failure, Hint, Result};
use crate::view::json;
use crate::view::render::{count, size};

/// Clone a remote into a new store
///
/// Creates the directory .turntree in DIR, or the one given by --store, fetches every session, and
/// creates branches for them. HEAD points to the branch with the newest turn. With --lazy the clone
/// is fast for any size of remote: content read later is kept in a cache of at most 256 MB, and
/// 'turntree fetch --whole' fetches the rest.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree clone /mnt/share/agents
  turntree clone /mnt/share/agents ~/project
  turntree clone --lazy s3://agents/team
  turntree --store /srv/agents.turntree clone /mnt/share/agents")]
pub(crate) struct CloneRemote {
    /// s3://BUCKET/PREFIX, gs://, az://, postgres://USER@HOST/DATABASE/PREFIX, ssh://HOST/PATH, HOST:PATH, or the path of a folder
    #[arg(value_name = "URL", value_hint = clap::ValueHint::DirPath)]
    url: String,
    /// The directory for the store; the working directory by default
    #[arg(value_hint = clap::ValueHint::DirPath)]
    dir: Option<PathBuf>,
    /// Fetch only the history of large content, and read the rest from the remote on demand
    #[arg(long)]
    lazy: bool,
    /// Local name of the remote
    #[arg(long, value_name = "NAME", default_value = ORIGIN)]
    name: String,
    /// Map the directories of another computer, as 'turntree session map' does; may be given several
    /// times
    #[arg(long, value_name = "OLD=NEW", value_parser = parse_pair)]
    map: Vec<MappedDirectory>,
    /// Allow the home directory, a directory above it, or /: every directory below then uses the
    /// store
    #[arg(long)]
    allow_broad: bool,
}

impl Verb for CloneRemote {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        check_remote_name(&self.name)?;
        let store = match (&self.dir, run.named_store()) {
            (None, Some(store)) => store.to_owned(),
            (dir, _) => dir.clone().unwrap_or_default().join(STORE_DIR),
        };
        if !is_absent(&store)? {
            return Err(Failure::hinted(
                Error::invalid(format!("there is a store in {}", store.display())),
                "'turntree remote add' and 'turntree fetch' copy a remote into it",
            ));
        }
        let own = store.parent().filter(|_| store.ends_with(STORE_DIR));
        if let Some(folder) = own {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            expect_narrow(folder, self.allow_broad)?;
        }
        // Nothing is created before a remote was found.
        let found = FoundRemote::at(&self.url, &self.name)?;
        let created = create_repository(&store)?;
        let dir = std::path::absolute(self.dir.as_deref().unwrap_or(Path::new(".")))
            .map_err(|error| Error::io("find the directory", error))?;
        let repo = act(created, Here::new(&dir, &store))?;
        let (connection, survey) = found.adopt(&repo, &self.name, self.lazy, &stamp()?)?;
        note_remotes(&repo, &Standing::Trusted);
        let go_on = "everything fetched so far is in the store: 'turntree sync --all' continues";
        let fetched =
            fetch(&repo, &connection, &Wanted::Surveyed(&survey)).hint(ErrorKind::Io, go_on)?;
        let mut branches = 0;
        for session in repo.remote_sessions(&self.name) {
            let followed = connection
                .with(&repo, |remote| remote.follow(&session, &MessagePolicy::Append, &tool_use))?;
            branches += followed.len() as u64;
        }
        let newest = repo
            .branches()
            .into_iter()
            .max_by_key(|(_, tip)| repo.commit(tip).map_or(i64::MIN, |commit| commit.time.micros));
        if let Some((branch, _)) = newest {
            let mut change = repo.begin();
            change.switch(&branch);
            change.commit(&stamp()?, &format!("begin at {branch}"))?;
        }
        add_pairs(&self.map)?;
        let bytes = fetched.iter().map(|fetched| fetched.bytes).sum();
        let sessions = fetched.len() as u64;
        let (store, remote) = (store.display().to_string(), self.name.clone());
        if run.out.json {
            run.out.record(&json::Cloned { store, remote, sessions, branches, bytes })?;
            return Ok(Answer::Yes);
        }
        let (sessions, branches) = (count(sessions, "session"), count(branches, "branch"));
        writeln!(run.out, "made a store in {store}: {sessions}, {branches}, {}", size(bytes))?;
        Ok(Answer::Yes)
    }
}
