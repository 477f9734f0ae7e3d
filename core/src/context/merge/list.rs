//! Merges lists that are not conversations: additions of both sides are kept, ours first.

use super::align;
use super::messages::Edit;
use crate::error::Result;
use crate::object::ObjectSource;
use crate::tree::{Item, List, ListChange, diff_lists, regions};

/// Returns the edits that turn ours into the merged list, last first, and the number of items taken
/// from theirs. `None` if both sides replaced the same items differently.
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
        // Equal additions of both sides count once.
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
