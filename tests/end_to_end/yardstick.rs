//! `thalweg yardstick`: models over HTTP, what load generators find, and the truth that it prints.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::curl;
use crate::document::{self, number, outcome};
use crate::drivers::{BOTH_DRIVERS, drivers};
use crate::process::{ExitedProcess, PATIENCE, Process, run_thalweg, thalweg, until};
use crate::repetition::{ensure, repeated};

const PRESETS: [&str; 11] = [
    "fixed",
    "mm1",
    "mmk",
    "two-point",
    "bounded",
    "stalls",
    "slow-start",
    "collapse",
    "hot-core",
    "wrong-bodies",
    "resets",
];

/// SHA-256 of a body of 512 bytes.
const BODY_SHA256: &str = "64164443bb63e338ef1cfdb12a57117cd1212270cc935a798f6e8a665cdf4659";

/// A running yardstick.
struct Yardstick {
    process: Process,
    /// Without a slash at the end.
    url: String,
}

impl Yardstick {
    fn start(options: &[&str]) -> Self {
        let mut process = Process::start(&mut thalweg(&[&["yardstick", "--listen", "127.0.0.1:0"], options].concat()));
        let url = until("the yardstick to listen", PATIENCE, || {
            assert_eq!(process.ended(), None, "{options:?}: {}", process.stderr());
            let said = process.stdout();
            let url = said.lines().find_map(|line| line.strip_prefix("listening on ")).filter(|_| said.ends_with('\n'));
            url.map(|url| url.trim_end_matches('/').to_owned())
        });
        Self { process, url }
    }

    /// The status page.
    fn status(&self) -> Value {
        let reply = curl::fetch(&[], &format!("{}/.yardstick", self.url));
        assert_eq!((reply.status, reply.field("content-type")), (200, "application/json"));
        serde_json::from_slice(&reply.body).expect("the status page is JSON")
    }

    /// A run against it, with the JSON document as output.
    fn run(&self, options: &[&str]) -> ExitedProcess {
        let url = format!("{}/", self.url);
        Process::start(&mut thalweg(&[&["run", &url, "--json"], options].concat())).wait(PATIENCE)
    }

    fn end(self) -> ExitedProcess {
        self.process.signal("INT");
        self.process.wait(PATIENCE)
    }
}

#[test]
fn the_truth_is_printed_without_a_server() {
    let truth = |options: &[&str]| {
        let ended = run_thalweg(&[&["yardstick", "--truth"], options].concat());
        assert_eq!(ended.code, Some(0), "{options:?}: {ended:?}");
        ended.stdout
    };
    let text = truth(&["mm1", "--limit", "p99<50ms", "--arrivals", "poisson"]);
    assert!(text.contains("capacity: 1000.0/s\n"), "{text}");
    assert!(text.contains("p99<50ms: met up to 907.9/s under Poisson arrivals (M/M/1, closed form)"), "{text}");
    let json = truth(&["mmk", "--rate", "20k/s", "--limit", "p99<10ms", "--limit", "mean<1ms", "--json"]);
    let json: Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!((number(&json, "/truth/capacity_per_s"), number(&json, "/model/servers")), (20_000.0, 4.0));
    let rates: Vec<f64> = (0..2).map(|index| number(&json, &format!("/truth/limits/{index}/rate_per_s"))).collect();
    let lowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    assert_eq!(number(&json, "/truth/rate_per_s"), lowest, "{json:#}");
    assert!(lowest > 10_000.0 && lowest < 20_000.0, "{json:#}");
    let faulty = truth(&["resets", "--limit", "p99<50ms", "--json"]);
    let faulty: Value = serde_json::from_str(&faulty).expect("it is JSON");
    assert!(faulty["truth"]["rate_per_s"].is_null(), "{faulty:#}");
    for preset in PRESETS {
        assert!(truth(&[preset]).contains("capacity: "), "{preset}");
    }
}

#[test]
fn each_preset_answers_and_ends_with_a_summary() {
    for (preset, driver) in PRESETS.iter().flat_map(|preset| drivers().into_iter().map(move |driver| (preset, driver)))
    {
        // Faults have tests of their own.
        let options = [preset, "--driver", driver, "--resets", "0%", "--wrong-bodies", "0%", "--rate", "20k/s"];
        let yardstick = Yardstick::start(&options);
        let url = format!("{}/any/path?query", yardstick.url);
        let got = curl::fetch(&[], &url);
        assert_eq!((got.status, &*got.body), (200, &[b'x'; 512][..]), "{preset}");
        let head = curl::fetch(&["--head"], &url);
        assert_eq!((head.status, head.field("content-length"), head.body.len()), (200, "512", 0), "{preset}");
        let posted = curl::fetch(&["--data", "body=1"], &url);
        assert_eq!((posted.status, posted.body.len()), (200, 512), "{preset}");
        assert_eq!(curl::fetch(&["--http1.0"], &url).status, 200, "{preset}");
        let status = yardstick.status();
        let figures = &status["figures"];
        assert_eq!((&figures["arrived"], &figures["served"]), (&4.into(), &4.into()), "{preset}: {status:#}");
        assert_eq!(number(&status, "/figures/lateness_us/count"), 4.0, "{preset}: {status:#}");
        let ended = yardstick.end();
        assert_eq!(ended.code, Some(0), "{preset}: {ended:?}");
        assert!(ended.stdout.contains("4 requests, 4 served, 0 refused, 0 abandoned"), "{preset}: {ended:?}");
        assert!(ended.stdout.contains("responses left later than computed by"), "{preset}: {ended:?}");
    }
}

/// The CPU seconds of the thread at `path` in /proc, if it has that name.
fn tasks_stat(path: &str, name: &str) -> Option<f64> {
    const TICKS_PER_S: f64 = 100.0;
    let stat = std::fs::read_to_string(format!("{path}/stat")).ok()?;
    let (before, after) = stat.rsplit_once(") ")?;
    // Fields 14 and 15 of proc(5); the rest begins with the third.
    let fields: Vec<&str> = after.split(' ').collect();
    let ticks = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    before.ends_with(&format!("({name}")).then_some(ticks / TICKS_PER_S)
}

/// Sends `input` and reads until the server ends the connection or the responses' bodies are there.
fn exchange(yardstick: &Yardstick, input: &[u8], bodies: usize) -> String {
    let mut stream = TcpStream::connect(yardstick.url.trim_start_matches("http://")).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
    stream.write_all(input).expect("it reads");
    let (mut output, mut buffer) = (Vec::new(), [0; 65536]);
    while output.windows(2).filter(|pair| pair == b"xx").count() < bodies * 511 {
        match stream.read(&mut buffer).expect("it answers") {
            0 => break,
            bytes => output.extend_from_slice(&buffer[..bytes]),
        }
    }
    String::from_utf8(output).expect("responses are text")
}

#[test]
fn pipelined_requests_are_answered_in_order_and_nonsense_is_refused() {
    for driver in drivers() {
        let yardstick = Yardstick::start(&["mmk", "--rate", "2k/s", "--driver", driver]);
        let get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
        let status = "GET /.yardstick HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        let output = exchange(&yardstick, [&get.repeat(100), status].concat().as_bytes(), usize::MAX / 1000);
        assert_eq!(output.matches("HTTP/1.1 200 OK\r\n").count(), 101, "{driver}");
        // The page was made when its request came, and left when its turn came.
        assert!(
            output.rsplit_once("xxx").is_some_and(|(_, last)| last.contains("\"capacity_per_s\": 2000")),
            "{driver}"
        );
        for nonsense in ["nonsense\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "\0\0\0\0\r\n\r\n"] {
            let refused = exchange(&yardstick, nonsense.as_bytes(), 1);
            assert!(refused.starts_with("HTTP/1.1 400 "), "{driver}: {refused}");
        }
        // Connections that end in mid-request, and that leave while they wait.
        for input in ["", "GET /", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n", &get.repeat(50)] {
            let mut stream = TcpStream::connect(yardstick.url.trim_start_matches("http://")).expect("it listens");
            stream.write_all(input.as_bytes()).expect("it reads");
        }
        assert_eq!(curl::fetch(&[], &yardstick.url).status, 200, "{driver}");
        until("the connections to be gone", PATIENCE, || {
            // The one that asks is there.
            (number(&yardstick.status(), "/figures/connections") == 1.0).then_some(())
        });
        assert_eq!(yardstick.end().code, Some(0), "{driver}");
    }
}

#[test]
fn wrong_options_say_what_to_do() {
    for (options, part) in [
        (&["fixed", "--stall", "1s"][..], "'1s every 10s'"),
        (&["fixed", "--stall", "10s every 1s"], "must be less than the distance"),
        (&["mm1", "--recovery", "5s"], "--recovery needs a collapse"),
        (&["hot-core", "--servers", "1"], "--servers 2 or more"),
        (&["fixed", "--resets", "60%", "--wrong-bodies", "60%"], "more than 100%"),
        (&["wrong-bodies", "--body", "0"], "use --body 512"),
        (&["nonsense"], "possible values: fixed, mm1"),
        (&["fixed", "--rate", "5M/s"], "change --rate or --service"),
        (&["two-point", "--slow-factor", "0.5"], "--slow-factor"),
        (&["fixed", "--rate", "10/s", "--service", "1ms"], "cannot be used with"),
        (&["stalls", "--burn"], "--burn"),
        (&["fixed", "--cores", "0,1"], "one thread"),
        (&["fixed", "--json"], "--truth"),
        (&["fixed", "--limit", "p99"], "no `<` or `>`"),
    ] {
        let ended = run_thalweg(&[&["yardstick"], options].concat());
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{options:?}: {ended:?}");
        assert!(ended.stderr.contains(part), "{options:?}: {}", ended.stderr);
    }
    let yardstick = Yardstick::start(&["fixed"]);
    let taken = yardstick.url.trim_start_matches("http://");
    let ended = run_thalweg(&["yardstick", "--listen", taken]);
    assert!(matches!(ended.code, Some(4)), "{ended:?}");
    assert!(ended.stderr.contains("choose another address with --listen"), "{ended:?}");
}

/// These tests measure small loads: nextest runs few of them at a time.
mod small_load {
    use super::*;

    /// The queue grows by 80 requests a second for five seconds; half-way, 200 of them wait for
    /// 0.5 s.
    #[test]
    fn a_run_passes_below_the_capacity_and_fails_above_it() {
        for preset in ["fixed", "mmk"] {
            repeated(|| {
                let yardstick = Yardstick::start(&[preset, "--rate", "400/s"]);
                let offer = |rate: &str| {
                    let load = ["--rate", rate, "--duration", "5s", "--connections", "400", "--limit", "p90<200ms"];
                    let ended = yardstick.run(&load);
                    let p50_ms = number(&document::trial(&ended), "/response_time_us/p50") / 1e3;
                    (ended.code, p50_ms)
                };
                // A client that got too little CPU time has no verdict, but its figures.
                let (code, p50_ms) = offer("320/s");
                ensure(matches!(code, Some(0 | 3)) && p50_ms < 100.0, || format!("{preset}: {code:?}, {p50_ms} ms"))?;
                let (code, p50_ms) = offer("480/s");
                let is_late = (350.0..700.0).contains(&p50_ms);
                ensure(matches!(code, Some(1 | 3)) && is_late, || format!("{preset}: {code:?}, {p50_ms} ms"))
            });
        }
    }

    #[test]
    fn burnt_services_take_their_cpu_time() {
        repeated(|| {
            let options =
                ["hot-core", "--law", "fixed", "--burn", "--servers", "2", "--service", "5ms", "--hot-share", "100%"];
            let yardstick = Yardstick::start(&options);
            let trial = document::trial(&yardstick.run(&["--requests", "100", "--rate", "50/s"]));
            assert_eq!(outcome(&trial, "good"), 100, "{}", trial["outcomes"]);
            let fastest_ms = number(&trial, "/service_time_us/min") / 1e3;
            assert!(fastest_ms >= 5.0, "{fastest_ms} ms");
            let cpu_s = |thread: &str| {
                let tasks = std::fs::read_dir(format!("/proc/{}/task", yardstick.process.id())).expect("it runs");
                let of = |name: &str| tasks_stat(name, thread);
                tasks.filter_map(|task| of(task.expect("it has threads").path().to_str()?)).sum::<f64>()
            };
            let (hot, other) = (cpu_s("burner-0"), cpu_s("burner-1"));
            ensure((0.45..0.7).contains(&hot) && other < 0.05, || format!("{hot} s and {other} s"))?;
            Ok(())
        });
    }

    #[test]
    fn wrong_bodies_and_errors_are_found_by_a_check() {
        let yardstick =
            Yardstick::start(&["wrong-bodies", "--rate", "5k/s", "--wrong-bodies", "10%", "--errors", "5%"]);
        let check = format!("status=200,length=512,sha256={BODY_SHA256}");
        let load = ["--requests", "2000", "--rate", "500/s", "--check", &check];
        let trial = document::trial(&yardstick.run(&load));
        let status = yardstick.status();
        let [bodies, errors] =
            ["wrong_bodies", "errors"].map(|name| number(&status, &format!("/figures/faults/{name}")));
        assert!((140.0..260.0).contains(&bodies) && (60.0..140.0).contains(&errors), "{status:#}");
        assert_eq!(outcome(&trial, "failed_check") as f64, bodies, "{}", trial["outcomes"]);
        assert_eq!(outcome(&trial, "bad_status") as f64, errors, "{}", trial["outcomes"]);
        assert_eq!(outcome(&trial, "good") + outcome(&trial, "failed_check") + outcome(&trial, "bad_status"), 2000);
    }

    #[test]
    fn resets_and_truncated_bodies_are_what_they_say() {
        // Both drivers: each sees a reset in its own way.
        for driver in BOTH_DRIVERS {
            let options = ["resets", "--rate", "5k/s", "--resets", "10%", "--truncated", "10%", "--driver", driver];
            let yardstick = Yardstick::start(&options);
            let trial = document::trial(&yardstick.run(&["--requests", "1000", "--rate", "500/s"]));
            let [resets, truncated] = ["reset", "truncated"].map(|name| outcome(&trial, name));
            assert!((60..140).contains(&resets) && (60..140).contains(&truncated), "{driver}: {}", trial["outcomes"]);
            assert_eq!(outcome(&trial, "good") + resets + truncated, 1000, "{driver}: {}", trial["outcomes"]);
        }
    }

    #[test]
    fn a_bounded_queue_refuses_with_503() {
        repeated(|| {
            let yardstick = Yardstick::start(&["bounded", "--law", "fixed", "--rate", "200/s", "--retry-after", "7"]);
            let trial =
                document::trial(&yardstick.run(&["--rate", "400/s", "--duration", "3s", "--connections", "200"]));
            let (good, refused) = (outcome(&trial, "good"), outcome(&trial, "bad_status"));
            // 200 a second are served, and the 20 that wait at the end.
            assert_eq!(good + refused, 1200, "{}", trial["outcomes"]);
            ensure((590..=640).contains(&good), || format!("{}", trial["outcomes"]))?;
            assert_eq!(number(&yardstick.status(), "/figures/waiting_peak"), 20.0);
            // The queue takes 21 at once; the others have their refusal at once.
            let all = format!("{}/[1-30]", yardstick.url);
            let mut parallel = curl::command();
            parallel.args([
                "--parallel",
                "--parallel-immediate",
                "--parallel-max",
                "30",
                "--include",
                "--silent",
                &all,
            ]);
            let ended = Process::start(&mut parallel).wait(PATIENCE);
            let refusals = ended.stdout.matches(" 503 ").count();
            ensure(refusals >= 5, || format!("{refusals} refusals"))?;
            assert!(ended.stdout.contains("Retry-After: 7\r\n"), "{}", ended.stdout);
            Ok(())
        });
    }

    #[test]
    fn a_collapse_ends_after_its_recovery() {
        repeated(|| {
            let collapse = ["--collapse-after", "1500ms", "--recovery", "4s"];
            let yardstick =
                Yardstick::start(&[&["collapse", "--law", "fixed", "--rate", "500/s"], &collapse[..]].concat());
            let p90_ms = |rate: &str, length: &str| {
                let load = ["--rate", rate, "--duration", length, "--connections", "64", "--timeout", "1s"];
                number(&document::trial(&yardstick.run(&load)), "/response_time_us/p90") / 1e3
            };
            let is_collapsed = || yardstick.status()["figures"]["is_collapsed"] == true;
            let before = p90_ms("300/s", "2s");
            ensure(before < 100.0 && !is_collapsed(), || format!("before: {before} ms"))?;
            let _ = p90_ms("1000/s", "3s");
            ensure(is_collapsed(), || format!("it has not collapsed: {:#}", yardstick.status()))?;
            let damaged = p90_ms("300/s", "1s");
            ensure(damaged > 100.0, || format!("more than the 125/s that are left: {damaged} ms"))?;
            until("the recovery", PATIENCE, || (!is_collapsed()).then_some(()));
            let after = p90_ms("300/s", "2s");
            ensure(after < 100.0, || format!("after: {after} ms"))?;
            let collapses = number(&yardstick.status(), "/figures/collapses");
            ensure(collapses == 1.0, || format!("{collapses} collapses"))
        });
    }

    /// Each stall of 0.5 s in two seconds delays a quarter of the requests.
    #[test]
    fn a_stall_shows_in_a_run() {
        repeated(|| {
            let yardstick = Yardstick::start(&["fixed", "--rate", "10k/s", "--stall", "500ms every 2s"]);
            let trial = document::trial(&yardstick.run(&["--rate", "200/s", "--duration", "4s"]));
            let [p50, p99] = ["p50", "p99"].map(|name| number(&trial, &format!("/response_time_us/{name}")) / 1e3);
            ensure(p50 < 50.0, || format!("p50 {p50} ms"))?;
            ensure((450.0..520.0).contains(&p99), || format!("p99 {p99} ms"))
        });
    }
}
