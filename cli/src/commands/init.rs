//! `init`: creates a store.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use turntree::Error;
use turntree::local::create_repository;
use turntree::store::EncryptionChange;

use super::Verb;
use crate::porcelain::broad_directory::expect_narrow;
use crate::porcelain::store::encryption::{FirstHolders, encrypt};
use crate::program::age_keys::Sealing;
use crate::program::global::STORE_DIR;
use crate::program::invocation::{Invocation, found_from, is_absent};
use crate::program::trust::note_made;
use crate::view::error::{Answer, Result};
use crate::view::json;
use crate::view::output::note;
use crate::view::render::{count, size};

/// Create a store
///
/// Creates the directory .turntree in DIR, or the one given by --store. Commands in DIR or below
/// use this store. In the home directory it would replace the user's own store for everything
/// below, so that is refused without --allow-broad. It contains a .gitignore that excludes it from
/// a surrounding git repository.
///
/// With --encrypt, nothing in it is readable without its key: see 'turntree key'. An existing store
/// is then encrypted: every file is rewritten, and no other process can commit during that time. A
/// lost key is a lost store.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree init
  turntree init ~/project
  turntree init --encrypt
  turntree init --encrypt --passphrase
  turntree --store /srv/agents.turntree init")]
pub(crate) struct Init {
    /// The directory for the store; the working directory by default
    #[arg(value_hint = clap::ValueHint::DirPath)]
    dir: Option<PathBuf>,
    /// Allow the home directory, a directory above it, or /: every directory below then uses the
    /// store
    #[arg(long)]
    allow_broad: bool,
    /// Encrypt the store, a new or an existing one; by default for your own key, which is created
    /// if you have none
    #[arg(long)]
    encrypt: bool,
    #[command(flatten)]
    sealing: Sealing,
    /// Print the files of an existing store that --encrypt would rewrite
    #[arg(long, short = 'n', requires = "encrypt")]
    dry_run: bool,
}

impl Verb for Init {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let store = match (&self.dir, run.named_store()) {
            (None, Some(store)) => store.to_owned(),
            (dir, _) => dir.clone().unwrap_or_default().join(STORE_DIR),
        };
        let is_new = is_absent(&store)?;
        let own = store.parent().filter(|_| store.ends_with(STORE_DIR));
        if let Some(folder) = own.filter(|_| is_new || !self.encrypt) {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            expect_narrow(folder, self.allow_broad)?;
        }
        if self.sealing.is_asked_for() && !self.encrypt {
            let message = "keys were given without --encrypt";
            return Err(Error::invalid(message).into());
        }
        if is_new && self.dry_run {
            return Err(
                Error::not_found(format!("there is no store in {}", store.display())).into()
            );
        }
        // Missing keys are reported before anything is created.
        let first =
            (is_new && self.encrypt).then(|| FirstHolders::of(&self.sealing)).transpose()?;
        if !is_new
            && self.encrypt
            && !self.dry_run
            && (self.dir.is_some() || run.named_store().is_none())
        {
            let dir = self.dir.as_deref().unwrap_or(Path::new("."));
            found_from(dir)?.map_or(Ok(()), |location| location.refuse_untrusted())?;
        }
        if is_new || !self.encrypt {
            note_made(&create_repository(&store)?);
        }
        let done = match self.encrypt {
            true => Some(encrypt(&store, &self.sealing, first, self.dry_run)?),
            false => None,
        };
        let store = store.display().to_string();
        if run.out.json {
            let encryption = done.map(|(change, key)| json::KeyChanged {
                key,
                dry_run: self.dry_run,
                files: change.files,
                bytes: change.bytes,
            });
            run.out.record(&json::Initialised { store, encryption })?;
            return Ok(Answer::Yes);
        }
        match done {
            Some(_) if is_new => writeln!(run.out, "made an empty, encrypted store in {store}")?,
            Some((EncryptionChange { files, bytes }, _)) => {
                let verb = if self.dry_run { "would encrypt" } else { "encrypted" };
                writeln!(run.out, "{verb} {} in {store}, {}", count(files, "file"), size(bytes))?;
            }
            None => writeln!(run.out, "made an empty store in {store}")?,
        }
        if self.encrypt && !self.dry_run {
            note("without its key, this store cannot be opened: keep a copy of the key elsewhere");
        }
        Ok(Answer::Yes)
    }
}
