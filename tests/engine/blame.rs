//! `blame` agrees with a walk that searches for each part separately.

use proptest::prelude::*;
use turntree::object::ObjectId;
use turntree::repo::{Blame, BlameKind};
use turntree_tests::random_history::{Content, MESSAGES, RandomHistory, Turn, steps};

/// The turn that wrote a part: walks the first parents back as long as they have it.
fn writer(history: &RandomHistory, mut at: usize, has: &dyn Fn(&Content) -> bool) -> ObjectId {
    loop {
        let turn: &Turn = &history.turns[at];
        match turn.parents.iter().find(|parent| has(&history.turns[**parent].content)) {
            Some(parent) => at = *parent,
            None => return turn.id,
        }
    }
}

fn blame(history: &RandomHistory, at: usize, path: &str) -> Option<Blame> {
    history.sandbox.repo.blame(&history.turns[at].id, path, false).ok()
}

turntree_properties::properties! {
    cases = 48;

    #[test]
    fn blame_attributes_entries_to_the_turn_that_set_them(steps in steps()) {
        let history = RandomHistory::new(&steps);
        for (at, turn) in history.turns.iter().enumerate() {
            for (section, of) in [
                ("scratchpad", (|content| &content.notes) as fn(&Content) -> &_),
                ("files", |content| &content.files),
            ] {
                let Some(blame) = blame(&history, at, section) else {
                    prop_assert!(of(&turn.content).is_empty());
                    continue;
                };
                let expected = of(&turn.content).iter().map(|(key, value)| {
                    (key.clone(), writer(&history, at, &|content| of(content).get(key) == Some(value)))
                });
                let found = blame.parts.iter().map(|part| (part.name.clone(), part.commit));
                prop_assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
                // A folder is blamed like a part of its section.
                let folder = history.sandbox.repo.blame(&turn.id, &format!("{section}/dir"), false);
                let below = folder.map(|blame| blame.parts).unwrap_or_default();
                let inside = blame.parts.iter().filter(|part| part.name.starts_with("dir/"));
                prop_assert!(below.iter().eq(inside));
            }
        }
    }

    #[test]
    fn blame_attributes_messages_to_the_turn_that_added_them(texts in prop::collection::vec((0..4_usize, 0..3_usize), 1..12)) {
        // Each message appears once, so that its author is unambiguous.
        let mut history = RandomHistory::new(&[]);
        let mut tips = [None; 3];
        for (number, (kind, on)) in (0..).zip(texts) {
            let other = tips[(on + 1) % 3];
            let parents = if kind == 0 { vec![tips[on], other] } else { vec![tips[on].or(other)] };
            let mut parents: Vec<usize> = parents.into_iter().flatten().collect();
            parents.dedup();
            let mut content = Content::default();
            for parent in &parents {
                content.messages.extend(history.turns[*parent].content.messages.clone());
            }
            let mut numbered: Vec<String> = std::mem::take(&mut content.messages);
            numbered.push(format!("{number:03}"));
            numbered.sort();
            numbered.dedup();
            if kind == 3 && numbered.len() > 2 {
                numbered.remove(1);
            }
            content.files.insert("f".into(), numbered.iter().map(|text| format!("{text}\n")).collect());
            content.messages = numbered;
            tips[on] = Some(history.add("main", parents, content));
        }
        for (at, turn) in history.turns.iter().enumerate() {
            let expected = turn.content.messages.iter().map(|said| {
                writer(&history, at, &|content| content.messages.contains(said))
            });
            let expected: Vec<ObjectId> = expected.collect();
            for (path, kind) in [(MESSAGES, BlameKind::Items), ("files/f", BlameKind::Lines)] {
                let blame = blame(&history, at, path).unwrap();
                prop_assert_eq!(blame.kind, kind);
                let found: Vec<ObjectId> = blame.parts.iter().map(|part| part.commit).collect();
                prop_assert_eq!(&found, &expected, "{}", path);
                prop_assert!(blame.parts.iter().all(|part| !part.gap));
            }
            let one = blame(&history, at, &format!("{MESSAGES}/0")).unwrap();
            let found: Vec<_> = one.parts.iter().map(|part| (part.name.as_str(), part.commit)).collect();
            prop_assert_eq!(found, vec![("0", expected[0])]);
        }
    }
}

#[test]
fn blame_covers_fields_and_sections() {
    let mut history = RandomHistory::new(&[]);
    let note = |text: &str| {
        let mut content = Content::default();
        content.notes.insert("state".into(), text.into());
        content
    };
    let first = history.add("main", vec![], note(r#"{"a": 1, "b": [1], "c": "x"}"#));
    let mut with_file = note(r#"{"c":"x","b":[1, 2],"a":1}"#);
    with_file.files.insert("f".into(), "text".into());
    let second = history.add("main", vec![first], with_file);
    let (one, two) = (history.turns[first].id, history.turns[second].id);
    let blame = |path: &str, fields| {
        let blame = history.sandbox.repo.blame(&two, path, fields).unwrap();
        let part = |part: turntree::repo::BlamedPart| (part.name, part.commit);
        blame.parts.into_iter().map(part).collect::<Vec<_>>()
    };
    let named = |parts: &[(&str, ObjectId)]| {
        parts.iter().map(|(name, id)| ((*name).to_owned(), *id)).collect::<Vec<_>>()
    };
    assert_eq!(blame("scratchpad/state", true), named(&[("c", one), ("b", two), ("a", one)]));
    assert_eq!(blame("scratchpad/state", false), named(&[("1", two)]));
    assert_eq!(blame("/", false), named(&[("files", two), ("scratchpad", two)]));
    let repo = &history.sandbox.repo;
    for (path, fields) in [("files/f", true), ("files", true), ("files/none", false)] {
        assert!(repo.blame(&two, path, fields).is_err(), "{path}");
    }
}
