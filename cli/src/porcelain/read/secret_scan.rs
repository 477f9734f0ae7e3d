//! Looks for secrets in a text of any length while it is written: some lines at a time, so that the
//! whole text is never in memory.

use std::io::{self, Write};

use turntree::repo::Repository;

use super::secrets::{SecretGate, open_findings};
use crate::view::error::Result;

/// Bytes of the lines that are scanned together, unless one line is longer.
const WINDOW_BYTES: usize = 4 << 20;

/// Bytes before a window that are scanned again: a secret in plain text may have several lines, as
/// a key in PEM has.
const OVERLAP_BYTES: usize = 64 << 10;

/// A writer that scans for secrets.
pub(crate) struct LineScan<'r> {
    repo: &'r Repository,
    window: Vec<u8>,
    /// True if the rest need not be scanned.
    is_over: bool,
    has_secrets: Result<bool>,
}

impl<'r> LineScan<'r> {
    /// Begins a scan, which finds nothing if secrets are allowed.
    pub(crate) fn new(repo: &'r Repository, gate: SecretGate) -> Self {
        let (window, is_over) = (Vec::new(), gate.allow_secrets);
        Self { repo, window, is_over, has_secrets: Ok(false) }
    }

    /// Scans the rest. Returns false only if the text has no secret that is not allowed; whether it
    /// has one, a scan of the whole text decides.
    ///
    /// # Errors
    /// The errors of reading the settings.
    pub(crate) fn may_have_secrets(mut self) -> Result<bool> {
        self.scan(self.window.len());
        self.has_secrets
    }

    /// Scans the first `len` bytes of the window, and keeps what the next scan may need.
    fn scan(&mut self, len: usize) {
        if self.is_over {
            return;
        }
        let lines = self.window.get(..len).unwrap_or_default();
        let found = open_findings(self.repo, lines).map(|found| !found.is_empty());
        self.is_over = !matches!(found, Ok(false));
        self.has_secrets = found;
        let again = len.saturating_sub(OVERLAP_BYTES);
        // The middle of a line may look like a secret.
        let tail = lines.get(again..).unwrap_or_default();
        let line = tail.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        self.window.drain(..again + line);
    }
}

impl Write for LineScan<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.contains(&0) && !self.is_over {
            // It may be UTF-16, which lines do not divide.
            (self.is_over, self.has_secrets) = (true, Ok(true));
        }
        if self.is_over {
            self.window = Vec::new();
            return Ok(bytes.len());
        }
        self.window.extend_from_slice(bytes);
        if self.window.len() >= WINDOW_BYTES
            && let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n')
        {
            self.scan(self.window.len() - bytes.len() + end + 1);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
