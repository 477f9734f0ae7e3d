//! Reports secrets found in imported content.

use std::collections::BTreeMap;

use turntree_exchange::NewSecrets;

use crate::view::output::{note, warn};
use crate::view::render::count;

/// Reports which secrets were stored or masked, by rule; never their location or value.
pub(crate) fn tell(seen: NewSecrets) {
    match seen {
        NewSecrets::Stored(seen) => {
            let (all, rules) = sum(&seen, "secret");
            warn(&format!("{all} came in: {rules}"));
            note(
                "'turntree secrets scan --all' locates them; 'turntree secrets mode mask' masks future ones",
            );
        }
        NewSecrets::Masked(seen) => {
            let (all, rules) = sum(&seen, "content");
            note(&format!("secrets are masked in {all}: {rules}"));
        }
    }
}

fn sum(seen: &BTreeMap<&str, usize>, what: &str) -> (String, String) {
    let all = count(seen.values().sum::<usize>() as u64, what);
    (all, seen.keys().copied().collect::<Vec<_>>().join(", "))
}
