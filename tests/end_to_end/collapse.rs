//! Targets that fail while they are measured: under an overload, or because they are killed.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::document::{self, number, outcome};
use crate::drivers::drivers;
use crate::process::{PATIENCE, Process, thalweg, until};
use crate::repetition::{ensure, judged, repeated};
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

/// These tests measure small loads: nextest runs few of them at a time.
mod small_load {
    use super::*;

    /// A run against a server that is killed in the middle was once INVALID, as if the client had
    /// fallen short.
    #[test]
    fn a_server_that_is_killed_in_mid_run_is_a_failure() {
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
            for driver in drivers() {
                repeated(|| killed_in_mid_run(&tree, &[load, &["--driver", driver]].concat()));
            }
        }
    }

    fn killed_in_mid_run(tree: &Tree, load: &[&str]) -> Result<(), String> {
        let log = tree.root().with_file_name("access.log");
        let _ = fs::remove_file(&log);
        let server = Server::of(tree, &["--access-log", log.to_str().expect("temporary folders have plain names")]);
        let url = format!("{}/text.txt", server.url);
        let run = Process::start(&mut thalweg(&[&["run", &url], load, &["--duration", "2s", "--json"]].concat()));
        until("the run to be under way", PATIENCE, || fs::metadata(&log).ok().filter(|log| log.len() > 0));
        thread::sleep(Duration::from_millis(700));
        server.process.signal("KILL");
        let ended = judged(run.wait(PATIENCE))?;
        let trial = document::trial(&ended);
        let case = format!("{load:?}: {} {}", trial["reasons"], trial["outcomes"]);
        ensure(outcome(&trial, "refused") > 0 && outcome(&trial, "good") > 0, || case.clone())?;
        assert_eq!((trial["verdict"].as_str(), ended.code), (Some("fail"), Some(1)), "{case}");
        assert!(trial["reasons"][0].as_str().is_some_and(|first| first.contains("refused")), "{case}");
        Ok(())
    }
}

/// These tests need all CPUs: nextest runs each of them by itself.
mod alone {
    use super::*;

    /// Such a search once ended with PASS and what was left of the server as its capacity.
    #[test]
    fn a_lasting_collapse_is_the_first_thing_that_a_search_says() {
        let folder = tempfile::TempDir::new().expect("a temporary folder can be made");
        let report = folder.path().join("report.html");
        let options = ["--connections", "16", "--duration", "4s", "--probe", "2s", "--recovery", "6s", "--json"];
        let out = ["--out", report.to_str().expect("temporary folders have plain names")];
        let document = repeated(|| {
            let server = FragileServer::start();
            let url = format!("http://{}/", server.address);
            let search = Process::start(&mut thalweg(&[&["find", &url], &options[..], &out].concat()));
            let ended = judged(search.wait(Duration::from_secs(180)))?;
            let document = document::of(&ended);
            let find = document::find(&document);
            // A client with little CPU time does not overload it.
            ensure(find["overload"].is_object(), || format!("no overload: {}", find["notes"]))?;
            assert_eq!((ended.code, document["verdict"].as_str()), (Some(1), Some("fail")), "{find:#}");
            let [held, failed] = ["/held_rate", "/failed_rate"].map(|name| number(&find["overload"], name));
            // Three failures at the probes' first rate, three quarters of what had passed, are
            // enough.
            ensure(held >= 200.0 && failed <= held * 0.76, || format!("{held}/s held, {failed}/s failed"))?;
            Ok(document)
        });
        let find = document::find(&document);
        let first = document["reasons"][0].as_str().unwrap();
        assert!(first.contains("the target collapsed") && first.contains("did not recover"), "{first}");
        assert_eq!(find["evidence"][0].as_str(), Some(first));
        let overload = &find["overload"];
        assert_eq!((&overload["shape"], &overload["recovered"]), (&"collapse".into(), &false.into()), "{find:#}");
        let held = number(overload, "/held_rate");
        assert_eq!(find["lower_bound"].as_f64(), Some(held), "the bound is that from before: {find:#}");
        assert_eq!((&find["limit"], &find["ended"]), (&"server".into(), &"not_recovered".into()), "{find:#}");
        let page = fs::read_to_string(report).unwrap();
        let heading = page.split_once("<h1>").and_then(|(_, rest)| rest.split_once("</h1>")).unwrap().0;
        assert!(heading.contains("collapsed: it handled"), "{heading}");
    }

    #[test]
    fn a_server_that_is_killed_in_a_search_is_a_failure_too() {
        let tree = Tree::new();
        let server = Server::of(&tree, &[]);
        let url = format!("{}/text.txt", server.url);
        let options = ["--connections", "8", "--duration", "2s", "--probe", "500ms", "--recovery", "2s", "--json"];
        let command = [&["find", &url, "--progress", "json"], &options[..]].concat();
        let search = Process::start(&mut thalweg(&command));
        let judged_trials = || search.stdout().matches("\"type\":\"judged\"").count();
        until("a few trials", PATIENCE, || (judged_trials() >= 4).then_some(()));
        server.process.signal("KILL");
        let ended = search.wait(Duration::from_secs(120));
        let result = ended.stdout.lines().last().expect("a stream ends with its result");
        let document: Value = serde_json::from_str(result).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
        assert_eq!((ended.code, document["verdict"].as_str()), (Some(1), Some("fail")), "{}", document["find"]);
        let trials = document["trials"].as_array().unwrap();
        let refused = trials.iter().filter(|trial| outcome(trial, "refused") > 0 && outcome(trial, "good") == 0);
        let verdicts: Vec<&str> = refused.filter_map(|trial| trial["verdict"].as_str()).collect();
        assert!(!verdicts.is_empty() && verdicts.iter().all(|verdict| *verdict == "fail"), "{verdicts:?}");
    }
}
