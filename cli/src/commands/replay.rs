//! `replay`: runs an agent against recorded answers, up to a turn.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;
use turntree::Error;
use turntree::object::ObjectId;
use turntree::repo::{Repository, SnapshotRevision};
use turntree_exchange::replay::{Difference, Recording};

use super::Verb;
use crate::loopback::new_key;
use crate::platform::end_by;
use crate::porcelain::read::revision::resolve;
use crate::program::complete::revisions;
use crate::program::interrupts::Interrupts;
use crate::program::invocation::Invocation;
use crate::replay::{Gateway, Tally, Then, first_line};
use crate::view::error::{Answer, Failure, Result};
use crate::view::json;
use crate::view::output::{note, warn};
use crate::view::render::count;

/// Added to the number of a signal that ended a command, as shells do.
const SIGNALLED: i32 = 128;

/// The key for clients that do not start without one.
const DUMMY_KEY: &str = "turntree-replay";

/// Variables with keys of the interfaces.
const KEYS: [&str; 3] = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"];

/// Variables with hosts that are not asked through a proxy.
const NO_PROXY: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// Run an agent against the recorded answers of a branch, up to a turn
///
/// Serves the answers of all turns before --from to the agent that COMMAND runs, at no cost, and
/// checks that its requests are the recorded ones: the words of the user, the answers, and the calls
/// with their arguments. At the first request that differs or goes beyond the recording, --then
/// refuses it with an error that names the difference, or forwards it and all further ones to the
/// real model.
///
/// COMMAND runs in the current directory, and its tools really run: to leave your files alone, fork a
/// worktree with the files of the turn where the branch began. Paths of the recorded directory stand
/// for the current one. A result of a tool that is not the recorded one is reported; --strict makes it
/// a difference. System prompts, reminders of the client, ids and thoughts do not count, and requests
/// without tools, such as one for a title, get a placeholder.
///
/// The interfaces of Anthropic, OpenAI and Gemini are served on 127.0.0.1. COMMAND gets the address
/// with a key, which changes with each run, in ANTHROPIC_BASE_URL, OPENAI_BASE_URL and
/// GOOGLE_GEMINI_BASE_URL, and a placeholder for each API key that is missing, unless requests are
/// forwarded. The exit code is that of COMMAND, or 7 if a request differed and was refused. With --json
/// the output of COMMAND goes to stderr.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree replay main --from turn:42 -- claude -p 'fix the parser'
  turntree replay main -- ./agent.sh                       # all recorded answers
  turntree replay main --from turn:42 --then forward -- gemini -p 'fix the parser'
  turntree replay main -- sh -c 'codex exec -c openai_base_url=$OPENAI_BASE_URL \"fix it\"'

  turntree fork again --at turn:1 --worktree ../again
  cd ../again && turntree replay main --from turn:42 -- claude -p 'fix the parser'")]
pub(crate) struct Replay {
    /// The branch to replay
    #[arg(value_name = "BRANCH", add = ArgValueCompleter::new(revisions))]
    branch: String,
    /// Serve the answers of the turns before this one; those of all turns by default
    #[arg(long, value_name = "REV", add = ArgValueCompleter::new(revisions))]
    from: Option<String>,
    /// What happens to requests that differ or go beyond the recording
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    then: ThenWhat,
    /// Forward to this address instead of that of the vendor or of the environment
    #[arg(long, value_name = "URL", value_hint = clap::ValueHint::Url)]
    upstream: Option<String>,
    /// Count a result of a tool that is not the recorded one as a difference
    #[arg(long)]
    strict: bool,
    /// The command that runs the agent
    #[arg(last = true, value_name = "COMMAND", required = true)]
    command: Vec<OsString>,
}

/// What happens to requests that differ or go beyond the recording.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum ThenWhat {
    /// They get an error
    #[default]
    Refuse,
    /// They go to the real model
    Forward,
}

impl Verb for Replay {
    fn reads_only(&self) -> bool {
        true
    }

    // The agent runs the recorded calls again, so a store of someone else must be trusted.
    fn may_write(&self) -> bool {
        true
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        if self.upstream.is_some() && self.then == ThenWhat::Refuse {
            let error = Error::invalid("--upstream is where --then forward sends requests");
            return Err(Failure::hinted(error, "add '--then forward'"));
        }
        let repo = run.open()?;
        let then = Then::of(self.then == ThenWhat::Forward, self.upstream.as_deref())?;
        let branch = resolve(&repo, &self.branch)?;
        let last = self.last(&repo, &branch)?;
        let here = std::env::current_dir().ok();
        let here = here.as_deref().and_then(|here| here.to_str());
        let recording = match &last {
            Some(last) => Recording::read(&repo, last, here)?,
            None => Recording::default(),
        };
        // The store is free for what the command records.
        drop(repo);
        let answers = recording.answers();
        if answers == 0 {
            warn("there are no recorded answers: every request is beyond the recording");
        }
        let failed = |error| Error::io("listen on 127.0.0.1", error);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let gateway = Arc::new(Gateway::new(port, new_key()?, recording, self.strict, then));
        let interrupts = Interrupts::catch_beside_terminal()?;
        let served = Arc::clone(&gateway);
        let server = std::thread::spawn(move || served.serve(listener));
        let ended = interrupts.run(&mut self.prepared(&gateway, run.out.json));
        gateway.end();
        let served = server.join().unwrap_or_else(|_| Err(Error::invalid("the gateway failed")));
        let (ended, tally) = (ended?, gateway.tally());
        served?;
        let exit = code(ended);
        Self::show(run, last.as_ref(), answers, &tally, exit)?;
        run.out.flush()?;
        let caught = interrupts.caught();
        drop(interrupts);
        if let (Some(signal), None) = (caught, ended.code()) {
            end_by(signal).map_err(|error| Error::io("end", error))?;
        }
        if tally.difference.is_some() && tally.refused > 0 {
            return Ok(Answer::Differs);
        }
        match exit {
            0 => Ok(Answer::Yes),
            // The code is that of another program: none of this one's meanings.
            exit => std::process::exit(exit),
        }
    }
}

impl Replay {
    /// The last snapshot whose answers are served; `None` before the first turn.
    fn last(&self, repo: &Repository, branch: &SnapshotRevision) -> Result<Option<ObjectId>> {
        let Some(from) = &self.from else { return Ok(Some(branch.commit)) };
        // A number of a turn or a prompt counts on this branch, and not on HEAD's.
        let number = from.strip_prefix("turn:").or_else(|| from.strip_prefix("prompt:"));
        let counts = number.is_some_and(|number| number.parse::<i64>().is_ok());
        let named = if counts { format!("{}^{{{from}}}", self.branch) } else { from.clone() };
        let from = resolve(repo, &named)?.commit;
        for entry in repo.history(&[branch.commit], &[])?.first_parent() {
            let entry = entry?;
            if entry.id == from {
                return Ok(entry.commit.parents.first().copied());
            }
        }
        let name = self.from.as_deref().unwrap_or_default();
        let message = format!("{name} is not a turn of {}", self.branch);
        let branch = &self.branch;
        let hint = format!("'turntree log {branch}' lists its turns");
        Err(Failure::hinted(Error::invalid(message), hint))
    }

    /// The command with the addresses of the gateway.
    fn prepared(&self, gateway: &Gateway, is_json: bool) -> Command {
        let mut words = self.command.iter();
        let mut command = Command::new(words.next().map_or(OsStr::new(""), OsString::as_os_str));
        command.args(words);
        let address = gateway.address();
        command.env("ANTHROPIC_BASE_URL", &address).env("GOOGLE_GEMINI_BASE_URL", &address);
        command.env("OPENAI_BASE_URL", format!("{address}/v1"));
        // A real model needs the client's own credentials.
        if self.then == ThenWhat::Refuse {
            for name in KEYS {
                if std::env::var_os(name).is_none_or(|key| key.is_empty()) {
                    command.env(name, DUMMY_KEY);
                }
            }
        }
        for name in NO_PROXY {
            let hosts = std::env::var(name).ok().filter(|hosts| !hosts.trim().is_empty());
            command.env(name, hosts.map_or("127.0.0.1".into(), |it| format!("{it},127.0.0.1")));
        }
        if is_json {
            command.stdout(Stdio::from(io::stderr()));
        }
        command
    }

    fn show(
        run: &mut Invocation,
        last: Option<&ObjectId>,
        answers: usize,
        tally: &Tally,
        exit: i32,
    ) -> Result<()> {
        if run.out.json {
            return Ok(run.out.record(&json::Replayed {
                last: last.map(ObjectId::to_string),
                answers: answers as u64,
                served: tally.served.len() as u64,
                requests: tally.requests,
                side_requests: tally.asides,
                difference: tally.difference.as_ref().map(record),
                result_differences: tally.results.iter().map(record).collect(),
                refused: tally.refused,
                forwarded: tally.forwarded,
                exit,
            })?);
        }
        for result in &tally.results {
            note(&format!("another result {}", first_line(result)));
        }
        if let Some(difference) = &tally.difference {
            warn(&format!("the first request that differs {}", first_line(difference)));
        }
        if let Some(failed) = &tally.failed {
            warn(&format!("a request could not be forwarded: {failed}"));
        }
        if answers > 0 && tally.requests == 0 && tally.asides == 0 {
            warn(
                "the command sent no request to the gateway: it does not read the address in \
                 ANTHROPIC_BASE_URL, OPENAI_BASE_URL or GOOGLE_GEMINI_BASE_URL, or it asked no model",
            );
        }
        let mut line = format!(
            "replayed {} of {}",
            tally.served.len(),
            count(answers as u64, "recorded answer")
        );
        for (number, what) in [(tally.refused, "refused"), (tally.forwarded, "forwarded")] {
            if number > 0 {
                line.push_str(&format!(", {} {what}", count(number, "request")));
            }
        }
        note(&line);
        Ok(())
    }
}

fn record(difference: &Difference) -> json::ReplayDifference {
    json::ReplayDifference {
        kind: difference.kind.name(),
        place: difference.place.clone(),
        answers: difference.answers as u64,
        expected: difference.expected.clone(),
        found: difference.found.clone(),
    }
}

/// The exit code of a command, as shells give it.
#[cfg(unix)]
fn code(ended: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    ended.code().unwrap_or_else(|| SIGNALLED + ended.signal().unwrap_or_default())
}

#[cfg(not(unix))]
fn code(ended: ExitStatus) -> i32 {
    ended.code().unwrap_or(SIGNALLED)
}
