//! Asks questions of a person, and checks which sessions and entries answer them, and how.

use turntree::context::Role;

use super::tests::{Said, World, text};
use super::{SearchAnswer, SearchHit, SearchQuery, search};

fn ask(world: &World, query: &SearchQuery<'_>) -> SearchAnswer {
    search(&world.repo, query, &|_, _| {}).unwrap()
}

fn query(text: &str) -> SearchQuery<'_> {
    SearchQuery { text, limit: 1000, ..SearchQuery::default() }
}

/// The hits as session, turn and key, with the words that are missing and those that are varied.
fn found(world: &World, text: &str) -> Vec<String> {
    let told = |hit: &SearchHit| {
        let mut told = format!("{}/{} {}", hit.session, hit.turn, hit.key);
        for (sign, words) in [("-", &hit.missing), ("~", &hit.varied)] {
            words.iter().for_each(|word| told.push_str(&format!(" {sign}{word}")));
        }
        told
    };
    ask(world, &query(text)).hits.iter().map(told).collect()
}

#[test]
fn words_that_carry_nothing_cost_nothing() {
    let mut world = World::new();
    world.turn("one/main", &[text("the upload has a limit"), text("how do I do this?")]);
    let expected = ["one/1 0"];
    assert_eq!(found(&world, "how do I change the limit of an upload?")[..1], ["one/1 0 -change"]);
    assert_eq!(found(&world, "what is the upload limit?"), expected);
    assert_eq!(found(&world, "upload limit"), expected);
    // A question of nothing else asks for them, and so do quotes.
    assert_eq!(found(&world, "how do I"), ["one/1 1"]);
    assert_eq!(found(&world, "\"has a limit\""), expected);
    assert_eq!(found(&world, "\"a limit of\""), [""; 0]);
}

#[test]
fn entries_with_most_words_follow_those_with_all() {
    let mut world = World::new();
    world.turn("one/main", &[text("a budget"), text("retry budget of uploads"), text("else")]);
    world.turn("two/main", &[text("retry it")]);
    assert_eq!(found(&world, "retry budget"), ["one/1 1", "one/1 0 -retry", "two/1 0 -budget"]);
    let answer = ask(&world, &query("retry budget parser"));
    assert_eq!(
        (answer.candidates, answer.hits[0].missing.as_slice()),
        (0, &["parser".to_owned()][..])
    );
    let exact = SearchQuery { all_words: true, ..query("retry budget parser") };
    assert_eq!(ask(&world, &exact).hits, []);
    // A phrase has to be there.
    assert_eq!(found(&world, "\"retry budget\" parser"), ["one/1 1 -parser"]);
}

#[test]
fn other_forms_and_near_spellings_rank_after_the_word_as_typed() {
    let mut world = World::new();
    world.turn("one/main", &[text("it retries"), text("they retried now"), text("the retry now")]);
    world.turn("two/main", &[text("a telemetry prompt")]);
    let forms = found(&world, "retry");
    assert_eq!(forms[0], "one/1 2");
    assert!(forms.contains(&"one/1 0 ~retry".to_owned()) && forms.len() == 3, "{forms:?}");
    assert_eq!(found(&world, "telemtry"), ["two/1 0 ~telemtry"]);
    assert_eq!(found(&world, "telemerty prompts"), ["two/1 0 ~telemerty ~prompts"]);
    assert_eq!(found(&world, "xelemetry"), ["two/1 0 ~xelemetry"]);
    for asked in ["telegraphy", "\"telemtry\"", "telemtr7"] {
        assert_eq!(found(&world, asked), [""; 0], "{asked}");
    }
    let exact = SearchQuery { all_words: true, ..query("telemtry") };
    assert_eq!(ask(&world, &exact).hits, []);
}

#[test]
fn spellings_of_names_meet() {
    for (text_of_turn, asked) in [
        ("in VS Code now", "vscode"),
        ("in vscode now", "VS Code"),
        ("in VSCode now", "vs code"),
        ("call parseConfigFile here", "parse_config_file"),
        ("call parse_config_file here", "parseConfigFile"),
        ("call parse_config_file here", "config file"),
        ("call parseConfigFile here", "config"),
        ("call parseconfig here", "parse_config"),
        ("in src/lib.rs here", "src/lib.rs"),
    ] {
        let mut world = World::new();
        world.turn("one/main", &[text("no code here, in a file of vs"), text(text_of_turn)]);
        let first = found(&world, asked).into_iter().next().unwrap_or_default();
        assert!(first.starts_with("one/1 1") && !first.contains('-'), "{asked}: {first:?}");
    }
}

#[test]
fn what_was_said_in_many_entries_outranks_a_list_of_names() {
    let mut world = World::new();
    let names = "upload limit retry budget parser ".repeat(2);
    let list = serde_json::json!({"role": "system", "content": names});
    world.turn("list/main", &[Said::Message(Role::System, list), text("hello there")]);
    world.turn("said/main", &[text("raise the upload limit")]);
    world.turn("said/main", &[text("the limit is 3"), text("each upload has it")]);
    world.turn("list/main", &[text("something else")]);
    let first = |asked: &str| ask(&world, &query(asked)).hits[0].session.clone();
    assert_eq!(first("upload limit"), "said");
    assert_eq!(first("retry budget"), "list");
}

#[test]
fn each_file_counts_once_and_sessions_share_the_page() {
    let mut world = World::new();
    for at in 0..5 {
        let note = format!("version {at} of the parser");
        world.turn("one/main", &[Said::Note("plan", &note), text(&format!("parser {at}"))]);
    }
    world.turn("two/main", &[text("the parser of two")]);
    let all = ask(&world, &query("parser"));
    assert_eq!(all.hits.iter().filter(|hit| hit.key == "plan").count(), 1);
    assert_eq!(all.hits.len(), 7);
    let few = SearchQuery { per_session: 2, ..query("parser") };
    let few = ask(&world, &few);
    let sessions: Vec<&str> = few.hits.iter().map(|hit| hit.session.as_str()).collect();
    assert!([["one", "one", "two"], ["two", "one", "one"]].contains(&[
        sessions[0],
        sessions[1],
        sessions[2]
    ]));
    assert_eq!((sessions.len(), few.more), (3, false));
    // Pages show the same hits in the same order.
    let mut paged = Vec::new();
    loop {
        let offset = paged.len() as u64;
        let page = ask(&world, &SearchQuery { offset, limit: 2, ..query("parser") });
        paged.extend(page.hits);
        if !page.more {
            break;
        }
    }
    assert_eq!(paged, all.hits);
    let in_one = SearchQuery { session: Some("one"), per_session: 0, ..query("parser") };
    assert_eq!(ask(&world, &in_one).hits.len(), 6);
    let none = SearchQuery { session: Some("three"), ..query("parser") };
    assert_eq!(ask(&world, &none).hits, []);
}

#[test]
fn many_sessions_and_frequent_words_are_ranked_too() {
    let mut world = World::new();
    let texts: Vec<String> = (0..2500).map(|at| format!("common words of {at}")).collect();
    let all: Vec<Said<'_>> = texts.iter().map(|said| text(said)).collect();
    world.turn("one/main", &all);
    world.turn("two/main", &[text("common words of all"), text("rare words")]);
    let some = SearchQuery { limit: 3, per_session: 2, ..query("common rare") };
    let some = ask(&world, &some);
    // A document that has only a common word is left out if another document has a rare word.
    assert_eq!((some.hits[0].session.as_str(), some.hits.len()), ("two", 1));
    let common = SearchQuery { limit: 3, per_session: 2, ..query("common") };
    let common = ask(&world, &common);
    assert_eq!((common.hits.len(), common.candidates, common.more), (3, 2501, false));
    let assistant = SearchQuery { roles: &[Role::Assistant], ..query("common") };
    assert_eq!(ask(&world, &assistant).hits, []);
    let late = SearchQuery { since: Some(1_000_000), ..query("common") };
    assert_eq!(ask(&world, &late).hits.len(), 1);
    world.set_branch("one/main", None);
    assert_eq!(ask(&world, &query("common")).hits.len(), 1);
}
