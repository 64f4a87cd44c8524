//! The content of charts.

use super::axis::Axis;
use super::palette::Color;

/// A chart with its text alternative: one or several panels over one horizontal axis.
pub(crate) struct Chart {
    /// Unique on the page.
    pub(crate) id: String,
    /// The subject, with the unit of the vertical axis, which has no other title.
    pub(crate) title: String,
    /// The content of the chart in sentences, for readers who cannot see it and for quick reading.
    pub(crate) alternative: String,
    pub(crate) x: Axis,
    pub(crate) panels: Vec<Panel>,
    /// The pointer picks the values of all series at one place of the horizontal axis, not the
    /// nearest point.
    pub(crate) by_column: bool,
}

/// One plot of a chart.
pub(crate) struct Panel {
    /// The subject, where the chart has several panels.
    pub(crate) title: Option<String>,
    pub(crate) y: Axis,
    /// Height of the plot in pixels.
    pub(crate) height: f64,
    pub(crate) series: Vec<Series>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) bands: Vec<Band>,
}

/// One series of points with a name in the legend.
pub(crate) struct Series {
    pub(super) name: String,
    pub(super) color: Color,
    pub(super) stroke: Option<Stroke>,
    pub(super) mark: Option<Mark>,
    pub(super) is_filled: bool,
    pub(super) in_legend: bool,
    pub(super) points: Vec<Point>,
}

/// One point of a series.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(super) x: f64,
    /// `None` leaves a gap in the line.
    pub(super) y: Option<f64>,
    /// Lines of text for the pointer; empty for a point that it passes over.
    pub(super) hover: String,
    /// The ends of an interval around `y`.
    pub(super) interval: Option<[f64; 2]>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Stroke {
    pub(super) width: f64,
    pub(super) dash: Dashes,
}

/// The dashes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dashes {
    Solid,
    Dotted,
    Short,
    Long,
}

/// The shape of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Circle,
    Cross,
    Diamond,
    Square,
}

/// A straight line across a whole panel, with a word beside it.
pub(crate) struct Rule {
    pub(super) at: Across,
    pub(super) color: Color,
    pub(super) dash: Dashes,
    pub(super) label: String,
}

/// The place of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Across {
    /// From bottom to top.
    X(f64),
    /// From left to right.
    Y(f64),
}

/// A range of the horizontal axis that is shaded.
pub(crate) struct Band {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) color: Color,
}

impl Point {
    /// A point with a text for the pointer.
    pub(crate) fn new(x: f64, y: Option<f64>, hover: impl Into<String>) -> Self {
        Self { x, y, hover: hover.into(), interval: None }
    }

    /// The same with an interval around it.
    pub(crate) fn within(self, interval: [f64; 2]) -> Self {
        Self { interval: Some(interval), ..self }
    }
}

impl Series {
    /// A line through points.
    pub(crate) fn line(name: impl Into<String>, color: Color, width: f64, dash: Dashes, points: Vec<Point>) -> Self {
        let stroke = Some(Stroke { width, dash });
        Self { name: name.into(), color, stroke, mark: None, is_filled: false, in_legend: true, points }
    }

    /// Points without a line.
    pub(crate) fn marks(name: impl Into<String>, color: Color, mark: Mark, points: Vec<Point>) -> Self {
        let mark = Some(mark);
        Self { name: name.into(), color, stroke: None, mark, is_filled: false, in_legend: true, points }
    }

    /// The same line with its points marked.
    pub(crate) fn marked(self, mark: Mark) -> Self {
        Self { mark: Some(mark), ..self }
    }

    /// The same line with the area below it filled.
    pub(crate) fn filled(self) -> Self {
        Self { is_filled: true, ..self }
    }

    /// The same series without a place in the legend.
    pub(crate) fn unlisted(self) -> Self {
        Self { in_legend: false, ..self }
    }
}

impl Panel {
    /// A panel without a title.
    pub(crate) fn new(y: Axis, height: f64, series: Vec<Series>) -> Self {
        Self { title: None, y, height, series, rules: Vec::new(), bands: Vec::new() }
    }

    /// The same panel with a title.
    pub(crate) fn titled(self, title: impl Into<String>) -> Self {
        Self { title: Some(title.into()), ..self }
    }
}

impl Rule {
    /// A line with a label, which may be empty.
    pub(crate) fn new(at: Across, color: Color, dash: Dashes, label: impl Into<String>) -> Self {
        Self { at, color, dash, label: label.into() }
    }
}

impl Chart {
    /// A chart of one panel whose pointer picks single points.
    pub(crate) fn new(id: impl Into<String>, title: impl Into<String>, x: Axis, panel: Panel) -> Self {
        let (id, title) = (id.into(), title.into());
        Self { id, title, alternative: String::new(), x, panels: vec![panel], by_column: false }
    }

    /// The same chart in words.
    pub(crate) fn in_words(self, alternative: impl Into<String>) -> Self {
        Self { alternative: alternative.into(), ..self }
    }
}
