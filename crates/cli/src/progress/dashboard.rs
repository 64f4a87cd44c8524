//! The live view: the state as a frame of some lines, made for the terminal's size.
//!
//! Pure: a frame follows from the state and the size. Where it goes is decided in `terminal`.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{LineGauge, Sparkline, Widget};
use thalweg_measure::Verdict;
use thalweg_measure::search::EstimateEnd;
use thalweg_units::display;

use super::history::Bin;
use super::view::{EndedTrial, Reached, View};

/// A frame takes no more columns of a wide terminal: a chart that is wider than its history stays
/// empty.
const COLUMNS_MAX: u16 = 200;
/// From this width on a chart says how high it is.
const COLUMNS_WITH_SCALE: u16 = 72;
/// A trial that is over before anybody has read how much of it is left.
const SHORT: Duration = Duration::from_secs(3);
/// Trials that are shown at most.
const TRIALS_MAX: usize = 6;
/// Trials whose rates are marks on the scale of the capacity.
const MARKS_MAX: usize = 24;
/// A chart's heights: eighths of a line.
const LEVELS: f64 = 8.0;

/// The phases of a search, in order. That of recovery probes takes the place of the overload.
const PHASES: [&str; 7] = ["probe", "calibrate", "bracket", "narrow", "confirm", OVERLOAD, "diagnose"];
const OVERLOAD: &str = "overload";
const RECOVERY: &str = "recover";

/// A line of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Row {
    Load,
    Reached,
    Rate,
    Good,
    Median,
    P99,
    Errors,
    Totals,
    Phases,
    Capacity,
    Scale,
    /// The last but so many trials.
    Trial(usize),
}

/// The figure of a bin that a chart shows.
type Figure = fn(&Bin) -> Option<f64>;

const RATE: Figure = |bin| Some(bin.per_second(bin.offered));
const GOOD: Figure = |bin| Some(bin.per_second(bin.good));
const MEDIAN: Figure = |bin| bin.times_ns.map(|[p50, _]| p50 as f64);
const P99: Figure = |bin| bin.times_ns.map(|[_, p99]| p99 as f64);
const ERRORS: Figure = |bin| Some(bin.per_second(bin.errors));

/// The frame for a terminal of so many columns and rows. One column and one row stay free: a
/// character in the last column has some terminals begin the next line.
pub(super) fn frame(view: &View, [columns, rows]: [u16; 2]) -> Buffer {
    let shown = rows_of(view, usize::from(rows.saturating_sub(1).max(1)));
    let width = columns.saturating_sub(1).clamp(1, COLUMNS_MAX);
    let area = Rect::new(0, 0, width, shown.len() as u16);
    let mut frame = Buffer::empty(area);
    for (row, area) in shown.into_iter().zip(area.rows()) {
        draw(view, row, area, &mut frame);
    }
    frame
}

/// The lines that are shown if no more than `height` fit, in order.
fn rows_of(view: &View, height: usize) -> Vec<Row> {
    let trials = || (0..view.trials.len().min(TRIALS_MAX)).map(Row::Trial);
    let mut rows = vec![Row::Load, Row::Reached, Row::Rate, Row::Good, Row::Median, Row::P99, Row::Errors, Row::Totals];
    if view.task.goal.is_some() {
        rows.extend([Row::Phases, Row::Capacity, Row::Scale]);
    }
    if view.task.has_trials {
        rows.extend(trials().rev());
    }
    // From the first to be left out to the last.
    let mut spare: Vec<Row> = trials().skip(3).collect();
    spare.reverse();
    spare.extend([Row::Totals, Row::Phases, Row::Rate, Row::Median, Row::Trial(2), Row::Trial(1), Row::Scale]);
    spare.extend([Row::Trial(0), Row::Capacity, Row::Errors, Row::Load, Row::P99, Row::Good]);
    for out in spare {
        if rows.len() <= height {
            break;
        }
        rows.retain(|row| *row != out);
    }
    rows
}

fn draw(view: &View, row: Row, area: Rect, frame: &mut Buffer) {
    match row {
        Row::Load => load(view).render(area, frame),
        Row::Reached => reached(view, area, frame),
        Row::Rate => chart(view, "rate", RATE, Some(RATE), per_second, None, area, frame),
        Row::Good => chart(view, "good", GOOD, Some(RATE), per_second, None, area, frame),
        Row::Median => chart(view, "p50", MEDIAN, None, time, None, area, frame),
        Row::P99 => chart(view, "p99", P99, None, time, view.p99_bound(), area, frame),
        Row::Errors => chart(view, "errors", ERRORS, None, per_second, Some(Duration::ZERO), area, frame),
        Row::Totals => totals(view).render(area, frame),
        Row::Phases => phases(view).render(area, frame),
        Row::Capacity => capacity(view, area.width >= COLUMNS_WITH_SCALE).render(area, frame),
        Row::Scale => scale(view, area, frame),
        Row::Trial(back) => {
            if let Some(trial) = view.trials.iter().rev().nth(back) {
                ended(trial).render(area, frame);
            }
        }
    }
}

fn load(view: &View) -> Line<'_> {
    let what = if view.task.has_trials { view.phase.as_str() } else { view.task.command };
    Line::from(vec![what.bold(), "  ".into(), view.load.as_str().into(), "  ".into(), view.task.target.as_str().dim()])
}

/// How far the trial has come, as a bar where that is a share.
fn reached(view: &View, area: Rect, frame: &mut Buffer) {
    if let Some(pause) = &view.pause {
        let [waited, patience] = [pause.elapsed, pause.patience].map(minutes);
        let probes = pause.failed_probes;
        let text = format!("waiting for recovery: {waited} of {patience}, {probes} recovery probes failed");
        return Line::from(text.yellow()).render(area, frame);
    }
    let (share, label) = match view.reached() {
        Reached::Opening => (0.0, "opening connections".to_owned()),
        Reached::WarmUp => (0.0, "warm-up".to_owned()),
        Reached::Time(over, None) => return Line::from(minutes(over)).render(area, frame),
        Reached::Time(over, Some(whole)) => {
            let left = whole.saturating_sub(over);
            let label = if whole < SHORT {
                format!("{:.1} of {:.1} s", over.as_secs_f64(), whole.as_secs_f64())
            } else {
                format!("{} of {}, {} left", minutes(over), minutes(whole), minutes(left))
            };
            (over.as_secs_f64() / whole.as_secs_f64(), label)
        }
        Reached::Requests(offered, total) => {
            let label = format!("{} of {} requests", display::count(offered), display::count(total));
            (offered as f64 / total.max(1) as f64, label)
        }
    };
    let gauge = LineGauge::default().ratio(share.clamp(0.0, 1.0)).label(label);
    let gauge = gauge.filled_symbol("━").unfilled_symbol("─");
    gauge.filled_style(Style::new().fg(Color::Cyan)).unfilled_style(Style::new().dim()).render(area, frame);
}

/// A figure of the last second, and its course. `scaled` is the figure whose highest value is the
/// height of the chart; a value above `bound` is marked.
#[expect(clippy::too_many_arguments, reason = "the columns of a line")]
fn chart(
    view: &View,
    name: &'static str,
    figure: Figure,
    scaled: Option<Figure>,
    shown: fn(f64) -> String,
    bound: Option<Duration>,
    area: Rect,
    frame: &mut Buffer,
) {
    let is_scaled = area.width >= COLUMNS_WITH_SCALE;
    let columns = [7, 11, 2, 0, if is_scaled { 16 } else { 0 }].map(Constraint::Length);
    let columns = [columns[0], columns[1], columns[2], Constraint::Fill(1), columns[4]];
    let [label, number, _, course, height] = Layout::horizontal(columns).areas(area);
    let is_beyond = |value: f64| bound.is_some_and(|bound| value > bound.as_nanos() as f64);
    let colour = |value: f64| if is_beyond(value) { Color::Red } else { Color::Reset };
    Span::from(name).dim().render(label, frame);
    let last = view.history.last_second().as_ref().and_then(figure);
    let text = last.map_or_else(|| "-".to_owned(), shown);
    Line::from(text.bold().fg(last.map_or(Color::Reset, colour))).right_aligned().render(number, frame);

    let bins: Vec<Option<f64>> = view.history.bins(usize::from(course.width)).map(|bin| bin.and_then(figure)).collect();
    let heights = view.history.bins(usize::from(course.width)).flatten().filter_map(scaled.unwrap_or(figure));
    let highest = bins.iter().flatten().copied().chain(heights).fold(0.0, f64::max);
    // A value that is not zero is seen.
    let level = |value: f64| if value > 0.0 { (value / highest * LEVELS).ceil().clamp(1.0, LEVELS) as u64 } else { 0 };
    let bars = bins.iter().map(|value| {
        let style = value.filter(|value| is_beyond(*value)).map(|_| Style::new().fg(Color::Red));
        ratatui::widgets::SparklineBar::from(value.map(level)).style(style)
    });
    Sparkline::default()
        .data(bars)
        .max(LEVELS as u64)
        .absent_value_symbol(" ")
        .style(Style::new().fg(Color::Cyan))
        .render(course, frame);
    if is_scaled && highest > 0.0 {
        Line::from(format!("  max {}", shown(highest)).dim()).render(height, frame);
    }
}

fn totals(view: &View) -> Line<'static> {
    let seen = &view.seen;
    let in_flight = seen.offered.saturating_sub(seen.good + seen.errors);
    let errors = errors_of(seen.errors);
    Line::from(vec![
        format!("{} good, ", display::count(seen.good)).dim(),
        if seen.errors > 0 { errors.red() } else { errors.dim() },
        format!(" so far; {} in flight, ", display::count(in_flight)).dim(),
        format!("{} connections", display::count(seen.connections)).dim(),
    ])
}

/// The phases of a search, with the present one.
fn phases(view: &View) -> Line<'static> {
    let is_recovery = view.phase == RECOVERY;
    let spans = PHASES.iter().flat_map(|phase| {
        let phase = if is_recovery && *phase == OVERLOAD { RECOVERY } else { phase };
        let is_present = phase == view.phase;
        [if is_present { phase.bold() } else { phase.dim() }, " ".into()]
    });
    Line::from_iter(spans)
}

/// The interval of the capacity so far, and the time that is left; the goal for its width, if that
/// is to be shown.
fn capacity(view: &View, shows_goal: bool) -> Line<'static> {
    let (text, goal) = match (view.interval95, view.bracket(), view.task.goal) {
        (Some([low, high]), _, goal) => {
            let width = view.width().zip(goal).map(|(width, goal)| {
                let goal = match goal.end {
                    EstimateEnd::Width(width) if shows_goal => format!(", goal {}", display::percent(width)),
                    EstimateEnd::Width(_) | EstimateEnd::Time(_) => String::new(),
                };
                format!(" ({}{goal})", display::percent(width))
            });
            (format!("capacity {} to {}", bare(low), display::rate(high)), width.unwrap_or_default())
        }
        (None, [Some(low), Some(high)], _) => {
            (format!("capacity between {} and {}", bare(low), display::rate(high)), String::new())
        }
        (None, [Some(low), None], _) => (format!("capacity above {}", display::rate(low)), String::new()),
        (None, [None, Some(high)], _) => (format!("capacity below {}", display::rate(high)), String::new()),
        (None, [None, None], _) => ("capacity not known yet".to_owned(), String::new()),
    };
    let left = view.left().filter(|left| !left.is_zero());
    let left = match (left, view.task.goal) {
        (Some(left), _) => format!("; about {} left", minutes(left)),
        (None, Some(goal)) => format!("; at most {} left", minutes(goal.budget.saturating_sub(view.spent))),
        (None, None) => String::new(),
    };
    Line::from(vec![text.bold(), goal.into(), left.dim()])
}

/// The rates of the last trials on a scale, and the interval of the capacity on it.
fn scale(view: &View, area: Rect, frame: &mut Buffer) {
    let judged = view.trials.iter().rev().filter_map(|trial| trial.rate.zip(trial.verdict)).take(MARKS_MAX);
    let marks: Vec<(f64, Verdict)> = judged.collect();
    let Some([low, high]) = ends_of_scale(view, &marks) else { return };
    let labels = [bare(low), display::rate(high)];
    let [left, line, right] = Layout::horizontal([
        Constraint::Length(labels[0].chars().count() as u16 + 1),
        Constraint::Fill(1),
        Constraint::Length(labels[1].chars().count() as u16 + 1),
    ])
    .areas(area);
    labels[0].as_str().dim().render(left, frame);
    Line::from(labels[1].as_str().dim()).right_aligned().render(right, frame);
    if line.is_empty() {
        return;
    }
    let place = |rate: f64| line.x + ((rate - low) / (high - low) * f64::from(line.width - 1)).round() as u16;
    "─".repeat(usize::from(line.width)).dim().render(line, frame);
    if let Some(ends) = view.interval95 {
        let [from, to] = ends.map(|rate| place(rate.clamp(low, high)));
        for x in from..=to {
            frame[(x, line.y)].set_symbol("━").set_style(Style::new().fg(Color::Cyan).bold());
        }
    }
    // The last trial covers those before it.
    for (rate, verdict) in marks.iter().rev().filter(|(rate, _)| (low..=high).contains(rate)) {
        let symbol = match verdict {
            Verdict::Pass => "+",
            Verdict::Fail => "x",
            Verdict::Invalid => "?",
        };
        frame[(place(*rate), line.y)].set_symbol(symbol).set_style(Style::new().fg(colour(*verdict)).bold());
    }
}

/// The rates at which the scale begins and ends: those of the trials, and near an estimate its
/// surroundings alone.
fn ends_of_scale(view: &View, marks: &[(f64, Verdict)]) -> Option<[f64; 2]> {
    let rates = marks.iter().map(|(rate, _)| *rate).chain(view.interval95.into_iter().flatten());
    let [low, high] = rates.fold([f64::INFINITY, 0.0_f64], |[low, high], rate| [low.min(rate), high.max(rate)]);
    let [low, high] = match view.interval95 {
        Some([from, to]) => {
            let margin = 2.0 * (to - from).max(0.01 * to);
            [low.max(from - margin), high.min(to + margin)]
        }
        None => [low, high],
    };
    (low < high).then_some([low, high])
}

fn ended(trial: &EndedTrial) -> Line<'_> {
    let line = Line::from(trial.line.as_str());
    match trial.verdict {
        Some(verdict) => line.fg(colour(verdict)),
        None => line.dim(),
    }
}

fn colour(verdict: Verdict) -> Color {
    match verdict {
        Verdict::Pass => Color::Green,
        Verdict::Fail => Color::Red,
        Verdict::Invalid => Color::Yellow,
    }
}

fn per_second(value: f64) -> String {
    display::rate(value)
}

fn time(ns: f64) -> String {
    display::time(ns.round() as u64)
}

/// A rate without its unit, as the lower end of an interval.
fn bare(rate: f64) -> String {
    display::rate(rate).trim_end_matches("/s").to_owned()
}

/// A number of errors in words.
pub(super) fn errors_of(count: u64) -> String {
    if count == 1 { "1 error".to_owned() } else { format!("{} errors", display::count(count)) }
}

/// A time of a clock that counts whole seconds.
pub(super) fn minutes(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        _ => format!("{}:{:02} h", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::history::tests::interval;
    use crate::progress::view::{SearchGoal, Task};
    use thalweg_load::Snapshot;

    fn run() -> View {
        let task = Task { command: "run", target: "http://127.0.0.1:8080/".to_owned(), ..Task::default() };
        let mut view = View::new(Task { limits: vec!["p99<50ms".parse().expect("a limit")], ..task });
        view.load = "open loop, 500/s".to_owned();
        (1..=6).for_each(|number| view.add_interval(&interval(1_000, 500, u64::from(number == 3), 10 * number)));
        let measured = Duration::from_secs(6);
        view.seen =
            Snapshot { offered: 3_000, good: 2_995, errors: 1, connections: 7, measured, ..Snapshot::default() };
        view
    }

    fn search() -> View {
        let goal = SearchGoal { end: EstimateEnd::Width(0.03), budget: Duration::from_secs(600) };
        let mut view = run();
        view.task = Task { goal: Some(goal), has_trials: true, ..view.task };
        view.phase = "confirm".to_owned();
        view.spent = Duration::from_secs(65);
        view.interval95 = Some([960.0, 1040.0]);
        for (rate, verdict) in [(900.0, Verdict::Pass), (1100.0, Verdict::Fail), (1000.0, Verdict::Invalid)] {
            let line = format!("confirm {rate}");
            view.trials.push_back(EndedTrial { line, verdict: Some(verdict), rate: Some(rate) });
        }
        view
    }

    fn text_of(frame: &Buffer) -> Vec<String> {
        let lines = frame.content.chunks(usize::from(frame.area.width));
        lines.map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned()).collect()
    }

    #[track_caller]
    fn check(view: &View, size: [u16; 2], expected: &[&str]) {
        let frame = frame(view, size);
        assert!(frame.area.width < size[0].max(2) && frame.area.height < size[1].max(2), "{:?}", frame.area);
        assert_eq!(text_of(&frame), expected, "{size:?}");
    }

    #[test]
    fn a_run_fits_60_columns() {
        check(
            &run(),
            [60, 24],
            &[
                "run  open loop, 500/s  http://127.0.0.1:8080/",
                "6 s ",
                "rate         500/s  ██████",
                "good         500/s  ██████",
                "p50        60.0 ms  ▂▃▄▆▇█",
                "p99        60.0 ms  ▂▃▄▆▇█",
                "errors         0/s    █",
                "2,995 good, 1 error so far; 4 in flight, 7 connections",
            ]
            .map(str::trim_end),
        );
    }

    #[test]
    fn a_low_terminal_shows_what_matters_most() {
        check(&run(), [60, 3], &["6 s", "good         500/s  ██████"]);
        check(&run(), [60, 1], &["6 s"]);
        let lines = |height| text_of(&frame(&search(), [60, height]));
        let names = |height| {
            lines(height).iter().map(|line| line.split(' ').next().unwrap_or("").to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(8), ["confirm", "6", "good", "p99", "errors", "capacity", "confirm"]);
        assert_eq!(names(80).len(), 14);
    }

    #[test]
    fn a_search_shows_its_interval_among_the_rates_tried() {
        let lines = text_of(&frame(&search(), [60, 24]));
        assert_eq!(lines[8], "probe calibrate bracket narrow confirm overload diagnose");
        assert_eq!(lines[9], "capacity 960 to 1,040/s (8.00 %); at most 8:55 min left");
        let scale = &lines[10];
        assert!(scale.starts_with("900 +") && scale.ends_with("x 1,100/s"), "{scale}");
        assert!(scale.contains("━?━"), "{scale}");
        assert_eq!(lines[11..], ["confirm 900", "confirm 1100", "confirm 1000"]);
    }

    #[test]
    fn any_size_can_be_drawn() {
        for columns in [1, 2, 10, 20, 40, 60, 80, 200, 1000] {
            for rows in [1, 2, 3, 5, 10, 50] {
                for view in [run(), search(), View::new(Task::default())] {
                    let frame = frame(&view, [columns, rows]);
                    assert!(frame.area.width < columns.max(2) && frame.area.height < rows.max(2), "{columns} x {rows}");
                }
            }
        }
    }

    #[test]
    fn times_are_whole_seconds() {
        for (seconds, expected) in
            [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1:00 min"), (3_599.0, "59:59 min"), (7_260.0, "2:01 h")]
        {
            assert_eq!(minutes(Duration::from_secs_f64(seconds)), expected);
        }
    }
}
