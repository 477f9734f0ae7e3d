//! Edits conversations: removes messages with their calls and results, offloads long outputs, and
//! restores messages that a compaction replaced.
//!
//! A call and its result are removed together, because models reject one without the other.

use std::collections::BTreeSet;
use std::ops::Range;

use serde_json::Value;
use turntree::context::{Context, MAIN_AGENT, MessageEntry};
use turntree::error::{Error, ErrorKind, Result};
use turntree::object::{Kind, ObjectId, ObjectSource, Trigger};
use turntree::repo::{Prompts, Repository};
use turntree::tree::Item;

use crate::formats::view;
use crate::text::json;

/// Members whose text is not a tool output: signatures, arguments, and bytes of pictures.
const NO_OUTPUT: [&str; 5] = ["data", "signature", "input", "arguments", "args"];

/// Members whose text is not shortened in other messages either: signed thinking, and URLs.
const NO_TEXT: [&str; 5] =
    ["thinking", "thinkingSignature", "thoughtSignature", "encrypted_content", "url"];

/// The part to remove from a conversation. All numbers are inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Prompts with all their messages. Negative numbers count from the newest prompt, which is -1.
    Prompts(i64, i64),
    /// Turns.
    Turns(u64, u64),
    /// Messages, by their index in the conversation.
    Messages(u64, u64),
}

/// A message of an edited conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditedMessage {
    /// An unchanged message.
    Kept(Item),
    /// A message with offloaded texts: the old entry, and the new record.
    Shortened(MessageEntry, Vec<u8>),
}

/// An edited conversation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EditedConversation {
    /// Its messages.
    pub messages: Vec<EditedMessage>,
    /// The number of removed messages.
    pub dropped: u64,
    /// The part of them that was removed only with a call or a result.
    pub with_pairs: u64,
    /// The number of offloaded texts.
    pub shortened: u64,
    /// The bytes of the records before and after.
    pub bytes: (u64, u64),
}

/// The messages that a turn added.
struct TurnMessages {
    turn: u64,
    prompt: Option<u64>,
    range: Range<u64>,
}

/// A message with its call ids and result ids.
struct LinkedMessage {
    item: Item,
    entry: MessageEntry,
    bytes: bytes::Bytes,
    calls: Vec<String>,
    results: Vec<String>,
}

/// Removes `cuts` from the main conversation of the snapshot `tip` and offloads texts. `put_away`
/// receives the outputs of tools, and, with `true`, all texts of the messages `shorten` except for
/// thinking and call arguments. It returns the replacement of a text, or `None` to keep it. The
/// newest `keep_recent` messages keep their outputs.
///
/// Cost: reads every message, and the commits back to the last compaction.
///
/// # Errors
/// `NotFound` for a cut that is not in the conversation, and the errors of `put_away` and of
/// reading.
pub fn edit_conversation(
    repo: &Repository,
    tip: &ObjectId,
    prompts: &mut Prompts<'_>,
    cuts: &[Cut],
    shorten: &[Cut],
    keep_recent: u64,
    put_away: &mut dyn FnMut(&str, bool) -> Result<Option<String>>,
) -> Result<EditedConversation> {
    let linked = read(repo, &repo.context(tip)?)?;
    let is_by_part = !(cuts.is_empty() && shorten.is_empty());
    let turns = if is_by_part { turns(repo, tip, prompts)? } else { Vec::new() };
    let all = |cuts: &[Cut]| -> Result<BTreeSet<usize>> {
        let mut all = BTreeSet::new();
        for cut in cuts {
            let found = indexes(*cut, &turns, linked.len() as u64)?;
            all.extend(found.into_iter().flatten().map(index));
        }
        Ok(all)
    };
    let (mut out, chosen) = (all(cuts)?, all(shorten)?);
    let asked = out.len();
    close_pairs(&linked, &mut out);
    let mut edited = EditedConversation {
        dropped: out.len() as u64,
        with_pairs: (out.len() - asked) as u64,
        ..EditedConversation::default()
    };
    let recent = linked.len().saturating_sub(index(keep_recent));
    for (at, message) in linked.into_iter().enumerate() {
        edited.bytes.0 += message.bytes.len() as u64;
        if out.contains(&at) {
            continue;
        }
        let (before, is_chosen) = (edited.shortened, chosen.contains(&at));
        let is_old_result = !message.results.is_empty() && at < recent;
        let value = match is_old_result || is_chosen {
            true => json::value(&message.bytes),
            false => None,
        };
        let shortened = match value {
            Some(mut value) => {
                shorten_texts(&mut value, is_chosen, put_away, &mut edited.shortened)?;
                (edited.shortened > before).then(|| value.to_string().into_bytes())
            }
            None => None,
        };
        edited.bytes.1 += shortened.as_ref().map_or(message.bytes.len(), Vec::len) as u64;
        edited.messages.push(match shortened {
            Some(bytes) => EditedMessage::Shortened(message.entry, bytes),
            None => EditedMessage::Kept(message.item),
        });
    }
    Ok(edited)
}

/// Returns the main conversation of the snapshot `tip` with the summary of the newest compaction
/// replaced by the original messages, and the turn of that compaction.
///
/// # Errors
/// `NotFound` if the line has no compaction, `Expired` if the original messages expired.
pub fn expand_compaction(repo: &Repository, tip: &ObjectId) -> Result<(EditedConversation, u64)> {
    for entry in repo.history(&[*tip], &[])?.first_parent() {
        let entry = entry?;
        if entry.commit.trigger != Trigger::Compaction {
            continue;
        }
        let Some(parent) = entry.parents.first() else { break };
        let store = repo.store();
        let then = repo.context(&entry.id)?.messages(store, MAIN_AGENT)?.len();
        let (mut now, mut all) =
            (read(repo, &repo.context(tip)?)?, read(repo, &repo.context(parent)?)?);
        let present = bytes_of(&now);
        let answered: BTreeSet<String> =
            all.iter().flat_map(|message| message.results.clone()).collect();
        let later = now.split_off(index(then).min(now.len()));
        // A client may compact between a call and its result, and then record that result again.
        let is_again = |message: &LinkedMessage| {
            !message.results.is_empty()
                && message.calls.is_empty()
                && message.results.iter().all(|id| !id.is_empty() && answered.contains(id))
        };
        all.extend(later.into_iter().filter(|message| !is_again(message)));
        let bytes = (present, bytes_of(&all));
        let messages = all.into_iter().map(|message| EditedMessage::Kept(message.item)).collect();
        let edited = EditedConversation { messages, bytes, ..EditedConversation::default() };
        return Ok((edited, entry.commit.turn));
    }
    Err(Error::not_found("this branch has no compaction: there is nothing to restore"))
}

fn bytes_of(messages: &[LinkedMessage]) -> u64 {
    messages.iter().map(|message| message.bytes.len() as u64).sum()
}

fn read(repo: &Repository, context: &Context) -> Result<Vec<LinkedMessage>> {
    let store = repo.store();
    let list = context.messages(store, MAIN_AGENT)?;
    let linked = |item: Result<Item>| {
        let item = item?;
        let entry = MessageEntry::from_item(&item)?;
        let bytes = store.read_as(Kind::Blob, &entry.blob)?;
        let message = view(&entry.media, &bytes);
        let calls = message.tool_calls.into_iter().map(|call| call.id).collect();
        let results = message.tool_results.into_iter().map(|result| result.call_id).collect();
        Ok(LinkedMessage { item, entry, bytes, calls, results })
    };
    list.iter(store, 0..list.len()).map(linked).collect()
}

/// Extends `out` by the results of removed calls and the calls of removed results.
fn close_pairs(linked: &[LinkedMessage], out: &mut BTreeSet<usize>) {
    loop {
        let gone = |at: &usize| linked.get(*at);
        let calls: BTreeSet<&String> =
            out.iter().filter_map(gone).flat_map(|message| &message.calls).collect();
        let results: BTreeSet<&String> =
            out.iter().filter_map(gone).flat_map(|message| &message.results).collect();
        let belongs = |message: &LinkedMessage| {
            let is_of = |ids: &[String], gone: &BTreeSet<&String>| {
                ids.iter().any(|id| !id.is_empty() && gone.contains(id))
            };
            is_of(&message.results, &calls) || is_of(&message.calls, &results)
        };
        let more: Vec<usize> = (0..linked.len())
            .filter(|at| !out.contains(at) && linked.get(*at).is_some_and(belongs))
            .collect();
        if more.is_empty() {
            return;
        }
        out.extend(more);
    }
}

/// Returns the turns since the last compaction, oldest first, with the messages of each.
fn turns(
    repo: &Repository,
    tip: &ObjectId,
    prompts: &mut Prompts<'_>,
) -> Result<Vec<TurnMessages>> {
    let store = repo.store();
    let now = repo.context(tip)?.messages(store, MAIN_AGENT)?;
    let (mut turns, mut end) = (Vec::new(), now.len());
    for entry in repo.history(&[*tip], &[])?.first_parent() {
        let entry = entry?;
        let before = match entry.parents.first().map(|parent| repo.context(parent)).transpose() {
            Ok(context) => context.unwrap_or_default().messages(store, MAIN_AGENT)?,
            Err(error) if error.kind() == ErrorKind::Expired => break,
            Err(error) => return Err(error),
        };
        let from = before.len();
        let last = from.checked_sub(1);
        let goes_on = from <= end
            && match last {
                Some(last) => before.get(store, last)? == now.get(store, last)?,
                None => true,
            };
        let (turn, prompt) = (entry.commit.turn, prompts.number(&entry)?);
        let from = if goes_on { from } else { 0 };
        turns.push(TurnMessages { turn, prompt, range: from..end });
        end = from;
        if end == 0 {
            break;
        }
    }
    turns.reverse();
    let mut prompt = None;
    for turn in &mut turns {
        prompt = turn.prompt.or(prompt);
        turn.prompt = prompt;
    }
    Ok(turns)
}

/// Returns the messages of a cut.
fn indexes(cut: Cut, turns: &[TurnMessages], messages: u64) -> Result<Vec<Range<u64>>> {
    let newest = turns.iter().filter_map(|turn| turn.prompt).max().unwrap_or(0);
    let newest = i64::try_from(newest).unwrap_or(i64::MAX);
    let absolute = |number: i64| if number < 0 { newest + 1 + number } else { number };
    let of = |is_in: &dyn Fn(&TurnMessages) -> bool| {
        turns.iter().filter(|turn| is_in(turn)).map(|turn| turn.range.clone()).collect()
    };
    let (found, what): (Vec<Range<u64>>, String) = match cut {
        Cut::Prompts(from, to) => {
            let wanted = absolute(from)..=absolute(to);
            let is_in = |turn: &TurnMessages| {
                turn.prompt.is_some_and(|p| i64::try_from(p).is_ok_and(|p| wanted.contains(&p)))
            };
            (of(&is_in), format!("prompts {from} to {to}"))
        }
        Cut::Turns(from, to) => {
            (of(&|turn| (from..=to).contains(&turn.turn)), format!("turns {from} to {to}"))
        }
        Cut::Messages(from, to) => {
            let end = to.saturating_add(1).min(messages);
            (std::iter::once(from.min(end)..end).collect(), format!("messages {from} to {to}"))
        }
    };
    if found.iter().all(Range::is_empty) {
        let none = format!("the conversation has no {what} since its last compaction");
        return Err(Error::not_found(none));
    }
    Ok(found)
}

fn index(at: u64) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

/// Offloads the long texts of a record.
fn shorten_texts(
    value: &mut Value,
    is_chosen: bool,
    put_away: &mut dyn FnMut(&str, bool) -> Result<Option<String>>,
    count: &mut u64,
) -> Result<()> {
    match value {
        Value::String(text) => {
            if let Some(short) = put_away(text, is_chosen)? {
                *text = short;
                *count += 1;
            }
        }
        Value::Array(values) => {
            for value in values {
                shorten_texts(value, is_chosen, put_away, count)?;
            }
        }
        Value::Object(members) => {
            for (name, value) in members.iter_mut() {
                let name = name.as_str();
                let stays = NO_OUTPUT.contains(&name) || (is_chosen && NO_TEXT.contains(&name));
                if !stays {
                    shorten_texts(value, is_chosen, put_away, count)?;
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}
