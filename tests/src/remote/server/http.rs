//! HTTP/1.1 as far as clients of an object storage need it.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read, Write};

/// Most bytes of a line of a request.
const MAX_LINE: u64 = 64 << 10;

/// A request as received.
#[derive(Debug, Clone, Default)]
pub(super) struct Asked {
    pub(super) method: String,
    /// The percent-decoded path.
    pub(super) path: String,
    pub(super) query: BTreeMap<String, String>,
    /// The headers by lower-case name.
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: Vec<u8>,
}

/// An answer on its way.
#[derive(Debug, Clone, Default)]
pub(super) struct Answered {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
}

impl Answered {
    pub(super) fn new(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(super) fn xml(status: u16, body: &str) -> Self {
        let body = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{body}").into_bytes();
        Self { status, headers: vec![("Content-Type", "application/xml".to_owned())], body }
    }

    pub(super) fn error(status: u16, code: &str) -> Self {
        let body =
            format!("<Error><Code>{code}</Code><Message>{code}, said on purpose</Message></Error>");
        Self::xml(status, &body)
    }

    /// Writes the answer, with a length that may be wrong.
    pub(super) fn write(&self, to: &mut dyn Write, length: usize, is_head: bool) -> io::Result<()> {
        let mut head = format!("HTTP/1.1 {} Said\r\n", self.status);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !is_head && self.status != 304 && self.status != 204 {
            head.push_str(&format!("Content-Length: {length}\r\n"));
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        if !is_head && self.status != 304 {
            bytes.extend(&self.body);
        }
        to.write_all(&bytes)?;
        to.flush()
    }
}

/// Reads a request. Returns `None` when the client has closed the connection.
pub(super) fn read(from: &mut dyn BufRead, to: &mut dyn Write) -> io::Result<Option<Asked>> {
    let first = line(from)?;
    let mut words = first.split(' ');
    let (Some(method), Some(target)) = (words.next(), words.next()) else { return Ok(None) };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut asked = Asked { method: method.to_owned(), path: decoded(path), ..Asked::default() };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        asked.query.insert(decoded(name), decoded(&value.replace('+', " ")));
    }
    loop {
        let line = line(from)?;
        let Some((name, value)) = line.split_once(':') else { break };
        asked.headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let is =
        |name: &str, word: &str| asked.headers.get(name).is_some_and(|value| value.contains(word));
    if is("expect", "100-continue") {
        to.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let mut body = Vec::new();
    if is("transfer-encoding", "chunked") {
        body = unchunked(from)?;
    } else if let Some(length) = asked.headers.get("content-length") {
        let length: u64 = length.parse().map_err(io::Error::other)?;
        from.take(length).read_to_end(&mut body)?;
        if body.len() as u64 != length {
            return Ok(None);
        }
    }
    if is("x-amz-content-sha256", "STREAMING-") {
        body = unchunked(&mut body.as_slice())?;
    }
    asked.body = body;
    Ok(Some(asked))
}

/// The bytes of chunks as in HTTP and in AWS signatures. Also reads the trailer after the last one.
fn unchunked(from: &mut dyn BufRead) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let size = line(from)?;
        let size = size.split(';').next().unwrap_or_default();
        let size = u64::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
        if size == 0 {
            while !line(from)?.is_empty() {}
            return Ok(bytes);
        }
        let read = from.take(size).read_to_end(&mut bytes)?;
        if read as u64 != size || !line(from)?.is_empty() {
            return Err(io::Error::other("a chunk is not as long as it says"));
        }
    }
}

fn line(from: &mut dyn BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    from.take(MAX_LINE).read_until(b'\n', &mut line)?;
    Ok(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned())
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let hex = behind.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_http_and_of_signatures_are_their_bytes_and_nothing_else_is_taken() {
        let plain = unchunked(&mut &b"5\r\nhello\r\n2;x=y\r\n!!\r\n0\r\n\r\n"[..]).unwrap();
        assert_eq!(plain, b"hello!!");
        let signed = b"5;chunk-signature=00\r\nhe\r\no\r\n0;chunk-signature=00\r\nx-amz-checksum-crc32:AA==\r\n\r\n";
        assert_eq!(unchunked(&mut &signed[..]).unwrap(), b"he\r\no");
        for bad in [
            &b""[..],
            b"\r\n",
            b"x\r\nhello\r\n0\r\n\r\n",
            b"-5\r\nhello\r\n0\r\n\r\n",
            b"5\r\nhel",
            b"5\r\nhello, and more\r\n0\r\n\r\n",
            b"4\r\nhello\r\n0\r\n\r\n",
            b"ffffffffffffffff\r\nhello\r\n0\r\n\r\n",
            b"10000000000000000\r\nhello\r\n0\r\n\r\n",
            b"5\r\nhello\r\n",
        ] {
            assert!(unchunked(&mut &bad[..]).is_err(), "{bad:?}");
        }
    }
}
