//! The server end of a pipe: answers requests from a local bucket.

use std::io::{Read, Write};
use std::sync::Arc;

use bytes::Bytes;

use super::GREETING;
use super::frame::{Answer, Frame, MAX_PAYLOAD_BYTES, Request};
use crate::error::{Error, Result};
use crate::store::IoFile;
use crate::transfer::remote::bucket::{Bucket, Got, Key, Put, Version};

/// Objects per page.
const PAGE_OBJECTS: usize = 1000;

/// Serves requests until the client is done. Uploads are spooled to a file until they are complete.
///
/// # Errors
/// `Io` if the client ends within a request, `Corrupt` or `LimitExceeded` if it sends an invalid
/// frame. Errors of the bucket become answers.
pub fn serve(
    bucket: &dyn Bucket,
    input: &mut dyn Read,
    output: &mut dyn Write,
    spool: &dyn Fn() -> Result<Arc<dyn IoFile>>,
) -> Result<()> {
    greet(output)?;
    while let Some(Frame { header, payload }) = Frame::<Request>::read(input)? {
        let answered = match header {
            Request::Upload { key, bytes } => {
                let file = receive(input, bytes, spool)?;
                file.and_then(|file| bucket.upload(&Key::new(key)?, &file))
                    .map(|()| Frame::plain(Answer::Ok {}))
            }
            header => answer(bucket, header, payload),
        };
        answered.unwrap_or_else(|error| failed(&error)).write(output)?;
    }
    Ok(())
}

/// Answers the first request with the reason why there is no bucket.
///
/// # Errors
/// Errors of [`serve`].
pub fn refuse(why: &Error, input: &mut dyn Read, output: &mut dyn Write) -> Result<()> {
    greet(output)?;
    match Frame::<Request>::read(input)? {
        Some(_) => failed(why).write(output),
        None => Ok(()),
    }
}

fn greet(output: &mut dyn Write) -> Result<()> {
    let greeted = writeln!(output, "{GREETING}").and_then(|()| output.flush());
    greeted.map_err(|error| Error::io("greet the other side", error))
}

fn failed(error: &Error) -> Frame<Answer> {
    let (kind, message) = (error.kind().name().to_owned(), error.with_causes());
    Frame::plain(Answer::Failed { kind, message })
}

/// Reads the parts of an upload. Reads them even if they cannot be stored, because the next request
/// follows them.
fn receive(
    input: &mut dyn Read,
    bytes: u64,
    spool: &dyn Fn() -> Result<Arc<dyn IoFile>>,
) -> Result<Result<Arc<dyn IoFile>>> {
    let (mut kept, mut at) = (spool(), 0_u64);
    while at < bytes {
        let part = Frame::<Request>::read(input)?;
        let Some(Frame { header: Request::Part {}, payload }) = part else {
            return Err(Error::malformed("an upload", "its parts"));
        };
        let length = payload.len() as u64;
        if length == 0 || length > bytes - at {
            return Err(Error::malformed(
                "an upload",
                format_args!("parts of {bytes} bytes in total"),
            ));
        }
        kept = kept.and_then(|file| {
            let written = file.write_at(&payload, at);
            written.map(|()| file).map_err(|error| Error::io("store the upload", error))
        });
        at += length;
    }
    Ok(kept)
}

fn answer(bucket: &dyn Bucket, request: Request, payload: Bytes) -> Result<Frame<Answer>> {
    let put = |put: Put| match put {
        Put::Done(version) => Answer::Done { version: version.0 },
        Put::Lost => Answer::Lost {},
        Put::Unknown => Answer::Unknown {},
    };
    let header = match request {
        Request::Get { key, range, unless } => {
            let range = range.unwrap_or(0..u64::MAX);
            let most = range.start.saturating_add(MAX_PAYLOAD_BYTES.into());
            let range = range.start..range.end.min(most);
            match bucket.get(&Key::new(key)?, Some(range), unless.map(Version).as_ref())? {
                Got::Missing => Answer::Missing {},
                Got::Same => Answer::Same {},
                Got::Bytes { bytes, version, size } => {
                    let header = Answer::Bytes { version: version.0, size };
                    return Ok(Frame { header, payload: bytes });
                }
            }
        }
        Request::PutNew { key } => put(bucket.put_new(&Key::new(key)?, payload)?),
        Request::PutOver { key, seen } => {
            put(bucket.put_over(&Key::new(key)?, payload, &Version(seen))?)
        }
        Request::List { prefix, after } => {
            let after = after.map(Key::new).transpose()?;
            let mut page = bucket.list(&prefix, after.as_ref())?;
            page.has_more |= page.objects.len() > PAGE_OBJECTS;
            page.objects.truncate(PAGE_OBJECTS);
            page.into()
        }
        Request::Delete { keys } => {
            let keys: Vec<Key> = keys.into_iter().map(Key::new).collect::<Result<_>>()?;
            bucket.delete(&keys)?;
            Answer::Ok {}
        }
        Request::Upload { .. } | Request::Part {} => {
            return Err(Error::malformed("the request", "an upload before its parts"));
        }
    };
    Ok(Frame::plain(header))
}
