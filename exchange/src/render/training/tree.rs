//! The tree of some conversations: where they part, and what each continuation is.

use turntree::object::{Kind, ObjectId};

use super::spoken::{Spoken, SpokenKind};

/// The identity of a message: half of a hash, and whether it is an answer of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MessageDigest(u128);

impl MessageDigest {
    /// The digest of a message, without its time.
    pub(super) fn of(said: &Spoken) -> Self {
        let id = ObjectId::of(Kind::Blob, said.chat().to_string().as_bytes());
        let mut half = [0; 16];
        half.iter_mut().zip(id.as_bytes()).for_each(|(to, from)| *to = *from);
        let is_answer = matches!(said.kind, SpokenKind::Assistant { .. });
        Self(u128::from_le_bytes(half) & !1 | u128::from(is_answer))
    }

    /// Returns true for an answer of the model.
    pub(super) fn is_answer(&self) -> bool {
        self.0 & 1 == 1
    }
}

/// A place where conversations part.
#[derive(Debug)]
pub(super) struct Fork {
    /// The number of messages before it, which all have.
    pub(super) at: usize,
    /// The fork before it, and the continuation there.
    pub(super) parent: Option<(usize, usize)>,
    pub(super) continuations: Vec<Continuation>,
}

/// The messages from a fork to the next fork, or to the end.
#[derive(Debug)]
pub(super) struct Continuation {
    /// The conversations that have it, in order.
    pub(super) lines: Vec<usize>,
    /// One that has all of its messages.
    pub(super) line: usize,
    /// The number of messages up to its end.
    pub(super) end: usize,
    begins_with_answer: bool,
}

impl Fork {
    /// Returns true if the model chose each continuation: each begins with an answer.
    pub(super) fn is_by_answer(&self) -> bool {
        self.continuations.iter().all(|it| it.begins_with_answer)
    }
}

/// Returns the forks of conversations, each after the one that it depends on.
pub(super) fn forks(lines: &[Vec<MessageDigest>]) -> Vec<Fork> {
    let mut forks = Vec::new();
    part(lines, &(0..lines.len()).collect::<Vec<_>>(), 0, None, &mut forks);
    forks
}

/// Follows conversations that are alike from `at` on until they part, and the parts after that.
/// Returns where they part, or the end of the longest.
fn part(
    lines: &[Vec<MessageDigest>],
    group: &[usize],
    mut at: usize,
    parent: Option<(usize, usize)>,
    forks: &mut Vec<Fork>,
) -> usize {
    // Each call has fewer conversations than the one before, so the stack is bounded by their number.
    loop {
        let mut parts: Vec<(MessageDigest, Vec<usize>)> = Vec::new();
        for line in group {
            // A conversation that ended here is no continuation.
            let Some(digest) = lines.get(*line).and_then(|line| line.get(at)) else { continue };
            match parts.iter_mut().find(|(known, _)| known == digest) {
                Some((_, part)) => part.push(*line),
                None => parts.push((*digest, vec![*line])),
            }
        }
        if parts.len() < 2 {
            if parts.is_empty() {
                return at;
            }
            at += 1;
            continue;
        }
        let own = forks.len();
        forks.push(Fork { at, parent, continuations: Vec::new() });
        for (number, (first, part_lines)) in parts.into_iter().enumerate() {
            let end = part(lines, &part_lines, at + 1, Some((own, number)), forks);
            let has_all = |line: &&usize| lines.get(**line).is_some_and(|it| it.len() >= end);
            let line = part_lines.iter().find(has_all).copied().unwrap_or_default();
            let begins_with_answer = first.is_answer();
            if let Some(fork) = forks.get_mut(own) {
                let continuation =
                    Continuation { lines: part_lines, line, end, begins_with_answer };
                fork.continuations.push(continuation);
            }
        }
        return at;
    }
}

/// The number of messages at the beginning of both.
pub(super) fn shared(one: &[MessageDigest], other: &[MessageDigest]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The fork of this many conversations.
    pub(in crate::render::training) fn fork_of(number: u32) -> Fork {
        let lines: Vec<_> = (0..number).map(|line| vec![MessageDigest(u128::from(line))]).collect();
        forks(&lines).remove(0)
    }

    /// Conversations as words: an answer is a capital letter.
    fn lines(words: &[&str]) -> Vec<Vec<MessageDigest>> {
        let digest = |c: char| {
            MessageDigest(u128::from(u32::from(c)) << 1 | u128::from(c.is_ascii_uppercase()))
        };
        words.iter().map(|word| word.chars().map(digest).collect()).collect()
    }

    fn outline(words: &[&str]) -> String {
        let forks = forks(&lines(words));
        let told = forks.iter().map(|fork| {
            let parts: Vec<String> = fork
                .continuations
                .iter()
                .map(|it| {
                    let of = words[it.line].get(fork.at..it.end).unwrap();
                    format!("{of}{:?}", it.lines)
                })
                .collect();
            let by = if fork.is_by_answer() { "" } else { "?" };
            let parent =
                fork.parent.map_or(String::new(), |(fork, part)| format!("<{fork}.{part}"));
            format!("{}{by}{parent}: {}", fork.at, parts.join(" "))
        });
        told.collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn conversations_part_where_their_messages_differ() {
        assert_eq!(outline(&["uAbC", "uAbD", "uAbC"]), "3: C[0, 2] D[1]");
        // A prompt that differs is not the choice of the model.
        assert_eq!(outline(&["uAbC", "uAcC"]), "2?: bC[0] cC[1]");
        assert_eq!(outline(&["uA", "vB"]), "0?: uA[0] vB[1]");
        // A conversation that ended before the fork is part of no continuation.
        assert_eq!(outline(&["uA", "uAbC", "uAbD"]), "3: C[1] D[2]");
        assert_eq!(outline(&["uA", "uAbC"]), "");
        assert_eq!(outline(&[]), "");
        // A fork of a fork: what both share belongs to the outer continuation.
        assert_eq!(
            outline(&["uAbC", "uAbD", "uE", "uAbCx"]),
            "1: Ab[0, 1, 3] E[2]; 3<0.0: Cx[0, 3] D[1]"
        );
    }
}
