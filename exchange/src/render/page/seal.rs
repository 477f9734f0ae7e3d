//! Encrypts a page, for servers and people that may see no more than its size.
//!
//! The shell, the style and the script are plain; they are the same in every page. Each block of
//! the data is compressed and sealed with AES-256-GCM, which browsers open:
//!
//! ```text
//! element = base64(sealed block)
//! block   = the numbers of its first lines, a line feed, the lines compressed with zlib
//! nonce   = number of the block (8 bytes, big-endian), 1 in the last block, else 0 (4 bytes)
//! ```
//!
//! A key seals one page, so no nonce repeats. Blocks that were moved, changed or cut off do not
//! open. The page states a hash of its key, by which a browser tells a wrong key from damage.

use std::fmt;
use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use sha2::{Digest, Sha256};
use turntree::error::{Error, Result};

use super::compress::{compress_lines, first_block};
use super::{EMBEDDED, ICON, SEALED, write_file_head};

/// The length of a key in bytes.
pub const PAGE_KEY_BYTES: usize = 32;

/// Bytes of the hash of a key that a page states.
const HASH_BYTES: usize = 16;

/// The title of every encrypted page. The title of the session is in the data.
const TITLE: &str = "Encrypted session";

/// The start of each element with a sealed block.
const BEGIN: &str = "<script type=\"application/json\" class=\"sealed\">";

/// The end of such an element.
const END: &str = "</script>\n";

/// The text of a page until it is open, and if its script does not run.
const WAITING: &str = "This page is encrypted, and opens when all of it has loaded. If it does not \
                       open, the file is incomplete, or scripts are switched off.";

/// The element after the last block, which shows that the file is complete.
const COMPLETE: &str = "<i id=\"complete\" hidden></i>\n</body>\n</html>\n";

/// The secret key of one page.
#[derive(Clone)]
pub struct PageKey([u8; PAGE_KEY_BYTES]);

impl PageKey {
    /// A key from random bytes, which must be used for one page only.
    #[must_use]
    pub fn new(random: [u8; PAGE_KEY_BYTES]) -> Self {
        Self(random)
    }

    /// The part of an address that opens the page: `#key=` and 43 characters.
    #[must_use]
    pub fn fragment(&self) -> String {
        format!("#key={}", URL_SAFE_NO_PAD.encode(self.0))
    }

    fn hash(&self) -> String {
        let digest = Sha256::digest(self.0);
        digest.iter().take(HASH_BYTES).map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for PageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PageKey(..)")
    }
}

/// Encrypts a page while it is written, block by block. Holds two blocks.
#[expect(missing_debug_implementations, reason = "it holds the caller's writer")]
pub struct PageSealer<'a> {
    out: &'a mut dyn Write,
    key: LessSafeKey,
    held: Vec<u8>,
    /// The size of the held bytes at which they are searched again.
    next_search: usize,
    /// The newest block: whether it is the last one shows later.
    newest: Option<Vec<u8>>,
    blocks: u64,
}

impl<'a> PageSealer<'a> {
    /// Begins an encrypted page.
    ///
    /// # Errors
    /// `Io` if the writer fails.
    pub fn begin(out: &'a mut dyn Write, key: &PageKey) -> Result<Self> {
        let bytes = &key.0;
        let sealing = UnboundKey::new(&AES_256_GCM, bytes).map_err(|_| failed())?;
        let (_, shared) = EMBEDDED.end.split_last().unwrap_or((&"", &[]));
        let script = EMBEDDED.scoped(&[shared, &[SEALED]].concat());
        write_file_head((TITLE, ICON), &script, out)
            .and_then(|()| {
                let hash = key.hash();
                writeln!(out, "<p id=\"sealed\" data-key=\"{hash}\">{WAITING}</p>")?;
                writeln!(out, "<script>{script}</script>")
            })
            .map_err(|error| Error::io("write the page", error))?;
        let key = LessSafeKey::new(sealing);
        Ok(Self { out, key, held: Vec::new(), next_search: 0, newest: None, blocks: 0 })
    }

    /// Writes the rest.
    ///
    /// # Errors
    /// `InvalidInput` if the text is no page of [`export_page`](super::export_page), `Io` if the
    /// writer fails.
    pub fn finish(mut self) -> Result<()> {
        self.take_blocks()?;
        let Some(last) = self.newest.take() else {
            return Err(Error::invalid("the encrypted text is not a page: it has no data"));
        };
        self.put(last, true)?;
        let written = self.out.write_all(COMPLETE.as_bytes()).and_then(|()| self.out.flush());
        written.map_err(|error| Error::io("write the page", error))
    }

    /// Takes the complete blocks from the held text, and drops the plain text around them.
    fn take_blocks(&mut self) -> Result<()> {
        while let Some(block) = first_block(&self.held) {
            let packed = compress_lines(block.lines)?;
            let taken = [block.numbers, b"\n", &packed].concat();
            self.held = block.after.to_vec();
            if let Some(before) = self.newest.replace(taken) {
                self.put(before, false)?;
            }
        }
        self.next_search = self.held.len() + self.held.len() / 2 + 1;
        Ok(())
    }

    /// Seals and writes a block.
    fn put(&mut self, mut block: Vec<u8>, is_last: bool) -> Result<()> {
        let mut nonce = [0; 12];
        let (number, last) = nonce.split_at_mut(8);
        number.copy_from_slice(&self.blocks.to_be_bytes());
        last.copy_from_slice(&u32::from(is_last).to_be_bytes());
        let nonce = Nonce::assume_unique_for_key(nonce);
        let sealed = self.key.seal_in_place_append_tag(nonce, Aad::empty(), &mut block);
        sealed.map_err(|_| failed())?;
        self.blocks += 1;
        let written = write!(self.out, "{BEGIN}{}{END}", STANDARD.encode(block));
        written.map_err(|error| Error::io("write the page", error))
    }
}

impl Write for PageSealer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(bytes);
        if self.held.len() >= self.next_search {
            self.take_blocks().map_err(io::Error::other)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn failed() -> Error {
    Error::invalid("the data of a page was not encrypted")
}
