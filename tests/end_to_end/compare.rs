//! `thalweg compare`: two servers of known difference, one server with two faces, and all that can
//! go wrong meanwhile.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::document::{self, number};
use crate::process::{ExitedProcess, PATIENCE, Process, free_port, run_thalweg, thalweg, until};
use crate::repetition::{ensure, judged, repeated, valid};
use crate::scripted::{Act, GOOD, ScriptedServer};
use crate::yardstick_server::{Yardstick, yardstick_command};

/// A comparison may repeat pairs, and is repeated itself where this machine is busy.
const COMPARISON_PATIENCE: Duration = Duration::from_secs(120);

/// Short rounds of little load, as few as can show a difference.
const SHORT: [&str; 8] = ["--rounds", "8", "--duration", "200ms", "--warmup", "50ms", "--connections", "4"];

/// A metric that counts however late this machine lets the client be.
const ROBUST: [&str; 4] = ["--metric", "client_cpu_per_request", "--rate", "200/s"];

fn compare(arguments: &[&[&str]]) -> ExitedProcess {
    let arguments = [&["compare"], &arguments.concat()[..]].concat();
    Process::start(&mut thalweg(&arguments)).wait(COMPARISON_PATIENCE)
}

/// Server and client side by side must agree on what the document says.
fn comparison(ended: &ExitedProcess) -> Value {
    let document = document::of(ended);
    document::keeps_the_contract(&document);
    assert_eq!(document["kind"], "compare");
    document["compare"].clone()
}

fn listed<'a>(value: &'a Value, at: &str) -> &'a Vec<Value> {
    value[at].as_array().unwrap_or_else(|| panic!("{at} is a list in {value:#}"))
}

/// The end of a comparison without its trials, which are long.
fn brief(ended: &ExitedProcess) -> String {
    let document: Value = serde_json::from_str(&ended.stdout).unwrap_or_default();
    format!("{} {:#} {}", document["reasons"], document["compare"]["planning"], ended.stderr)
}

/// `A` and `B` in the order of the rounds.
fn sides(compare: &Value) -> String {
    listed(compare, "rounds").iter().map(|round| round["side"].as_str().expect("a name")).collect()
}

/// Whether an interval covers the truth. Where a round's first and last requests fall may add a
/// little.
fn covers(interval: &Value, truth: f64) -> bool {
    const EDGES: f64 = 0.01;
    number(interval, "/0") <= truth + EDGES && truth - EDGES <= number(interval, "/1")
}

#[test]
fn rounds_are_interleaved_and_balanced() {
    let server = Yardstick::start("100us");
    let urls = [server.url(), server.url()];
    let ended = valid(|| compare(&[&urls.each_ref().map(String::as_str), &SHORT, &ROBUST, &["--json", "--seed", "1"]]));
    assert_eq!(ended.code, Some(0), "{}", brief(&ended));
    let first = comparison(&ended);
    let order = sides(&first);
    assert_eq!(order.len(), 16, "{order}");
    for block in 0..4 {
        let block = &order[4 * block..4 * block + 4];
        assert!(["ABBA", "BAAB"].contains(&block), "{order}");
    }
    for round in listed(&first, "rounds") {
        assert_eq!((round["counts"].as_bool(), listed(round, "trials").len()), (Some(true), 1), "{round}");
    }
    let notes = first["notes"].to_string();
    assert!(notes.contains("each side was one process"), "{notes}");
}

#[test]
fn each_side_is_restarted_before_each_of_its_rounds() {
    let (folder, port) = (TempDir::new().unwrap(), free_port());
    let log = folder.path().join("starts");
    let command = |service: &str| {
        let server = yardstick_command(port, &format!("--service {service}"));
        format!("echo $THALWEG_SIDE {{side}} $1 $$ >> {}; exec {server}", log.display())
    };
    let (a, b, url) = (command("100us"), command("110us"), format!("http://127.0.0.1:{port}/"));
    let ended = valid(|| {
        let _ = fs::remove_file(&log);
        compare(&[&[&url, "--restart-a", &a, "--restart-b", &b], &SHORT, &ROBUST, &["--json"]])
    });
    assert_eq!(ended.code, Some(0), "{}", brief(&ended));
    let compare = comparison(&ended);
    let starts = fs::read_to_string(&log).unwrap();
    let starts: Vec<Vec<&str>> = starts.lines().map(|line| line.split(' ').collect()).collect();
    let order: String = starts.iter().map(|start| start[0]).collect();
    // Each side is tried once before the first round.
    assert_eq!(order, format!("AB{}", sides(&compare)));
    assert!(starts.iter().all(|start| start[0] == start[1] && start[0] == start[2]), "{starts:?}");
    for start in starts {
        assert!(!Path::new("/proc").join(start[3]).exists(), "the server of {start:?} goes on");
    }
    assert!(!compare["notes"].to_string().contains("each side was one process"), "{compare:#}");
}

#[test]
fn a_comparison_that_is_killed_leaves_no_server_behind() {
    let port = free_port();
    let (address, server) = (format!("127.0.0.1:{port}"), format!("exec {}", yardstick_command(port, "--service 1ms")));
    let arguments = ["compare", &format!("http://{address}/"), "--restart-a", &server, "--restart-b", &server];
    let running = Process::start(&mut thalweg(&arguments));
    until("the server to listen", PATIENCE, || TcpStream::connect(&address).is_ok().then_some(()));
    running.signal("KILL");
    running.wait(PATIENCE);
    until("the server to end", PATIENCE, || TcpListener::bind(&address).is_ok().then_some(()));
}

#[test]
fn a_command_that_fails_ends_the_comparison_with_what_it_printed() {
    let (port, url) = (free_port(), |port: u16| format!("http://127.0.0.1:{port}/"));
    let good = yardstick_command(port, "--service 100us");
    let cases = [
        (
            "echo the configuration is wrong >&2; exit 7",
            "30s",
            "exit status: 7); it printed: the configuration is wrong",
        ),
        ("sleep 1000", "300ms", "accepts no connection 300ms after \"sleep 1000\""),
        ("no-such-program-anywhere", "30s", "exit status: 127"),
    ];
    for (command, timeout, expected) in cases {
        let commands = ["--restart-a", &good, "--restart-b", command, "--restart-timeout", timeout];
        let ended = compare(&[&[&url(port)], &commands, &SHORT, &ROBUST]);
        assert_eq!((ended.code, &*ended.stdout), (Some(4), ""), "{command}: {ended:?}");
        assert!(ended.stderr.starts_with("thalweg: B: ") && ended.stderr.contains(expected), "{command}: {ended:?}");
        TcpListener::bind(("127.0.0.1", port)).expect("the server of A has ended");
    }
}

#[test]
fn a_command_that_fails_later_leaves_the_rounds_before_it() {
    let (folder, port) = (TempDir::new().unwrap(), free_port());
    let count = folder.path().join("count");
    let serve = yardstick_command(port, "--service 100us");
    let fifth = format!("echo x >> {0}; test $(wc -l < {0}) -lt 5 || exit 7; exec {serve}", count.display());
    let commands = ["--restart-a", &fifth, "--restart-b", &fifth, "--json"];
    let ended = compare(&[&[&format!("http://127.0.0.1:{port}/")], &commands, &SHORT, &ROBUST]);
    assert_eq!(ended.code, Some(3), "{}", brief(&ended));
    let document = document::of(&ended);
    assert!(document["reasons"][0].as_str().expect("a text").contains("exit status: 7"), "{}", document["reasons"]);
    let compare = comparison(&ended);
    assert_eq!((listed(&compare, "rounds").len(), &compare["planning"]["ended"]), (2, &Value::from("command_failed")));
}

#[test]
fn a_restart_that_leaves_the_old_server_in_its_place_is_noticed() {
    let server = Yardstick::start("100us");
    let commands = ["--restart-a", "sleep 1000", "--restart-b", "sleep 1000", "--restart-timeout", "300ms"];
    let ended = compare(&[&[&server.url()], &commands, &SHORT, &ROBUST]);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert!(ended.stderr.contains("while another process serves"), "{ended:?}");
}

#[test]
fn one_server_is_switched_between_the_sides() {
    let (folder, server) = (TempDir::new().unwrap(), Yardstick::start("100us"));
    let log = folder.path().join("switches");
    let command = format!("echo -n $THALWEG_SIDE >> {}", log.display());
    let switched = |more: &[&str]| {
        let _ = fs::remove_file(&log);
        compare(&[&[&server.url(), "--switch-cmd", &command], more, &SHORT, &ROBUST, &["--json"]])
    };
    let ended = valid(|| switched(&[]));
    assert_eq!(ended.code, Some(0), "{}", brief(&ended));
    let order = format!("AB{}", sides(&comparison(&ended)));
    let mut switches = order.into_bytes();
    switches.dedup();
    assert_eq!(fs::read(&log).unwrap(), switches, "it is switched where the side changes");

    let compare = comparison(&switched(&["--once"]));
    assert_eq!((fs::read_to_string(&log).unwrap(), sides(&compare)), ("AB".to_owned(), "A".repeat(8) + &"B".repeat(8)));
    assert!(compare["notes"].to_string().contains("cannot be told from a drift"), "{compare:#}");
}

#[test]
fn an_interrupted_comparison_keeps_what_it_has() {
    let server = ScriptedServer::start(|_| Act::Answer(GOOD));
    let url = server.url();
    let load = ["--rounds", "200", "--duration", "100ms", "--warmup", "0s", "--connections", "2"];
    let interrupted = |rounds: usize| {
        let arguments = [&["compare", &url, &url, "--json"], &load[..], &ROBUST].concat();
        let begun = server.requests();
        let running = Process::start(&mut thalweg(&arguments));
        let mut seen = (begun, 0);
        // A pause between two trials shows as a look without new requests; the probe is much
        // longer.
        until("the rounds to be under way", PATIENCE, || {
            std::thread::sleep(Duration::from_millis(100));
            let requests = server.requests();
            seen = (requests, seen.1 + usize::from(requests - seen.0 < 100 && requests > begun + 1000));
            (seen.1 > rounds).then_some(())
        });
        running.signal("INT");
        running.wait(PATIENCE)
    };
    let ended = interrupted(60);
    let document = document::of(&ended);
    let compare = &document["compare"];
    assert_eq!(compare["planning"]["ended"], "interrupted", "{compare:#}");
    assert!(document["reasons"].to_string().contains("interrupted"), "{document:#}");
    let pairs = number(compare, "/planning/pairs");
    assert!((1.0..100.0).contains(&pairs), "{compare:#}");
    // It is a part of what was asked for, whatever it shows.
    assert_eq!(ended.code, Some(3), "{compare:#}");
}

#[test]
fn a_comparison_interrupted_at_once_says_only_that() {
    let server = ScriptedServer::start(|_| Act::KeepSilent);
    let running = Process::start(&mut thalweg(&["compare", &server.url(), &server.url(), "--connections", "4"]));
    until("the probe to be under way", PATIENCE, || (server.requests() >= 4).then_some(()));
    running.signal("INT");
    let ended = running.wait(PATIENCE);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(ended.stdout.ends_with("  interrupted before the end of the first pair of rounds\n"), "{ended:?}");
}

#[test]
fn a_server_that_goes_away_ends_the_comparison() {
    let stays = Yardstick::start("1ms");
    // About 100 requests for the probe and 10 for each round.
    let goes = ScriptedServer::start_for(220, |_| Act::AnswerAfter(Duration::from_millis(10), GOOD));
    let load = ["--rounds", "200", "--duration", "200ms", "--warmup", "0s", "--connections", "1", "--json"];
    let metric = ["--metric", "client_cpu_per_request", "--rate", "50/s"];
    let ended = compare(&[&[&stays.url(), &goes.url()], &load, &metric]);
    assert_eq!(ended.code, Some(1), "{}", brief(&ended));
    let document = document::of(&ended);
    assert_eq!(document["compare"]["planning"]["ended"], "target_lost", "{:#}", document["compare"]);
    let reason = document["reasons"][0].as_str().unwrap();
    assert!(reason.starts_with("B: cannot connect to "), "{reason}");
}

#[test]
fn contradictory_options_are_refused() {
    let url = "http://127.0.0.1:1/";
    for (arguments, expected) in [
        (&[url][..], "needs two sides"),
        (&[url, url, "--metric", "speed"], "is no metric"),
        (&[url, url, "--metric", "p99", "--metric", "p99"], "given twice"),
        (&[url, url, "--rounds", "7"], "at least 8"),
        (&[url, "--restart-a", "x"], "--restart-b"),
        (&[url, url, "--switch-cmd", "x"], "cannot be used with"),
        (&[url, "--switch-cmd", "x", "--once"], "--once needs --rounds"),
        (&[url, "--scale", "2,1", "--restart-cmd", "x"], "ascending"),
        (&[url, "--scale", "1,2", "--restart-cmd", "x", "--metric", "p99"], "takes one --metric"),
        (&[url, "--scale", "1,2", "--restart-cmd", "x", "--rate", "5/s"], "--rate with --scale"),
        (&[url, url, "--detect", "0%"], "endless"),
    ] {
        let ended = run_thalweg(&[&["compare"], arguments].concat());
        assert_eq!(ended.code, Some(2), "{arguments:?}: {ended:?}");
        assert!(ended.stderr.contains(expected), "{arguments:?}: {ended:?}");
    }
    let ended = run_thalweg(&["compare", url, url]);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert!(ended.stderr.contains("A: cannot connect to 127.0.0.1:1"), "{ended:?}");
}

/// These tests measure small loads: nextest runs few of them at a time.
mod small_load {
    use super::*;

    #[test]
    fn equal_sides_show_no_difference_and_what_would_have_been_seen() {
        let server = Yardstick::start("2ms");
        let load = ["--metric", "throughput", "--workers", "4"];
        let ended = valid(|| compare(&[&[&server.url(), &server.url()], &SHORT, &load]));
        assert_eq!(ended.code, Some(0), "{}", brief(&ended));
        let first = ended.stdout.lines().next().unwrap();
        assert!(first.starts_with("no difference in throughput seen: B differs by "), "{first}");
        assert!(first.contains("; the run would have seen "), "{first}");
        assert!(ended.stdout.contains("8 pairs of rounds that count"), "{ended:?}");
        assert_eq!(ended.stderr, "", "no progress is drawn where there is no terminal");
    }

    #[test]
    fn scaling_finds_the_serial_share() {
        let port = free_port();
        let (url, command) =
            (format!("http://127.0.0.1:{port}/"), yardstick_command(port, "--service 5ms --servers {n}"));
        let scale = ["--scale", "servers=1,2,4", "--restart-cmd", &command, "--json"];
        // With a connection for each worker some request always waits.
        let load =
            ["--rounds", "8", "--duration", "200ms", "--warmup", "50ms", "--workers", "16", "--connections", "16"];
        repeated(|| {
            let ended = judged(compare(&[&[&url], &scale, &load]))?;
            let compare = comparison(&ended);
            let scale = &compare["scale"];
            let levels = listed(scale, "levels");
            assert_eq!(levels.iter().map(|level| number(level, "/n")).collect::<Vec<_>>(), [1.0, 2.0, 4.0]);
            for level in &levels[1..] {
                ensure(covers(&level["speedup95"], number(level, "/n")), || format!("{scale:#}"))?;
            }
            // Servers of a yardstick have nothing in common that could hold them up.
            ensure(covers(&scale["serial_share95"], 0.0), || format!("{scale:#}"))?;
            ensure(covers(&scale["universal"]["coherency95"], 0.0), || format!("{scale:#}"))?;
            assert!(compare["sentence"].as_str().unwrap().contains("from 1 to 4 servers"), "{compare:#}");
            assert_eq!(ended.code, Some(0), "{}", brief(&ended));
            Ok(())
        });
    }
}

/// These tests need all CPUs: nextest runs each of them by itself.
mod alone {
    use super::*;

    #[test]
    fn a_planted_difference_is_found_with_an_interval_that_covers_it() {
        let (a, b) = (Yardstick::start("2ms"), Yardstick::start("2.4ms"));
        let load = ["--metric", "throughput", "--metric", "p50", "--workers", "4", "--max-regression", "2%", "--json"];
        // A machine that others use widens the interval until nothing is found.
        repeated(|| {
            let ended = judged(compare(&[&[&a.url(), &b.url()], &SHORT, &load]))?;
            let compare = comparison(&ended);
            ensure(compare["difference"] == "less", || format!("{:#}", compare["metrics"]))?;
            ensure(covers(&compare["interval95"], 2.0 / 2.4), || format!("{:#}", compare["metrics"]))?;
            assert_eq!(compare["metric"], "throughput");
            let metrics = listed(&compare, "metrics");
            assert_eq!(metrics.iter().map(|metric| &metric["primary"]).collect::<Vec<_>>(), [true, false]);
            let sentence = compare["sentence"].as_str().unwrap();
            let parts = ["the throughput of B is ", " % lower than that of A (95 % interval "];
            assert!(parts.iter().all(|part| sentence.contains(part)), "{sentence}");
            ensure(ended.code == Some(1), || format!("a sixth is more than 2 %: {}", brief(&ended)))?;
            assert!(
                document::of(&ended)["reasons"][0].as_str().unwrap().contains("--max-regression"),
                "{}",
                brief(&ended)
            );
            Ok(())
        });
    }
}
