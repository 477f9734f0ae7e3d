//! `adopt --dry-run`: measures the agents' sessions by project, how much of them is copies, and the
//! size of a store for them.

use std::collections::BTreeMap;
use std::io::Write;

use turntree_exchange::agents::{Copies, FoundSession};

use crate::view::error::{Failure, Result};
use crate::view::json;
use crate::view::output::{FAINT, NAME, Output, STRONG};
use crate::view::progress::Meter;
use crate::view::render::collection::percent;
use crate::view::render::table::{Cell, Column, Table};
use crate::view::render::{count, size};

/// Most projects that are named one by one, the largest first.
const MAX_SHOWN: usize = 20;

/// The sessions of agents, by agent and project.
#[derive(Default)]
pub(super) struct Survey {
    projects: BTreeMap<(String, String), Project>,
    /// Files that could not be read, with the reason.
    pub(super) failures: Vec<(String, String)>,
}

/// The sessions of an agent in a project.
#[derive(Default, Clone)]
struct Project {
    sessions: u64,
    /// Sessions that the store has as they are.
    adopted: u64,
    bytes: u64,
    copied: u64,
    stored: u64,
}

impl Survey {
    /// Reads the files of all sessions, with a bar, one after the other.
    pub(super) fn of(
        sessions: &[FoundSession],
        is_known: impl Fn(&FoundSession) -> bool,
    ) -> Result<Self> {
        let all = sessions.iter().map(|found| found.bytes).sum();
        let mut copies = Copies::new()?;
        let meter = std::cell::RefCell::new((Meter::new("measure"), 0_u64));
        let passed = |bytes: u64| {
            let (meter, done) = &mut *meter.borrow_mut();
            *done += bytes;
            meter.show((*done).min(all), all);
        };
        let mut survey = Self::default();
        for found in sessions {
            let measured = match copies.measure(found, &passed) {
                Ok(measured) => measured,
                Err(error) => {
                    let path = found.path.display().to_string();
                    survey.failures.push((path, Failure::from(error).message()));
                    continue;
                }
            };
            // Files of one folder belong together if they do not record their working directory.
            let folder = || found.path.parent().map(|dir| dir.display().to_string());
            let directory = measured.directory.or_else(folder).unwrap_or_default();
            let project = survey.projects.entry((found.agent.clone(), directory)).or_default();
            project.add(&Project {
                sessions: 1,
                adopted: u64::from(is_known(found)),
                bytes: found.bytes,
                copied: measured.copied_bytes,
                stored: measured.stored_bytes,
            });
        }
        Ok(survey)
    }

    /// Writes the table, the largest projects first.
    pub(super) fn print(&self, out: &mut Output) -> Result<()> {
        let number = |heading, rank| Column::number(heading).rank(rank);
        let mut table = Table::of(vec![
            Column::name("agent"),
            Column::name("project"),
            number("sessions", 1),
            number("adopted", 3),
            number("there", 1),
            number("copies", 1),
            number("", 2),
            number("packed here", 1),
        ]);
        let mut projects: Vec<_> = self.projects.iter().collect();
        projects.sort_by_key(|(_, project)| std::cmp::Reverse(project.bytes));
        let mut all = Project::default();
        self.projects.values().for_each(|project| all.add(project));
        let shown = if projects.len() > MAX_SHOWN { MAX_SHOWN - 1 } else { projects.len() };
        let (shown, rest) = projects.split_at_checked(shown).unwrap_or((&projects, &[]));
        for ((agent, directory), project) in shown {
            let directory = Cell::from(directory.as_str());
            table.row(project.cells(Cell::styled(NAME, agent), directory));
        }
        if !rest.is_empty() {
            let mut sum = Project::default();
            rest.iter().for_each(|(_, project)| sum.add(project));
            let more = count(rest.len() as u64, "more project");
            table.row(sum.cells(Cell::from(""), Cell::styled(FAINT, more)));
        }
        if projects.len() > 1 {
            table.row(all.cells(Cell::styled(STRONG, "all"), Cell::from("")));
        }
        table.write(out)?;
        Ok(())
    }

    /// Prints the conclusions.
    pub(super) fn tell(&self, out: &mut Output) -> Result<()> {
        let mut all = Project::default();
        self.projects.values().for_each(|project| all.add(project));
        if all.copied > 0 {
            let (copied, bytes) = (size(all.copied), size(all.bytes));
            writeln!(
                out,
                "{copied} of {bytes} are copies: records that an earlier file also has, apart from times and session ids"
            )?;
        }
        Ok(())
    }

    pub(super) fn record(&self) -> Vec<json::SurveyedProject> {
        let record =
            |((agent, directory), project): (&(String, String), &Project)| json::SurveyedProject {
                agent: agent.clone(),
                project: directory.clone(),
                sessions: project.sessions,
                unchanged: project.adopted,
                input_bytes: project.bytes,
                copied_bytes: project.copied,
                estimated_bytes: project.stored,
            };
        self.projects.iter().map(record).collect()
    }
}

impl Project {
    fn add(&mut self, more: &Self) {
        self.sessions += more.sessions;
        self.adopted += more.adopted;
        self.bytes += more.bytes;
        self.copied = self.copied.saturating_add(more.copied);
        self.stored = self.stored.saturating_add(more.stored);
    }

    fn cells(&self, agent: Cell, directory: Cell) -> Vec<Cell> {
        let copied = self.copied.min(self.bytes);
        vec![
            agent,
            directory,
            self.sessions.to_string().into(),
            self.adopted.to_string().into(),
            size(self.bytes).into(),
            size(copied).into(),
            percent(copied, self.bytes).into(),
            format!("~{}", size(self.stored)).into(),
        ]
    }
}
