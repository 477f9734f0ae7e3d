//! Writes the charts of a run: time, memory and bytes along each axis.

use std::fs;
use std::path::Path;

use super::steps::step_names;
use super::{Axis, Chart, Cost, Figures, Point, Result, Series, State};

/// Steps that are not informative along an axis.
const LEFT_OUT: [(Axis, &str); 1] = [(Axis::Turns, "sessions")];

/// Writes a chart of each kind for each measured axis to `folder`.
///
/// # Errors
/// If a file cannot be written.
pub fn write_pictures(figures: &Figures, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    for axis in Axis::ALL {
        let points = figures.of(axis);
        if points.is_empty() {
            continue;
        }
        for state in State::ALL {
            let how = match state {
                State::Written => "as it was written",
                State::Packed => "packed",
            };
            let time = costs(axis, &points, state, |cost| cost.processor_ms);
            let memory = costs(axis, &points, state, |cost| cost.peak_mib);
            let pictures = [
                ("time", "Processor time", "milliseconds of a whole process", time),
                ("memory", "Memory", "MiB that were resident, at most", memory),
            ];
            for (kind, title, up, series) in pictures {
                let title = format!("{title} of a command, store {how}");
                let name = format!("{}-{kind}-{}.svg", axis.name(), state.name());
                write(folder, &name, axis, (title, up), series)?;
            }
        }
        let title = "Bytes on the disk".to_owned();
        write(folder, &format!("{}-bytes.svg", axis.name()), axis, (title, "MB"), bytes(&points))?;
    }
    Ok(())
}

fn write(
    folder: &Path,
    name: &str,
    axis: Axis,
    (title, up): (String, &str),
    series: Vec<Series>,
) -> Result<()> {
    let chart = Chart { title, across: axis.name().to_owned(), up: up.to_owned(), series };
    Ok(fs::write(folder.join(name), chart.to_svg())?)
}

/// Returns a curve for each step, empty if it was not measured, so that each step has the same
/// style in all charts.
fn costs(axis: Axis, points: &[&Point], state: State, of: fn(&Cost) -> f64) -> Vec<Series> {
    let series = |step: &'static str| {
        let value =
            |point: &&Point| point.cost(step, state).map(|cost| (point.size as f64, of(&cost)));
        let is_shown = !LEFT_OUT.contains(&(axis, step));
        let points = points.iter().filter(|_| is_shown).filter_map(value).collect();
        Series { name: step.to_owned(), points }
    };
    step_names().map(series).collect()
}

/// Returns the curves of the store and of its index, in each state.
fn bytes(points: &[&Point]) -> Vec<Series> {
    let curve = |state: State, is_index: bool| {
        let value = |point: &&Point| {
            let (_, store, search) = point.bytes.iter().find(|(of, ..)| *of == state)?;
            Some((point.size as f64, if is_index { *search } else { *store } as f64 / 1e6))
        };
        let name = if is_index { "index of search" } else { "store" };
        let name = format!("{name}, {}", state.name());
        Series { name, points: points.iter().filter_map(value).collect() }
    };
    [(State::Written, false), (State::Packed, false), (State::Packed, true)]
        .map(|(state, is_index)| curve(state, is_index))
        .into()
}
