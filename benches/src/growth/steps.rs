//! The steps that are measured on each store: first as written, then packed.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::stores::SESSION;
use super::{Axis, Cost, Figures, Measured, Plan, Point, Result, cost_of};

/// The state of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// In the journal, as written.
    Written,
    /// In packs.
    Packed,
}

impl State {
    /// Both states.
    pub const ALL: [Self; 2] = [Self::Written, Self::Packed];

    /// Returns the name in tables, JSON and file names.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Packed => "packed",
        }
    }
}

/// A command of the program.
struct Step {
    name: &'static str,
    /// The arguments. `{n}` is replaced by the number of the run.
    arguments: &'static [&'static str],
    how_often: HowOften,
    /// The prefix of a file next to the store that this step creates for later steps.
    makes: Option<&'static str>,
}

/// The number of runs of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HowOften {
    /// Once per round.
    Rounds,
    /// Once in total: the step is slow, or has nothing left to do the second time.
    Once,
}

const fn step(name: &'static str, arguments: &'static [&'static str]) -> Step {
    Step { name, arguments, how_often: HowOften::Rounds, makes: None }
}

const fn once(name: &'static str, arguments: &'static [&'static str]) -> Step {
    Step { name, arguments, how_often: HowOften::Once, makes: None }
}

/// Creates the first step of a kind, which writes the file that later steps use.
const fn first(
    name: &'static str,
    arguments: &'static [&'static str],
    makes: &'static str,
) -> Step {
    Step { makes: Some(makes), ..once(name, arguments) }
}

/// The commands that users and agents run, in this order. Steps that delete from disk come last.
const STEPS: &[Step] = &[
    step("open", &["rev-parse", "bench/main"]),
    first("log of 20, the first", &["log", "bench/main", "-n", "20"], "notes-"),
    step("log of 20", &["log", "bench/main", "-n", "20"]),
    step("list of 1,000", &["log", "--all", "-n", "1000"]),
    step("sessions", &["sessions", "--all"]),
    step("diff of two turns", &["diff", "bench/main~1", "bench/main"]),
    step("snapshot", &["snapshot", "-m", "more", "--set", "scratchpad/plan=plan {n}"]),
    step("fork", &["fork", "plan-{state}-{n}", "bench/main~3"]),
    step("grep, nothing found", &["grep", "--all", "no-such-words-anywhere"]),
    once("grep of an expression", &["grep", "--all", "-l", "ba[a-f]+ [a-m]o"]),
    first("search, the first", &["search", "nothing-like-it"], "derived-search"),
    step("search", &["search", "ba* te*"]),
    once("stats", &["stats"]),
];

/// The steps that pack a store.
const PACKING: &[Step] = &[once("gc", &["gc"]), once("repack", &["repack"])];

/// Creates each store of the plan, measures the steps on it, and passes each result to `told`
/// immediately.
///
/// # Errors
/// If a store cannot be created, or the program fails.
pub fn measure(plan: &Plan, mut told: impl FnMut(&Point, &Measured)) -> Result<Figures> {
    let mut figures = Figures::default();
    for (axis, size) in plan.points.iter().copied() {
        let folder = plan.scratch.join(format!("{}-{size}", axis.name()));
        fs::create_dir_all(&folder)?;
        let mut point = Point::new(axis, size);
        let mut at = Measuring { plan, folder: &folder, point: &mut point, told: &mut told };
        at.make()?;
        at.steps(STEPS, State::Written)?;
        at.bytes(State::Written)?;
        at.steps(PACKING, State::Written)?;
        at.steps(STEPS, State::Packed)?;
        at.bytes(State::Packed)?;
        figures.points.push(point);
        fs::remove_dir_all(&folder)?;
    }
    Ok(figures)
}

/// A store during its measurement.
struct Measuring<'m> {
    plan: &'m Plan,
    folder: &'m Path,
    point: &'m mut Point,
    told: &'m mut dyn FnMut(&Point, &Measured),
}

impl Measuring<'_> {
    /// Creates the store, and switches to the measured branch.
    fn make(&self) -> Result<()> {
        let size = self.point.size.to_string();
        let mut maker = Command::new(&self.plan.maker);
        maker.arg(self.folder.join("store")).args(["--make", self.point.axis.name(), &size]);
        cost_of(&mut maker)?;
        cost_of(self.program().args(["switch", &format!("{SESSION}/main")]))?;
        Ok(())
    }

    /// Returns the command of the program, in an environment with nothing but the store.
    fn program(&self) -> Command {
        let mut command = Command::new(&self.plan.program);
        let path = std::env::var_os("PATH").unwrap_or_default();
        command.env_clear().current_dir(self.folder).env("PATH", path).env("HOME", self.folder);
        command.env("TURNTREE_STORE", self.folder.join("store"));
        command.env("TURNTREE_MAINTENANCE", "off");
        command
    }

    fn steps(&mut self, steps: &[Step], state: State) -> Result<()> {
        steps.iter().try_for_each(|step| self.step(step, state))
    }

    fn step(&mut self, step: &Step, state: State) -> Result<()> {
        let rounds = if step.how_often == HowOften::Once { 1 } else { self.plan.rounds.max(1) };
        if let Some(beginning) = step.makes {
            // A file of an earlier step would make this step a repeated one.
            remove_beginning(&self.folder.join("store/workspaces"), beginning)?;
        }
        let mut least: Option<Cost> = None;
        for round in 0..rounds {
            let argument = |text: &&str| {
                text.replace("{n}", &round.to_string()).replace("{state}", state.name())
            };
            let cost = cost_of(self.program().args(step.arguments.iter().map(argument)))?;
            least = Some(least.map_or(cost, |least| least.least(cost)));
        }
        if let Some(cost) = least {
            self.tell(Measured { step: step.name.to_owned(), state, cost });
        }
        Ok(())
    }

    fn tell(&mut self, measured: Measured) {
        (self.told)(self.point, &measured);
        self.point.measured.push(measured);
    }

    /// Records the bytes of the store's objects and indexes, and of its search files.
    fn bytes(&mut self, state: State) -> Result<()> {
        let store = self.folder.join("store");
        let derived = bytes_below(&store.join("workspaces"))?;
        self.point.bytes.push((state, bytes_below(&store)? - derived, derived));
        Ok(())
    }
}

/// Removes the files of a folder with a prefix. Does nothing if the folder does not exist.
fn remove_beginning(folder: &Path, beginning: &str) -> Result<()> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(beginning) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Returns the size of all files in a folder, recursively. Zero if the folder does not exist.
fn bytes_below(folder: &Path) -> Result<u64> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(0) };
    let mut bytes = 0;
    for entry in entries {
        let entry = entry?;
        let found = entry.metadata()?;
        bytes += if found.is_dir() { bytes_below(&entry.path())? } else { found.len() };
    }
    Ok(bytes)
}

/// Returns the names of all steps in reporting order, including the packing steps.
pub(super) fn step_names() -> impl Iterator<Item = &'static str> {
    STEPS.iter().chain(PACKING).map(|step| step.name)
}

/// Returns a predicate that is true for points of an axis.
pub(super) fn of_axis(axis: Axis) -> impl Fn(&&Point) -> bool {
    move |point| point.axis == axis
}
