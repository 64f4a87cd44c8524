//! The result of `thalweg disk` as text: the rows of bonnie++ with units, one below the other.

use std::fmt::Write;

use thalweg_disk::document::{Document, Pass, ReadSizes, Row, Streams, Unit};
use thalweg_units::display::{bytes, count, percent, rate, size, time};

/// The result in lines.
pub(super) fn of(document: &Document) -> String {
    let mut text = head(document);
    let mut section = |section: String| {
        if !section.is_empty() {
            text.push('\n');
            text.push_str(&section);
        }
    };
    section(rows(&format!("large file, {}", size(document.settings.size)), &document.throughput));
    let title = match document.settings.file_size {
        0 => format!("{} empty files", count(document.settings.files)),
        contents => format!("{} files of {}", count(document.settings.files), size(contents)),
    };
    section(rows(&title, &document.files));
    document.read_sizes.iter().for_each(|read| section(read_sizes(read)));
    section(document.streams.as_ref().map(streams).unwrap_or_default());
    section(document.notes.iter().map(|note| format!("note: {note}\n")).collect());
    section(document.stopped.iter().map(|why| format!("INCOMPLETE: {why}\n")).collect());
    text
}

fn head(document: &Document) -> String {
    let (system, settings) = (&document.file_system, &document.settings);
    let kind = if system.kind.is_empty() { "file system" } else { &system.kind };
    format!(
        "{}: {kind} on {}, {} of {} free\nblocks of {}, page cache {}, data of large files moved by {}\n",
        system.folder,
        system.source,
        bytes(system.bytes_free),
        bytes(system.bytes),
        size(settings.block),
        settings.cache,
        engine(&settings.engine),
    )
}

fn engine(name: &str) -> &str {
    if name == "own" { "thalweg itself" } else { name }
}

fn rows(title: &str, rows: &[Row]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut text = format!("{title:<28}{:>14}{:>8}{:>10}  engine\n", "", "CPU", "time");
    for row in rows {
        let name = match row.pass {
            Pass::SequentialStat | Pass::RandomStat if row.bytes > 0 => {
                row.pass.name().replace("stat", "stat and read")
            }
            pass => pass.name().to_owned(),
        };
        writeln!(
            text,
            "  {name:<26}{:>14}{:>8}{:>10}  {}",
            per_second(row),
            format!("{:.0} %", row.cpu * 100.0),
            time((row.seconds * 1e9) as u64),
            row.engine,
        )
        .expect("a string takes everything");
    }
    text
}

fn per_second(row: &Row) -> String {
    match row.unit {
        Unit::Bytes => bytes_per_second(row.per_second),
        Unit::Operations => rate(row.per_second),
    }
}

fn bytes_per_second(figure: f64) -> String {
    format!("{}/s", bytes(figure.round() as u64))
}

fn read_sizes(read: &ReadSizes) -> String {
    let beside = match read.busy_threads {
        0 => String::new(),
        threads => format!(", beside {threads} busy threads"),
    };
    let ends = read.points.first().zip(read.points.last());
    let range =
        ends.map_or(String::new(), |(first, last)| format!(" of {} to {}", bytes(first.size), bytes(last.size)));
    let mut text = format!("reads{range} from the page cache{beside}\n");
    let mut line = |name: &str, figure: String| {
        writeln!(text, "  {name:<26}{figure:>14}").expect("a string takes everything");
    };
    line("height, maximum", format!("{} with reads of {}", bytes_per_second(read.height_max), bytes(read.best_size)));
    line("height, median", bytes_per_second(read.height_median));
    line("90 % of the maximum", format!("with reads of {} and more", bytes(read.sufficient_size)));
    line("jitter", percent(read.jitter));
    line("jitter in all rounds alike", percent(read.bands));
    text
}

fn streams(streams: &Streams) -> String {
    let title = format!("sequential streams, {} each", size(streams.file_bytes));
    let mut text = format!("{title:<42}{:>8}{:>10}  engine\n", "CPU", "time");
    for level in &streams.levels {
        let name = format!("{} stream{}", level.streams, if level.streams == 1 { "" } else { "s" });
        let cpu = format!("{:.0} %", level.cpu * 100.0);
        writeln!(
            text,
            "  {name:<26}{:>14}{cpu:>8}{:>10}  {}",
            bytes_per_second(level.bytes_per_s),
            time((level.seconds * 1e9) as u64),
            streams.engine
        )
        .expect("a string takes everything");
    }
    text.push_str(&streams.words);
    text.push('\n');
    text
}
