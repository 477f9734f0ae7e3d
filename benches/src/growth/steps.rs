//! What the program is asked at each point: as the store was written, then packed.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::stores::SESSION;
use super::{Axis, Cost, Figures, Measured, Plan, Point, Result, cost_of};

/// How a store lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// In the journal, as it was written.
    Written,
    /// In packs.
    Packed,
}

impl State {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Written, Self::Packed];

    /// Its name in tables, JSON and names of files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Packed => "packed",
        }
    }
}

/// Something that the program does.
struct Step {
    name: &'static str,
    /// Its arguments; `{n}` stands for the number of the run.
    arguments: &'static [&'static str],
    how_often: HowOften,
    /// What it makes beside the store for those that come after it, by the beginning of its name.
    makes: Option<&'static str>,
}

/// How often a step is run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HowOften {
    /// In each round.
    Rounds,
    /// Once: it takes long, or there is nothing left to do the second time.
    Once,
}

const fn step(name: &'static str, arguments: &'static [&'static str]) -> Step {
    Step { name, arguments, how_often: HowOften::Rounds, makes: None }
}

const fn once(name: &'static str, arguments: &'static [&'static str]) -> Step {
    Step { name, arguments, how_often: HowOften::Once, makes: None }
}

/// The first of its kind, which makes what later ones use.
const fn first(
    name: &'static str,
    arguments: &'static [&'static str],
    makes: &'static str,
) -> Step {
    Step { makes: Some(makes), ..once(name, arguments) }
}

/// What people and agents ask and do, in this order. What takes something back from the disk comes last.
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

/// What packs a store.
const PACKING: &[Step] = &[once("gc", &["gc"]), once("repack", &["repack"])];

/// Makes each store of the plan, measures the steps on it, and tells each figure to `told` at once.
///
/// # Errors
/// When a store cannot be made, or the program fails.
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

/// One store while it is measured.
struct Measuring<'m> {
    plan: &'m Plan,
    folder: &'m Path,
    point: &'m mut Point,
    told: &'m mut dyn FnMut(&Point, &Measured),
}

impl Measuring<'_> {
    /// Makes the store, and goes to the branch that is asked about.
    fn make(&self) -> Result<()> {
        let size = self.point.size.to_string();
        let mut maker = Command::new(&self.plan.maker);
        maker.arg(self.folder.join("store")).args(["--make", self.point.axis.name(), &size]);
        cost_of(&mut maker)?;
        cost_of(self.program().args(["switch", &format!("{SESSION}/main")]))?;
        Ok(())
    }

    /// The program, in a world that has nothing but the store.
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
            // What an earlier one left would make this one a later one.
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

    /// Notes what the files of the store take: objects and indexes, and what the search keeps beside.
    fn bytes(&mut self, state: State) -> Result<()> {
        let store = self.folder.join("store");
        let derived = bytes_below(&store.join("workspaces"))?;
        self.point.bytes.push((state, bytes_below(&store)? - derived, derived));
        Ok(())
    }
}

/// Removes the files of a folder whose names begin so; none where there is no folder.
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

/// Bytes of all files in a folder and below; none where there is no folder.
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

/// The steps in the order in which they are told, with those that pack.
pub(super) fn step_names() -> impl Iterator<Item = &'static str> {
    STEPS.iter().chain(PACKING).map(|step| step.name)
}

/// Returns whether a figure is of one of the points of an axis.
pub(super) fn of_axis(axis: Axis) -> impl Fn(&&Point) -> bool {
    move |point| point.axis == axis
}
