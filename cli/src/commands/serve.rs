//! `serve`: a server for programs in any language, JSON-RPC in lines.

use std::io::{BufReader, stdin};
use std::sync::Arc;

use clap::Args;
use turntree::Error;

use super::Verb;
use crate::program::invocation::Invocation;
use crate::service::rpc;
use crate::service::{Ids, Options, Service, end_on_signals};
use crate::view::error::{Answer, Failure, Result};

/// Serve other programs, JSON-RPC 2.0 in lines over standard input and output
///
/// A request is one line and its answer is one line, in the same order. The method describe lists all
/// methods with the schemas of their arguments and answers. It ends when its input ends.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree serve --stdio --workspace .
  turntree serve --stdio --read-only < requests.jsonl
  echo '{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"status\"}' | turntree serve --stdio")]
pub(crate) struct Serve {
    /// Read requests from standard input, and answer on standard output
    #[arg(long)]
    stdio: bool,
    #[command(flatten)]
    options: Options,
}

impl Verb for Serve {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        if !self.stdio {
            let error =
                Error::invalid("serve needs --stdio: it serves standard input and output only");
            return Err(Failure::hinted(error, "turntree serve --stdio"));
        }
        let service = Arc::new(Service::new(run, &self.options, Ids::Whole)?);
        end_on_signals(&service)?;
        let served = rpc::serve(&service, &mut BufReader::new(stdin().lock()), &mut run.out);
        drop(service.end());
        served?;
        Ok(Answer::Yes)
    }
}
