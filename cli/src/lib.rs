//! The command line of turntree: arguments in, library calls, records or text out.
//!
//! The library below reads no clock, environment, terminal or randomness; this crate brings all of
//! them. A command is one file in `commands/`: its arguments, its `run`, and how its result looks.
//! What `--json` prints is in [`json`](self), one type a record, and is a promise.
//!
//! | file | job |
//! |---|---|
//! | `args.rs`, `global.rs` | the commands, the options they share, the help |
//! | `invocation.rs` | which store, and whose name: one run of the program |
//! | `revision.rs`, `clock.rs`, `quantity.rs` | names, times, durations and sizes that people write |
//! | `search.rs` | what the questions about history share |
//! | `trial.rs` | a command that runs in a directory, and signals meanwhile |
//! | `restoration.rs` | what the commands share that bring a state back |
//! | `output.rs`, `progress.rs` | stdout, pager, colour, warnings; how far a long reading has come |
//! | `workspace.rs` | the capture of a directory, as commands do it |
//! | `hook/` | events of agents, and the settings of their clients |
//! | `store_log.rs` | the logs in a store |
//! | `error.rs` | failures, hints and exit codes |
//! | `service/` | what programs ask for: one file an operation, with its schemas |
//! | `mcp.rs`, `rpc.rs` | the protocols in which they ask |
//! | `json.rs` | the records of `--json` |
//! | `render/` | text for people: graph, diff, one-liners |
//! | `commands/` | one file a verb |

mod advice;
mod args;
mod breadth;
mod clock;
mod commands;
mod complete;
mod error;
mod global;
mod hook;
mod invocation;
mod json;
mod lines;
mod live;
mod mcp;
mod output;
mod progress;
mod quantity;
mod render;
mod restoration;
mod revision;
mod rpc;
mod sealing;
mod search;
mod service;
mod spool;
mod store_log;
mod trial;
mod workspace;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::FromArgMatches;
use turntree::Error;

use crate::args::{Cli, answer_shell, command};
use crate::commands::hook::Hook;
use crate::error::{Exit, Failure};
use crate::invocation::Invocation;

/// Runs the program with the arguments and environment of this process.
#[must_use]
pub fn main() -> ExitCode {
    answer_shell();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let parsed = command()
        .try_get_matches_from(&arguments)
        .and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches));
    let exit = match parsed {
        Ok(cli) => run(cli),
        Err(error) => {
            let exit = error::report_usage(&error, arguments.iter().any(|arg| arg == "--json"));
            // An agent takes the code for wrong arguments as an order to stop.
            if Hook::is_event(&arguments) { Exit::Success } else { exit }
        }
    };
    ExitCode::from(exit as u8)
}

/// What `serve --stdio --read-only` answers to the lines of `input`, on the store in `dir`.
///
/// # Errors
/// None of `input` has one; `output` may fail.
#[doc(hidden)]
pub fn answer_lines(
    dir: &std::path::Path,
    mut input: &[u8],
    output: &mut dyn std::io::Write,
) -> Result<(), String> {
    let service = service::Service::looking(dir);
    rpc::serve(&service, &mut input, output).map_err(|failure| failure.message())
}

fn run(cli: Cli) -> Exit {
    let json = cli.global.json;
    if cli.global.at_op.is_some() && !cli.command.verb().reads_only() {
        let error =
            Error::invalid("--at-op only looks at the past: this command changes the store");
        return Failure::from(error).report(json);
    }
    let mut invocation = Invocation::new(cli.global);
    let result = cli.command.verb().run(&mut invocation);
    let flushed = error::read_or_not(invocation.finish().map_err(Failure::from));
    match result.and_then(|answer| flushed.map(|()| answer)) {
        Ok(answer) => answer.into(),
        Err(failure) => failure.report(json),
    }
}
