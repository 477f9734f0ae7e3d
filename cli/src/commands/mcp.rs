//! `mcp`: a server for agents that speak the Model Context Protocol.

use std::sync::Arc;

use clap::Args;

use super::Verb;
use crate::program::invocation::Invocation;
use crate::service::mcp;
use crate::service::{Ids, Options, Service, end_on_signals};
use crate::view::error::{Answer, Result};

/// Serve the Model Context Protocol to an agent, over standard input and output
///
/// Offers snapshot, sessions, log, outline, show, diff, search, branch, merge, resolve, compare,
/// explore_status, restore, undo, tag, pin, export, compact, offload, read_vfs, spiral, lessons and
/// status as tools, payloads and snapshots as resources. With COMMAND it also offers explore_start.
/// Any number of servers may use one store. The server ends when its input ends.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree mcp --workspace .
  turntree mcp --session nightly --branch plan-b
  turntree mcp --read-only
  turntree mcp --workspace . --check 'cargo test' --budget '$5' -- claude -p '{prompt}'
  claude mcp add turntree -- turntree mcp --workspace .")]
pub(crate) struct Mcp {
    #[command(flatten)]
    options: Options,
}

impl Verb for Mcp {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let service = Arc::new(Service::new(run, &self.options, Ids::Short)?);
        end_on_signals(&service)?;
        // The server's threads write to stdout, so this one must not hold it.
        run.out.hand_over();
        mcp::serve(Arc::clone(&service))?;
        // Finishes a running change, even if its client has disconnected.
        drop(service.end());
        Ok(Answer::Yes)
    }
}
