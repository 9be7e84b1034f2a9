//! Plots as SVG, for figures in a report: the same input gives the same bytes.
//!
//! A plot is one [`Chart`] below the other. It has no background, and its colours stand out from a white page and
//! from a dark one alike (grey `#767676`, blue `#1a78d0`, orange `#c25c00`, green `#22863a`, violet `#a558c8`, red
//! `#d73a49`); a test computes their contrast. Nothing is told by colour alone: series differ in their dashes and
//! markers as well, bars below zero are hollow. Labels that would overlap are left out.
//!
//! ```
//! use tapri_insight::plot::{Axis, Chart, Form, Series, svg};
//!
//! let chart = Chart {
//!     title: "Hit rate".to_owned(),
//!     x: Axis::new("KV memory (GiB)").logarithmic(),
//!     y: Axis::percent("token hit rate"),
//!     series: vec![Series::new("least recently used", Form::Line, vec![(1.0, 0.2), (10.0, 0.35), (100.0, 0.37)])],
//!     marks: Vec::new(),
//! };
//! assert!(svg(&[chart])?.starts_with("<svg "));
//! # Ok::<(), tapri_insight::plot::PlotError>(())
//! ```
//!
//! Map: [`axis`] ranges, ticks and labels; `draw` the drawing.

pub mod axis;
mod draw;

pub use self::axis::Axis;

/// One figure: axes and what is drawn between them.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Its title.
    pub title: String,
    /// From left to right.
    pub x: Axis,
    /// From bottom to top.
    pub y: Axis,
    /// What is drawn; the first six look different from each other.
    pub series: Vec<Series>,
    /// Lines across that things are compared with.
    pub marks: Vec<Mark>,
}

/// Points of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// How it is drawn.
    pub form: Form,
    /// Its points, ascending in x. Those that aren't finite, or have no logarithm on a logarithmic axis, are left out.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// Points with a name.
    pub fn new(name: impl Into<String>, form: Form, points: Vec<(f64, f64)>) -> Self {
        Series { name: name.into(), form, points }
    }
}

/// How points are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Joined by lines; with markers where they are few.
    Line,
    /// Joined by steps: each value holds until the next point.
    Steps,
    /// A bar for each, from zero.
    Bars,
    /// Markers alone.
    Points,
}

/// A level across the chart, with its name.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// The value on the y axis.
    pub y: f64,
    /// What it is.
    pub name: String,
}

/// Why there is no plot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlotError {
    /// No point can be drawn.
    #[error("there is nothing to plot")]
    Empty,
    /// The drawing failed.
    #[error("the plot could not be drawn: {0}")]
    Draw(String),
}

/// Draws charts, one below the other. Charts without a point that can be drawn are left out.
pub fn svg(charts: &[Chart]) -> Result<String, PlotError> {
    let charts: Vec<&Chart> = charts.iter().filter(|chart| chart.has_points()).collect();
    if charts.is_empty() {
        return Err(PlotError::Empty);
    }
    draw::all(&charts)
}

impl Chart {
    /// The points that can be drawn.
    fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        self.series.iter().flat_map(|series| self.drawable(series))
    }

    fn drawable(&self, series: &Series) -> impl Iterator<Item = (f64, f64)> {
        series.points.iter().copied().filter(|(x, y)| self.x.takes(*x) && self.y.takes(*y))
    }

    fn has_points(&self) -> bool {
        self.points().next().is_some()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn charts() -> Vec<Chart> {
        let days: Vec<(f64, f64)> =
            (0..10).map(|day| (f64::from(day), 0.9 - f64::from(day % 4) * 0.2)).collect();
        let saved = days.iter().map(|(day, rate)| (*day, rate * 10.0 - 4.0)).collect();
        let from = jiff::civil::date(2026, 11, 25);
        vec![
            Chart {
                title: "Hit rate".to_owned(),
                x: Axis::days("day (UTC)", from),
                y: Axis::percent("prompt tokens from cache"),
                series: vec![Series::new("all calls", Form::Line, days)],
                marks: vec![Mark { y: 0.5, name: "threshold".to_owned() }],
            },
            Chart {
                title: "Saved".to_owned(),
                x: Axis::days("day (UTC)", from),
                y: Axis::new("USD (estimate)"),
                series: vec![Series::new("saved", Form::Bars, saved)],
                marks: Vec::new(),
            },
            Chart {
                title: "Time".to_owned(),
                x: Axis::new("seconds").logarithmic(),
                y: Axis::percent("share of calls"),
                series: vec![
                    Series::new("hits", Form::Steps, vec![(0.1, 0.2), (0.2, 0.6), (0.9, 1.0)]),
                    Series::new(
                        "misses",
                        Form::Steps,
                        vec![(0.0, 0.1), (1.0, 0.2), (7.0, 0.8), (30.0, 1.0)],
                    ),
                ],
                marks: Vec::new(),
            },
        ]
    }

    #[test]
    fn the_same_bytes_each_time() {
        let drawn = svg(&charts()).unwrap();
        assert_eq!(drawn, svg(&charts()).unwrap());
        insta::assert_snapshot!(drawn);
    }

    #[test]
    fn nothing_is_an_error_and_nonsense_is_left_out() {
        assert_eq!(svg(&[]), Err(PlotError::Empty));
        let mut all = charts();
        all[0].series[0].points = vec![(f64::NAN, 1.0), (1.0, f64::INFINITY)];
        assert_eq!(svg(&all[..1]), Err(PlotError::Empty));
        assert!(svg(&all).unwrap().contains("Saved"));
    }

    /// Names come from logs: they can't become markup.
    #[test]
    fn names_are_escaped() {
        let mut all = charts();
        all[0].series[0].name = "<script>alert(1)</script>".to_owned();
        assert!(!svg(&all).unwrap().contains("<script"));
    }

    #[test]
    fn extreme_values_are_drawn() {
        for points in [
            vec![(0.0, 0.0)],
            vec![(1e-300, 1e-300), (1e300, 1e300)],
            vec![(-5.0, -5.0), (5.0, -1.0)],
            vec![(3.0, 7.0), (3.0, 7.0)],
        ] {
            for x in [Axis::new("x"), Axis::new("x").logarithmic()] {
                let chart = Chart {
                    title: "t".into(),
                    x,
                    y: Axis::new("y"),
                    series: vec![Series::new("s", Form::Line, points.clone())],
                    marks: Vec::new(),
                };
                let drawn = svg(&[chart]);
                assert!(matches!(drawn, Ok(_) | Err(PlotError::Empty)), "{drawn:?}");
            }
        }
    }
}
