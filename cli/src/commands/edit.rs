//! `edit`, `compact` and `uncompact`: store a changed conversation in a new snapshot.

use std::io::Write;

use clap::Args;
use clap_complete::ArgValueCompleter;
use turntree::object::{ObjectId, Trigger};
use turntree::repo::Repository;
use turntree::{Error, ErrorKind};
use turntree_exchange::{
    Cut, EditedConversation, OffloadOptions, Tail, edit_conversation, expand_compaction, is_prompt,
};

use super::Verb;
use crate::porcelain::change::conversation_edits::{
    CompactOptions, Edition, compact, free_branch, take,
};
use crate::porcelain::change::offload::{PutAway, outputs_over};
use crate::porcelain::read::revision::resolve;
use crate::program::complete::revisions;
use crate::program::invocation::{Invocation, stamp};
use crate::view::error::{Answer, Failure, Result};
use crate::view::json;
use crate::view::output::{FAINT, ID, NAME, Output};
use crate::view::render::{ID_DIGITS, count, size};
use crate::view::units::parse_size;

/// The default size above which --shorten shortens a text.
const SHORT_BYTES: u64 = 2_000;

/// The smallest such size, because a placeholder takes some hundred bytes.
const LEAST_BYTES: u64 = 1_000;

/// Approximate bytes of the marker between beginning and end.
const MARKER_BYTES: u64 = 400;

/// Drop or shorten parts of a conversation, on a new branch
///
/// Creates a branch at REV without the dropped parts of the conversation. A call and its result are
/// always dropped together. Shortened texts keep their beginning and their end; thoughts and
/// arguments of calls stay whole. The branch of REV does not change, and 'turntree resume' resumes
/// the new one in an agent. Parts are prompt:N, turn:N, message:N, or ranges such as prompt:3..5,
/// both ends included; prompt:-1 is the newest. Turns are known back to the last compaction.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree edit --drop prompt:-1
  turntree edit nightly --drop prompt:3..5 --drop turn:40 --dry-run
  turntree edit --shorten message:14 --to 4k
  turntree edit --out-larger-than 20k --name lean")]
pub(crate) struct Edit {
    /// The snapshot
    #[arg(value_name = "REV", default_value = "HEAD", add = ArgValueCompleter::new(revisions))]
    revision: String,
    /// Drop this part; may be given several times
    #[arg(long, value_name = "PART", required_unless_present_any = ["out_larger_than", "shorten"])]
    drop: Vec<String>,
    /// Shorten the texts of this part, and add a URI for the whole; may be given several times
    #[arg(long, value_name = "PART")]
    shorten: Vec<String>,
    /// With --shorten: shorten texts with more bytes than this, at least 1k; 2k by default
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "shorten")]
    to: Option<u64>,
    /// Offload tool outputs with more bytes than this, and replace each with a short text and a URI
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    out_larger_than: Option<u64>,
    #[command(flatten)]
    branch: NewBranch,
}

/// Offload old large tool outputs without loss, in a new snapshot
///
/// Adds a snapshot to the branch of REV in which a short text with a URI replaces each of these
/// outputs; 'turntree vfs get' prints the exact original bytes. Nothing else changes, and earlier
/// snapshots are kept. Prints the estimated tokens before and after.
///
/// A client continues its own transcript, so a session recorded by a client is compacted on a new
/// branch, which 'turntree resume' resumes. The same applies if REV is not the newest snapshot of a
/// branch. 'turntree uncompact' restores the outputs in the conversation.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree compact --dry-run
  turntree compact nightly --offload-over 20k --keep-recent 30")]
pub(crate) struct Compact {
    /// The snapshot
    #[arg(value_name = "REV", default_value = "HEAD", add = ArgValueCompleter::new(revisions))]
    revision: String,
    #[command(flatten)]
    how: CompactOptions,
}

/// Restore the messages that a compaction replaced, on a new branch
///
/// Creates a branch at REV in which the messages replaced by the newest compaction are back in
/// place of its summary, followed by the later messages. The branch of REV does not change.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree uncompact
  turntree uncompact nightly --name whole && turntree resume whole")]
pub(crate) struct Uncompact {
    /// The snapshot
    #[arg(value_name = "REV", default_value = "HEAD", add = ArgValueCompleter::new(revisions))]
    revision: String,
    #[command(flatten)]
    branch: NewBranch,
}

#[derive(Debug, Args)]
struct NewBranch {
    /// Name of the new branch, in the session of REV
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Print the outcome without changing anything
    #[arg(short = 'n', long)]
    dry_run: bool,
}

impl Verb for Edit {
    fn reads_only(&self) -> bool {
        self.branch.dry_run
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        // The content was imported before, so its secrets are not reported again.
        run.keep_quiet();
        let repo = run.open()?;
        let cuts =
            |parts: &[String]| parts.iter().map(|part| cut(part)).collect::<Result<Vec<_>>>();
        let (dropped, shortened) = (cuts(&self.drop)?, cuts(&self.shorten)?);
        let to = self.to.unwrap_or(SHORT_BYTES);
        if to < LEAST_BYTES {
            return Err(Error::invalid("--to takes 1k at least").into());
        }
        let from = resolve(&repo, &self.revision)?.commit;
        let half = (to - MARKER_BYTES) / 2;
        let of_parts = OffloadOptions {
            threshold: to,
            head_chars: half,
            tail: Tail::Chars(half),
            whole_characters: true,
        };
        let (of_parts, of_outputs) = (Some(of_parts), self.out_larger_than.map(outputs_over));
        let mut away = PutAway::new(&repo)?;
        let mut put_away = |text: &str, is_part: bool| {
            let options = if is_part { &of_parts } else { &of_outputs };
            options.as_ref().map_or(Ok(None), |options| away.stand_in(text, options))
        };
        let mut prompts = repo.prompts(Some(&is_prompt))?;
        let edited =
            edit_conversation(&repo, &from, &mut prompts, &dropped, &shortened, 0, &mut put_away)?;
        if edited.dropped == 0 && edited.shortened == 0 {
            let what = if self.shorten.is_empty() { "output" } else { "text of these" };
            return Err(Error::invalid(format!("no {what} is so large: nothing changes")).into());
        }
        let mut what = Vec::new();
        if edited.dropped > 0 {
            let pairs = match edited.with_pairs {
                0 => String::new(),
                pairs => format!(", {pairs} to keep calls and results together"),
            };
            what.push(format!("dropped {}{pairs}", count(edited.dropped, "message")));
        }
        if edited.shortened > 0 {
            let unit = if self.shorten.is_empty() { "output" } else { "text" };
            what.push(format!("put {} away", count(edited.shortened, unit)));
        }
        if !self.branch.dry_run {
            away.store(&stamp()?)?;
        }
        self.branch.begin(run, &repo, &from, edited, "edit", &what.join(", "))
    }
}

impl Verb for Uncompact {
    fn reads_only(&self) -> bool {
        self.branch.dry_run
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        // The content was imported before, so its secrets are not reported again.
        run.keep_quiet();
        let repo = run.open()?;
        let from = resolve(&repo, &self.revision)?.commit;
        let (edited, turn) = expand_compaction(&repo, &from)?;
        let messages = count(edited.messages.len() as u64, "message");
        let what = format!("{messages}, with those before the compaction of turn {turn}");
        self.branch.begin(run, &repo, &from, edited, "uncompact", &what)
    }
}

impl NewBranch {
    /// Puts an edited conversation on a branch that begins at its original snapshot.
    fn begin(
        &self,
        run: &mut Invocation,
        repo: &Repository,
        from: &ObjectId,
        edited: EditedConversation,
        verb: &str,
        what: &str,
    ) -> Result<Answer> {
        if edited.messages.is_empty() {
            return Err(Error::invalid("nothing of the conversation would be left").into());
        }
        let session = repo.commit(from)?.session;
        let branch = free_branch(repo, &session, verb, self.name.as_deref())?;
        let (from, trigger, dry_run) = (*from, Trigger::Manual, self.dry_run);
        let edition = Edition { from, branch, verb, what, trigger, dry_run };
        let told = take(repo, edited, &edition, &stamp()?)?;
        print(&mut run.out, &told, what)
    }
}

impl Verb for Compact {
    fn reads_only(&self) -> bool {
        self.how.dry_run
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        // The content was imported before, so its secrets are not reported again.
        run.keep_quiet();
        let repo = run.open()?;
        let told = compact(&repo, &self.revision, &self.how)?;
        if told.shortened == 0 && !run.out.json {
            let (recent, over) = (self.how.keep_recent, size(self.how.offload_over));
            let none = format!(
                "no output before the newest {} has more than {over}",
                count(recent, "message")
            );
            writeln!(run.out, "{none}: about {} tokens stay", told.tokens_before)?;
            return Ok(Answer::Yes);
        }
        print(&mut run.out, &told, &format!("put {} away", count(told.shortened, "output")))
    }
}

/// Prints the result of an edit; `what` describes it.
fn print(out: &mut Output, told: &json::Edited, what: &str) -> Result<Answer> {
    if out.json {
        out.record(told)?;
        return Ok(Answer::Yes);
    }
    let json::Edited { session, branch, id, turn, bytes_before, bytes_after, .. } = told;
    let paint = out.paint;
    let branch = format!("{session}/{branch}");
    let name = paint.paint(NAME, &branch);
    match id {
        None => writeln!(out, "{name} would get turn {turn}: {what}")?,
        Some(id) => {
            let id = paint.paint(ID, id.get(..ID_DIGITS).unwrap_or(id));
            writeln!(out, "{id} turn {turn} of {name}: {what}")?;
        }
    }
    let (before, after) = (size(*bytes_before), size(*bytes_after));
    let tokens = format!("about {} tokens become {}", told.tokens_before, told.tokens_after);
    writeln!(out, "{before} of messages become {after}, {tokens}")?;
    let hint = match id {
        None => "nothing was done".to_owned(),
        Some(_) => format!("'turntree resume {branch}' continues it"),
    };
    writeln!(out, "{}", paint.paint(FAINT, hint))?;
    Ok(Answer::Yes)
}

/// Parses a part of a conversation.
fn cut(part: &str) -> Result<Cut> {
    let bad = || {
        let error = Error::new(ErrorKind::InvalidInput, format!("'{part}' is not a part"));
        Failure::hinted(error, "expected prompt:N, turn:N, message:N, or a range as prompt:3..5")
    };
    let (kind, numbers) = part.split_once(':').ok_or_else(bad)?;
    let (from, to) = numbers.split_once("..").unwrap_or((numbers, numbers));
    let signed = |text: &str| text.parse::<i64>().ok().filter(|n| *n != 0).ok_or_else(bad);
    let number = |text: &str| text.parse::<u64>().map_err(|_| bad());
    let cut = match kind {
        "prompt" => Cut::Prompts(signed(from)?, signed(to)?),
        "turn" => Cut::Turns(number(from)?, number(to)?),
        "message" => Cut::Messages(number(from)?, number(to)?),
        _ => return Err(bad()),
    };
    Ok(cut)
}
