//! Writes the intact part of a damaged context: each record that verifies at its line, and an empty
//! line for each lost one.

use std::io::Write;

use bytes::Bytes;

use super::export::one_line;
use super::sections::SOURCE;
use super::{Context, MessageEntry, Role, SourceEntry, Transcript};
use crate::error::{Error, Result};
use crate::object::{Kind, ObjectId, ObjectSource};
use crate::tree::SalvagedPart;

/// The intact part of a damaged transcript or conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SalvagedRecords {
    /// Number of records that verified and were written.
    pub whole: u64,
    /// Line numbers of the output, from 1, that are empty because their records are lost: the first
    /// and the last of each run, in rising order.
    pub lost: Vec<(u64, u64)>,
}

impl SalvagedRecords {
    fn note_lost(&mut self, line: u64) {
        match self.lost.last_mut() {
            Some((_, last)) if line <= last.saturating_add(1) => *last = line,
            _ => self.lost.push((line, line)),
        }
    }
}

/// Writes the transcript of `context` to `out`, as far as its records verify.
///
/// The separator of a lost record is kept, so that the other records of a line format stay at their
/// lines.
///
/// # Errors
/// `NotFound` or `Corrupt` if the records are unreachable, `Io` if writing to `out` fails.
pub fn salvage_source(
    source: &dyn ObjectSource,
    context: &Context,
    out: &mut dyn Write,
) -> Result<SalvagedRecords> {
    let (mut done, mut line) = (SalvagedRecords::default(), 1);
    let mut write = |bytes: &[u8], line: &mut u64| {
        *line += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        out.write_all(bytes).map_err(|error| Error::io("write the transcript", error))
    };
    let transcript = match Transcript::open(source, context) {
        // The number of copied pieces is lost.
        Err(error) if error.is_loss() => {
            done.note_lost(line);
            write(b"\n", &mut line)?;
            Transcript::of(context.list(source, SOURCE)?)
        }
        transcript => transcript?,
    };
    for piece in transcript.pieces(source, 0..transcript.copied()) {
        let found = piece.and_then(|piece| Ok((piece.bytes(source)?, piece.suffix)));
        let (bytes, suffix) = match found {
            Err(error) if error.is_loss() => {
                done.note_lost(line);
                write(b"\n", &mut line)?;
                continue;
            }
            found => found?,
        };
        done.whole += 1;
        write(&bytes, &mut line)?;
        write(&suffix, &mut line)?;
    }
    for found in transcript.own().salvage(source) {
        let item = match found? {
            SalvagedPart::Item(item) => item,
            SalvagedPart::Lost(records) => {
                for _ in 0..records {
                    done.note_lost(line);
                    write(b"\n", &mut line)?;
                }
                continue;
            }
        };
        let entry = SourceEntry::from_item(&item)?;
        match read_intact(source, &entry.blob)? {
            Some(bytes) => {
                done.whole += 1;
                write(&bytes, &mut line)?;
            }
            None => done.note_lost(line),
        }
        write(&entry.suffix, &mut line)?;
    }
    Ok(done)
}

/// Writes the messages of `agent` with wanted roles, one a line, as far as they verify. The roles
/// of messages in a lost node are unknown: each of them leaves an empty line.
///
/// # Errors
/// `InvalidInput` for a bad agent name, `NotFound` or `Corrupt` if the messages are unreachable,
/// `Io` if writing to `out` fails.
pub fn salvage_messages(
    source: &dyn ObjectSource,
    context: &Context,
    agent: &str,
    is_wanted: &dyn Fn(Role) -> bool,
    out: &mut dyn Write,
) -> Result<SalvagedRecords> {
    let (mut done, mut line) = (SalvagedRecords::default(), 0);
    let mut write = |message: Option<Bytes>| {
        line += 1;
        match &message {
            Some(_) => done.whole += 1,
            None => done.note_lost(line),
        }
        let mut text = message.map(|bytes| one_line(&bytes)).unwrap_or_default();
        text.push(b'\n');
        out.write_all(&text).map_err(|error| Error::io("write the messages", error))
    };
    for found in context.messages(source, agent)?.salvage(source) {
        match found? {
            SalvagedPart::Lost(messages) => (0..messages).try_for_each(|_| write(None))?,
            SalvagedPart::Item(item) => {
                let entry = MessageEntry::from_item(&item)?;
                if is_wanted(entry.role) {
                    write(read_intact(source, &entry.blob)?)?;
                }
            }
        }
    }
    Ok(done)
}

/// Returns the bytes of a blob; `None` if they are lost.
fn read_intact(source: &dyn ObjectSource, blob: &ObjectId) -> Result<Option<Bytes>> {
    match source.read_as(Kind::Blob, blob) {
        Err(error) if error.is_loss() => Ok(None),
        read => read.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;
    use crate::context::{Builder, MAIN_AGENT, SourceKind};
    use crate::object::{Memory, Object, ObjectSink as _};

    /// Objects with some lost ones.
    struct Damaged {
        objects: Memory,
        lost: HashSet<ObjectId>,
    }

    impl ObjectSource for Damaged {
        fn read(&self, id: &ObjectId) -> Result<Option<Object>> {
            if self.lost.contains(id) {
                return Err(Error::malformed(id, "what was written"));
            }
            self.objects.read(id)
        }

        fn contains(&self, id: &ObjectId) -> Result<bool> {
            self.objects.contains(id)
        }
    }

    /// Returns a context with these lines as records and as messages, and every object reachable
    /// from it.
    fn written(lines: &[String]) -> (Damaged, Context, Vec<ObjectId>) {
        let (mut objects, mut builder) = (Memory::new(), Builder::new());
        for line in lines {
            let blob = objects.write(Kind::Blob, line.clone().into()).unwrap();
            let suffix = Bytes::from_static(b"\n");
            let entry = SourceEntry { blob, kind: SourceKind::Record, suffix };
            builder.push(&mut objects, SOURCE, entry.to_item().unwrap()).unwrap();
            let message = MessageEntry::new(blob, Role::User, "text/plain");
            builder.push_message(&mut objects, MAIN_AGENT, &message).unwrap();
        }
        let tree = builder.write(&mut objects).unwrap();
        let context = Context::open(&objects, &tree).unwrap();
        let roots: HashSet<ObjectId> = [SOURCE, "agents/main/messages"]
            .map(|name| context.section(&objects, name).unwrap().unwrap().id)
            .into();
        let ids = objects.iter().map(|(id, _)| *id);
        let ids = ids.filter(|id| *id != tree && !roots.contains(id)).collect();
        (Damaged { objects, lost: HashSet::new() }, context, ids)
    }

    turntree_properties::properties! {
        #[test]
        fn each_record_that_verifies_is_at_its_line_and_the_others_are_named(
            count in 1_usize..400, share in 0_usize..30, seed: u64,
        ) {
            let lines: Vec<String> = (0..count).map(|n| format!("record {n}")).collect();
            let (mut damaged, context, ids) = written(&lines);
            for (n, id) in (0_u64..).zip(&ids) {
                let drawn = seed.wrapping_add(n).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
                if drawn % 100 < share as u64 {
                    damaged.lost.insert(*id);
                }
            }
            let (mut records, mut messages) = (Vec::new(), Vec::new());
            let of_source = salvage_source(&damaged, &context, &mut records).unwrap();
            let of_agent =
                salvage_messages(&damaged, &context, MAIN_AGENT, &|_| true, &mut messages).unwrap();
            for (text, done) in [(records, of_source), (messages, of_agent)] {
                let text = String::from_utf8(text).unwrap();
                let found: Vec<&str> = text.lines().collect();
                prop_assert_eq!(found.len(), lines.len());
                let is_lost = |line: u64| done.lost.iter().any(|(a, b)| (*a..=*b).contains(&line));
                for ((line, found), expected) in (1_u64..).zip(found).zip(&lines) {
                    prop_assert_eq!(found, if is_lost(line) { "" } else { expected });
                }
                let lost: u64 = done.lost.iter().map(|(first, last)| last - first + 1).sum();
                prop_assert_eq!(done.whole + lost, lines.len() as u64);
                prop_assert!(done.lost.is_sorted_by(|a, b| a.1 + 1 < b.0), "runs are joined");
                prop_assert!(share > 0 || lost == 0);
            }
        }
    }
}
