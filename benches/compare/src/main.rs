//! Runs turntree behind the command line of a harness that compares stores.
//!
//! ```text
//! turntree-compare init|run|restore|list|diff|compact --store DIR [--fsync on|off] [options]
//! ```
//!
//! The last line of the output is one JSON object. The README of the harness specifies the
//! interface; `benches/README.md` has the tables.
//!
//! One workload is one session. Each of its branches is a branch, and each turn is a commit with
//! the number of the turn in its metadata. Turns are found by this number, newest first, because
//! the harness knows only turn numbers. A commit makes one call of `fdatasync`, unless `--fsync
//! off` disables it.
//!
//! | file | job |
//! |---|---|
//! | `main` | the command line and its output |
//! | `workload` | parses turns, and computes digests of states |
//! | `contestant` | the store: writes turns, reads states, lists and compares |
//! | `usage` | time and memory of this process |

mod contestant;
mod usage;
mod workload;

use std::collections::HashMap;
use std::error::Error as StdError;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use serde_json::{Map, Value, json};

use crate::contestant::Contestant;
use crate::workload::Turn;

type Result<T> = std::result::Result<T, Box<dyn StdError>>;

type Answer = Map<String, Value>;

fn main() -> Result<()> {
    let started = Instant::now();
    let (command, options) = Options::parse(std::env::args().skip(1))?;
    let store = Path::new(options.text("store")?);
    let durable = options.0.get("fsync").is_none_or(|value| value == "on");
    let mut answer = Answer::new();
    match command.as_str() {
        "init" => Contestant::create(store)?,
        "run" => run(Contestant::open(store, durable)?, &options, &mut answer)?,
        _ => {
            let mut contestant = Contestant::open(store, durable)?;
            measure(&command, &mut contestant, started, &options, &mut answer)?;
            answer.insert("rss_kb".into(), usage::peak_kilobytes()?.into());
        }
    }
    writeln!(std::io::stdout(), "{}", Value::Object(answer))?;
    Ok(())
}

/// Runs a read command repeatedly. The first time includes opening the store.
fn measure(
    command: &str,
    contestant: &mut Contestant,
    started: Instant,
    options: &Options,
    answer: &mut Answer,
) -> Result<()> {
    let mut nanos = Vec::new();
    for repetition in 0..options.number("repeat", 1)? {
        let from = if repetition == 0 { started } else { Instant::now() };
        let done = |nanos: &mut Vec<u64>| nanos.push(nanoseconds(from));
        match command {
            "restore" => {
                let state = contestant.restore(options.number("turn", 0)?)?;
                done(&mut nanos);
                answer.insert("digest".into(), state.digest().into());
                answer.insert("items".into(), state.items().into());
            }
            "list" => {
                let listed = contestant.list()?;
                done(&mut nanos);
                answer.insert("count".into(), listed.len().into());
            }
            "diff" => {
                let counts = contestant.diff(options.number("a", 0)?, options.number("b", 0)?)?;
                done(&mut nanos);
                answer.insert("diff".into(), serde_json::to_value(counts)?);
                answer.insert("exact".into(), true.into());
            }
            "compact" => {
                contestant.compact(options.text("mode")? == "aggressive")?;
                done(&mut nanos);
                answer.insert("supported".into(), true.into());
            }
            other => return Err(format!("'{other}' is not a command").into()),
        }
    }
    answer.insert("ns".into(), nanos.into());
    Ok(())
}

/// Applies the turns, each durable before the next, and logs a line for each.
fn run(mut contestant: Contestant, options: &Options, answer: &mut Answer) -> Result<()> {
    let (from, to) = (options.number("from", 1)?, options.number("to", u64::MAX)?);
    let mut log = BufWriter::new(File::create(options.text("out")?)?);
    let (began, cpu_before, written_before) =
        (Instant::now(), usage::cpu_nanoseconds(), usage::written_bytes()?);
    let (mut turns, mut snapshots) = (0, 0);
    for line in BufReader::new(File::open(options.text("turns")?)?).lines() {
        let turn = Turn::parse(&line?)?;
        if turn.number < from {
            continue;
        }
        if turn.number > to {
            break;
        }
        let switch = if turn.parent == contestant.turn() {
            0
        } else {
            let started = Instant::now();
            contestant.switch(turn.parent)?;
            nanoseconds(started)
        };
        let (cpu, written) = (usage::cpu_nanoseconds(), usage::written_bytes()?);
        let started = Instant::now();
        contestant.snapshot(&turn)?;
        let nanos = nanoseconds(started);
        let (cpu, written) = (usage::cpu_nanoseconds() - cpu, usage::written_bytes()? - written);
        (turns, snapshots) = (turn.number, snapshots + nanos);
        let line = json!({ "turn": turns, "ns": nanos, "cpu_ns": cpu, "wbytes": written, "switch_ns": switch });
        writeln!(log, "{line}")?;
    }
    let closing = Instant::now();
    drop(contestant);
    let cpu_seconds = (usage::cpu_nanoseconds() - cpu_before) as f64 / 1e9;
    for (name, value) in [
        ("turns", json!(turns)),
        ("snap_ns", json!(snapshots)),
        ("close_ns", json!(nanoseconds(closing))),
        ("total_ns", json!(nanoseconds(began))),
        ("cpu_s", json!(cpu_seconds)),
        ("wbytes", json!(usage::written_bytes()? - written_before)),
        ("rss_kb", json!(usage::peak_kilobytes()?)),
    ] {
        answer.insert(name.into(), value);
    }
    Ok(())
}

/// Returns the time since `start`. A run takes less than the 584 years that fit.
fn nanoseconds(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// `--name value` pairs.
struct Options(HashMap<String, String>);

impl Options {
    /// Returns the command, and the options after it.
    fn parse(mut args: impl Iterator<Item = String>) -> Result<(String, Self)> {
        let command = args.next().ok_or("expected a command")?;
        let mut options = HashMap::new();
        while let Some(name) = args.next() {
            let value = args.next().ok_or_else(|| format!("{name}: expected a value"))?;
            options.insert(name.trim_start_matches('-').to_owned(), value);
        }
        Ok((command, Self(options)))
    }

    fn text(&self, name: &str) -> Result<&str> {
        Ok(self.0.get(name).ok_or_else(|| format!("expected --{name}"))?)
    }

    fn number(&self, name: &str, default: u64) -> Result<u64> {
        Ok(self.0.get(name).map(|text| text.parse()).transpose()?.unwrap_or(default))
    }
}
