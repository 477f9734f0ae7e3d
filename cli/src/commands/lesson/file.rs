//! `lesson export` and `lesson import`: LESSONS.md, which people edit.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use clap_complete::ArgValueCompleter;
use turntree::workspace::save;
use turntree::{Error, ErrorKind};
use turntree_exchange::lessons::{Lessons, LessonsDocument};

use crate::porcelain::change::lessons::target::{LessonBranch, lessons_at};
use crate::porcelain::read::revision::resolve;
use crate::program::complete::revisions;
use crate::program::invocation::{Invocation, input_name, read_input, stamp};
use crate::view::error::{Answer, Failure, Hint, Result};
use crate::view::json;
use crate::view::render::count;

/// Write LESSONS.md, which people can edit and 'turntree lesson import' reads back
#[derive(Debug, Args)]
pub(super) struct Export {
    /// The file; standard output by default
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: Option<PathBuf>,
    /// The snapshot
    #[arg(long, value_name = "REV", default_value = "HEAD", add = ArgValueCompleter::new(revisions))]
    from: String,
    /// Replace an existing file
    #[arg(long, requires = "file")]
    force: bool,
}

/// Import the edits of LESSONS.md
///
/// A lesson that was removed from the file is deprecated; one under the heading '## new' is added.
/// Lessons added since the export stay. A file with a mistake is refused as a whole. To edit the
/// same file further, rewrite it with --rewrite.
#[derive(Debug, Args)]
pub(super) struct Import {
    /// The file, or - for standard input
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
    /// Rewrite the file with the resulting lessons
    #[arg(long)]
    rewrite: bool,
    #[command(flatten)]
    target: LessonBranch,
}

impl Export {
    pub(super) fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let (lessons, _) = lessons_at(&repo, &self.from)?;
        let text = LessonsDocument::of(&lessons).to_text()?;
        let Some(path) = &self.file else {
            write!(run.out, "{text}")?;
            return Ok(Answer::Yes);
        };
        let write = |out: &mut dyn Write| write_text(out, path, &text);
        let hint = "--force overwrites it; import it first to keep its edits";
        let bytes = save(path, self.force, write).hint(ErrorKind::InvalidInput, hint)?;
        let (file, commit) = (path.display().to_string(), resolve(&repo, &self.from)?.commit);
        if run.out.json {
            run.out.record(&json::ExportRecord {
                at: json::CommitId::new(commit.to_string()),
                file,
                bytes,
                newer_messages: None,
                lost_lines: Vec::new(),
                opened: None,
                key: None,
            })?;
        } else {
            let lessons = count(lessons.iter().count() as u64, "lesson");
            writeln!(run.out, "wrote {lessons} to {file}")?;
        }
        Ok(Answer::Yes)
    }
}

impl Import {
    pub(super) fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let (bytes, name) = (read_input(&self.file)?, input_name(&self.file));
        let text = std::str::from_utf8(&bytes)
            .map_err(|_| Error::invalid(format!("{name} is not UTF-8")))?;
        let document = LessonsDocument::parse(text).map_err(|error| error.at(&name))?;
        let answer = self.target.change(run, "import", |change| {
            let source = change.repo.store();
            let base = Lessons::read_section(source, document.base).map_err(|_| {
                let gone = "the lessons that it was exported from are not in this store";
                let error = Error::not_found(format!("{name}: {gone}"));
                Failure::hinted(error, "write it again with 'turntree lesson export'")
            })?;
            let (turn, now) = (change.tip.turn, stamp()?.time.micros / 1000);
            document
                .merge_into(&mut change.lessons, &base, turn, now)
                .map_err(|error| error.at(&name))
                .hint(ErrorKind::Conflict, "write it again with 'turntree lesson export'")
        })?;
        if self.rewrite {
            let repo = run.open()?;
            let branch = self.target.branch(&repo)?;
            let (lessons, _) = lessons_at(&repo, &branch.to_string())?;
            let text = LessonsDocument::of(&lessons).to_text()?;
            save(&self.file, true, |out| write_text(out, &self.file, &text))?;
        }
        Ok(answer)
    }
}

fn write_text(out: &mut dyn Write, path: &Path, text: &str) -> turntree::Result<()> {
    let failed = |error| Error::io(format!("write {}", path.display()), error);
    out.write_all(text.as_bytes()).map_err(failed)
}
