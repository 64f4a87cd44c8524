//! The memory of input files: resident memory at the first request, compared with a run with next
//! to no input.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use tempfile::TempDir;

use crate::process::{PATIENCE, Process, thalweg, until};
use crate::recorder::{Recorder, Response};

const LINES: usize = 200_000;
const KIB: usize = 1024;

/// The most memory in bytes that a command has had when its first request comes.
fn peak(arguments: &[&str]) -> usize {
    let recorder = Recorder::start(|_| Response::good("ok"));
    let arguments: Vec<_> = arguments
        .iter()
        .map(|argument| if *argument == "URL" { recorder.url("/") } else { (*argument).to_owned() })
        .collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let process = Process::start(&mut thalweg(&arguments));
    until("the first request", PATIENCE, || (!recorder.received().is_empty()).then_some(()));
    let status = fs::read_to_string(format!("/proc/{}/status", process.id())).expect("the process is there");
    process.signal("INT");
    let ended = process.wait(PATIENCE);
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the kernel tells the peak");
    let kib: usize = line.trim().trim_end_matches(" kB").parse().expect("it is a number");
    assert!(ended.stdout.contains("offered"), "{ended:?}");
    kib * KIB
}

/// How much more memory a file takes than one with a line, beside its own size.
fn growth(folder: &Path, name: &str, text: &str, small: &str, arguments: &[&str]) -> (usize, usize) {
    let peak_of = |text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).expect("a file can be written");
        let path = path.to_str().expect("temporary folders have plain names");
        peak(&arguments.iter().map(|argument| if *argument == "FILE" { path } else { argument }).collect::<Vec<_>>())
    };
    (peak_of(text).saturating_sub(peak_of(small)), text.len())
}

/// A million URLs once took 894 MiB, and 300,000 sessions 448 MiB.
#[test]
fn lists_and_sessions_take_at_most_three_times_their_size() {
    let folder = TempDir::new().unwrap();
    let lines = |line: &dyn Fn(usize) -> String| (0..LINES).map(line).collect::<String>();
    let run = ["run", "URL", "--rate", "10/s", "--duration", "60s"];
    let list = [&run[..], &["--urls", "FILE"]].concat();
    let sessions = ["run", "URL", "--conn-rate", "10/s", "--duration", "60s", "--session", "FILE"];
    let toml = |index: usize| format!("[[session]]\n[[session.burst]]\ncalls = [\"/{index}\", \"/a{index}\"]\n");
    for (name, text, small, arguments) in [
        ("urls", lines(&|index| format!("/item/{index:06}.html\n")), "/a\n", &list[..]),
        ("checked", lines(&|index| format!("/{index:06} status=200,length={index}\n")), "/a\n", &list),
        ("sessions", lines(&|index| format!("/{index:06}.html think=0.5\n /b{index}.png\n\n")), "/a\n", &sessions),
        ("sessions.toml", lines(&toml), &toml(0), &sessions),
    ] {
        let (grown, size) = growth(folder.path(), name, &text, small, arguments);
        assert!(grown <= 3 * size, "{name}: {grown} bytes for a file of {size}");
    }
}

#[test]
fn a_check_file_takes_at_most_three_times_its_size_and_that_of_its_list() {
    let folder = TempDir::new().unwrap();
    let list = folder.path().join("list");
    fs::write(&list, (0..LINES).map(|index| format!("/item/{index:06}\n")).collect::<String>()).unwrap();
    let size_of_list = fs::metadata(&list).unwrap().len() as usize;
    let checks: String = (0..LINES).map(|index| format!("/item/{index:06} length={index}\n")).collect();
    let path = folder.path().join("checks");
    fs::write(&path, &checks).unwrap();
    let (list, checks_path) = (list.to_str().unwrap(), format!("@{}", path.display()));
    let run = ["run", "URL", "--rate", "10/s", "--duration", "60s"];
    let grown = peak(&[&run[..], &["--urls", list, "--check", &checks_path]].concat()) - peak(&run);
    assert!(
        grown <= 3 * (size_of_list + checks.len()),
        "{grown} bytes for files of {size_of_list} and {}",
        checks.len()
    );
}

/// Three million lines once took more than 2.9 GiB.
#[test]
fn a_log_of_any_length_is_replayed_in_bounded_memory_packed_or_not() {
    const GROWTH_MAX: usize = 24 << 20;
    let folder = TempDir::new().unwrap();
    let line = |index: usize| {
        let (minute, second) = (index / 6000 % 60, index / 100 % 60);
        format!("::1 - - [10/Oct/2000:13:{minute:02}:{second:02} +0000] \"GET /item/{index:07}.html HTTP/1.1\" 200 1\n")
    };
    let log: String = (0..LINES).map(line).collect();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(log.as_bytes()).unwrap();
    let (gzip, zstd) = (gzip.finish().unwrap(), compress_to_vec(log.as_bytes(), CompressionLevel::Fastest));
    let path = folder.path().join("log");
    let replay = ["replay", path.to_str().unwrap(), "URL", "--speed", "0.1"];
    fs::write(&path, line(0) + &line(1)).unwrap();
    let small = peak(&replay);
    for (name, bytes) in [("plain", log.as_bytes()), ("gzip", &gzip), ("zstd", &zstd)] {
        fs::write(&path, bytes).unwrap();
        let grown = peak(&replay).saturating_sub(small);
        assert!(grown <= GROWTH_MAX, "{name}: {grown} bytes for a log of {}", bytes.len());
    }
}
