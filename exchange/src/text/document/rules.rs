//! The values of a document that are records, and the reported fields: paths and their matching.

/// The paths of a document that a format requests.
///
/// A path consists of keys and `[*]` (each element of an array): `messages[*]`,
/// `simulations[*].messages[*]`, `agent.model_name`. `[*]` alone is each element of a top-level
/// array, and the empty path is each top-level value.
#[derive(Debug)]
pub struct Rules {
    /// Values that become records. A value that contains other records stays trivia. The trivia is
    /// split at its start, and its path is reported there as a field with an empty range.
    pub records: &'static [&'static str],
    /// Values that trivia reports with their range, if they are not longer than
    /// [`MAX_FIELD_BYTES`](super::MAX_FIELD_BYTES).
    pub fields: &'static [&'static str],
}

/// A step of a path.
#[derive(Debug, PartialEq, Eq)]
enum Segment {
    Key(&'static str),
    Each,
}

/// The purpose of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathTarget {
    /// A record.
    Record,
    /// A value that contains records. Trivia is split at its start.
    Split,
    /// A reported field.
    Field,
}

#[derive(Debug)]
struct Rule {
    path: &'static str,
    segments: Vec<Segment>,
    target: PathTarget,
}

/// A set of rules: bit `i` represents rule `i`.
pub(super) type Mask = u64;

/// Compiled [`Rules`], which find the rules that match at a position in a document.
#[derive(Debug)]
pub(super) struct Matcher {
    rules: Vec<Rule>,
}

impl Matcher {
    /// Compiles `rules`, at most 64.
    pub(super) fn new(rules: &Rules) -> Self {
        debug_assert!(rules.records.len() + rules.fields.len() <= Mask::BITS as usize);
        let records = rules.records.iter().map(|path| (*path, PathTarget::Record));
        let fields = rules.fields.iter().map(|path| (*path, PathTarget::Field));
        let mut compiled: Vec<Rule> = records
            .chain(fields)
            .take(Mask::BITS as usize)
            .map(|(path, target)| Rule { path, segments: segments(path), target })
            .collect();
        let deeper: Vec<bool> = compiled
            .iter()
            .map(|rule| {
                compiled.iter().any(|other| {
                    other.target == PathTarget::Record
                        && other.segments.len() > rule.segments.len()
                        && other.segments.starts_with(&rule.segments)
                })
            })
            .collect();
        for (rule, deeper) in compiled.iter_mut().zip(deeper) {
            if deeper && rule.target == PathTarget::Record {
                rule.target = PathTarget::Split;
            }
        }
        Self { rules: compiled }
    }

    /// Returns all rules, which may match a top-level value.
    pub(super) fn all(&self) -> Mask {
        self.select(|_| true)
    }

    /// Returns the rules of `mask` that match the elements of an array at `depth`.
    pub(super) fn each(&self, mask: Mask, depth: usize) -> Mask {
        mask & self.select(|rule| rule.segments.get(depth) == Some(&Segment::Each))
    }

    /// Returns the rules of `mask` that match the value of `key` in an object at `depth`.
    pub(super) fn key(&self, mask: Mask, depth: usize, key: &[u8]) -> Mask {
        mask & self.select(|rule| {
            matches!(rule.segments.get(depth), Some(Segment::Key(name)) if name.as_bytes() == key)
        })
    }

    /// Returns the path of `mask` that ends at `depth`, if there is one, and its purpose.
    pub(super) fn complete(&self, mask: Mask, depth: usize) -> Option<(&'static str, PathTarget)> {
        let mut fitting = self.rules.iter().enumerate().filter(|(index, _)| mask >> index & 1 == 1);
        fitting.find(|(_, rule)| rule.segments.len() == depth).map(|(_, r)| (r.path, r.target))
    }

    fn select(&self, fits: impl Fn(&Rule) -> bool) -> Mask {
        let bits = self.rules.iter().enumerate();
        bits.fold(0, |mask, (index, rule)| mask | Mask::from(fits(rule)) << index)
    }
}

fn segments(path: &'static str) -> Vec<Segment> {
    let mut segments = Vec::new();
    for part in path.split('.') {
        let key = part.trim_end_matches("[*]");
        if !key.is_empty() {
            segments.push(Segment::Key(key));
        }
        let each = (part.len() - key.len()) / "[*]".len();
        segments.extend((0..each).map(|_| Segment::Each));
    }
    segments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_match_step_by_step() {
        let matcher =
            Matcher::new(&Rules { records: &["", "runs[*].messages[*]"], fields: &["id"] });
        let all = matcher.all();
        assert_eq!(matcher.complete(all, 0), Some(("", PathTarget::Split)));
        assert_eq!(
            matcher.complete(matcher.key(all, 0, b"id"), 1),
            Some(("id", PathTarget::Field))
        );
        let runs = matcher.key(all, 0, b"runs");
        assert_eq!(matcher.complete(runs, 1), None);
        let messages = matcher.key(matcher.each(runs, 1), 2, b"messages");
        let found = matcher.complete(matcher.each(messages, 3), 4);
        assert_eq!(found, Some(("runs[*].messages[*]", PathTarget::Record)));
        assert_eq!(matcher.key(all, 0, b"other"), 0);
    }
}
