//! Encodes the facts of a snapshot in a git commit: its message with trailers, its author, and its
//! time.
//!
//! ```text
//! Split the parser                       the message of the snapshot
//!
//! Turntree-Id: 3f2a91c0...               which snapshot it is
//! Turntree-Session: review
//! Turntree-Turn: 42
//! Turntree-Trigger: turn
//! Turntree-Agent: claude-code
//! Turntree-Model: model-1
//! Turntree-Time: 1700000000123456        exact, in microseconds
//! Turntree-Meta: tokens=812              one line for each further fact
//! ```

use std::collections::BTreeMap;

use gix::actor::Signature;
use gix::bstr::ByteSlice;
use gix::objs::CommitRef;
use percent_encoding::{percent_decode_str, percent_encode_byte};
use turntree::object::{Author, Commit, ObjectId, Time, Trigger};

/// The committer of exported commits. Commits with another committer are not from turntree.
const COMMITTER: &str = "turntree";
const EMAIL: &str = "export@turntree.invalid";

/// The author of a snapshot without one.
const UNKNOWN: &str = "unknown";

/// The line before the author of a tag, after its message.
const TAGGER: &str = "\n\nTurntree-Tagger: ";

/// Largest time zone offset of git in minutes.
const MAX_OFFSET_MINUTES: i16 = 5999;

/// The facts of a snapshot from the trailers of its commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommitFacts {
    pub(super) id: ObjectId,
    pub(super) session: String,
    pub(super) author: Author,
    pub(super) trigger: Trigger,
    pub(super) micros: Option<i64>,
    pub(super) metadata: BTreeMap<String, String>,
}

/// Returns the message of the git commit.
pub(super) fn message(id: &ObjectId, commit: &Commit) -> String {
    let text = commit.message.replace('\0', "\u{fffd}");
    let text = text.trim();
    let (subject, body) = text.split_once('\n').unwrap_or((text, ""));
    let mut message = if subject.is_empty() {
        format!("turn {}", commit.turn)
    } else {
        subject.trim_end().to_owned()
    };
    let body = body.trim_start_matches(['\r', '\n']).trim_end();
    if !body.is_empty() {
        message.push_str("\n\n");
        message.push_str(body);
    }
    message.push_str("\n\n");
    let mut add = |key: &str, value: &str| {
        if !value.is_empty() {
            message.push_str(&format!("Turntree-{key}: {value}\n"));
        }
    };
    add("Id", &id.to_string());
    add("Session", &encode_line(&commit.session));
    add("Turn", &commit.turn.to_string());
    add("Trigger", commit.trigger.name());
    add("Agent", &encode_line(&commit.author.agent));
    add("Model", &encode_line(&commit.author.model));
    add("Time", &commit.time.micros.to_string());
    for (name, value) in &commit.metadata {
        let name = encode_line(name).replace('=', "%3D");
        add("Meta", &format!("{name}={}", encode_line(value)));
    }
    message
}

/// Returns the author and the committer of the git commit.
pub(super) fn signatures(commit: &Commit) -> (Signature, Signature) {
    let time = git_time(commit.time);
    let agent = sanitize_name(&commit.author.agent);
    let author = Signature { name: agent.into(), email: EMAIL.into(), time };
    (author, committer(commit.time))
}

/// Returns the committer of commits and the tagger of tags.
pub(super) fn committer(time: Time) -> Signature {
    Signature { name: COMMITTER.into(), email: EMAIL.into(), time: git_time(time) }
}

/// Returns true if the signature is turntree's.
pub(super) fn is_own(signature: &gix::actor::SignatureRef<'_>) -> bool {
    signature.name == COMMITTER && signature.email == EMAIL
}

/// Returns the facts of a commit that turntree wrote. `None` for other commits.
pub(super) fn parse_facts(commit: &CommitRef<'_>) -> Option<CommitFacts> {
    if !commit.committer().is_ok_and(|signature| is_own(&signature)) {
        return None;
    }
    let text = commit.message.to_str().ok()?;
    let last = text.trim_end().rsplit("\n\n").next()?;
    let mut facts: BTreeMap<&str, String> = BTreeMap::new();
    let mut metadata = BTreeMap::new();
    for line in last.lines() {
        let (key, value) = line.strip_prefix("Turntree-")?.split_once(": ")?;
        if key == "Meta" {
            let (name, value) = value.split_once('=')?;
            metadata.insert(decode_line(name), decode_line(value));
        } else {
            facts.insert(key, decode_line(value));
        }
    }
    let mut take = |key: &str| facts.remove(key).unwrap_or_default();
    Some(CommitFacts {
        id: take("Id").parse().ok()?,
        session: take("Session"),
        author: Author { agent: take("Agent"), model: take("Model") },
        trigger: take("Trigger").parse().ok()?,
        micros: take("Time").parse().ok(),
        metadata,
    })
}

/// Encodes the message and the author of a tag.
pub(super) fn tag_message(message: &str, tagger: &str) -> String {
    let message = message.replace('\0', "\u{fffd}");
    let message = message.trim_end();
    match tagger.is_empty() {
        true => format!("{message}\n"),
        false => format!("{message}{TAGGER}{}\n", encode_line(tagger)),
    }
}

/// Decodes the message and the author from the output of [`tag_message`].
pub(super) fn parse_tag_message(text: &str) -> (&str, String) {
    let text = text.trim_end_matches('\n');
    match text.rsplit_once(TAGGER).filter(|(_, tagger)| !tagger.contains('\n')) {
        Some((message, tagger)) => (message, decode_line(tagger)),
        None => (text, String::new()),
    }
}

/// Converts a time to git's representation: whole seconds since 1970, and an offset of four digits.
fn git_time(time: Time) -> gix::date::Time {
    let offset = time.offset_minutes.clamp(-MAX_OFFSET_MINUTES, MAX_OFFSET_MINUTES);
    let seconds = time.micros.div_euclid(1_000_000).max(0);
    gix::date::Time { seconds, offset: i32::from(offset) * 60 }
}

/// Removes the characters that git does not allow in a name.
fn sanitize_name(name: &str) -> String {
    let kept: String = name.chars().filter(|c| !c.is_control() && !"<>".contains(*c)).collect();
    let trimmed = kept.trim_matches(|c: char| c.is_whitespace() || ".,:;\"'\\".contains(c));
    if trimmed.is_empty() { UNKNOWN.to_owned() } else { trimmed.to_owned() }
}

/// Encodes a value on one line. Percent-encodes control characters, and whitespace that would be
/// trimmed.
pub(super) fn encode_line(value: &str) -> String {
    let last = value.chars().count().saturating_sub(1);
    let mut line = String::with_capacity(value.len());
    for (at, c) in value.chars().enumerate() {
        let is_edge = at == 0 || at == last;
        let breaks = c.is_control() || matches!(c, '%' | '\u{2028}' | '\u{2029}');
        if breaks || (is_edge && c.is_whitespace()) {
            line.extend(c.encode_utf8(&mut [0; 4]).bytes().map(percent_encode_byte));
        } else {
            line.push(c);
        }
    }
    line
}

/// Decodes the value of a line.
fn decode_line(line: &str) -> String {
    percent_decode_str(line).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use gix::objs::WriteTo;
    use proptest::prelude::*;
    use turntree::object::Kind;

    use super::*;

    fn written(commit: &Commit) -> Vec<u8> {
        let id = ObjectId::of(Kind::Commit, &commit.encode());
        let (author, committer) = signatures(commit);
        let git = gix::objs::Commit {
            tree: gix::ObjectId::empty_tree(gix::hash::Kind::Sha1),
            parents: Default::default(),
            author,
            committer,
            encoding: None,
            message: message(&id, commit).into(),
            extra_headers: Vec::new(),
        };
        let mut bytes = Vec::new();
        git.write_to(&mut bytes).unwrap();
        bytes
    }

    fn commit(text: &str, agent: &str, fact: (&str, &str), micros: i64) -> Commit {
        Commit {
            tree: ObjectId::of(Kind::Node, b"tree"),
            parents: vec![],
            session: "review".into(),
            turn: 7,
            author: Author { agent: agent.into(), model: "model-1".into() },
            time: Time { micros, offset_minutes: 90 },
            trigger: Trigger::Turn,
            message: text.into(),
            metadata: [(fact.0.to_owned(), fact.1.to_owned())].into(),
        }
    }

    turntree_properties::properties! {
        #[test]
        fn facts_round_trip_with_any_text(
            text in "(.|\n|\r|Turntree-Id: 1){0,20}",
            agent in ".{0,8}",
            name in "[a=%\n ]{1,4}",
            value in "(.|\n| ){0,8}",
            micros: i64,
        ) {
            let commit = commit(&text, &agent, (&name, &value), micros);
            let bytes = written(&commit);
            let parsed = CommitRef::from_bytes(&bytes, gix::hash::Kind::Sha1).unwrap();
            let facts = parse_facts(&parsed).unwrap();
            prop_assert_eq!(facts.id, ObjectId::of(Kind::Commit, &commit.encode()));
            prop_assert_eq!(facts.author, commit.author);
            prop_assert_eq!(facts.micros, Some(micros));
            prop_assert_eq!(facts.metadata, commit.metadata);
        }
    }

    #[test]
    fn facts_may_be_named_like_their_prefix() {
        let commit = commit("", "", ("=", ""), 0);
        let bytes = written(&commit);
        let parsed = CommitRef::from_bytes(&bytes, gix::hash::Kind::Sha1).unwrap();
        assert_eq!(parse_facts(&parsed).unwrap().metadata, commit.metadata);
    }

    #[test]
    fn a_message_has_a_subject_a_body_and_trailers() {
        let long = commit("\n\nfirst\nsecond\n\nthird\n", "me", ("tokens", "8"), 5);
        let text = message(&ObjectId::of(Kind::Commit, b""), &long);
        assert!(text.starts_with("first\n\nsecond\n\nthird\n\nTurntree-Id: "), "{text}");
        assert!(text.ends_with("Turntree-Time: 5\nTurntree-Meta: tokens=8\n"), "{text}");
        let silent = message(&ObjectId::of(Kind::Commit, b""), &commit(" \n", "", ("a", ""), 5));
        assert!(silent.starts_with("turn 7\n\nTurntree-Id: "), "{silent}");
    }

    #[test]
    fn commits_of_other_tools_have_no_facts() {
        let bytes = written(&commit("x", "me", ("a", "b"), 5));
        let other = String::from_utf8(bytes).unwrap().replace("committer turntree", "committer me");
        let parsed = CommitRef::from_bytes(other.as_bytes(), gix::hash::Kind::Sha1).unwrap();
        assert_eq!(parse_facts(&parsed), None);
    }
}
