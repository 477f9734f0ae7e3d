//! `key`: manages the holders of an encrypted store's key.

use std::io::Write;

use clap::{Args, Subcommand};
use turntree::ErrorKind;
use turntree::local::open_repository;
use turntree::store::EncryptionChange;

use super::Verb;
use crate::porcelain::store::encryption::{
    add_holder, decrypt, plan_rotation, remove_holder, rotate,
};
use crate::program::age_keys::Sealing;
use crate::program::invocation::Invocation;
use crate::program::store_keys::{self, Unlocked, holders};
use crate::view::error::{Answer, Failure, Result};
use crate::view::json;
use crate::view::output::{FAINT, NAME, note};
use crate::view::render::table::{Cell, Column, Table};
use crate::view::render::{count, size};

/// List, add and remove the keys of an encrypted store
///
/// 'turntree init --encrypt' encrypts a store: its files, names and ids are unreadable without its
/// key. The key is wrapped for each holder: for an age key or with a passphrase. The store opens
/// with the secret key in turntree/identity.txt in the user's configuration directory, with the
/// files in TURNTREE_IDENTITY, with the output of the command in TURNTREE_IDENTITY_COMMAND, or with
/// a passphrase from TURNTREE_PASSPHRASE or a prompt. Without any of these keys the store cannot be
/// opened again.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree init --encrypt
  turntree key ls
  turntree key add laptop --encrypt-to age1...
  turntree key rm laptop
  turntree key rotate --dry-run
  turntree key decrypt")]
pub(crate) struct KeyVerbs {
    #[command(subcommand)]
    verb: Option<KeyVerb>,
}

#[derive(Debug, Subcommand)]
enum KeyVerb {
    /// List the holders of the store's key
    #[command(alias = "list")]
    Ls,
    /// Add a key that opens the store
    Add {
        /// Name of the holder
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        sealing: Sealing,
    },
    /// Remove a key that opens the store
    ///
    /// The store gets a new key, and every file is rewritten: the removed holder may have kept the
    /// current key, which still opens older copies.
    Rm {
        /// Name of the holder
        #[arg(value_name = "NAME")]
        name: String,
        /// Keep the key of the store, if the holder cannot have kept it
        #[arg(long)]
        keep_key: bool,
        /// Print the files to rewrite without rewriting them
        #[arg(long, short = 'n')]
        dry_run: bool,
        #[command(flatten)]
        sealing: Sealing,
    },
    /// Give the store a new key, and rewrite every file
    Rotate {
        /// Print the files to rewrite without rewriting them
        #[arg(long, short = 'n')]
        dry_run: bool,
        #[command(flatten)]
        sealing: Sealing,
    },
    /// Decrypt every file of the store
    Decrypt {
        /// Print the files to rewrite without rewriting them
        #[arg(long, short = 'n')]
        dry_run: bool,
    },
}

impl Verb for KeyVerbs {
    fn may_write(&self) -> bool {
        match self.verb.as_ref().unwrap_or(&KeyVerb::Ls) {
            KeyVerb::Ls => false,
            KeyVerb::Add { .. } => true,
            KeyVerb::Rm { dry_run, .. }
            | KeyVerb::Rotate { dry_run, .. }
            | KeyVerb::Decrypt { dry_run } => !dry_run,
        }
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let dir = run.store_dir()?;
        if self.may_write() {
            run.refuse_untrusted()?;
        }
        match self.verb.as_ref().unwrap_or(&KeyVerb::Ls) {
            KeyVerb::Ls => list(run)?,
            KeyVerb::Add { name, sealing } => {
                add_holder(&dir, name, sealing)?;
                note(&format!("'{name}' opens the store now"));
            }
            KeyVerb::Rm { name, keep_key, dry_run, sealing } => {
                let known = holders(&dir)?;
                if !known.iter().any(|holder| holder.name == *name) {
                    let message = format!("there is no key '{name}'");
                    let hint = "'turntree key ls' lists them";
                    return Err(Failure::hinted(turntree::Error::not_found(message), hint));
                }
                if *keep_key && known.len() > 1 {
                    if !dry_run {
                        remove_holder(&dir, name)?;
                    }
                    let verb = if *dry_run { "would not open" } else { "does not open" };
                    note(&format!("'{name}' {verb} the store; the key of the store is unchanged"));
                    return Ok(Answer::Yes);
                }
                let done = match dry_run {
                    true => (plan_rotation(&dir)?, None),
                    false => rotate(&dir, sealing, |holder| holder.name != *name)?,
                };
                tell(run, *dry_run, done)?;
            }
            KeyVerb::Rotate { dry_run, sealing } => {
                let done = match dry_run {
                    true => (plan_rotation(&dir)?, None),
                    false => rotate(&dir, sealing, |_| true)?,
                };
                tell(run, *dry_run, done)?;
            }
            KeyVerb::Decrypt { dry_run } => {
                let done = decrypt(&dir, *dry_run)?;
                tell(run, *dry_run, done)?;
            }
        }
        Ok(Answer::Yes)
    }
}

fn list(run: &mut Invocation) -> Result<()> {
    let dir = run.store_dir()?;
    let opened = match open_repository(&dir) {
        Err(error) if error.kind() == ErrorKind::Encrypted => Some(store_keys::unlock(&dir, true)?),
        Err(error) => return Err(error.into()),
        Ok(_) => None,
    };
    let Some(Unlocked { keys, holder: used, repo, .. }) = opened else {
        if run.out.json {
            run.out.record(&json::Keys { encrypted: false, key: None, holders: vec![] })?;
            return Ok(());
        }
        writeln!(run.out, "the store is not encrypted")?;
        return Ok(());
    };
    let holders = holders(&dir)?;
    if run.out.json {
        let holders = holders.into_iter().map(|holder| json::KeyHolder {
            used: holder.name == used,
            public: holder.public.map(|public| public.to_string()),
            name: holder.name,
        });
        let holders = holders.collect();
        let key = Some(keys.newest.name());
        run.out.record(&json::Keys { encrypted: true, key, holders })?;
        return Ok(());
    }
    let mut table = Table::of(vec![Column::name(""), Column::text(""), Column::title("")]);
    for holder in holders {
        let mark = if holder.name == used { "opened it now" } else { "" };
        let public = holder.public.map_or_else(|| "passphrase".to_owned(), |key| key.to_string());
        table.row(vec![Cell::styled(NAME, holder.name), public.into(), Cell::styled(FAINT, mark)]);
    }
    table.write(&mut run.out)?;
    let EncryptionChange { files, .. } = repo.store().plan_encryption(Some(keys.newest))?;
    if files > 0 {
        let files = count(files, "file");
        note(&format!(
            "{files} are not encrypted with the newest key yet: 'turntree init --encrypt' continues"
        ));
    }
    Ok(())
}

/// Reports the rewritten files.
fn tell(
    run: &mut Invocation,
    dry_run: bool,
    (change, key): (EncryptionChange, Option<String>),
) -> Result<()> {
    let EncryptionChange { files, bytes } = change;
    if run.out.json {
        run.out.record(&json::KeyChanged { key, dry_run, files, bytes })?;
        return Ok(());
    }
    let verb = if dry_run { "would rewrite" } else { "rewrote" };
    writeln!(run.out, "{verb} {}, {}", count(files, "file"), size(bytes))?;
    Ok(())
}
