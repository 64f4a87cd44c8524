//! The page about a file system.

use maud::{Markup, html};
use thalweg_disk::document::{Document, Pass, ReadSize, ReadSizes, Row, SettingsDocument, StreamLevel, Streams, Unit};
use thalweg_units::display;

use super::chart::{Axis, Chart, Color, Dashes, Mark, Panel, Point, Series, json_for_script};
use super::{trials, words};

/// Height of each chart.
const HEIGHT: f64 = 300.0;

/// Bytes of a unit of the charts' vertical axes.
const MEGABYTE: f64 = 1e6;

pub(super) fn title(document: &Document) -> String {
    format!("{} – Thalweg", document.file_system.folder)
}

pub(super) fn page(document: &Document) -> Markup {
    let incomplete = document.stopped.iter().map(|why| format!("the result is incomplete: {why}"));
    let incomplete: Vec<String> = incomplete.collect();
    html! {
        header {
            p.kind { "Thalweg · file system" }
            h1 { (words::unbroken(&sentence(document))) }
            @if !incomplete.is_empty() { div.why { (trials::sentences(&incomplete)) } }
            (facts(document))
            @if !document.notes.is_empty() { div.notice { (trials::sentences(&document.notes)) } }
        }
        (rows("Large file", &document.throughput))
        (rows("Small files", &document.files))
        @if !document.read_sizes.is_empty() { section {
            h2 { "Reads by size" }
            (read_sizes_chart(&document.read_sizes).figure())
            (read_sizes_table(&document.read_sizes))
        } }
        @if let Some(streams) = &document.streams { section {
            h2 { "Sequential streams" }
            (streams_chart(streams).figure())
        } }
        (machine(document))
        (repeat(document))
    }
}

/// The figure that matters most for a server of files: how fast they can be read.
fn sentence(document: &Document) -> String {
    let of = |pass: Pass| document.throughput.iter().find(|row| row.pass == pass);
    let parts: Vec<String> = [
        of(Pass::InputByBlock).map(|row| format!("reads files sequentially at {}", figure(row))),
        of(Pass::OutputByBlock).map(|row| format!("writes them at {}", figure(row))),
        of(Pass::RandomSeeks).map(|row| format!("makes {} random reads per second", words::rate(row.per_second))),
    ]
    .into_iter()
    .flatten()
    .collect();
    let folder = &document.file_system.folder;
    if parts.is_empty() {
        format!("The file system of {folder}")
    } else {
        format!("{folder} {}", words::enumerated(&parts))
    }
}

fn figure(row: &Row) -> String {
    match row.unit {
        Unit::Bytes => bytes_per_second(row.per_second),
        Unit::Operations => words::per_second(row.per_second),
    }
}

fn bytes_per_second(figure: f64) -> String {
    format!("{}/s", display::bytes(figure.round() as u64))
}

fn facts(document: &Document) -> Markup {
    let (system, settings) = (&document.file_system, &document.settings);
    let engine = if settings.engine == "own" { "thalweg itself" } else { &settings.engine };
    html! {
        dl.facts {
            div { dt { "Folder" } dd { (system.folder) } }
            div { dt { "File system" } dd { (system.kind) " on " (system.source) } }
            div { dt { "Room" } dd { (display::bytes(system.bytes_free)) " of " (display::bytes(system.bytes)) " free" } }
            div { dt { "Large file" } dd { (display::size(settings.size)) " in blocks of " (display::size(settings.block)) } }
            div { dt { "Page cache" } dd { (settings.cache) } }
            div { dt { "Data moved by" } dd { (engine) } }
            div { dt { "Small files" } dd { (small_files(settings)) } }
            div { dt { "Started" } dd { time datetime=(document.started) { (words::date(&document.started)) } } }
        }
    }
}

fn small_files(settings: &SettingsDocument) -> String {
    match settings.file_size {
        0 => format!("{}, empty", display::count(settings.files)),
        size => format!("{} of {}", display::count(settings.files), display::size(size)),
    }
}

fn rows(title: &str, rows: &[Row]) -> Markup {
    html! {
        @if !rows.is_empty() { section {
            h2 { (title) }
            div.scroll tabindex="0" role="region" aria-label=(title) { table {
                thead { tr {
                    th scope="col" { "pass" }
                    th.number scope="col" { "per second" }
                    th.number scope="col" { "CPU" }
                    th.number scope="col" { "time" }
                    th.number scope="col" { "from the device" }
                    th scope="col" { "engine" }
                } }
                tbody { @for row in rows { tr {
                    th scope="row" { (row.pass.name()) }
                    td.number { (figure(row)) }
                    td.number { (share(row.cpu)) }
                    td.number { (words::seconds(row.seconds)) }
                    td.number { (row.device_read_bytes.map_or_else(|| words::NONE.to_owned(), display::bytes)) }
                    td { (row.engine) }
                } } }
            } }
        } }
    }
}

fn share(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Throughput over the size of a read: medians of the rounds, with the least and the greatest.
fn read_sizes_chart(all: &[ReadSizes]) -> Chart {
    let sizes = || all.iter().flat_map(|read| &read.points).map(|point| point.size);
    let (first, last) = (sizes().min().unwrap_or(1), sizes().max().unwrap_or(1));
    let most = all.iter().flat_map(|read| &read.points).flat_map(|point| &point.rounds).copied().fold(0.0, f64::max);
    let series = all.iter().enumerate().map(|(position, read)| read_sizes_series(position, read)).collect();
    let x = Axis::sizes(first, last).titled("size of a read");
    let panel = Panel::new(Axis::from_zero(most / MEGABYTE * 1.05), HEIGHT, series);
    let words: Vec<String> = all.iter().map(read_sizes_words).collect();
    Chart::new("read-sizes", "Throughput of reads from the page cache, in MB/s", x, panel).in_words(words.join(" "))
}

fn read_sizes_series(position: usize, read: &ReadSizes) -> Series {
    let median = |point: &ReadSize| {
        let hover = format!("{}\n{}: {}", named(read), display::bytes(point.size), bytes_per_second(point.bytes_per_s));
        Point::new(point.size as f64, Some(point.bytes_per_s / MEGABYTE), hover).within(ends(&point.rounds))
    };
    let points = read.points.iter().map(median).collect();
    Series::line(named(read), Color::Side(position), 2.0, Dashes::Solid, points)
}

/// The least and the greatest figure, in units of the charts.
fn ends(figures: &[f64]) -> [f64; 2] {
    let figures = figures.iter().map(|figure| figure / MEGABYTE);
    figures.fold([f64::MAX, 0.0], |[low, high], figure| [figure.min(low), figure.max(high)])
}

fn named(read: &ReadSizes) -> String {
    match read.busy_threads {
        0 => "without busy threads".to_owned(),
        threads => format!("beside {}", words::counted(threads as u64, "busy thread")),
    }
}

fn read_sizes_words(read: &ReadSizes) -> String {
    let beside = match read.busy_threads {
        0 => String::new(),
        threads => format!("Beside {}: ", words::counted(threads as u64, "busy thread")),
    };
    format!(
        "{beside}Height {} at most, with reads of {}; 90 % of that with reads of {}. Jitter {}.",
        bytes_per_second(read.height_max),
        display::bytes(read.best_size),
        display::bytes(read.sufficient_size),
        display::percent(read.jitter),
    )
}

fn read_sizes_table(all: &[ReadSizes]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Height and jitter" { table {
            caption { span { "Height tells of the memory and of system calls, jitter of the scheduler" } }
            thead { tr {
                th scope="col" { "busy threads" }
                th.number scope="col" { "maximum" }
                th.number scope="col" { "median" }
                th.number scope="col" { "best size" }
                th.number scope="col" { "jitter" }
                th.number scope="col" { "jitter in all rounds alike" }
            } }
            tbody { @for read in all { tr {
                th scope="row" { (read.busy_threads) }
                td.number { (bytes_per_second(read.height_max)) }
                td.number { (bytes_per_second(read.height_median)) }
                td.number { (display::bytes(read.best_size)) }
                td.number { (display::percent(read.jitter)) }
                td.number { (display::percent(read.bands)) }
            } } }
        } }
    }
}

/// Throughput over the number of streams.
fn streams_chart(streams: &Streams) -> Chart {
    let point = |level: &StreamLevel| {
        let name = words::counted(level.streams as u64, "stream");
        let hover = format!("{name}\n{}, CPU {}", bytes_per_second(level.bytes_per_s), share(level.cpu));
        Point::new(level.streams as f64, Some(level.bytes_per_s / MEGABYTE), hover).within(ends(&level.rounds))
    };
    let line =
        Series::line("all streams", Color::Series, 2.0, Dashes::Solid, streams.levels.iter().map(point).collect());
    let figures = streams.levels.iter().flat_map(|level| &level.rounds).copied();
    let most = figures.fold(0.0, f64::max);
    let last = streams.levels.last().map_or(1, |level| level.streams);
    let ticks = streams.levels.iter().map(|level| (level.streams as f64, level.streams.to_string())).collect();
    let x = Axis::from_zero(last as f64 * 1.04).labelled(ticks).titled("streams at once");
    let panel = Panel::new(Axis::from_zero(most / MEGABYTE * 1.1), HEIGHT, vec![line.marked(Mark::Circle).unlisted()]);
    Chart::new("streams", "Throughput of all streams together, in MB/s", x, panel).in_words(&streams.words)
}

fn machine(document: &Document) -> Markup {
    let host = &document.host;
    html! {
        section {
            h2 { "Machine" }
            dl.facts {
                div { dt { "Host" } dd { (host.name) } }
                div { dt { "Kernel" } dd { (host.kernel) } }
                div { dt { "CPU" } dd { (host.cpu_model) } }
                div { dt { "CPUs online" } dd { (host.cpus) } }
                div { dt { "Memory" } dd { (display::bytes(host.memory_bytes)) } }
                div { dt { "Load average before" } dd { (format!("{:.2}", host.load_average)) } }
                div.wide { dt { "Mount options" } dd { (document.file_system.options) } }
            }
        }
    }
}

fn repeat(document: &Document) -> Markup {
    html! {
        section {
            h2 { "Repeat the measurement" }
            div.command { pre tabindex="0" { code { (words::shell_command(&document.command)) } } }
            dl.facts {
                div { dt { "Version" } dd { (document.version) } }
                div { dt { "Seed" } dd { (document.settings.seed) } }
                div { dt { "Rounds" } dd { (document.settings.rounds) } }
            }
            p.download hidden { button type="button" id="download" { "Download the result as JSON" } }
            noscript { p { "The result as JSON is in the source of this page, in the element with id " code { "result" } "." } }
            script type="application/json" id="result" { (json_for_script(document)) }
        }
    }
}
