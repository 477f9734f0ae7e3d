//! Asks the recorded sessions questions of a person, and counts how often the right session comes
//! first.
//!
//! The recordings are not part of the project: without them this test prints that it is skipped and
//! passes. `questions/asked.tsv` has the questions by which searches were improved. Those of
//! `questions/held_out.tsv` were written at the same time and asked last; the weights of other
//! forms and of voices changed once after that.

use std::collections::BTreeMap;
use std::path::PathBuf;

use turntree_exchange::{SearchQuery, search};
use turntree_tests::{Sandbox, recorded_sessions};

/// A question, and the beginnings of the names of the sessions that answer it.
struct Question {
    kind: &'static str,
    sessions: Vec<&'static str>,
    text: &'static str,
}

/// The number of questions, of those whose right session came first, and of those where it was
/// among the first three.
#[derive(Clone, Copy, Default)]
struct Counts {
    asked: usize,
    first: usize,
    in_three: usize,
}

fn questions(lines: &'static str) -> Vec<Question> {
    let question = |line: &'static str| {
        let [kind, sessions, text] = *line.split('\t').collect::<Vec<_>>() else {
            panic!("expected kind, sessions and text, separated by tabs: {line}")
        };
        Question { kind, sessions: sessions.split(' ').collect(), text }
    };
    lines.lines().map(question).collect()
}

/// Returns the sessions of the answer to `text`, the best first.
fn sessions_found(sandbox: &Sandbox, text: &str) -> Vec<String> {
    let query = SearchQuery { text, limit: 60, per_session: 3, ..SearchQuery::default() };
    let mut sessions: Vec<String> = Vec::new();
    for hit in search(&sandbox.repo, &query, &|_, _| {}).unwrap().hits {
        if !sessions.contains(&hit.session) {
            sessions.push(hit.session);
        }
    }
    sessions
}

/// Asks the questions and prints the counts of each kind. Returns the sum.
fn ask(sandbox: &Sandbox, name: &str, questions: &[Question]) -> Counts {
    let mut kinds: BTreeMap<&str, Counts> = BTreeMap::new();
    for Question { kind, sessions, text } in questions {
        let found = sessions_found(sandbox, text);
        let is_right = |found: &String| sessions.iter().any(|right| found.starts_with(right));
        let place = found.iter().position(is_right);
        for kind in [*kind, "together"] {
            let counts = kinds.entry(kind).or_default();
            counts.asked += 1;
            counts.first += usize::from(place == Some(0));
            counts.in_three += usize::from(place.is_some_and(|place| place < 3));
        }
        if place != Some(0) {
            let place = place.map_or("nowhere".to_owned(), |place| format!("at {}", place + 1));
            eprintln!("{name}, {kind}: {place} for '{text}'; first is {:?}", found.first());
        }
    }
    for (kind, Counts { asked, first, in_three }) in &kinds {
        eprintln!("{name}, {kind}: first {first}, in the first three {in_three}, of {asked}");
    }
    kinds["together"]
}

#[test]
fn people_find_the_right_session_by_words_questions_and_paraphrases() {
    let sandbox = Sandbox::new();
    let name =
        |file: &PathBuf| file.file_stem().unwrap().to_string_lossy().replace(['.', ' '], "-");
    let files = recorded_sessions();
    let [asked, held_out] =
        [include_str!("questions/asked.tsv"), include_str!("questions/held_out.tsv")]
            .map(questions);
    let is_there = |right: &&str| files.iter().any(|file| name(file).starts_with(right));
    if !asked.iter().chain(&held_out).flat_map(|it| &it.sessions).all(is_there) {
        eprintln!("skipped: no recorded sessions beside the project, nor in TURNTREE_SESSIONS");
        return;
    }
    for file in &files {
        sandbox.import(&name(file), &std::fs::read(file).unwrap()).unwrap();
    }
    let asked = ask(&sandbox, "asked", &asked);
    let held_out = ask(&sandbox, "held out", &held_out);
    // The figures of docs/guides/search.md, less one or two questions.
    assert!(asked.asked >= 60 && asked.first >= 68 && asked.in_three >= 71);
    assert!(held_out.asked >= 20 && held_out.first >= 16 && held_out.in_three >= 18);
}
