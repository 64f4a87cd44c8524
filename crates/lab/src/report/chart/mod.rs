//! Charts as SVG: inline in the page, or as a file of their own.
//!
//! A [`Chart`] says what is drawn; this module decides where. Its SVG needs no script: text is
//! text, colours follow the reader's theme and print. A chart on the page is drawn for
//! three widths, of which the style sheet shows one; the page's script adds the values
//! under the pointer.
//!
//! The SVG is written here and not by a library: those that exist for Rust bake in colours, font
//! sizes and one width, so that neither a dark theme nor a telephone could be served, and have no
//! logarithmic time axes, rows over one axis or values for readers of the page.
//!
//! | module | owns |
//! | --- | --- |
//! | `axis` | scales and their labels |
//! | `svg` | the drawing |
//! | `palette` | colours |

mod axis;
mod palette;
mod svg;

pub(crate) use axis::Axis;
pub(crate) use palette::{Color, page_style};

use maud::{Markup, PreEscaped, html};
use serde::Serialize;

use super::words;

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
    name: String,
    color: Color,
    stroke: Option<Stroke>,
    mark: Option<Mark>,
    is_filled: bool,
    in_legend: bool,
    points: Vec<Point>,
}

/// One point of a series.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    x: f64,
    /// `None` leaves a gap in the line.
    y: Option<f64>,
    /// Lines of text for the pointer; empty for a point that it passes over.
    hover: String,
    /// The ends of an interval around `y`.
    interval: Option<[f64; 2]>,
}

#[derive(Clone, Copy, Debug)]
struct Stroke {
    width: f64,
    dash: Dash,
}

/// The dashes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dash {
    Solid,
    Dot,
    Dash,
    LongDash,
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
    at: Across,
    color: Color,
    dash: Dash,
    label: String,
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
    pub(crate) fn line(name: impl Into<String>, color: Color, width: f64, dash: Dash, points: Vec<Point>) -> Self {
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
    pub(crate) fn new(at: Across, color: Color, dash: Dash, label: impl Into<String>) -> Self {
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

    /// The figure for the page.
    pub(crate) fn figure(&self) -> Markup {
        let (title_id, caption_id) = (format!("{}-title", self.id), format!("{}-in-words", self.id));
        html! {
            figure.chart id=(self.id) {
                h3 id=(title_id) { (self.title) }
                div.plot role="img" tabindex="0" aria-labelledby=(title_id) aria-describedby=(caption_id) {
                    @for form in [svg::Form::Wide, svg::Form::Half, svg::Form::Narrow] { (self.svg(form)) }
                }
                script type="application/json" { (json_for_script(&self.spots())) }
                figcaption id=(caption_id) { (words::unbroken(&self.alternative)) }
            }
        }
    }

    /// The chart as a file of its own.
    pub(crate) fn file(&self) -> String {
        self.svg(svg::Form::File).into_string() + "\n"
    }

    /// The places that the pointer can pick, for the page's script.
    fn spots(&self) -> Spots {
        let mut spots: Vec<Spot> = Vec::new();
        for (position, panel) in self.panels.iter().enumerate() {
            for point in panel.series.iter().flat_map(|series| &series.points) {
                let Some(y) = point.y.filter(|y| y.is_finite()) else { continue };
                if !point.hover.is_empty() && point.x.is_finite() {
                    spots.push((position, short(self.x.place(point.x)), short(panel.y.place(y)), point.hover.clone()));
                }
            }
        }
        spots.sort_by(|a, b| a.1.total_cmp(&b.1));
        if self.by_column {
            Spots { columns: true, spots: self.columns(spots) }
        } else {
            Spots { columns: false, spots }
        }
    }

    /// The spots of one place of the horizontal axis as one, headed by its value.
    fn columns(&self, spots: Vec<Spot>) -> Vec<Spot> {
        let head = |place: f64| {
            let values = self.panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.points);
            let value = values.map(|point| point.x).find(|x| short(self.x.place(*x)) == place);
            value.map_or_else(String::new, |value| self.x.value_text(value))
        };
        spots
            .chunk_by(|a, b| a.1 == b.1)
            .map(|column| {
                let lines: Vec<&str> = column.iter().map(|(.., text)| text.as_str()).collect();
                (0, column[0].1, 0.5, format!("{}\n{}", head(column[0].1), lines.join("\n")))
            })
            .collect()
    }
}

/// A spot: the panel, the place on both axes from 0 to 1, and the text.
type Spot = (usize, f64, f64, String);

#[derive(Serialize)]
struct Spots {
    columns: bool,
    spots: Vec<Spot>,
}

/// A place with the digits that a screen can show.
fn short(place: f64) -> f64 {
    (place * 1e4).round() / 1e4
}

/// `value` as JSON that may stand inside a `<script>` element.
///
/// In JSON these characters occur within strings only, where an escape means the same. Without it,
/// a string could close the element.
pub(crate) fn json_for_script(value: &impl Serialize) -> Markup {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_cannot_leave_the_script() {
        let markup = json_for_script(&"</script><!--<script>&\u{2028}").into_string();
        assert_eq!(markup, r#""\u003c/script\u003e\u003c!--\u003cscript\u003e\u0026\u2028""#);
        let read: String = serde_json::from_str(&markup).unwrap();
        assert_eq!(read, "</script><!--<script>&\u{2028}");
    }

    fn chart() -> Chart {
        let points = vec![
            Point::new(0.0, Some(1.0), "one"),
            Point::new(1.0, None, "gap"),
            Point::new(2.0, Some(3.0), "<three>"),
            Point::new(f64::NAN, Some(1.0), "nowhere"),
            Point::new(3.0, Some(f64::INFINITY), "too high"),
        ];
        let series = Series::line("good & bad", Color::Series, 2.0, Dash::Solid, points);
        Chart::new("id", "a < b", Axis::linear(0.0, 4.0), Panel::new(Axis::from_zero(4.0), 100.0, vec![series]))
    }

    #[test]
    fn gaps_and_what_is_no_number_are_not_drawn() {
        let spots = chart().spots();
        assert_eq!(spots.spots, [(0, 0.0, 0.25, "one".to_owned()), (0, 0.5, 0.75, "<three>".to_owned())]);
        for drawn in [chart().figure().into_string(), chart().file()] {
            assert!(!drawn.contains("NaN") && !drawn.contains("inf\""), "{drawn}");
        }
    }

    #[test]
    fn columns_gather_all_series_of_one_place() {
        let mut chart = chart();
        chart.by_column = true;
        let second = Series::line("x", Color::Fail, 1.0, Dash::Dot, vec![Point::new(2.0, Some(1.0), "other")]);
        chart.panels.push(Panel::new(Axis::from_zero(4.0), 100.0, vec![second]));
        let texts: Vec<String> = chart.spots().spots.into_iter().map(|spot| spot.3).collect();
        assert_eq!(texts, ["0\none", "2\n<three>\nother"]);
    }

    #[test]
    fn a_file_is_complete_and_its_text_is_no_markup() {
        let file = chart().in_words("It says <so>.").file();
        assert!(file.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""), "{file}");
        assert!(
            file.contains("<title>a &lt; b</title>") && file.contains("<desc>It says &lt;so&gt;.</desc>"),
            "{file}"
        );
        assert!(file.contains("good &amp; bad") && !file.contains("var(--"), "{file}");
    }
}
