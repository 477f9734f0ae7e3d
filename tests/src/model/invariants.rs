//! The invariants of every state.

use super::state::{Set, State, members};

impl State {
    /// Describes a loss or an error in this state.
    pub(super) fn broken(&self) -> Option<String> {
        let manifest = &self.manifest;
        let listed = manifest.packed | self.operations_in(manifest.sealed | manifest.retired);
        let in_refs = self.chain(manifest.refs);
        if listed & !in_refs != 0 {
            let (listed, refs) = (Numbers(listed & !in_refs), manifest.refs);
            return Some(format!(
                "operation {listed} is in a file that the manifest lists, whose refs end at {refs}"
            ));
        }
        let read = self.named() & !(manifest.sealed | manifest.retired);
        let refs = self.follow(manifest.refs, read);
        let lost = self.committed() & !self.chain(refs);
        if lost != 0 {
            let lost = Numbers(lost);
            return Some(format!("a reader sees the refs after {refs}: {lost} is lost"));
        }
        let stored = manifest.packed | self.operations_in(self.named() & !manifest.retired);
        let lost = self.committed() & !stored;
        (lost != 0).then(|| format!("what operation {} brought is in no file", Numbers(lost)))
    }

    fn committed(&self) -> Set {
        let all = self.operations.iter().enumerate().filter(|(_, it)| it.sequence > 0);
        all.fold(0, |set, (at, _)| set | 1 << at)
    }
}

/// The numbers in a set.
struct Numbers(Set);

impl std::fmt::Display for Numbers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let numbers: Vec<String> = members(self.0).map(|at| at.to_string()).collect();
        f.write_str(&numbers.join(", "))
    }
}
