//! `thalweg sessions`: access logs as session files, which httperf and Thalweg itself play.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::Value;
use tempfile::TempDir;

use crate::document::number;
use crate::process::{ExitedProcess, PATIENCE, Process, program, run_thalweg, thalweg, until};
use crate::recordings::Source;
use crate::repetition::{ensure, repeated};
use crate::sessions::{alike, played_by_httperf, played_by_us};

/// Two clients that are interleaved, the first with two sessions; one line is out of order, one is
/// none, and four requests are left out.
const LOG: &str = "\
10.0.0.1 - - [10/Oct/2000:13:55:36 -0700] \"GET /a HTTP/1.1\" 200 2326 \"-\" \"x\"
10.0.0.1 - - [10/Oct/2000:13:55:36 -0700] \"GET /a.css HTTP/1.1\" 200 2326 \"http://example.com/a\" \"x\"
10.0.0.2 - - [10/Oct/2000:13:55:36 -0700] \"GET /a HTTP/1.1\" 200 2326 \"-\" \"y\"
10.0.0.1 - - [10/Oct/2000:13:55:37 -0700] \"GET /a.png?x=1 HTTP/1.1\" 304 - \"http://example.com/a\" \"x\"
no line of a log
10.0.0.2 - - [10/Oct/2000:13:55:38 -0700] \"HEAD /c HTTP/1.1\" 200 - \"-\" \"y\"
10.0.0.1 - - [10/Oct/2000:13:55:40 -0700] \"GET /b.png HTTP/1.1\" 200 2326 \"-\" \"x\"
10.0.0.1 - - [10/Oct/2000:13:55:39 -0700] \"GET /b HTTP/1.1\" 200 2326 \"-\" \"x\"
10.0.0.1 - - [10/Oct/2000:13:55:40 -0700] \"GET /missing HTTP/1.1\" 404 153 \"-\" \"x\"
10.0.0.1 - - [10/Oct/2000:13:55:40 -0700] \"\\x16\\x03\\x01\" 400 157 \"-\" \"-\"
10.0.0.2 - - [10/Oct/2000:13:55:41 -0700] \"PATCH /d HTTP/1.1\" 200 1 \"-\" \"y\"
10.0.0.2 - - [10/Oct/2000:13:55:41 -0700] \"GET /d#e HTTP/1.1\" 200 1 \"-\" \"y\"
10.0.0.2 - - [10/Oct/2000:13:55:41 -0700] \"POST /form HTTP/1.1\" 200 1 \"-\" \"y\"
10.0.0.1 - - [10/Oct/2000:14:30:00 -0700] \"GET /again HTTP/1.1\" 200 1 \"-\" \"x\"
";

const SESSIONS: &str = "\
/a think=2
\t/a.css
\t/a.png?x=1
/b
\t/b.png

/a think=2
/c method=HEAD think=3
/form method=POST contents=\"a=\\\"1\\\" b\"

/again

";

const CONTENTS: [&str; 2] = ["--contents", "a=\"1\" b"];

fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_str().expect("temporary folders have plain names").to_owned()
}

fn write(folder: &TempDir, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = path(folder, name);
    fs::write(&path, content).expect("a file can be written");
    path
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder can be listed");
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn summary(ended: &ExitedProcess) -> Value {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

/// Converts a log that comes from stdin, as a file or through a pipe.
fn convert(stdin: Stdio, log: &str) -> ExitedProcess {
    let mut command = thalweg(&[&["sessions", log], &CONTENTS[..]].concat());
    Process::start(command.stdin(stdin)).wait(PATIENCE)
}

#[test]
fn packed_logs_and_pipes_give_the_same_sessions() {
    let folder = TempDir::new().unwrap();
    let gzip = |text: &str| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish()).unwrap()
    };
    // Members and frames end within a line.
    let (first, second) = LOG.split_at(LOG.len() / 2);
    let plain = write(&folder, "access.log", LOG);
    let members = write(&folder, "members", [gzip(first), gzip(second)].concat());
    let zstd = |text: &str| compress_to_vec(text.as_bytes(), CompressionLevel::Fastest);
    let frames = write(&folder, "frames", [zstd(first), zstd(second)].concat());
    let long = path(&folder, "long.zst");
    let mut pack = Command::new(program(&["zstd"], "zstd"));
    // Through a pipe: the window would be made smaller to fit a known size.
    let (reader, mut writer) = std::io::pipe().unwrap();
    let packing = Process::start(pack.args(["-q", "--long=27", "-o", &long]).stdin(reader));
    // The command has a copy of the pipe's end, too.
    drop(pack);
    writer.write_all(LOG.as_bytes()).unwrap();
    drop(writer);
    assert_eq!(packing.wait(PATIENCE).code, Some(0));
    for log in [&plain, &members, &frames, &long] {
        for (name, stdin) in [(log.as_str(), Stdio::null()), ("-", File::open(log).unwrap().into())] {
            let ended = convert(stdin, name);
            assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), SESSIONS), "{log}: {ended:?}");
            assert!(ended.stderr.contains(":5:9: not a line of an access log"), "{ended:?}");
            assert!(ended.stderr.contains("3 sessions with 9 requests in 6 bursts"), "{ended:?}");
        }
    }
}

#[test]
fn a_session_file_is_written_whole_or_not_at_all() {
    let folder = TempDir::new().unwrap();
    let log = write(&folder, "access.log", LOG);
    let old = write(&folder, "old", "old");
    let packed = compress_to_vec(LOG.as_bytes(), CompressionLevel::Fastest);
    let cut = write(&folder, "cut.zst", &packed[..packed.len() - 1]);
    let empty = write(&folder, "empty", "");
    let nowhere = path(&folder, "no-such-folder/sessions");
    let folder_path = folder.path().to_str().unwrap();
    let cases: [(&[&str], i32, &str); 10] = [
        (&[&log, "--out", &log], 2, "the session file is the log itself; use another file"),
        (
            &[&log, "--out", &old, "--strict"],
            2,
            "access.log:5:9: not a line of an access log in common or combined format: expected a dash or a user, and a time such as [10/Oct/2000:13:55:36 -0700]; --strict",
        ),
        (&[&cut, "--out", &old], 2, "the file is truncated"),
        (&[&empty, "--out", &old], 2, "there is no session in the log"),
        (&[&log, "--out", &old, "--include", "/nothing"], 2, "there is no session in the log"),
        (&[&log, "--out", &nowhere], 2, "no-such-folder does not exist"),
        (&[&log, "--out", folder_path], 2, "this is a folder"),
        (&[folder_path, "--out", &old], 2, "cannot read the log"),
        (&[&log, "--out", "/dev/full"], 4, "No space left on device"),
        (&[&log, "--out", &old, "--burst", "1h"], 2, "--burst has to be shorter than --gap"),
    ];
    for (arguments, code, expected) in cases {
        let ended = run_thalweg(&[&["sessions"], arguments].concat());
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(ended.stderr.contains(expected), "{expected}: {ended:?}");
    }
    assert_eq!(fs::read_to_string(&old).unwrap(), "old");
    assert_eq!(fs::read_to_string(&log).unwrap(), LOG);
    let mut names = names(folder.path());
    names.sort();
    assert_eq!(names, ["access.log", "cut.zst", "empty", "old"]);
    let ended = run_thalweg(&["sessions", &log, "--out", &old]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(fs::read_to_string(&old).unwrap().starts_with("/a think=2\n"), "an existing file is replaced");
}

#[test]
fn an_interruption_while_a_pipe_is_silent_leaves_no_session_file() {
    let folder = TempDir::new().unwrap();
    let out = path(&folder, "sessions");
    let mut command = thalweg(&["sessions", "-", "--out", &out]);
    let (reader, mut writer) = std::io::pipe().unwrap();
    let mut conversion = Process::start(command.stdin(reader));
    writer.write_all(LOG.as_bytes()).unwrap();
    until("the file to be begun", PATIENCE, || (!names(folder.path()).is_empty()).then_some(()));
    assert!(conversion.ended().is_none());
    conversion.signal("INT");
    let ended = conversion.wait(PATIENCE);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert!(ended.stderr.contains(&format!("interrupted; {out} was not written")), "{ended:?}");
    assert_eq!(names(folder.path()), Vec::<String>::new());
    drop(writer);
}

#[test]
fn a_full_disk_leaves_no_session_file() {
    let folder = TempDir::new().unwrap();
    // A client and a session for each second: the first pieces are written long before the end.
    let line = |second: u32| {
        let (hour, minute, second, client) = (second / 3600, second / 60 % 60, second % 60, second);
        format!(
            "client{client} - - [10/Oct/2000:{hour:02}:{minute:02}:{second:02} +0000] \"GET /a/path/of/some/length HTTP/1.1\" 200 1\n"
        )
    };
    let log = write(&folder, "access.log", (0..80_000).map(line).collect::<String>());
    let disk = path(&folder, "disk");
    fs::create_dir(&disk).unwrap();
    // In a mount namespace of its own.
    let script = "mount -t tmpfs -o size=512k none \"$1\" || exit 99; \"$2\" sessions \"$3\" --gap 2s --out \"$1/sessions\"; echo $?; ls -A \"$1\"";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]);
    command.args([&disk, env!("CARGO_BIN_EXE_thalweg"), &log]);
    let ended = Process::start(&mut command).wait(PATIENCE);
    if ended.code != Some(0) {
        assert!(!ended.stderr.contains("thalweg:"), "{ended:?}");
        // Not printed by a macro, whose output of tests that succeed is swallowed.
        let why = ended.stderr.trim();
        let _ = writeln!(std::io::stderr(), "\nSKIPPED: log_sessions: this host allows no mounts ({why}); run as root");
        return;
    }
    assert_eq!(ended.stdout, "4\n", "{ended:?}");
    assert!(ended.stderr.contains("No space left on device"), "{ended:?}");
}

fn check_sessions_of_a_log(source: Source) {
    let folder = TempDir::new().unwrap();
    let (log, out) = (write(&folder, "access.log", LOG), path(&folder, "sessions"));
    let ended =
        run_thalweg(&[&["sessions", &log, "--out", &out, "--max-think", "1s", "--json"], &CONTENTS[..]].concat());
    let summary = summary(&ended);
    let counts = [
        "/lines",
        "/bad_lines",
        "/requests",
        "/sessions",
        "/bursts",
        "/dropped/status",
        "/displaced",
        "/thinks_shortened",
    ];
    assert_eq!(counts.map(|name| number(&summary, name)), [14.0, 1.0, 9.0, 3.0, 6.0, 1.0, 1.0, 3.0], "{summary:#}");
    // Two seconds of thinking in all would make a slow test.
    let text = SESSIONS.replace("think=2", "think=1").replace("think=3", "think=1");
    assert_eq!(fs::read_to_string(&out).unwrap(), text);
    repeated(|| {
        let theirs = played_by_httperf(source, "httperf-log", Path::new(&out), &["3"]);
        let (ours, _) = played_by_us(Path::new(&out), 3, &["--workers", "1", "--conns", "3"]);
        assert_eq!([theirs.len(), ours.len()], [9, 9], "as many requests as the summary counts");
        let requests = ours.iter().map(|one| format!("{} {}", one.method, one.target)).collect::<Vec<_>>();
        let expected =
            "GET /a, GET /a.css, GET /a.png?x=1, GET /b, GET /b.png, GET /a, HEAD /c, POST /form, GET /again";
        assert_eq!(requests.join(", "), expected);
        assert_eq!(ours[7].body, b"a=\"1\" b");
        let pause = (ours[3].at - ours[2].at).as_secs_f64();
        ensure((pause - 1.0).abs() < 0.2, || format!("{pause} s of thinking"))?;
        alike(&theirs, &ours)
    });
}

/// These tests measure small loads: nextest runs few of them at a time.
mod small_load {
    use super::*;

    #[test]
    fn httperf_and_we_play_the_sessions_of_a_log() {
        check_sessions_of_a_log(Source::Recording);
    }
}

/// These tests need all CPUs: nextest runs each of them by itself.
mod alone {
    use super::*;

    #[test]
    #[ignore = "make test-full"]
    fn httperf_itself_plays_the_sessions_of_a_log() {
        check_sessions_of_a_log(Source::Program);
    }
}
