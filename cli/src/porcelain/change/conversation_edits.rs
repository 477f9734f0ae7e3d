//! Stores edited conversations in a new snapshot, on a new branch or on top of the edited one; and
//! compacts a conversation without loss by offloading old large outputs.

use clap::Args;
use turntree::context::sections::MAIN_MESSAGES;
use turntree::context::{Builder, MessageEntry, Transcript};
use turntree::object::{Kind, ObjectId, ObjectSink, Trigger};
use turntree::repo::{BranchName, Repository, Signature, SnapshotDraft};
use turntree::{Error, ErrorKind};
use turntree_exchange::{EditedConversation, EditedMessage, edit_conversation, is_prompt};

use super::offload::{PutAway, outputs_over};
use crate::porcelain::read::revision::resolve;
use crate::program::invocation::stamp;
use crate::view::advice::Advice;
use crate::view::error::{Failure, Hint, Result};
use crate::view::json;
use crate::view::render::count;
use crate::view::units::parse_size;

/// Metadata: the edited snapshot.
const EDITED_FROM: &str = "edited-from";

/// Approximate bytes of a record per token.
const BYTES_PER_TOKEN: u64 = 4;

/// The defaults of a compaction: the size above which an output is offloaded, and the number of
/// recent messages left alone.
pub(crate) const OFFLOAD_OVER: u64 = 5000;
pub(crate) const KEEP_RECENT: u64 = 10;

/// The target of an edited conversation, and the wording of its message.
pub(crate) struct Edition<'a> {
    /// The edited snapshot.
    pub(crate) from: ObjectId,
    /// A branch at that snapshot, or a new one.
    pub(crate) branch: BranchName,
    pub(crate) verb: &'a str,
    /// A description of the edit.
    pub(crate) what: &'a str,
    pub(crate) trigger: Trigger,
    pub(crate) dry_run: bool,
}

/// The outputs that a compaction offloads, and the target branch.
#[derive(Debug, Args)]
pub(crate) struct CompactOptions {
    /// Offload tool outputs with more bytes than this
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value_t = OFFLOAD_OVER)]
    pub(crate) offload_over: u64,
    /// Leave this many of the newest messages as they are
    #[arg(long, value_name = "N", default_value_t = KEEP_RECENT)]
    pub(crate) keep_recent: u64,
    /// Create a branch of this name instead of advancing the branch of REV
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Print the outcome without changing anything
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
}

/// Offloads old large outputs of the conversation of a revision, in a snapshot on top of its
/// branch. Uses a new branch if the session has a client's transcript, because the client continues
/// its own transcript, and if the revision is not the newest snapshot. Does nothing if there are no
/// such outputs.
pub(crate) fn compact(
    repo: &Repository,
    revision: &str,
    how: &CompactOptions,
) -> Result<json::Edited> {
    let at = resolve(repo, revision)?;
    let (from, stamp) = (at.commit, stamp()?);
    let (mut away, options) = (PutAway::new(repo)?, outputs_over(how.offload_over));
    let mut prompts = repo.prompts(Some(&is_prompt))?;
    let mut put_away = |text: &str, _: bool| away.stand_in(text, &options);
    let recent = how.keep_recent;
    let edited = edit_conversation(repo, &from, &mut prompts, &[], &[], recent, &mut put_away)?;
    let commit = repo.commit(&from)?;
    let is_recorded = !Transcript::open(repo, &repo.context(&from)?)?.is_empty();
    let own = at.branch.filter(|branch| repo.tip(branch) == Some(from));
    let branch = match own.filter(|_| how.name.is_none() && !is_recorded) {
        Some(own) => own,
        None => free_branch(repo, &commit.session, "compact", how.name.as_deref())?,
    };
    if edited.shortened == 0 {
        return Ok(record(&edited, &from, &branch, (None, commit.turn), how.dry_run));
    }
    if !how.dry_run {
        away.store(&stamp)?;
    }
    let what = format!("put {} away", count(edited.shortened, "output"));
    let (trigger, dry_run) = (Trigger::Compaction, how.dry_run);
    let edition = Edition { from, branch, verb: "compact", what: &what, trigger, dry_run };
    take(repo, edited, &edition, &stamp)
}

/// Takes the snapshot with an edited conversation.
pub(crate) fn take(
    repo: &Repository,
    mut edited: EditedConversation,
    edition: &Edition<'_>,
    stamp: &Signature,
) -> Result<json::Edited> {
    let Edition { from, branch, verb, what, trigger, dry_run } = edition;
    let mut change = repo.begin();
    match change.tip(branch) {
        None => change.move_branch(branch, Some(*from)),
        Some(tip) if tip == *from => {}
        Some(_) => {
            let message = format!("branch {branch} has moved since the edit began: run it again");
            return Err(Error::new(ErrorKind::Conflict, message).into());
        }
    }
    let mut builder = Builder::from(repo.context(from)?);
    let mut items = Vec::new();
    for message in std::mem::take(&mut edited.messages) {
        items.push(match message {
            EditedMessage::Kept(item) => item,
            EditedMessage::Shortened(entry, record) => {
                let blob = change.write(Kind::Blob, record.into())?;
                MessageEntry { blob, ..entry }.to_item()?
            }
        });
    }
    let messages = items.len();
    builder.set_list(&mut change, MAIN_MESSAGES, items)?;
    // Without the transcript: an import must not mistake the edited conversation for the session's
    // transcript.
    builder.clear_transcript(&mut change)?;
    let tree = builder.write(&mut change)?;
    let mut draft = SnapshotDraft::new(tree, format!("{verb}: {what}"), stamp);
    draft.trigger = *trigger;
    draft.metadata.insert(EDITED_FROM.to_owned(), from.to_string());
    let id = change.snapshot(branch, draft)?;
    let turn = change.read_commit(&id)?.turn;
    if !dry_run {
        let race = Advice::anyone("another process has changed this branch: try again");
        change.commit(stamp, &format!("{verb} {branch}")).hint(ErrorKind::Conflict, race)?;
    }
    let made = (!dry_run).then_some(id);
    let told = record(&edited, from, branch, (made, turn), *dry_run);
    Ok(json::Edited { messages: messages as u64, ..told })
}

fn record(
    edited: &EditedConversation,
    from: &ObjectId,
    branch: &BranchName,
    (id, turn): (Option<ObjectId>, u64),
    dry_run: bool,
) -> json::Edited {
    let EditedConversation { messages, dropped, with_pairs, shortened, bytes } = edited;
    json::Edited {
        from: from.to_string(),
        session: branch.session().to_owned(),
        branch: branch.branch().to_owned(),
        id: id.map(|id| id.to_string()),
        turn,
        dry_run,
        messages: messages.len() as u64,
        dropped: *dropped,
        with_pairs: *with_pairs,
        shortened: *shortened,
        bytes_before: bytes.0,
        bytes_after: bytes.1,
        tokens_before: bytes.0 / BYTES_PER_TOKEN,
        tokens_after: bytes.1 / BYTES_PER_TOKEN,
    }
}

/// The named branch, or the first free branch name that begins with the verb.
pub(crate) fn free_branch(
    repo: &Repository,
    session: &str,
    verb: &str,
    name: Option<&str>,
) -> Result<BranchName> {
    if let Some(name) = name {
        let branch = repo.new_branch(session, name)?;
        if repo.tip(&branch).is_some() {
            let taken = Error::invalid(format!("branch {branch} exists already"));
            let advice = Advice::new("choose another --name", "choose another name");
            return Err(Failure::hinted(taken, advice));
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
