//! Attacks that draw things out, by Debian's slowhttptest in its four modes, and what others notice
//! of them.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use thalweg_serve::Totals;

use crate::naive;
use crate::served::{PATIENCE, Served, each_driver, read_to_end};

/// The longest that an attack lasts, if it does not end before, and how many connections it opens:
/// all of them together are not many.
const ATTACK: Duration = PATIENCE;
const CONNECTIONS: usize = 250;
const CONNECTIONS_PER_S: usize = 100;

/// Places of the server.
const PLACES: usize = 150;

/// Others are served during an attack if they get so many responses one after the other.
const SERVED: usize = 20;

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

/// Requests a file on a new connection now and then, until `is_over` holds and others are served,
/// or the attack has ended some requests ago. Returns the statuses of the responses.
fn ask_meanwhile(served: &Served, attack: &mut Child, is_over: impl Fn(&Totals) -> bool) -> Vec<u16> {
    let (mut statuses, mut since, mut left) = (Vec::new(), None, SERVED);
    while left > 0 {
        left -= usize::from(attack.try_wait().unwrap().is_some());
        let mut stream = served.connect();
        stream.write_all(b"GET /letters HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        statuses.push(naive::take_all(&read_to_end(&mut stream), &["GET"])[0].status);
        if is_over(&served.server.totals()) {
            let since = since.get_or_insert(statuses.len());
            if statuses[*since..].ends_with(&[200; SERVED]) {
                break;
            }
        }
        // The pause keeps the probing client from becoming a load.
        std::thread::park_timeout(Duration::from_millis(20));
    }
    statuses
}

/// Attacks a server with few places until `counts` holds of what became of the attackers. Other
/// clients are served then, and before, too, unless one may be `refused` while the server does not
/// know yet which connections are an attacker's.
fn check(mode: &[&str], path: &str, refused: bool, counts: impl Fn(&Totals) -> bool) {
    each_driver(|driver| {
        let served = Served::start(driver, |config| {
            config.limits.connections_max = PLACES;
            // A client that takes nothing is known for a slow one after a quarter of this.
            config.limits.stall_time = Duration::from_secs(3);
            config.cpus = vec![first_cpu()];
        });
        let Some(served) = served else { return };
        let mut attack = attack(&served, mode, path);
        let statuses = ask_meanwhile(&served, &mut attack, &counts);
        // It may have ended by itself.
        let _ = attack.kill();
        let said = attack.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let totals = served.server.totals();
        assert!(counts(&totals), "{mode:?} {driver:?}: {totals:?}; {said}");
        assert!(statuses.ends_with(&[200; SERVED]), "{mode:?} {driver:?}: {statuses:?}; {said}");
        let is_expected = |status: &u16| *status == 200 || (refused && *status == 503);
        assert!(statuses.iter().all(is_expected), "{mode:?} {driver:?}: {statuses:?}; {said}");
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
    check(&["-H"], "/letters", true, have_made_room);
}

#[test]
fn slow_bodies_are_not_waited_for() {
    // They get a 405 at once, and close.
    check(&["-B", "-s", "8192"], "/letters", false, |totals| totals.accepted > CONNECTIONS as u64);
}

#[test]
fn many_ranges_are_answered_like_others() {
    check(&["-R"], "/large.bin", false, |totals| totals.accepted > CONNECTIONS as u64);
}

#[test]
fn slow_readers_make_room() {
    check(&["-X", "-w", "10", "-y", "20", "-n", "1", "-z", "5"], "/large.bin", true, have_made_room);
}
