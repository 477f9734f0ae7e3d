//! Word searches by programs and agents: the same results and ranking as the command's.

use std::thread;

use serde_json::{Value, json};
use turntree_tests::server_process::{Place, Server};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

fn with_turns(turns: usize) -> (Place, Server) {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(turns);
    let server = place.server(&["serve", "--stdio"]);
    (place, server)
}

/// The records that the command prints.
fn by_command(place: &Place, words: &[&str]) -> Vec<Value> {
    let said = place.run(&[&["search", "--json", "-n", "100"], words].concat());
    said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn servers_find_what_the_command_finds_in_the_same_order() {
    let (place, mut server) = with_turns(9);
    let words = ["snapshot", "-m", "told", "--session", "other", "--append-message"];
    let _ = place.run(&[&words[..], &["user=a message of another session"]].concat());
    for (words, params) in [
        (&["message"][..], json!({"words": "message"})),
        (&["message 4"], json!({"words": "message 4"})),
        (&["\"note 3\""], json!({"words": "\"note 3\""})),
        (&["mess*", "--session", "work"], json!({"words": "mess*", "session": "work"})),
        (&["message", "--role", "user"], json!({"words": "message", "roles": ["user"]})),
        (&["9", "--path", "files"], json!({"words": "9", "paths": ["files"]})),
        (
            &["message", "--since", "1.hours.ago"],
            json!({"words": "message", "since": "1.hours.ago"}),
        ),
    ] {
        let expected = by_command(&place, words);
        assert!(!expected.is_empty(), "{words:?}");
        let mut answer = server.call("search", &params).unwrap();
        assert_eq!(answer["hits"], json!(expected), "{words:?}");
        assert_eq!((&answer["places"], &answer["not_searched"]), (&json!([]), &json!([])));
        // Paged results are the same.
        let (mut hits, mut page) = (Vec::new(), params.clone());
        page["limit"] = 2.into();
        while !page["offset"].is_null() || hits.is_empty() {
            answer = server.call("search", &page).unwrap();
            let part = answer["hits"].as_array().unwrap();
            assert!(part.len() <= 2);
            hits.extend(part.iter().cloned());
            page["offset"] = answer["next_offset"].clone();
            if page["offset"].is_null() {
                break;
            }
        }
        assert_eq!(hits, expected, "{words:?}");
    }
    let none = json!({"words": "message", "tool": "bash"});
    assert_eq!(server.call("search", &none).unwrap()["hits"], json!([]));
}

#[test]
fn a_tool_of_an_agent_finds_words_with_ids_that_its_other_tools_take() {
    let (place, _) = with_turns(3);
    let mut server = place.mcp(&[]);
    let answer = server.tool("search", &json!({"words": "note 2"})).unwrap();
    let hit = &answer["hits"][0];
    assert_eq!((&hit["turn"], &hit["path"]), (&json!(2), &json!("scratchpad/note")));
    let (id, path) = (hit["id"].as_str().unwrap(), hit["path"].as_str().unwrap());
    assert!(id.len() < 20, "{id}");
    let shown = server.tool("show", &json!({"revision": format!("{id}:{path}")})).unwrap();
    assert!(shown["entry"]["text"].as_str().unwrap().contains("note 2"));
    // New content is found, and redacted content is not.
    let told = json!({"message": "told", "set": {"scratchpad/key": "swordfish"}});
    server.tool("snapshot", &told).unwrap();
    let asked = json!({"words": "swordfish"});
    assert_eq!(server.tool("search", &asked).unwrap()["total"], 1);
    let _ = place.run(&["redact", "swordfish", "--yes"]);
    let answer = server.tool("search", &asked).unwrap();
    assert_eq!((&answer["hits"], &answer["total"]), (&json!([]), &json!(0)));
}

#[test]
fn a_question_is_of_words_or_of_a_pattern() {
    let (_place, mut server) = with_turns(2);
    for (params, said) in [
        (json!({}), "either words or a pattern, and neither"),
        (json!({"words": "a", "pattern": "a"}), "either words or a pattern, and both"),
        (json!({"words": "a", "context": 2}), "context goes with a pattern"),
        (json!({"words": "a", "revisions": ["main"]}), "revisions goes with a pattern"),
        (json!({"words": "a", "fixed": true}), "fixed goes with a pattern"),
        (json!({"pattern": "a", "tool": "bash"}), "tool goes with words"),
        (json!({"pattern": "a", "since": "yesterday"}), "since goes with words"),
        (json!({"words": "a", "since": "never"}), "expected a time"),
        (json!({"words": "?!"}), "word"),
        (json!({"words": "a", "limit": 101}), "expected 1 to 100"),
    ] {
        let error = server.call("search", &params).unwrap_err();
        assert_eq!(error["code"], -32602, "{params}: {error}");
        assert!(error["message"].as_str().unwrap().contains(said), "{params}: {error}");
    }
    let error = server.call("search", &json!({"words": "a", "session": "missing"})).unwrap_err();
    assert_eq!(error["data"]["error"], "not-found", "{error}");
}

#[test]
fn searches_that_begin_at_once_make_one_index() {
    let (place, mut server) = with_turns(12);
    let answers: Vec<(String, String)> = thread::scope(|scope| {
        let search = || {
            let output = place.command(&["search", "message", "--json"]).output().unwrap();
            assert!(output.status.success());
            [output.stdout, output.stderr].map(|said| String::from_utf8(said).unwrap()).into()
        };
        let all: Vec<_> = (0..6).map(|_| scope.spawn(search)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for answer in &answers {
        // Otherwise stderr would report that the index was built in memory.
        assert_eq!(answer, &(answers[0].0.clone(), String::new()));
    }
    assert_eq!(server.call("search", &json!({"words": "message"})).unwrap()["total"], 12);
}

#[test]
fn a_server_of_an_encrypted_store_finds_what_is_new_and_nothing_that_was_redacted() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(3);
    let command = |words: &[&str]| place.command_at_home(words);
    let run = |words: &[&str]| {
        let output = command(words).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run(&["init", "--encrypt"]);
    let mut server = Server::start(&mut command(&["serve", "--stdio"]));
    let mut total = |words: &str| {
        let answer = server.call("search", &json!({ "words": words })).unwrap();
        answer["total"].as_u64().unwrap()
    };
    let notes = total("note");
    assert!(notes >= 3, "{notes}");
    assert_eq!(total("swordfish"), 0);
    run(&["snapshot", "-m", "told", "--set", "scratchpad/key=swordfish"]);
    assert_eq!((total("note"), total("swordfish")), (notes, 1));
    run(&["redact", "swordfish", "--yes"]);
    assert_eq!((total("swordfish"), total("note")), (0, notes));
}
