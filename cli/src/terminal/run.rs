//! The loop of the interface: handles events and draws screens.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use turntree::object::ObjectId;
use turntree::repo::{BranchName, Repository};

use super::acts::{self, Change};
use super::device::{self, Device};
use super::draw::draw;
use super::event::{Event, read_keys, watch_signals, watch_store};
use super::keys::{Key, Keys};
use super::readers::Readers;
use super::screen::Act;
use super::state::{Action, State};
use super::text::{Tone, lines};
use crate::platform::stop_this;
use crate::program::held_store::HeldStore;
use crate::program::invocation::Opened;
use crate::view::clock;
use crate::view::error::Result;

/// The time after which a lone escape byte is the escape key, not the beginning of an arrow. Long
/// enough for a slow line.
const ESCAPE: Duration = Duration::from_millis(50);

/// The interval at which ages are redrawn.
const TICK: Duration = Duration::from_secs(30);

/// The store, and actions that only the command can do with it.
pub(crate) struct Host<'h> {
    /// The store that is shown.
    pub(crate) store: HeldStore,
    /// The branch to show first, with the title of its session.
    pub(crate) first: Option<(BranchName, String)>,
    pub(crate) has_colour: bool,
    /// Opens the store for a change.
    pub(crate) open: &'h dyn Fn() -> Result<Opened>,
    /// Closes the store after a change.
    pub(crate) close: &'h dyn Fn(Opened),
    /// Describes the files that resuming from a snapshot would write, and the command to run.
    pub(crate) plan_resume: &'h dyn Fn(&Repository, &ObjectId) -> Result<String>,
}

/// How the interface ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    Quit,
    /// The user resumes from this snapshot in an agent.
    Resume(ObjectId),
}

/// Shows a store until the user quits. Restores the terminal then, and on every error, panic and
/// signal. Errors of the store are shown on the screen.
///
/// # Errors
/// `Io` when the terminal cannot be set up or written to.
pub(crate) fn run(host: Host<'_>) -> Result<Ending> {
    let Host { store, first, has_colour, open, close, plan_resume } = host;
    let now = clock::now()?;
    let store = Arc::new(store);
    let (sender, events) = channel();
    let device = Device::take()?;
    watch_signals(sender.clone())?;
    read_keys(sender.clone());
    watch_store(Arc::clone(&store), sender.clone());
    let readers = Readers::start(&store, &sender);
    let state = State::new(first, device::size(), now);
    let keys = Keys::default();
    Interface { state, keys, device, readers, has_colour, open, close, plan_resume }.run(&events)
}

struct Interface<'h> {
    state: State,
    keys: Keys,
    device: Device,
    readers: Readers,
    has_colour: bool,
    open: &'h dyn Fn() -> Result<Opened>,
    close: &'h dyn Fn(Opened),
    plan_resume: &'h dyn Fn(&Repository, &ObjectId) -> Result<String>,
}

impl Interface<'_> {
    fn run(mut self, events: &Receiver<Event>) -> Result<Ending> {
        loop {
            for action in self.state.settle() {
                self.perform(action)?;
            }
            self.device.show(draw(&self.state, self.has_colour))?;
            let patience = if self.keys.is_waiting() { ESCAPE } else { TICK };
            let mut next = match events.recv_timeout(patience) {
                Ok(event) => Some(event),
                Err(RecvTimeoutError::Disconnected) => return Ok(Ending::Quit),
                Err(RecvTimeoutError::Timeout) => {
                    let keys = self.keys.settle();
                    if let Some(ending) = self.press(keys)? {
                        return Ok(ending);
                    }
                    None
                }
            };
            self.state.now = clock::now()?;
            // Handles all pending events before drawing.
            while let Some(event) = next {
                if let Some(ending) = self.take(event)? {
                    return Ok(ending);
                }
                next = events.try_recv().ok();
            }
        }
    }

    fn take(&mut self, event: Event) -> Result<Option<Ending>> {
        match event {
            Event::Bytes(bytes) => {
                let keys = self.keys.take(&bytes);
                return self.press(keys);
            }
            Event::Gone => return Ok(Some(Ending::Quit)),
            Event::Screen => {
                self.state.set_size(device::size());
                self.device.forget();
            }
            Event::Changed => self.state.on_change(),
            Event::Answer { screen, question, answer } => {
                self.state.on_answer(screen, &question, *answer);
            }
        }
        Ok(None)
    }

    fn press(&mut self, keys: Vec<Key>) -> Result<Option<Ending>> {
        for key in keys {
            for action in self.state.on_key(key) {
                // Drops the keys typed after it: a `y` must confirm only a plan that was visible
                // when it was typed.
                let shows_plan = matches!(action, Action::Plan(_) | Action::PlanResume { .. });
                if let Some(ending) = self.perform(action)? {
                    return Ok(Some(ending));
                }
                if shows_plan {
                    return Ok(None);
                }
            }
        }
        Ok(None)
    }

    fn perform(&mut self, action: Action) -> Result<Option<Ending>> {
        match action {
            Action::Ask { screen, question } => self.readers.ask(screen, question),
            Action::Plan(change) => self.plan(change)?,
            Action::PlanResume { at } => {
                let plan =
                    (self.open)().and_then(|opened| (self.plan_resume)(&opened.repo, &at.until));
                match plan {
                    Ok(text) => {
                        let plan = lines(Tone::Plain, "", &text);
                        self.state.show_plan("resume", plan, Act::Resume { at });
                    }
                    Err(failure) => self.state.on_done(Err(failure.with_advice())),
                }
                self.device.forget();
            }
            Action::Do(Act::Resume { at }) => return Ok(Some(Ending::Resume(at.until))),
            Action::Do(act) => self.act(act)?,
            Action::Suspend => {
                // The signal thread restores the terminal and takes it again.
                stop_this();
            }
            Action::Redraw => self.device.forget(),
            Action::Quit => return Ok(Some(Ending::Quit)),
        }
        Ok(None)
    }

    fn plan(&mut self, change: Change) -> Result<()> {
        self.say_at_work()?;
        match (self.open)().and_then(|opened| acts::plan(&opened.repo, &change)) {
            Ok(shown) => {
                let (word, act) = (change.word(), Act::Change { change, shown: shown.clone() });
                self.state.show_plan(word, shown, act);
            }
            Err(failure) => self.state.on_done(Err(failure.with_advice())),
        }
        // The store may have written progress over the screen.
        self.device.forget();
        Ok(())
    }

    fn act(&mut self, act: Act) -> Result<()> {
        self.say_at_work()?;
        let done = (self.open)().and_then(|opened| {
            let done = match act {
                Act::Fork { at, name } => acts::fork(&opened.repo, &at, &name).map(Some),
                Act::Change { change, shown } => acts::carry_out(&opened.repo, &change, &shown),
                Act::Resume { .. } => Ok(None),
            };
            (self.close)(opened);
            done
        });
        match done {
            Ok(Some(done)) => self.state.on_done(Ok(done)),
            Ok(None) => self.state.say("the plan has changed: nothing was done"),
            Err(failure) => self.state.on_done(Err(failure.with_advice())),
        }
        self.device.forget();
        Ok(())
    }

    /// Shows why keys are not answered now.
    fn say_at_work(&mut self) -> Result<()> {
        self.state.say("working: keys wait until it is done");
        self.device.show(draw(&self.state, self.has_colour))?;
        self.state.notice = None;
        Ok(())
    }
}
