//! Files that are not in memory, and files that change.

use std::fs;
use std::path::Path;

use thalweg_reactor::run;
use thalweg_reactor::sim::{Sim, SimConfig};
use thalweg_sys::{Driver, Instant};

use super::{SECOND_NS, Step, folder, large, naive, one, send, simulate, world};
use crate::config::Limits;
use crate::content::blocking_pool::BlockingPool;

/// Drops a file from the page cache, where the file system supports it. A name that was never
/// requested is not cached either.
fn forget(path: &Path) {
    let file = fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

#[test]
fn requests_that_wait_for_a_disk_keep_their_order_and_their_bodies() {
    const REQUESTS: &str = "GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /large HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody\
        GET /b HTTP/1.1\r\nHost: h\r\n\r\nGET /never-asked HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n123456789\
        GET /large HTTP/1.0\r\nRange: bytes=-700000\r\n\r\n";
    for seed in 0..20 {
        let folder = folder();
        fs::write(folder.path().join("b"), "the letter b\n").unwrap();
        for name in ["a", "b", "large"] {
            forget(&folder.path().join(name));
        }
        let scripts = vec![vec![send(REQUESTS), Step::Finish]; 5];
        let (outcomes, totals) = simulate(SimConfig::rough(seed), &Limits::default(), folder.path(), scripts);
        for outcome in &outcomes {
            let responses = naive::take_all(&outcome.received, &["GET"]);
            let statuses: Vec<u16> = responses.iter().map(|response| response.status).collect();
            assert_eq!(statuses, [200, 200, 200, 404, 206], "seed {seed}");
            assert_eq!(responses[0].body, b"the letter a\n");
            assert!(responses[1].body == large(), "seed {seed}");
            assert_eq!(responses[2].body, b"the letter b\n");
            assert!(responses[4].body == large()[800_000..], "seed {seed}");
            assert!(outcome.orderly, "seed {seed}");
        }
        assert_eq!((totals.requests, totals.responses), (25, [20, 0, 5, 0]), "seed {seed}");
    }
}

#[test]
fn a_connection_is_idle_behind_a_request_that_waited_for_a_disk() {
    let limits = Limits::default();
    for (target, status) in [("a", 200), ("never-asked-here", 404)] {
        let folder = folder();
        forget(&folder.path().join("a"));
        let script = vec![send(&format!("GET /{target} HTTP/1.1\r\nHost: h\r\n\r\n"))];
        let (outcomes, _) = simulate(SimConfig::calm(1), &limits, folder.path(), vec![script]);
        assert_eq!(naive::take_all(&outcomes[0].received, &["GET"])[0].status, status, "{target}");
        let lasted = outcomes[0].lasted;
        assert!(lasted >= limits.idle_time && lasted > limits.stall_time, "{target}: closed after {lasted:?}");
    }
}

#[test]
fn several_ranges_arrive_whole_over_a_rough_network_from_a_cold_file() {
    const REQUESTS: &str = "GET /large HTTP/1.1\r\nHost: h\r\nRange: bytes=900000-1499999,0-0,5-700004\r\n\r\n\
        GET /a HTTP/1.1\r\nHost: h\r\nRange: bytes=0-2,4-9\r\n\r\nGET /a HTTP/1.1\r\nHost: h\r\n\r\n";
    let large = large();
    for seed in 0..20 {
        let folder = folder();
        forget(&folder.path().join("large"));
        let scripts = vec![vec![send(REQUESTS), Step::Finish]; 3];
        let (outcomes, _) = simulate(SimConfig::rough(seed), &Limits::default(), folder.path(), scripts);
        for outcome in &outcomes {
            let responses = naive::take_all(&outcome.received, &["GET"]);
            let statuses: Vec<u16> = responses.iter().map(|response| response.status).collect();
            assert_eq!(statuses, [206, 206, 200], "seed {seed}");
            let parts = naive::multipart(&responses[0]);
            assert!(parts.iter().map(|(_, bytes)| bytes.as_slice()).eq([
                &large[900_000..],
                &large[..1],
                &large[5..700_005]
            ]));
            assert_eq!(naive::multipart(&responses[1])[1], ("bytes 4-9/13".to_owned(), b"letter".to_vec()));
            assert_eq!(responses[2].body, b"the letter a\n");
        }
    }
}

#[test]
fn clients_of_a_cold_file_may_leave_at_any_time() {
    let folder = folder();
    for seed in 0..40 {
        forget(&folder.path().join("large"));
        let mut config = SimConfig::hostile(seed);
        config.connect_failure_probability = 0.0;
        let mut driver = Sim::new(config);
        let get = |name: &str| send(&format!("GET /{name} HTTP/1.1\r\nHost: h\r\n\r\n"));
        let steps = vec![get("large"), get(&format!("missing-{seed}")), Step::Finish];
        let (mut world, published) = world(&mut driver, &Limits::default(), folder.path(), vec![steps; 20]);
        world.end = Some(driver.now().plus_ns(600 * SECOND_NS));
        run(&mut driver, &mut world).unwrap();
        assert_eq!(published[0].totals().open, 0, "seed {seed}");
    }
}

#[test]
fn a_disk_that_does_not_answer_is_told_of() {
    let folder = folder();
    let mut driver = Sim::new(SimConfig::calm(1));
    let steps = vec![send("GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /never-asked HTTP/1.1\r\nHost: h\r\n\r\n")];
    let (mut world, _) = world(&mut driver, &Limits::default(), folder.path(), vec![steps]);
    // These workers do not run the jobs.
    world.blocking = BlockingPool::simulated().workers();
    run(&mut driver, &mut world).unwrap();
    let responses = naive::take_all(&world.clients[0].received, &["GET"]);
    assert_eq!(responses.iter().map(|response| response.status).collect::<Vec<_>>(), [200, 503]);
    assert_eq!(world.clients[0].over.map(|over| (over.at - Instant::from_ns(SECOND_NS)).as_secs()), Some(60));
}

#[test]
fn a_file_replaced_while_it_is_cached_is_seen_after_the_age() {
    let folder = folder();
    let get = || send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
    let replace = Step::Do(|folder| {
        fs::write(folder.join("new"), "another text\n").unwrap();
        fs::rename(folder.join("new"), folder.join("a")).unwrap();
    });
    let steps =
        vec![get(), Step::Receive(100), replace, get(), Step::Rest(SECOND_NS), get(), Step::Rest(1), Step::Finish];
    let outcome = one(SimConfig::calm(1), folder.path(), steps);
    let responses = naive::take_all(&outcome.received, &["GET"]);
    let bodies: Vec<&[u8]> = responses.iter().map(|response| response.body.as_slice()).collect();
    assert_eq!(bodies, [b"the letter a\n", b"the letter a\n", b"another text\n"]);
    assert_eq!(responses[0].field("etag"), responses[1].field("etag"));
    assert_ne!(responses[1].field("etag"), responses[2].field("etag"));
}
