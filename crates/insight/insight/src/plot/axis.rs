//! Axes: what they are labelled with, and where their ticks are.

use jiff::ToSpan;
use jiff::civil::Date;

/// An axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    label: String,
    logarithmic: bool,
    format: Format,
    /// A range that is always shown.
    least: Option<(f64, f64)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Format {
    Number,
    /// A share of one.
    Percent,
    /// Days since a date.
    Day(Date),
}

impl Axis {
    /// Numbers. The label names their unit.
    pub fn new(label: impl Into<String>) -> Self {
        Axis { label: label.into(), logarithmic: false, format: Format::Number, least: None }
    }

    /// Shares in [0, 1], shown as percents from 0 to 100.
    pub fn percent(label: impl Into<String>) -> Self {
        Axis { format: Format::Percent, least: Some((0.0, 1.0)), ..Axis::new(label) }
    }

    /// Days since a date.
    pub fn days(label: impl Into<String>, from: Date) -> Self {
        Axis { format: Format::Day(from), ..Axis::new(label) }
    }

    /// On a logarithmic scale: only numbers above zero.
    #[must_use]
    pub fn logarithmic(self) -> Self {
        Axis { logarithmic: true, ..self }
    }

    /// With a range that is always shown.
    #[must_use]
    pub fn from_to(self, from: f64, to: f64) -> Self {
        Axis { least: Some((from, to)), ..self }
    }

    pub(super) fn label(&self) -> &str {
        &self.label
    }

    pub(super) fn takes(&self, value: f64) -> bool {
        // Beyond this, sums of two numbers could overflow.
        value.is_finite() && value.abs() < 1e150 && (!self.logarithmic || value > 1e-150)
    }

    /// Where a value lies on the scale.
    pub(super) fn place(&self, value: f64) -> f64 {
        if self.logarithmic { value.max(1e-150).log10() } else { value }
    }

    /// The range of some values on the scale; with room for bars, from zero and to both sides.
    pub(super) fn range(
        &self,
        values: impl Iterator<Item = f64>,
        bars: bool,
        is_x: bool,
    ) -> (f64, f64) {
        let least = self.least.into_iter().flat_map(|(from, to)| [from, to]);
        let zero = (bars && !is_x).then_some(0.0);
        let places =
            values.chain(least).chain(zero).filter(|v| self.takes(*v)).map(|v| self.place(v));
        let (low, high) = places.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), place| {
            (low.min(place), high.max(place))
        });
        if !low.is_finite() || !high.is_finite() {
            return (0.0, 1.0);
        }
        let days = matches!(self.format, Format::Day(_));
        if days || (bars && is_x) {
            return (low - 0.6, high + 0.6);
        }
        let room = (high - low) * 0.04;
        if room <= f64::EPSILON * high.abs().max(low.abs()) {
            let half = if self.logarithmic { 0.5 } else { (high.abs() * 0.5).max(0.5) };
            return (low - half, high + half);
        }
        match self.least {
            // Percents end at 100, not a little above.
            Some((from, to)) if self.place(from) <= low && self.place(to) >= high => (low, high),
            _ if bars && low == 0.0 => (0.0, high + room),
            _ if bars && high == 0.0 => (low - room, 0.0),
            _ => (low - room, high + room),
        }
    }

    /// Values to label in a range, ascending: at most some `most`.
    pub(super) fn ticks(&self, range: (f64, f64), most: usize) -> Vec<f64> {
        let (low, high) = range;
        if self.logarithmic {
            return decades(low, high, most);
        }
        let whole = matches!(self.format, Format::Day(_));
        let step = nice((high - low) / most.max(1) as f64, whole);
        let first = (low / step).ceil();
        (0..=most * 2)
            .map(|n| (first + n as f64) * step)
            .take_while(|tick| *tick <= high * (1.0 + 1e-12))
            .collect()
    }

    /// A value as a label.
    pub(super) fn show(&self, value: f64) -> String {
        match self.format {
            Format::Percent => format!("{}%", trimmed(value * 100.0, 1)),
            Format::Day(from) => from
                .checked_add((value.round() as i64).days())
                .map_or_else(|_| String::new(), |day| day.to_string()),
            Format::Number => number(value),
        }
    }
}

/// The smallest of 1, 2 and 5 times a power of ten that is at least so large.
fn nice(step: f64, whole: bool) -> f64 {
    let step = if whole { step.max(1.0) } else { step.max(1e-300) };
    let power = 10f64.powf(step.log10().floor());
    let factor =
        [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= step * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

/// Powers of ten, with 2 and 5 times them where there are few, or only each third where there are many.
fn decades(low: f64, high: f64, most: usize) -> Vec<f64> {
    let span = high - low;
    let every = (span / most.max(1) as f64).ceil().max(1.0) as i32;
    let factors: &[f64] = if span * 3.0 <= most as f64 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let (first, last) = (low.floor() as i32, high.ceil() as i32);
    (first..=last)
        .filter(|power| power.rem_euclid(every) == 0)
        .flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)))
        .filter(|tick| (low - 1e-9..=high + 1e-9).contains(&tick.log10()))
        .collect()
}

fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size == 0.0 => "0".to_owned(),
        _ if !(1e-6..1e15).contains(&size) => format!("{value:.0e}"),
        _ if size >= 1e9 => format!("{}G", trimmed(value / 1e9, 2)),
        _ if size >= 1e6 => format!("{}M", trimmed(value / 1e6, 2)),
        _ if size >= 1e4 => format!("{}k", trimmed(value / 1e3, 2)),
        _ if size >= 1.0 => trimmed(value, 2),
        _ => trimmed(value, 6),
    }
}

/// So many places after the point, without zeros at the end.
fn trimmed(value: f64, places: usize) -> String {
    let text = format!("{value:.places$}");
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        let shown = |axis: &Axis, range, most| -> Vec<String> {
            axis.ticks(range, most).into_iter().map(|tick| axis.show(tick)).collect()
        };
        assert_eq!(
            shown(&Axis::percent("p"), (0.0, 1.0), 5),
            ["0%", "20%", "40%", "60%", "80%", "100%"]
        );
        assert_eq!(shown(&Axis::new("n"), (-3.2, 9.1), 5), ["0", "5"]);
        assert_eq!(
            shown(&Axis::new("n").logarithmic(), (-2.1, 1.2), 12),
            ["0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5", "10"]
        );
        assert_eq!(
            shown(&Axis::new("n").logarithmic(), (-2.1, 5.2), 8),
            ["0.01", "0.1", "1", "10", "100", "1000", "10k", "100k"]
        );
        let days = Axis::days("d", jiff::civil::date(2026, 11, 29));
        assert_eq!(shown(&days, (-0.6, 2.6), 8), ["2026-11-29", "2026-11-30", "2026-12-01"]);
    }

    #[test]
    fn numbers_are_short() {
        let shown: Vec<String> = [0.0, 0.05, 1.5, 1000.0, 30_745.0, 2.5e6, 3e9, 1e20, -4.0]
            .into_iter()
            .map(number)
            .collect();
        assert_eq!(shown, ["0", "0.05", "1.5", "1000", "30.75k", "2.5M", "3G", "1e20", "-4"]);
    }
}
