//! Sections that repeat, in a form for machines, what conversations show.

use turntree::context::is_transcript_section;

/// What the adapters of frameworks keep for themselves beside a conversation; others of a name follow it
/// with a colon.
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

/// Returns whether a section is for machines alone, and what it says to people is in conversations: the
/// pieces of an imported transcript, and what the adapters of frameworks keep. Its changes are counted for
/// people and not shown.
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
