//! The state of the screen, and its reaction to keys and answers: no terminal, no store, no clock.

use turntree::object::Time;
use turntree::repo::{BranchName, MAIN_BRANCH};

use super::acts::Change;
use super::content::{Answer, ListKind, Question, Row, Span};
use super::help;
use super::keys::Key;
use super::layout::Layout;
use super::screen::{Act, Body, ListBody, Screen, TextBody};
use super::text::{Line, Tone};

/// Longest line that can be typed, in characters.
const MAX_TYPED: usize = 200;

/// Rows of the first answer of a list whose question has a number.
const FIRST: usize = 200;

/// An action for the loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// Asks the store a question for a screen.
    Ask {
        screen: u64,
        question: Question,
    },
    /// Plans a change.
    Plan(Change),
    /// Plans to resume from a turn in an agent.
    PlanResume {
        at: Span,
    },
    Do(Act),
    /// Stops the program until it is continued.
    Suspend,
    /// Redraws everything.
    Redraw,
    Quit,
}

/// A line being typed.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) text: String,
    what: Typed,
}

#[derive(Debug)]
enum Typed {
    Words,
    /// The name of a branch that begins at the last of these turns.
    Name(Span),
    /// The branch to merge this one into.
    Into(BranchName),
    /// The name of a pin on the last of these turns; may be empty.
    PinName(Span),
}

impl Input {
    /// The label of the line.
    pub(super) fn label(&self) -> String {
        match &self.what {
            Typed::Words => "search everything: ".to_owned(),
            Typed::Name(at) => format!("new branch at turn {} of {}: ", at.turn, at.session),
            Typed::Into(branch) => format!("merge {branch} into: "),
            Typed::PinName(at) => {
                format!("name of a pin on turn {} of {}, its id by default: ", at.turn, at.session)
            }
        }
    }
}

/// The state of the whole interface.
#[derive(Debug)]
pub(super) struct State {
    /// The visible one is last; there is always one.
    screens: Vec<Screen>,
    made: u64,
    pub(super) input: Option<Input>,
    pub(super) notice: Option<Line>,
    size: (u16, u16),
    pub(super) now: Time,
}

impl State {
    /// A state that shows the sessions of a store, or on top of them the turns of `first`.
    pub(super) fn new(first: Option<(BranchName, String)>, size: (u16, u16), now: Time) -> Self {
        let mut state = Self { screens: Vec::new(), made: 0, input: None, notice: None, size, now };
        state.show_list("sessions".to_owned(), ListKind::Sessions);
        if let Some((branch, title)) = first {
            state.show_list(title, ListKind::Turns { branch, every_turn: false });
        }
        state
    }

    pub(super) fn screens(&self) -> &[Screen] {
        &self.screens
    }

    pub(super) const fn size(&self) -> (u16, u16) {
        self.size
    }

    /// Returns true if the visible screen has nothing to show yet. A list that is only being reread
    /// does not count: while agents work, lists are reread all the time.
    pub(super) fn is_waiting(&self) -> bool {
        self.screens.last().is_some_and(|screen| match &screen.body {
            Body::Text(_) => screen.waits_for.is_some(),
            Body::List(body) => {
                let again = body.list.is_read().then(|| body.kind.question(FIRST));
                let waits_for_rows = screen.waits_for.is_some() && screen.waits_for != again;
                waits_for_rows || matches!(body.said, Some((_, None)))
            }
        })
    }

    pub(super) fn set_size(&mut self, size: (u16, u16)) {
        self.size = size;
    }

    /// Marks lists as stale after a change of the store.
    pub(super) fn on_change(&mut self) {
        for screen in &mut self.screens {
            // Search results stay as they were found.
            let is_of_now = match &screen.body {
                Body::List(body) => !matches!(body.kind, ListKind::Hits { .. }),
                Body::Text(_) => false,
            };
            screen.is_stale |= is_of_now;
        }
    }

    /// Handles the answer to a question.
    pub(super) fn on_answer(
        &mut self,
        screen: u64,
        question: &Question,
        answer: Result<Answer, String>,
    ) {
        let Some(screen) = self.screens.iter_mut().find(|it| it.id == screen) else { return };
        match answer {
            Ok(answer) => screen.take(question, answer),
            Err(why) => {
                screen.fail(question, &why);
                self.notice = Some(Line::new(Tone::Removed, why));
            }
        }
    }

    /// Shows the result of an action.
    pub(super) fn on_done(&mut self, done: Result<String, String>) {
        self.notice = Some(match done {
            Ok(done) => Line::new(Tone::Added, done),
            Err(why) => Line::new(Tone::Removed, why),
        });
        self.on_change();
    }

    /// Shows a plan that waits for a confirmation.
    pub(super) fn show_plan(&mut self, title: &str, lines: Vec<Line>, act: Act) {
        let text = TextBody::asking(lines, act);
        let screen = Screen::text(self.next_id(), title.to_owned(), text);
        self.screens.push(screen);
    }

    /// Shows a message in the last row.
    pub(super) fn say(&mut self, text: &str) {
        self.notice = Some(Line::new(Tone::Plain, text));
    }

    /// Scrolls and wraps the visible screen, and returns the questions to ask for it.
    pub(super) fn settle(&mut self) -> Vec<Action> {
        let layout = Layout::of(self.size.0, self.size.1);
        let columns = usize::from(layout.body.width);
        let Some(screen) = self.screens.last_mut() else { return Vec::new() };
        let (id, mut asked) = (screen.id, Vec::new());
        match &mut screen.body {
            Body::Text(text) => text.settle(columns, layout.text_rows()),
            Body::List(body) => {
                let rows = layout.list_rows();
                body.list.settle(rows);
                if screen.waits_for.is_none() {
                    let first = || body.kind.question(FIRST);
                    let more = || body.list.wants(rows).cloned();
                    let wanted = if screen.is_stale { Some(first()) } else { more() };
                    screen.is_stale = false;
                    screen.waits_for.clone_from(&wanted);
                    asked.extend(wanted);
                }
                let said = body.list.row().and_then(Row::said);
                if let Some(said) = said.filter(|_| layout.preview.is_some())
                    && body.said.as_ref().map(|(asked, _)| asked) != Some(&said)
                {
                    body.said = Some((said.clone(), None));
                    asked.push(said);
                }
            }
        }
        asked.into_iter().map(|question| Action::Ask { screen: id, question }).collect()
    }

    /// Handles a key.
    pub(super) fn on_key(&mut self, key: Key) -> Vec<Action> {
        match key {
            Key::Control('c') => return vec![Action::Quit],
            Key::Control('z') => return vec![Action::Suspend],
            Key::Control('l') => return vec![Action::Redraw],
            _ => {}
        }
        self.notice = None;
        if self.input.is_some() {
            return self.on_typed(key);
        }
        match key {
            Key::Char('q') => return vec![Action::Quit],
            Key::Escape | Key::Backspace | Key::Char('h') => self.go_back(),
            Key::Char('?') => self.show_text("keys", TextBody::of(help::lines_of_keys())),
            Key::Char('/') => self.ask_for(String::new(), Typed::Words),
            Key::Char('o') => self.show_list("operations".to_owned(), ListKind::Operations),
            Key::Char('u') => return self.undo(),
            Key::Char('r') => return self.resume(),
            Key::Char('f') => self.fork(),
            Key::Char('m') => self.merge(),
            Key::Char('p') => return self.pin(),
            Key::Char('P') => self.show_list("pins".to_owned(), ListKind::Pins),
            Key::Char('d') => return self.show_changes(),
            Key::Char('b') => self.show_branches(),
            Key::Char('t') => self.toggle_turns(),
            Key::Char('y') => return self.agree(),
            Key::Enter => return self.open(),
            key => self.go(key),
        }
        Vec::new()
    }

    fn on_typed(&mut self, key: Key) -> Vec<Action> {
        let Some(input) = &mut self.input else { return Vec::new() };
        match key {
            Key::Char(c) if input.text.chars().count() < MAX_TYPED => input.text.push(c),
            Key::Backspace => drop(input.text.pop()),
            Key::Control('u') => input.text.clear(),
            Key::Escape => self.input = None,
            Key::Enter => return self.submit(),
            _ => {}
        }
        Vec::new()
    }

    /// Acts on the typed line.
    fn submit(&mut self) -> Vec<Action> {
        let Some(Input { text, what }) = self.input.take() else { return Vec::new() };
        let text = text.trim().to_owned();
        match what {
            Typed::PinName(at) => {
                let name = Some(text).filter(|text| !text.is_empty());
                vec![Action::Plan(Change::Pin { at, name })]
            }
            _ if text.is_empty() => Vec::new(),
            Typed::Words => {
                self.show_list(format!("search {text}"), ListKind::Hits { words: text });
                Vec::new()
            }
            Typed::Name(at) => vec![Action::Do(Act::Fork { at, name: text })],
            Typed::Into(from) => vec![Action::Plan(Change::Merge { from, into: text })],
        }
    }

    /// Moves the choice or scrolls.
    fn go(&mut self, key: Key) {
        let layout = Layout::of(self.size.0, self.size.1);
        let Some(screen) = self.screens.last_mut() else { return };
        let page = match screen.body {
            Body::List(_) => layout.list_rows(),
            Body::Text(_) => layout.text_rows(),
        };
        let page = isize::try_from(page.saturating_sub(1).max(1)).unwrap_or(1);
        let by = match key {
            Key::Up | Key::Char('k') => -1,
            Key::Down | Key::Char('j') => 1,
            Key::PageUp => -page,
            Key::PageDown | Key::Char(' ') => page,
            Key::Home | Key::Char('g') => isize::MIN,
            Key::End | Key::Char('G') => isize::MAX,
            _ => return,
        };
        match &mut screen.body {
            Body::Text(text) => text.go_by(by),
            Body::List(body) if by == isize::MIN => body.list.go_to_begin(),
            Body::List(body) if by == isize::MAX => body.list.go_to_end(),
            Body::List(body) => body.list.go_by(by),
        }
    }

    fn go_back(&mut self) {
        if self.screens.len() > 1 {
            self.screens.pop();
        } else {
            self.say("q ends, ? shows the keys");
        }
    }

    /// Opens the chosen row.
    fn open(&mut self) -> Vec<Action> {
        let Some(screen) = self.screens.last() else { return Vec::new() };
        let Some(row) = screen.row().cloned() else { return self.agree_to_resume() };
        if let Some(branch) = row.branch {
            let title = match branch.branch() {
                MAIN_BRANCH => branch.session().to_owned(),
                _ => branch.to_string(),
            };
            self.show_list(title, ListKind::Turns { branch, every_turn: false });
            return Vec::new();
        }
        match (row.span, row.speaks) {
            (Some(span), true) => self.ask_text(&title_of("", &span), Question::Said(span)),
            _ => {
                self.show_text("details", TextBody::of(row.details));
                Vec::new()
            }
        }
    }

    fn show_changes(&mut self) -> Vec<Action> {
        match self.span() {
            Some(span) => self.ask_text(&title_of("changes of ", &span), Question::Changes(span)),
            None => self.nothing_chosen("a turn"),
        }
    }

    fn show_branches(&mut self) {
        match self.screens.last().and_then(|screen| screen.session().map(str::to_owned)) {
            Some(session) => {
                let title = format!("strategies of {session}");
                self.show_list(title, ListKind::Branches { session });
            }
            None => drop(self.nothing_chosen("a session")),
        }
    }

    /// Switches between prompts and all turns.
    fn toggle_turns(&mut self) {
        let Some(screen) = self.screens.last_mut() else { return };
        if let Body::List(ListBody { kind: ListKind::Turns { branch, every_turn }, .. }) =
            &screen.body
        {
            let kind = ListKind::Turns { branch: branch.clone(), every_turn: !every_turn };
            *screen = Screen::list(screen.id, std::mem::take(&mut screen.title), kind);
        }
    }

    fn fork(&mut self) {
        match self.span() {
            Some(at) => self.ask_for(String::new(), Typed::Name(at)),
            None => drop(self.nothing_chosen("a turn")),
        }
    }

    /// Asks for the branch to merge the chosen one into; suggests the main branch.
    fn merge(&mut self) {
        match self.screens.last().and_then(|screen| screen.branch().cloned()) {
            Some(branch) => {
                let is_main = branch.branch() == MAIN_BRANCH;
                let main = format!("{}/{MAIN_BRANCH}", branch.session());
                self.ask_for(if is_main { String::new() } else { main }, Typed::Into(branch));
            }
            None => drop(self.nothing_chosen("a strategy")),
        }
    }

    /// Asks for the name of a pin on the turn; on a pin, plans to delete it.
    fn pin(&mut self) -> Vec<Action> {
        let pin = self.screens.last().and_then(|screen| screen.row()?.pin.clone());
        match (pin, self.span()) {
            (Some(name), _) => return vec![Action::Plan(Change::Unpin { name })],
            (None, Some(at)) => self.ask_for(String::new(), Typed::PinName(at)),
            (None, None) => return self.nothing_chosen("a turn"),
        }
        Vec::new()
    }

    fn ask_for(&mut self, text: String, what: Typed) {
        self.input = Some(Input { text, what });
    }

    /// Undoes the operation chosen in the operation log, or the newest.
    fn undo(&mut self) -> Vec<Action> {
        let operation = self.screens.last().and_then(|screen| screen.row()?.operation);
        vec![Action::Plan(Change::Undo { operation })]
    }

    /// Shows the command that resumes; on a screen that shows it already, runs it.
    fn resume(&mut self) -> Vec<Action> {
        let agreed = self.agree_to_resume();
        if !agreed.is_empty() {
            return agreed;
        }
        match self.span() {
            Some(at) => vec![Action::PlanResume { at }],
            None => self.nothing_chosen("a turn"),
        }
    }

    fn agree_to_resume(&mut self) -> Vec<Action> {
        match self.act() {
            Some(Act::Resume { .. }) => self.agree(),
            _ => Vec::new(),
        }
    }

    /// Confirms the visible plan.
    fn agree(&mut self) -> Vec<Action> {
        match self.act() {
            Some(act) => {
                self.screens.pop();
                vec![Action::Do(act)]
            }
            None => Vec::new(),
        }
    }

    fn act(&self) -> Option<Act> {
        match &self.screens.last()?.body {
            Body::Text(text) => text.act.clone(),
            Body::List(_) => None,
        }
    }

    fn span(&self) -> Option<Span> {
        self.screens.last()?.span().cloned()
    }

    fn nothing_chosen(&mut self, what: &str) -> Vec<Action> {
        self.say(&format!("choose {what} first"));
        Vec::new()
    }

    fn show_list(&mut self, title: String, kind: ListKind) {
        let id = self.next_id();
        self.screens.push(Screen::list(id, title, kind));
    }

    fn show_text(&mut self, title: &str, text: TextBody) {
        let id = self.next_id();
        self.screens.push(Screen::text(id, title.to_owned(), text));
    }

    /// Shows a text that is not read yet.
    fn ask_text(&mut self, title: &str, question: Question) -> Vec<Action> {
        let span = match &question {
            Question::Said(span) | Question::Changes(span) => Some(span.clone()),
            _ => None,
        };
        self.show_text(title, TextBody::about(span));
        let Some(screen) = self.screens.last_mut() else { return Vec::new() };
        screen.waits_for = Some(question.clone());
        vec![Action::Ask { screen: screen.id, question }]
    }

    fn next_id(&mut self) -> u64 {
        self.made += 1;
        self.made
    }
}

fn title_of(what: &str, span: &Span) -> String {
    format!("{what}turn {} of {}", span.turn, span.session)
}
