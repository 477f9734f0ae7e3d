//! `offload`: stores a long text, and prints its placeholder.

use std::io::Write;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use clap::Args;
use turntree::Error;
use turntree::workspace::save;
use turntree_exchange::{OffloadOptions, Tail, named_by_content};

use super::Verb;
use crate::porcelain::change::offload::{Offloading, short};
use crate::program::invocation::{Invocation, input_name, read_input};
use crate::view::error::{Answer, Result};

/// Store a long text, and print a short placeholder with its URI
///
/// The placeholder contains the URI of the whole text; 'turntree vfs get' prints the exact original
/// bytes. A short text is printed unchanged, and not stored. Lengths are counted in UTF-16 units,
/// as in JavaScript. The next snapshot that cites the URI keeps the payload; no turn is added.
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
    /// Characters of its beginning to show, up to whole lines
    #[arg(long, value_name = "N", default_value_t = 0)]
    head_chars: u64,
    /// Characters of its end to show, from whole lines on [default: 2000]
    #[arg(long, value_name = "N", conflicts_with = "tail_lines")]
    tail_chars: Option<u64>,
    /// Lines of its end to show instead
    #[arg(long, value_name = "N")]
    tail_lines: Option<u64>,
    /// Leave out a character that a cut would split, instead of printing half of it
    #[arg(long)]
    whole_characters: bool,
    /// Also write the whole text to a file in this directory, and name the file
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    storage_dir: Option<PathBuf>,
}

impl Verb for Offload {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let content = read_input(&self.file)?;
        let text = std::str::from_utf8(&content).map_err(|error| {
            let (name, at) = (input_name(&self.file), error.valid_up_to());
            Error::invalid(format!("{name}: invalid UTF-8 at byte {at}"))
        })?;
        let new = named_by_content(content.clone());
        let offloading = self.offloading();
        let Some(shown) = offloading.placeholder(text, &new.uri) else {
            return Self::print_short(run, text, &content);
        };
        let repo = run.open_or_create()?;
        let stored = offloading.store(&repo, text, &new, shown)?;
        let file = self.storage_dir.as_ref().map(|dir| dir.join(stored.uri.path()));
        if let Some(file) = &file {
            write_beside(file, &content)?;
        }
        if run.out.json {
            run.out.record(&stored.record(file.map(|file| file.display().to_string()))?)?;
        } else {
            run.out.write_all(stored.shown.to_text().as_bytes())?;
        }
        Ok(Answer::Yes)
    }
}

impl Offload {
    fn offloading(&self) -> Offloading<'_> {
        let default = OffloadOptions::default();
        let tail = match (self.tail_lines, self.tail_chars) {
            (Some(lines), _) => Tail::Lines(lines),
            (None, Some(chars)) => Tail::Chars(chars),
            (None, None) => default.tail,
        };
        let (threshold, head_chars) = (self.threshold, self.head_chars);
        let whole_characters = self.whole_characters;
        let options = OffloadOptions { threshold, head_chars, tail, whole_characters };
        Offloading { options, storage_dir: self.storage_dir.as_deref() }
    }

    /// Prints a text that is not offloaded.
    fn print_short(run: &mut Invocation, text: &str, content: &Bytes) -> Result<Answer> {
        if run.out.json {
            run.out.record(&short(text)?)?;
        } else {
            run.out.write_all(content)?;
        }
        Ok(Answer::Yes)
    }
}

/// Writes the payload to a file, for tools that read files. The file name depends on the content,
/// so an existing file should have the same content; it is rewritten anyway, in case it is
/// incomplete.
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
