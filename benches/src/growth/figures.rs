//! The results of a run, as JSON and as tables.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::steps::{of_axis, step_names};
use super::{Axis, Cost, State};

/// The results of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    /// The points, in the order of measurement.
    pub points: Vec<Point>,
}

/// The results for one store.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The growing quantity.
    pub axis: Axis,
    /// The size along the axis.
    pub size: usize,
    /// The costs of the steps.
    pub measured: Vec<Measured>,
    /// The bytes of the store and of its search index, in each state.
    pub bytes: Vec<(State, u64, u64)>,
}

/// The cost of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The name of the step.
    pub step: String,
    /// The state of the store.
    pub state: State,
    /// The cost.
    pub cost: Cost,
}

impl Point {
    /// Creates a point without measurements.
    #[must_use]
    pub fn new(axis: Axis, size: usize) -> Self {
        Self { axis, size, measured: Vec::new(), bytes: Vec::new() }
    }

    /// Returns the cost of a step in a state.
    #[must_use]
    pub fn cost(&self, step: &str, state: State) -> Option<Cost> {
        let is_it = |found: &&Measured| found.step == step && found.state == state;
        self.measured.iter().find(is_it).map(|found| found.cost)
    }
}

impl Figures {
    /// Returns the points of an axis by ascending size.
    #[must_use]
    pub fn of(&self, axis: Axis) -> Vec<&Point> {
        let mut points: Vec<&Point> = self.points.iter().filter(of_axis(axis)).collect();
        points.sort_by_key(|point| point.size);
        points
    }

    /// Returns all results as JSON. Field names include the units.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let measured = |found: &Measured| {
            let Cost { processor_ms, clock_ms, peak_mib } = found.cost;
            json!({
                "step": found.step, "state": found.state.name(), "processor_ms": processor_ms,
                "clock_ms": clock_ms, "peak_mib": peak_mib,
            })
        };
        let bytes = |(state, store, search): &(State, u64, u64)| json!({ "state": state.name(), "store_bytes": store, "search_bytes": search });
        let point = |point: &Point| {
            json!({
                "axis": point.axis.name(), "size": point.size,
                "steps": point.measured.iter().map(measured).collect::<Vec<_>>(),
                "bytes": point.bytes.iter().map(bytes).collect::<Vec<_>>(),
            })
        };
        json!({ "points": self.points.iter().map(point).collect::<Vec<_>>() })
    }

    /// Returns a table for each axis: processor time and peak memory of each step, and the bytes.
    #[must_use]
    pub fn to_tables(&self) -> String {
        let mut text = String::new();
        for axis in Axis::ALL {
            let points = self.of(axis);
            if !points.is_empty() {
                write_table(&mut text, axis, &points);
            }
        }
        text
    }
}

/// Writes the table of an axis. Writing to a string cannot fail.
fn write_table(text: &mut String, axis: Axis, points: &[&Point]) {
    let sizes: Vec<String> = points.iter().map(|point| grouped(point.size)).collect();
    let _ = writeln!(text, "| {} | {} |", axis.name(), sizes.join(" | "));
    let _ = writeln!(text, "|---|{}", "---|".repeat(points.len()));
    for state in State::ALL {
        for step in step_names() {
            let costs: Vec<Option<Cost>> =
                points.iter().map(|point| point.cost(step, state)).collect();
            if costs.iter().any(Option::is_some) {
                let cells: Vec<String> = costs.into_iter().map(cell).collect();
                let _ = writeln!(text, "| {step}, {} | {} |", state.name(), cells.join(" | "));
            }
        }
        let bytes = points.iter().map(|point| bytes_cell(point, state));
        let cells: Vec<String> = bytes.collect();
        let _ =
            writeln!(text, "| store and search index, {} | {} |", state.name(), cells.join(" | "));
    }
    text.push('\n');
}

fn cell(cost: Option<Cost>) -> String {
    cost.map_or_else(String::new, |cost| {
        format!("{} ms, {:.0} MiB", rounded(cost.processor_ms), cost.peak_mib)
    })
}

fn bytes_cell(point: &Point, state: State) -> String {
    let found = point.bytes.iter().find(|(of, ..)| *of == state);
    let megabytes = |bytes: u64| rounded(bytes as f64 / 1e6);
    found.map_or_else(String::new, |(_, store, search)| {
        format!("{} and {} MB", megabytes(*store), megabytes(*search))
    })
}

/// Formats a number: one decimal place below 10, else rounded.
fn rounded(number: f64) -> String {
    if number < 10.0 { format!("{number:.1}") } else { format!("{number:.0}") }
}

/// Formats a number with thousands separators.
pub(super) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (digit, left) in digits.chars().zip((0..digits.len()).rev()) {
        grouped.push(digit);
        if left > 0 && left % 3 == 0 {
            grouped.push(',');
        }
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_column_for_each_size_and_a_row_for_each_step() {
        let cost = |processor_ms| Cost { processor_ms, clock_ms: 9.0, peak_mib: 7.4 };
        let mut figures = Figures::default();
        for (size, time) in [(10_000, 123.4), (100, 1.23)] {
            let mut point = Point::new(Axis::Turns, size);
            let step = "stats".to_owned();
            point.measured.push(Measured { step, state: State::Packed, cost: cost(time) });
            point.bytes.push((State::Packed, 1_500_000, 20_000_000));
            figures.points.push(point);
        }
        let tables = figures.to_tables();
        assert!(tables.starts_with("| turns | 100 | 10,000 |\n|---|---|---|\n"), "{tables}");
        assert!(tables.contains("| stats, packed | 1.2 ms, 7 MiB | 123 ms, 7 MiB |"), "{tables}");
        assert!(tables.contains("| 1.5 and 20 MB |"), "{tables}");
        assert!(!tables.contains("sessions |"), "{tables}");
        assert_eq!(figures.to_json()["points"][0]["steps"][0]["processor_ms"], 123.4);
    }

    #[test]
    fn numbers_are_grouped_by_three_digits() {
        assert_eq!([1, 100, 1_000, 100_000].map(grouped), ["1", "100", "1,000", "100,000"]);
    }
}
