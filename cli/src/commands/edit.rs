//! `edit` and `uncompact`: another conversation on a branch of its own.

use std::io::Write;

use bytes::Bytes;
use clap::Args;
use clap_complete::ArgValueCandidates;
use turntree::context::{Builder, MAIN_AGENT, MessageEntry, agent_section};
use turntree::object::{Kind, ObjectId, ObjectSink};
use turntree::repo::{BranchName, Repository, SnapshotDraft};
use turntree::{Error, ErrorKind};
use turntree_exchange::{
    Cut, EditedConversation, EditedMessage, OffloadOptions, Tail, edit_conversation, is_prompt,
    named_by_content, offload, uncompacted,
};

use super::Verb;
use crate::porcelain::revision::resolve;
use crate::program::complete::revisions;
use crate::program::invocation::{Invocation, stamp};
use crate::view::error::{Answer, Failure, Result};
use crate::view::json;
use crate::view::output::{FAINT, ID, NAME};
use crate::view::render::{ID_DIGITS, count, size};
use crate::view::units::parse_size;

/// Characters of an output that stay at its end.
const TAIL_CHARS: u64 = 500;

/// Bytes of a text that --shorten leaves as it is, unless --to says otherwise.
const SHORT_BYTES: u64 = 2_000;

/// The least of these: what stands for a text takes some hundred bytes.
const LEAST_BYTES: u64 = 1_000;

/// Bytes of the words between beginning and end, about.
const MARKER_BYTES: u64 = 400;

/// Metadata: the snapshot that was edited.
const EDITED_FROM: &str = "edited-from";

/// Section of the pieces of the transcript, which an edited conversation is not.
const SOURCE: &str = "source";

/// Drop or shorten parts of a conversation, on a new branch
///
/// Begins a branch at REV whose conversation has no more what is dropped. Calls and their results stay
/// together: with one the other is dropped. What is shortened keeps its beginning and its end; thoughts
/// and arguments of calls stay whole. The branch of REV stays as it is, and 'turntree resume'
/// takes the new one up in an agent. Parts are prompt:N, turn:N, message:N, or ranges as prompt:3..5,
/// both ends included; prompt:-1 is the newest. Turns are known back to the last compaction.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree edit --drop prompt:-1
  turntree edit nightly --drop prompt:3..5 --drop turn:40 --dry-run
  turntree edit --shorten message:14 --to 4k
  turntree edit --out-larger-than 20k --name lean")]
pub(crate) struct Edit {
    /// The snapshot
    #[arg(value_name = "REV", default_value = "HEAD", add = ArgValueCandidates::new(revisions))]
    revision: String,
    /// Drop this part; may be given several times
    #[arg(long, value_name = "PART", required_unless_present_any = ["out_larger_than", "shorten"])]
    drop: Vec<String>,
    /// Shorten the texts of this part, with a URI for the whole; may be given several times
    #[arg(long, value_name = "PART")]
    shorten: Vec<String>,
    /// With --shorten: texts with more bytes than this, 1k at least; 2k by default
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "shorten")]
    to: Option<u64>,
    /// Put outputs of tools with more bytes than this away; a short text with a URI stands for each
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    out_larger_than: Option<u64>,
    #[command(flatten)]
    branch: NewBranch,
}

/// Bring back the messages that a compaction replaced, on a new branch
///
/// Begins a branch at REV whose conversation has, in place of the summary of the newest compaction, the
/// messages that it replaced, and then those that came after it. The branch of REV stays as it is.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree uncompact
  turntree uncompact nightly --name whole && turntree resume whole")]
pub(crate) struct Uncompact {
    /// The snapshot
    #[arg(value_name = "REV", default_value = "HEAD", add = ArgValueCandidates::new(revisions))]
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
        // What is written came in before.
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
        let (stamp, dry_run) = (stamp()?, self.branch.dry_run);
        let larger_than = |threshold, head_chars, tail_chars| OffloadOptions {
            threshold,
            head_chars,
            tail: Tail::Chars(tail_chars),
            whole_characters: true,
        };
        let of_outputs = self.out_larger_than.map(|threshold| {
            larger_than(
                threshold,
                OffloadOptions::default().head_chars,
                TAIL_CHARS.min(threshold / 2),
            )
        });
        let half = (to - MARKER_BYTES) / 2;
        let of_parts = Some(larger_than(to, half, half));
        let mut put_away = |text: &str, is_part: bool| {
            let options = if is_part { &of_parts } else { &of_outputs };
            let Some(options) = options.as_ref().filter(|o| text.len() as u64 > o.threshold) else {
                return Ok(None);
            };
            let new = named_by_content(Bytes::copy_from_slice(text.as_bytes()));
            let uri = match dry_run {
                true => new.uri,
                false => repo.put_payload(&new, &stamp)?.payload.uri,
            };
            let short = offload(text, options, uri.as_str(), None).map(|short| short.to_text());
            Ok(short.filter(|short| short.len() < text.len()))
        };
        let mut prompts = repo.prompts(Some(&is_prompt))?;
        let edited =
            edit_conversation(&repo, &from, &mut prompts, &dropped, &shortened, &mut put_away)?;
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
        self.branch.begin(run, &repo, &from, edited, "edit", &what.join(", "))
    }
}

impl Verb for Uncompact {
    fn reads_only(&self) -> bool {
        self.branch.dry_run
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        // What is written came in before.
        run.keep_quiet();
        let repo = run.open()?;
        let from = resolve(&repo, &self.revision)?.commit;
        let (edited, turn) = uncompacted(&repo, &from)?;
        let messages = count(edited.messages.len() as u64, "message");
        let what = format!("{messages}, with those before the compaction of turn {turn}");
        self.branch.begin(run, &repo, &from, edited, "uncompact", &what)
    }
}

impl NewBranch {
    /// Puts an edited conversation on a branch that begins at the snapshot it was made of.
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
        let commit = repo.commit(from)?;
        let branch = self.branch(repo, &commit.session, verb)?;
        let EditedConversation { messages, dropped, with_pairs, shortened, bytes } = edited;
        let kept = messages.len() as u64;
        let (mut change, stamp) = (repo.begin(), stamp()?);
        let mut builder = Builder::from(repo.context(from)?);
        let mut items = Vec::new();
        for message in messages {
            items.push(match message {
                EditedMessage::Kept(item) => item,
                EditedMessage::Shortened(entry, record) => {
                    let blob = change.write(Kind::Blob, record.into())?;
                    MessageEntry { blob, ..entry }.to_item()?
                }
            });
        }
        builder.set_list(&mut change, &agent_section(MAIN_AGENT, "messages")?, items)?;
        // An import must not take it for the transcript of the session.
        builder.clear(&mut change, SOURCE)?;
        let tree = builder.write(&mut change)?;
        let mut draft = SnapshotDraft::new(tree, format!("{verb}: {what}"), &stamp);
        draft.metadata.insert(EDITED_FROM.to_owned(), from.to_string());
        change.move_branch(&branch, Some(*from));
        let id = change.snapshot(&branch, draft)?;
        let turn = change.read_commit(&id)?.turn;
        if !self.dry_run {
            change.commit(&stamp, &format!("{verb} {branch}"))?;
        }
        if run.out.json {
            run.out.record(&json::Edited {
                from: from.to_string(),
                session: branch.session().to_owned(),
                branch: branch.branch().to_owned(),
                id: (!self.dry_run).then(|| id.to_string()),
                turn,
                dry_run: self.dry_run,
                messages: kept,
                dropped,
                with_pairs,
                shortened,
                bytes_before: bytes.0,
                bytes_after: bytes.1,
            })?;
            return Ok(Answer::Yes);
        }
        let paint = run.out.paint;
        let name = paint.paint(NAME, &branch);
        match self.dry_run {
            true => writeln!(run.out, "{name} would begin: {what}")?,
            false => {
                let id = paint.paint(ID, id.short(ID_DIGITS));
                writeln!(run.out, "{id} turn {turn} of {name}: {what}")?;
            }
        }
        let (before, after) = (size(bytes.0), size(bytes.1));
        let tokens = [bytes.0, bytes.1].map(|bytes| bytes / 4);
        let tokens = format!("about {} tokens become {}", tokens[0], tokens[1]);
        writeln!(run.out, "{before} of messages become {after}, {tokens}")?;
        let hint = match self.dry_run {
            true => "nothing was done".to_owned(),
            false => format!("'turntree resume {branch}' goes on with it"),
        };
        writeln!(run.out, "{}", paint.paint(FAINT, hint))?;
        Ok(Answer::Yes)
    }

    /// The branch that is named, or the first free one that is called after the verb.
    fn branch(&self, repo: &Repository, session: &str, verb: &str) -> Result<BranchName> {
        if let Some(name) = &self.name {
            let branch = BranchName::new(session, name)?;
            if repo.tip(&branch).is_some() {
                let taken = Error::invalid(format!("branch {branch} exists already"));
                return Err(Failure::hinted(taken, "choose another --name"));
            }
            return Ok(branch);
        }
        let mut number = 1;
        loop {
            let name = if number == 1 { verb.to_owned() } else { format!("{verb}-{number}") };
            let branch = BranchName::new(session, &name)?;
            if repo.tip(&branch).is_none() {
                return Ok(branch);
            }
            number += 1;
        }
    }
}

/// The part that a word names.
fn cut(part: &str) -> Result<Cut> {
    let bad = || {
        let error = Error::new(ErrorKind::InvalidInput, format!("'{part}' names no part"));
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
