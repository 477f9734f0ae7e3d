//! Standard input for the SDK. A line that is too long is replaced with a short request with the
//! same id, which the server refuses.

use std::io::{BufRead, Cursor, Result, stdin};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use serde_json::{Value, json};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc::{Receiver, channel};

use crate::service::lines::{Line, next_line};

/// The method of the replacement request. Clients do not use it.
pub(super) const TOO_LONG: &str = "turntree/line-too-long";

/// Lines of standard input, read by a thread.
#[derive(Debug)]
pub(super) struct Input {
    lines: Receiver<Vec<u8>>,
    /// The line being read.
    line: Cursor<Vec<u8>>,
}

impl Input {
    /// Starts the thread that reads standard input.
    pub(super) fn stdin() -> Self {
        let (sender, lines) = channel(1);
        // The thread may block on input forever; it ends with the process.
        std::thread::spawn(move || {
            let mut stdin = stdin().lock();
            while let Ok(Some(line)) = next_line(&mut stdin) {
                if sender.blocking_send(message(line)).is_err() {
                    break;
                }
            }
        });
        Self { lines, line: Cursor::default() }
    }
}

/// Converts a line for the SDK.
fn message(line: Line) -> Vec<u8> {
    match line {
        Line::Whole(line) => line,
        // An invalid request, which the SDK refuses without an id.
        Line::TooLong { id: Value::Null } => b"{}\n".to_vec(),
        Line::TooLong { id } => {
            let request = json!({"jsonrpc": "2.0", "id": id, "method": TOO_LONG});
            format!("{request}\n").into_bytes()
        }
    }
}

impl AsyncRead for Input {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let input = self.get_mut();
        while input.line.fill_buf()?.is_empty() {
            match ready!(input.lines.poll_recv(context)) {
                Some(line) => input.line = Cursor::new(line),
                None => return Poll::Ready(Ok(())),
            }
        }
        let rest = input.line.fill_buf()?;
        let part = rest.get(..buffer.remaining()).unwrap_or(rest);
        buffer.put_slice(part);
        let taken = part.len();
        input.line.consume(taken);
        Poll::Ready(Ok(()))
    }
}
