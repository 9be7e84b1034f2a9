//! Charts as SVG of our own: places in percent of the box, so that they fit any window without scaling text or patterns.
//!
//! Every series has a pattern of its own beside its colour; the patterns are those of `templates/patterns.html`. A chart
//! has a label that says what it shows, and the page has the same figures as a table.

use std::fmt::Write;
use std::time::Duration;

use tapri_insight::histogram::Histogram;

use super::show::{Escaped, Html};

/// How a surface is filled: a colour and a pattern that go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Fill {
    /// From a cache: hatched.
    Cached,
    /// Read or computed fresh: plain.
    Fresh,
    /// Joined, shared: dotted.
    Joined,
    /// That no cache can keep, or nobody knows: lined.
    Other,
    /// Used right now: crossed.
    Used,
    /// Nothing: an outline.
    Empty,
}

impl Fill {
    /// As attributes of a shape.
    pub(crate) fn attributes(self) -> &'static str {
        match self {
            Fill::Cached => r##"fill="url(#hatched)""##,
            Fill::Fresh => r#"class="fill-fresh""#,
            Fill::Joined => r##"fill="url(#dotted)""##,
            Fill::Other => r##"fill="url(#lined)""##,
            Fill::Used => r##"fill="url(#crossed)""##,
            Fill::Empty => r#"class="fill-empty""#,
        }
    }

    /// A small sample for a legend.
    pub(crate) fn key(self) -> Html {
        Html(format!(
            r#"<svg class="key" aria-hidden="true" focusable="false"><rect width="100%" height="100%" {}/></svg>"#,
            self.attributes()
        ))
    }
}

/// An entry of a legend.
pub(crate) struct Entry {
    pub(crate) key: Html,
    pub(crate) words: Html,
}

impl Entry {
    pub(crate) fn new(fill: Fill, words: impl Into<String>) -> Self {
        Entry { key: fill.key(), words: Html(words.into()) }
    }
}

/// A strip of parts side by side. `label` is text; `parts` are a fill, a share of the whole and a title each; `marks` are
/// shares at which a line stands.
pub(crate) fn strip(
    class: &str,
    label: &str,
    parts: &[(Fill, f64, String)],
    lines: u64,
    mark: Option<f64>,
) -> Html {
    let mut svg = format!(
        r#"<svg class="{class}" role="img" aria-label="{}" focusable="false">"#,
        Escaped(label)
    );
    let mut at = 0.0;
    for (fill, share, title) in parts {
        let _ = write!(
            svg,
            r#"<rect x="{:.3}%" width="{:.3}%" height="100%" {}><title>{}</title></rect>"#,
            at * 100.0,
            share * 100.0,
            fill.attributes(),
            Escaped(title)
        );
        at += share;
    }
    for line in 1..lines {
        let x = line as f64 / lines as f64 * 100.0;
        let _ = write!(svg, r#"<line class="cut" x1="{x:.3}%" x2="{x:.3}%" y1="0" y2="100%"/>"#);
    }
    if let Some(mark) = mark {
        let x = mark.clamp(0.0, 1.0) * 100.0;
        let _ = write!(
            svg,
            r#"<line class="mark-ground" x1="{x:.3}%" x2="{x:.3}%" y1="0" y2="100%"/><line class="mark" x1="{x:.3}%" x2="{x:.3}%" y1="0" y2="100%"/>"#
        );
    }
    svg.push_str("</svg>");
    Html(svg)
}

/// A column of a bar chart: its title, and its parts from the bottom up.
pub(crate) struct Column {
    pub(crate) title: String,
    pub(crate) parts: Vec<(Fill, f64)>,
}

/// Columns beside each other, on one scale from zero to the highest.
pub(crate) fn columns(label: &str, columns: &[Column]) -> Html {
    let top = top(columns);
    let mut svg = format!(
        r#"<svg class="columns" role="img" aria-label="{}" focusable="false">"#,
        Escaped(label)
    );
    for quarter in 1..4 {
        let y = 25 * quarter;
        let _ = write!(svg, r#"<line class="grid" x1="0" x2="100%" y1="{y}%" y2="{y}%"/>"#);
    }
    let step = 100.0 / columns.len().max(1) as f64;
    // One column alone would be a wall.
    let width = (step * 0.72).min(12.0);
    for (n, column) in columns.iter().enumerate() {
        let x = step * (n as f64 + 0.5) - width / 2.0;
        let _ = write!(svg, "<g><title>{}</title>", Escaped(&column.title));
        let mut below = 0.0;
        for (fill, value) in column.parts.iter().filter(|part| part.1 > 0.0) {
            let share = if top > 0.0 { value / top * 100.0 } else { 0.0 };
            below += share;
            let _ = write!(
                svg,
                r#"<rect x="{x:.3}%" y="{:.3}%" width="{width:.3}%" height="{share:.3}%" {}/>"#,
                100.0 - below,
                fill.attributes()
            );
        }
        svg.push_str("</g>");
    }
    svg.push_str(r#"<line class="axis" x1="0" x2="100%" y1="100%" y2="100%"/></svg>"#);
    Html(svg)
}

/// The highest column's value.
pub(crate) fn top(columns: &[Column]) -> f64 {
    let height = |column: &Column| column.parts.iter().map(|part| part.1).sum::<f64>();
    columns.iter().map(height).fold(0.0, f64::max)
}

/// A cumulative distribution on a logarithmic axis of time: what share of the calls had begun to answer by then.
pub(crate) struct Distribution {
    pub(crate) svg: Html,
    /// Where the axis begins and ends, and its ticks with their places in percent.
    pub(crate) ticks: Vec<(String, f64)>,
}

/// Two distributions on one axis, the first a full line, the second a dashed one. `None` where neither has a value.
pub(crate) fn distribution(
    label: &str,
    hits: &Histogram,
    misses: &Histogram,
) -> Option<Distribution> {
    let ends = [hits, misses].into_iter().flat_map(|it| [it.quantile(0.0), it.quantile(1.0)]);
    let ends: Vec<f64> = ends.flatten().map(|it| it.as_secs_f64().max(1e-6).log10()).collect();
    let low = ends.iter().copied().reduce(f64::min)?.floor();
    let high = ends.iter().copied().reduce(f64::max)?.ceil().max(low + 1.0);
    let place =
        |time: Duration| (time.as_secs_f64().max(1e-6).log10() - low) / (high - low) * 100.0;
    let mut svg = format!(
        r#"<svg class="columns" role="img" aria-label="{}" focusable="false" viewBox="0 0 100 100" preserveAspectRatio="none">"#,
        Escaped(label)
    );
    for quarter in 1..4 {
        let y = 25 * quarter;
        let _ = write!(svg, r#"<line class="grid" x1="0" x2="100" y1="{y}" y2="{y}"/>"#);
    }
    for power in low as i32..=high as i32 {
        let x = (f64::from(power) - low) / (high - low) * 100.0;
        let _ = write!(svg, r#"<line class="grid" x1="{x:.2}" x2="{x:.2}" y1="0" y2="100"/>"#);
    }
    for (class, histogram) in [("curve misses", misses), ("curve hits", hits)] {
        if histogram.count() == 0 {
            continue;
        }
        let mut points = String::from("0,100");
        let (mut below, mut y) = (0_u64, 100.0);
        for (time, count) in histogram.iter() {
            let x = place(time);
            let _ = write!(points, " {x:.2},{y:.2}");
            below += count;
            y = 100.0 - below as f64 / histogram.count() as f64 * 100.0;
            let _ = write!(points, " {x:.2},{y:.2}");
        }
        points.push_str(" 100,0");
        let _ = write!(svg, r#"<polyline class="{class}" points="{points}"/>"#);
    }
    svg.push_str("</svg>");
    let ticks = (low as i32..=high as i32).map(|power| {
        let shown = match power {
            ..=-4 => format!("{} µs", 10_f64.powi(power + 6)),
            -3..=-1 => format!("{} ms", 10_f64.powi(power + 3).round()),
            _ => format!("{} s", 10_f64.powi(power)),
        };
        (shown, (f64::from(power) - low) / (high - low) * 100.0)
    });
    Some(Distribution { svg: Html(svg), ticks: ticks.collect() })
}

/// A cell run of a map: how many cells, their fill and what they are.
pub(crate) struct Cells {
    pub(crate) fill: Fill,
    pub(crate) cells: usize,
    pub(crate) title: String,
}

/// Cells in rows, from the top left on, like text. Neighbours of one run in a row are one shape.
pub(crate) fn map(label: &str, columns: usize, runs: &[Cells]) -> Html {
    /// Units of one cell.
    const CELL: usize = 10;
    let all: usize = runs.iter().map(|run| run.cells).sum();
    let rows = all.div_ceil(columns).max(1);
    let mut svg = format!(
        r#"<svg class="map" role="img" aria-label="{}" focusable="false" viewBox="0 0 {} {}">"#,
        Escaped(label),
        columns * CELL,
        rows * CELL
    );
    let mut at = 0;
    for run in runs.iter().filter(|run| run.cells > 0) {
        let _ = write!(svg, "<g><title>{}</title>", Escaped(&run.title));
        let end = at + run.cells;
        while at < end {
            let (row, column) = (at / columns, at % columns);
            let cells = (columns - column).min(end - at);
            let _ = write!(
                svg,
                r#"<rect x="{}" y="{}" width="{}" height="{}" {}/>"#,
                column * CELL,
                row * CELL,
                cells * CELL,
                CELL,
                run.fill.attributes()
            );
            at += cells;
        }
        svg.push_str("</g>");
    }
    // The borders of the cells, over all runs.
    let _ = write!(
        svg,
        r##"<rect width="100%" height="100%" fill="url(#cells)" pointer-events="none"/></svg>"##
    );
    Html(svg)
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_titles_are_text() {
        let parts = [(Fill::Cached, 0.25, "<b>".to_owned()), (Fill::Fresh, 0.75, String::new())];
        let svg = strip("strip", "a \"quoted\" <label>", &parts, 2, Some(0.5)).0;
        assert!(
            !svg.contains("<b>") && svg.contains("&lt;label&gt;") && svg.contains("x=\"25.000%\"")
        );
        let map = map("m", 4, &[Cells { fill: Fill::Used, cells: 6, title: "'".to_owned() }]).0;
        assert_eq!(
            map.matches("<rect").count(),
            3,
            "a run goes on in the next row, and the borders"
        );
        assert!(map.contains("viewBox=\"0 0 40 20\""));
    }

    #[test]
    fn columns_have_one_scale() {
        let column = |a, b| Column {
            title: String::new(),
            parts: vec![(Fill::Cached, a), (Fill::Fresh, b)],
        };
        let svg = columns("c", &[column(50.0, 50.0), column(0.0, 25.0)]).0;
        assert!(svg.contains("y=\"50.000%\"") && svg.contains("height=\"25.000%\""), "{svg}");
        assert!(!columns("none", &[]).0.contains("NaN"));
    }

    #[test]
    fn a_distribution_ends_at_all_and_its_axis_at_powers_of_ten() {
        let mut hits = Histogram::default();
        hits.add(Duration::from_millis(40));
        let mut misses = Histogram::default();
        [2, 3, 30].into_iter().for_each(|s| misses.add(Duration::from_secs(s)));
        let drawn = distribution("d", &hits, &misses).unwrap();
        let ticks: Vec<&str> = drawn.ticks.iter().map(|tick| tick.0.as_str()).collect();
        assert_eq!(ticks, ["10 ms", "100 ms", "1 s", "10 s", "100 s"]);
        assert_eq!(drawn.svg.0.matches(" 100,0\"").count(), 2);
        assert!(distribution("d", &Histogram::default(), &Histogram::default()).is_none());
    }
}
