//! Command lines as people from other tools write them: bare numbers, short options, a line of
//! curl, standard input, ports to listen on.

use std::fs::{self, File};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::authority::Authority;
use crate::curl;
use crate::document::{self, number, outcome};
use crate::process::{ExitedProcess, PATIENCE, Process, program, run_thalweg, thalweg, until};
use crate::recorder::{RecordedRequest, Recorder, Response};
use crate::server::{Server, TEXT, Tree};

fn recorder() -> Recorder {
    Recorder::start(|received| Response::good(if received.method == "HEAD" { "" } else { "ok" }))
}

/// Runs the program with `input` on its standard input, through a pipe and then from a file.
fn with_input(input: &str, arguments: &[&str], mut check: impl FnMut(ExitedProcess)) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("input");
    fs::write(&file, input).unwrap();
    let mut piped = Command::new("sh");
    piped.args(["-c", "cat \"$0\" | exec \"$@\"", file.to_str().unwrap(), env!("CARGO_BIN_EXE_thalweg")]);
    check(Process::start(piped.args(arguments)).wait(PATIENCE));
    let mut redirected = thalweg(arguments);
    check(Process::start(redirected.stdin(Stdio::from(File::open(&file).unwrap()))).wait(PATIENCE));
}

fn refused(arguments: &[&str], parts: &[&str]) {
    let ended = run_thalweg(arguments);
    assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{ended:?}");
    for part in parts {
        assert!(ended.stderr.contains(part), "{part:?}: {ended:?}");
    }
}

#[test]
fn short_options_and_bare_numbers_mean_what_they_do_elsewhere() {
    let server = recorder();
    let run = |options: &[&str]| {
        let ended = run_thalweg(&[&["run", &server.url("/"), "--json"], options].concat());
        document::trial(&ended)
    };
    // As in ab: a number of requests over a number of connections.
    let trial = run(&["-n", "60", "-c", "3", "--cores", "0"]);
    assert_eq!((&trial["loop"], outcome(&trial, "good")), (&Value::from("closed"), 60), "{trial:#}");
    assert_eq!((server.received().len(), server.connections()), (60, 4), "and the one that looks for the server");
    // As in wrk and wrk2: a duration in seconds, a rate per second.
    let trial = run(&["-c", "2", "-d", "0.5"]);
    assert_eq!((&trial["loop"], number(&trial, "/seconds").round()), (&Value::from("closed"), 1.0), "{trial:#}");
    let trial = run(&["-R", "100", "-d", "1", "-c", "2", "-t", "3s"]);
    assert_eq!((&trial["loop"], number(&trial, "/counts/offered")), (&Value::from("open"), 100.0), "{trial:#}");
    assert!(number(&trial, "/connections/peak") <= 2.0, "with a rate, a bound: {trial:#}");
    // As in oha and hey.
    let before = server.received().len();
    run(&["-n", "2", "-c", "1", "-m", "POST", "-H", "A: b", "--body", "x"]);
    let last = &server.received()[before..];
    let request = |one: &RecordedRequest| (one.method.clone(), one.field("a") == Some("b"), one.body.clone());
    assert!(last.iter().all(|one| request(one) == ("POST".to_owned(), true, b"x".to_vec())), "{last:?}");
    assert_eq!(last.len(), 2, "{last:?}");
}

#[test]
fn habits_that_cannot_be_met_are_answered_with_the_right_option() {
    let server = recorder();
    let run = |options: &[&str], parts: &[&str]| refused(&[&["run", &server.url("/")], options].concat(), parts);
    run(&["-t", "4"], &["threads in wrk", "--cores", "--timeout 4"]);
    run(&["-d", "a=b"], &["--body"]);
    run(&["-k"], &["curl's -k is --insecure"]);
    run(&["-q", "5"], &["oha's -q is --rate"]);
    run(&["-r", "-n", "10"], &["ab's -r needs no option"]);
    run(&["--threads", "4"], &["tip:", "--cores"]);
    run(&["--latency"], &["tip:", "percentiles are always shown"]);
    run(&["--conections", "4"], &["--connections"]);
    run(&["--duration", "-5"], &["'-5' for '--duration'", "negative"]);
    run(&["--throttle", "56KB"], &["--throttle", "`KB` may count bytes", "kbit"]);
    refused(&["serve", "--bind", "0.0.0.0"], &["--listen"]);
    refused(&["http://127.0.0.1/"], &["thalweg run URL"]);
    assert_eq!(server.connections(), 0);
}

#[test]
fn url_lists_bodies_and_sessions_come_from_standard_input() {
    let run = |options: &[&str], input: &str, expected: &[&str]| {
        let server = recorder();
        let url = server.url("/");
        let mut before = 0;
        with_input(input, &[&["run", &url, "--json", "--cores", "0", "--store", "none"], options].concat(), |ended| {
            assert_eq!(outcome(&document::trial(&ended), "good"), expected.len() as u64, "{ended:?}");
            let received = server.received();
            let lines = received[before..].iter().map(|one| {
                format!("{} {} {}", one.method, one.target, String::from_utf8_lossy(&one.body)).trim_end().to_owned()
            });
            assert_eq!(lines.collect::<Vec<_>>(), expected, "{options:?}");
            before = received.len();
        });
    };
    let one = |file: &'static str| ["--urls", file, "-n", "4", "-c", "1"];
    run(&one("-"), "/a\n/b\n", &["GET /a", "GET /b", "GET /a", "GET /b"]);
    run(&["--urls=-", "-n", "1", "-c", "1"], "/a\n", &["GET /a"]);
    run(&["-m", "PUT", "--body", "@-", "-n", "2", "-c", "1"], "text", &["PUT / text", "PUT / text"]);
    run(&["--session", "-", "--workers", "1", "--conns", "1"], "/a\n/b\n", &["GET /a", "GET /b"]);
    run(&["--check", "@-", "-n", "1", "-c", "1"], "/ length=2\n", &["GET /"]);
}

#[test]
fn several_targets_read_the_same_standard_input() {
    let servers = [recorder(), recorder()];
    let urls = servers.each_ref().map(|server| server.url("/"));
    let rates = ["--low-rate", "40", "--high-rate", "40", "--step", "40", "--duration", "0.5", "--warmup", "0"];
    let arguments = [&["sweep", &urls[0], &urls[1], "--urls", "-", "--json"], &rates[..]].concat();
    with_input("/x\n", &arguments, |ended| assert!(matches!(ended.code, Some(0 | 1 | 3)), "{ended:?}"));
    for server in servers {
        let received = server.received();
        assert!(received.len() >= 40 && received.iter().all(|one| one.target == "/x"), "{received:?}");
    }
}

#[test]
fn standard_input_has_one_reader_and_faults_with_its_name() {
    let server = recorder();
    let url = server.url("/");
    let check = |arguments: &[&str], input: &str, part: &str| {
        with_input(input, arguments, |ended| {
            assert_eq!(ended.code, Some(2), "{ended:?}");
            assert!(ended.stderr.contains(part), "{part}: {ended:?}");
        });
    };
    check(&["run", &url, "--urls", "-", "--body", "@-"], "/a\n", "--urls and --body both read standard input");
    check(&["run", &url, "--session", "-", "--check", "@-", "--workers", "1"], "", "--session and --check");
    check(&["replay", "-", &url, "--check", "@-"], "", "the log and --check");
    check(&["run", &url, "--urls", "-"], "/a\nb\n", "standard input:2:1");
    check(&["run", &url, "--urls", "-"], "", "no URL");
    assert_eq!(server.received().len(), 0);
}

/// A person who has given no file sees that the program waits.
#[test]
fn reading_from_a_terminal_is_announced() {
    let server = recorder();
    let line = format!("'{}' run {} --urls - -n 1 -c 1", env!("CARGO_BIN_EXE_thalweg"), server.url("/"));
    let mut command = Command::new(program(&["script"], "bsdutils"));
    command.args(["--quiet", "--echo", "never", "--command", &line, "/dev/null"]).stdin(Stdio::null());
    let process = Process::start(&mut command);
    until("the announcement", PATIENCE, || process.stdout().contains("from the terminal: Ctrl-D").then_some(()));
}

#[test]
fn a_line_of_curl_is_sent_as_curl_sends_it() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    fs::write(&data, "a b\nc\n").unwrap();
    let server = recorder();
    for options in [
        "",
        "-X DELETE",
        "-I",
        "-d a=1 -d 'b=2 3'",
        "-d @DATA",
        "--data-binary @DATA -X PUT",
        "--data-urlencode 'q=a b&c' --data-raw @x",
        "--json '{\"a\": 1}'",
        "-H 'Accept: text/html' -H 'X-Empty;' -A agent -e http://r/ -b 'a=1; b=2'",
        "-u 'me:pass word%'",
        "-r 0-9 -H 'Host: other.example'",
        "-m 5 -sS -o /dev/null -0",
        r"--data-raw $'it\'s \u0021'",
    ] {
        let options = options.replace("DATA", data.to_str().unwrap());
        let line = format!("curl {options} '{}'", server.url("/path?a=b"));
        let before = server.received().len();
        let theirs =
            Process::start(Command::new("bash").args(["-c", &line.replacen("curl", "curl -q --noproxy '*'", 1)]));
        theirs.wait(PATIENCE);
        let ended = run_thalweg(&["run", "--curl", &line, "-n", "1", "-c", "1", "--json"]);
        assert_eq!(outcome(&document::trial(&ended), "good"), 1, "{line}: {ended:?}");
        let received = server.received();
        let [theirs, ours] = &received[before..] else { panic!("{line}: {received:?}") };
        let essence = |one: &RecordedRequest| {
            let mut fields = one.fields.clone();
            // Each names itself, unless the line names another; the connection is kept by both.
            let own = |(name, value): &(String, String)| {
                (name == "user-agent" && (value.starts_with("curl/") || value.starts_with("thalweg/")))
                    || name == "connection"
            };
            fields.retain(|field| !own(field));
            fields.sort();
            (one.method.clone(), one.target.clone(), one.version.clone(), fields, one.body.clone())
        };
        assert_eq!(essence(ours), essence(theirs), "{line}");
        assert!(!ended.stdout.contains("pass word"), "{line}: {ended:?}");
    }
}

#[test]
fn a_line_of_curl_speaks_tls() {
    let root = Authority::root("root");
    let folder = TempDir::new().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let issued = root.server(&["127.0.0.1"]);
    let (chain, key, ca) = (write("chain", &issued.pem), write("key", &issued.key), write("ca", &root.pem));
    let tree = Tree::new();
    let server = Server::of(&tree, &["--tls", &format!("{chain}:{key}")]);
    for options in [format!("--cacert {ca}"), "-k --tlsv1.3".to_owned(), format!("-k -E {chain} --key {key}")] {
        let line = format!("curl {options} {}/text.txt", server.url);
        let ended = run_thalweg(&["run", "--curl", &line, "-n", "2", "-c", "1", "--json"]);
        assert_eq!(outcome(&document::trial(&ended), "good"), 2, "{line}: {ended:?}");
    }
}

#[test]
fn a_server_without_a_folder_serves_the_current_one_and_says_so() {
    let tree = Tree::new();
    let start = |arguments: &[&str]| {
        let mut process = Process::start(thalweg(&[&["serve"], arguments].concat()).current_dir(tree.root()));
        until("the server to listen", PATIENCE, || {
            (process.stdout().matches("listening on ").count() >= 2 || process.ended().is_some()).then_some(())
        });
        process
    };
    let place = format!("serving the current folder, {}, on ", tree.root().display());
    for (options, hosts) in [
        (&["-p", "0"][..], ["127.0.0.1", "[::1]"]),
        (&["--port", "0"], ["127.0.0.1", "[::1]"]),
        (&["--listen", "localhost:0"], ["127.0.0.1", "[::1]"]),
        (&["--listen", ":0"], ["0.0.0.0", "[::]"]),
    ] {
        let server = start(options);
        let said = server.stdout();
        assert!(said.starts_with(&place), "{said}");
        let urls: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("listening on ")).collect();
        for (url, host) in urls.iter().zip(hosts) {
            assert!(url.starts_with(&format!("http://{host}:")), "{options:?}: {said}");
            let reached = url.replace("0.0.0.0", "127.0.0.1").replace("[::]", "[::1]");
            assert_eq!(curl::fetch(&["--globoff"], &format!("{reached}text.txt")).body, TEXT, "{reached}");
        }
        let is_for_this_host = said.contains("only this host can connect; --listen :");
        assert_eq!(is_for_this_host, hosts[0] == "127.0.0.1", "{said}");
    }
    // A folder that is named is no surprise.
    let named = start(&[tree.root().to_str().unwrap(), "-p", "0"]);
    assert!(named.stdout().starts_with(&format!("serving {} on", tree.root().display())), "{}", named.stdout());
}

/// These tests measure small loads: nextest runs few of them at a time.
mod small_load {
    use super::*;

    #[test]
    fn a_line_of_curl_is_taken_by_each_command_that_loads() {
        let server = recorder();
        let line = format!("curl -H 'X-Mark: 1' -s '{}'", server.url("/a"));
        let short = ["--duration", "0.5", "--json"];
        let find = [
            "find",
            "--curl",
            &line,
            "--probe",
            "100ms",
            "--width",
            "50%",
            "--budget",
            "1",
            "--overload",
            "no",
            "-c",
            "2",
        ];
        let sweep =
            ["sweep", "--curl", &line, "--low-rate", "20", "--high-rate", "20", "--step", "20", "--warmup", "0"];
        let other = server.url("/a");
        let compare =
            ["compare", "--curl", &line, &other, "--rounds", "8", "--warmup", "0", "--rate", "50", "--metric", "p99"];
        for arguments in [&find[..], &sweep, &compare] {
            let before = server.received().len();
            let ended = run_thalweg(&[arguments, &short].concat());
            assert!(matches!(ended.code, Some(0 | 1 | 3)), "{ended:?}");
            assert!(ended.stderr.contains("ignored, because no request changes by it: -s"), "{ended:?}");
            let received = server.received();
            let new = &received[before..];
            assert!(
                new.len() > 5 && new.iter().all(|one| one.field("x-mark") == Some("1")),
                "{}: {}",
                arguments[0],
                new.len()
            );
        }
        refused(&["run", "--curl", &line, &other], &["the line of --curl has the URL already"]);
        refused(&["run", "--curl", "curl http://127.0.0.1:1/ -F a=b"], &["-F", "--body @FILE"]);
        refused(&["run", "--curl", "wget http://127.0.0.1:1/"], &["begins with curl"]);
        refused(&["replay", "log", &other, "--curl", &line], &["the log determines"]);
    }
}
