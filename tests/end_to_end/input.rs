//! Bad input: one clear message, the right exit code, no panic, and no half-written file.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::process::{ExitedProcess, PATIENCE, Process, copy_program, run_thalweg, thalweg};
use crate::scripted::{Act, GOOD, ScriptedServer};

/// One message that names all of `parts`.
fn check(ended: &ExitedProcess, code: i32, parts: &[&str]) {
    assert_eq!(ended.code, Some(code), "{ended:?}");
    let message = |line: &&str| line.starts_with("thalweg: ") || line.starts_with("error: ");
    assert_eq!(ended.stderr.lines().filter(message).count(), 1, "{ended:?}");
    assert!(ended.stderr.lines().next().is_some_and(|line| message(&line)), "{ended:?}");
    for part in parts {
        assert!(ended.stderr.contains(part), "the message does not name {part:?}: {ended:?}");
    }
}

fn refused(arguments: &[&str], code: i32, parts: &[&str]) {
    let ended = run_thalweg(arguments);
    check(&ended, code, parts);
    assert_eq!(ended.stdout, "", "{ended:?}");
}

/// An address without a listener: assigned by the kernel and released.
fn closed_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("the kernel has a port");
    listener.local_addr().expect("a listener has an address").to_string()
}

#[test]
fn targets_that_are_not_there() {
    let closed = closed_port();
    for command in ["run", "find"] {
        refused(&[command, "http://name.invalid/"], 4, &["name.invalid"]);
        refused(&[command, &format!("http://{closed}/")], 4, &[&closed, "refused"]);
    }
}

#[test]
fn targets_that_are_none() {
    for command in ["run", "find"] {
        refused(&[command, "127.0.0.1:80"], 2, &["127.0.0.1:80", "add http://"]);
        refused(&[command, "http://"], 2, &["http://"]);
        refused(&[command, "ftp://127.0.0.1/"], 2, &["ftp"]);
        refused(&[command, "http://127.0.0.1:99999/"], 2, &["99999"]);
        refused(&[command], 2, &["URL"]);
    }
}

#[test]
fn options_that_make_no_sense() {
    let server = ScriptedServer::start(|_| Act::Answer(GOOD));
    let url = server.url();
    let run = |options: &[&str], parts: &[&str]| refused(&[&["run", &url], options].concat(), 2, parts);
    run(&["--rate", "fast"], &["--rate", "fast"]);
    run(&["--rate", "0/s"], &["--rate", "0/s"]);
    run(&["--rate", "-5/s"], &["-5"]);
    run(&["--rate", "10/s", "--workers", "2"], &["--rate", "--workers"]);
    run(&["--workers", "0"], &["--workers"]);
    run(&["--duration", "0s"], &["--duration"]);
    run(&["--duration", "soon"], &["--duration", "soon"]);
    run(&["--timeout", "0s"], &["--timeout"]);
    run(&["--cores", "99"], &["--cores", "99"]);
    run(&["--cores", "x"], &["--cores", "x"]);
    run(&["--limit", "p99"], &["--limit", "p99"]);
    run(&["--check", "status=ok"], &["--check", "status=ok"]);
    run(&["--check", "sha256=12"], &["--check", "sha256"]);
    run(&["--header", "no colon"], &["--header", "no colon"]);
    run(&["--from", "::1"], &["--from", "::1"]);
    run(&["--from", "here"], &["--from", "here"]);
    run(&["--http", "3"], &["--http", "3"]);
    run(&["--body", "@/nonexistent/body"], &["/nonexistent/body"]);
    run(&["--driver", "kqueue"], &["--driver", "kqueue"]);
    run(&["--no-such-option"], &["--no-such-option"]);
    refused(&["find", &url, "--duration", "100ms"], 2, &["--duration"]);
    refused(&["find", &url, "--width", "wide"], 2, &["--width"]);
    refused(&["measure", &url], 2, &["measure"]);
    assert_eq!(server.requests(), 0, "what is wrong is found before anything is sent");
}

#[test]
fn requests_that_cannot_be_written() {
    let server = ScriptedServer::start(|_| Act::Answer(GOOD));
    for (option, value) in [("--header", "Name: b\r\nC: d"), ("--header", "No Token: b"), ("--method", "GET /x")] {
        let named = value.split(':').next().unwrap_or(value);
        refused(&["run", &server.url(), option, value], 2, &[option, named]);
    }
    assert_eq!(server.requests(), 0);
}

#[test]
fn url_lists_that_cannot_be_used() {
    let (server, folder) = (ScriptedServer::start(|_| Act::Answer(GOOD)), TempDir::new().unwrap());
    let list = folder.path().join("list");
    let path = list.to_str().unwrap();
    let arguments = ["run", &server.url(), "--urls", path];
    refused(&arguments, 2, &[path, "No such file"]);
    for (text, parts) in [
        ("/good\n\nnot a url\n", &["list:3:1", "\"not\""][..]),
        ("/good\nhttp://other.example/\n", &["list:2", "other.example"]),
        ("# only a comment\n", &["list", "no URL"]),
    ] {
        fs::write(&list, text).unwrap();
        refused(&arguments, 2, &[&[path], parts].concat());
    }
    fs::write(&list, b"/\xff\n").unwrap();
    refused(&arguments, 2, &[path]);
    assert_eq!(server.requests(), 0);
}

#[test]
fn reports_that_have_no_place() {
    let (server, folder) = (ScriptedServer::start(|_| Act::Answer(GOOD)), TempDir::new().unwrap());
    let missing = folder.path().join("missing/report.html");
    let missing = missing.to_str().unwrap();
    refused(&["run", &server.url(), "--out", missing], 2, &[missing]);
    refused(&["find", &server.url(), "--out", missing], 2, &[missing]);
    refused(&["demo", "--out", missing], 2, &[missing]);
    let is_folder = folder.path().to_str().unwrap();
    refused(&["run", &server.url(), "--out", is_folder], 2, &[is_folder, "folder"]);
    assert_eq!(server.requests(), 0);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// A limit on the size of files fails a write in its middle as a full disk does, and needs neither
/// one nor privileges.
#[test]
fn a_report_that_cannot_be_finished_leaves_the_old_one_alone() {
    let (server, folder) = (ScriptedServer::start(|_| Act::Answer(GOOD)), TempDir::new().unwrap());
    let report = folder.path().join("report.html");
    fs::write(&report, "the old one").unwrap();
    // Standard output is a file too, and has to take the result: a few KB, while a report has more
    // than 20.
    let script = "trap '' XFSZ; ulimit -f 40; exec \"$@\"";
    let mut command = Command::new("sh");
    command.args([
        "-c",
        script,
        "sh",
        env!("CARGO_BIN_EXE_thalweg"),
        "run",
        &server.url(),
        "--requests",
        "10",
        "--out",
    ]);
    let ended = Process::start(command.arg(&report)).wait(PATIENCE);
    check(&ended, 4, &[report.to_str().unwrap(), "File too large"]);
    assert!(ended.stdout.contains("response time"), "the result itself was printed: {ended:?}");
    assert_eq!(fs::read_to_string(&report).unwrap(), "the old one");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing half-written is left");
}

#[test]
fn a_result_that_cannot_be_printed_is_said() {
    let server = ScriptedServer::start(|_| Act::Answer(GOOD));
    for format in ["text", "json", "tsv", "httperf", "ab"] {
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$@\" > /dev/full", "sh", env!("CARGO_BIN_EXE_thalweg"), "run", &server.url()]);
        command.args(["--requests", "10", "--format", format]);
        check(&Process::start(&mut command).wait(PATIENCE), 4, &["No space left"]);
    }
}

#[test]
fn files_on_a_full_disk_are_said_and_devices_stay_what_they_are() {
    let (server, folder) = (ScriptedServer::start(|_| Act::Answer(GOOD)), TempDir::new().unwrap());
    // Through a link, so that the device itself is out of reach.
    let full = folder.path().join("full");
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    for option in ["--out", "--hdr"] {
        let ended = run_thalweg(&["run", &server.url(), "--requests", "10", option, full.to_str().unwrap()]);
        check(&ended, 4, &[full.to_str().unwrap(), "No space left"]);
        assert!(ended.stdout.contains("response time"), "the result itself was printed: {ended:?}");
        assert!(full.is_symlink(), "{option} has put a file in the place of a device");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing half-written is left");
    }
}

#[test]
fn more_connections_than_descriptors() {
    let server = ScriptedServer::start(|_| Act::Answer(GOOD));
    let script = "ulimit -n 100; exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_thalweg"), "run", &server.url(), "--connections", "200"]);
    check(&Process::start(&mut command).wait(PATIENCE), 4, &["descriptors", "--connections", "ulimit"]);
}

#[test]
fn folders_that_cannot_be_served() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    refused(&["serve", "/nonexistent"], 2, &["/nonexistent"]);
    refused(&["serve", file.to_str().unwrap()], 2, &[file.to_str().unwrap()]);
    let served = folder.path().to_str().unwrap();
    refused(&["serve", served, "--listen", "127.0.0.1"], 2, &["--listen"]);
    refused(&["serve", served, "--cores", "99", "--listen", "127.0.0.1:0"], 2, &["--cores"]);
    // The user who runs the tests, who may be root.
    let user = Command::new("id").arg("-un").output().unwrap().stdout;
    let user = String::from_utf8(user).unwrap();
    refused(&["serve", served, "--listen", "192.0.2.1:0", "--user", user.trim()], 4, &["192.0.2.1"]);
}

#[test]
fn a_folder_that_may_not_be_read() {
    let folder = TempDir::new().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let closed = folder.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let arguments = ["serve", closed.to_str().unwrap(), "--listen", "127.0.0.1:0"];
    let ended = Process::start(&mut as_somebody(folder.path(), &arguments)).wait(PATIENCE);
    check(&ended, 2, &[closed.to_str().unwrap(), "Permission denied"]);
}

/// The program as a user who may not read everything. Root becomes the user `nobody`, who needs an
/// accessible copy of the program.
fn as_somebody(folder: &Path, arguments: &[&str]) -> Command {
    let is_root = fs::metadata("/proc/self").map(|of| std::os::unix::fs::MetadataExt::uid(&of)).unwrap() == 0;
    if !is_root {
        return thalweg(arguments);
    }
    let copy = folder.join("thalweg");
    copy_program(&copy);
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(copy).args(arguments);
    command.stdin(Stdio::null());
    command
}

#[test]
fn help_has_an_example_for_each_command() {
    for command in ["run", "find", "replay", "serve", "demo"] {
        let ended = run_thalweg(&[command, "--help"]);
        assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{command}");
        assert!(ended.stdout.contains(&format!("\n  thalweg {command}")), "{command}: {}", ended.stdout);
    }
}

#[test]
fn the_schema_is_json() {
    let ended = run_thalweg(&["schema"]);
    let schema: serde_json::Value = serde_json::from_str(&ended.stdout).expect("the schema is JSON");
    assert!(schema["properties"]["trials"].is_object(), "{schema:#}");
}
