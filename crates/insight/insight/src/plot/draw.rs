//! The drawing, through plotters' SVG backend alone: it needs no font and no other library.

use std::fmt::Display;

use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, Cross, PathElement, Polygon, Rectangle, Text, TriangleMarker};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontTransform, IntoFont, RGBColor, ShapeStyle, TextStyle};

use super::{Chart, Form, PlotError, Series};

/// A chart's size in pixels.
const WIDTH: i32 = 900;
const HEIGHT: i32 = 300;
/// The room around the plot: title and legend above, labels beside and below.
const LEFT: i32 = 80;
const RIGHT: i32 = 24;
const TOP: i32 = 58;
const BOTTOM: i32 = 52;

const TEXT: i32 = 13;
const TITLE: i32 = 16;
/// About how wide a character is, as a part of its height.
const CHARACTER: f64 = 0.6;
/// More points than this are drawn without markers.
const MARKED: usize = 60;

/// Text, axes and marks.
const GREY: RGBColor = RGBColor(0x76, 0x76, 0x76);
/// The series, in their order.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0x1a, 0x78, 0xd0),
    RGBColor(0xc2, 0x5c, 0x00),
    RGBColor(0x22, 0x86, 0x3a),
    RGBColor(0xa5, 0x58, 0xc8),
    RGBColor(0xd7, 0x3a, 0x49),
    GREY,
];
/// Their dashes: on and off, in pixels; the first is solid.
const DASHES: [&[i32]; 6] = [&[], &[9, 5], &[2, 4], &[12, 4, 2, 4], &[5, 3], &[16, 6]];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

pub(super) fn all(charts: &[&Chart]) -> Result<String, PlotError> {
    let mut text = String::new();
    {
        let count = i32::try_from(charts.len()).map_err(failed)?;
        let size = (WIDTH as u32, (HEIGHT * count) as u32);
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        for (row, chart) in (0..count).zip(charts) {
            Frame::new(chart, row * HEIGHT).draw(&area).map_err(failed)?;
        }
        area.present().map_err(failed)?;
    }
    Ok(text)
}

fn failed(error: impl Display) -> PlotError {
    PlotError::Draw(error.to_string())
}

/// A chart and where its values lie.
struct Frame<'a> {
    chart: &'a Chart,
    top: i32,
    x: (f64, f64),
    y: (f64, f64),
}

type Drawn = Result<(), plotters::drawing::DrawingAreaErrorKind<std::io::Error>>;

impl<'a> Frame<'a> {
    fn new(chart: &'a Chart, top: i32) -> Self {
        let bars = chart.series.iter().any(|series| series.form == Form::Bars);
        let marks = chart.marks.iter().map(|mark| mark.y);
        Frame {
            chart,
            top,
            x: chart.x.range(chart.points().map(|point| point.0), bars, true),
            y: chart.y.range(chart.points().map(|point| point.1).chain(marks), bars, false),
        }
    }

    fn left(&self) -> i32 {
        LEFT
    }

    fn right(&self) -> i32 {
        WIDTH - RIGHT
    }

    fn ceiling(&self) -> i32 {
        self.top + TOP
    }

    fn floor(&self) -> i32 {
        self.top + HEIGHT - BOTTOM
    }

    fn across(&self, x: f64) -> i32 {
        scaled(self.chart.x.place(x), self.x, self.left(), self.right())
    }

    fn up(&self, y: f64) -> i32 {
        scaled(self.chart.y.place(y), self.y, self.floor(), self.ceiling())
    }

    fn draw(&self, area: &Area<'_>) -> Drawn {
        text(area, &self.chart.title, (self.left(), self.top + 10), TITLE, HPos::Left, VPos::Top)?;
        self.legend(area)?;
        self.grid(area)?;
        for mark in &self.chart.marks {
            let at = self.up(mark.y);
            dashed(area, &[(self.left(), at), (self.right(), at)], GREY.stroke_width(1), &[4, 3])?;
            text(
                area,
                &mark.name,
                (self.right() - 4, at - 3),
                TEXT - 1,
                HPos::Right,
                VPos::Bottom,
            )?;
        }
        for (at, series) in self.chart.series.iter().enumerate() {
            self.series(area, at, series)?;
        }
        Ok(())
    }

    /// Names of the series in one line; those that have no room are left out.
    fn legend(&self, area: &Area<'_>) -> Drawn {
        let y = self.top + 42;
        let mut x = self.left();
        for (at, series) in self.chart.series.iter().enumerate() {
            let end = x + 36 + width(&series.name);
            if end > self.right() {
                break;
            }
            match series.form {
                Form::Bars => area.draw(&Rectangle::new(
                    [(x + 4, y - 5), (x + 24, y + 5)],
                    colour(at).filled(),
                ))?,
                Form::Points => marker(area, at, (x + 14, y))?,
                Form::Line | Form::Steps => {
                    dashed(area, &[(x, y), (x + 28, y)], colour(at).stroke_width(2), dashes(at))?;
                    if series.form == Form::Line {
                        marker(area, at, (x + 14, y))?;
                    }
                }
            }
            text(area, &series.name, (x + 34, y), TEXT, HPos::Left, VPos::Center)?;
            x = end + 22;
        }
        Ok(())
    }

    fn grid(&self, area: &Area<'_>) -> Drawn {
        let faint = GREY.mix(0.3).stroke_width(1);
        let (x_axis, y_axis) = (&self.chart.x, &self.chart.y);
        // A label needs its height, and room to be told from the next.
        for tick in y_axis.ticks(self.y, ((self.floor() - self.ceiling()) / 34) as usize) {
            let at = self.up(tick);
            line(area, &[(self.left(), at), (self.right(), at)], faint)?;
            text(area, &y_axis.show(tick), (self.left() - 8, at), TEXT, HPos::Right, VPos::Center)?;
        }
        let mut free = 0;
        for tick in x_axis.ticks(self.x, 12) {
            let at = self.across(tick);
            line(area, &[(at, self.floor()), (at, self.floor() + 4)], GREY.stroke_width(1))?;
            let label = x_axis.show(tick);
            let half = width(&label) / 2;
            if at - half >= free && at + half <= WIDTH {
                text(area, &label, (at, self.floor() + 8), TEXT, HPos::Center, VPos::Top)?;
                free = at + half + 10;
            }
        }
        let corners = [
            (self.left(), self.ceiling()),
            (self.left(), self.floor()),
            (self.right(), self.floor()),
        ];
        line(area, &corners, GREY.stroke_width(1))?;
        let middle = (self.left() + self.right()) / 2;
        text(area, x_axis.label(), (middle, self.floor() + 30), TEXT, HPos::Center, VPos::Top)?;
        let style = style(TEXT, HPos::Center, VPos::Top).transform(FontTransform::Rotate270);
        let at = (14, (self.floor() + self.ceiling()) / 2);
        area.draw(&Text::new(y_axis.label().to_owned(), at, style))
    }

    fn series(&self, area: &Area<'_>, at: usize, series: &Series) -> Drawn {
        let points: Vec<(i32, i32)> =
            self.chart.drawable(series).map(|(x, y)| (self.across(x), self.up(y))).collect();
        match series.form {
            Form::Bars => return self.bars(area, at, series),
            Form::Line => dashed(area, &points, colour(at).stroke_width(2), dashes(at))?,
            Form::Steps => {
                let corners: Vec<_> = points
                    .windows(2)
                    .flat_map(|two| [two[0], (two[1].0, two[0].1)])
                    .chain(points.last().copied())
                    .collect();
                return dashed(area, &corners, colour(at).stroke_width(2), dashes(at));
            }
            Form::Points => {}
        }
        if points.len() <= MARKED || series.form == Form::Points {
            points.iter().try_for_each(|point| marker(area, at, *point))?;
        }
        Ok(())
    }

    fn bars(&self, area: &Area<'_>, at: usize, series: &Series) -> Drawn {
        let points: Vec<(f64, f64)> = self.chart.drawable(series).collect();
        let nearest =
            points.windows(2).map(|two| self.across(two[1].0) - self.across(two[0].0)).min();
        let half = (nearest.unwrap_or(80) * 3 / 8).clamp(1, 24);
        for (x, y) in points {
            let (middle, end, zero) = (self.across(x), self.up(y), self.up(0.0));
            let corners = [(middle - half, end.min(zero)), (middle + half, end.max(zero))];
            let below = y < 0.0;
            let style = if below { colour(at).stroke_width(2) } else { colour(at).filled() };
            area.draw(&Rectangle::new(corners, style))?;
        }
        Ok(())
    }
}

fn scaled(value: f64, range: (f64, f64), start: i32, end: i32) -> i32 {
    let part = ((value - range.0) / (range.1 - range.0)).clamp(-0.05, 1.05);
    start + (part * f64::from(end - start)).round() as i32
}

fn colour(series: usize) -> RGBColor {
    COLOURS[series % COLOURS.len()]
}

fn dashes(series: usize) -> &'static [i32] {
    DASHES[series % DASHES.len()]
}

fn width(label: &str) -> i32 {
    (label.chars().count() as f64 * f64::from(TEXT) * CHARACTER).ceil() as i32
}

fn style(size: i32, across: HPos, up: VPos) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&GREY).pos(Pos::new(across, up))
}

fn text(area: &Area<'_>, words: &str, at: (i32, i32), size: i32, across: HPos, up: VPos) -> Drawn {
    area.draw(&Text::new(words.to_owned(), at, style(size, across, up)))
}

fn line(area: &Area<'_>, points: &[(i32, i32)], style: ShapeStyle) -> Drawn {
    area.draw(&PathElement::new(points.to_vec(), style))
}

/// A marker of the series' own form.
fn marker(area: &Area<'_>, series: usize, at: (i32, i32)) -> Drawn {
    let filled = colour(series).filled();
    match series % 4 {
        0 => area.draw(&Circle::new(at, 4, filled)),
        1 => area.draw(&TriangleMarker::new(at, 5, filled)),
        2 => area.draw(&Cross::new(at, 4, colour(series).stroke_width(2))),
        _ => {
            let (x, y) = at;
            area.draw(&Polygon::new([(x, y - 5), (x + 5, y), (x, y + 5), (x - 5, y)], filled))
        }
    }
}

/// A line in dashes: on and off in turn, in pixels along it.
fn dashed(area: &Area<'_>, points: &[(i32, i32)], style: ShapeStyle, pattern: &[i32]) -> Drawn {
    if pattern.is_empty() {
        return line(area, points, style);
    }
    let mut lengths = pattern.iter().cycle();
    let mut on = true;
    let mut left = f64::from(*lengths.next().unwrap_or(&1));
    let mut dash: Vec<(i32, i32)> = points.first().copied().into_iter().collect();
    for two in points.windows(2) {
        let (from, to) = (two[0], two[1]);
        let (dx, dy) = (f64::from(to.0 - from.0), f64::from(to.1 - from.1));
        let length = dx.hypot(dy);
        let mut done = 0.0;
        while length - done > left {
            done += left;
            let at = (
                from.0 + (dx * done / length).round() as i32,
                from.1 + (dy * done / length).round() as i32,
            );
            if on {
                dash.push(at);
                line(area, &std::mem::take(&mut dash), style)?;
            }
            on = !on;
            dash = vec![at];
            left = f64::from(*lengths.next().unwrap_or(&1));
        }
        left -= length - done;
        if on {
            dash.push(to);
        }
    }
    if on && dash.len() > 1 {
        line(area, &dash, style)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WCAG's contrast of two colours.
    fn contrast(a: RGBColor, b: RGBColor) -> f64 {
        let luminance = |RGBColor(r, g, b): RGBColor| {
            let linear = |c: u8| {
                let c = f64::from(c) / 255.0;
                if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)
        };
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    /// On white and on a dark page: at least 4 to 1 for everything, where WCAG 2.2 asks for 3 of graphics and of
    /// large text, and 4.5 of small text, which no colour reaches on both this dark and this light.
    #[test]
    fn colours_stand_out_on_light_and_dark() {
        for colour in COLOURS.into_iter().chain([GREY]) {
            for page in [RGBColor(255, 255, 255), RGBColor(0x0d, 0x11, 0x17)] {
                let found = contrast(colour, page);
                assert!(found >= 4.0, "{colour:?} on {page:?}: {found}");
            }
        }
    }

    #[test]
    fn dashes_go_round_corners() {
        let mut drawn = String::new();
        {
            let area = SVGBackend::with_string(&mut drawn, (100, 100)).into_drawing_area();
            let corner = [(0, 0), (7, 0), (7, 20)];
            assert!(dashed(&area, &corner, GREY.stroke_width(1), &[10, 5]).is_ok());
            assert!(area.present().is_ok());
        }
        assert!(drawn.contains("points=\"0,0 7,0 7,3 \""), "{drawn}");
        assert!(drawn.contains("points=\"7,8 7,18 \""), "{drawn}");
    }
}
