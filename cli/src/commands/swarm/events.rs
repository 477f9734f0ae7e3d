//! `swarm events`: computes the state after a log of events, without a store.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use turntree::Error;
use turntree::object::Time;
use turntree_exchange::formats::swarm::{ReconstructionOptions, reconstruct};

use crate::porcelain::change::compat::Compat;
use crate::porcelain::transfer::import_report::warn_of_notes;
use crate::program::invocation::{Invocation, input_name, open_file, read_input};
use crate::view::clock;
use crate::view::error::{Answer, Result};
use crate::view::moment::parse_moment;

const BUFFER_BYTES: usize = 256 << 10;

/// Print the SwarmSDK snapshot that results from a log of events
///
/// Nothing is stored: 'turntree import' makes a snapshot for every moment of a log.
///
/// The log has one event per line, or is one JSON array. Events are applied in the order of their
/// times; events of the same time in the order of the log; an event without a time comes first.
/// Lines that are not events are left out, with a warning.
#[derive(Debug, Args)]
pub(super) struct Events {
    /// The log, or - for standard input
    #[arg(value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
    /// Leave out later events
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// The snapshot that the log continues
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    base: Option<PathBuf>,
    /// Reproduce SwarmSDK's known bugs
    #[arg(long, value_enum)]
    compat: Option<Compat>,
}

impl Events {
    pub(super) fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let now = clock::now()?;
        let until = self.until.as_deref().map(|text| moment(text, now)).transpose()?;
        let base = self.base.as_deref().map(read_input).transpose()?;
        let options = ReconstructionOptions {
            until,
            compat: Compat::of(self.compat),
            now: clock::rfc3339(now),
            base: base.as_deref(),
        };
        let name = input_name(&self.file);
        let state = reconstruct(self.input()?, &options).map_err(|error| error.at(&name))?;
        warn_of_notes(&name, &state.notes);
        let is_json = run.out.json;
        state.write(!is_json, &mut run.out)?;
        writeln!(run.out)?;
        Ok(Answer::Yes)
    }

    fn input(&self) -> Result<Box<dyn BufRead>> {
        if self.file == Path::new("-") {
            return Ok(Box::new(io::stdin().lock()));
        }
        let file: File = open_file(&self.file)?;
        Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, file)))
    }
}

fn moment(text: &str, now: Time) -> Result<Time> {
    let micros = parse_moment(text, now).ok_or_else(|| {
        Error::invalid(format!("'{text}': expected a time such as 2026-03-02T09:00:06Z"))
    })?;
    Ok(Time { micros, offset_minutes: 0 })
}
