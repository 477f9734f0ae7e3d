//! Draws charts of curves on two logarithmic scales as SVG, without scripts or embedded fonts. The
//! colours follow the colour scheme of the viewer.

use std::fmt::{self, Write as _};

use super::figures::grouped;

/// The size of the picture in points.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 440.0;

/// The edges of the plot. The names of the curves are to its right.
const LEFT: f64 = 74.0;
const RIGHT: f64 = 540.0;
const TOP: f64 = 62.0;
const BOTTOM: f64 = 384.0;

/// Minimum distance between the names of curves.
const NAME_HEIGHT: f64 = 17.0;

/// Largest number of powers of ten for which a scale has marks in between.
const FEW_POWERS: i32 = 2;

/// Colours that are distinguishable on white and on black. The dashes triple the number of styles.
const COLOURS: [&str; 6] = ["#2f7ec0", "#d2691e", "#2e9960", "#c0395b", "#8a5cc2", "#857327"];
const DASHES: [&str; 3] = ["", "7 4", "2 4"];

/// Styles that depend on the colour scheme: the background, the text, and the grid.
const STYLE: &str = "text{font-family:system-ui,sans-serif;font-size:13px;fill:#1f2328}\
.title{font-size:16px;font-weight:600}.quiet{fill:#59636e}.ground{fill:#fff}\
.grid{stroke:#d1d9e0;stroke-width:1}.lead{stroke-width:1;opacity:.5}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.quiet{fill:#9198a1}.ground{fill:#0d1117}\
.grid{stroke:#30363d}}";

/// A chart of several curves.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// The title.
    pub title: String,
    /// The label of the horizontal axis.
    pub across: String,
    /// The label of the vertical axis, with the unit.
    pub up: String,
    /// The curves.
    pub series: Vec<Series>,
}

/// A curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The name of the curve.
    pub name: String,
    /// The sizes and values. Points that are not positive are not drawn.
    pub points: Vec<(f64, f64)>,
}

/// A logarithmic scale between two powers of ten.
#[derive(Debug, Clone, Copy)]
struct Scale {
    low: i32,
    high: i32,
    /// The positions of the low and the high end in the picture.
    from: f64,
    to: f64,
}

impl Scale {
    /// Returns the smallest scale of whole powers of ten that contains all values.
    fn of(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let powers = values.map(f64::log10).filter(|power| power.is_finite());
        let (low, high) = powers.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), power| {
            (power.min(low), power.max(high))
        });
        let (low, high) = (whole(low.floor()), whole(high.ceil()));
        Self { low, high: high.max(low + 1), from, to }
    }

    fn place(self, value: f64) -> f64 {
        let part = (value.log10() - f64::from(self.low)) / f64::from(self.high - self.low);
        self.from + part * (self.to - self.from)
    }

    /// Returns the powers of ten, and their multiples by two and five if there are few.
    fn marks(self) -> impl Iterator<Item = f64> {
        let steps: &[f64] =
            if self.high - self.low > FEW_POWERS { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let powers = (self.low..=self.high).map(|power| 10f64.powi(power));
        let marks = powers.flat_map(|power| steps.iter().map(move |step| step * power));
        let most = 10f64.powi(self.high) * 1.001;
        marks.filter(move |mark| *mark < most)
    }
}

/// Limits a power of ten to the range of a chart. Zero for an infinite value.
#[expect(clippy::cast_possible_truncation, reason = "it is whole, and within the range of a chart")]
fn whole(power: f64) -> i32 {
    if power.is_finite() { power.clamp(-9.0, 18.0) as i32 } else { 0 }
}

impl Chart {
    /// Returns the chart as an SVG document.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let points = || self.series.iter().flat_map(Series::shown);
        let across = Scale::of(points().map(|(size, _)| size), LEFT, RIGHT);
        let up = Scale::of(points().map(|(_, value)| value), BOTTOM, TOP);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n\
             <title>{title}</title>\n<style>{STYLE}</style>\n\
             <rect class=\"ground\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"6\"/>\n\
             <text class=\"title\" x=\"16\" y=\"28\">{title}</text>\n\
             <text class=\"quiet\" x=\"16\" y=\"48\">{}</text>\n\
             <text class=\"quiet\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
            escaped(&self.up),
            f64::midpoint(LEFT, RIGHT),
            BOTTOM + 42.0,
            escaped(&self.across),
            title = escaped(&self.title),
        );
        draw_grid(&mut svg, across, up);
        let mut names = Vec::new();
        for ((number, series), style) in (0..).zip(&self.series).zip(styles()) {
            if let Some(end) = draw_curve(&mut svg, series, style, (across, up)) {
                names.push(Name { at: end.1, end, number, series, style });
            }
        }
        draw_names(&mut svg, names);
        svg.push_str("</svg>\n");
        svg
    }
}

impl Series {
    /// Returns the points with logarithms.
    fn shown(&self) -> impl Iterator<Item = (f64, f64)> {
        self.points.iter().copied().filter(|(size, value)| *size > 0.0 && *value > 0.0)
    }
}

/// The name of a curve, next to its end.
struct Name<'c> {
    /// The vertical position of the name.
    at: f64,
    end: (f64, f64),
    number: usize,
    series: &'c Series,
    style: Style,
}

/// The style of a line.
#[derive(Debug, Clone, Copy)]
struct Style {
    colour: &'static str,
    dash: &'static str,
}

impl fmt::Display for Style {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stroke=\"{}\"", self.colour)?;
        if self.dash.is_empty() { Ok(()) } else { write!(f, " stroke-dasharray=\"{}\"", self.dash) }
    }
}

/// Returns distinct line styles.
fn styles() -> impl Iterator<Item = Style> {
    let with = |dash: &&'static str| {
        let dash = *dash;
        COLOURS.iter().map(move |colour| Style { colour, dash })
    };
    DASHES.iter().flat_map(with).collect::<Vec<_>>().into_iter().cycle()
}

/// Draws a line and a number at each mark. Writing to a string cannot fail.
fn draw_grid(svg: &mut String, across: Scale, up: Scale) {
    for mark in up.marks() {
        let y = up.place(mark);
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>\
             <text class=\"quiet\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            y + 4.5,
            number(mark)
        );
    }
    for mark in (across.low..=across.high).map(|power| 10f64.powi(power)) {
        let x = across.place(mark);
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{x:.1} {TOP}V{BOTTOM}\"/>\
             <text class=\"quiet\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            BOTTOM + 20.0,
            number(mark)
        );
    }
}

/// Draws a curve with a dot at each point, and returns its end.
fn draw_curve(
    svg: &mut String,
    series: &Series,
    style: Style,
    (across, up): (Scale, Scale),
) -> Option<(f64, f64)> {
    let places: Vec<(f64, f64)> =
        series.shown().map(|(size, value)| (across.place(size), up.place(value))).collect();
    let last = places.last().copied()?;
    let line: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(
        svg,
        "<polyline fill=\"none\" stroke-width=\"2\" {style} points=\"{}\"/>",
        line.join(" ")
    );
    for (x, y) in &places {
        let _ = writeln!(
            svg,
            "<circle r=\"3\" cx=\"{x:.1}\" cy=\"{y:.1}\" fill=\"{}\"/>",
            style.colour
        );
    }
    Some(last)
}

/// Draws the names of the curves without overlap, each with a line to the end of its curve.
fn draw_names(svg: &mut String, mut names: Vec<Name<'_>>) {
    names.sort_by(|a, b| a.end.1.total_cmp(&b.end.1).then(a.number.cmp(&b.number)));
    let mut least = TOP;
    for name in &mut names {
        name.at = name.at.max(least);
        least = name.at + NAME_HEIGHT;
    }
    // Move names that are too low up again, together with the names above them.
    let mut most = BOTTOM;
    for name in names.iter_mut().rev() {
        name.at = name.at.min(most);
        most = name.at - NAME_HEIGHT;
    }
    for Name { at, end: (x, y), series, style, .. } in names {
        let _ = writeln!(
            svg,
            "<path class=\"lead\" fill=\"none\" {style} d=\"M{:.1} {y:.1}L{:.1} {at:.1}\"/>\
             <path fill=\"none\" stroke-width=\"2\" {style} d=\"M{:.1} {at:.1}h20\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x + 5.0,
            RIGHT + 14.0,
            RIGHT + 14.0,
            RIGHT + 40.0,
            at + 4.5,
            escaped(&series.name)
        );
    }
}

/// Formats a mark.
fn number(mark: f64) -> String {
    let power = whole(mark.log10().floor());
    match usize::try_from(-power) {
        Ok(digits) if digits > 0 => format!("{mark:.digits$}"),
        _ => format!("{mark:.0}").parse().map_or_else(|_| format!("{mark:.0}"), grouped),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(series: Vec<Series>) -> String {
        let [title, across, up] = ["<time>", "turns", "ms"].map(str::to_owned);
        Chart { title, across, up, series }.to_svg()
    }

    #[test]
    fn a_curve_rises_from_left_to_right_between_marks_of_powers_of_ten() {
        let name = "log & list".to_owned();
        let svg = chart(vec![Series { name, points: vec![(100.0, 2.0), (1_000.0, 20.0)] }]);
        assert!(svg.contains("<title>&lt;time&gt;</title>"), "{svg}");
        assert!(svg.contains(">log &amp; list</text>"), "{svg}");
        for mark in ["100", "1,000", "1", "2", "5", "10", "50"] {
            assert!(svg.contains(&format!(">{mark}</text>")), "{mark}: {svg}");
        }
        let line = svg.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        let numbers: Vec<f64> = line.split([' ', ',']).map(|part| part.parse().unwrap()).collect();
        let [left, low, right, high] = numbers[..] else { panic!("{line}") };
        assert!((left - LEFT).abs() < 0.1 && (right - RIGHT).abs() < 0.1, "{line}");
        assert!(high < low && high > TOP && low < BOTTOM, "{line}");
    }

    #[test]
    fn names_of_curves_that_end_at_one_place_stand_apart_and_inside() {
        let curve = |number| Series { name: format!("curve {number}"), points: vec![(1.0, 5.0)] };
        let svg = chart((0..18).map(curve).collect());
        let mut places: Vec<f64> = svg
            .split("<text x=\"")
            .skip(1)
            .map(|part| part.split("y=\"").nth(1).unwrap().split('"').next().unwrap())
            .map(|y| y.parse().unwrap())
            .collect();
        assert_eq!(places.len(), 18);
        places.sort_by(f64::total_cmp);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] > NAME_HEIGHT - 0.1), "{places:?}");
        assert!(places.iter().all(|y| (0.0..HEIGHT).contains(y)), "{places:?}");
    }

    #[test]
    fn what_no_logarithm_has_is_left_out() {
        let points = vec![(0.0, 1.0), (10.0, 0.0), (10.0, f64::NAN)];
        let svg = chart(vec![Series { name: "none".to_owned(), points }]);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
