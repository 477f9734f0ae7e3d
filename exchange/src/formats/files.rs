//! Workspace files as a transcript records them: whole contents, and changes to known contents.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use turntree::object::{Kind, ObjectId};

use super::patch;
use super::session::Session;
use crate::model::event::{Content, Event};

/// Most bytes of contents that are kept, so that memory does not grow with the session.
const MAX_KEPT_BYTES: usize = 16 << 20;

/// The effect of a tool on a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileChange {
    /// It has this content now.
    Write(String),
    /// A text in the file was replaced, at its first occurrence or at all of them.
    Replace {
        /// The old text.
        old: String,
        /// The new text.
        new: String,
        /// Everywhere.
        all: bool,
    },
    /// A text was inserted as whole lines.
    Insert {
        /// The number of the line before it, 0 for the beginning.
        after: usize,
        /// The lines.
        text: String,
    },
    /// It was changed by a unified difference.
    Patch(String),
    /// The file was removed.
    Remove,
}

/// The files recorded so far.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct FileContents {
    contents: HashMap<String, KnownContent>,
    kept_bytes: usize,
    /// Contents that were requested and are missing: events made without them are incomplete.
    #[serde(skip)]
    wanted: BTreeSet<ObjectId>,
}

/// The knowledge of a file's content.
#[derive(Clone, Serialize, Deserialize)]
#[serde(from = "SavedContent", into = "SavedContent")]
enum KnownContent {
    /// All of it.
    Text(String),
    /// The blob that holds the content, and its size in bytes.
    Blob(ObjectId, usize),
    /// Not kept: the content is too large.
    TooMuch,
}

/// The saved form of [`KnownContent`]: the blob and its bytes.
type SavedContent = Option<(String, usize)>;

impl From<KnownContent> for SavedContent {
    fn from(kept: KnownContent) -> Self {
        match kept {
            KnownContent::Text(text) => {
                Some((ObjectId::of(Kind::Blob, text.as_bytes()).to_string(), text.len()))
            }
            KnownContent::Blob(id, len) => Some((id.to_string(), len)),
            KnownContent::TooMuch => None,
        }
    }
}

impl From<SavedContent> for KnownContent {
    fn from(saved: SavedContent) -> Self {
        let blob = saved.and_then(|(id, len)| Some(Self::Blob(id.parse().ok()?, len)));
        blob.unwrap_or(Self::TooMuch)
    }
}

impl KnownContent {
    fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Blob(_, len) => *len,
            Self::TooMuch => 0,
        }
    }
}

/// Content of files must not end in logs by accident.
impl fmt::Debug for FileContents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { contents, kept_bytes, .. } = self;
        write!(f, "Files({} with {kept_bytes} bytes)", contents.len())
    }
}

impl FileContents {
    /// Records a change of the file at `path` (as the transcript writes it).
    ///
    /// A change to a file whose whole content is unknown is not recorded. A change that does not
    /// fit the known content means that another program changed the file: the file is recorded as
    /// removed rather than with outdated content.
    pub(super) fn apply(
        &mut self,
        session: &Session,
        path: &str,
        change: &FileChange,
        events: &mut Vec<Event>,
    ) {
        let path = session.relative(path);
        let before = self.contents.remove(&path);
        self.kept_bytes -= before.as_ref().map_or(0, KnownContent::len);
        let after = match (change, &before) {
            (FileChange::Write(content), _) => Some(content.clone()),
            (FileChange::Remove, _) => None,
            (_, None) => return,
            (_, Some(before)) => {
                let after = self.text(before).and_then(|before| change.applied_to(&before));
                if after.is_none() {
                    let what = format!(
                        "this edit does not apply to the known content of {path}, which is \
                         unknown from here on"
                    );
                    events.push(Event::Unknown { what });
                }
                after
            }
        };
        let content =
            after.as_ref().map(|after| Content::Own(Bytes::copy_from_slice(after.as_bytes())));
        if let Some(after) = after {
            let fits = self.kept_bytes + after.len() <= MAX_KEPT_BYTES;
            self.kept_bytes += if fits { after.len() } else { 0 };
            let kept = if fits { KnownContent::Text(after) } else { KnownContent::TooMuch };
            self.contents.insert(path.clone(), kept);
        }
        events.push(Event::File { path, content });
    }

    /// Returns a content as text; `None` if it is unavailable.
    fn text(&mut self, kept: &KnownContent) -> Option<String> {
        match kept {
            KnownContent::Text(text) => Some(text.clone()),
            KnownContent::Blob(id, _) => {
                self.wanted.insert(*id);
                None
            }
            KnownContent::TooMuch => None,
        }
    }

    /// Puts contents where only their blobs were known.
    pub(super) fn fill(&mut self, contents: &HashMap<ObjectId, Bytes>) {
        for kept in self.contents.values_mut() {
            let KnownContent::Blob(id, _) = kept else { continue };
            let text = contents.get(id).and_then(|bytes| std::str::from_utf8(bytes).ok());
            if let Some(text) = text {
                *kept = KnownContent::Text(text.to_owned());
            }
        }
    }

    /// The contents that were asked for in vain.
    pub(super) fn wanted(&self) -> Vec<ObjectId> {
        self.wanted.iter().copied().collect()
    }

    /// Tells that the file at `from` moved to `to`.
    pub(super) fn rename(
        &mut self,
        session: &Session,
        (from, to): (&str, &str),
        events: &mut Vec<Event>,
    ) {
        let Some(kept) = self.contents.get(&session.relative(from)).cloned() else { return };
        let content = self.text(&kept);
        self.apply(session, from, &FileChange::Remove, events);
        if let Some(content) = content {
            self.apply(session, to, &FileChange::Write(content), events);
        }
    }
}

impl FileChange {
    /// Returns `before` with the change applied; `None` if the change does not fit it.
    pub(super) fn applied_to(&self, before: &str) -> Option<String> {
        match self {
            Self::Write(content) => Some(content.clone()),
            Self::Replace { old, new, .. } if old.is_empty() => {
                before.is_empty().then(|| new.clone())
            }
            Self::Replace { old, .. } if !before.contains(old.as_str()) => None,
            Self::Replace { old, new, all: true } => Some(before.replace(old.as_str(), new)),
            Self::Replace { old, new, all: false } => Some(before.replacen(old.as_str(), new, 1)),
            Self::Insert { after, text } => {
                let mut lines: Vec<_> = before.split('\n').collect();
                (*after <= lines.len())
                    .then(|| lines.splice(after..after, [text.as_str()]).count())?;
                Some(lines.join("\n"))
            }
            Self::Patch(difference) => patch::apply(before, difference),
            Self::Remove => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(changes: &[(&str, FileChange)]) -> Vec<String> {
        let (mut files, mut events) = (FileContents::default(), Vec::new());
        for (path, change) in changes {
            files.apply(&Session::default(), path, change, &mut events);
        }
        let kept: usize = files.contents.values().map(KnownContent::len).sum();
        assert_eq!(files.kept_bytes, kept);
        let line = |event: &Event| match event {
            Event::File { path, content: None } => format!("{path} gone"),
            Event::File { path, content: Some(Content::Own(bytes)) } => {
                let text = String::from_utf8_lossy(bytes);
                format!("{path} {}", text.get(..9).unwrap_or(&text))
            }
            other => format!("{other:?}"),
        };
        events.iter().map(line).filter(|line| !line.starts_with("Unknown")).collect()
    }

    fn write(content: &str) -> FileChange {
        FileChange::Write(content.to_owned())
    }

    fn replace(old: &str, new: &str, all: bool) -> FileChange {
        FileChange::Replace { old: old.to_owned(), new: new.to_owned(), all }
    }

    #[test]
    fn changes_follow_from_what_was_told() {
        let changes = [
            ("/a", replace("x", "y", false)),
            ("/a", write("x x")),
            ("/a", replace("x", "y", false)),
            ("/a", FileChange::Patch("@@ -1 +1 @@\n-y x\n+z z\n".to_owned())),
            ("/a", replace("z", "w", true)),
            ("/a", FileChange::Remove),
            ("/a", replace("w", "v", true)),
            ("/b", write("")),
            ("/b", replace("", "new", false)),
        ];
        assert_eq!(
            told(&changes),
            ["/a x x", "/a y x", "/a z z\n", "/a w w\n", "/a gone", "/b ", "/b new"]
        );
    }

    #[test]
    fn a_file_that_is_no_longer_known_is_told_as_gone() {
        let big = "x".repeat(MAX_KEPT_BYTES);
        let changes = [
            ("/a", write("x")),
            ("/a", replace("y", "z", false)),
            ("/b", write("kept")),
            ("/c", write(&big)),
            ("/c", replace("x", "y", false)),
            ("/b", replace("kept", "here", false)),
        ];
        assert_eq!(
            told(&changes),
            ["/a x", "/a gone", "/b kept", "/c xxxxxxxxx", "/c gone", "/b here"]
        );
    }
}
