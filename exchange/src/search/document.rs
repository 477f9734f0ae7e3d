//! Documents: the readable text of an entry, its words as the index stores them, and its tool calls
//! and results.

use std::collections::HashMap;

use turntree::object::{Kind, ObjectId};

use super::rank::step_of;
use super::voice::Voice;
use super::word_table::{HashedWord, WordTable};
use super::words::{Wholeness, boundary, each_word_and_part};
use crate::formats::view;
use crate::model::view::MessageView;

/// Longest stored name of a tool, in bytes.
const MAX_TOOL_BYTES: usize = 200;

/// The indexed data of an entry, except for its words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Document {
    /// The number of words.
    pub(super) words: u32,
    /// The voice of the text.
    pub(super) voice: Voice,
    /// The tool calls and tool results.
    pub(super) links: ToolLinks,
}

/// The words of one document. Each document reuses the memory of the previous one.
#[derive(Debug, Default)]
pub(super) struct DocumentWords {
    /// The distinct words.
    table: WordTable,
    /// The number of occurrences of each word, indexed by word number.
    times: Vec<u32>,
}

/// Tool calls (with the name of the tool) and tool results (without), keyed by a hash of the call
/// id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ToolLinks(pub(super) Vec<(u32, Option<String>)>);

/// Returns the text of a message of `format`, or of any other entry if `format` is empty. Returns
/// `None` for binary data.
pub(super) fn text_of(format: &str, bytes: &[u8]) -> Option<String> {
    match format {
        "" if bytes.contains(&0) => None,
        "" => Some(String::from_utf8_lossy(bytes).into_owned()),
        format => Some(view(format, bytes).full_text()),
    }
}

impl Document {
    /// Returns the document of an entry and fills `words` with its words. `None` if it has no word.
    pub(super) fn of(format: &str, bytes: &[u8], words: &mut DocumentWords) -> Option<Self> {
        let (text, voice, links) = match format {
            "" => (text_of(format, bytes)?, Voice::Work, ToolLinks::default()),
            format => {
                let view = view(format, bytes);
                (view.full_text(), Voice::of(&view), ToolLinks::of(&view))
            }
        };
        let words = words.count(&text);
        (words > 0).then_some(Self { words, voice, links })
    }
}

impl DocumentWords {
    /// Replaces the words with those of a text and the parts of its words. Returns the number of
    /// words, with repetitions and without parts.
    fn count(&mut self, text: &str) -> u32 {
        let Self { table, times } = self;
        table.clear();
        times.clear();
        let mut words = 0_u32;
        each_word_and_part(text, &mut |word, _, wholeness| {
            words = words.saturating_add(u32::from(wholeness == Wholeness::Whole));
            let Some(number) = table.number(HashedWord::new(word)) else { return };
            match times.get_mut(number) {
                Some(times) => *times = times.saturating_add(1),
                None => times.push(1),
            }
        });
        words
    }

    /// Returns the distinct words, in any order, each with the step of its count.
    pub(super) fn steps(&self) -> impl Iterator<Item = (HashedWord<'_>, u8)> {
        self.table.words().zip(self.times.iter().map(|times| step_of(*times)))
    }
}

impl ToolLinks {
    fn of(view: &MessageView) -> Self {
        let calls = view.tool_calls.iter().map(|call| {
            let mut name = call.name.replace('\n', " ");
            name.truncate(boundary(&name, MAX_TOOL_BYTES));
            (number_of(&call.id), Some(name))
        });
        let results = view.tool_results.iter().map(|result| (number_of(&result.call_id), None));
        Self(calls.chain(results).collect())
    }

    /// Encodes the links for the index: the number, the length of the name, the name.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (number, name) in &self.0 {
            let name = name.as_deref().unwrap_or_default();
            bytes.extend(number.to_le_bytes());
            bytes.push(u8::try_from(name.len()).unwrap_or_default());
            bytes.extend(name.as_bytes());
        }
        bytes
    }

    /// Decodes links up to the first truncated one.
    pub(super) fn decode(mut bytes: &[u8]) -> Self {
        let mut links = Vec::new();
        while let Some((number, rest)) = bytes.split_first_chunk::<4>() {
            let Some((length, rest)) = rest.split_first() else { break };
            let Some((name, rest)) = rest.split_at_checked(usize::from(*length)) else { break };
            let name = String::from_utf8_lossy(name).into_owned();
            links.push((u32::from_le_bytes(*number), (!name.is_empty()).then_some(name)));
            bytes = rest;
        }
        Self(links)
    }

    /// Returns the names of the called tools, and of the tools whose results it holds, by the calls
    /// in `called`. Sorted, without duplicates, one per line.
    pub(super) fn tools(&self, called: &HashMap<u32, String>) -> String {
        let named = |(number, name): &(u32, Option<String>)| {
            name.clone().or_else(|| called.get(number).cloned())
        };
        let mut tools: Vec<String> = self.0.iter().filter_map(named).collect();
        tools.sort_unstable();
        tools.dedup();
        tools.join("\n")
    }
}

/// Returns the number for a call id: the first four bytes of its hash.
fn number_of(id: &str) -> u32 {
    let digest = ObjectId::of(Kind::Blob, id.as_bytes());
    digest.as_bytes().first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn documents_have_each_word_once_with_its_step() {
        let mut words = DocumentWords::default();
        for text in
            ["other words, and more of the other words", "the cat saw the cat, the CAT and the dog"]
        {
            let document = Document::of("", text.as_bytes(), &mut words).unwrap();
            assert_eq!(document.words as usize, text.split(' ').count());
        }
        let mut steps: Vec<_> = words.steps().map(|(hashed, step)| (hashed.word, step)).collect();
        steps.sort_unstable();
        assert_eq!(steps, [("and", 0), ("cat", 2), ("dog", 0), ("saw", 0), ("the", 2)]);
        assert_eq!(Document::of("", b"\x7fELF\0binary", &mut words), None);
        assert_eq!(Document::of("", b"!!", &mut words), None);
    }

    #[test]
    fn calls_and_results_name_their_tools() {
        let record = json!({"role": "assistant", "content": [
            {"type": "tool_use", "id": "1", "name": "Read", "input": {}},
            {"type": "tool_use", "id": "2", "name": "Bash", "input": {}},
        ]});
        let mut words = DocumentWords::default();
        let mut links = |record: Value| {
            Document::of("json", record.to_string().as_bytes(), &mut words).unwrap().links
        };
        let calls = links(record);
        assert_eq!(calls.tools(&HashMap::new()), "Bash\nRead");
        let record = json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "2", "content": "done"},
        ]});
        let results = links(record);
        let called = calls.0.iter().map(|(number, name)| (*number, name.clone().unwrap()));
        assert_eq!(results.tools(&called.collect()), "Bash");
        assert_eq!(results.tools(&HashMap::new()), "");
        for links in [calls, results] {
            let bytes = links.encode();
            assert_eq!(ToolLinks::decode(&bytes), links);
            for end in 0..bytes.len() {
                ToolLinks::decode(&bytes[..end]);
            }
        }
    }
}
