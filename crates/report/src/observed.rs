//! The observed host under the load's course: rows over one time axis.

use std::ops::Range;

use thalweg_observe::Series as Columns;
use thalweg_units::display;

use super::chart::{Axis, Chart, Color, Dashes, Panel, Point, Series};
use super::words;
use crate::document::{Document, Observation, Trial};

/// Height of each row.
const HEIGHT: f64 = 96.0;
/// Places on the time axis; more are not told apart.
const PLACES_MAX: f64 = 300.0;
/// The least time of a place. The kernel counts CPU time in ticks of 10 ms, of which shorter
/// intervals hold too few.
const PLACE_S_MIN: f64 = 0.5;

/// One line of a row: its name, the columns that are added up for it, and its look.
struct Line {
    name: &'static str,
    columns: &'static [&'static str],
    color: Color,
    dash: Dashes,
}

const fn line(name: &'static str, columns: &'static [&'static str], color: Color, dash: Dashes) -> Line {
    Line { name, columns, color, dash }
}

/// One row: its title, its lines, and how a value is written.
struct Row {
    title: &'static str,
    lines: &'static [Line],
    shown: fn(f64) -> String,
}

const ROWS: [Row; 6] = [
    Row {
        title: "CPU of the host, share of all CPUs",
        lines: &[
            line(
                "busy",
                &["cpu.user", "cpu.nice", "cpu.system", "cpu.irq", "cpu.softirq", "cpu.steal"],
                Color::Series,
                Dashes::Solid,
            ),
            line("user", &["cpu.user", "cpu.nice"], Color::P50, Dashes::Short),
            line("interrupts", &["cpu.irq", "cpu.softirq"], Color::Service, Dashes::Dotted),
            line("stolen", &["cpu.steal"], Color::Errors, Dashes::Long),
        ],
        shown: display::percent,
    },
    Row {
        title: "CPU of the server, in CPUs",
        lines: &[
            line("all threads", &["server.cpu"], Color::Series, Dashes::Solid),
            line("busiest thread", &["server.busiest_thread"], Color::P50, Dashes::Short),
        ],
        shown: cpus,
    },
    Row {
        title: "threads that run or could run",
        lines: &[line("run queue", &["scheduler.running"], Color::Series, Dashes::Solid)],
        shown: number,
    },
    Row {
        title: "TCP per second",
        lines: &[
            line("retransmitted", &["tcp.retransmitted"], Color::Series, Dashes::Solid),
            line("accept queue full", &["tcp.listen_overflows"], Color::Errors, Dashes::Short),
            line("SYN cookies", &["tcp.syncookies_sent"], Color::Service, Dashes::Dotted),
        ],
        shown: words::per_second,
    },
    Row {
        title: "connections that wait to be accepted",
        lines: &[line("accept queue", &["server.accept_queue"], Color::Series, Dashes::Solid)],
        shown: number,
    },
    Row {
        title: "open descriptors of the server",
        lines: &[line("descriptors", &["server.descriptors"], Color::Series, Dashes::Solid)],
        shown: number,
    },
];

/// The chart; `None` if the host was not observed for long enough to draw it.
pub(super) fn chart(document: &Document) -> Option<Chart> {
    let observation = document.observation.as_ref()?;
    let places = places(&observation.series);
    if places.len() < 2 {
        return None;
    }
    let end = observation.series.t.last().copied().unwrap_or(0.0);
    let rows = ROWS.iter().filter_map(|row| row.panel(&observation.series, &places));
    let panels: Vec<Panel> = load(&document.trials).into_iter().chain(rows).collect();
    Some(Chart {
        id: "observed".to_owned(),
        title: format!("The load, and {} meanwhile", observation.subject()),
        alternative: in_words(document, observation),
        x: Axis::from_zero(end).in_unit(" s").titled("since the start of the command"),
        panels,
        by_column: true,
    })
}

impl Observation {
    fn subject(&self) -> String {
        match &self.observer {
            Some(_) => format!("the host {}", self.host.name),
            None => "this host".to_owned(),
        }
    }
}

impl Row {
    /// The row; `None` if none of its figures was ever seen.
    fn panel(&self, columns: &Columns, places: &[Range<usize>]) -> Option<Panel> {
        let lines: Vec<(&Line, Vec<Option<f64>>)> = self
            .lines
            .iter()
            .map(|line| (line, places.iter().map(|place| line.sum(columns, place.clone())).collect::<Vec<_>>()))
            .filter(|(_, values)| values.iter().flatten().any(|value| *value > 0.0))
            .collect();
        let highest = lines.iter().flat_map(|(_, values)| values.iter().flatten()).fold(0.0, |a: f64, b| a.max(*b));
        let is_alone = lines.len() == 1;
        let series = lines.into_iter().map(|(line, values)| {
            let points = places.iter().zip(values).map(|(place, value)| {
                let hover = value.map_or_else(String::new, |value| format!("{} {}", line.name, (self.shown)(value)));
                Point::new(middle(columns, place), value, hover)
            });
            let series = Series::line(line.name, line.color, 1.5, line.dash, points.collect());
            if is_alone { series.unlisted() } else { series }
        });
        let series: Vec<Series> = series.collect();
        (!series.is_empty()).then(|| Panel::new(Axis::from_zero(highest * 1.15), HEIGHT, series).titled(self.title))
    }
}

impl Line {
    /// The value at a place, of the sum of the line's columns.
    fn sum(&self, columns: &Columns, place: Range<usize>) -> Option<f64> {
        let column = |name: &str| match name {
            // The kernel gives it in two kinds, in milliseconds.
            "server.cpu" => {
                let kinds = ["server.user_ms", "server.system_ms"].map(|name| value(columns, name, place.clone()));
                kinds.into_iter().flatten().reduce(|a, b| a + b).map(|ms| ms / 1e3)
            }
            _ => value(columns, name, place.clone()),
        };
        self.columns.iter().filter_map(|name| column(name)).reduce(|a, b| a + b)
    }
}

/// Columns whose highest value counts.
const PEAKS: [&str; 2] = ["server.accept_queue", "server.descriptors"];

/// The mean of a column over rows, by the length of their intervals, or its peak.
fn value(columns: &Columns, name: &str, place: Range<usize>) -> Option<f64> {
    let column = columns.column(name)?;
    if PEAKS.contains(&name) {
        return column.get(place)?.iter().copied().flatten().reduce(f64::max);
    }
    let known = place.filter_map(|row| Some((column.get(row).copied().flatten()?, columns.seconds[row])));
    let (sum, seconds) = known.fold((0.0, 0.0), |sum, (value, s)| (sum.0 + value * s, sum.1 + s));
    (seconds > 0.0).then(|| sum / seconds)
}

/// The rows of the columns that share a place on the axis.
fn places(columns: &Columns) -> Vec<Range<usize>> {
    let all: f64 = columns.seconds.iter().sum();
    let least = (all / PLACES_MAX).max(PLACE_S_MIN);
    let (mut places, mut first, mut seconds) = (Vec::new(), 0, 0.0);
    for (row, length) in columns.seconds.iter().enumerate() {
        seconds += length;
        if seconds >= least {
            places.push(first..row + 1);
            (first, seconds) = (row + 1, 0.0);
        }
    }
    places
}

fn middle(columns: &Columns, place: &Range<usize>) -> f64 {
    let begin = columns.t[place.start] - columns.seconds[place.start];
    f64::midpoint(begin, columns.t[place.end - 1])
}

/// The rate of each trial from its beginning to its end.
fn load(trials: &[Trial]) -> Option<Panel> {
    let rate = |trial: &Trial| trial.offered_rate.unwrap_or(trial.rates.completed);
    let points = trials.iter().flat_map(|trial| {
        let length = trial.server.as_ref().map_or(trial.seconds, |server| server.figures.seconds.max(trial.seconds));
        let hover = format!("{}: {}", trial.phase, words::per_second(rate(trial)));
        [
            Point::new(trial.at_s, Some(rate(trial)), hover),
            Point::new(trial.at_s + length, Some(rate(trial)), ""),
            Point::new(trial.at_s + length, None, ""),
        ]
    });
    let highest = trials.iter().map(rate).fold(0.0, f64::max);
    let series = Series::line("offered", Color::Muted, 2.0, Dashes::Solid, points.collect()).unlisted();
    (highest > 0.0).then(|| {
        Panel::new(Axis::from_zero(highest * 1.15), HEIGHT, vec![series]).titled("requests per second, by trial")
    })
}

fn cpus(value: f64) -> String {
    format!("{value:.2} CPUs")
}

fn number(value: f64) -> String {
    if value < 10.0 { format!("{value:.1}") } else { display::count(value.round() as u64) }
}

fn in_words(document: &Document, observation: &Observation) -> String {
    let highest = |of: fn(&Trial) -> Option<f64>| document.trials.iter().filter_map(of).fold(0.0, f64::max);
    let busiest = highest(|trial| trial.server.as_ref()?.cpus_busy.values().copied().reduce(f64::max));
    let cores = highest(|trial| Some(trial.server.as_ref()?.cpu_cores));
    let overflows: u64 =
        document.trials.iter().filter_map(|trial| trial.server.as_ref()).map(|server| server.listen_overflows).sum();
    let mut text = format!(
        "Over a whole trial the server used at most {cores:.2} CPUs, and the busiest CPU was busy for {} of the time; \
         {} refused by a full accept queue. The observation took {} of a CPU.",
        display::percent(busiest),
        words::counted(overflows, "connection"),
        display::percent(observation.cost)
    );
    if let Some(address) = &observation.observer {
        text += &format!(
            " The observer at {address} gave the figures; its clock was {:+.1} ms off, within {:.1} ms.",
            observation.clock_offset_s * 1e3,
            observation.clock_error_s * 1e3
        );
    }
    if !observation.lost.is_empty() {
        let lost: f64 = observation.lost.iter().map(|lost| lost.to_s - lost.from_s).sum();
        text += &format!(" The observer was lost for {}.", words::seconds(lost));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(seconds: &[f64]) -> Columns {
        let mut columns = Columns { seconds: seconds.to_vec(), ..Columns::default() };
        let mut end = 0.0;
        for length in seconds {
            end += length;
            columns.t.push(end);
        }
        columns
    }

    #[test]
    fn short_intervals_share_a_place_with_their_neighbours() {
        let mut seen = columns(&[1.0, 0.02, 0.3, 0.7, 1.0]);
        assert_eq!(places(&seen), [0..1, 1..4, 4..5]);
        seen.columns.insert("cpu.user".to_owned(), vec![Some(0.5), Some(1.0), None, Some(0.0), Some(0.25)]);
        let mean = value(&seen, "cpu.user", 1..4).unwrap();
        assert!((mean - 0.02 / 0.72).abs() < 1e-9, "{mean}");
        assert_eq!(value(&seen, "cpu.user", 2..3), None);
        assert!((middle(&seen, &(1..4)) - 1.51).abs() < 1e-9);
    }

    #[test]
    fn long_courses_take_a_bounded_number_of_places() {
        let places = places(&columns(&[1.0; 3600]));
        assert!(places.len() as f64 <= PLACES_MAX, "{}", places.len());
        assert_eq!(places.last().unwrap().end, 3600);
    }
}
