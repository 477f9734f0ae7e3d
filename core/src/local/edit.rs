//! One edit of a context, as a change stores it until its commit.

use bytes::Bytes;

use crate::context::sections::FILES;
use crate::context::{Builder, FileMode, MessageEntry, Role};
use crate::error::Result;
use crate::object::{Kind, ObjectSink};
use crate::tree::Item;

/// An edit of a section.
#[derive(Debug, Clone)]
pub(super) enum Edit {
    Put { section: String, key: String, content: Bytes, only_new: bool },
    File { path: String, mode: FileMode, content: Bytes },
    Remove { section: String, key: String },
    Push { section: String, content: Bytes },
    Message { agent: String, role: Role, media: String, record: Bytes },
    Cut { section: String, len: u64 },
    Blob { section: String, content: Bytes },
    Drop { section: String },
}

impl Edit {
    /// Applies the edit, and writes its objects to `sink`.
    pub(super) fn apply(&self, sink: &mut dyn ObjectSink, builder: &mut Builder) -> Result<()> {
        match self {
            Self::Put { section, key, content, only_new } => {
                if *only_new && builder.has_entry(sink, section, key)? {
                    return Ok(());
                }
                put(sink, builder, section, key, Some(content.clone()))
            }
            Self::File { path, mode, content } => {
                builder.set_file(sink, path, Some((*mode, content.clone())))
            }
            Self::Remove { section, key } => put(sink, builder, section, key, None),
            Self::Push { section, content } => {
                let blob = sink.write(Kind::Blob, content.clone())?;
                builder.push(sink, section, Item::new(Kind::Blob, blob))
            }
            Self::Message { agent, role, media, record } => {
                let blob = sink.write(Kind::Blob, record.clone())?;
                let entry = MessageEntry::new(blob, *role, media.clone());
                builder.push_message(sink, agent, &entry)
            }
            Self::Cut { section, len } => {
                let end = builder.list_len(sink, section)?;
                match *len < end {
                    true => builder.splice(sink, section, *len..end, Vec::new()),
                    false => Ok(()),
                }
            }
            Self::Blob { section, content } => {
                let blob = sink.write(Kind::Blob, content.clone())?;
                builder.set_blob(sink, section, blob)
            }
            Self::Drop { section } => builder.clear(sink, section),
        }
    }
}

/// Sets or removes an entry; an entry of the workspace is a file.
fn put(
    sink: &mut dyn ObjectSink,
    builder: &mut Builder,
    section: &str,
    key: &str,
    content: Option<Bytes>,
) -> Result<()> {
    if section == FILES {
        let file = content.map(|content| (FileMode::Regular, content));
        return builder.set_file(sink, key, file);
    }
    builder.set_entry(sink, section, key, content)
}
