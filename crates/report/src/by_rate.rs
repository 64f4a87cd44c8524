//! The two charts of a search: what came of each offered rate, and how long it took.
//!
//! Calibration is not in them, because its requests went to the built-in sink, and neither are
//! closed loops, because they offer no rate.

use thalweg_measure::histogram::Histogram;
use thalweg_measure::{LoopKind, Verdict};
use thalweg_units::display;

use super::chart::{Across, Axis, Band, Chart, Color, Dashes, Mark, Panel, Point, Rule, Series};
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
const PERCENTILES: [(&str, f64, Color, f64, Dashes); 4] = [
    ("p50", 0.5, Color::P50, 1.5, Dashes::Dotted),
    ("p90", 0.9, Color::P90, 1.5, Dashes::Short),
    ("p99", 0.99, Color::P99, 2.5, Dashes::Solid),
    ("p99.9", 0.999, Color::P999, 1.5, Dashes::Long),
];
/// Height of each of the two charts.
const HEIGHT: f64 = 300.0;
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
        let good = valid.iter().map(|level| Point::new(level.offered, Some(level.good_rate()), ""));
        let errors = valid.iter().map(|level| {
            let rate = level.error_rate();
            let errors = words::per_second(rate);
            Point::new(level.offered, Some(rate), format!("errors {errors} at {}", words::per_second(level.offered)))
        });
        let ideal = [0.0, highest].map(|rate| Point::new(rate, Some(rate), "")).into();
        let mut series = vec![
            Series::line("all good", Color::Muted, 1.0, Dashes::Dotted, ideal),
            Series::line("good", Color::Series, 2.0, Dashes::Solid, good.collect()),
            Series::line("errors", Color::Errors, 1.5, Dashes::Short, errors.collect()).marked(Mark::Square),
        ];
        series.extend(self.verdicts(|trial| Some(trial.rates.good)));

        let highest_good = self.trials().map(|trial| trial.rates.good).fold(highest, f64::max);
        let mut panel = Panel::new(Axis::from_zero(highest_good * 1.06), HEIGHT, series);
        panel.rules = self.bounds();
        panel.bands = self.interval();
        panel.bands.extend(self.overload());
        let chart = Chart::new("throughput", "Good responses and errors per second", self.x_axis(), panel);
        chart.in_words(self.throughput_in_words())
    }

    /// Percentiles of the response time over the offered rate.
    pub(super) fn response_time(&self) -> Chart {
        let measured: Vec<(f64, [f64; 4])> = self
            .levels
            .iter()
            .filter(|level| level.is_valid())
            .filter_map(|level| Some((level.offered, level.percentiles()?)))
            .collect();
        let percentile = |(position, (name, _, color, width, dash)): (usize, (&str, f64, Color, f64, Dashes))| {
            let point = |(offered, us): &(f64, [f64; 4])| {
                let hover = format!("{name} {} at {}", words::time_us(us[position]), words::per_second(*offered));
                Point::new(*offered, Some(us[position]), hover)
            };
            Series::line(name, color, width, dash, measured.iter().map(point).collect())
        };
        let mut series: Vec<Series> = PERCENTILES.into_iter().enumerate().map(percentile).collect();
        let marked = |trial: &Trial| (trial.response_time_us.count > 0).then_some(trial.response_time_us.p99);
        series.extend(self.verdicts(marked));

        let limit = words::response_time_limit(self.limits);
        let drawn = measured.iter().flat_map(|(_, us)| *us);
        let y_axis =
            Axis::times_us(drawn.chain(self.trials().filter_map(marked)).chain(limit.as_ref().map(|(_, us)| *us)));
        let mut panel = Panel::new(y_axis, HEIGHT, series);
        panel.rules = self.bounds();
        panel.bands = self.interval();
        if let Some((text, us)) = &limit {
            panel.rules.push(Rule::new(Across::Y(*us), Color::Fail, Dashes::Short, format!("limit {text}")));
        }
        let chart = Chart::new("response-time", "Response time", self.x_axis(), panel);
        chart.in_words(self.response_time_in_words(&measured, limit.map(|(text, _)| text)))
    }

    fn trials(&self) -> impl Iterator<Item = &'a Trial> {
        self.levels.iter().flat_map(|level| level.trials.iter().copied())
    }

    fn highest(&self) -> f64 {
        self.levels.iter().map(|level| level.offered).fold(0.0, f64::max)
    }

    /// One series per verdict, so that shape and legend show the same as the colour.
    fn verdicts(&self, y: impl Fn(&Trial) -> Option<f64>) -> Vec<Series> {
        let looks = [
            (Verdict::Pass, Mark::Circle, Color::Pass),
            (Verdict::Fail, Mark::Cross, Color::Fail),
            (Verdict::Invalid, Mark::Diamond, Color::Invalid),
        ];
        let of = |(verdict, mark, color)| {
            let trials = self.trials().filter(|trial| trial.verdict == verdict);
            let point = |trial: &Trial| Point::new(trial.offered_rate.unwrap_or(0.0), y(trial), trial_in_hover(trial));
            let points: Vec<Point> = trials.map(point).collect();
            (!points.is_empty()).then(|| Series::marks(verdict.title(), color, mark, points))
        };
        looks.into_iter().filter_map(of).collect()
    }

    fn x_axis(&self) -> Axis {
        Axis::from_zero(self.highest() * 1.04).titled("offered requests per second")
    }

    /// The capacity as a vertical line with a label, or lower and upper bound where there is no
    /// estimate of it.
    fn bounds(&self) -> Vec<Rule> {
        if let Some(capacity) = self.find.and_then(|find| find.interval95.and(find.threshold)) {
            let label = format!("capacity {}", words::per_second(capacity));
            return vec![Rule::new(Across::X(capacity), Color::Pass, Dashes::Dotted, label)];
        }
        let lower = self.find.and_then(|find| find.lower_bound).map(|rate| (rate, "passes", Color::Pass));
        let upper = self.find.and_then(|find| find.upper_bound).map(|rate| (rate, "fails", Color::Fail));
        let drawn = |(rate, word, color): (f64, &str, Color)| {
            Rule::new(Across::X(rate), color, Dashes::Dotted, format!("{word} {}", words::per_second(rate)))
        };
        [lower, upper].into_iter().flatten().map(drawn).collect()
    }

    /// The interval of the capacity, shaded.
    fn interval(&self) -> Vec<Band> {
        let interval = self.find.and_then(|find| find.interval95);
        interval.map(|[from, to]| Band { from, to, color: Color::Pass }).into_iter().collect()
    }

    /// The rates above the capacity that were offered to see the shape of an overload, shaded.
    fn overload(&self) -> Option<Band> {
        let overload = self.find?.overload.as_ref()?;
        let from = overload.points.iter().map(|point| point.offered_rate).reduce(f64::min)?;
        let to = overload.points.iter().map(|point| point.offered_rate).reduce(f64::max)?;
        Some(Band { from, to, color: Color::Fail })
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

fn trial_in_hover(trial: &Trial) -> String {
    let mut lines = vec![format!("{} · {}", trial.verdict.title(), trial.phase)];
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
    lines.join("\n")
}
