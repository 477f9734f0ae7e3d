//! The command line of turntree: arguments in, library calls, records or text out.
//!
//! The library below does not read the clock, the environment, the terminal or randomness; this
//! crate supplies them. The records of `--json` are in `view/json/`, one type each; their keys are
//! stable.
//!
//! | room | job |
//! |---|---|
//! | `platform/` | the differences of operating systems: processes, signals, the terminal |
//! | `view/` | output for people and programs: text, records, errors, times and sizes |
//! | `program/` | one run: options, environment, the store that it opens, its input |
//! | `porcelain/` | the operations that commands, the service and hooks share |
//! | `hook/` | events of agents, and the settings of their clients |
//! | `explore/` | explorations: agents side by side, in worktrees, with a record in the store |
//! | `service/` | operations for programs, one file each; MCP and JSON-RPC, which call them |
//! | `viewer/` | the server of `view`: all sessions in a browser |
//! | `terminal/` | the interface of `ui`: all sessions in a terminal |
//! | `library.rs` | operations on an open store, for the packages of other languages |
//! | `commands/` | one file per command, in one table |
//! | `args.rs` | the parser and the help |
//!
//! Each room uses only those above it; only `commands/mcp.rs` and `commands/serve.rs` start the
//! service.

mod args;
mod commands;
mod explore;
mod hook;
pub mod library;
mod loopback;
mod platform;
mod porcelain;
mod program;
mod replay;
mod service;
#[cfg(feature = "ui")]
mod terminal;
mod view;
mod viewer;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write as _};
use std::path::Path;
use std::process::ExitCode;

use turntree::Error;

use crate::args::{Cli, answer_shell, parse};
use crate::commands::hook::Hook;
use crate::commands::{Command, Verb, bare};
use crate::program::fault::end_on_panic;
use crate::program::invocation::Invocation;
use crate::program::{itself, parser};
use crate::view::error::{Exit, Failure, read_or_not};
use crate::view::usage::report_usage;

/// Runs the program with the arguments and environment of this process.
#[must_use]
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    ExitCode::from(answer(&arguments) as u8)
}

/// Runs the program in the process of an interpreter, for a script that does only this. `arguments`
/// begin with the script, which is run when the program must start itself again. Returns the exit
/// code; the script must end the process immediately with it: a panic ends the process from here,
/// and threads may still run.
///
/// The standard streams must be open, and signal handlers in their default state.
#[must_use]
pub fn main_of_script(arguments: &[OsString]) -> u8 {
    if let Some(script) = arguments.first() {
        itself::is_run_by(Path::new(script));
    }
    let exit = answer(arguments);
    // No Rust runtime ends this process, so stdout is flushed here. A closed pipe is not an error:
    // the reader had enough.
    let _ = io::stdout().flush();
    exit as u8
}

fn answer(arguments: &[OsString]) -> Exit {
    // An agent treats the exit code for wrong arguments as an order to stop; a person does not.
    let is_of_agent = Hook::is_event(arguments) && !io::stdin().is_terminal();
    end_on_panic(arguments.iter().any(|argument| argument == "--json"), is_of_agent);
    match answer_shell(arguments) {
        Ok(false) => {}
        Ok(true) => return Exit::Success,
        Err(error) => return report_usage(error, arguments),
    }
    match parse(arguments) {
        Ok(cli) => run(cli),
        Err(error) => {
            let exit = report_usage(error, arguments);
            if is_of_agent { Exit::Success } else { exit }
        }
    }
}

/// Returns the parser with all commands, for tests of every argument.
#[doc(hidden)]
#[must_use]
pub fn command() -> clap::Command {
    args::command()
}

/// Answers the lines of `input` like `serve --stdio --read-only`, on the store in `dir`.
///
/// # Errors
/// Reading `input` cannot fail; writing `output` may.
#[doc(hidden)]
pub fn answer_lines(
    dir: &Path,
    mut input: &[u8],
    output: &mut dyn io::Write,
) -> Result<(), String> {
    let service = service::Service::looking(dir);
    service::rpc::serve(&service, &mut input, output).map_err(|failure| failure.message())
}

fn run(cli: Cli) -> Exit {
    let json = cli.global.json;
    let bare = bare::Bare;
    let verb = cli.command.as_ref().map_or(&bare as &dyn Verb, Command::verb);
    if cli.global.at_op.is_some() && !verb.reads_only() {
        let error = Error::invalid(
            "this command changes the store: --at-op is for commands that only read",
        );
        return Failure::from(error).report(json);
    }
    parser::provide(args::command);
    let mut invocation = Invocation::new(cli.global);
    if !verb.may_write() {
        invocation.only_look();
    }
    let result = verb.run(&mut invocation);
    let flushed = read_or_not(invocation.finish().map_err(Failure::from));
    match result.and_then(|answer| flushed.map(|()| answer)) {
        Ok(answer) => answer.into(),
        Err(failure) => failure.report(json),
    }
}
