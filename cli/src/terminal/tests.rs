//! Tests the interface without a terminal and a store: any keys, on any screen, with generated
//! answers.

use proptest::prelude::*;
use turntree::object::{Kind, ObjectId, Time};
use turntree::repo::BranchName;
use unicode_width::UnicodeWidthStr;

use super::acts::Change;
use super::content::{Answer, Cell, Question, Row, Span};
use super::draw::draw;
use super::keys::Key;
use super::screen::Act;
use super::state::{Action, State};
use super::text::{Line, Tone, lines};

const NOW: Time = Time { micros: 1_000_000_000, offset_minutes: 0 };

/// Text of an attacker.
const EVIL: &str = "\u{1b}[2J\u{9b}31m\u{202e}evil\u{7} 修复🎉 e\u{301}\u{301}\nsecond";

fn span() -> Span {
    let until = ObjectId::of(Kind::Blob, b"until");
    Span { session: "s".to_owned(), base: None, until, turn: 7 }
}

fn row(number: usize) -> Row {
    let text = |text: &str| Cell::Text(text.to_owned());
    Row {
        key: number.to_string(),
        cells: vec![text(EVIL), Cell::Age(NOW), text("3"), text(EVIL), text("9"), text(EVIL)],
        tone: Tone::Strong,
        session: Some("s".to_owned()),
        branch: number.is_multiple_of(2).then(|| BranchName::main("s").unwrap()),
        span: (!number.is_multiple_of(3)).then(span),
        operation: number.is_multiple_of(5).then_some(number as u64),
        pin: number.is_multiple_of(7).then(|| EVIL.to_owned()),
        details: lines(Tone::Plain, "", EVIL),
        speaks: !number.is_multiple_of(4),
    }
}

fn answer(question: &Question) -> Result<Answer, String> {
    match question {
        Question::Said(_) | Question::Changes(_) => {
            Ok(Answer::Text(lines(Tone::Added, "  ", &EVIL.repeat(40))))
        }
        Question::Search { words } if words.contains('x') => Err(EVIL.to_owned()),
        Question::Branches { .. } => {
            Ok(Answer::Rows { rows: Vec::new(), more: None, note: Some(EVIL.to_owned()) })
        }
        Question::Turns { from: None, branch, every_turn } => {
            let from = Some(ObjectId::of(Kind::Blob, b"later"));
            let (branch, every_turn) = (branch.clone(), *every_turn);
            let more = Some(Question::Turns { branch, from, every_turn });
            Ok(Answer::Rows { rows: (0..30).map(row).collect(), more, note: None })
        }
        _ => Ok(Answer::Rows { rows: (30..70).map(row).collect(), more: None, note: None }),
    }
}

/// Acts as the loop does, without a store: every question is answered immediately.
fn settle(state: &mut State) {
    loop {
        let asked = state.settle();
        if asked.is_empty() {
            return;
        }
        for action in asked {
            perform(state, action);
        }
    }
}

fn perform(state: &mut State, action: Action) {
    match action {
        Action::Ask { screen, question } => {
            let answer = answer(&question);
            state.on_answer(screen, &question, answer);
        }
        Action::Plan(change) => {
            let shown = vec![Line::new(Tone::Plain, EVIL)];
            let word = change.word();
            state.show_plan(word, shown.clone(), Act::Change { change, shown });
        }
        Action::PlanResume { at } => {
            state.show_plan("resume", Vec::new(), Act::Resume { at });
        }
        Action::Do(_) => state.on_done(Ok(EVIL.to_owned())),
        Action::Suspend | Action::Redraw | Action::Quit => {}
    }
}

fn press(state: &mut State, keys: &str) -> Vec<Action> {
    let mut done = Vec::new();
    for key in keys.chars() {
        let key = match key {
            '\r' => Key::Enter,
            '\u{1b}' => Key::Escape,
            key => Key::Char(key),
        };
        for action in state.on_key(key) {
            done.push(action.clone());
            perform(state, action);
        }
        settle(state);
    }
    done
}

fn begin(size: (u16, u16)) -> State {
    let mut state = State::new(None, size, NOW);
    settle(&mut state);
    state
}

/// The text of the screen.
fn text(state: &State) -> String {
    let cells = draw(state, true);
    let columns = usize::from(state.size().0.max(1));
    let rows = cells.content().chunks(columns);
    let row = |row: &[ratatui_core::buffer::Cell]| -> String {
        row.iter().map(ratatui_core::buffer::Cell::symbol).collect()
    };
    rows.map(row).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_fork_is_of_the_turn_that_is_chosen_and_has_the_name_that_was_typed() {
    let mut state = begin((80, 24));
    let done = press(&mut state, "jftry\r");
    let at = span();
    assert_eq!(done, [Action::Do(Act::Fork { at, name: "try".to_owned() })]);
    // An empty or cancelled input does nothing.
    assert_eq!(press(&mut state, "f\r"), []);
    assert_eq!(press(&mut state, "fx\u{1b}"), []);
    assert!(state.input.is_none());
}

#[test]
fn a_plan_is_done_by_a_yes_alone() {
    let mut state = begin((80, 24));
    assert_eq!(press(&mut state, "u"), [Action::Plan(Change::Undo { operation: Some(30) })]);
    assert!(text(&state).contains("y does it"));
    assert_eq!(press(&mut state, "jk\r \u{1b}y"), []);
    let done = press(&mut state, "uy");
    assert!(matches!(&done[..], [Action::Plan(_), Action::Do(Act::Change { .. })]));
    // On the plan of a resume, the key that showed it also confirms it.
    let done = press(&mut state, "jrr");
    let resume = Act::Resume { at: span() };
    assert_eq!(done, [Action::PlanResume { at: span() }, Action::Do(resume)]);
}

#[test]
fn a_merge_is_of_the_branch_that_is_chosen_and_a_pin_of_the_turn() {
    let mut state = begin((80, 24));
    // The first row is the main branch of its session, which has no default target.
    assert_eq!(press(&mut state, "m\r"), []);
    let from = BranchName::main("s").unwrap();
    let merge = Change::Merge { from, into: "other".to_owned() };
    assert_eq!(press(&mut state, "mother\r"), [Action::Plan(merge)]);
    assert!(text(&state).contains("y does it"));
    press(&mut state, "\u{1b}j");
    let pin = |name: Option<&str>| Change::Pin { at: span(), name: name.map(str::to_owned) };
    assert_eq!(press(&mut state, "p\r"), [Action::Plan(pin(None))]);
    assert_eq!(press(&mut state, "\u{1b}pkept\r"), [Action::Plan(pin(Some("kept")))]);
    // On a pin, the same key deletes it.
    let unpin = Change::Unpin { name: EVIL.to_owned() };
    assert_eq!(press(&mut state, "\u{1b}jjjjp"), [Action::Plan(unpin)]);
}

#[test]
fn an_answer_to_an_older_question_is_passed_over() {
    let mut state = begin((80, 24));
    let screen = state.screens()[0].id;
    state.on_change();
    let asked = state.settle();
    let [Action::Ask { question, .. }] = &asked[..] else { panic!("{asked:?}") };
    let other = Question::Sessions { most: 1 };
    state.on_answer(screen, &other, answer(&other).map(|_| empty()));
    assert!(text(&state).contains("1 of") || state.is_waiting());
    state.on_answer(screen, question, Ok(empty()));
    assert!(text(&state).contains("nothing is here"));
    state.on_answer(screen + 99, question, Ok(empty()));
}

fn empty() -> Answer {
    Answer::Rows { rows: Vec::new(), more: None, note: None }
}

turntree_properties::properties! {
    #[test]
    fn no_key_on_no_screen_leads_astray_and_no_cell_has_an_order(
        sizes in prop::collection::vec((0_u16..170, 0_u16..50), 1..4),
        keys in "[jkgGq?/oburfdtyhxmpP \r\u{1b}]{0,60}"
    ) {
        let mut state = begin(sizes[0]);
        for (number, key) in keys.chars().enumerate() {
            state.set_size(sizes[number % sizes.len()]);
            press(&mut state, &key.to_string());
            if number % 7 == 3 {
                state.on_change();
                settle(&mut state);
            }
            let (columns, rows) = state.size();
            let cells = draw(&state, true);
            prop_assert_eq!((cells.area.width, cells.area.height), (columns, rows));
            for row in cells.content().chunks(usize::from(columns.max(1))) {
                let mut wide = 0;
                for (at, cell) in row.iter().enumerate() {
                    let symbol = cell.symbol();
                    prop_assert!(!symbol.contains(char::is_control), "{:?}", symbol);
                    prop_assert!(!symbol.contains(['\u{202e}', '\u{202d}']), "{:?}", symbol);
                    wide = wide.max(at + symbol.width());
                }
                prop_assert!(wide <= usize::from(columns));
            }
        }
    }
}
