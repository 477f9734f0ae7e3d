//! In what order sessions can be imported: what others were forked from comes first.

use std::collections::HashMap;
use std::io::BufReader;

use turntree::error::Result;
use turntree::workspace::open_regular;

use super::found::FoundSession;
use crate::import::fork::{forked_from, is_named};
use crate::text::unpack::HEAD_BYTES;

/// Files of one session.
type Group = Vec<FoundSession>;

/// `groups` in generations: what one is forked from is in an earlier one, if it is there. Only files
/// that are `new` are looked into. The order within a generation is that of `groups`.
pub(super) fn generations(
    groups: Vec<Group>,
    is_new: impl Fn(&FoundSession) -> bool,
) -> Vec<Vec<Group>> {
    let origins: Vec<Option<String>> = groups
        .iter()
        .map(|group| group.iter().filter(|found| is_new(found)).find_map(|it| origin(it).ok()?))
        .collect();
    let names: Vec<String> = groups
        .iter()
        .map(|group| group.first().map(|it| it.session.clone()).unwrap_or_default())
        .collect();
    let base = |origin: &String| names.iter().position(|name| is_named(name, origin));
    let bases: HashMap<usize, usize> = (0..)
        .zip(&origins)
        .filter_map(|(at, origin)| Some((at, origin.as_ref().and_then(base)?)))
        .filter(|(at, base)| at != base)
        .collect();
    let mut generations: Vec<Vec<Group>> = Vec::new();
    for (at, group) in groups.into_iter().enumerate() {
        let number = depth(&bases, at);
        while generations.len() <= number {
            generations.push(Vec::new());
        }
        if let Some(generation) = generations.get_mut(number) {
            generation.push(group);
        }
    }
    generations
}

/// Returns the number of forks that lead to a group. Groups that are forked from each other end
/// somewhere.
fn depth(bases: &HashMap<usize, usize>, at: usize) -> usize {
    let (mut depth, mut at) = (0, at);
    while let Some(base) = bases.get(&at).filter(|_| depth < bases.len()) {
        (depth, at) = (depth + 1, *base);
    }
    depth
}

/// The session that a file says it was forked from.
fn origin(found: &FoundSession) -> Result<Option<String>> {
    if !found.format.records().is_ok_and(|records| records.lineage.is_some()) {
        return Ok(None);
    }
    let file = open_regular(&found.path).map_err(|error| turntree::Error::io("open it", error))?;
    forked_from(found.format, BufReader::with_capacity(HEAD_BYTES, file))
}
