//! `init`: makes a store.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use turntree::local::create_repository;

use super::Verb;
use crate::porcelain::broad_directory::expect_narrow;
use crate::program::global::STORE_DIR;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};
use crate::view::json;

/// Make a store
///
/// Makes the directory .turntree in DIR, or the one that --store names. Commands that run in DIR or
/// below it use this store. In the home directory it would take the place of the user's own store for all
/// that is below, so that is refused without --allow-broad. It holds a .gitignore that excludes it from a git repository around it.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree init
  turntree init ~/project
  turntree --store /srv/agents.turntree init")]
pub(crate) struct Init {
    /// The directory that gets a store; the working directory by default
    #[arg(value_hint = clap::ValueHint::DirPath)]
    dir: Option<PathBuf>,
    /// Allow the home directory, a directory above it, or /: every directory below uses the store then
    #[arg(long)]
    allow_broad: bool,
}

impl Verb for Init {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let store = match (&self.dir, run.named_store()) {
            (None, Some(store)) => store.to_owned(),
            (dir, _) => dir.clone().unwrap_or_default().join(STORE_DIR),
        };
        if let Some(folder) = store.parent().filter(|_| store.ends_with(STORE_DIR)) {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            expect_narrow(folder, self.allow_broad)?;
        }
        create_repository(&store)?;
        let store = store.display().to_string();
        if run.out.json {
            run.out.record(&json::Initialised { store })?;
        } else {
            writeln!(run.out, "made an empty store in {store}")?;
        }
        Ok(Answer::Yes)
    }
}
