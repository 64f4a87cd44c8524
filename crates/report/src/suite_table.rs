//! Several suites with several servers: one table for each suite, with the servers as columns.

use std::collections::BTreeMap;

use maud::{Markup, html};
use thalweg_units::display;

use super::chart::{Axis, Chart, Color, Dashes, Mark, Panel, Point, Series};
use super::lead::{Entry, Lead, ratio_to_first};
use super::words;
use crate::cell::ServerFacts;
use crate::cell::{Cell, CellState};
use crate::document::{Curve, CurveLine, Document, Figure, Measured, SuiteName, Unit};
use crate::reference::reference;

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
        let mut sentences = Vec::new();
        for (figure, of_all) in self.rows() {
            if let Some(lead) = Lead::of(&self.entries(&of_all)) {
                sentences.push(format!("{}: {}.", figure.title, lead.in_words()));
            }
        }
        let left_out = self.cells.iter().filter(|cell| cell.measured().is_some() && !cell.is_whole());
        let left_out: Vec<String> =
            left_out.map(|cell| format!("{} ({})", cell.server, state(cell).unwrap_or_default())).collect();
        if !sentences.is_empty() && !left_out.is_empty() {
            sentences.push(format!("Left out of the order: {}.", words::enumerated(&left_out)));
        }
        sentences
    }

    /// The figures of a row that can be put into an order; none if less is better.
    fn entries<'b>(&'b self, of_all: &[Option<&Figure>]) -> Vec<Entry<'b>> {
        let entry = |(cell, figure): (&&'b Cell, &Option<&Figure>)| {
            let figure = figure.filter(|figure| cell.is_whole() && is_more_better(figure.unit))?;
            Some(Entry {
                server: &cell.server,
                value: figure.value?,
                interval95: figure.interval95,
                at_least: figure.at_least,
            })
        };
        self.cells.iter().zip(of_all).filter_map(entry).collect()
    }

    /// The curves of all servers, those of one name in one chart.
    fn charts(&self) -> Vec<Chart> {
        let mut names: Vec<&str> = Vec::new();
        for curve in self.cells.iter().filter_map(|cell| cell.measured()).flat_map(|measured| &measured.curves) {
            if !names.contains(&curve.name.as_str()) {
                names.push(&curve.name);
            }
        }
        names.into_iter().flat_map(|name| self.charts_of(name)).collect()
    }

    /// The chart of a curve; one for each of its lines if it has several.
    fn charts_of(&self, name: &str) -> Vec<Chart> {
        let curves: Vec<(usize, &str, &Curve)> = self
            .cells
            .iter()
            .enumerate()
            .filter_map(|(position, cell)| Some((position, cell.server.as_str(), cell.measured()?.curve(name)?)))
            .collect();
        let lines = curves.iter().map(|(_, _, curve)| curve.lines.len()).max().unwrap_or(0);
        let mut charts: Vec<Chart> = (0..lines).filter_map(|number| self.chart(&curves, number, lines > 1)).collect();
        if let Some(last) = charts.pop() {
            let told = |(_, server, curve): &(usize, &str, &Curve)| {
                format!("{server}: {}.", curve.words.trim_end_matches('.'))
            };
            charts.push(last.in_words(curves.iter().map(told).collect::<Vec<_>>().join(" ")));
        }
        charts
    }

    /// The lines with this number, one for each server.
    fn chart(&self, curves: &[(usize, &str, &Curve)], number: usize, is_one_of_several: bool) -> Option<Chart> {
        let lines: Vec<(usize, &str, &CurveLine)> = curves
            .iter()
            .filter_map(|(position, server, curve)| Some((*position, *server, curve.lines.get(number)?)))
            .collect();
        let points = || lines.iter().flat_map(|(_, _, line)| &line.points);
        let [x_most, y_most] = [0, 1].map(|axis| points().map(|point| point[axis]).fold(0.0, f64::max));
        let (_, _, curve) = curves.first()?;
        let (_, _, first) = lines.first()?;
        let of_server = |(position, server, line): &(usize, &str, &CurveLine)| {
            let hover = |[x, y]: [f64; 2]| {
                format!("{server}\n{} {}: {}", display::count(x.round() as u64), curve.x_axis, words::rate(y))
            };
            let points = line.points.iter().map(|point| Point::new(point[0], Some(point[1]), hover(*point)));
            let dash = DASHES[position / MARKS.len() % DASHES.len()];
            let series = Series::line(*server, Color::Side(*position), 2.0, dash, points.collect());
            series.marked(MARKS[position % MARKS.len()])
        };
        let series = lines.iter().map(of_server).collect();
        let (id, of_line) = match is_one_of_several {
            true => (format!("{}-{}-{number}", self.name, curve.name), format!(", {}", first.name)),
            false => (format!("{}-{}", self.name, curve.name), String::new()),
        };
        Some(Chart::new(
            id,
            format!("{}{of_line} ({})", curve.title, curve.y_axis),
            Axis::from_zero(x_most * 1.04).titled(&curve.x_axis),
            Panel::new(Axis::from_zero(y_most * 1.1), HEIGHT, series),
        ))
    }
}

fn is_more_better(unit: Unit) -> bool {
    match unit {
        Unit::PerSecond | Unit::BitsPerSecond | Unit::BytesPerSecond | Unit::Connections => true,
        Unit::Threads | Unit::Milliseconds | Unit::Share => false,
    }
}

/// The page's title, which is its answer too. `absent` cells were to be measured and are not there.
pub(super) fn title(cells: &[Cell], absent: usize) -> String {
    let complete = cells.iter().filter(|cell| cell.state == CellState::Complete).count();
    let (suites, servers) = (suites(cells).len() as u64, servers(cells).len() as u64);
    let count = cells.len() + absent;
    let all = if complete == count { String::new() } else { format!(", {complete} of {count} measured") };
    format!("{} with {}{all}", words::counted(suites, "suite"), words::counted(servers, "server"))
}

/// The page's body.
pub(super) fn page(cells: &[Cell], absent: usize) -> Markup {
    let suites = suites(cells);
    let first_document = cells.iter().find_map(|cell| cell.document.as_ref());
    html! {
        header {
            p.kind { "Thalweg · the suites of the source documents" }
            h1 { (title(cells, absent)) }
            @if let Some(document) = first_document { (facts(cells, document)) }
            @if absent > 0 || cells.iter().any(|cell| cell.state != CellState::Complete) {
                div.notice { ul {
                    @if absent > 0 { li { (words::count(absent as u64)) " not measured yet; --resume goes on" } }
                    @for cell in cells.iter().filter(|cell| cell.state != CellState::Complete) {
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
    let server_cpus = distinct(cells.iter().filter_map(|cell| cell.server_facts.as_ref()).map(|facts| &*facts.cpus));
    let client_cpus = distinct(cells.iter().map(|cell| &*cell.client_cpus));
    html! {
        dl.facts {
            div { dt { "Started" } dd { (words::date(&document.started)) } }
            div { dt { "Measuring took" } dd { (words::seconds(seconds)) } }
            div { dt { "Share of the whole suites (scale)" } dd { (words::enumerated(&scales)) } }
            @if !server_cpus.is_empty() { div { dt { "CPUs of each server" } dd { (server_cpus) } } }
            @if !client_cpus.is_empty() { div { dt { "CPUs of the clients" } dd { (client_cpus) } } }
            div { dt { "Version" } dd { (document.version) } }
        }
    }
}

/// Lists of CPUs, each once.
fn distinct<'a>(lists: impl Iterator<Item = &'a [usize]>) -> String {
    let mut texts: Vec<String> = Vec::new();
    for list in lists.filter(|list| !list.is_empty()) {
        let text = words::enumerated(&list.iter().map(usize::to_string).collect::<Vec<_>>());
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts.join("; ")
}

fn table(suite: &Suite<'_>) -> Markup {
    let label = suite.name.title();
    let reference = reference(suite.name);
    let columns = reference.map_or(&[][..], |reference| reference.columns);
    let of_document = |name: &str, column: usize| {
        let row = reference.and_then(|reference| reference.rows.iter().find(|(figure, _)| *figure == name));
        row.map_or(words::NONE, |(_, cells)| cells[column])
    };
    html! {
        div.scroll.broad tabindex="0" role="region" aria-label=(label) {
            table {
                caption { span {
                    (label) "; bold: the highest figure of a row, and those that may be higher; ≥: a lower bound, beyond which the \
                             client fell short"
                    @if let Some(reference) = reference { "; on the right the figures of " (reference.source) }
                } }
                thead { tr {
                    th scope="col" { "" }
                    @for cell in &suite.cells { th.number scope="col" { (cell.server) } }
                    @for column in columns { th.number scope="col" { (column) } }
                } }
                tbody {
                    @for (figure, of_all) in suite.rows() {
                        @let entries = suite.entries(&of_all);
                        tr {
                            th scope="row" { (figure.title) }
                            @for (cell, figure) in suite.cells.iter().zip(&of_all) {
                                (field(&cell.server, *figure, &entries))
                            }
                            @for column in 0..columns.len() { td.number { (of_document(&figure.name, column)) } }
                        }
                    }
                    @if suite.cells.iter().any(|cell| state(cell).is_some()) {
                        tr {
                            th scope="row" { "state" }
                            @for cell in &suite.cells { td.number { (state(cell).unwrap_or_default()) } }
                            @for _ in columns { td.number {} }
                        }
                    }
                }
            }
        }
    }
}

/// The state of a cell that is not complete.
fn state(cell: &Cell) -> Option<&'static str> {
    match cell.state {
        CellState::Complete => None,
        CellState::Partial => Some("figures missing"),
        CellState::Interrupted => Some("interrupted"),
        CellState::Failed => Some("failed"),
    }
}

/// The figure of a server, with its ratio to the first of its row.
fn field(server: &str, figure: Option<&Figure>, entries: &[Entry<'_>]) -> Markup {
    let Some(figure) = figure else { return html! { td.number { (words::NONE) } } };
    let is_first = Lead::of(entries).is_some_and(|lead| lead.may_be_first(server));
    let entry = entries.iter().find(|entry| entry.server == server);
    let ratio = entry.and_then(|entry| ratio_to_first(entry, entries));
    let interval =
        figure.interval95.map(|[low, high]| format!("{} to {}", figure.unit.text(low), figure.unit.text(high)));
    let text = figure.text().replace("at least ", "≥ ");
    html! {
        td.number title=(figure.words) {
            @if is_first { b { (text) } } @else { (text) }
            @if let Some(interval) = interval { span.outcome { small { (interval) } } }
            @if let Some(ratio) = ratio { span.outcome { small { (ratio) } } }
        }
    }
}

/// The choices of a suite: those that all servers have in common, then those of some.
fn choices(suite: &Suite<'_>) -> Markup {
    let measured: Vec<(&str, &[String], &Measured)> =
        suite.cells.iter().filter_map(|cell| Some((cell.server.as_str(), &*cell.choices, cell.measured()?))).collect();
    let mut of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut order: Vec<&str> = Vec::new();
    for (server, of_table, measured) in &measured {
        for choice in of_table.iter().chain(&measured.choices) {
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
        @if measured.iter().any(|(_, _, measured)| !measured.reasons.is_empty()) {
            details {
                summary { "Each figure in words" }
                ul { @for (server, _, measured) in &measured {
                    @for figure in measured.figures.iter().filter(|figure| !figure.words.is_empty()) {
                        li { (server) ", " (figure.title) ": " (figure.words) }
                    }
                    @for reason in &measured.reasons { li { (server) ": " (reason) } }
                } }
            }
        }
    }
}

/// The configurations of all servers, so that others can start the same ones: of each server and
/// version those of the first suite.
fn disclosure(cells: &[Cell]) -> Markup {
    let mut facts: Vec<(&str, &ServerFacts)> = Vec::new();
    for cell in cells {
        let Some(of_server) = &cell.server_facts else { continue };
        if facts.iter().all(|(name, other)| *name != cell.server || other.version != of_server.version) {
            facts.push((&cell.server, of_server));
        }
    }
    facts.sort_by_key(|(name, _)| cells.iter().position(|cell| cell.server == *name));
    html! {
        section {
            h2 { "Configurations of the servers" }
            @for (name, server) in facts {
                details {
                    summary { (name) @if let Some(version) = &server.version { ": " (version) } }
                    pre tabindex="0" { code { (server.command) } }
                    @if server.connections > 0 { p {
                        "Descriptors: " (words::count(server.descriptors)) "; bound on connections that configurations are "
                        "given: " (words::count(server.connections)) "."
                    } }
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

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::document::Kind;

    fn cell(server: &str, state: CellState, version: &str, operations: Option<f64>) -> Cell {
        let mut measured = Measured::new(SuiteName::AcmeSmall, 0.5);
        measured.figures =
            vec![Figure { value: operations, ..Figure::new("operations", "max ops/sec", Unit::PerSecond) }];
        let facts =
            ServerFacts { version: Some(format!("{server} {version}")), cpus: vec![2], ..ServerFacts::default() };
        let line = |name: &str| CurveLine { name: name.to_owned(), points: vec![[50.0, 1.0], [99.0, 2.0]] };
        measured.curves = vec![Curve {
            name: "times".to_owned(),
            title: "Times".to_owned(),
            x_axis: "percentile".to_owned(),
            y_axis: "ms".to_owned(),
            lines: vec![line("100 bytes"), line("1000 bytes")],
            words: "they rise".to_owned(),
        }];
        Cell {
            suite: SuiteName::AcmeSmall,
            server: server.to_owned(),
            key: String::new(),
            state,
            reasons: vec!["a reason".to_owned()],
            started: "2026-01-01T00:00:00Z".to_owned(),
            seconds: 1.0,
            server_facts: Some(facts),
            client_cpus: vec![3, 4],
            choices: vec!["a choice of the table".to_owned()],
            document: Some(Document { suite: Some(measured), ..sample::document(Kind::Suite, Vec::new()) }),
        }
    }

    #[test]
    fn servers_stand_beside_each_other_and_beside_the_document() {
        let cells = [
            cell("one", CellState::Complete, "1", Some(2000.0)),
            cell("two", CellState::Complete, "1", Some(1000.0)),
            cell("dead", CellState::Failed, "1", Some(9000.0)),
            cell("two", CellState::Partial, "2", None),
        ];
        let page = page(&cells, 2).into_string();
        for part in [
            "1 suite with 3 servers, 2 of 6 measured",
            "2 not measured yet; --resume goes on",
            "max ops/sec: one is first, with 2.00 times the figure of two.",
            "Left out of the order: dead (failed).",
            "<b>2,000/s</b>",
            "<small>0.50 of one</small>",
            ">9,000/s<",
            "figures missing",
            "Not measured: max ops/sec.",
            ">Afterburner</th>",
            ">5200</td>",
            "CPUs of each server</dt><dd>2<",
            "CPUs of the clients</dt><dd>3 and 4<",
            "a choice of the table",
            "two 1<",
            "two 2<",
            "id=\"acme-small-times-0\"",
            "Times, 1000 bytes (ms)",
            "one: they rise.",
        ] {
            assert!(page.contains(part), "{part} in {page}");
        }
    }
}
