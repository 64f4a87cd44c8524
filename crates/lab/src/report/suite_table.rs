//! Several suites with several servers: one table for each suite, with the servers as columns.

use std::collections::BTreeMap;

use maud::{Markup, html};
use thalweg_units::display;

use super::chart::{Axis, Chart, Color, Dashes, Mark, Panel, Point, Series};
use super::words;
use crate::document::{Curve, Document, Figure, Measured, SuiteName, Unit};
use crate::servers::ServerFacts;
use crate::suite_table::{Cell, CellState};

/// Height of each chart.
const HEIGHT: f64 = 320.0;

/// Marks and dashes that tell servers apart without their colours.
const MARKS: [Mark; 4] = [Mark::Circle, Mark::Square, Mark::Diamond, Mark::Cross];
const DASHES: [Dashes; 3] = [Dashes::Solid, Dashes::Short, Dashes::Long];

/// The cells of one suite, in the order of the servers.
struct Suite<'a> {
    name: SuiteName,
    cells: Vec<&'a Cell>,
}

/// The cells by suite, both in the order in which they come first.
fn suites(cells: &[Cell]) -> Vec<Suite<'_>> {
    let mut suites: Vec<Suite<'_>> = Vec::new();
    for cell in cells {
        match suites.iter_mut().find(|suite| suite.name == cell.suite) {
            Some(suite) => suite.cells.push(cell),
            None => suites.push(Suite { name: cell.suite, cells: vec![cell] }),
        }
    }
    suites
}

/// The names of the servers, in their order.
fn servers(cells: &[Cell]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for cell in cells {
        if !names.contains(&cell.server.as_str()) {
            names.push(&cell.server);
        }
    }
    names
}

impl<'a> Suite<'a> {
    /// Its figures as rows: the first server's figure, for the title, and the one of each server.
    fn rows(&self) -> Vec<(&'a Figure, Vec<Option<&'a Figure>>)> {
        let Some(longest) =
            self.cells.iter().filter_map(|cell| cell.measured()).max_by_key(|measured| measured.figures.len())
        else {
            return Vec::new();
        };
        let of_all = |figure: &Figure| {
            self.cells.iter().map(|cell| cell.measured().and_then(|measured| measured.figure(&figure.name))).collect()
        };
        longest.figures.iter().map(|figure| (figure, of_all(figure))).collect()
    }

    /// Which server has the highest figure, and by how much, for figures of which more is better.
    fn order_in_words(&self) -> Vec<String> {
        self.rows().into_iter().filter_map(|(figure, of_all)| self.lead_in_words(figure, &of_all)).collect()
    }

    fn lead_in_words(&self, figure: &Figure, of_all: &[Option<&Figure>]) -> Option<String> {
        if !is_more_better(figure.unit) {
            return None;
        }
        let mut measured: Vec<(&str, &Figure, f64)> = self
            .cells
            .iter()
            .zip(of_all)
            .filter_map(|(cell, figure)| figure.and_then(|figure| Some((cell.server.as_str(), figure, figure.value?))))
            .collect();
        measured.sort_by(|a, b| b.2.total_cmp(&a.2));
        let [(first, first_figure, most), (second, second_figure, next), ..] = measured[..] else { return None };
        let title = &figure.title;
        let low = |figure: &Figure, value: f64| figure.interval95.map_or(value, |[low, _]| low);
        let high = |figure: &Figure, value: f64| figure.interval95.map_or(value, |[_, high]| high);
        Some(if first_figure.at_least && second_figure.at_least {
            format!("{title}: {first} and {second} have lower bounds alone, since the client came to its end first.")
        } else if low(first_figure, most) <= high(second_figure, next) {
            format!("{title}: {first} and {second} are first; their intervals overlap.")
        } else {
            let at_least = if first_figure.at_least { "at least " } else { "" };
            format!("{title}: {first} is first, with {at_least}{:.2} times the figure of {second}.", most / next)
        })
    }

    /// The curves of all servers, those of one name in one chart.
    fn charts(&self) -> Vec<Chart> {
        let mut names: Vec<&str> = Vec::new();
        for curve in self.cells.iter().filter_map(|cell| cell.measured()).flat_map(|measured| &measured.curves) {
            if !names.contains(&curve.name.as_str()) {
                names.push(&curve.name);
            }
        }
        names.into_iter().map(|name| self.chart(name)).collect()
    }

    fn chart(&self, name: &str) -> Chart {
        let curves: Vec<(usize, &str, &Curve)> = self
            .cells
            .iter()
            .enumerate()
            .filter_map(|(position, cell)| Some((position, cell.server.as_str(), cell.measured()?.curve(name)?)))
            .collect();
        let points = || curves.iter().flat_map(|(_, _, curve)| &curve.lines).flat_map(|line| &line.points);
        let [x_most, y_most] = [0, 1].map(|axis| points().map(|point| point[axis]).fold(0.0, f64::max));
        let mut series = Vec::new();
        for (position, server, curve) in &curves {
            for (number, line) in curve.lines.iter().enumerate() {
                let label =
                    if curve.lines.len() > 1 { format!("{server}, {}", line.name) } else { (*server).to_owned() };
                let hover = |[x, y]: [f64; 2]| {
                    format!("{label}\n{} {}: {}", display::count(x.round() as u64), curve.x_axis, words::rate(y))
                };
                let points = line.points.iter().map(|point| Point::new(point[0], Some(point[1]), hover(*point)));
                let dash = DASHES[(position / MARKS.len() + number) % DASHES.len()];
                let line = Series::line(&label, Color::Side(*position), 2.0, dash, points.collect());
                series.push(line.marked(MARKS[position % MARKS.len()]));
            }
        }
        let (_, _, first) = curves[0];
        let told: Vec<String> = curves
            .iter()
            .map(|(_, server, curve)| format!("{server}: {}.", curve.words.trim_end_matches('.')))
            .collect();
        let title = format!("{} ({})", first.title, first.y_axis);
        Chart::new(
            format!("{}-{name}", self.name),
            title,
            Axis::from_zero(x_most * 1.04).titled(&first.x_axis),
            Panel::new(Axis::from_zero(y_most * 1.1), HEIGHT, series),
        )
        .in_words(told.join(" "))
    }
}

fn is_more_better(unit: Unit) -> bool {
    match unit {
        Unit::PerSecond | Unit::BitsPerSecond | Unit::BytesPerSecond | Unit::Connections => true,
        Unit::Threads | Unit::Milliseconds | Unit::Share => false,
    }
}

/// The page's title, which is its answer too.
pub(super) fn title(cells: &[Cell]) -> String {
    let complete = cells.iter().filter(|cell| cell.state == CellState::Complete).count();
    let (suites, servers) = (suites(cells).len() as u64, servers(cells).len() as u64);
    let all = if complete == cells.len() { String::new() } else { format!(", {complete} of {} measured", cells.len()) };
    format!("{} with {}{all}", words::counted(suites, "suite"), words::counted(servers, "server"))
}

/// The page's body.
pub(super) fn page(cells: &[Cell]) -> Markup {
    let suites = suites(cells);
    let first_document = cells.iter().find_map(|cell| cell.document.as_ref());
    html! {
        header {
            p.kind { "Thalweg · the suites of the source documents" }
            h1 { (title(cells)) }
            @if let Some(document) = first_document { (facts(cells, document)) }
            @if cells.iter().any(|cell| cell.state != CellState::Complete) {
                div.notice { ul { @for cell in cells.iter().filter(|cell| cell.state != CellState::Complete) {
                    li { (cell.suite) " with " (cell.server) ": " (cell.sentence()) }
                } } }
            }
        }
        @for suite in &suites {
            section {
                h2 { (suite.name.title()) }
                (table(suite))
                @let order = suite.order_in_words();
                @if !order.is_empty() { ul { @for sentence in &order { li { (sentence) } } } }
                @for chart in suite.charts() { (chart.figure()) }
                (choices(suite))
            }
        }
        (disclosure(cells))
        @if let Some(document) = first_document {
            (super::sections::machine(&document.host, None))
        }
    }
}

fn facts(cells: &[Cell], document: &Document) -> Markup {
    let seconds: f64 = cells.iter().map(|cell| cell.seconds).sum();
    let mut scales: Vec<String> =
        cells.iter().filter_map(|cell| cell.measured()).map(|measured| measured.scale.to_string()).collect();
    scales.sort();
    scales.dedup();
    let server_cpus = cells.iter().find_map(|cell| cell.server_facts.as_ref()).map(|facts| numbers(&facts.cpus));
    html! {
        dl.facts {
            div { dt { "Started" } dd { (words::date(&document.started)) } }
            div { dt { "Measuring took" } dd { (words::seconds(seconds)) } }
            div { dt { "Share of the whole suites (scale)" } dd { (words::enumerated(&scales)) } }
            @if let Some(cpus) = server_cpus { div { dt { "CPUs of each server" } dd { (cpus) } } }
            div { dt { "Version" } dd { (document.version) } }
        }
    }
}

fn numbers(numbers: &[usize]) -> String {
    words::enumerated(&numbers.iter().map(usize::to_string).collect::<Vec<_>>())
}

fn table(suite: &Suite<'_>) -> Markup {
    let label = suite.name.title();
    html! {
        div.scroll.broad tabindex="0" role="region" aria-label=(label) {
            table {
                caption { span { (label) "; the highest figure of a row is bold" } }
                thead { tr {
                    th scope="col" { "" }
                    @for cell in &suite.cells { th.number scope="col" { (cell.server) } }
                } }
                tbody {
                    @for (figure, of_all) in suite.rows() {
                        @let most = of_all.iter().flatten().filter_map(|figure| figure.value).fold(0.0, f64::max);
                        tr {
                            th scope="row" { (figure.title) }
                            @for figure in &of_all { (field(*figure, most)) }
                        }
                    }
                    @if suite.cells.iter().any(|cell| cell.measured().is_none()) {
                        tr {
                            th scope="row" { "not measured" }
                            @for cell in &suite.cells {
                                td.number { @if cell.measured().is_none() { (state(cell)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn state(cell: &Cell) -> &'static str {
    match cell.state {
        CellState::Complete => "no result",
        CellState::Interrupted => "interrupted",
        CellState::Failed => "failed",
    }
}

fn field(figure: Option<&Figure>, most: f64) -> Markup {
    let Some(figure) = figure else { return html! { td.number { (words::NONE) } } };
    let is_first = is_more_better(figure.unit) && figure.value.is_some_and(|value| value >= most);
    let interval =
        figure.interval95.map(|[low, high]| format!("{} to {}", figure.unit.text(low), figure.unit.text(high)));
    html! {
        td.number title=(figure.words) {
            @if is_first { b { (figure.text()) } } @else { (figure.text()) }
            @if let Some(interval) = interval { span.outcome { small { (interval) } } }
        }
    }
}

/// The choices of a suite: those that all servers have in common, then those of some.
fn choices(suite: &Suite<'_>) -> Markup {
    let measured: Vec<(&str, &Measured)> =
        suite.cells.iter().filter_map(|cell| Some((cell.server.as_str(), cell.measured()?))).collect();
    let mut of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut order: Vec<&str> = Vec::new();
    for (server, measured) in &measured {
        for choice in &measured.choices {
            if !order.contains(&choice.as_str()) {
                order.push(choice);
            }
            of.entry(choice).or_default().push(server);
        }
    }
    html! {
        @if !order.is_empty() {
            details {
                summary { "Choices where the document is silent, and departures from it" }
                ul { @for choice in order {
                    li {
                        @if of[choice].len() < measured.len() {
                            (words::enumerated(&of[choice].iter().map(ToString::to_string).collect::<Vec<_>>())) ": "
                        }
                        (choice)
                    }
                } }
            }
        }
        @if measured.iter().any(|(_, measured)| !measured.reasons.is_empty()) {
            details {
                summary { "Each figure in words" }
                ul { @for (server, measured) in &measured {
                    @for figure in measured.figures.iter().filter(|figure| !figure.words.is_empty()) {
                        li { (server) ", " (figure.title) ": " (figure.words) }
                    }
                    @for reason in &measured.reasons { li { (server) ": " (reason) } }
                } }
            }
        }
    }
}

/// The configurations of all servers, so that others can start the same ones.
fn disclosure(cells: &[Cell]) -> Markup {
    let mut facts: Vec<(&str, &ServerFacts)> = Vec::new();
    for cell in cells {
        if let Some(of_server) = &cell.server_facts
            && facts.iter().all(|(name, _)| *name != cell.server)
        {
            facts.push((&cell.server, of_server));
        }
    }
    html! {
        section {
            h2 { "Configurations of the servers" }
            @for (name, server) in facts {
                details {
                    summary { (name) @if let Some(version) = &server.version { ": " (version) } }
                    pre tabindex="0" { code { (server.command) } }
                    @for (file, text) in &server.configurations {
                        h3 { (file) }
                        pre tabindex="0" { code { (text) } }
                    }
                }
            }
        }
    }
}

/// All figures as lines of a table, with tabs between fields.
pub(super) fn rows(cells: &[Cell]) -> String {
    let head = ["suite", "figure", "unit", "server", "value", "low95", "high95", "at_least", "state", "seconds"];
    let mut lines = vec![head.map(str::to_owned)];
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
    for cell in cells {
        let state = format!("{:?}", cell.state).to_lowercase();
        let line = |figure: Option<&Figure>| {
            let [low, high] = figure.and_then(|figure| figure.interval95).map_or([None; 2], |ends| ends.map(Some));
            [
                cell.suite.to_string(),
                figure.map_or_else(|| "-".to_owned(), |figure| figure.name.clone()),
                figure.map_or_else(|| "-".to_owned(), |figure| figure.unit.name().to_owned()),
                cell.server.clone(),
                number(figure.and_then(|figure| figure.value)),
                number(low),
                number(high),
                figure.is_some_and(|figure| figure.at_least).to_string(),
                state.clone(),
                format!("{:.1}", cell.seconds),
            ]
        };
        match cell.measured() {
            Some(measured) => lines.extend(measured.figures.iter().map(|figure| line(Some(figure)))),
            None => lines.push(line(None)),
        }
    }
    lines.iter().map(|line| line.join("\t") + "\n").collect()
}
