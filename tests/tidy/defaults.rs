//! Defaults in documents are those of the program, as it prints them itself.

use std::process::Command;

use crate::Fault;
use crate::repository::REPOSITORY;

/// Options whose defaults documents mention in their text: the document, the words, the command,
/// the option and its default.
const MENTIONS: [(&str, &str, &str, &str, &str); 3] = [
    ("docs/formats.md", "| `--format text` | human-readable (the default) |", "run", "--format", "text"),
    ("docs/logs-and-metrics.md", "`common`, `combined` (the default) or `json`", "serve", "--log-format", "combined"),
    (
        "docs/workloads.md",
        "With HTTP/1.1, P is 32 and C is 4 by default",
        "run",
        "--pipeline",
        "1; with --session 32, as in httperf",
    ),
];

/// Options of `thalweg serve` and the keys of the configuration that they set.
const OPTIONS: [(&str, &str); 5] = [
    ("--cores", "cores"),
    ("--driver", "driver"),
    ("--drain", "drain"),
    ("--log-format", "log.format"),
    ("--sandbox", "sandbox"),
];

const UNIT: &str = "packaging/systemd/thalweg.service";

/// A line of a table with a column "default".
struct Row {
    line: usize,
    /// The text of the first cell, such as `limits.idle_time` or `--timeout T`.
    name: String,
    /// The text between backticks at the beginning of its cell.
    default: String,
}

fn rows(text: &str) -> Vec<Row> {
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()
    };
    let (mut rows, mut column) = (Vec::new(), None);
    for (index, line) in text.lines().enumerate() {
        if !line.starts_with('|') {
            column = None;
        } else if column.is_none() {
            column = Some(cells(line).iter().position(|cell| cell == "default"));
        } else if let Some(Some(column)) = column {
            let cells = cells(line);
            let between = |cell: &str| cell.strip_prefix('`')?.split('`').next().map(str::to_owned);
            if let (Some(name), Some(default)) =
                (cells.first().and_then(|cell| between(cell)), cells.get(column).and_then(|cell| between(cell)))
            {
                rows.push(Row { line: index + 1, name, default });
            }
        }
    }
    rows
}

/// The default of a key in the output of `thalweg serve --print-config`, also of one that is not
/// set there.
fn of_key<'t>(printed: &'t str, key: &str) -> Vec<&'t str> {
    let (table, name) = key.rsplit_once('.').unwrap_or(("", key));
    let mut current = "";
    let mut values = Vec::new();
    for line in printed.lines() {
        let line = line.trim_start_matches('#');
        if let Some(name) = line.strip_prefix('[') {
            current = name.trim_start_matches('[').trim_end_matches(']');
        } else if let Some(value) = line.strip_prefix(name).and_then(|rest| rest.strip_prefix(" = "))
            && (table.is_empty() || table == current)
        {
            values.push(value);
        }
    }
    values
}

/// The default of an option in its help text.
fn of_option<'t>(help: &'t str, option: &str) -> Option<&'t str> {
    let start = format!("{option} <");
    let rest = &help[help.find(&start)? + start.len()..];
    // The next option begins with its own name and value.
    let end = rest
        .match_indices(" --")
        .find(|(at, _)| rest[at + 3..].split(' ').nth(1).is_some_and(|value| value.starts_with('<')));
    let rest = &rest[..end.map_or(rest.len(), |(at, _)| at)];
    let (_, default) = rest.split_once("[default: ")?;
    default.split(']').next()
}

fn check_tables(document: &str, text: &str, printed: &str) -> Vec<Fault> {
    let faults = rows(text).into_iter().filter_map(|Row { line, name, default }| {
        let values = of_key(printed, &name);
        if values.is_empty() {
            return Some(Fault::new(document, line, format!("the configuration has no key {name}")));
        }
        // A key that is not set by default is printed with an example; its document may name the
        // default that takes effect.
        let set = printed.lines().any(|line| {
            values.iter().any(|value| line == format!("{} = {value}", name.rsplit('.').next().unwrap_or_default()))
        });
        (set && !values.contains(&&*default)).then(|| {
            Fault::new(document, line, format!("{name} is {default} here and {} in the program", values.join(", ")))
        })
    });
    faults.collect()
}

fn check_mention(
    text: &str,
    help: &str,
    (document, words, command, option, expected): (&str, &str, &str, &str, &str),
) -> Option<Fault> {
    if !text.contains(words) {
        return Some(Fault::new(
            document,
            1,
            format!("no longer says \"{words}\": correct MENTIONS of tests/tidy/defaults.rs"),
        ));
    }
    let default = of_option(help, option);
    (default != Some(expected))
        .then(|| Fault::new(document, 1, format!("says \"{words}\", and {command} {option} has {default:?}")))
}

fn check_option(help: &str, printed: &str, (option, key): (&str, &str)) -> Option<Fault> {
    let values: Vec<_> = of_key(printed, key).into_iter().map(|value| value.trim_matches('"')).collect();
    let default = of_option(help, option);
    let agrees = default.is_some_and(|default| values == [default]);
    let advice = format!("{option} has the default {default:?}, and its key {key} {values:?}");
    (!agrees).then(|| Fault::new("thalweg serve --help", 1, advice))
}

/// systemd has to wait longer than the server drains.
fn check_unit(unit: &str, printed: &str) -> Option<Fault> {
    let seconds = |text: &str| text.trim_matches('"').strip_suffix('s')?.parse::<u32>().ok();
    let drain = of_key(printed, "drain").first().and_then(|value| seconds(value));
    let stop = unit.lines().find_map(|line| seconds(line.strip_prefix("TimeoutStopSec=")?));
    let advice = format!("TimeoutStopSec= is {stop:?} s and has to be longer than drain, {drain:?} s");
    (stop.is_none() || stop <= drain).then(|| Fault::new(UNIT, 1, advice))
}

fn output(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_thalweg")).args(arguments).output().unwrap();
    assert!(output.status.success(), "thalweg {arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn documents_have_the_defaults_of_the_program() -> Vec<Fault> {
    let printed = output(&["serve", "--print-config"]);
    let documents: Vec<_> = REPOSITORY
        .files
        .iter()
        .filter(|file| file.ends_with(".md") && (file.starts_with("docs/") || *file == "README.md"))
        .collect();
    let tables: usize = documents.iter().map(|document| rows(&REPOSITORY.text(document)).len()).sum();
    assert!(tables > 40, "{tables} defaults are in tables");
    let faults = documents.iter().flat_map(|document| check_tables(document, &REPOSITORY.text(document), &printed));
    let mentions = MENTIONS.iter().filter_map(|mention| {
        let help = output(&[mention.2, "--help"]).split_whitespace().collect::<Vec<_>>().join(" ");
        check_mention(&REPOSITORY.text(mention.0), &help, *mention)
    });
    faults.chain(mentions).collect()
}

pub(crate) fn options_and_units_have_the_defaults_of_the_configuration() -> Vec<Fault> {
    let printed = output(&["serve", "--print-config"]);
    let help = output(&["serve", "--help"]).split_whitespace().collect::<Vec<_>>().join(" ");
    let options = OPTIONS.iter().filter_map(|option| check_option(&help, &printed, *option));
    options.chain(check_unit(&REPOSITORY.text(UNIT), &printed)).collect()
}

#[test]
fn an_option_and_a_unit_that_differ_are_found() {
    let (help, printed) =
        ("--drain <TIME> How long [default: 30s] --cores <LIST> CPUs", "drain = \"30s\"\ncores = \"all\"\n");
    assert_eq!(check_option(help, printed, ("--drain", "drain")), None);
    assert!(check_option(help, &printed.replace("30s", "31s"), ("--drain", "drain")).is_some());
    assert!(check_option(help, printed, ("--cores", "cores")).is_some());
    assert_eq!(check_unit("TimeoutStopSec=45s\n", printed), None);
    assert!(check_unit("TimeoutStopSec=30s\n", printed).is_some());
    assert!(check_unit("KillMode=mixed\n", printed).is_some());
}

#[test]
fn a_default_that_differs_is_found() {
    let printed = "cores = \"all\"\n[limits]\n# Says.\nplaces = 0\n#time = \"1s\"\n[cache]\nplaces = 5\n";
    let document = |rows: &str| {
        format!(
            "Text.\n\n| key | default | |\n| --- | --- | --- |\n{rows}\n\n| key | other |\n| --- | --- |\n| `x` | `y` |\n"
        )
    };
    for (rows, found) in [
        ("| `limits.places` | `0` | says |\n| `cache.places` | `5`, or so | says |\n| `cores` | `\"all\"` | |", None),
        ("| `limits.places` | `131072` | says |", Some("limits.places is 131072 here and 0 in the program")),
        ("| `limits.time` | `\"2s\"` | says |", None),
        ("| `places` | `7` | says |", Some("places is 7 here and 0, 5 in the program")),
        ("| `gone` | `1` | says |", Some("the configuration has no key gone")),
    ] {
        let faults = check_tables("a.md", &document(rows), printed);
        assert_eq!(faults.first().map(|fault| &*fault.advice), found, "{rows}");
    }
}

#[test]
fn a_mention_that_differs_is_found() {
    let help = "--rate <RATE> Open loop [default: 100/s] --format <F> Form Possible values: - text: For people [default: text] --hold <N> Keep";
    let mention =
        |words, option, default| check_mention("as text (the default)", help, ("a.md", words, "run", option, default));
    assert_eq!(mention("text (the default)", "--format", "text"), None);
    assert!(mention("json (the default)", "--format", "json").is_some());
    assert!(mention("text (the default)", "--format", "json").is_some());
    assert!(mention("text (the default)", "--hold", "1").is_some());
}
