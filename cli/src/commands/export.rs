//! `export`: writes an imported transcript, or the messages of a snapshot.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use turntree::context::SalvagedRecords;
use turntree::object::ObjectId;
use turntree::repo::{Repository, SearchScope};
use turntree::transfer::bundle::BundleRequest;
use turntree::workspace::save;
use turntree::{Error, ErrorKind};
use turntree_exchange::SecretFinding;
use turntree_exchange::render::PageKey;

use super::Verb;
use crate::porcelain::read::lost_turns::{LostTurn, naming_turn};
use crate::porcelain::read::secret_scan::LineScan;
use crate::porcelain::read::secrets::{Passage, SecretGate, refuse, still_found, without_secrets};
use crate::porcelain::transfer::export::{ExportRequest, SalvagedTurn, Subject};
use crate::porcelain::transfer::scrub::{Scrubbed, tips};
use crate::program::browser;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Failure, Hint, Result};
use crate::view::json;
use crate::view::output::{note, warn};
use crate::view::render::{ID_DIGITS, count, size};

/// The advice if no turn is whole.
const NOTHING_WHOLE: &str = "no turn of this session is whole: 'turntree export --partial' writes the records that \
                             are left with --format source or jsonl, where there are any";

/// What to do with the key of an encrypted page.
const KEY_NOTE: &str = "the key is shown only now: readers need it behind the address of the file; it opens the page \
                        until the file is deleted";

/// Export a session
///
/// --format source writes the imported file, byte for byte. jsonl writes the original messages of
/// one agent at that revision, one per line. swarm-snapshot writes a SwarmSDK document,
/// context-chef a snapshot that its library restores, and ollm-context, ollm-mode and ollm-intent
/// write OLLM CLI's files. codesign writes a design store with the history of the revision, one
/// design for each session, and codesign-session the chat and the comments of one design. For
/// reading: markdown, and html, one file that needs no network and shows every branch if REV is a
/// session. For other tools: json, openai, anthropic and atif. For training and evaluation: sft, dpo,
/// grpo, verifiers and inspect, of all branches if REV is a session or with --exploration, and
/// environment, a new folder with a task. A file is written atomically, with permissions by the
/// umask, like a redirection. The output is scanned for secrets: if one is
/// found, nothing is written and the exit code is 1, unless --scrub or --allow-secrets is given.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree export nightly --format source -o nightly.jsonl
  turntree export nightly~10 --format jsonl | jq -r .type
  turntree export nightly --format source --partial -o whole.jsonl
  turntree export HEAD --format jsonl --agent reviewer@main
  turntree export nightly --format markdown --scrub -o nightly.md
  turntree export nightly --format html -o nightly.html
  turntree export nightly --format html -o nightly.html --force --open
  turntree export plan-a plan-b --format html -o plans.html
  turntree export nightly --format anthropic | jq '.messages | length'
  turntree export review~2 --format swarm-snapshot -o snapshot.json
  turntree export --exploration explore --format grpo -o groups.jsonl
  turntree export nightly --format sft --passed --compress -o answers.jsonl.zst
  turntree export cache --format environment -o tasks/cache
  turntree export pricing landing --format codesign --branches -o design-store.json
  turntree export pricing --format codesign-session -o chat.jsonl
  turntree export work --format ollm-context --compat upstream -o snapshot.json
  turntree export work.modes --format ollm-mode")]
pub(crate) struct Export {
    #[command(flatten)]
    request: ExportRequest,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// If the requested turn is damaged, write the newest whole turn. If there is none, write the
    /// remaining records (with source or jsonl), with an empty line for each lost one. The written
    /// turn and the losses are reported, and the exit code is then 1
    #[arg(long, hide_short_help = true)]
    partial: bool,
    /// Replace an existing file
    #[arg(long, requires = "output")]
    force: bool,
    /// Open the page in the browser named by BROWSER, otherwise in that of the desktop. Over ssh
    /// and without a display, print the path instead
    #[arg(long, requires = "output", hide_short_help = true)]
    open: bool,
    #[command(flatten)]
    gate: SecretGate,
}

impl Verb for Export {
    fn reads_only(&self) -> bool {
        true
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let request = self.request.expanded(&repo)?;
        let done = match request.is_folder() {
            true => self.export_folder(run, &repo, &request),
            false => self.export(run, &repo, &request),
        };
        let [revision] = request.revisions() else {
            return done;
        };
        let is_damage = matches!(&done, Err(Failure::Library { error, .. }) if error.is_damage());
        match LostTurn::of(&repo, revision).filter(|_| self.partial && is_damage) {
            Some(lost) => self.export_whole(run, &repo, (&request, &lost), done),
            None => naming_turn(&repo, revision, done),
        }
    }
}

impl Export {
    /// An export into a file.
    pub(super) fn new(
        request: ExportRequest,
        output: PathBuf,
        force: bool,
        gate: SecretGate,
    ) -> Self {
        Self { request, output: Some(output), partial: false, force, open: false, gate }
    }

    /// Exports the newest whole turn instead of a lost one, or the salvaged records if there is
    /// none; otherwise returns the error.
    fn export_whole(
        &self,
        run: &mut Invocation,
        repo: &Repository,
        (request, lost): (&ExportRequest, &LostTurn),
        done: Result<Answer>,
    ) -> Result<Answer> {
        let Some(whole) = lost.newest_whole(repo)? else {
            let Some(left) = request.salvage(repo, &lost.commit)? else {
                return done.hint_damage(NOTHING_WHOLE);
            };
            return self.export_left(run, repo, &lost.session, left);
        };
        if whole.id == lost.commit {
            return done;
        }
        if self.export(run, repo, &request.of_commit(&whole.id))? == Answer::No {
            return Ok(Answer::No);
        }
        let (session, turn, id) = (&lost.session, whole.turn, whole.id.short(ID_DIGITS));
        warn(&format!("this is turn {turn} of {session} ({id}): all later turns are damaged"));
        Ok(Answer::No)
    }

    /// Writes the salvaged records of a turn, and reports the losses.
    fn export_left(
        &self,
        run: &mut Invocation,
        repo: &Repository,
        session: &str,
        left: SalvagedTurn,
    ) -> Result<Answer> {
        let SalvagedTurn { id, turn, mut text, records } = left;
        // Does not search the history for the places of secrets, because it is damaged.
        match self.gate.check_bytes(repo, &text, &[])? {
            Passage::Free => {}
            Passage::Refused(found) => {
                refuse(&mut run.out, &found, self.output.is_some())?;
                return Ok(Answer::No);
            }
            Passage::Masked(_) => text = without_secrets(repo, text)?,
        }
        self.put(
            run,
            &id,
            &mut |out| write_text(out, &text),
            Facts { lost_lines: &records.lost, ..Facts::default() },
        )?;
        let SalvagedRecords { whole, lost, .. } = &records;
        let gone: u64 = lost.iter().map(|(first, last)| last - first + 1).sum();
        let (all, id) = (count(whole + gone, "record"), id.short(ID_DIGITS));
        warn(&format!(
            "no turn of {session} is whole: wrote the intact part of turn {turn} ({id}), {whole} of {all}"
        ));
        for (first, last) in lost {
            warn(&match first == last {
                true => format!("line {first} is lost"),
                false => format!("lines {first} to {last} are lost"),
            });
        }
        Ok(Answer::No)
    }

    fn export(
        &self,
        run: &mut Invocation,
        repo: &Repository,
        request: &ExportRequest,
    ) -> Result<Answer> {
        if request.is_page() && self.output.is_none() && io::stdout().is_terminal() {
            let error = Error::invalid("not writing a page to a terminal");
            return Err(Failure::hinted(error, "name a file with -o"));
        }
        if self.open && !request.is_page() {
            return Err(Error::invalid("--open is for html only").into());
        }
        let mut subject = request.subject(repo)?;
        // On a terminal, a bar would stand between the lines of the export.
        subject.shows_steps = self.output.is_some() || !io::stdout().is_terminal();
        if self.stream(run, repo, request, &subject)? {
            return Ok(Answer::Yes);
        }
        // What was refused is encrypted with the first key, and a key is for one page.
        let request = &request.with_new_key()?;
        let text = match self.text(repo, request, &subject)? {
            Outgoing::Text(text) => text,
            Outgoing::Refused(found) => {
                refuse(&mut run.out, &found, self.output.is_some())?;
                return Ok(Answer::No);
            }
        };
        let newer = request.newer_messages(&subject)?;
        // Compresses the same bytes that were scanned for secrets.
        let mut finish =
            |out: &mut dyn Write| request.finish(out, &mut |out| write_text(out, &text));
        self.put(run, &subject.id, &mut finish, Facts::of(request, newer))?;
        warn_of_newer(newer);
        request.left_out(&subject).iter().for_each(|told| note(told));
        Ok(Answer::Yes)
    }

    /// Writes a task folder. Each of its files is scanned for secrets before any is written.
    fn export_folder(
        &self,
        run: &mut Invocation,
        repo: &Repository,
        request: &ExportRequest,
    ) -> Result<Answer> {
        let Some(path) = &self.output else {
            let error = Error::invalid("a task folder is not written to standard output");
            return Err(Failure::hinted(error, "name a folder with -o"));
        };
        if self.force || self.open {
            return Err(Error::invalid("--force and --open are for files").into());
        }
        let subject = request.subject(repo)?;
        let Some(folder) = &subject.environment else {
            return Err(Error::invalid("this format is no folder").into());
        };
        let wanted = folder.snapshots().map(BundleRequest::Commit);
        let scope = SearchScope { starts: tips(repo, &wanted), hide: Vec::new() };
        let written = match self.gate.check_each(repo, folder.contents(repo)?, &[scope])? {
            Passage::Free => folder.write(repo, path)?,
            Passage::Refused(found) => {
                refuse(&mut run.out, &found, true)?;
                return Ok(Answer::No);
            }
            Passage::Masked(found) => {
                let copy = Scrubbed::of(repo, &wanted, &[], &found)?;
                let mask = |text: &str| {
                    let masked = without_secrets(repo, text.as_bytes().to_vec())?;
                    Ok(String::from_utf8_lossy(&masked).into_owned())
                };
                let masked = folder.masked(copy.repo(), &|id| copy.commit(id), &mask)?;
                match self.gate.check_each(repo, masked.contents(copy.repo())?, &[])? {
                    Passage::Free => masked.write(copy.repo(), path)?,
                    Passage::Masked(left) | Passage::Refused(left) => {
                        return Err(still_found(&left));
                    }
                }
            }
        };
        let ((files, bytes), file) = (written, path.display().to_string());
        if run.out.json {
            let at = json::CommitId::new(subject.id.to_string());
            let (newer_messages, lost_lines, opened, key) = (None, Vec::new(), None, None);
            let record =
                json::ExportRecord { at, file, bytes, newer_messages, lost_lines, opened, key };
            run.out.record(&record)?;
        } else {
            writeln!(run.out, "wrote {}, {} to {file}", count(files, "file"), size(bytes))?;
        }
        Ok(Answer::Yes)
    }

    /// Writes the export while it is made, so that the whole of it is never in memory. Returns
    /// false, and writes nothing, if it may contain a secret.
    fn stream(
        &self,
        run: &mut Invocation,
        repo: &Repository,
        request: &ExportRequest,
        subject: &Subject<'_>,
    ) -> Result<bool> {
        let newer = request.newer_messages(subject)?;
        let is_file = self.output.as_deref().is_some_and(|path| !is_special(path));
        if is_file {
            // A file gets its name at the end, so it is scanned while it is written.
            let mut secrets = None;
            let mut write = |out: &mut dyn Write| {
                let mut scan = LineScan::new(repo, self.gate);
                request.finish(out, &mut |out| {
                    request.write_unfinished(subject, &mut ScannedWriter { out, scan: &mut scan })
                })?;
                let found = scan.may_have_secrets();
                let is_free = matches!(found, Ok(false));
                secrets = Some(found);
                is_free.then_some(()).ok_or_else(|| Error::invalid("it may contain a secret"))
            };
            let written = self.put(run, &subject.id, &mut write, Facts::of(request, newer));
            if secrets.unwrap_or(Ok(false))? {
                return Ok(false);
            }
            written?;
        } else {
            // What is written cannot be taken back: the first time, it is only read and scanned.
            let mut scan = LineScan::new(repo, self.gate);
            request.write_unfinished(subject, &mut scan)?;
            if scan.may_have_secrets()? {
                return Ok(false);
            }
            let mut write = |out: &mut dyn Write| request.write(subject, out);
            self.put(run, &subject.id, &mut write, Facts::of(request, newer))?;
        }
        warn_of_newer(newer);
        request.left_out(subject).iter().for_each(|told| note(told));
        Ok(true)
    }

    /// Writes the output of `write` to the output file or stdout.
    fn put(
        &self,
        run: &mut Invocation,
        id: &ObjectId,
        write: &mut dyn FnMut(&mut dyn Write) -> turntree::Result<()>,
        facts: Facts<'_>,
    ) -> Result<()> {
        let Some(path) = &self.output else { return Ok(write(&mut run.out)?) };
        let failed = |error| Error::io(format!("write {}", path.display()), error);
        let bytes = match special(path) {
            Some(opened) => {
                write(&mut opened.map_err(failed)?)?;
                0
            }
            None if path.is_dir() => save(path, self.force, write)?,
            None => save(path, self.force, write)
                .hint(ErrorKind::InvalidInput, "--force replaces it")?,
        };
        let file = path.display().to_string();
        let whole = std::path::absolute(path).map_err(failed)?;
        let opened = self.open.then(|| browser::open(whole.as_os_str()));
        if run.out.json {
            let Facts { lost_lines, newer_messages, key } = facts;
            let (at, lost_lines) = (json::CommitId::new(id.to_string()), lost_lines.to_vec());
            let key = key.map(PageKey::fragment);
            let record =
                json::ExportRecord { at, file, bytes, newer_messages, lost_lines, opened, key };
            run.out.record(&record)?;
        } else {
            writeln!(run.out, "wrote {} to {file}", size(bytes))?;
            if let Some(key) = facts.key {
                writeln!(run.out, "{}", key.fragment())?;
                note(KEY_NOTE);
            }
        }
        if opened == Some(false) {
            note(&format!("there is no browser here: open {} in one", whole.display()));
        }
        Ok(())
    }

    /// The text after the check for secrets.
    fn text(
        &self,
        repo: &Repository,
        request: &ExportRequest,
        subject: &Subject<'_>,
    ) -> Result<Outgoing> {
        let mut text = Vec::new();
        request.write_unfinished(subject, &mut text)?;
        let wanted = request.wanted(repo)?;
        let scope = SearchScope { starts: tips(repo, &wanted), hide: Vec::new() };
        let found = match self.gate.check_bytes(repo, &text, &[scope])? {
            Passage::Free => return Ok(Outgoing::Text(text)),
            Passage::Refused(found) => return Ok(Outgoing::Refused(found)),
            Passage::Masked(found) => found,
        };
        let copy = Scrubbed::of(repo, &wanted, &[], &found)?;
        let request = request.of_copy(repo, &copy)?;
        text.clear();
        request.write_unfinished(&request.subject(copy.repo())?, &mut text)?;
        // Some formats join text that is separate in the store, so the output itself is masked too.
        Ok(Outgoing::Text(without_secrets(repo, text)?))
    }
}

/// What a user learns about a written file.
#[derive(Clone, Copy, Default)]
struct Facts<'a> {
    lost_lines: &'a [(u64, u64)],
    newer_messages: Option<u64>,
    key: Option<&'a PageKey>,
}

impl<'a> Facts<'a> {
    fn of(request: &'a ExportRequest, newer_messages: Option<u64>) -> Self {
        Self { newer_messages, key: request.key(), ..Self::default() }
    }
}

/// The output of an export.
enum Outgoing {
    Text(Vec<u8>),
    Refused(Vec<SecretFinding>),
}

/// A writer whose bytes are also scanned for secrets.
struct ScannedWriter<'a, 'r> {
    out: &'a mut dyn Write,
    scan: &'a mut LineScan<'r>,
}

impl Write for ScannedWriter<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.scan.write_all(bytes.get(..written).unwrap_or_default())?;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn write_text(out: &mut dyn Write, text: &[u8]) -> turntree::Result<()> {
    out.write_all(text).map_err(|error| Error::io("write the text", error))
}

fn warn_of_newer(newer: Option<u64>) {
    if let Some(newer) = newer {
        let newer = count(newer, "newer message");
        warn(&format!(
            "{newer} not in the transcript that was imported: --format jsonl has all of them"
        ));
    }
}

/// Returns true for a pipe or a device.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Opens a pipe or a device, which is written to directly.
fn special(path: &Path) -> Option<io::Result<fs::File>> {
    is_special(path).then(|| fs::OpenOptions::new().write(true).open(path))
}
