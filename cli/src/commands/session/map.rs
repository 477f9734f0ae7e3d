//! `session map`: names the directories here that stand for those of another computer.

use std::io::Write;

use clap::Args;
use turntree::Error;

use crate::program::directory_map::{DirectoryMap, MappedDirectory, parse_pair};
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Failure, Result};
use crate::view::json;
use crate::view::output::{NAME, note};
use crate::view::render::harmless;

/// Map the directories of sessions that were recorded on another computer; without any, list them
///
/// A session belongs to the directory where it was recorded. After a move to another computer, OLD
/// and everything below it stand for NEW: for 'sessions --here', 'resume', restores, and HEAD by
/// directory. A directory that exists on this computer is never mapped. The map is of this computer,
/// for every store, in 'turntree/directories.json' in the configuration directory.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree session map /home/ann=/Users/ann
  turntree session map 'C:\\Users\\ann=/home/ann' /mnt/data=/srv/data
  turntree session map
  turntree session map --remove /home/ann")]
pub(super) struct MapDirectories {
    /// A directory of the other computer, and the one here that stands for it
    #[arg(value_name = "OLD=NEW", value_parser = parse_pair)]
    pairs: Vec<MappedDirectory>,
    /// Remove the pair of this directory; may be given several times
    #[arg(long, value_name = "OLD")]
    remove: Vec<String>,
}

impl MapDirectories {
    pub(super) fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let mut map = DirectoryMap::try_read()?;
        for old in &self.remove {
            if !map.remove(old) {
                let missing = Error::not_found(format!("'{old}' is not mapped"));
                return Err(Failure::hinted(missing, "'turntree session map' lists the pairs"));
            }
        }
        map.add(&self.pairs);
        if !self.remove.is_empty() || !self.pairs.is_empty() {
            map.write()?;
        }
        if run.out.json {
            let pairs = map.pairs().map(|(old, new)| json::MappedDirectory {
                old: old.to_owned(),
                new: new.display().to_string(),
            });
            run.out.record(&json::DirectoryMap { directories: pairs.collect() })?;
            return Ok(Answer::Yes);
        }
        let paint = run.out.paint;
        let mut is_empty = true;
        for (old, new) in map.pairs() {
            let new = paint.paint(NAME, harmless(&new.display().to_string()));
            writeln!(run.out, "{} -> {new}", harmless(old))?;
            is_empty = false;
        }
        if is_empty {
            note("no directory is mapped: 'turntree session map OLD=NEW' maps one");
        }
        Ok(Answer::Yes)
    }
}
