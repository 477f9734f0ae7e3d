//! Documents: the text of an entry as people read it, its words as the index keeps them, and the calls
//! and results of tools in it.

use std::collections::HashMap;
use std::ops::Range;

use turntree::object::{Kind, ObjectId};

use super::rank::step_of;
use super::words::{boundary, each_word};
use crate::formats::view;
use crate::model::view::MessageView;

/// Longest name of a tool, in bytes.
const MAX_TOOL_BYTES: usize = 200;

/// What the index keeps of an entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Document {
    /// Its words one behind the other, as they stand there.
    text: String,
    /// Each word once, with the step of how often it stands there.
    steps: Vec<(Range<usize>, u8)>,
    /// How many words there are.
    pub(super) words: u32,
    /// Its calls of tools and its results.
    pub(super) links: ToolLinks,
}

/// Calls of tools, and results that belong to calls, by numbers made of the ids of calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ToolLinks(pub(super) Vec<(u32, Option<String>)>);

/// Returns the text of a message of `format`, or of any other entry when that is empty; nothing for
/// what is no text.
pub(super) fn text_of(format: &str, bytes: &[u8]) -> Option<String> {
    match format {
        "" if bytes.contains(&0) => None,
        "" => Some(String::from_utf8_lossy(bytes).into_owned()),
        format => Some(view(format, bytes).full_text()),
    }
}

impl Document {
    /// The document of an entry; `None` when no word is in it.
    pub(super) fn of(format: &str, bytes: &[u8]) -> Option<Self> {
        let (text, links) = match format {
            "" => (text_of(format, bytes)?, ToolLinks::default()),
            format => {
                let view = view(format, bytes);
                (view.full_text(), ToolLinks::of(&view))
            }
        };
        let (mut all, mut ranges) = (String::new(), Vec::new());
        each_word(&text, &mut |word, _| {
            let start = all.len();
            all.push_str(word);
            ranges.push(start..all.len());
        });
        let mut counts: HashMap<&str, (Range<usize>, u32)> = HashMap::new();
        for range in &ranges {
            let word = all.get(range.clone()).unwrap_or_default();
            counts.entry(word).or_insert_with(|| (range.clone(), 0)).1 += 1;
        }
        let steps = counts.into_values().map(|(range, times)| (range, step_of(times))).collect();
        let words = u32::try_from(ranges.len()).unwrap_or(u32::MAX);
        (words > 0).then_some(Self { text: all, steps, words, links })
    }

    /// Its words, each once, with the step of how often it stands there, in any order.
    pub(super) fn steps(&self) -> impl Iterator<Item = (&str, u8)> {
        self.steps.iter().filter_map(|(range, step)| Some((self.text.get(range.clone())?, *step)))
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

    /// As bytes, for the index: the number, the length of the name, the name.
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

    /// What was encoded, as far as it is whole.
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

    /// The tools that it calls, and those whose results it has by the calls in `called`: sorted, each
    /// once, a line each.
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

/// The number that stands for the id of a call.
fn number_of(id: &str) -> u32 {
    let digest = ObjectId::of(Kind::Blob, id.as_bytes());
    digest.as_bytes().first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_has_each_word_once_with_its_step() {
        let document = Document::of("", b"the cat saw the cat, the CAT and the dog").unwrap();
        let mut steps: Vec<_> = document.steps().collect();
        steps.sort_unstable();
        assert_eq!(steps, [("and", 0), ("cat", 2), ("dog", 0), ("saw", 0), ("the", 2)]);
        assert_eq!(document.words, 10);
        assert_eq!(Document::of("", b"\x7fELF\0binary"), None);
        assert_eq!(Document::of("", b"!!"), None);
    }

    #[test]
    fn calls_and_results_name_their_tools() {
        let record = json!({"role": "assistant", "content": [
            {"type": "tool_use", "id": "1", "name": "Read", "input": {}},
            {"type": "tool_use", "id": "2", "name": "Bash", "input": {}},
        ]});
        let calls = Document::of("json", record.to_string().as_bytes()).unwrap().links;
        assert_eq!(calls.tools(&HashMap::new()), "Bash\nRead");
        let record = json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "2", "content": "done"},
        ]});
        let results = Document::of("json", record.to_string().as_bytes()).unwrap().links;
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
