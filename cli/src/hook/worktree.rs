//! Hooks of agents in new worktrees: settings that are not in git are copied.

use std::path::Path;

use super::program::program;
use super::settings::carry_over;
use crate::porcelain::workspace::worktree::MadeWorktree;
use crate::view::output::warn;

/// Copies settings with hooks, which are not in git.
pub(crate) fn carry_settings(made: &MadeWorktree) {
    let Some(project) = &made.project else { return };
    let carried = program()
        .and_then(|program| Ok(carry_over(Path::new(project), &made.workspace, &program)?));
    if carried.is_err() {
        let dir = made.workspace.display();
        warn(&format!("hooks were not installed in {dir}: 'turntree hook install' does it there"));
    }
}
