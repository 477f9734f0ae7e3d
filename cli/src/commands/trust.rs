//! `trust`: trusts stores that came with a folder.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use turntree::Error;

use super::Verb;
use crate::program::invocation::{Invocation, Location, found_from, open_quietly};
use crate::program::trust::{self, TrustRecord};
use crate::view::error::{Answer, Failure, Result};
use crate::view::json;
use crate::view::output::{FAINT, NAME, note};
use crate::view::render::harmless;

/// Trust a store that came with a folder, such as a git clone or an archive
///
/// A store found in a folder is not trusted until this user has created or trusted it, because
/// content written to it goes to its remotes, or into files that git tracks. An untrusted store is
/// only read: commands that write refuse it, hooks use the user's own store, and nothing is pushed
/// or fetched. This command records the store in DIR as trusted with its current remotes; if other
/// remotes are added, it must be trusted again. A store without remotes that git does not track
/// needs no trust. Neither does a store named by --store, but nothing is then pushed automatically.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree trust
  turntree trust ~/project
  turntree trust --list
  turntree trust --remove ~/project")]
pub(crate) struct Trust {
    /// The project, or its directory .turntree; that of the working directory by default
    #[arg(value_hint = clap::ValueHint::DirPath)]
    dir: Option<PathBuf>,
    /// List the recorded stores
    #[arg(long, conflicts_with_all = ["dir", "remove"])]
    list: bool,
    /// Remove the record: the store is not trusted
    #[arg(long)]
    remove: bool,
}

impl Verb for Trust {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        if self.list {
            return list(run);
        }
        if self.remove {
            return self.remove(run);
        }
        let location = self.location(run)?;
        let repo = open_quietly(&location)?;
        trust::record(&repo, location.pointer())?;
        let remotes: Vec<_> = repo.remotes()?.into_iter().collect();
        let remotes = remotes.into_iter().map(|(name, entry)| json::TrustedRemote {
            name,
            url: entry.url,
            auto: entry.auto,
        });
        let store = location.dir.display().to_string();
        let pointer = location.pointer().map(|folder| folder.display().to_string());
        let record =
            json::TrustedStore { store, pointer, trusted: true, remotes: remotes.collect() };
        if run.out.json {
            run.out.record(&record)?;
            return Ok(Answer::Yes);
        }
        let store = run.out.paint.paint(NAME, harmless(&record.store));
        writeln!(run.out, "{store} is trusted")?;
        write_remotes(run, &record.remotes)?;
        Ok(Answer::Yes)
    }
}

impl Trust {
    /// The store to trust.
    fn location(&self, run: &Invocation) -> Result<Location> {
        match &self.dir {
            None => run.locate(),
            Some(dir) => found_from(dir)?.ok_or_else(|| no_store(dir)),
        }
    }

    fn remove(&self, run: &mut Invocation) -> Result<Answer> {
        // A trusted store may have been deleted, so the directory itself is tried too.
        let found = match (&self.dir, self.location(run)) {
            (_, Ok(location)) => [location.pointer().map(Path::to_owned), Some(location.dir)],
            (Some(dir), Err(_)) => {
                [Some(dir.join(crate::program::global::STORE_DIR)), Some(dir.clone())]
            }
            (None, Err(failure)) => return Err(failure),
        };
        let mut removed = false;
        for dir in found.iter().flatten() {
            removed |= trust::forget(dir)?;
        }
        let store = found.into_iter().flatten().next_back().unwrap_or_default();
        let store = store.display().to_string();
        if run.out.json {
            let (pointer, remotes) = (None, Vec::new());
            run.out.record(&json::TrustedStore { store, pointer, trusted: false, remotes })?;
        } else if removed {
            writeln!(run.out, "removed the record of {}", harmless(&store))?;
        } else {
            note(&format!("{store} was not recorded"));
        }
        Ok(if removed { Answer::Yes } else { Answer::No })
    }
}

fn no_store(dir: &Path) -> Failure {
    let message = format!("there is no store at or above {}", dir.display());
    Failure::hinted(Error::not_found(message), "name the directory that has .turntree in it")
}

fn list(run: &mut Invocation) -> Result<Answer> {
    let records = trust::records()?;
    let records = records.into_iter().map(|TrustRecord { path, remotes, elsewhere, .. }| {
        let remotes = remotes.into_iter().map(|(name, remote)| json::TrustedRemote {
            name,
            url: remote.url,
            auto: remote.auto,
        });
        let path = path.display().to_string();
        let (store, pointer) = match elsewhere {
            Some(store) => (store.display().to_string(), Some(path)),
            None => (path, None),
        };
        json::TrustedStore { store, pointer, trusted: true, remotes: remotes.collect() }
    });
    let stores: Vec<_> = records.collect();
    if run.out.json {
        run.out.record(&json::TrustedStores { stores })?;
        return Ok(Answer::Yes);
    }
    if stores.is_empty() {
        note("no store is recorded: 'turntree trust DIR' records one");
    }
    for record in stores {
        let store = run.out.paint.paint(NAME, harmless(&record.store));
        match &record.pointer {
            Some(pointer) => writeln!(run.out, "{store} by {}", harmless(pointer))?,
            None => writeln!(run.out, "{store}")?,
        }
        write_remotes(run, &record.remotes)?;
    }
    Ok(Answer::Yes)
}

fn write_remotes(run: &mut Invocation, remotes: &[json::TrustedRemote]) -> Result<()> {
    for json::TrustedRemote { name, url, auto } in remotes {
        let how =
            if *auto { "every turn is pushed automatically" } else { "only by 'turntree push'" };
        let (name, url) = (harmless(name), harmless(url));
        let how = run.out.paint.paint(FAINT, how);
        writeln!(run.out, "  {name} at {url}: {how}")?;
    }
    Ok(())
}
