//! The parts that all charts of the page share: embedding, axes, and text.
//!
//! A chart carries its structure only. Colours are names of the page's style sheet, written as in
//! CSS (`var(--pass)`); the page's script fills them in, so that a chart follows the reader's theme
//! and print without a second palette.

use maud::{Markup, PreEscaped, html};
use plotly::common::{Anchor, DashType, Font, HoverInfo, Line, LineShape, Mode, Orientation};
use plotly::layout::{Annotation, Axis, AxisType, HoverMode, Layout, Legend, Margin, Shape, ShapeLayer, ShapeLine};
use plotly::layout::{ShapeType, TicksDirection};
use plotly::{Scatter, Trace};
use serde::Serialize;

use super::words;

/// A chart with its text alternative.
pub(super) struct Chart {
    /// Unique on the page.
    pub(super) id: &'static str,
    /// The subject, with the unit of the vertical axis, which has no other title.
    pub(super) title: String,
    /// The content of the chart in sentences, for readers who cannot see it and for quick reading.
    pub(super) alternative: String,
    pub(super) height_px: u32,
    pub(super) traces: Vec<Box<dyn Trace>>,
    pub(super) layout: Layout,
}

impl Chart {
    /// The figure for the page.
    pub(super) fn figure(&self) -> Markup {
        #[derive(Serialize)]
        struct Specification<'a> {
            data: &'a [Box<dyn Trace>],
            layout: &'a Layout,
        }
        let specification = Specification { data: &self.traces, layout: &self.layout };
        let caption_id = format!("{}-in-words", self.id);
        html! {
            figure.chart id=(self.id) {
                h3 { (self.title) }
                div.plot role="img" aria-label=(self.title) aria-describedby=(caption_id) style=(format!("height:{}px", self.height_px)) {}
                script type="application/json" { (json_for_script(&specification)) }
                figcaption id=(caption_id) { (words::unbroken(&self.alternative)) }
            }
        }
    }
}

/// `value` as JSON that may stand inside a `<script>` element.
///
/// In JSON these characters occur within strings only, where an escape means the same. Without it,
/// a string could close the element.
pub(super) fn json_for_script(value: &impl Serialize) -> Markup {
    let json = serde_json::to_string(value).expect("documents and charts have nothing that JSON lacks");
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => safe.push_str(&format!("\\u{:04x}", u32::from(c))),
            _ => safe.push(c),
        }
    }
    PreEscaped(safe)
}

/// A line with a text in `hover` for each of its points.
pub(super) fn line(
    name: &str,
    x: Vec<f64>,
    y: Vec<Option<f64>>,
    hover: Vec<String>,
    style: Line,
) -> Box<Scatter<f64, Option<f64>>> {
    Scatter::new(x, y)
        .name(plain(name))
        .mode(Mode::Lines)
        .line(style)
        .hover_text_array(hover)
        .hover_info(HoverInfo::Text)
}

/// The style of a line.
pub(super) fn stroke(color: &'static str, width: f64, dash: DashType) -> Line {
    Line::new().color(color).width(width).dash(dash).shape(LineShape::Linear)
}

/// Text from outside for a place where the chart library would take it for markup.
pub(super) fn plain(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Lines of a hover label. Each is wrapped, because the library would cut it off at the edge of the
/// chart.
pub(super) fn hover_lines(lines: &[String]) -> String {
    const WIDTH: usize = 56;
    let mut wrapped: Vec<String> = Vec::new();
    for line in lines {
        let mut current = String::new();
        for word in line.split_whitespace() {
            let joined = current.chars().count() + 1 + word.chars().count();
            if !current.is_empty() && joined > WIDTH {
                wrapped.push(std::mem::take(&mut current));
            }
            if !current.is_empty() {
                current.push(' ');
            }
            current.push_str(word);
        }
        wrapped.push(current);
    }
    wrapped.iter().map(|line| plain(line)).collect::<Vec<_>>().join("<br>")
}

/// The layout that all charts start from.
pub(super) fn layout() -> Layout {
    let legend = Legend::new().orientation(Orientation::Horizontal).x(0.0).x_anchor(Anchor::Left).y(1.02);
    Layout::new()
        .margin(Margin::new().left(8).right(12).top(8).bottom(8))
        .hover_mode(HoverMode::Closest)
        .legend(legend.y_anchor(Anchor::Bottom))
}

/// An axis of plain numbers from `low` to `high`.
pub(super) fn linear_axis(low: f64, high: f64) -> Axis {
    let high = if high > low { high } else { low + 1.0 };
    axis().range(vec![low, high]).separate_thousands(true).tick_format(",~r")
}

/// An axis of counts or rates up to `high`, with room for a line that runs along zero.
pub(super) fn axis_from_zero(high: f64) -> Axis {
    let high = if high > 0.0 { high } else { 1.0 };
    linear_axis(-0.02 * high, high)
}

/// A logarithmic axis of times in microseconds that holds all of `us`, labelled in units.
pub(super) fn time_axis(us: impl IntoIterator<Item = f64>) -> Axis {
    let scale = TimeScale::of(us);
    axis()
        .type_(AxisType::Log)
        .range(vec![scale.low.log10(), scale.high.log10()])
        .tick_values(scale.ticks.clone())
        .tick_text(scale.ticks.iter().map(|us| words::round_time_us(*us)).collect())
}

/// The shortest time that a logarithmic axis shows. The exchanged histograms count in microseconds,
/// so a zero there is any time below one; it is drawn at the edge instead of being lost.
const FLOOR_US: f64 = 1.0;

/// A time as far as a logarithmic axis can show it.
pub(super) fn floored_us(us: f64) -> f64 {
    us.max(FLOOR_US)
}

/// The ends and ticks of a logarithmic time axis, all of them 1, 2 or 5 times a power of ten.
#[derive(Debug, PartialEq)]
struct TimeScale {
    low: f64,
    high: f64,
    ticks: Vec<f64>,
}

impl TimeScale {
    fn of(us: impl IntoIterator<Item = f64>) -> Self {
        /// Up to one hour, the longest time that histograms resolve.
        const DECADES: i32 = 10;
        /// Beyond so many steps only powers of ten are labelled.
        const STEPS_LABELLED: usize = 8;
        let steps: Vec<f64> =
            (0..DECADES).flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(decade))).collect();
        let longest = steps[steps.len() - 1];
        let shown = us.into_iter().filter(|us| us.is_finite()).map(|us| floored_us(us).min(longest));
        let (least, most) = shown.fold((longest, FLOOR_US), |(least, most), us| (least.min(us), most.max(us)));
        let least = least.min(most);
        // Two steps apart at least, so that the axis has a scale.
        let low = steps.iter().rposition(|step| *step <= least).unwrap_or(0).min(steps.len() - 3);
        let high = steps.iter().position(|step| *step >= most).unwrap_or(steps.len() - 1).max(low + 2);
        let within = &steps[low..=high];
        let every_step = within.len() <= STEPS_LABELLED;
        let ticks = within.iter().copied().filter(|step| every_step || step.log10().fract().abs() < 1e-9).collect();
        TimeScale { low: steps[low], high: steps[high], ticks }
    }
}

/// An axis as calm as the page: labels and a grid, no lines.
pub(super) fn axis() -> Axis {
    Axis::new().auto_margin(true).zero_line(false).show_line(false).ticks(TicksDirection::Outside).tick_length(0)
}

/// A straight line across the whole plot at `x` or at `y`.
pub(super) enum Across {
    /// From bottom to top.
    X(f64),
    /// From left to right.
    Y(f64),
}

/// Draws a line across the plot, behind the points.
pub(super) fn rule(at: Across, color: &'static str, dash: DashType) -> Shape {
    let shape = Shape::new()
        .shape_type(ShapeType::Line)
        .layer(ShapeLayer::Below)
        .line(ShapeLine::new().color(color).width(1.5).dash(dash));
    match at {
        Across::X(x) => shape.x_ref("x").x0(x).x1(x).y_ref("paper").y0(0.0).y1(1.0),
        Across::Y(y) => shape.x_ref("paper").x0(0.0).x1(1.0).y_ref("y").y0(y).y1(y),
    }
}

/// A word beside a line or above a row of the plot, without an arrow. Its place is set by the
/// caller.
pub(super) fn note(text: &str, color: &'static str) -> Annotation {
    Annotation::new()
        .text(plain(text))
        .show_arrow(false)
        .font(Font::new().color(color).size(12))
        .background_color("var(--veil)")
        .border_pad(2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_axes_hold_their_values_between_labelled_steps() {
        let check = |us: &[f64], low: f64, high: f64| {
            let scale = TimeScale::of(us.iter().copied());
            assert_eq!((scale.low, scale.high), (low, high), "{us:?}");
            assert!(scale.ticks.len() >= 2, "{us:?} leaves an axis without a scale: {scale:?}");
        };
        check(&[], 1.0, 5.0);
        check(&[0.0], 1.0, 5.0);
        check(&[0.0, f64::NAN, f64::INFINITY], 1.0, 5.0);
        check(&[310.0, 340.0], 200.0, 1000.0);
        check(&[100.0], 100.0, 500.0);
        check(&[3.0, 2_000_000.0], 2.0, 2_000_000.0);
        check(&[1e30], 1e9, 5e9);
    }

    #[test]
    fn strings_cannot_leave_the_script() {
        let markup = json_for_script(&"</script><!--<script>&\u{2028}").into_string();
        assert_eq!(markup, r#""\u003c/script\u003e\u003c!--\u003cscript\u003e\u0026\u2028""#);
        let read: String = serde_json::from_str(&markup).unwrap();
        assert_eq!(read, "</script><!--<script>&\u{2028}");
    }

    #[test]
    fn hover_text_is_wrapped_and_never_markup() {
        let label = hover_lines(&["<a href='x'>".into(), "word ".repeat(20)]);
        assert!(!label.contains("<a"), "{label}");
        assert!(label.split("<br>").all(|line| line.len() < 70), "{label}");
        assert_eq!(label.matches("word").count(), 20);
    }
}
