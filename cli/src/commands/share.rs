//! `share`: writes a session as an encrypted page.

use std::path::PathBuf;

use clap::Args;
use clap_complete::ArgValueCompleter;

use super::Verb;
use super::export::Export;
use crate::porcelain::read::secrets::SecretGate;
use crate::porcelain::transfer::export::ExportRequest;
use crate::program::complete::revisions;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};

/// Share a session as an encrypted page
///
/// Writes the page of 'export --format html' as one file whose content is encrypted with a key of
/// its own. Put the file on any web server, or send it, and give readers its address followed
/// by the key, which is printed once and stored nowhere. Browsers keep what follows the '#' of an
/// address to themselves: the server sees only the size of the page. It opens on https, on
/// localhost and from a file, in browsers since 2023.
///
/// A key cannot be withdrawn and a file has no expiry: to end the access, delete the file. The page
/// is scanned for secrets like every export.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree share nightly -o nightly.html
  turntree share nightly -o nightly.html --scrub
  turntree share plan-a plan-b -o plans.html --force")]
pub(crate) struct Share {
    /// Sessions or other revisions; a session includes all of its branches
    #[arg(value_name = "REV", required = true, add = ArgValueCompleter::new(revisions))]
    revisions: Vec<String>,
    /// Write to this file
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: PathBuf,
    /// Replace an existing file; its former key does not open the new one
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    gate: SecretGate,
}

impl Verb for Share {
    fn reads_only(&self) -> bool {
        true
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let request = ExportRequest::shared(self.revisions.clone())?;
        Export::new(request, self.output.clone(), self.force, self.gate).run(run)
    }
}
