//! Sections that repeat the content of conversations in a form for machines.

use turntree::context::is_transcript_section;

/// Sections in which the framework adapters keep data of their own next to a conversation. A name
/// may be followed by a colon and a suffix.
const OF_ADAPTERS: [&str; 11] = [
    "adk-event-ids",
    "adk-events",
    "claude-entries",
    "claude-summary",
    "claude-uuids",
    "langgraph-checkpoints",
    "langgraph-items",
    "langgraph-values",
    "langgraph-writes",
    "pydantic-ai-entries",
    "pydantic-ai-record",
];

/// Returns true if a section is for machines only: the pieces of an imported transcript, and the
/// data of framework adapters. Conversations already show their readable content, so changes to
/// them are counted and not shown.
#[must_use]
pub fn is_bookkeeping(section: &str) -> bool {
    let name = section.split_once(':').map_or(section, |(name, _)| name);
    is_transcript_section(section) || OF_ADAPTERS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_read_is_none() {
        for section in ["source", "langgraph-items", "claude-entries:subagents%2Fagent-1"] {
            assert!(is_bookkeeping(section), "{section}");
        }
        for section in
            ["agents/main/messages", "memory", "langgraph", "sources", "x:claude-entries"]
        {
            assert!(!is_bookkeeping(section), "{section}");
        }
    }
}
