//! Reads the bundle of a command: opens it, restores it from its parity, and decrypts it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use turntree::platform::canonical;
use turntree::store::{
    Access, Io, IoFile, ParityDamage, Protected, ReadAt, RealIo, repair_by_parity,
};
use turntree::transfer::bundle::{Bundle as BundleFile, BundleLosses};
use turntree::{Error, ErrorKind};

use super::encryption::{self, Opening};
use crate::program::invocation::{input_name, open_file};
use crate::view::error::{Failure, Result};
use crate::view::json;
use crate::view::output::warn;
use crate::view::render::count;

#[derive(Debug, Args)]
pub(super) struct Input {
    /// The bundle, or - for standard input
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
    #[command(flatten)]
    opening: Opening,
}

/// An open bundle.
pub(super) struct Opened {
    pub(super) bundle: BundleFile,
    pub(super) encrypted: bool,
    /// The size of its parity, and the damage found with it.
    parity: Option<(u64, ParityDamage)>,
}

/// The opened bundle, whether it was encrypted, and the size of its parity with the damage found.
type OpenedAs<T> = (T, bool, Option<(u64, ParityDamage)>);

impl Input {
    /// Opens the bundle; reports on stderr if parity had to restore bytes.
    pub(super) fn open(&self) -> Result<Opened> {
        let (bundle, encrypted, parity) = self.open_as(true, &BundleFile::open)?;
        Ok(Opened { bundle, encrypted, parity })
    }

    /// Opens the undamaged part of the bundle, and returns the losses; reports on stderr only if
    /// `tells`.
    pub(super) fn open_partial(
        &self,
        tells: bool,
        max_bytes: Option<u64>,
    ) -> Result<(Opened, BundleLosses)> {
        let open = |bytes| BundleFile::open_partial(bytes, max_bytes);
        let ((bundle, losses), encrypted, parity) = self.open_as(tells, &open)?;
        Ok((Opened { bundle, encrypted, parity }, losses))
    }

    fn open_as<T>(
        &self,
        tells: bool,
        open: &dyn Fn(Arc<dyn ReadAt>) -> turntree::Result<T>,
    ) -> Result<OpenedAs<T>> {
        let name = input_name(&self.file);
        let file = if self.is_stdin() {
            // A bundle is read at many offsets, and again by the import, so standard input is
            // copied to a file.
            let failed = |error| Error::io("store the bytes of standard input", error);
            let mut file = tempfile::tempfile().map_err(failed)?;
            io::copy(&mut io::stdin().lock(), &mut file).map_err(failed)?;
            file
        } else {
            open_file(&self.file)?
        };
        let protected = Protected::open(Arc::new(file)).map_err(|error| error.at(&name))?;
        let damage = protected.damage().cloned();
        if let Some(damage) = damage.as_ref().filter(|_| tells) {
            self.tell(&name, damage);
        }
        let parity = damage.map(|damage| (protected.parity_bytes(), damage));
        let opened = self.decrypt(&protected, &name, open);
        // Even the header may be damaged, but a file with parity was a bundle.
        let lost = parity.as_ref().filter(|(_, damage)| !damage.can_restore);
        let (bundle, encrypted) = opened.map_err(|failure| match lost {
            Some((_, damage)) if is_damage(&failure) => {
                let found = format!("{} of {} shards damaged", damage.damaged.len(), damage.shards);
                Error::corrupt(&name, "no more damage than its parity can restore", found).into()
            }
            _ => failure,
        })?;
        Ok((bundle, encrypted, parity))
    }

    fn decrypt<T>(
        &self,
        protected: &Protected,
        name: &str,
        open: &dyn Fn(Arc<dyn ReadAt>) -> turntree::Result<T>,
    ) -> Result<(T, bool)> {
        let (bytes, encrypted) = encryption::open(protected.content(), name, &self.opening)?;
        Ok((open(bytes).map_err(|error| error.at(name))?, encrypted))
    }

    /// Repairs the file in place, and returns the damage.
    pub(super) fn repair(&self) -> Result<ParityDamage> {
        if self.is_stdin() {
            return Err(Error::invalid("standard input cannot be repaired: name a file").into());
        }
        let name = input_name(&self.file);
        drop(open_file(&self.file)?);
        let failed = |error| Error::io(format!("open {name} to repair it"), error);
        let path = canonical(&self.file).map_err(failed)?;
        let file: Arc<dyn IoFile> = RealIo.open(&path, Access::Write).map_err(failed)?;
        Ok(repair_by_parity(&file).map_err(|error| error.at(name))?)
    }

    fn is_stdin(&self) -> bool {
        self.file == Path::new("-")
    }

    fn tell(&self, name: &str, damage: &ParityDamage) {
        let shards = damage.damaged.len() as u64;
        let lost = format!("{shards} of {}", count(damage.shards, "shard"));
        let how = match self.is_stdin() {
            true => String::new(),
            false => format!("; 'turntree bundle verify --repair {name}' repairs the file"),
        };
        match (damage.can_restore, shards) {
            (false, 0) => warn(&format!("{name} is damaged, and so is its parity")),
            (false, _) => {
                warn(&format!("{name} is damaged: {lost}, more than its parity can restore"));
            }
            (true, 0) if damage.lost_units == 0 => {}
            (true, 0) => warn(&format!("the parity of {name} is damaged{how}")),
            (true, _) => {
                warn(&format!("{name} is damaged: {lost}, read by its parity{how}"));
            }
        }
    }
}

/// Returns true for errors that damaged bytes can cause.
fn is_damage(failure: &Failure) -> bool {
    matches!(failure, Failure::Library { error, .. }
        if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::InvalidInput))
}

impl Opened {
    /// Returns true if a byte of the file is damaged, even if parity restores it.
    pub(super) fn is_damaged(&self) -> bool {
        self.parity.as_ref().is_some_and(|(_, damage)| !damage.is_none())
    }

    /// The record of the bundle.
    pub(super) fn shown(&self) -> json::BundleShown<'_> {
        let parity = self.parity.as_ref().map(|(bytes, damage)| json::BundleParity {
            bytes: *bytes,
            shards: damage.shards,
            damaged_shards: damage.damaged.len() as u64,
            units: damage.units,
            damaged_units: damage.lost_units,
            can_restore: damage.can_restore,
        });
        json::BundleShown {
            checksum: self.bundle.checksum().to_string(),
            encrypted: self.encrypted,
            bytes: self.bundle.file_bytes(),
            raw_bytes: self.bundle.raw_bytes(),
            parity,
            manifest: self.bundle.manifest(),
        }
    }
}
