//! Orders sessions for import: the origin of a fork comes before the fork.

use std::collections::HashMap;
use std::io::BufReader;

use turntree::error::Result;
use turntree::workspace::open_regular;

use super::found::FoundSession;
use crate::import::fork::{Beginning, beginning, is_named};
use crate::text::unpack::HEAD_BYTES;

/// Files that are imported one after the other.
type Group = Vec<FoundSession>;

/// Returns `groups` in generations: the origin of a group is in an earlier generation, if it is
/// among them. Only files that are `new` are read. The order within a generation is that of
/// `groups`.
///
/// Files that begin with the same record and do not name their origin become one group, the oldest
/// first: one of them owns the record, and the rest are its forks.
pub(super) fn generations(
    groups: Vec<Group>,
    is_new: impl Fn(&FoundSession) -> bool,
) -> Vec<Vec<Group>> {
    let (groups, origins) = families(groups, is_new);
    let names: Vec<Vec<String>> = groups
        .iter()
        .map(|group| group.iter().map(|found| found.session.clone()).collect())
        .collect();
    let base = |origin: &String| {
        names.iter().position(|names| names.iter().any(|name| is_named(name, origin)))
    };
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

/// Returns the groups, with those of the same first record joined, and the origin that each names.
fn families(
    groups: Vec<Group>,
    is_new: impl Fn(&FoundSession) -> bool,
) -> (Vec<Group>, Vec<Option<String>>) {
    let (mut joined, mut origins): (Vec<Group>, Vec<Option<String>>) = (Vec::new(), Vec::new());
    let mut by_identity = HashMap::new();
    for group in groups {
        let new = group.iter().filter(|found| is_new(found));
        let Beginning { origin, identity } =
            new.filter_map(|found| look_into(found).ok()).next().unwrap_or_default();
        let family = identity.filter(|_| origin.is_none());
        let known = family.and_then(|key| by_identity.get(&key).copied());
        match known.and_then(|at: usize| joined.get_mut(at)) {
            Some(family) => family.extend(group),
            None => {
                by_identity.extend(family.map(|key| (key, joined.len())));
                joined.push(group);
                origins.push(origin);
            }
        }
    }
    // Files of one session keep their order.
    joined.iter_mut().for_each(|group| {
        let mut oldest: HashMap<String, _> = HashMap::new();
        for found in group.iter() {
            let at = oldest.entry(found.session.clone()).or_insert(found.modified);
            *at = found.modified.min(*at);
        }
        group.sort_by_key(|found| (oldest.get(&found.session).copied(), found.session.clone()));
    });
    (joined, origins)
}

/// Returns the number of ancestors of a group. Stops at a cycle of forks.
fn depth(bases: &HashMap<usize, usize>, at: usize) -> usize {
    let (mut depth, mut at) = (0, at);
    while let Some(base) = bases.get(&at).filter(|_| depth < bases.len()) {
        (depth, at) = (depth + 1, *base);
    }
    depth
}

/// Returns the references to other files in the first records of a file.
fn look_into(found: &FoundSession) -> Result<Beginning> {
    if !found.format.records().is_ok_and(|records| records.lineage.is_some()) {
        return Ok(Beginning::default());
    }
    let file = open_regular(&found.path).map_err(|error| turntree::Error::io("open it", error))?;
    beginning(found.format, BufReader::with_capacity(HEAD_BYTES, file))
}
