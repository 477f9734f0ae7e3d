//! The difference of two JSON records as replacements of whole values.
//!
//! A copy of a record differs in top-level values: a time, the name of a session. Only whole values
//! are replaced, so that a search in the replacements finds the same text as in the record.

use std::ops::Range;

use bytes::Bytes;
use memchr::memchr2;

use super::edits::{Edit, apply_edits};

/// Most replacements in a record; one that differs in more is kept whole.
const MAX_EDITS: usize = 32;

/// A member of an object: the places of its key, with quotes, and of its value.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Member {
    key: Range<usize>,
    value: Range<usize>,
}

/// Returns the replacements that turn `base` into `piece`; `None` when they are longer than half of
/// it.
///
/// Cost: linear in both.
pub(super) fn edits_between(base: &[u8], piece: &Bytes) -> Option<Vec<Edit>> {
    if base == piece {
        return Some(Vec::new());
    }
    let edits = changed_members(base, piece)?;
    let said: usize = edits.iter().map(|edit| edit.text.len()).sum();
    let is_small = edits.len() <= MAX_EDITS && said <= piece.len() / 2;
    (is_small && apply_edits(base, &edits)? == *piece).then_some(edits)
}

/// Returns the changed members, if the records have the same members in the same order. Bytes
/// between members are not compared.
fn changed_members(base: &[u8], piece: &Bytes) -> Option<Vec<Edit>> {
    // Members that begin after the last difference are equal.
    let tail = base.iter().rev().zip(piece.iter().rev()).take_while(|(a, b)| a == b).count();
    let old = members(base, base.len() - tail)?;
    let new = members(piece, piece.len() - tail)?;
    let old_key = |at: usize| old.get(at).and_then(|member| base.get(member.key.clone()));
    let new_key = |at: usize| new.get(at).and_then(|member| piece.get(member.key.clone()));
    let mut edits: Vec<Edit> = Vec::new();
    let (mut i, mut j) = (0, 0);
    // The ends of the last member on both sides.
    let (mut old_end, mut new_end) = (0, 0);
    while i < old.len() || j < new.len() {
        let (before, after) = (old.get(i), new.get(j));
        match (before, after) {
            (Some(before), Some(after)) if old_key(i) == new_key(j) => {
                if base.get(before.value.clone()) != piece.get(after.value.clone()) {
                    let text = piece.slice(after.value.clone());
                    let removed = before.value.len();
                    edits.push(Edit { at: before.value.start, removed, text });
                }
                (old_end, new_end) = (before.value.end, after.value.end);
                (i, j) = (i + 1, j + 1);
            }
            // A new member, with its separator from the one before.
            (_, Some(after))
                if new_end > 0 && !(i..old.len()).any(|at| old_key(at) == new_key(j)) =>
            {
                let text = piece.slice(new_end..after.value.end);
                edits.push(Edit { at: old_end, removed: 0, text });
                (new_end, j) = (after.value.end, j + 1);
            }
            (Some(before), _)
                if old_end > 0 && !(j..new.len()).any(|at| new_key(at) == old_key(i)) =>
            {
                let removed = before.value.end - old_end;
                edits.push(Edit { at: old_end, removed, text: Bytes::new() });
                (old_end, i) = (before.value.end, i + 1);
            }
            _ => return None,
        }
        if edits.len() > MAX_EDITS {
            return None;
        }
    }
    Some(edits)
}

/// Returns the record without the values of the top-level members called `names` that come before
/// the first object or array; `None` if it is no JSON object. Two records with equal results are
/// equal apart from these values.
///
/// Cost: linear in the bytes up to there, and a copy of the rest.
#[must_use]
pub fn without_values(record: &[u8], names: &[&str]) -> Option<Vec<u8>> {
    let mut rest = Vec::with_capacity(record.len());
    let (mut from, mut at) = (0, blank_end(record, 0));
    if record.get(at)? != &b'{' {
        return None;
    }
    loop {
        at = blank_end(record, at + 1);
        if record.get(at)? == &b'}' {
            break;
        }
        let key = at..string_end(record, at)?;
        at = blank_end(record, key.end);
        if record.get(at)? != &b':' {
            return None;
        }
        at = blank_end(record, at + 1);
        if matches!(record.get(at)?, b'{' | b'[') {
            break;
        }
        let value = at..value_end(record, at)?;
        let name = record.get(key.start + 1..key.end - 1)?;
        if names.iter().any(|known| known.as_bytes() == name) {
            rest.extend_from_slice(record.get(from..value.start)?);
            from = value.end;
        }
        at = blank_end(record, value.end);
        match record.get(at)? {
            b',' => {}
            b'}' => break,
            _ => return None,
        }
    }
    rest.extend_from_slice(record.get(from..)?);
    Some(rest)
}

/// Returns the members of a JSON object that begin before `until`; `None` if it is no object.
fn members(record: &[u8], until: usize) -> Option<Vec<Member>> {
    let mut members = Vec::new();
    let mut at = blank_end(record, 0);
    if record.get(at)? != &b'{' {
        return None;
    }
    loop {
        at = blank_end(record, at + 1);
        if at >= until || record.get(at)? == &b'}' {
            return Some(members);
        }
        let key = at..string_end(record, at)?;
        at = blank_end(record, key.end);
        if record.get(at)? != &b':' {
            return None;
        }
        at = blank_end(record, at + 1);
        let value = at..value_end(record, at)?;
        at = blank_end(record, value.end);
        members.push(Member { key, value });
        match record.get(at)? {
            b',' => {}
            b'}' => return Some(members),
            _ => return None,
        }
    }
}

/// The first place from `at` on that is not blank.
fn blank_end(record: &[u8], at: usize) -> usize {
    let rest = record.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// The end of the string that begins at `at`.
fn string_end(record: &[u8], at: usize) -> Option<usize> {
    if record.get(at)? != &b'"' {
        return None;
    }
    let mut at = at + 1;
    loop {
        at += memchr2(b'"', b'\\', record.get(at..)?)?;
        match record.get(at)? {
            b'"' => return Some(at + 1),
            _ => at += 2,
        }
    }
}

/// The end of the value that begins at `at`.
fn value_end(record: &[u8], at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut next = at;
    loop {
        match record.get(next)? {
            b'"' => next = string_end(record, next)?,
            b'{' | b'[' => (depth, next) = (depth + 1, next + 1),
            b'}' | b']' => (depth, next) = (depth.checked_sub(1)?, next + 1),
            _ => {
                let rest = record.get(next..)?;
                let is_end = |byte: &u8| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']' | b',');
                let end = rest.iter().position(is_end).unwrap_or(rest.len());
                if depth == 0 {
                    let scalar = rest.get(..end)?;
                    let end = scalar.trim_ascii_end().len();
                    return (end > 0).then_some(next + end);
                }
                next += end.max(1);
            }
        }
        if depth == 0 {
            return Some(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edits(base: &str, piece: &str) -> Option<Vec<(usize, usize, String)>> {
        let edits = edits_between(base.as_bytes(), &Bytes::copy_from_slice(piece.as_bytes()))?;
        assert_eq!(apply_edits(base.as_bytes(), &edits).unwrap(), piece.as_bytes());
        let text = |edit: Edit| String::from_utf8(edit.text.to_vec()).unwrap();
        Some(edits.into_iter().map(|edit| (edit.at, edit.removed, text(edit))).collect())
    }

    const LONG: &str = r#""payload":{"text":"a \" b \\","more":[1,2,{"x":"}"}]}"#;

    #[test]
    fn whole_values_are_replaced() {
        let base = format!(r#"{{"timestamp":"10:01",{LONG},"id":17}}"#);
        let copy = format!(r#"{{"timestamp":"10:09",{LONG},"id":1}}"#);
        let id = base.len() - 3;
        assert_eq!(
            edits(&base, &copy).unwrap(),
            [(13, 7, "\"10:09\"".to_owned()), (id, 2, "1".to_owned())]
        );
        assert_eq!(edits(&base, &base).unwrap(), []);
    }

    #[test]
    fn members_that_only_one_side_has_come_and_go() {
        let base = format!(r#"{{"a":1, {LONG}}}"#);
        for copy in [
            format!(r#"{{"a":1, "b": null, {LONG}}}"#),
            format!(r#"{{"a":1, {LONG}, "b":"x"}}"#),
            format!(r#"{{"a":2, "c":[], "b":{{}}, {LONG}}}"#),
        ] {
            assert!(edits(&base, &copy).is_some(), "{copy}");
            assert!(edits(&copy, &base).is_some(), "{copy}");
        }
    }

    #[test]
    fn values_of_some_members_are_left_out() {
        let names = ["timestamp", "id"];
        for (record, expected) in [
            (
                r#"{"timestamp":"1","type":"a","p":{"id":1}}"#,
                r#"{"timestamp":,"type":"a","p":{"id":1}}"#,
            ),
            (r#"{ "id" : 17 , "a":1}"#, r#"{ "id" :  , "a":1}"#),
            (r#"{"p":[],"id":17}"#, r#"{"p":[],"id":17}"#),
            ("{}", "{}"),
        ] {
            assert_eq!(without_values(record.as_bytes(), &names).unwrap(), expected.as_bytes());
        }
        for record in ["", "[]", "{\"id\"", "{\"id\":", "{\"id\":1", "{1}"] {
            assert_eq!(without_values(record.as_bytes(), &names), None, "{record}");
        }
    }

    #[test]
    fn what_is_no_copy_is_kept_whole() {
        let base = format!(r#"{{"a":1,{LONG}}}"#);
        for other in [
            format!(r#"{{{LONG},"a":1}}"#),
            format!(r#"{{"a":1,  {LONG}}}"#),
            r#"{"a":2,"payload":{"text":"another one that is as long"}}"#.to_owned(),
            format!("[{base}]"),
            format!(r#"{{"a":1,{LONG}"#),
            String::new(),
            "{".to_owned(),
            r#"{"a""#.to_owned(),
            r#"{"a":"#.to_owned(),
            r#"{"a":\"#.to_owned(),
        ] {
            assert_eq!(edits(&base, &other), None, "{other}");
            assert_eq!(edits(&other, &base), None, "{other}");
        }
    }

    turntree_properties::properties! {
        #[test]
        fn edits_make_the_piece_whatever_both_are(
            base in "[{}\\[\\]\",:a\\\\ 1]{0,40}",
            piece in "[{}\\[\\]\",:a\\\\ 1]{0,40}",
        ) {
            let piece = Bytes::from(piece);
            if let Some(edits) = edits_between(base.as_bytes(), &piece) {
                assert_eq!(apply_edits(base.as_bytes(), &edits).unwrap(), piece);
            }
        }
    }
}
