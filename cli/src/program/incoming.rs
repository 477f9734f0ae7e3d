//! What is said of secrets in content that came in.

use std::collections::BTreeMap;

use turntree_exchange::SeenSecrets;

use crate::view::output::{note, warn};
use crate::view::render::count;

/// Says which secrets were stored or masked, by their rules; never where or what they are.
pub(crate) fn tell(seen: SeenSecrets) {
    match seen {
        SeenSecrets::Stored(seen) => {
            let (all, rules) = sum(&seen, "secret");
            warn(&format!("{all} imported: {rules}"));
            note(
                "'turntree secrets scan --all' locates them; 'turntree secrets mode mask' masks future ones",
            );
        }
        SeenSecrets::Masked(seen) => {
            let (all, rules) = sum(&seen, "content");
            note(&format!("secrets are masked in {all}: {rules}"));
        }
    }
}

fn sum(seen: &BTreeMap<&str, usize>, what: &str) -> (String, String) {
    let all = count(seen.values().sum::<usize>() as u64, what);
    (all, seen.keys().copied().collect::<Vec<_>>().join(", "))
}
