//! Attacks that draw things out, by Debian's slowhttptest in its four modes, and what others notice
//! of them.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use thalweg_serve::Totals;
use thalweg_sys::DriverChoice;

use crate::naive;
use crate::served::{Served, each_driver, read_to_end};

/// How long an attack lasts, and how many connections it opens in that time; all of them together
/// are not many.
const ATTACK: Duration = Duration::from_secs(6);
const CONNECTIONS: usize = 250;
const CONNECTIONS_PER_S: usize = 100;

/// The longest that other clients may wait, most of the time: the test's own machine may be busy.
const PROMPT: Duration = Duration::from_millis(100);

/// The slots are full after 1.5 s. A client that takes nothing of its response is known for one 0.7
/// s after the last bytes that its kernel took, at the next check, of which a round takes 0.25 s;
/// until then a newcomer may be refused.
const KNOWN_AFTER: Duration = Duration::from_secs(2);

/// Starts an attack on a path.
fn attack(served: &Served, mode: &[&str], path: &str) -> Child {
    let url = format!("http://{}{path}", served.address());
    let [seconds, connections, rate] =
        [ATTACK.as_secs() as usize, CONNECTIONS, CONNECTIONS_PER_S].map(|n| n.to_string());
    Command::new("slowhttptest")
        .args(mode)
        .args(["-u", &url, "-l", &seconds, "-c", &connections, "-r", &rate, "-i", "1", "-p", "5", "-v", "1"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("slowhttptest is installed, by tests/setup")
}

/// Requests a file on a new connection now and then while an attack lasts. Returns the time of each
/// response.
fn ask_meanwhile(served: &Served, attack: &mut Child, known_after: Duration) -> Vec<Duration> {
    let mut times = Vec::new();
    let attacked = Instant::now();
    while attack.try_wait().unwrap().is_none() {
        let begun = Instant::now();
        let mut stream = served.connect();
        stream.write_all(b"GET /letters HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        let responses = naive::take_all(&read_to_end(&mut stream), &["GET"]);
        times.push(begun.elapsed());
        let is_early = begun - attacked < known_after;
        assert!(responses[0].status == 200 || (responses[0].status == 503 && is_early), "{:?}", responses[0]);
        // The pause keeps the probing client from becoming a load.
        std::thread::park_timeout(Duration::from_millis(20));
    }
    times
}

/// Attacks a server with few slots. Other clients are served all the time, and `counts` checks the
/// outcome of the attackers. Until `known_after` a refusal is accepted.
fn check(mode: &[&str], path: &str, known_after: Duration, counts: impl Fn(&Totals) -> bool) {
    each_driver(|driver| {
        let served = Served::start(driver, |config| {
            config.limits.connections_max = 150;
            config.limits.stall_time = Duration::from_secs(3);
            config.cpus = vec![first_cpu()];
        });
        let Some(served) = served else { return };
        let mut attack = attack(&served, mode, path);
        let mut times = ask_meanwhile(&served, &mut attack, known_after);
        let said = attack.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let totals = served.server.totals();
        times.sort_unstable();
        assert!(times.len() > 10, "{mode:?}: {} answers; {said}", times.len());
        let median = times[times.len() / 2];
        assert!(median < PROMPT, "{mode:?} {driver:?}: half of the answers took more than {median:?}");
        assert!(counts(&totals), "{mode:?} {driver:?}: {totals:?}; {said}");
        served.stop();
    });
}

fn first_cpu() -> usize {
    thalweg_sys::affinity::allowed_cpus().unwrap()[0]
}

/// More attackers have come than there is room for, and others had to go for the newcomers.
fn have_made_room(totals: &Totals) -> bool {
    totals.accepted > CONNECTIONS as u64 && totals.evicted > 0
}

#[test]
fn slow_heads_make_room() {
    check(&["-H"], "/letters", Duration::ZERO, have_made_room);
}

#[test]
fn slow_bodies_are_not_waited_for() {
    // They get a 405 at once, and close.
    check(&["-B", "-s", "8192"], "/letters", Duration::ZERO, |totals| totals.accepted > CONNECTIONS as u64);
}

#[test]
fn many_ranges_are_answered_like_others() {
    check(&["-R"], "/large.bin", Duration::ZERO, |totals| totals.accepted > CONNECTIONS as u64);
}

#[test]
fn slow_readers_make_room() {
    check(&["-X", "-w", "10", "-y", "20", "-n", "1", "-z", "5"], "/large.bin", KNOWN_AFTER, have_made_room);
}

/// One driver, the one that is always available, is enough to show that connections that make
/// progress keep a full table.
#[test]
fn a_client_that_reads_slowly_is_kept() {
    let served = Served::start(DriverChoice::Epoll, |config| {
        config.limits.stall_time = Duration::from_secs(2);
        config.bandwidth.per_connection = 600_000;
    });
    let served = served.unwrap();
    let begun = Instant::now();
    let response = served.exchange(b"GET /large.bin HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    let seconds = begun.elapsed().as_secs_f64();
    assert!(response.ends_with(&crate::served::large()));
    assert!(seconds > 4.7, "3 MB at 600 kB/s came in {seconds} s");
    served.stop();
}
