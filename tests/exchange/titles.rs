//! Sessions have only the titles that their clients gave them.

use turntree::repo::SessionLabels;
use turntree_exchange::{KnownSessions, TitleSource, find_session, sessions};
use turntree_tests::{Sandbox, claude_code, recorded_sessions, stamp};

#[test]
fn recorded_sessions_have_no_titles_of_other_sessions() {
    // Files of Claude Code begin with the summaries of other sessions of the project.
    let mut seen = 0;
    for path in recorded_sessions() {
        let bytes = std::fs::read(&path).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        if !text.starts_with("{\"type\":\"summary\"") {
            continue;
        }
        seen += 1;
        let sandbox = Sandbox::new();
        sandbox.import("s", &bytes).unwrap();
        let all = sessions(&sandbox.repo).unwrap();
        let (title, source) = all[0].title().unwrap();
        assert_eq!(source, TitleSource::Prompt, "{}: {title}", path.display());
        assert!(!title.is_empty());
    }
    if seen == 0 {
        eprintln!("no recorded session begins with a summary: not tested");
    }
}

#[test]
fn recorded_sessions_are_found_by_a_unique_title() {
    let sandbox = Sandbox::new();
    for (number, path) in recorded_sessions().into_iter().enumerate() {
        let bytes = std::fs::read(&path).unwrap();
        if bytes.len() < 1 << 20 {
            let _ = sandbox.import(&format!("n{number}-s"), &bytes);
        }
    }
    let all = sessions(&sandbox.repo).unwrap();
    for session in &all {
        let Some((title, _)) = session.title() else { continue };
        let same = all.iter().filter(|other| {
            let other = other.title().map(|(title, _)| title.to_lowercase());
            other.as_deref() == Some(&title.to_lowercase())
        });
        if same.count() == 1 && title.chars().count() > 3 {
            let found = find_session(&sandbox.repo, &title.to_uppercase()).unwrap();
            assert_eq!(found.as_deref(), Some(session.name.as_str()), "{title}");
        }
    }
}

#[test]
fn later_client_titles_become_the_session_title() {
    let sandbox = Sandbox::new();
    let mut text = claude_code(5);
    sandbox.import("s", text.as_bytes()).unwrap();
    let before = sessions(&sandbox.repo).unwrap();
    assert_eq!(before[0].title().unwrap().1, TitleSource::Prompt);
    text.push_str(
        "{\"type\":\"custom-title\",\"customTitle\":\"The lexer\",\"sessionId\":\"s\"}\n",
    );
    sandbox.import("s", text.as_bytes()).unwrap();
    let after = sessions(&sandbox.repo).unwrap();
    assert_eq!(after[0].title(), Some(("The lexer", TitleSource::Client)));
    assert_eq!(after[0].prompts, before[0].prompts);
    assert_eq!(find_session(&sandbox.repo, "the l").unwrap().as_deref(), Some("s"));
}

#[test]
fn cached_session_lists_equal_fresh_lists_after_changes() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    let known = KnownSessions::default();
    let check = |step: &str| {
        let fresh = sessions(repo).unwrap();
        for most in [1, 2, usize::MAX] {
            let (told, all) = known.newest(repo, most).unwrap();
            let expected: Vec<_> = fresh.iter().take(most).cloned().collect();
            assert_eq!((told, all), (expected, fresh.len()), "{step}");
        }
        let names = fresh.iter().map(|session| session.name.as_str()).chain(["none"]).collect();
        let named = known.named(repo, &names).unwrap();
        assert_eq!(named.len(), fresh.len(), "{step}");
        assert!(fresh.iter().all(|session| named[&session.name] == *session), "{step}");
    };
    check("nothing");
    for name in ["a", "b", "c"] {
        sandbox.import(name, claude_code(5).as_bytes()).unwrap();
    }
    check("three");
    sandbox.import("b", claude_code(9).as_bytes()).unwrap();
    check("one has grown");
    let stamp = stamp(9);
    let mut change = repo.begin();
    let labels = SessionLabels { title: Some("Another".into()), labels: ["x".into()].into() };
    change.set_session_labels("c", &labels).unwrap();
    change.commit(&stamp, "label").unwrap();
    check("one has a title");
    let other = "a/other".parse().unwrap();
    for (to, step) in [(repo.tip(&"b/main".parse().unwrap()), "a branch more"), (None, "less")] {
        let mut change = repo.begin();
        change.move_branch(&other, to);
        change.commit(&stamp, step).unwrap();
        check(step);
    }
    known.clear();
    check("all of it was dropped");
}

#[test]
fn deleted_sessions_leave_the_session_cache() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    for name in ["a", "b"] {
        sandbox.import(name, claude_code(5).as_bytes()).unwrap();
    }
    let known = KnownSessions::default();
    assert_eq!(known.newest(repo, usize::MAX).unwrap().1, 2);
    let mut change = repo.begin();
    change.move_branch(&"b/main".parse().unwrap(), None);
    change.commit(&stamp(9), "delete").unwrap();
    let (told, all) = known.newest(repo, usize::MAX).unwrap();
    assert_eq!((&*told[0].name, told.len(), all), ("a", 1, 1));
    assert!(known.named(repo, &["b"].into()).unwrap().is_empty());
}

#[test]
fn rewritten_steps_have_their_calls_in_the_title() {
    let call = |path: &str| serde_json::json!({"id": path, "name": "write_file", "args": {"file_path": path}});
    let step = |calls: &[serde_json::Value]| {
        let thought = serde_json::json!({"subject": "Plan", "description": "Think."});
        let mut step = serde_json::json!({"id": "2", "timestamp": "2026-05-12T08:00:01.000Z",
            "type": "gemini", "content": "", "thoughts": [thought], "model": "gemini-3-pro"});
        if !calls.is_empty() {
            step["toolCalls"] = calls.into();
        }
        step
    };
    let head = serde_json::json!({"sessionId": "s", "projectHash": "p",
        "startTime": "2026-05-12T08:00:00.000Z", "lastUpdated": "2026-05-12T08:00:00.000Z"});
    let prompt = serde_json::json!({"id": "1", "timestamp": "2026-05-12T08:00:00.000Z",
        "type": "user", "content": [{"text": "Well?"}]});
    let records =
        [head, prompt, step(&[]), step(&[call("/p/a")]), step(&[call("/p/a"), call("/p/b")])];
    let text: String = records.iter().map(|record| format!("{record}\n")).collect();
    let sandbox = Sandbox::new();
    let head = sandbox.import("s", text.as_bytes()).unwrap().head;
    assert_eq!(sandbox.repo.commit(&head).unwrap().message, "write_file 2 files");
}
