//! `init`: makes a store.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use turntree::local::create_repository;

use super::Verb;
use crate::program::invocation::{Invocation, STORE_DIR};
use crate::view::error::{Answer, Result};
use crate::view::json;

/// Make a store
///
/// Makes the directory .turntree in DIR, or the one that --store names. Commands that run in DIR or
/// below it use this store. It holds a .gitignore that excludes it from a git repository around it.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree init
  turntree init ~/project
  turntree --store /srv/agents.turntree init")]
pub(crate) struct Init {
    /// The directory that gets a store; the working directory by default
    #[arg(value_hint = clap::ValueHint::DirPath)]
    dir: Option<PathBuf>,
}

impl Verb for Init {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let store = match (&self.dir, run.named_store()) {
            (None, Some(store)) => store.to_owned(),
            (dir, _) => dir.clone().unwrap_or_default().join(STORE_DIR),
        };
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
