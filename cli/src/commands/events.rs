//! `events`: what a log of events leads to, without a store.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use turntree::Error;
use turntree::object::Time;
use turntree_exchange::formats::ollm;
use turntree_exchange::formats::swarm::{self, ReconstructionOptions, reconstruct};

use super::Verb;
use super::import_report::warn_of_notes;
use crate::clock;
use crate::error::{Answer, Result};
use crate::invocation::{Invocation, input_name, open_file, read_input};

const BUFFER_BYTES: usize = 256 << 10;

/// Rebuild a state from a SwarmSDK event log
///
/// Nothing is stored: 'turntree import' makes every moment of a log a snapshot.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree events reconstruct swarm.jsonl
  turntree events reconstruct swarm.jsonl --until 2026-03-02T09:00:06Z --json
  turntree events reconstruct since.jsonl --base snapshot.json > now.json")]
pub(crate) struct Events {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Reconstruct(Reconstruct),
}

/// Print the SwarmSDK snapshot that a log leads to
///
/// The log has one event a line, or is one array. Events count in the order of their times, and where
/// these are equal in that of the log; one without a time comes first. Lines that are no events are
/// left out, with a warning.
#[derive(Debug, Args)]
struct Reconstruct {
    /// The log, or - for standard input
    #[arg(value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
    /// Leave out what is later
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// A snapshot that the log goes on from
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    base: Option<PathBuf>,
    /// Reproduce SwarmSDK's known bugs
    #[arg(long, value_enum)]
    compat: Option<Compat>,
}

/// Whose mistakes are made again.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Compat {
    /// SwarmSDK 2.7.13; for ollm-context OLLM CLI 0.1.6
    Upstream,
    /// SwarmSDK 2.7.13, given events whose names are strings and not symbols
    StringKeys,
}

impl Compat {
    /// As the library has it for OLLM CLI.
    pub(crate) fn ollm(named: Option<Self>) -> ollm::Compat {
        match named {
            Some(Self::Upstream) => ollm::Compat::Upstream,
            Some(Self::StringKeys) | None => ollm::Compat::Sound,
        }
    }

    /// As the library has it for SwarmSDK.
    pub(crate) fn of(named: Option<Self>) -> swarm::Compat {
        match named {
            None => swarm::Compat::Sound,
            Some(Self::Upstream) => swarm::Compat::Upstream,
            Some(Self::StringKeys) => swarm::Compat::StringKeys,
        }
    }
}

impl Verb for Events {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        match &self.action {
            Action::Reconstruct(reconstruct) => reconstruct.run(run),
        }
    }
}

impl Reconstruct {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
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
    let micros = clock::parse_moment(text, now).ok_or_else(|| {
        Error::invalid(format!("'{text}' is no time: expected one as 2026-03-02T09:00:06Z"))
    })?;
    Ok(Time { micros, offset_minutes: 0 })
}
