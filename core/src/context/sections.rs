//! The sections that turntree knows: one table with the facts about each, and their names.
//!
//! | section | shape | holds |
//! |---|---|---|
//! | `agents/<name>/messages` | list | the conversation, one record a message |
//! | `agents/<name>/state` | map | per-agent state of a framework |
//! | `agents/<name>/system-prompt` | blob | the agent's prompt |
//! | `agents/<name>/reads` | map | path to digest of files that the agent read |
//! | `scratchpad`, `memory`, `goals`, `reasoning`, `checkpoints`, `lessons` | map or list | entries |
//! | `files` | map | path to content, mode and size |
//! | `vfs` | map | URI to offloaded payload |
//! | `source` | list | the pieces of an imported transcript, in file order |
//! | `source-copied`, `source-base-0`, ... | list | earlier pieces, copied from other transcripts |
//! | `meta` | map | facts about the session |
//! | `conflicts` | map | the versions of entries that a merge could not combine |
//!
//! Any other name is also a section: data of a framework that turntree does not know is kept and
//! copied, and merged by entries. Sections of known formats and adapters have a row too, so that
//! two of them never choose the same name.

/// The folder of the sections of agents, `agents/<name>/<part>`.
pub const AGENTS: &str = "agents";
/// The beginning of the names of these sections.
pub(crate) const AGENTS_PREFIX: &str = "agents/";
/// The word that selects the sections of all agents and the transcript.
pub const CONVERSATION: &str = "conversation";
/// The part of an agent with its conversation.
pub const MESSAGES: &str = "messages";
/// The conversation of the main agent.
pub const MAIN_MESSAGES: &str = "agents/main/messages";
/// The part of an agent with the state that a framework keeps for it.
pub const STATE: &str = "state";
/// The part of an agent with its prompt.
pub const SYSTEM_PROMPT: &str = "system-prompt";
/// The part of an agent with the digests of the files that it read.
pub const READS: &str = "reads";
/// The part of an agent with the memory entries that it read.
pub const MEMORY_READS: &str = "memory-reads";
/// The part of an agent with messages that precede its conversation.
pub const SYSTEM_MESSAGES: &str = "system-messages";
/// The part of an agent with messages that a framework adds to each prompt.
pub const DYNAMIC_MESSAGES: &str = "dynamic-messages";

/// The section of the workspace: files by their paths.
pub const FILES: &str = "files";
/// The beginning of the paths of these files.
pub const FILES_PREFIX: &str = "files/";
/// The section of notes that agents share.
pub const SCRATCHPAD: &str = "scratchpad";
/// The section of the memory of agents.
pub const MEMORY: &str = "memory";
/// The section of goals.
pub const GOALS: &str = "goals";
/// The section of recorded reasoning.
pub const REASONING: &str = "reasoning";
/// The section of checkpoints of a framework.
pub const CHECKPOINTS: &str = "checkpoints";
/// The section of an agent's lessons.
pub const LESSONS: &str = "lessons";
/// The section of facts about the session.
pub const META: &str = "meta";
/// The section of the payloads that the content of a context cites.
pub const VFS: &str = "vfs";
/// The section of open conflicts of merges.
pub const CONFLICTS: &str = "conflicts";
/// The section of findings of a mode of OLLM CLI.
pub const FINDINGS: &str = "findings";
/// The section of intents of OLLM CLI.
pub const INTENTS: &str = "intents";
/// The section of the states of plugins of SwarmSDK.
pub const PLUGIN_STATES: &str = "plugin-states";
/// The section of the snapshots of a design.
pub const SNAPSHOTS: &str = "snapshots";
/// The section of the comments on a design.
pub const COMMENTS: &str = "comments";
/// The section of the diagnostic events of a design store.
pub const DIAGNOSTICS: &str = "diagnostics";
/// The section of the messages of a design store without chats.
pub const DESIGN_MESSAGES: &str = "design-messages";
/// The section of facts about an imported git commit.
pub const GIT: &str = "git";
/// The section of the pieces of an imported transcript.
pub const SOURCE: &str = "source";
/// The section of the steps of a copied beginning of a transcript.
pub(crate) const SOURCE_COPIED: &str = "source-copied";
/// The sections of the pieces of other transcripts that a copied beginning has; a number follows.
pub(super) const SOURCE_BASE: &str = "source-base-";
/// The section of the chat file of a design store.
pub const CHAT_SOURCE: &str = "chat-source";

/// The facts about a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SectionFacts {
    /// The name; of a part of an agent the last component.
    pub name: &'static str,
    /// The names that share these facts.
    names: Names,
    /// The owner of the section.
    pub holder: SectionHolder,
    /// The kind of its entries.
    pub entries: EntryKind,
    /// How both sides of a merge are combined.
    pub(super) merge: MergeRule,
    /// What histories show of its changes.
    pub shown: Shown,
    /// Whether a document that a user or a program wrote may name it.
    pub documents: Documents,
    /// Whether several writers share its entries, so that a document may change single ones.
    pub is_shared: bool,
}

/// The owner of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SectionHolder {
    /// The context.
    Context,
    /// Each agent: the section is a part of it.
    Agent,
}

/// The names that share the facts of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    /// This name.
    One,
    /// This name followed by a number.
    Numbered,
    /// This name, also with a colon and a suffix.
    Suffixed,
}

/// The kind of the entries of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// Messages of a conversation, as [`MessageEntry`](super::MessageEntry).
    Messages,
    /// Files by their paths, as [`FileEntry`](super::FileEntry).
    Files,
    /// Parts of an imported transcript, which only an import writes.
    Transcript,
    /// Values: text, bytes and JSON.
    Values,
}

/// The rule for a section that both sides of a merge changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MergeRule {
    /// By [`MessagePolicy`](super::MessagePolicy).
    Messages,
    /// By keys, fields and lines; a list gets the additions of both.
    Entries,
    /// By keys; the counts of both sides add up, and the later time wins.
    Lessons,
    /// Ours wins.
    Ours,
    /// The side that the messages are taken from.
    WithMessages,
    /// The open conflicts of theirs are copied.
    Conflicts,
}

/// What histories show of the changes of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// Their content.
    Content,
    /// Only their number: other sections show the readable content.
    Count,
    /// Nothing: the facts of the session are shown elsewhere.
    Nothing,
}

/// Whether a document that a user or a program wrote may name a section in any context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Documents {
    /// Only if the context has the section already.
    Refused,
    /// It may.
    Accepted,
    /// It may, and help and errors list the section.
    Listed,
}

const VALUES: SectionFacts = SectionFacts {
    name: "",
    names: Names::One,
    holder: SectionHolder::Context,
    entries: EntryKind::Values,
    merge: MergeRule::Entries,
    shown: Shown::Content,
    documents: Documents::Accepted,
    is_shared: false,
};

/// A section that documents may name, and that help and errors list.
const fn listed(name: &'static str) -> SectionFacts {
    SectionFacts { name, documents: Documents::Listed, ..VALUES }
}

/// A section of a format, which documents may name.
const fn of_format(name: &'static str) -> SectionFacts {
    SectionFacts { name, ..VALUES }
}

/// A part of each agent.
const fn part(name: &'static str) -> SectionFacts {
    SectionFacts { name, holder: SectionHolder::Agent, ..VALUES }
}

/// A listed part of each agent that goes with its messages.
const fn with_messages(name: &'static str) -> SectionFacts {
    let (merge, documents) = (MergeRule::WithMessages, Documents::Listed);
    SectionFacts { merge, documents, ..part(name) }
}

/// A section for machines that repeats the content of conversations.
const fn repeated(name: &'static str) -> SectionFacts {
    SectionFacts { name, shown: Shown::Count, documents: Documents::Refused, ..VALUES }
}

/// A section of an adapter of a framework in Python or TypeScript.
const fn of_adapter(name: &'static str) -> SectionFacts {
    SectionFacts { names: Names::Suffixed, ..repeated(name) }
}

/// A part of an imported transcript.
const fn transcript(name: &'static str) -> SectionFacts {
    let (entries, merge) = (EntryKind::Transcript, MergeRule::WithMessages);
    SectionFacts { entries, merge, ..repeated(name) }
}

/// The known sections. Help and errors list them in this order.
const SECTIONS: &[SectionFacts] = &[
    SectionFacts {
        entries: EntryKind::Messages,
        merge: MergeRule::Messages,
        ..with_messages(MESSAGES)
    },
    with_messages(STATE),
    with_messages(SYSTEM_PROMPT),
    with_messages(READS),
    part(MEMORY_READS),
    part(SYSTEM_MESSAGES),
    part(DYNAMIC_MESSAGES),
    SectionFacts { entries: EntryKind::Files, ..listed(FILES) },
    SectionFacts { is_shared: true, ..listed(SCRATCHPAD) },
    SectionFacts { is_shared: true, ..listed(MEMORY) },
    listed(GOALS),
    listed(REASONING),
    listed(CHECKPOINTS),
    SectionFacts { merge: MergeRule::Lessons, ..listed(LESSONS) },
    SectionFacts { merge: MergeRule::Ours, shown: Shown::Nothing, ..listed(META) },
    of_format(VFS),
    SectionFacts { merge: MergeRule::Conflicts, ..of_format(CONFLICTS) },
    of_format(FINDINGS),
    of_format(INTENTS),
    of_format(PLUGIN_STATES),
    of_format(SNAPSHOTS),
    of_format(COMMENTS),
    of_format(DIAGNOSTICS),
    of_format(DESIGN_MESSAGES),
    of_format(GIT),
    transcript(SOURCE),
    transcript(SOURCE_COPIED),
    SectionFacts { names: Names::Numbered, ..transcript(SOURCE_BASE) },
    SectionFacts { documents: Documents::Refused, ..of_format(CHAT_SOURCE) },
    of_adapter("adk-event-ids"),
    of_adapter("adk-events"),
    of_adapter("claude-entries"),
    of_adapter("claude-summary"),
    of_adapter("claude-uuids"),
    of_adapter("langgraph-checkpoints"),
    of_adapter("langgraph-items"),
    of_adapter("langgraph-values"),
    of_adapter("langgraph-writes"),
    of_adapter("pydantic-ai-entries"),
    of_adapter("pydantic-ai-record"),
];

/// The facts about a section or part that is not in the table.
const UNKNOWN: SectionFacts = SectionFacts { documents: Documents::Refused, ..VALUES };

impl SectionFacts {
    fn covers(&self, name: &str) -> bool {
        let Some(rest) = name.strip_prefix(self.name) else { return false };
        match self.names {
            Names::One => rest.is_empty(),
            Names::Numbered => !rest.is_empty(),
            Names::Suffixed => rest.is_empty() || rest.starts_with(':'),
        }
    }
}

/// Returns the facts about a section, given by its whole name. A name that is not in the table has
/// the facts of a section of values.
#[must_use]
pub fn facts(section: &str) -> &'static SectionFacts {
    let (name, holder) = match agent_part(section) {
        Some((_, part)) => (part, SectionHolder::Agent),
        None => (section, SectionHolder::Context),
    };
    known(holder).find(|facts| facts.covers(name)).unwrap_or(&UNKNOWN)
}

/// Returns the known sections of a context or of an agent, in the order of the table.
pub fn known(holder: SectionHolder) -> impl Iterator<Item = &'static SectionFacts> {
    SECTIONS.iter().filter(move |facts| facts.holder == holder)
}

/// Returns true if a path is below the folder of the sections of agents.
#[must_use]
pub fn is_of_agent(path: &str) -> bool {
    path.starts_with(AGENTS_PREFIX)
}

/// Splits the name of an agent's section into the agent and the part.
#[must_use]
pub fn agent_part(section: &str) -> Option<(&str, &str)> {
    section.strip_prefix(AGENTS_PREFIX)?.split_once('/')
}

/// Returns the agent whose conversation a section holds.
#[must_use]
pub fn conversation_agent(section: &str) -> Option<&str> {
    agent_part(section).filter(|(_, part)| *part == MESSAGES).map(|(agent, _)| agent)
}

/// Returns true if a section is the conversation of an agent.
#[must_use]
pub fn is_conversation(section: &str) -> bool {
    conversation_agent(section).is_some()
}

/// Returns whether a section holds a transcript, or a part of one.
#[must_use]
pub fn is_transcript_section(section: &str) -> bool {
    facts(section).entries == EntryKind::Transcript
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_found_by_name_part_number_and_suffix() {
        let shown = |section| facts(section).shown;
        for section in ["source", "source-copied", "source-base-0", "langgraph-items"] {
            assert_eq!(shown(section), Shown::Count, "{section}");
        }
        assert_eq!(shown("claude-entries:subagents%2Fagent-1"), Shown::Count);
        for section in ["agents/main/source", "memory", "langgraph", "sources", "x:claude-entries"]
        {
            assert_eq!(shown(section), Shown::Content, "{section}");
        }
        assert!(!is_transcript_section("source-base-") && !is_transcript_section("meta:source"));
        assert_eq!(facts("meta:x"), &UNKNOWN);
        assert_eq!(facts("agents/a@main/state").merge, MergeRule::WithMessages);
        assert_eq!(facts("state"), &UNKNOWN);
    }

    #[test]
    fn a_conversation_is_the_part_messages_of_an_agent() {
        assert_eq!(conversation_agent("agents/a@main/messages"), Some("a@main"));
        assert!(is_conversation(MAIN_MESSAGES));
        for section in ["messages", "agents/messages", "agents/main/state", "x/main/messages"] {
            assert!(!is_conversation(section), "{section}");
        }
    }

    #[test]
    fn no_two_rows_have_one_name() {
        let names = |holder| known(holder).map(|facts| facts.name).collect::<Vec<_>>();
        for mut names in [names(SectionHolder::Context), names(SectionHolder::Agent)] {
            names.sort_unstable();
            assert!(names.is_sorted_by(|one, next| one < next), "{names:?}");
        }
    }
}
