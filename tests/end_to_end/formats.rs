//! The forms of other tools, held against recordings of those tools: the same load on the same
//! nginx gives the same lines, but for the numbers.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use crate::document;
use crate::nginx::Nginx;
use crate::process::{PATIENCE, Process, program, run_thalweg};
use crate::recordings::Source;
use crate::repetition::{ensure, repeated};

/// A tool's own output, which is kept as a recording of this name.
fn theirs(source: Source, name: &str, (tool, package): (&str, &str), arguments: &[&str], nginx: &NginxAt) -> String {
    let command = format!("{tool} {}", arguments.join(" "));
    source.output(name, &nginx.without_what_differs(&command), || {
        let mut command = Command::new(program(&[tool], package));
        let ended = Process::start(command.args(arguments)).wait(PATIENCE);
        assert_eq!(ended.code, Some(0), "{tool}: {ended:?}");
        nginx.without_what_differs(&ended.stdout)
    })
}

/// nginx, and a file of sessions: their port and their place are different ones each time.
struct NginxAt {
    nginx: Nginx,
    folder: TempDir,
}

impl NginxAt {
    fn start() -> Self {
        Self { nginx: Nginx::start(), folder: TempDir::new().unwrap() }
    }

    fn port(&self) -> String {
        let url = self.nginx.url("");
        url.rsplit(':').next().expect("a URL has a port").to_owned()
    }

    fn sessions(&self) -> String {
        self.folder.path().join("sessions").to_str().expect("temporary folders have plain names").to_owned()
    }

    fn without_what_differs(&self, text: &str) -> String {
        text.replace(&self.port(), "PORT").replace(&self.sessions(), "FILE")
    }
}

/// Thalweg's output in a form. Its exit code is the verdict, which depends on how busy this machine
/// is.
fn ours(form: &str, url: &str, load: &[&str]) -> String {
    let ended = run_thalweg(&[&["run", url, "--format", form], load].concat());
    assert!(matches!(ended.code, Some(0 | 1 | 3)), "{ended:?}");
    ended.stdout
}

/// A text with each number replaced, and each run of spaces by one.
fn structure(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let mut out = String::new();
        let mut rest = line.trim_end();
        while let Some(first) = rest.chars().next() {
            let is_number = first.is_ascii_digit();
            let belongs = |c: char| if is_number { c.is_ascii_digit() || c == '.' } else { c == ' ' };
            let end = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
            if is_number {
                out.push('N');
            } else {
                out.push(first);
            }
            rest = &rest[end.max(first.len_utf8())..];
        }
        out
    };
    text.lines().map(line).collect()
}

#[track_caller]
fn same_structure(theirs: &str, ours: &str) {
    let (expected, found) = (structure(theirs), structure(ours));
    assert_eq!(expected, found, "\ntheirs:\n{theirs}\nours:\n{ours}");
}

/// The number behind a word in the line that begins so.
fn figure(text: &str, line: &str, behind: &str) -> f64 {
    let line = text.lines().find(|candidate| candidate.starts_with(line)).unwrap_or_else(|| panic!("{line}: {text}"));
    let (_, rest) = line.split_once(behind).unwrap_or_else(|| panic!("{behind:?} in {line:?}"));
    let rest = rest.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    rest[..end].parse().unwrap_or_else(|_| panic!("a number behind {behind:?} in {line:?}"))
}

/// The output of ab below its banner and the server's name, without its warnings about its own
/// figures, which appear at random.
fn results_of_ab(text: &str) -> String {
    assert!(text.contains("\n\nServer Software:        "), "{text}");
    let begin = text.find("Server Hostname:").unwrap_or_else(|| panic!("no results: {text}"));
    let doubts = ["WARNING:", "ERROR:", "        These", "       deviation"];
    let lines = text[begin..].lines().filter(|line| !doubts.iter().any(|doubt| line.starts_with(doubt)));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_table_has_a_line_per_trial() {
    let nginx = Nginx::start();
    let text = ours("tsv", &nginx.url("/000.txt"), &["--rate", "200/s", "--requests", "50"]);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!((lines.len(), lines[0].len()), (2, lines[1].len()), "{text}");
    let value = |name: &str| lines[1][lines[0].iter().position(|column| *column == name).unwrap()];
    assert_eq!((value("dem_req_rate"), value("good"), value("phase")), ("200.000", "50", "run"));
}

#[test]
fn a_log_of_histograms_is_written_beside_the_result() {
    let nginx = Nginx::start();
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("run.hdr");
    let load = ["--rate", "200/s", "--requests", "200", "--json", "--hdr", log.to_str().unwrap()];
    let ended = run_thalweg(&[&["run", &nginx.url("/000.txt")], &load[..]].concat());
    let intervals = document::trial(&ended)["intervals"].as_array().unwrap().len();
    let text = fs::read_to_string(&log).unwrap();
    let data: Vec<&str> = text.lines().filter(|line| !line.starts_with(['#', '"'])).collect();
    assert_eq!(data.len(), intervals + 1, "one line per interval, and the service times: {text}");
    assert!(data[intervals].starts_with("Tag=service,"), "{text}");
    assert!(
        data.iter().all(|line| line.split(',').next_back().is_some_and(|hdr| hdr.starts_with("HISTFAAA"))),
        "{text}"
    );
    let ended = run_thalweg(&["run", &nginx.url("/000.txt"), "--requests", "1", "--hdr", "/no/such/folder/x"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
    assert!(ended.stderr.contains("histogram log /no/such/folder/x"), "{ended:?}");
}

/// A form that has no place for the verdict must not hide it.
#[test]
fn a_missed_limit_is_said_beside_the_form() {
    let nginx = Nginx::start();
    let load = ["--rate", "200/s", "--requests", "20", "--limit", "p99<1us", "--format", "httperf"];
    let ended = run_thalweg(&[&["run", &nginx.url("/000.txt")], &load[..]].concat());
    assert!(matches!(ended.code, Some(1 | 3)), "{ended:?}");
    assert!(ended.stderr.starts_with("thalweg: FAIL: ") || ended.stderr.starts_with("thalweg: INVALID: "), "{ended:?}");
    assert!(ended.stdout.starts_with("httperf --timeout=5 "), "{ended:?}");
}

const HTTPERF: (&str, &str) = ("httperf", "httperf");
const AB: (&str, &str) = ("ab", "apache2-utils");

fn check_httperf(source: Source) {
    let at = NginxAt::start();
    let (port, url) = (at.port(), at.nginx.url("/000.txt"));
    let server = ["--server", "127.0.0.1", "--port", &port, "--uri", "/000.txt", "--timeout", "5"];
    let load = ["--rate", "50", "--num-conns", "300", "--num-calls", "4"];
    repeated(|| {
        let theirs = theirs(source, "httperf", HTTPERF, &[&server[..], &load].concat(), &at);
        let ours = ours("httperf", &url, &["--rate", "200/s", "--calls", "4", "--requests", "1200"]);
        let ours = at.without_what_differs(&ours);
        same_structure(&theirs, &ours);
        for (line, behind) in
            [("Total:", "replies "), ("Reply size", "content "), ("Reply status", "2xx="), ("Errors", "total ")]
        {
            assert_eq!(figure(&ours, line, behind), figure(&theirs, line, behind), "{line} {behind}");
        }
        let rates = [
            ("Request rate: ", ": "),
            ("Reply rate", "min "),
            ("Reply rate", "avg "),
            ("Reply rate", "max "),
            ("Connection rate: ", ": "),
        ];
        rates.into_iter().try_for_each(|(line, behind)| {
            let (ours, theirs) = (figure(&ours, line, behind), figure(&theirs, line, behind));
            ensure((ours / theirs - 1.0).abs() < 0.1, || format!("{line}: {ours} and {theirs}"))
        })
    });
}

fn check_sessions_of_httperf(source: Source) {
    let at = NginxAt::start();
    let (file, port, url) = (at.sessions(), at.port(), at.nginx.url("/"));
    fs::write(&file, "/000.txt\n  /001.txt\n  /002.txt\n/003.txt\n").unwrap();
    let sessions = format!("--wsesslog=20,0.05,{file}");
    let load = ["--server", "127.0.0.1", "--port", &port, "--rate", "20", "--timeout", "5", &sessions];
    let theirs = theirs(source, "httperf-sessions", HTTPERF, &load, &at);
    let load = ["--session", &file, "--conn-rate", "20/s", "--conns", "20", "--think", "50ms", "--timeout", "5s"];
    let ours = at.without_what_differs(&ours("httperf", &url, &load));
    same_structure(&theirs, &ours);
    for (line, behind) in [("Total:", "connections "), ("Total:", "replies "), ("Session: ", "avg ")] {
        assert_eq!(figure(&ours, line, behind), figure(&theirs, line, behind), "{line} {behind}");
    }
    let lengths = |text: &str| text.lines().last().map(str::to_owned);
    assert_eq!(lengths(&ours), lengths(&theirs), "the histogram of lengths");
}

fn check_ab(source: Source) {
    let at = NginxAt::start();
    for (name, path, keep_alive) in
        [("ab-keep-alive", "/000.txt", true), ("ab", "/000.txt", false), ("ab-missing", "/missing", true)]
    {
        let url = at.nginx.url(path);
        let keep = if keep_alive { &["-k"][..] } else { &[] };
        let theirs = theirs(source, name, AB, &[keep, &["-q", "-n", "200", "-c", "4", &url]].concat(), &at);
        let calls = if keep_alive { &[][..] } else { &["--calls", "1"] };
        // ab has its own definition of a good response.
        let status = if path == "/missing" { &["--check", "status=404"][..] } else { &[] };
        let ours = ours("ab", &url, &[&["--workers", "4", "--requests", "200"], calls, status].concat());
        let ours = at.without_what_differs(&ours);
        same_structure(&results_of_ab(&theirs), &results_of_ab(&ours));
        for line in ["Complete requests:", "Failed requests:", "Concurrency Level:", "HTML transferred:"] {
            assert_eq!(figure(&ours, line, ":"), figure(&theirs, line, ":"), "{line} {path}");
        }
    }
}

#[test]
fn httperf_has_the_same_lines_of_sessions() {
    check_sessions_of_httperf(Source::Recording);
}

#[test]
fn ab_has_the_same_lines() {
    check_ab(Source::Recording);
}

/// These tests measure small loads: nextest runs few of them at a time.
mod small_load {
    use super::*;

    #[test]
    fn httperf_has_the_same_lines() {
        check_httperf(Source::Recording);
    }
}

/// These tests need all CPUs: nextest runs each of them by itself.
mod alone {
    use super::*;

    #[test]
    #[ignore = "make test-full"]
    fn the_programs_themselves_have_the_same_lines() {
        check_httperf(Source::Program);
        check_sessions_of_httperf(Source::Program);
        check_ab(Source::Program);
    }
}
