//! `offload`: stores a long text, and prints the short one that stands for it.

use std::io::Write;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use clap::Args;
use serde_json::value::RawValue;
use turntree::Error;
use turntree::repo::vfs::{StoredPayload, VfsUri};
use turntree::workspace::save;
use turntree_exchange::{OffloadOptions, Placeholder, Tail, named_by_content, offload};

use super::Verb;
use crate::program::invocation::{Invocation, input_name, read_input, stamp};
use crate::view::error::{Answer, Result};
use crate::view::json;

/// Store a long text, and print a short stand-in with its URI
///
/// The short text names the URI of the whole, which 'turntree vfs get' reads back byte for byte. A
/// text that is short enough is printed as it is, and not stored. Lengths are counted in UTF-16
/// units, as JavaScript does. The next snapshot that cites the URI keeps the payload; no turn is
/// added.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  make 2>&1 | turntree offload
  turntree offload build.log --threshold 20000 --head-chars 500 --tail-chars 4000
  turntree offload build.log --tail-lines 20 --json")]
pub(crate) struct Offload {
    /// The text, or - for standard input
    #[arg(value_name = "FILE", default_value = "-", value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
    /// Store only texts longer than this
    #[arg(long, value_name = "N", default_value_t = OffloadOptions::default().threshold)]
    threshold: u64,
    /// Show so much of its beginning, up to whole lines
    #[arg(long, value_name = "N", default_value_t = 0)]
    head_chars: u64,
    /// Show so much of its end, from whole lines on [default: 2000]
    #[arg(long, value_name = "N", conflicts_with = "tail_lines")]
    tail_chars: Option<u64>,
    /// Show so many lines of its end instead
    #[arg(long, value_name = "N")]
    tail_lines: Option<u64>,
    /// Leave out a character that a cut would halve, instead of printing its half
    #[arg(long)]
    whole_characters: bool,
    /// Write the whole to this directory as well, and name the file
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    storage_dir: Option<PathBuf>,
}

impl Verb for Offload {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let content = read_input(&self.file)?;
        let text = std::str::from_utf8(&content).map_err(|error| {
            let (name, at) = (input_name(&self.file), error.valid_up_to());
            Error::invalid(format!("{name}: not UTF-8 at byte {at}"))
        })?;
        let new = named_by_content(content.clone());
        let Some(shown) = self.replacement(text, &new.uri) else {
            return Self::print_short(run, text, &content);
        };
        let repo = run.open_or_create()?;
        let StoredPayload { payload, .. } = repo.put_payload(&new, &stamp()?)?;
        // Another content may have the short name.
        let shown = match payload.uri == new.uri {
            true => shown,
            false => self.replacement(text, &payload.uri).unwrap_or(shown),
        };
        let file = self.file_of(&payload.uri);
        if let Some(file) = &file {
            write_beside(file, &content)?;
        }
        if run.out.json {
            let content = RawValue::from_string(shown.to_json())
                .map_err(|error| Error::invalid("a text as JSON").with_source(error))?;
            run.out.record(&json::Offloaded {
                offloaded: true,
                content,
                uri: Some(payload.uri.to_string()),
                id: Some(payload.blob.to_string()),
                file: file.map(|file| file.display().to_string()),
            })?;
        } else {
            run.out.write_all(shown.to_text().as_bytes())?;
        }
        Ok(Answer::Yes)
    }
}

impl Offload {
    fn replacement(&self, text: &str, uri: &VfsUri) -> Option<Placeholder> {
        let default = OffloadOptions::default();
        let tail = match (self.tail_lines, self.tail_chars) {
            (Some(lines), _) => Tail::Lines(lines),
            (None, Some(chars)) => Tail::Chars(chars),
            (None, None) => default.tail,
        };
        let (threshold, head_chars) = (self.threshold, self.head_chars);
        let whole_characters = self.whole_characters;
        let options = OffloadOptions { threshold, head_chars, tail, whole_characters };
        let file = self.file_of(uri).map(|file| file.display().to_string());
        offload(text, &options, uri.as_str(), file.as_deref())
    }

    fn file_of(&self, uri: &VfsUri) -> Option<PathBuf> {
        self.storage_dir.as_ref().map(|dir| dir.join(uri.path()))
    }

    /// A text that stays as it is.
    fn print_short(run: &mut Invocation, text: &str, content: &Bytes) -> Result<Answer> {
        if run.out.json {
            let content = serde_json::value::to_raw_value(text)
                .map_err(|error| Error::invalid("a text as JSON").with_source(error))?;
            let (uri, id, file) = (None, None, None);
            run.out.record(&json::Offloaded { offloaded: false, content, uri, id, file })?;
        } else {
            run.out.write_all(content)?;
        }
        Ok(Answer::Yes)
    }
}

/// The payload as a file, for tools that read files. One that is there has the same content, since
/// its name says so; it is written again all the same, as it may be half of it.
fn write_beside(file: &Path, content: &Bytes) -> Result<()> {
    if let Some(dir) = file.parent() {
        std::fs::create_dir_all(dir)
            .map_err(|error| Error::io(format!("make {}", dir.display()), error))?;
    }
    save(file, true, |out: &mut dyn Write| {
        out.write_all(content).map_err(|error| Error::io("write the payload", error))
    })?;
    Ok(())
}
