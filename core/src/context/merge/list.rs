//! Lists that are no conversation: what both sides added comes together, ours first.

use super::align;
use super::messages::Edit;
use crate::error::Result;
use crate::object::ObjectSource;
use crate::tree::{Item, List, ListChange, diff_lists, regions};

/// Returns the edits that make ours the list of both, from the end, and how many items of theirs
/// come in. `None` when both put something else in the place of the same items.
pub(super) fn merge(
    source: &dyn ObjectSource,
    base: &List,
    ours: &List,
    theirs: &List,
) -> Result<Option<(Vec<Edit>, u64)>> {
    let (by_ours, by_theirs) = (diff_lists(base, ours, source)?, diff_lists(base, theirs, source)?);
    let items = |list: &List, range| list.iter(source, range).collect::<Result<Vec<Item>>>();
    let mut edits = Vec::new();
    let mut came = 0;
    for region in regions(&by_ours, &by_theirs).into_iter().filter(|region| region.theirs_changed) {
        let other = items(theirs, region.theirs.clone())?;
        if !region.ours_changed {
            came += other.len() as u64;
            edits.push((region.ours, other));
            continue;
        }
        let own = items(ours, region.ours.clone())?;
        if own == other {
            continue;
        }
        if !region.base.is_empty() {
            return Ok(None);
        }
        // What both added alike was added once.
        let mut both = own.clone();
        for ListChange { new, .. } in align::changes(own.iter(), other.iter()) {
            let added = new.filter_map(|at| usize::try_from(at).ok().and_then(|at| other.get(at)));
            both.extend(added.cloned());
        }
        came += (both.len() - own.len()) as u64;
        edits.push((region.ours, both));
    }
    edits.reverse();
    Ok(Some((edits, came)))
}
