//! Charts as figures of the page and as files.

use maud::{Markup, PreEscaped, html};
use serde::Serialize;

use super::super::words;
use super::model::Chart;
use super::svg;

impl Chart {
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
    use super::super::{Across, Axis, Color, Dashes, Panel, Point, Rule, Series};
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
        let series = Series::line("good & bad", Color::Series, 2.0, Dashes::Solid, points);
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

    /// Places of the labels of rules, and of the plot's upper and lower edge.
    fn labels_and_plot(drawn: &str) -> (Vec<f64>, [f64; 2]) {
        let number = |text: &str| text.split([' ', '"', ';']).next().unwrap().parse::<f64>().unwrap();
        let labels = drawn.split("<text class=\"halo").skip(1);
        let labels = labels.map(|label| number(label.split(" y=\"").nth(1).unwrap())).collect();
        let plot: Vec<f64> =
            drawn.split("data-panels=\"").nth(1).unwrap().split(['"', ' ']).take(4).map(number).collect();
        (labels, [plot[1], plot[1] + plot[3]])
    }

    #[test]
    fn the_label_of_a_limit_beyond_the_axis_never_covers_the_legend() {
        for y in [1e9, 4.0, 3.9, 2.0, 0.0, -1e9] {
            let mut chart = chart();
            let rule = |at| Rule::new(at, Color::Fail, Dashes::Short, "limit p99<1h");
            chart.panels[0].rules = vec![rule(Across::Y(y)), rule(Across::X(1e9)), rule(Across::X(2.0))];
            let figure = chart.figure().into_string();
            for drawn in figure.split("<svg class=\"").skip(1).filter(|svg| svg.contains("data-panels")) {
                let (labels, [top, bottom]) = labels_and_plot(drawn);
                assert_eq!(labels.len(), 2, "a line that is nowhere has no label: {drawn}");
                assert!(labels.iter().all(|label| (top + 10.0..=bottom).contains(label)), "{y}: {labels:?} {drawn}");
            }
            assert_eq!(figure.contains("limit p99&lt;1h ↑"), y > 4.0);
        }
    }

    #[test]
    fn columns_gather_all_series_of_one_place() {
        let mut chart = chart();
        chart.by_column = true;
        let second = Series::line("x", Color::Fail, 1.0, Dashes::Dotted, vec![Point::new(2.0, Some(1.0), "other")]);
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
