//! Targets that fail while they are measured: under an overload, or because they are killed.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::document::{self, number, outcome};
use crate::machine;
use crate::process::{DRIVERS, PATIENCE, Process, thalweg, valid};
use crate::scripted::GOOD;
use crate::server::{Server, Tree};

/// How long a response takes, and how long each takes of a server that has collapsed, one after the
/// other.
const SERVICE: Duration = Duration::from_millis(10);
const DAMAGED_SERVICE: Duration = Duration::from_millis(40);
/// More than this in each second, for so long, and the server collapses. A search's probe at full
/// speed is shorter.
const RATE_MAX: f64 = 1000.0;
const ENDURES: Duration = Duration::from_millis(1600);

/// A server that an overload damages for good.
struct FragileServer {
    address: SocketAddr,
}

#[derive(Default)]
struct State {
    /// Since when requests have come too fast, with how many.
    overload: Option<(Instant, u32)>,
    collapsed: bool,
}

impl FragileServer {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the kernel has a port");
        let address = listener.local_addr().expect("a listener has an address");
        let (state, bottleneck) = (Arc::new(Mutex::new(State::default())), Arc::new(Mutex::new(())));
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let (state, bottleneck) = (state.clone(), bottleneck.clone());
                thread::spawn(move || serve(stream, &state, &bottleneck).unwrap_or_default());
            }
        });
        Self { address }
    }
}

fn serve(mut stream: TcpStream, state: &Mutex<State>, bottleneck: &Mutex<()>) -> io::Result<()> {
    let (mut request, mut length) = ([0; 4096], 0);
    loop {
        let read = stream.read(&mut request[length..])?;
        length += read;
        if read == 0 {
            return Ok(());
        }
        if !request[..length].ends_with(b"\r\n\r\n") {
            continue;
        }
        length = 0;
        let collapsed = state.lock().expect("no thread panics").on_request(Instant::now());
        if collapsed {
            let _alone = bottleneck.lock().expect("no thread panics");
            thread::sleep(DAMAGED_SERVICE);
        } else {
            thread::sleep(SERVICE);
        }
        stream.write_all(GOOD.as_bytes())?;
    }
}

impl State {
    /// Whether the server has collapsed by now.
    fn on_request(&mut self, now: Instant) -> bool {
        let (since, requests) = self.overload.unwrap_or((now, 0));
        let lasted = now - since;
        let rate = f64::from(requests) / lasted.as_secs_f64().max(0.2);
        // The first fifth of a second is too short to say.
        let too_fast = lasted < Duration::from_millis(200) || rate > RATE_MAX;
        self.overload = Some(if too_fast { (since, requests + 1) } else { (now, 1) });
        self.collapsed |= too_fast && lasted > ENDURES;
        self.collapsed
    }
}

/// Such a search once ended with PASS and what was left of the server as its capacity.
#[test]
fn a_lasting_collapse_is_the_first_thing_that_a_search_says() {
    let _machine = machine::exclusive();
    let folder = tempfile::TempDir::new().expect("a temporary folder can be made");
    let report = folder.path().join("report.html");
    let options = ["--connections", "16", "--duration", "4s", "--probe", "2s", "--recovery", "6s", "--json"];
    let out = ["--out", report.to_str().expect("temporary folders have plain names")];
    let ended = valid(|| {
        let server = FragileServer::start();
        let url = format!("http://{}/", server.address);
        Process::start(&mut thalweg(&[&["find", &url], &options[..], &out].concat())).wait(Duration::from_secs(240))
    });
    let document = document::of(&ended);
    let find = document::find(&document);
    assert_eq!((ended.code, document["verdict"].as_str()), (Some(1), Some("fail")), "{find:#}");
    let first = document["reasons"][0].as_str().unwrap();
    assert!(first.contains("the target collapsed") && first.contains("did not recover"), "{first}");
    assert_eq!(find["evidence"][0].as_str(), Some(first));
    let overload = &find["overload"];
    assert_eq!((&overload["shape"], &overload["recovered"]), (&"collapse".into(), &false.into()), "{find:#}");
    let [held, failed] = ["/held_rate", "/failed_rate"].map(|name| number(overload, name));
    assert_eq!(find["lower_bound"].as_f64(), Some(held), "the bound is that from before: {find:#}");
    // Three failures at the probes' first rate, three quarters of what had passed, are enough.
    assert!(held >= 200.0 && failed <= held * 0.76, "{find:#}");
    assert_eq!((&find["limit"], &find["ended"]), (&"server".into(), &"not_recovered".into()), "{find:#}");
    let page = std::fs::read_to_string(report).unwrap();
    let heading = page.split_once("<h1>").and_then(|(_, rest)| rest.split_once("</h1>")).unwrap().0;
    assert!(heading.contains("collapsed: it handled"), "{heading}");
}

/// A run against a server that is killed in the middle was once INVALID, as if the client had
/// fallen short.
#[test]
fn a_server_that_is_killed_in_mid_run_is_a_failure() {
    let _machine = machine::exclusive();
    let tree = Tree::new();
    for load in [
        &["--rate", "300/s"][..],
        &["--rate", "4000/s"],
        &["--conn-rate", "200/s", "--calls", "3"],
        &["--workers", "4"],
        &["--workers", "64"],
        &["--workers", "4", "--think", "5ms"],
        &["--hold", "20", "--think", "20ms"],
    ] {
        for driver in DRIVERS {
            let server = Server::of(&tree, &[]);
            let url = format!("{}/text.txt", server.url);
            let common = ["--duration", "2s", "--driver", driver, "--json"];
            let run = Process::start(&mut thalweg(&[&["run", &url], load, &common].concat()));
            thread::sleep(Duration::from_millis(900));
            server.process.signal("KILL");
            let ended = run.wait(PATIENCE);
            let trial = document::trial(&ended);
            let case = format!("{load:?} over {driver}: {} {}", trial["reasons"], trial["outcomes"]);
            assert!(outcome(&trial, "refused") > 0 && outcome(&trial, "good") > 0, "{case}");
            assert_eq!((trial["verdict"].as_str(), ended.code), (Some("fail"), Some(1)), "{case}");
            assert!(trial["reasons"][0].as_str().is_some_and(|first| first.contains("refused")), "{case}");
        }
    }
}

#[test]
fn a_server_that_is_killed_in_a_search_is_a_failure_too() {
    let _machine = machine::exclusive();
    let tree = Tree::new();
    let server = Server::of(&tree, &[]);
    let url = format!("{}/text.txt", server.url);
    let options = ["--connections", "8", "--duration", "2s", "--probe", "500ms", "--recovery", "2s", "--json"];
    let search = Process::start(&mut thalweg(&[&["find", &url], &options[..]].concat()));
    // Probe and calibration take 1.25 s each; by then a few trials have been made.
    thread::sleep(Duration::from_secs(6));
    server.process.signal("KILL");
    let ended = search.wait(Duration::from_secs(120));
    let document = document::of(&ended);
    assert_eq!((ended.code, document["verdict"].as_str()), (Some(1), Some("fail")), "{}", document["find"]);
    let trials = document["trials"].as_array().unwrap();
    let refused = trials.iter().filter(|trial| outcome(trial, "refused") > 0 && outcome(trial, "good") == 0);
    let verdicts: Vec<&str> = refused.filter_map(|trial| trial["verdict"].as_str()).collect();
    assert!(!verdicts.is_empty() && verdicts.iter().all(|verdict| *verdict == "fail"), "{verdicts:?}");
}
