//! The client end of a pipe: a bucket whose objects are on another machine.

use std::error::Error as _;
use std::fmt;
use std::io::{self, BufRead, BufReader, ErrorKind as Io, Read, Write};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use bytes::{Bytes, BytesMut};

use super::GREETING;
use super::frame::{Answer, Frame, MAX_PAYLOAD_BYTES, Request, page};
use crate::error::{Error, ErrorKind, Result};
use crate::store::ReadAt;
use crate::transfer::remote::bucket::{Bucket, Got, Key, Page, Put, Version};

/// Maximum bytes read while waiting for the greeting.
const MAX_GREETING_BYTES: u64 = 4096;

/// Maximum number of keys deleted by one request.
const KEYS_AT_ONCE: usize = 1000;

/// Maximum characters of a server message to show.
const MAX_SAID: usize = 500;

/// Both directions of a connection. Dropping it closes the connection.
pub struct Pipe {
    /// Reads from the server.
    pub input: Box<dyn Read + Send>,
    /// Writes to the server.
    pub output: Box<dyn Write + Send>,
    /// Dropped with the connection; e.g. a handle of a process.
    pub guard: Box<dyn Send>,
}

impl fmt::Debug for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pipe")
    }
}

/// A bucket at the other end of a pipe. It connects on demand, and reconnects after a lost
/// connection.
pub struct PipeBucket {
    connect: Box<dyn Fn() -> Result<Pipe> + Send + Sync>,
    open: Mutex<Option<Connection>>,
}

impl fmt::Debug for PipeBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PipeBucket")
    }
}

/// A connection whose server has sent its greeting.
struct Connection {
    input: BufReader<Box<dyn Read + Send>>,
    output: Box<dyn Write + Send>,
    _guard: Box<dyn Send>,
}

impl PipeBucket {
    /// Creates a bucket over connections from `connect`.
    #[must_use]
    pub fn new(connect: impl Fn() -> Result<Pipe> + Send + Sync + 'static) -> Self {
        Self { connect: Box::new(connect), open: Mutex::new(None) }
    }

    /// Sends one request and reads its answer.
    fn request(&self, request: &Frame<Request>) -> Result<Frame<Answer>> {
        self.exchange(&mut |connection| {
            connection.send(request)?;
            connection.answer()
        })
    }

    /// Runs an exchange. A connection is not reused after an error.
    fn exchange(
        &self,
        work: &mut dyn FnMut(&mut Connection) -> Result<Frame<Answer>>,
    ) -> Result<Frame<Answer>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut connection = match open.take() {
            Some(connection) => connection,
            None => Connection::await_greeting((self.connect)()?)?,
        };
        let answer = work(&mut connection)?;
        *open = Some(connection);
        match answer.header {
            Answer::Failed { kind, message } => Err(server_error(&kind, &message)),
            _ => Ok(answer),
        }
    }

    fn put(&self, header: Request, bytes: Bytes) -> Result<Put> {
        match self.request(&Frame { header, payload: bytes }) {
            Ok(Frame { header: Answer::Done { version }, .. }) => Ok(Put::Done(Version(version))),
            Ok(Frame { header: Answer::Lost {}, .. }) => Ok(Put::Lost),
            Ok(Frame { header: Answer::Unknown {}, .. }) => Ok(Put::Unknown),
            Ok(_) => Err(unexpected()),
            // The connection ended after the request was sent.
            Err(error) if is_disconnect(&error) => Ok(Put::Unknown),
            Err(error) => Err(error),
        }
    }

    /// Reads a range that fits into one frame.
    fn get_piece(
        &self,
        key: &Key,
        range: Option<Range<u64>>,
        unless: Option<&Version>,
    ) -> Result<Got> {
        let most = range.as_ref().map(|range| range.end.saturating_sub(range.start));
        let (key, unless) = (key.to_string(), unless.map(|version| version.0.clone()));
        let answer = self.request(&Frame::plain(Request::Get { key, range, unless }))?;
        match answer.header {
            Answer::Missing {} => Ok(Got::Missing),
            Answer::Same {} => Ok(Got::Same),
            Answer::Bytes { version, size } => {
                let bytes = answer.payload;
                if most.is_some_and(|most| bytes.len() as u64 > most) {
                    return Err(unexpected());
                }
                Ok(Got::Bytes { bytes, version: Version(version), size })
            }
            _ => Err(unexpected()),
        }
    }
}

impl Bucket for PipeBucket {
    fn get(&self, key: &Key, range: Option<Range<u64>>, unless: Option<&Version>) -> Result<Got> {
        let most = u64::from(MAX_PAYLOAD_BYTES);
        let Range { start, end } = range.unwrap_or(0..u64::MAX);
        let first = start..end.min(start.saturating_add(most));
        let (bytes, version, size) = match self.get_piece(key, Some(first), unless)? {
            Got::Bytes { bytes, version, size } => (bytes, version, size),
            other => return Ok(other),
        };
        let end = end.min(size);
        if start.saturating_add(bytes.len() as u64) >= end || bytes.is_empty() {
            return Ok(Got::Bytes { bytes, version, size });
        }
        let mut whole = BytesMut::from(bytes);
        loop {
            let at = start.saturating_add(whole.len() as u64);
            if at >= end {
                return Ok(Got::Bytes { bytes: whole.freeze(), version, size });
            }
            let piece = at..end.min(at.saturating_add(most));
            match self.get_piece(key, Some(piece), None)? {
                Got::Bytes { bytes, version: again, .. }
                    if again == version && !bytes.is_empty() =>
                {
                    whole.extend_from_slice(&bytes);
                }
                _ => {
                    let message = format!("{key} changed while it was read");
                    return Err(Error::new(ErrorKind::Io, message));
                }
            }
        }
    }

    fn put_new(&self, key: &Key, bytes: Bytes) -> Result<Put> {
        self.put(Request::PutNew { key: key.to_string() }, bytes)
    }

    fn put_over(&self, key: &Key, bytes: Bytes, seen: &Version) -> Result<Put> {
        self.put(Request::PutOver { key: key.to_string(), seen: seen.0.clone() }, bytes)
    }

    fn upload(&self, key: &Key, from: &dyn ReadAt) -> Result<()> {
        let failed = |error| Error::io("read the upload", error);
        let size = from.size().map_err(failed)?;
        let answer = self.exchange(&mut |connection| {
            let upload = Request::Upload { key: key.to_string(), bytes: size };
            connection.send(&Frame::plain(upload))?;
            let mut at = 0;
            while at < size {
                let length = (size - at).min(MAX_PAYLOAD_BYTES.into());
                let length = usize::try_from(length).unwrap_or_default();
                let part = from.read_part(at, length).map_err(failed)?;
                at += part.len() as u64;
                connection.send(&Frame { header: Request::Part {}, payload: part.into() })?;
            }
            connection.answer()
        })?;
        expect_ok(&answer.header)
    }

    fn list(&self, prefix: &str, after: Option<&Key>) -> Result<Page> {
        let (prefix, after) = (prefix.to_owned(), after.map(Key::to_string));
        match self.request(&Frame::plain(Request::List { prefix, after }))?.header {
            Answer::Page { objects, has_more } => page(objects, has_more),
            _ => Err(unexpected()),
        }
    }

    fn delete(&self, keys: &[Key]) -> Result<()> {
        keys.chunks(KEYS_AT_ONCE).try_for_each(|keys| {
            let keys = keys.iter().map(Key::to_string).collect();
            expect_ok(&self.request(&Frame::plain(Request::Delete { keys }))?.header)
        })
    }
}

impl Connection {
    /// Waits for the greeting of a server.
    fn await_greeting(pipe: Pipe) -> Result<Self> {
        let Pipe { input, output, guard } = pipe;
        let mut input = BufReader::new(input);
        let mut line = Vec::new();
        let read = input.by_ref().take(MAX_GREETING_BYTES).read_until(b'\n', &mut line);
        read.map_err(|error| Error::io("wait for the other side of the remote", error))?;
        if line.strip_suffix(b"\n") == Some(GREETING.as_bytes()) {
            return Ok(Self { input, output, _guard: guard });
        }
        let said = sanitized(&String::from_utf8_lossy(&line));
        let message = if said.is_empty() {
            "the other side of the remote ended before its greeting".to_owned()
        } else {
            format!(
                "the other side of the remote begins with {said:?}: expected {GREETING:?} alone"
            )
        };
        Err(Error::new(ErrorKind::Io, message))
    }

    /// Sends a request or a part of one. Maps a broken pipe to another error, because callers treat
    /// a broken pipe as an output whose reader has read enough; here the request was not executed.
    fn send(&mut self, frame: &Frame<Request>) -> Result<()> {
        frame.write(&mut self.output).map_err(|error| {
            let is_unheard = io_cause(&error).is_some_and(|cause| cause.kind() == Io::BrokenPipe);
            match is_unheard {
                true => Error::io("ask the other side of the remote", Io::ConnectionAborted.into()),
                false => error,
            }
        })
    }

    fn answer(&mut self) -> Result<Frame<Answer>> {
        let answer = Frame::read(&mut self.input)?;
        answer.ok_or_else(|| Error::io("wait for an answer", Io::UnexpectedEof.into()))
    }
}

/// Returns true if the connection ended, so that the result of the request is unknown.
fn is_disconnect(error: &Error) -> bool {
    error.kind() == ErrorKind::Io && io_cause(error).is_some()
}

/// Returns the I/O error behind an error.
fn io_cause(error: &Error) -> Option<&io::Error> {
    error.source().and_then(|cause| cause.downcast_ref())
}

fn expect_ok(answer: &Answer) -> Result<()> {
    match answer {
        Answer::Ok {} => Ok(()),
        _ => Err(unexpected()),
    }
}

fn unexpected() -> Error {
    Error::malformed("the other side of the remote", "an answer to the request")
}

/// Converts a failure reported by the server to an error.
fn server_error(kind: &str, message: &str) -> Error {
    let kinds = [
        ErrorKind::NotFound,
        ErrorKind::Locked,
        ErrorKind::Unsupported,
        ErrorKind::LimitExceeded,
        ErrorKind::InvalidInput,
    ];
    let kind = kinds.into_iter().find(|known| known.name() == kind).unwrap_or(ErrorKind::Io);
    Error::new(kind, format!("the other side of the remote: {}", sanitized(message)))
}

/// Sanitizes a server message for a terminal.
fn sanitized(text: &str) -> String {
    text.trim().chars().filter(|c| !c.is_control()).take(MAX_SAID).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An output whose reader has ended.
    struct Unheard;

    impl Write for Unheard {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(Io::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_nobody_hears_is_not_done_and_no_output_that_was_read_to_its_end() {
        let bucket = PipeBucket::new(|| {
            let input = Box::new(io::Cursor::new(format!("{GREETING}\n")));
            Ok(Pipe { input, output: Box::new(Unheard), guard: Box::new(()) })
        });
        let key = Key::new("heads/a").unwrap();
        let asked = [
            bucket.get(&key, None, None).map(drop),
            bucket.list("", None).map(drop),
            bucket.delete(std::slice::from_ref(&key)),
        ];
        for asked in asked {
            let error = asked.unwrap_err();
            assert_eq!(
                io_cause(&error).map(io::Error::kind),
                Some(Io::ConnectionAborted),
                "{error}"
            );
        }
        assert_eq!(bucket.put_new(&key, Bytes::new()).unwrap(), Put::Unknown);
    }
}
