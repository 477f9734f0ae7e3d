//! Sub-agents of a session. A client writes their last records after their last event, so later
//! events of the session read their transcripts again.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use turntree::Result;
use turntree::workspace::read_note;
use turntree_exchange::agents::session_name;
use turntree_exchange::followed_bytes;

use super::turn::HookTurn;

/// Maximum number of sub-agents of a session to read.
const MAX_AGENTS: usize = 10_000;

/// Imports the records that the sub-agents of the session at `main` have written since they were
/// last followed.
pub(super) fn catch_up(turn: &HookTurn<'_>, main: &Path) -> Result<()> {
    let Ok(found) = fs::read_dir(main.with_extension("").join("subagents")) else { return Ok(()) };
    let paths = found.take(MAX_AGENTS).filter_map(|entry| Some(entry.ok()?.path()));
    for path in paths.filter(|path| path.extension().is_some_and(|end| end == "jsonl")) {
        let session = session_name(&path);
        let known = read_note(turn.repo, &session);
        let known = known.as_deref().and_then(followed_bytes);
        let is_known = fs::metadata(&path).is_ok_and(|now| Some(now.len()) == known);
        if !is_known {
            turn.follow(&path, &session, None, (None, None), &mut |_, _, _| Ok(BTreeMap::new()))?;
        }
    }
    Ok(())
}
