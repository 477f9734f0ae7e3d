//! `remote serve`: gives a client that connected by ssh access to a bucket.

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use turntree::transfer::remote::{refuse, serve};

use crate::porcelain::transfer::temp_file::Spool;
use crate::program::buckets::{make_bucket, open_bucket};
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};
use crate::view::output::Heard;

#[derive(Debug, Args)]
pub(super) struct Serve {
    /// The folder, or the URL of another remote for which this machine has credentials
    #[arg(value_name = "PATH")]
    url: String,
    /// Create the remote if it does not exist
    #[arg(long)]
    make: bool,
}

impl Serve {
    /// Serves requests on the streams until they end.
    pub(super) fn run(&self, _: &mut Invocation) -> Result<Answer> {
        let (mut input, mut output) = (io::stdin().lock(), Heard(io::stdout().lock()));
        let opened = if self.make { make_bucket(&self.url) } else { open_bucket(&self.url) };
        let bucket = match opened {
            Ok(bucket) => bucket,
            Err(error) => {
                refuse(&error, &mut input, &mut output)?;
                return Ok(Answer::No);
            }
        };
        // Temporary files go to the disk of the remote, because another disk may be small.
        let folder = Path::new(&self.url);
        let folder = if folder.is_dir() { PathBuf::from(folder) } else { env::temp_dir() };
        let spool = || Ok(Arc::clone(Spool::create(&folder)?.file()));
        serve(&*bucket, &mut input, &mut output, &spool)?;
        Ok(Answer::Yes)
    }
}
