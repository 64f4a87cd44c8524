//! Limits of the server: rates, slow readers, and connection slots.

use super::*;

const GET_LARGE: &str = "GET /large HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
const GET_A: &str = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";

fn source(number: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 1, number).into()
}

/// Runs clients that come at their times, in milliseconds, from their addresses.
fn arrive(
    config: SimConfig,
    limits: &Limits,
    rates: (Bandwidth, u64),
    clients: Vec<(u64, u8, Vec<Step>)>,
) -> (Vec<Outcome>, Totals) {
    let folder = folder();
    let mut driver = Sim::new(config);
    let start = driver.now();
    let (mut world, published) = world_with(&mut driver, limits, rates, folder.path(), Vec::new());
    let newcomers =
        clients.into_iter().map(|(ms, number, steps)| (start.plus_ns(ms * 1_000_000), source(number), steps));
    world.newcomers = newcomers.collect();
    run(&mut driver, &mut world).unwrap();
    (world.outcomes(start), published[0].totals())
}

fn repeat(times: usize, steps: &[Step]) -> Vec<Step> {
    std::iter::repeat_n(steps, times).flatten().cloned().collect()
}

fn statuses(outcome: &Outcome) -> Vec<u16> {
    naive::take_all(&outcome.received, &["GET"]).iter().map(|response| response.status).collect()
}

#[track_caller]
fn check_seconds(outcome: &Outcome, expected: f64, tolerance: f64) {
    let lasted = outcome.lasted.as_secs_f64();
    assert!((lasted / expected - 1.0).abs() <= tolerance, "lasted {lasted} s instead of {expected} s");
}

#[test]
fn each_download_has_its_rate_and_small_requests_beside_them_do_not_wait() {
    for (rate, downloads) in [(4200, 300), (100_000, 30), (10_000_000, 3)] {
        let bandwidth = Bandwidth { per_connection: rate, ..Bandwidth::default() };
        let mut clients: Vec<_> = (0..downloads).map(|number| (number, 1, vec![send(GET_LARGE)])).collect();
        let ask = [send(GET_A), Step::Rest(SECOND_NS / 10)];
        clients.push((500, 2, [repeat(10, &ask), vec![Step::Finish]].concat()));
        let (outcomes, _) = arrive(SimConfig::calm(1), &Limits::default(), (bandwidth, 0), clients);
        // The last grant is sent without a wait.
        let turn_bytes = (rate / 10).clamp(12_600, 512 << 10) as f64;
        let seconds = (1_500_300.0 - turn_bytes) / rate as f64 * 0.98..=1_500_300.0 / rate as f64 * 1.02;
        for (number, outcome) in outcomes[..downloads as usize].iter().enumerate() {
            assert!(naive::take_all(&outcome.received, &["GET"])[0].body == large());
            let lasted = outcome.lasted.as_secs_f64() - number as f64 / 1000.0;
            assert!(seconds.contains(&lasted), "{rate} B/s: {lasted} s instead of {seconds:?}");
        }
        assert_eq!(statuses(&outcomes[downloads as usize]), [200; 10]);
        check_seconds(&outcomes[downloads as usize], 1.5, 0.01);
    }
}

#[test]
fn paced_bytes_are_the_same_over_a_rough_network() {
    for seed in 0..5 {
        let bandwidth = Bandwidth { total: 400_000, per_client: 300_000, per_connection: 200_000 };
        let requests = format!("{}{}{PIPELINE}{GET_LARGE}", GET_A.repeat(20), "GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
        let clients = (0..6).map(|number| (100, number % 3, vec![send(&requests)])).collect();
        let (outcomes, totals) = arrive(SimConfig::rough(seed), &Limits::default(), (bandwidth, 500_000), clients);
        for outcome in &outcomes {
            let methods = [&["GET"; 21][..], PIPELINE_METHODS, &["GET"]].concat();
            let responses = naive::take_all(&outcome.received, &methods);
            assert_eq!(responses.len(), 27, "seed {seed}");
            assert!(responses[20].body == large() && responses[26].body == large(), "seed {seed}");
            assert!(outcome.orderly);
        }
        let received: usize = outcomes.iter().map(|outcome| outcome.received.len()).sum();
        assert_eq!(totals.bytes, received as u64, "seed {seed}");
        let last = outcomes.iter().map(|outcome| outcome.lasted.as_secs_f64()).fold(0.0, f64::max);
        assert!((last / (received as f64 / 400_000.0) - 1.0).abs() < 0.03, "seed {seed}: {last} s for {received}");
    }
}

#[test]
fn bodies_from_memory_and_small_responses_pay_too() {
    let bandwidth = Bandwidth { per_connection: 4200, ..Bandwidth::default() };
    let write = Step::Do(|folder| fs::write(folder.join("medium"), vec![b'm'; 60_000]).unwrap());
    let medium = "GET /medium HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    let small = format!("{}GET /a HTTP/1.0\r\n\r\n", GET_A.repeat(99));
    let clients = vec![(0, 1, vec![write, send(medium)]), (0, 2, vec![send(&small)])];
    let (outcomes, _) = arrive(SimConfig::calm(1), &Limits::default(), (bandwidth, 0), clients);
    for outcome in &outcomes {
        check_seconds(outcome, outcome.received.len() as f64 / 4200.0, 0.03);
    }
    assert_eq!(statuses(&outcomes[1]), [200; 100]);
}

#[test]
fn clients_share_a_rate_whatever_their_connections() {
    let bandwidth = Bandwidth { total: 100_000, ..Bandwidth::default() };
    let alone = (0, 1, vec![send(GET_LARGE)]);
    let many = (0..10).map(|_| (0, 2, vec![send(GET_LARGE)]));
    let (outcomes, _) =
        arrive(SimConfig::calm(1), &Limits::default(), (bandwidth, 0), std::iter::once(alone).chain(many).collect());
    check_seconds(&outcomes[0], 30.0, 0.05);
    for outcome in &outcomes[1..] {
        check_seconds(outcome, 165.0, 0.05);
    }
}

#[test]
fn draining_lets_paced_downloads_end() {
    let bandwidth = Bandwidth { per_connection: 100_000, ..Bandwidth::default() };
    let clients = vec![(0, 1, vec![send(GET_LARGE)]), (1000, 1, vec![Step::Drain(60 * SECOND_NS)])];
    let (outcomes, totals) = arrive(SimConfig::calm(1), &Limits::default(), (bandwidth, 0), clients);
    assert!(naive::take_all(&outcomes[0].received, &["GET"])[0].body == large());
    assert_eq!(totals.open, 0);
}

#[test]
fn limits_that_change_hold_for_downloads_under_way() {
    let per_connection = |bytes_per_s| Bandwidth { per_connection: bytes_per_s, ..Bandwidth::default() };
    let per_client = |bytes_per_s| Bandwidth { per_client: bytes_per_s, ..Bandwidth::default() };
    // The rate limits of the first second, those from then on, and the time that the two downloads
    // of a client take.
    for (first, then, seconds) in [
        (per_connection(100_000), per_connection(700_000), 3.0),
        (per_connection(100_000), per_client(700_000), 5.0),
        (per_connection(100_000), Bandwidth::default(), 1.0),
        (Bandwidth { total: 200_000, ..Bandwidth::default() }, per_connection(200_000), 8.0),
    ] {
        let folder = folder();
        let mut driver = Sim::new(SimConfig::calm(1));
        let start = driver.now();
        let (mut world, published) =
            world_with(&mut driver, &Limits::default(), (first, 0), folder.path(), vec![vec![send(GET_LARGE)]; 2]);
        let limits = SharedRateLimits::new(&Limits::default(), then, [0], start.plus_ns(SECOND_NS));
        world.changes.push_back((start.plus_ns(SECOND_NS), Arc::new(limits)));
        run(&mut driver, &mut world).unwrap();
        assert_eq!(published[0].totals().open, 0);
        for outcome in world.outcomes(start) {
            assert!(outcome.received.ends_with(&large()));
            check_seconds(&outcome, seconds, 0.06);
        }
    }
}

/// Runs a client that takes so many bytes a second at most, and does other things beside. Whether
/// it got all of it, and after how long its connection was over.
fn take(bytes_per_s: u64, steps: Vec<Step>) -> (bool, f64) {
    let mut config = SimConfig::calm(1);
    config.bandwidth = Some(bytes_per_s);
    // Bytes that have left a buffer of this network arrive at once.
    config.socket_buffer_bytes = (bytes_per_s as usize * 8).min(64 << 10);
    let steps = [vec![send(GET_LARGE)], steps].concat();
    let (outcomes, _) = arrive(config, &Limits::default(), (Bandwidth::default(), 0), vec![(0, 1, steps)]);
    (outcomes[0].received.ends_with(&large()), outcomes[0].lasted.as_secs_f64())
}

#[test]
fn modems_are_served_and_who_draws_a_download_out_is_not() {
    let stalls = |ns| repeat(10, &[Step::Pause, Step::Rest(ns), Step::Resume, Step::Rest(20 * SECOND_NS)]);
    // 28.8 kbit/s; that with stalls of some seconds; that shared by seven.
    assert!(take(3600, vec![]).0);
    assert!(take(3600, stalls(8 * SECOND_NS)).0);
    assert!(take(3600, stalls(30 * SECOND_NS)).0);
    assert!(take(520, vec![]).0);
    for bytes_per_s in [20, 100] {
        let (is_whole, lasted) = take(bytes_per_s, vec![]);
        assert!(!is_whole && (60.0..=90.0).contains(&lasted), "{bytes_per_s} B/s: {lasted} s");
    }
    // Somewhat too slow is tolerated somewhat longer.
    let (is_whole, lasted) = take(300, vec![]);
    assert!(!is_whole && (120.0..=200.0).contains(&lasted), "{lasted} s");
    // The most that can be had by turning up now and then.
    let (is_whole, lasted) = take(3600, repeat(100, &[Step::Pause, Step::Rest(70 * SECOND_NS), Step::Resume]));
    assert!(!is_whole && lasted <= 150.0, "{lasted} s");
}

#[test]
fn waiting_for_our_own_rate_is_not_held_against_a_client() {
    // Slower than what a client has to take.
    let bandwidth = Bandwidth { per_connection: 100, ..Bandwidth::default() };
    let (outcomes, _) = arrive(
        SimConfig::calm(1),
        &Limits::default(),
        (bandwidth, 0),
        vec![(0, 1, vec![send("GET /large HTTP/1.0\r\nRange: bytes=0-29999\r\n\r\n")])],
    );
    assert_eq!(naive::take_all(&outcomes[0].received, &["GET"])[0].body, large()[..30_000]);
}

#[test]
fn a_mute_client_of_a_paced_download_is_given_up() {
    let bandwidth = Bandwidth { per_connection: 4200, ..Bandwidth::default() };
    let clients = vec![(0, 1, vec![send(GET_LARGE), Step::Rest(10 * SECOND_NS), Step::Pause])];
    let mut config = SimConfig::calm(1);
    config.socket_buffer_bytes = 2 << 20;
    let folder = folder();
    let mut driver = Sim::new(config);
    let (mut world, published) = world_with(&mut driver, &Limits::default(), (bandwidth, 0), folder.path(), Vec::new());
    world.newcomers = clients.into_iter().map(|(_, number, steps)| (driver.now(), source(number), steps)).collect();
    world.end = Some(driver.now().plus_ns(80 * SECOND_NS));
    run(&mut driver, &mut world).unwrap();
    assert_eq!(published[0].totals().open, 0);
}

fn places(connections_max: usize) -> Limits {
    Limits { connections_max, ..Limits::default() }
}

const NO_RATES: (Bandwidth, u64) = (Bandwidth { total: 0, per_client: 0, per_connection: 0 }, 0);

#[test]
fn the_idlest_makes_room() {
    let come = |ms, rest_s| {
        let used_again = vec![send(GET_A), Step::Rest(rest_s * SECOND_NS), send(GET_A)];
        (ms, 1, used_again)
    };
    // The first two are used once more before the table is full; the third is the idlest then, and
    // the first the next.
    let clients = vec![come(0, 4), come(1000, 8), come(2000, 100), come(10_000, 1), come(12_000, 1)];
    // Long enough not to matter, though it is less when the table is full.
    let limits = Limits { idle_time: Duration::from_secs(10_000), ..places(3) };
    let (outcomes, totals) = arrive(SimConfig::calm(1), &limits, NO_RATES, clients);
    assert_eq!(outcomes[2].lasted.as_millis(), 10_000);
    assert_eq!(outcomes[0].lasted.as_millis(), 12_000);
    assert_eq!(totals.evicted, 2);
    assert_eq!(totals.refused, 0);
    assert!(outcomes.iter().all(|outcome| outcome.orderly));
}

#[test]
fn connections_without_a_request_are_evicted_after_idle_ones() {
    let mute = |ms| (ms, 1, vec![]);
    // A client that arrives when all slots are taken gets one with a complete request; with two
    // requests, it is not the first candidate for eviction.
    let used = |ms| (ms, 1, vec![send(&GET_A.repeat(2))]);
    let clients = vec![mute(0), mute(100), (200, 1, vec![send(GET_A)]), used(3000), used(4000), used(4100)];
    let (outcomes, totals) = arrive(SimConfig::calm(1), &places(3), NO_RATES, clients);
    let ends: Vec<u128> = outcomes.iter().map(|outcome| outcome.lasted.as_millis()).collect();
    assert_eq!(ends[..3], [4000, 4100, 3000]);
    assert_eq!(totals.evicted, 3);
}

#[test]
fn downloads_under_way_are_not_cut_off_for_newcomers() {
    let mut config = SimConfig::calm(1);
    config.bandwidth = Some(100_000);
    let download = |ms| (ms, 1, vec![send(GET_LARGE)]);
    let newcomer = |ms| (ms, 2, vec![send(GET_A)]);
    let clients = vec![download(0), download(1), newcomer(5000), newcomer(5001), newcomer(20_000)];
    let (outcomes, totals) = arrive(config, &places(2), NO_RATES, clients);
    for outcome in &outcomes[..2] {
        assert!(outcome.received.ends_with(&large()));
    }
    for outcome in &outcomes[2..4] {
        let responses = naive::take_all(&outcome.received, &["GET"]);
        assert_eq!(responses[0].status, 503);
        assert_eq!(responses[0].field("retry-after"), Some("5"));
        assert_eq!(responses[0].field("connection"), Some("close"));
        assert!(outcome.orderly && outcome.lasted.as_millis() < 5100);
    }
    assert_eq!(statuses(&outcomes[4]), [200]);
    assert_eq!(totals.refused, 2);
}

#[test]
fn a_client_that_takes_hardly_anything_is_evicted_before_any_is_refused() {
    let mut config = SimConfig::calm(1);
    config.bandwidth = Some(100_000);
    config.socket_buffer_bytes = 64 << 10;
    let mute = |ms| (ms, 1, vec![Step::Pause, send(GET_LARGE)]);
    let clients = vec![
        mute(0),
        (1, 2, vec![send(GET_LARGE)]),
        mute(2),
        (10_000, 3, vec![send(GET_A)]),
        (40_000, 3, vec![send(GET_A)]),
    ];
    let (outcomes, totals) = arrive(config, &places(3), NO_RATES, clients);
    assert!(outcomes[1].received.ends_with(&large()));
    // All slots are taken, two of them by idle clients: a small response needs no slot.
    assert_eq!(statuses(&outcomes[3]), [200]);
    assert_eq!(naive::take_all(&outcomes[3].received, &["GET"])[0].field("connection"), Some("close"));
    assert_eq!(statuses(&outcomes[4]), [200]);
    assert_eq!((totals.evicted, totals.refused), (0, 0));
}

#[test]
fn a_download_that_waits_for_a_place_in_vain_is_told_so() {
    let config = SimConfig { bandwidth: Some(100_000), socket_buffer_bytes: 64 << 10, ..SimConfig::calm(1) };
    // It reads enough, with pauses: the server cannot tell whether it is an attack.
    let turns = repeat(100, &[Step::Rest(3 * SECOND_NS), Step::Resume, Step::Rest(SECOND_NS / 20), Step::Pause]);
    let clients = vec![
        (0, 1, [vec![Step::Pause, send(GET_LARGE)], turns].concat()),
        // The first client without a slot starts the check of the others, whose progress is not
        // known yet.
        (4200, 2, vec![send(GET_A)]),
        (5000, 3, vec![send(GET_LARGE)]),
        (6000, 4, vec![send(GET_A)]),
    ];
    let (outcomes, totals) = arrive(config, &places(1), NO_RATES, clients);
    assert!(outcomes[0].received.ends_with(&large()));
    assert_eq!(outcomes[1..].iter().map(statuses).collect::<Vec<_>>(), [[503], [503], [200]]);
    let waited = outcomes[2].lasted.as_secs_f64() - 5.0;
    assert!(outcomes[2].orderly && (30.0..36.0).contains(&waited), "{waited} s");
    assert_eq!((totals.evicted, totals.refused), (0, 2));
}

#[test]
fn a_flood_of_newcomers_is_refused_at_a_bounded_cost() {
    let mut config = SimConfig::calm(1);
    config.bandwidth = Some(100_000);
    let flood = (0..1000).map(|number| (1000 + number / 100, 2, vec![send(GET_A)]));
    let clients = std::iter::once((0, 1, vec![send(GET_LARGE)])).chain(flood);
    let (outcomes, totals) = arrive(config, &places(1), NO_RATES, clients.collect());
    assert!(outcomes[0].received.ends_with(&large()));
    assert_eq!(totals.refused, 1000);
    let told = outcomes[1..].iter().filter(|outcome| !outcome.received.is_empty()).count();
    assert!(told >= crate::shaping::admission::REFUSED_MAX, "{told}");
}

#[test]
fn a_client_has_so_many_connections() {
    let limits = Limits { connections_per_client_max: 2, ..Limits::default() };
    let stay = |ms, number| (ms, number, vec![send(GET_A), Step::Rest(5 * SECOND_NS), Step::Finish]);
    let clients = vec![stay(0, 1), stay(10, 1), stay(20, 1), stay(30, 2), stay(6000, 1)];
    let (outcomes, totals) = arrive(SimConfig::calm(1), &limits, NO_RATES, clients);
    let statuses: Vec<_> = outcomes.iter().map(statuses).collect();
    assert_eq!(statuses, [[200], [200], [503], [200], [200]]);
    assert_eq!(totals.refused, 1);
}

#[test]
fn idle_connections_stay_shorter_when_the_table_fills() {
    let idle = |number: u64| (number, 1, vec![send(GET_A)]);
    for (connections, expected) in [(5, 75.0), (7, 47.0), (9, 19.0)] {
        let (outcomes, _) = arrive(SimConfig::calm(1), &places(10), NO_RATES, (0..connections).map(idle).collect());
        let first = outcomes.iter().map(|outcome| outcome.lasted.as_secs_f64()).fold(f64::MAX, f64::min);
        // Each is looked at every five seconds.
        assert!((expected - 0.1..=expected + 5.1).contains(&first), "{connections}: {first} s");
        let last = outcomes.iter().map(|outcome| outcome.lasted.as_secs_f64()).fold(0.0, f64::max);
        assert!(last <= 75.2, "{last}");
    }
}

#[test]
fn a_connection_has_so_many_requests() {
    let limits = Limits { requests_per_connection_max: 3, ..Limits::default() };
    let (outcomes, _) = arrive(SimConfig::calm(1), &limits, NO_RATES, vec![(0, 1, vec![send(&GET_A.repeat(5))])]);
    let responses = naive::take_all(&outcomes[0].received, &["GET"]);
    let closes: Vec<_> = responses.iter().map(|response| response.field("connection")).collect();
    assert_eq!(closes, [None, None, Some("close")]);
    assert!(outcomes[0].orderly);
}

#[test]
fn unsent_bytes_are_bounded_for_slow_clients_and_not_for_fast_ones() {
    for (bytes_per_s, bounds_lifted) in [(10_000_000, 1), (500_000, 0)] {
        let config = SimConfig { bandwidth: Some(bytes_per_s), socket_buffer_bytes: 64 << 10, ..SimConfig::calm(1) };
        let folder = folder();
        let mut driver = Sim::new(config);
        let (mut world, _) = world(&mut driver, &Limits::default(), folder.path(), vec![vec![send(GET_LARGE)]]);
        run(&mut driver, &mut world).unwrap();
        assert!(naive::take_all(&world.clients[0].received, &["GET"])[0].body == large());
        assert_eq!(driver.bounds_lifted(), bounds_lifted);
    }
}
