//! `grep` and `log` by changed content find the same in random histories as a look at every entry
//! of every turn.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use proptest::prelude::*;
use turntree::context::Selection;
use turntree::object::ObjectId;
use turntree::repo::{
    Grep, GrepPlace, GrepQuery, LinePattern, MayHold, PatternOptions, PickaxeMatch, PickaxeQuery,
    SearchFilter, SearchScope,
};
use turntree_exchange::MessageText;
use turntree_tests::random_history::{Content, MESSAGES, RandomHistory, steps};
use turntree_tests::{Sandbox, recorded_sessions};

const TEXTS: [&str; 5] = ["alpha", "beta", "say \"b", "é", "x"];

fn pattern(text: &str) -> LinePattern {
    LinePattern::new(text, PatternOptions { fixed: true, ..Default::default() }).unwrap()
}

fn messages(pattern: &LinePattern) -> MessageText {
    MessageText::matching(pattern)
}

fn grep<T>(
    sandbox: &Sandbox,
    scopes: &[SearchScope],
    text: &str,
    paths: &[&str],
    ask: impl FnOnce(&Grep<'_>) -> T,
) -> T {
    grep_for(sandbox, scopes, &pattern(text), paths, ask)
}

fn grep_for<T>(
    sandbox: &Sandbox,
    scopes: &[SearchScope],
    pattern: &LinePattern,
    paths: &[&str],
    ask: impl FnOnce(&Grep<'_>) -> T,
) -> T {
    let messages = messages(pattern);
    let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
    let may_hold = messages.test();
    let query = GrepQuery {
        pattern,
        wanted: SearchFilter { paths: Selection::below(&paths), roles: Vec::new() },
        lines: Some(0),
        read: &|format, bytes| messages.read(format, bytes),
        may_hold: may_hold.as_ref().map(|test| test as MayHold<'_>),
    };
    ask(&sandbox.repo.grep(scopes, query, &|_, _| {}).unwrap())
}

/// First and last turn, section, key, text.
type Told = (usize, Option<usize>, String, String, String);

/// The expected places in a history of `members` that ends in `tips`.
fn naive(history: &RandomHistory, members: &[usize], tips: &[usize], text: &str) -> BTreeSet<Told> {
    let mut members = members.to_vec();
    members.sort_by_key(|at| history.turns[*at].order);
    let entries = |at: usize| history.turns[at].content.entries();
    let mut first: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
    for at in &members {
        for (entry, count) in entries(*at) {
            let parents = &history.turns[*at].parents;
            let is_new = |parent: &usize| entries(*parent).get(&entry).unwrap_or(&0) < &count;
            if parents.iter().all(is_new) {
                first.entry(entry).or_insert(*at);
            }
        }
    }
    let matching =
        first.into_iter().filter(|((_, _, said), _)| said.lines().any(|line| line.contains(text)));
    matching
        .map(|((section, key, said), first)| {
            let has = |at: &usize| entries(*at).contains_key(&(section, key, said));
            let last = members.iter().rev().find(|at| has(at)).copied();
            let last = last.filter(|_| !tips.iter().any(has));
            (first, last, section.to_owned(), key.to_owned(), said.to_owned())
        })
        .collect()
}

/// The places that the store finds, in the same form. Also checks the key of each message.
fn told(history: &RandomHistory, grep: &Grep<'_>) -> BTreeSet<Told> {
    let mut all = BTreeSet::new();
    let mut order = Vec::new();
    for place in grep.places() {
        let first = history.position(&place.commit);
        let content = &history.turns[first].content;
        let (key, said) = match place.section.as_str() {
            MESSAGES => ("", &content.messages[place.key.parse::<usize>().unwrap()]),
            "files" => (place.key.as_str(), &content.files[&place.key]),
            _ => (place.key.as_str(), &content.notes[&place.key]),
        };
        let found = grep.found(place).unwrap();
        let lines: Vec<&str> = found.lines.iter().map(|line| line.text.as_str()).collect();
        let numbered =
            |number: u64| said.lines().nth(usize::try_from(number).unwrap() - 1).unwrap();
        assert!(found.lines.iter().all(|line| line.text == numbered(line.number)), "{lines:?}");
        assert_eq!(found.count, place.count);
        order.push(history.turns[first].order);
        let last = place.last.map(|(_, id)| history.position(&id));
        let told = (first, last, place.section.clone(), key.to_owned(), said.clone());
        assert!(all.insert(told), "told twice");
    }
    assert!(order.is_sorted(), "in the order of history");
    all
}

fn scope(history: &RandomHistory, tips: &[usize], hide: &[usize]) -> SearchScope {
    let ids = |of: &[usize]| of.iter().map(|at| history.turns[*at].id).collect::<Vec<_>>();
    SearchScope { starts: ids(tips).into_iter().map(|id| (id, None)).collect(), hide: ids(hide) }
}

/// True if a turn changed a unit that `of` returns for contents, compared with every parent.
fn has_touched<T: Eq>(
    history: &RandomHistory,
    at: usize,
    of: impl for<'c> Fn(&'c Content) -> BTreeMap<(String, String), T>,
) -> bool {
    let here = &history.turns[at];
    let now = of(&here.content);
    let changed = |before: BTreeMap<(String, String), T>| -> BTreeSet<(String, String)> {
        let units = now.keys().chain(before.keys());
        units.filter(|unit| now.get(*unit) != before.get(*unit)).cloned().collect()
    };
    let parents: Vec<_> = match here.parents.as_slice() {
        [] => vec![BTreeMap::new()],
        parents => parents.iter().map(|at| of(&history.turns[*at].content)).collect(),
    };
    let sets = parents.into_iter().map(changed);
    sets.reduce(|a, b| a.intersection(&b).cloned().collect()).is_some_and(|units| !units.is_empty())
}

/// The units of a content below `path`, with their values.
fn units(content: &Content, path: &str) -> BTreeMap<(String, String), Vec<String>> {
    let mut units: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for (section, map) in [("scratchpad", &content.notes), ("files", &content.files)] {
        for (key, value) in map {
            units.insert((section.to_owned(), key.clone()), vec![value.clone()]);
        }
    }
    let whole = content.messages.clone();
    match path.strip_prefix("agents/main/messages/") {
        Some(index) => {
            let item = whole.into_iter().nth(index.parse().unwrap());
            item.map(|item| units.insert((MESSAGES.to_owned(), index.to_owned()), vec![item]));
        }
        None if !whole.is_empty() => {
            units.insert((MESSAGES.to_owned(), String::new()), whole);
        }
        None => {}
    }
    units.retain(|(section, key), _| {
        let full = format!("{section}/{key}");
        path.is_empty()
            || full.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    units
}

turntree_properties::properties! {
    cases = 48;

    #[test]
    fn every_match_of_the_history_is_found_once(steps in steps(), text in 0..TEXTS.len()) {
        let (history, text) = (RandomHistory::new(&steps), TEXTS[text]);
        let tips: Vec<usize> = history.tips.values().copied().collect();
        let members = history.reachable(&tips);
        let found = grep(&history.sandbox, &[scope(&history, &tips, &[])], text, &[], |grep| {
            told(&history, grep)
        });
        prop_assert_eq!(found, naive(&history, &members, &tips, text));
    }

    #[test]
    fn ranges_and_later_scopes_report_only_new_matches(steps in steps(), text in 0..2_usize) {
        let (history, text) = (RandomHistory::new(&steps), TEXTS[text]);
        let tips: Vec<usize> = history.tips.values().copied().collect();
        let (first, rest) = tips.split_first().unwrap();
        let old = history.reachable(&[*first]);
        let mut members = history.reachable(rest);
        members.retain(|at| !old.contains(at));
        let expected = naive(&history, &members, rest, text);
        let range = [scope(&history, rest, &[*first])];
        let found = grep(&history.sandbox, &range, text, &[], |grep| told(&history, grep));
        prop_assert_eq!(&found, &expected);
        let scopes = [scope(&history, &[*first], &[]), scope(&history, rest, &[])];
        let pattern = pattern(text);
        let places = grep(&history.sandbox, &scopes, text, &[], |grep| grep.places().len());
        let of_first = naive(&history, &old, &[*first], text);
        prop_assert_eq!(places, of_first.len() + expected.len(), "{:?}", pattern);
    }

    #[test]
    fn each_scope_reports_only_matches_not_in_earlier_scopes(
        steps in steps(), text in 0..TEXTS.len(), hidden in 0..4_usize,
    ) {
        let (history, text) = (RandomHistory::new(&steps), TEXTS[text]);
        let tips: Vec<usize> = history.tips.values().copied().collect();
        let hidden = [tips[hidden % tips.len()]];
        let (mut known, mut scopes, mut expected) = (BTreeSet::new(), Vec::new(), Vec::new());
        for (number, tip) in tips.iter().enumerate() {
            // Turns hidden from one scope are hidden from later scopes too.
            let hide: &[usize] = if number == 1 { &hidden } else { &[] };
            known.extend(history.reachable(hide));
            let of_tip = history.reachable(&[*tip]);
            let members: Vec<usize> = of_tip.iter().filter(|at| !known.contains(*at)).copied().collect();
            let found = naive(&history, &members, &[*tip], text).into_iter();
            expected.extend(found.map(|(first, last, section, ..)| (first, last, section)));
            known.extend(of_tip);
            scopes.push(scope(&history, &[*tip], hide));
        }
        let mut found: Vec<_> = grep(&history.sandbox, &scopes, text, &[], |grep| {
            let at = |id: &ObjectId| history.position(id);
            let place = |place: &GrepPlace| {
                (at(&place.commit), place.last.map(|(_, id)| at(&id)), place.section.clone())
            };
            grep.places().iter().map(place).collect()
        });
        found.sort();
        expected.sort();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn turns_touch_a_path_if_anything_below_it_differs(steps in steps(), path in 0..7_usize) {
        let history = RandomHistory::new(&steps);
        let path = ["files", "files/dir", "scratchpad/a", "agents", MESSAGES,
            "agents/main/messages/1", "nowhere"][path];
        let touching = PickaxeQuery { paths: Selection::below(&[path.to_owned()]), text: None };
        let tips: Vec<ObjectId> = history.turns.iter().map(|turn| turn.id).collect();
        let mut touches = history.sandbox.repo.touches(touching);
        for entry in history.sandbox.repo.history(&tips, &[]).unwrap() {
            let entry = entry.unwrap();
            let at = history.position(&entry.id);
            let expected = has_touched(&history, at, |content| units(content, path));
            prop_assert_eq!(touches.of(&entry).unwrap() == PickaxeMatch::Yes, expected, "{} {}", path, at);
        }
        prop_assert!(touches.gaps().is_empty());
    }

    #[test]
    fn pickaxe_finds_turns_that_change_the_number_of_occurrences(steps in steps(), text in 0..TEXTS.len()) {
        let (history, text) = (RandomHistory::new(&steps), TEXTS[text]);
        let pattern = pattern(text);
        let messages = messages(&pattern);
        let read = |format: &str, bytes: &[u8]| messages.read(format, bytes);
        let count = |bytes: &[u8]| std::str::from_utf8(bytes).unwrap().matches(text).count() as u64;
        let touching = PickaxeQuery { paths: Selection::default(), text: Some((&count, &read)) };
        let tips: Vec<ObjectId> = history.turns.iter().map(|turn| turn.id).collect();
        let mut touches = history.sandbox.repo.touches(touching);
        for entry in history.sandbox.repo.history(&tips, &[]).unwrap() {
            let entry = entry.unwrap();
            let at = history.position(&entry.id);
            let expected = has_touched(&history, at, |content| {
                let sum = |texts: &Vec<String>| {
                    texts.iter().map(|said| said.matches(text).count()).sum::<usize>()
                };
                let counts = units(content, "").into_iter().map(|(unit, texts)| (unit, sum(&texts)));
                counts.filter(|(_, count)| *count > 0).collect()
            });
            prop_assert_eq!(touches.of(&entry).unwrap() == PickaxeMatch::Yes, expected, "{} {}", text, at);
        }
    }
}

/// Expressions that match code and prose: with escaped characters, with characters that views
/// insert, and with neither.
const EXPRESSIONS: [&str; 10] = [
    r"[a-z]+_\d+",
    r"fn\s+\w+\(",
    "[Tt]he [a-z]+ (of|to)",
    r"\w+Error\b",
    "[a-z]+ing$",
    r"^\s*[-*] [A-Z]",
    r"\d+ passed",
    r"x[a-z]* = [a-z(]+",
    r"[^\x00-\x7f]",
    r"\((\w+|\d+)\)",
];

/// Returns the number of distinct messages of a recording that match a pattern.
fn messages_found(sandbox: &Sandbox, scopes: &[SearchScope], pattern: &LinePattern) -> usize {
    grep_for(sandbox, scopes, pattern, &["agents"], |grep| {
        let of_messages = grep.places().iter().filter(|place| place.role.is_some());
        of_messages.map(|place| place.blob).collect::<BTreeSet<ObjectId>>().len()
    })
}

#[test]
fn words_and_expressions_are_found_in_every_matching_recorded_message() {
    let files = recorded_sessions();
    if files.is_empty() {
        eprintln!("skipped: no recorded sessions beside the project, nor in TURNTREE_SESSIONS");
    }
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        let sandbox = Sandbox::new();
        let Ok(report) = sandbox.import("recorded", &bytes) else { continue };
        let scopes = [SearchScope { starts: vec![(report.head, None)], hide: vec![] }];
        // An empty pattern matches every message, so the search reads all of them.
        let said = Mutex::new(Vec::new());
        let everything = pattern("");
        let query = GrepQuery {
            pattern: &everything,
            wanted: SearchFilter { paths: Selection::below(&["agents".into()]), roles: Vec::new() },
            lines: None,
            read: &|format, bytes| {
                let text = MessageText::default().read(format, bytes);
                said.lock().unwrap().extend(text.clone());
                text
            },
            may_hold: None,
        };
        drop(sandbox.repo.grep(&scopes, query, &|_, _| {}).unwrap());
        let said = said.into_inner().unwrap();
        let all: String = said.iter().flat_map(|text| [text, "\n"]).collect();
        let words: BTreeSet<&str> = all.split(|c: char| !c.is_ascii_alphanumeric()).collect();
        for word in words.iter().step_by(words.len() / 5 + 1).filter(|word| !word.is_empty()) {
            let expected = said.iter().filter(|text| text.contains(word)).count();
            let found = messages_found(&sandbox, &scopes, &pattern(word));
            assert_eq!(found, expected, "{word} in {}", file.display());
        }
        for expression in EXPRESSIONS {
            let pattern = LinePattern::new(expression, PatternOptions::default()).unwrap();
            let is_in = |text: &&String| pattern.find(text.as_bytes(), None).count > 0;
            let expected = said.iter().filter(is_in).count();
            let found = messages_found(&sandbox, &scopes, &pattern);
            assert_eq!(found, expected, "{expression} in {}", file.display());
        }
    }
}
