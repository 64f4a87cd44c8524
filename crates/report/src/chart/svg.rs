//! The drawing of a chart.
//!
//! Coordinates are those of the `viewBox`, whose width depends on the form only; the page scales
//! it to the place that there is.

use std::fmt::Write;

use maud::{Markup, PreEscaped, html};

use super::model::{Across, Band, Chart, Dashes, Mark, Panel, Point, Rule, Series};
use super::palette::{self, Color};

/// The places that a chart is drawn for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The whole width of the page.
    Wide,
    /// Half of the page's width, or a tablet.
    Half,
    /// A telephone.
    Narrow,
    /// A file of its own, with title and words.
    File,
}

const FONT: f64 = 12.5;
const TITLE_FONT: f64 = 16.0;
const LINE_HEIGHT: f64 = 20.0;
const RIGHT: f64 = 16.0;
const LEGEND_SAMPLE: f64 = 24.0;

impl Form {
    fn width(self) -> f64 {
        match self {
            Self::Wide | Self::File => 980.0,
            Self::Half => 560.0,
            Self::Narrow => 370.0,
        }
    }

    fn class(self) -> &'static str {
        match self {
            Self::Wide => "wide",
            Self::Half => "half",
            Self::Narrow => "narrow",
            Self::File => "file",
        }
    }
}

/// The rectangle of a panel's plot.
#[derive(Clone, Copy, Debug)]
struct Plot {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

impl Chart {
    /// The chart as one SVG element.
    pub(super) fn svg(&self, form: Form) -> Markup {
        let legend = Legend::of(self, form);
        let head = if form == Form::File { 40.0 } else { 0.0 };
        let mut bottom = head + legend.height;
        let mut plots = Vec::new();
        for panel in &self.panels {
            let gap = if plots.is_empty() { 0.0 } else { 12.0 };
            let top = bottom + gap + if panel.title.is_some() { LINE_HEIGHT + 6.0 } else { 10.0 };
            let plot = Plot { left: self.left(), top, width: form.width() - self.left() - RIGHT, height: panel.height };
            bottom = top + plot.height;
            plots.push(plot);
        }
        let height = bottom + LINE_HEIGHT + 4.0 + if self.x.title.is_some() { LINE_HEIGHT } else { 4.0 };
        let panels: Vec<String> = plots
            .iter()
            .map(|plot| {
                format!("{} {} {} {}", short(plot.left), short(plot.top), short(plot.width), short(plot.height))
            })
            .collect();
        let is_file = form == Form::File;
        html! {
            svg xmlns=[is_file.then_some("http://www.w3.org/2000/svg")] class=(form.class())
                viewBox=(format!("0 0 {} {}", form.width(), short(height))) width=[is_file.then_some(form.width())]
                height=[is_file.then(|| short(height))] data-panels=[(!is_file).then(|| panels.join(";"))]
                aria-hidden=[(!is_file).then_some("true")] role=[is_file.then_some("img")]
                font-size=(FONT) font-family=[is_file.then_some("system-ui, Helvetica, Arial, sans-serif")] {
                @if is_file {
                    title { (self.title) }
                    desc { (self.alternative) }
                    style { (PreEscaped(palette::file_style())) (PreEscaped(FILE_STYLE)) }
                    rect class="f-paper" width="100%" height="100%" {}
                    text class="f-ink" x="16" y="28" font-size=(TITLE_FONT) font-weight="600" { (self.title) }
                }
                (legend.draw(head))
                @for (panel, plot) in self.panels.iter().zip(&plots) { (self.panel(panel, *plot)) }
                @if let Some(plot) = plots.last() { (self.x_labels(*plot, form)) }
            }
        }
    }

    /// Room for the widest label of a vertical axis.
    fn left(&self) -> f64 {
        let labels = self.panels.iter().flat_map(|panel| panel.y.ticks(y_ticks(panel.height)));
        labels.map(|(_, text)| text_width(&text)).fold(24.0, f64::max) + 14.0
    }

    fn panel(&self, panel: &Panel, plot: Plot) -> Markup {
        let right = plot.left + plot.width;
        html! {
            @if let Some(title) = &panel.title {
                text class="f-muted" x=(short(plot.left)) y=(short(plot.top - 8.0)) { (title) }
            }
            @for (value, label) in panel.y.ticks(y_ticks(plot.height)) {
                @let y = plot.y(panel, value);
                line class="s-rule" x1=(short(plot.left)) x2=(short(right)) y1=(short(y)) y2=(short(y)) {}
                text class="f-muted" x=(short(plot.left - 8.0)) y=(short(y + 4.0)) text-anchor="end" { (label) }
            }
            // Parts outside the axes are cut off.
            svg x=(short(plot.left)) y=(short(plot.top)) width=(short(plot.width)) height=(short(plot.height)) overflow="hidden" {
                @for band in &panel.bands { (self.band(band, plot)) }
                @for rule in &panel.rules { (self.rule_line(rule, panel, plot)) }
                @for series in &panel.series { (self.line(series, panel, plot)) }
            }
            @for series in &panel.series { (self.marks(series, panel, plot)) }
            (self.rule_labels(panel, plot))
        }
    }

    fn band(&self, band: &Band, plot: Plot) -> Markup {
        let (from, to) = (self.x.place(band.from) * plot.width, self.x.place(band.to) * plot.width);
        html! {
            rect class={ "f-" (band.color.name()) } fill-opacity="0.14" x=(short(from)) y="0" width=(short((to - from).max(2.0)))
                height=(short(plot.height)) {}
        }
    }

    fn rule_line(&self, rule: &Rule, panel: &Panel, plot: Plot) -> Markup {
        let [x1, y1, x2, y2] = match rule.at {
            Across::X(x) => {
                let x = self.x.place(x) * plot.width;
                [x, 0.0, x, plot.height]
            }
            Across::Y(y) => {
                let y = (1.0 - panel.y.place(y)) * plot.height;
                [0.0, y, plot.width, y]
            }
        };
        html! {
            line class={ "s-" (rule.color.name()) } x1=(short(x1)) y1=(short(y1)) x2=(short(x2)) y2=(short(y2)) stroke-width="1.5"
                stroke-dasharray=[rule.dash.pattern(1.5)] {}
        }
    }

    /// Labels of vertical lines stand in rows below each other, since the lines may lie close
    /// together, each on the side of its line where there is room.
    fn rule_labels(&self, panel: &Panel, plot: Plot) -> Markup {
        let mut row = 0.0;
        let mut labels = Vec::new();
        for rule in panel.rules.iter().filter(|rule| !rule.label.is_empty()) {
            let (x, y, anchor) = match rule.at {
                Across::X(x) => {
                    let place = self.x.place(x);
                    if !is_on_axis(place) {
                        continue;
                    }
                    row += 1.0;
                    let (shift, anchor) = if place > 0.5 { (-6.0, "end") } else { (6.0, "start") };
                    (plot.left + place * plot.width + shift, plot.top + 18.0 * row - 4.0, anchor)
                }
                Across::Y(y) => {
                    // A label stays in its plot, wherever its line would be.
                    let y = plot.y(panel, y).clamp(plot.top, plot.top + plot.height);
                    (plot.left + 6.0, if y < plot.top + 18.0 { y + 16.0 } else { y - 6.0 }, "start")
                }
            };
            let beyond = match rule.at {
                Across::Y(y) if panel.y.place(y) > AXIS_END => " ↑",
                Across::Y(y) if panel.y.place(y) < -AXIS_MARGIN => " ↓",
                _ => "",
            };
            labels.push(html! {
                text class={ "halo f-" (rule.color.name()) } x=(short(x)) y=(short(y)) text-anchor=(anchor) {
                    (rule.label) (beyond)
                }
            });
        }
        html! { @for label in labels { (label) } }
    }

    fn line(&self, series: &Series, panel: &Panel, plot: Plot) -> Markup {
        let Some(stroke) = series.stroke else { return html! {} };
        let mut path = String::new();
        let mut area = String::new();
        for run in series.points.split(|point| !is_drawn(point)).filter(|run| !run.is_empty()) {
            let mut ends = [0.0; 2];
            for (position, point) in run.iter().enumerate() {
                let x = self.x.place(point.x) * plot.width;
                let y = (1.0 - panel.y.place(point.y.unwrap_or(0.0))) * plot.height;
                ends[usize::from(position > 0)] = x;
                // Writing to a string cannot fail.
                let _ = write!(path, "{}{} {}", if position == 0 { "M" } else { "L" }, short(x), short(y));
                let _ = write!(area, "{}{} {}", if position == 0 { "M" } else { "L" }, short(x), short(y));
            }
            let _ =
                write!(area, "L{} {}L{} {}Z", short(ends[1]), short(plot.height), short(ends[0]), short(plot.height));
        }
        let color = series.color.name();
        html! {
            @if series.is_filled { path class={ "f-" (color) } fill-opacity="0.13" d=(area) {} }
            path class={ "s-" (color) } fill="none" stroke-width=(stroke.width) stroke-linejoin="round"
                stroke-dasharray=[stroke.dash.pattern(stroke.width)] d=(path) {}
        }
    }

    fn marks(&self, series: &Series, panel: &Panel, plot: Plot) -> Markup {
        let place = |point: &Point| {
            let (x, y) = (self.x.place(point.x), panel.y.place(point.y.unwrap_or(0.0)));
            let is_inside = [x, y].into_iter().all(is_on_axis);
            is_inside.then_some((plot.left + x * plot.width, plot.top + (1.0 - y) * plot.height))
        };
        let drawn = || series.points.iter().filter(|point| is_drawn(point));
        html! {
            @for point in drawn() { @if let (Some((x, _)), Some(interval)) = (place(point), point.interval) {
                @let [low, high] = interval.map(|value| plot.y(panel, value).clamp(plot.top, plot.top + plot.height));
                line class={ "s-" (series.color.name()) } x1=(short(x)) x2=(short(x)) y1=(short(low)) y2=(short(high)) stroke-width="1.5" {}
            } }
            @if let Some(mark) = series.mark {
                @for point in drawn() { @if let Some((x, y)) = place(point) { (mark.draw(x, y, series.color)) } }
            }
        }
    }

    /// Labels below the last panel. One that would run into the one before it is left out.
    fn x_labels(&self, plot: Plot, form: Form) -> Markup {
        let baseline = plot.top + plot.height;
        let mut free_from = 0.0;
        let mut labels = Vec::new();
        for (value, text) in self.x.ticks((plot.width / 100.0).ceil() as usize) {
            let half = text_width(&text) / 2.0;
            let tick = plot.left + self.x.place(value) * plot.width;
            let x = tick.min(form.width() - half - 2.0);
            if x - half < free_from || tick > plot.left + plot.width + 1.0 {
                continue;
            }
            free_from = x + half + 8.0;
            labels.push((tick, x, text));
        }
        html! {
            line class="s-muted" x1=(short(plot.left)) x2=(short(plot.left + plot.width)) y1=(short(baseline)) y2=(short(baseline)) {}
            @for (tick, x, text) in labels {
                line class="s-muted" x1=(short(tick)) x2=(short(tick)) y1=(short(baseline)) y2=(short(baseline + 4.0)) {}
                text class="f-muted" x=(short(x)) y=(short(baseline + 18.0)) text-anchor="middle" { (text) }
            }
            @if let Some(title) = &self.x.title {
                text class="f-muted" x=(short(plot.left + plot.width / 2.0)) y=(short(baseline + 38.0)) text-anchor="middle" { (title) }
            }
        }
    }
}

/// The legend above the plots, in as many rows as its entries need.
struct Legend<'a> {
    entries: Vec<(f64, f64, &'a Series)>,
    height: f64,
}

impl<'a> Legend<'a> {
    fn of(chart: &'a Chart, form: Form) -> Self {
        let listed = chart.panels.iter().flat_map(|panel| &panel.series).filter(|series| series.in_legend);
        let start = chart.left();
        let (mut x, mut row) = (start, 0.0);
        let mut entries = Vec::new();
        for series in listed {
            let width = LEGEND_SAMPLE + 6.0 + text_width(&series.name) + 18.0;
            if x > start && x + width > form.width() {
                (x, row) = (start, row + 1.0);
            }
            entries.push((x, row, series));
            x += width;
        }
        let height = if entries.is_empty() { 0.0 } else { (row + 1.0) * LINE_HEIGHT };
        Self { entries, height }
    }

    fn draw(&self, top: f64) -> Markup {
        html! {
            @for (x, row, series) in &self.entries {
                @let y = top + row * LINE_HEIGHT + LINE_HEIGHT / 2.0;
                @if let Some(stroke) = series.stroke {
                    line class={ "s-" (series.color.name()) } x1=(short(*x)) x2=(short(x + LEGEND_SAMPLE)) y1=(short(y)) y2=(short(y))
                        stroke-width=(stroke.width) stroke-dasharray=[stroke.dash.pattern(stroke.width)] {}
                }
                @if let Some(mark) = series.mark { (mark.draw(x + LEGEND_SAMPLE / 2.0, y, series.color)) }
                text class="f-ink" x=(short(x + LEGEND_SAMPLE + 6.0)) y=(short(y + 4.0)) { (series.name) }
            }
        }
    }
}

impl Plot {
    fn y(&self, panel: &Panel, value: f64) -> f64 {
        self.top + (1.0 - panel.y.place(value)) * self.height
    }
}

impl Dashes {
    /// The pattern for a line of this width.
    fn pattern(self, width: f64) -> Option<String> {
        let lengths: &[f64] = match self {
            Self::Solid => return None,
            Self::Dotted => &[1.0, 2.0],
            Self::Short => &[4.0, 2.5],
            Self::Long => &[8.0, 3.0],
        };
        Some(lengths.iter().map(|length| short(length * width.max(1.0))).collect::<Vec<_>>().join(" "))
    }
}

impl Mark {
    fn draw(self, x: f64, y: f64, color: Color) -> Markup {
        let name = color.name();
        let at = |dx: f64, dy: f64| format!("{} {}", short(x + dx), short(y + dy));
        match self {
            Self::Circle => html! { circle class={ "f-" (name) } cx=(short(x)) cy=(short(y)) r="4" {} },
            Self::Square => {
                html! { rect class={ "f-" (name) } x=(short(x - 2.5)) y=(short(y - 2.5)) width="5" height="5" {} }
            }
            Self::Cross => {
                let path = format!("M{}L{}M{}L{}", at(-3.5, -3.5), at(3.5, 3.5), at(-3.5, 3.5), at(3.5, -3.5));
                html! { path class={ "s-" (name) } stroke-width="2.5" d=(path) {} }
            }
            Self::Diamond => {
                let path = format!("M{}L{}L{}L{}Z", at(0.0, -5.0), at(5.0, 0.0), at(0.0, 5.0), at(-5.0, 0.0));
                html! { path class={ "f-paper s-" (name) } stroke-width="1.75" d=(path) {} }
            }
        }
    }
}

const FILE_STYLE: &str = ".halo{paint-order:stroke;stroke:#fdfdfb;stroke-width:4px;stroke-linejoin:round}\
                          @media screen and (prefers-color-scheme:dark){.halo{stroke:#16181b}}";

/// By how much of an axis a place may lie beyond its ends through rounding.
const AXIS_MARGIN: f64 = 0.001;
const AXIS_END: f64 = 1.0 + AXIS_MARGIN;

fn is_on_axis(place: f64) -> bool {
    (-AXIS_MARGIN..=AXIS_END).contains(&place)
}

fn is_drawn(point: &Point) -> bool {
    point.x.is_finite() && point.y.is_some_and(f64::is_finite)
}

fn y_ticks(height: f64) -> usize {
    (height / 52.0).round().max(2.0) as usize
}

/// About the width of a text: what draws it knows the font, this module does not.
fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * FONT * 0.55
}

/// A coordinate to a tenth of a pixel.
fn short(number: f64) -> String {
    let text = format!("{number:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}
