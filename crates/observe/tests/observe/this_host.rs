//! Observes the host that the tests run on.

use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use thalweg_observe::clock::Clock;
use thalweg_observe::{LocalObserver, Sampler, ServerName, Settings};
use thalweg_sys::proc::thread_cpu;

use crate::{PATIENCE, wait_for};

/// Uses that much CPU time.
fn burn(time: Duration) {
    let before = thread_cpu();
    while thread_cpu().since(before).total_ns() < time.as_nanos() as u64 {}
}

#[test]
fn a_sample_holds_what_this_host_shows() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let clients: Vec<_> = (0..3).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    let accepted: Vec<_> = (0..2).map(|_| listener.accept().unwrap()).collect();
    let mut sampler = Sampler::new(Some(ServerName::Port(port)), Clock::start(), Duration::from_secs(1));
    assert_eq!(sampler.sample(), None, "the first reading has no other to compare with");
    burn(Duration::from_millis(200));
    let sample = sampler.sample().unwrap();
    assert!(sample.seconds >= 0.2 && sample.number == 1);
    assert!(sample.all_cpus().total_ms() > 0);
    let server = sample.server.expect("this process listens");
    assert_eq!((server.figures.processes, server.listeners[0].waiting), (1, 1));
    assert!(server.figures.descriptors > 5 && server.figures.resident_kib > 100.0, "{server:?}");
    assert!(server.figures.cpu_ms() >= 150, "it was busy: {server:?}");
    assert!(server.busiest[0].cpu_us >= 150_000, "{server:?}");
    drop((clients, accepted));
}

#[test]
fn a_server_that_comes_and_goes_is_followed() {
    // A port that the kernel gives to nobody who asks for any.
    let first = 10_000 + (std::process::id() % 10_000) as u16;
    let port = (first..32_000).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap();
    let mut sampler = Sampler::new(Some(ServerName::Port(port)), Clock::start(), Duration::from_secs(1));
    sampler.sample();
    assert_eq!(sampler.sample().unwrap().server, None);
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    // The look-up is spaced out by its cost.
    wait_for(|| "the server was not found".to_owned(), || sampler.sample().unwrap().server);
    drop(listener);
    let gone = sampler.sample().unwrap().server.expect("the process still runs");
    assert_eq!(gone.listeners, []);
}

#[test]
fn an_observation_can_be_cut_at_an_event() {
    let settings = Settings { interval: Duration::from_secs(3600), ..Settings::default() };
    let observer = LocalObserver::start(&settings).unwrap();
    let samples = observer.samples();
    assert!(samples.since(0).is_empty());
    for cut in 1..=3 {
        let now = samples.unix_s();
        samples.cut();
        assert!(samples.wait_for(now, PATIENCE));
        assert_eq!(samples.since(0).len(), cut);
    }
    let all = samples.since(0);
    assert!((all[0].unix_s - all[1].begin_s()).abs() < 1e-6, "intervals follow one another without a gap");
    assert_eq!(samples.since(2), all[2..]);
    assert!(!samples.wait_for(samples.unix_s() + 1e6, Duration::from_millis(1)));
}

#[test]
fn an_observer_keeps_a_bounded_number_of_samples() {
    let settings = Settings { interval: Duration::from_millis(1), kept_max: 5, ..Settings::default() };
    let observer = LocalObserver::start(&settings).unwrap();
    let samples = observer.samples();
    while samples.since(0).last().is_none_or(|sample| sample.number < 12) {
        samples.wait_for(samples.unix_s(), PATIENCE);
    }
    assert!(samples.since(0).len() <= 5);
}

#[test]
fn the_cost_counts_the_observer_alone() {
    let mut sampler = Sampler::new(None, Clock::start(), Duration::from_secs(1));
    sampler.sample();
    std::thread::scope(|scope| drop(scope.spawn(|| burn(Duration::from_millis(300)))));
    let sample = sampler.sample().unwrap();
    assert!(sample.cost_us > 0 && sample.cost_us < 200_000, "{}", sample.cost_us);
}
