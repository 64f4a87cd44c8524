//! The two charts of a search: what came of each offered rate, and how long it took.
//!
//! Calibration is not in them, because its requests went to the built-in sink, and neither are
//! closed loops, because they offer no rate.

use plotly::Scatter;
use plotly::common::{Anchor, DashType, HoverInfo, Marker, MarkerSymbol, Mode};
use plotly::layout::{Annotation, Axis, Layout, Shape};
use thalweg_measure::histogram::Histogram;
use thalweg_measure::{LoopKind, Verdict};
use thalweg_units::display;

use super::chart::{self, Across, Chart};
use super::words;
use crate::document::{Document, Find, Trial};

/// The trials that offered the target a rate, from the lowest to the highest.
pub(super) struct ByRate<'a> {
    levels: Vec<Level<'a>>,
    find: Option<&'a Find>,
    limits: &'a [String],
}

/// All trials at one offered rate.
struct Level<'a> {
    offered: f64,
    trials: Vec<&'a Trial>,
}

/// Percentiles that are drawn: name, quantile, colour, width and dash.
const PERCENTILES: [(&str, f64, &str, f64, DashType); 4] = [
    ("p50", 0.5, "var(--p50)", 1.5, DashType::Dot),
    ("p90", 0.9, "var(--p90)", 1.5, DashType::Dash),
    ("p99", 0.99, "var(--p99)", 2.5, DashType::Solid),
    ("p99.9", 0.999, "var(--p999)", 1.5, DashType::LongDash),
];
/// Of these, the one whose points are marked with the verdict.
const MARKED: usize = 2;

impl<'a> ByRate<'a> {
    /// The trials to draw; `None` if nothing was offered at a rate.
    pub(super) fn of(document: &'a Document) -> Option<Self> {
        let offered = |trial: &&Trial| trial.phase != "calibrate" && trial.loop_kind == LoopKind::Open;
        let mut trials: Vec<(f64, &Trial)> = document
            .trials
            .iter()
            .filter(offered)
            .filter_map(|trial| Some((trial.offered_rate.filter(|rate| rate.is_finite())?, trial)))
            .collect();
        trials.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let levels: Vec<Level> = trials
            .chunk_by(|(a, _), (b, _)| a == b)
            .map(|level| Level { offered: level[0].0, trials: level.iter().map(|(_, trial)| *trial).collect() })
            .collect();
        let by_rate = ByRate { levels, find: document.find.as_ref(), limits: &document.plan.limits };
        (!by_rate.levels.is_empty()).then_some(by_rate)
    }

    /// Good responses and errors per second over the offered rate.
    pub(super) fn throughput(&self) -> Chart {
        let highest = self.highest();
        let valid: Vec<&Level> = self.levels.iter().filter(|level| level.is_valid()).collect();
        let offered: Vec<f64> = valid.iter().map(|level| level.offered).collect();
        let good: Vec<Option<f64>> = valid.iter().map(|level| Some(level.good_rate())).collect();
        let errors: Vec<Option<f64>> = valid.iter().map(|level| Some(level.error_rate())).collect();
        let errors_hover =
            valid.iter().map(|level| format!("errors {}", words::per_second(level.error_rate()))).collect();

        let ideal_style = chart::stroke("var(--muted)", 1.0, DashType::Dot);
        let ideal = chart::line("all good", vec![0.0, highest], vec![Some(0.0), Some(highest)], vec![], ideal_style);
        let good_style = chart::stroke("var(--series)", 2.0, DashType::Solid);
        let good = chart::line("good", offered.clone(), good, vec![], good_style);
        let errors_style = chart::stroke("var(--errors)", 1.5, DashType::Dash);
        let errors = chart::line("errors", offered, errors, errors_hover, errors_style)
            .mode(Mode::LinesMarkers)
            .marker(Marker::new().symbol(MarkerSymbol::Square).size(5).color("var(--errors)"));
        let mut traces: Vec<Box<dyn plotly::Trace>> =
            vec![ideal.hover_info(HoverInfo::Skip), good.hover_info(HoverInfo::Skip), errors];
        traces.extend(self.verdict_traces(|trial| Some(trial.rates.good)));

        let (shapes, notes) = self.bounds();
        let highest_good = self.trials().map(|trial| trial.rates.good).fold(highest, f64::max);
        Chart {
            id: "throughput",
            title: "Good responses and errors per second".to_owned(),
            alternative: self.throughput_in_words(),
            height_px: 400,
            traces,
            layout: self.layout(chart::axis_from_zero(highest_good * 1.06)).shapes(shapes).annotations(notes),
        }
    }

    /// Percentiles of the response time over the offered rate.
    pub(super) fn response_time(&self) -> Chart {
        let measured: Vec<(f64, [f64; 4])> = self
            .levels
            .iter()
            .filter(|level| level.is_valid())
            .filter_map(|level| Some((level.offered, level.percentiles()?)))
            .collect();
        let mut traces: Vec<Box<dyn plotly::Trace>> = Vec::new();
        for (position, (name, _, color, width, dash)) in PERCENTILES.into_iter().enumerate() {
            let x = measured.iter().map(|(offered, _)| *offered).collect();
            let y = measured.iter().map(|(_, us)| Some(chart::floored_us(us[position]))).collect();
            let hover = |(offered, us): &(f64, [f64; 4])| {
                format!("{name} {} at {}", words::time_us(us[position]), words::per_second(*offered))
            };
            let hover = measured.iter().map(hover).collect();
            traces.push(chart::line(name, x, y, hover, chart::stroke(color, width, dash)));
        }
        let marked = |trial: &Trial| {
            let response = &trial.response_time_us;
            (response.count > 0).then(|| chart::floored_us(response.p99))
        };
        traces.extend(self.verdict_traces(marked));

        let limit = words::response_time_limit(self.limits);
        let drawn = measured.iter().flat_map(|(_, us)| *us);
        let y_axis =
            chart::time_axis(drawn.chain(self.trials().filter_map(marked)).chain(limit.as_ref().map(|(_, us)| *us)));
        let (mut shapes, mut notes) = self.bounds();
        if let Some((text, us)) = &limit {
            let at = chart::floored_us(*us);
            shapes.push(chart::rule(Across::Y(at), "var(--fail)", DashType::Dash));
            let place =
                chart::note(&format!("limit {text}"), "var(--fail)").x_ref("paper").x(0.0).x_anchor(Anchor::Left);
            notes.push(place.y_ref("y").y(at.log10()).y_anchor(Anchor::Bottom));
        }
        Chart {
            id: "response-time",
            title: "Response time".to_owned(),
            alternative: self.response_time_in_words(&measured, limit.map(|(text, _)| text)),
            height_px: 400,
            traces,
            layout: self.layout(y_axis).shapes(shapes).annotations(notes),
        }
    }

    fn trials(&self) -> impl Iterator<Item = &'a Trial> {
        self.levels.iter().flat_map(|level| level.trials.iter().copied())
    }

    fn highest(&self) -> f64 {
        self.levels.iter().map(|level| level.offered).fold(0.0, f64::max)
    }

    /// One trace per verdict, so that shape and legend show the same as the colour.
    fn verdict_traces(&self, y: impl Fn(&Trial) -> Option<f64>) -> Vec<Box<dyn plotly::Trace>> {
        let symbols = [
            (Verdict::Pass, MarkerSymbol::Circle, "var(--pass)"),
            (Verdict::Fail, MarkerSymbol::X, "var(--fail)"),
            (Verdict::Invalid, MarkerSymbol::DiamondOpen, "var(--invalid)"),
        ];
        let mut traces: Vec<Box<dyn plotly::Trace>> = Vec::new();
        for (verdict, symbol, color) in symbols {
            let trials: Vec<&Trial> = self.trials().filter(|trial| trial.verdict == verdict).collect();
            if trials.is_empty() {
                continue;
            }
            let x = trials.iter().map(|trial| trial.offered_rate.unwrap_or(0.0)).collect();
            let y = trials.iter().map(|trial| y(trial)).collect();
            let hover = trials.iter().map(|trial| trial_in_hover(trial)).collect::<Vec<_>>();
            let marker = Marker::new().symbol(symbol).size(9).color(color);
            let points = Scatter::new(x, y).name(words::verdict(verdict)).mode(Mode::Markers).marker(marker);
            traces.push(points.hover_text_array(hover).hover_info(HoverInfo::Text));
        }
        traces
    }

    /// The right end of the horizontal axis.
    fn right(&self) -> f64 {
        self.highest() * 1.04
    }

    fn layout(&self, y_axis: Axis) -> Layout {
        let x_axis = chart::linear_axis(0.0, self.right()).title("offered requests per second");
        chart::layout().x_axis(x_axis).y_axis(y_axis)
    }

    /// Lower and upper bound as vertical lines with a note each.
    fn bounds(&self) -> (Vec<Shape>, Vec<Annotation>) {
        let lower = self.find.and_then(|find| find.lower_bound).map(|rate| (rate, "passes", "var(--pass)"));
        let upper = self.find.and_then(|find| find.upper_bound).map(|rate| (rate, "fails", "var(--fail)"));
        let drawn = |(row, (rate, word, color)): (usize, (f64, &str, &'static str))| {
            let text = format!("{word} {}", words::per_second(rate));
            let note = bound_note(rate, self.right(), row, &text, color);
            (chart::rule(Across::X(rate), color, DashType::Dot), note)
        };
        [lower, upper].into_iter().flatten().enumerate().map(drawn).unzip()
    }

    fn throughput_in_words(&self) -> String {
        let kept_up = |level: &&Level| level.is_valid() && level.good_rate() >= 0.99 * level.offered;
        let first =
            match self.levels.iter().take_while(|level| kept_up(level) || !level.is_valid()).filter(kept_up).last() {
                Some(level) => format!(
                    "The rate of good responses is within 1 % of the offered rate up to {}.",
                    words::per_second(level.offered)
                ),
                None => "The rate of good responses is below the offered rate in all trials.".to_owned(),
            };
        let Some(top) = self.levels.iter().rev().find(|level| level.is_valid()) else {
            return "There is no valid trial at an offered rate.".to_owned();
        };
        format!(
            "{first} At {}, the highest valid rate, {} are good and {} are errors.",
            words::per_second(top.offered),
            words::per_second(top.good_rate()),
            words::per_second(top.error_rate())
        )
    }

    fn response_time_in_words(&self, measured: &[(f64, [f64; 4])], limit: Option<String>) -> String {
        let at = |(offered, us): &(f64, [f64; 4])| {
            format!("{} at {}", words::time_us(us[MARKED]), words::per_second(*offered))
        };
        let lower = self.find.and_then(|find| find.lower_bound);
        let mut told: Vec<&(f64, [f64; 4])> = Vec::new();
        told.extend(measured.first());
        told.extend(measured.iter().filter(|(offered, _)| Some(*offered) == lower));
        told.extend(measured.last());
        told.dedup_by(|a, b| a.0 == b.0);
        let course = match told.is_empty() {
            true => "No response was measured in a valid trial.".to_owned(),
            false => format!("p99 is {}.", words::enumerated(&told.into_iter().map(at).collect::<Vec<_>>())),
        };
        match limit {
            Some(limit) => format!("{course} The limit is {limit}."),
            None => course,
        }
    }
}

impl Level<'_> {
    fn valid(&self) -> impl Iterator<Item = &Trial> {
        self.trials.iter().copied().filter(|trial| trial.verdict != Verdict::Invalid)
    }

    /// Whether anything is known about the target at this rate.
    fn is_valid(&self) -> bool {
        self.valid().next().is_some()
    }

    fn seconds(&self) -> f64 {
        self.valid().map(|trial| trial.seconds).sum::<f64>().max(f64::MIN_POSITIVE)
    }

    fn good_rate(&self) -> f64 {
        self.valid().map(|trial| trial.rates.good * trial.seconds).sum::<f64>() / self.seconds()
    }

    fn error_rate(&self) -> f64 {
        self.valid().map(|trial| trial.outcomes.errors()).sum::<u64>() as f64 / self.seconds()
    }

    /// The percentiles of [`PERCENTILES`] over all valid trials of the level, in microseconds.
    /// Distributions are merged for it, since percentiles cannot be averaged.
    fn percentiles(&self) -> Option<[f64; 4]> {
        let measured: Vec<&Trial> = self.valid().filter(|trial| trial.response_time_us.count > 0).collect();
        let last = &measured.last()?.response_time_us;
        let alone = [last.p50, last.p90, last.p99, last.p999];
        if measured.len() == 1 {
            return Some(alone);
        }
        let mut merged = Histogram::new();
        for trial in &measured {
            match Histogram::from_hdr_base64_us(&trial.response_time_us.hdr) {
                Ok(histogram) => merged.merge(&histogram),
                // A document that another program has thinned out still has the figures of each
                // trial.
                Err(_) => return Some(alone),
            }
        }
        Some(PERCENTILES.map(|(_, quantile, ..)| merged.quantile(quantile) as f64 / 1000.0))
    }
}

/// Lower and upper bound lie too close together for two notes side by side, so they stand in rows,
/// on the side of their line where there is room.
fn bound_note(rate: f64, right: f64, row: usize, text: &str, color: &'static str) -> Annotation {
    let (anchor, shift) = if rate > right * 0.55 { (Anchor::Right, -4.0) } else { (Anchor::Left, 4.0) };
    let y = 0.99 - 0.075 * row as f64;
    let note = chart::note(text, color).x_ref("x").x(rate).x_anchor(anchor).x_shift(shift);
    note.y_ref("paper").y(y).y_anchor(Anchor::Top)
}

fn trial_in_hover(trial: &Trial) -> String {
    let mut lines = vec![format!("{} · {}", words::verdict(trial.verdict), trial.phase)];
    let rate = |per_second| words::per_second(per_second);
    lines.push(format!("{} offered, {} good", rate(trial.offered_rate.unwrap_or(0.0)), rate(trial.rates.good)));
    if trial.outcomes.errors() > 0 {
        lines.push(words::counted(trial.outcomes.errors(), "error"));
    }
    if trial.response_time_us.count > 0 {
        let response = &trial.response_time_us;
        lines.push(format!("p50 {}, p99 {}", words::time_us(response.p50), words::time_us(response.p99)));
    }
    lines.push(format!(
        "{} of {} requests good",
        display::count(trial.counts.good),
        display::count(trial.counts.offered)
    ));
    lines.extend(trial.reasons.iter().cloned());
    chart::hover_lines(&lines)
}
