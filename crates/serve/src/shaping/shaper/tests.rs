//! Downloads without a server: the bytes granted to each connection, in virtual time.

use proptest::prelude::*;

use super::*;

const START: Instant = Instant::from_ns(1_234_567_890);
const SECOND_NS: u64 = 1_000_000_000;

/// A client's connection that always has something to send.
struct Download {
    loop_index: usize,
    socket: SocketId,
    mount: u16,
    shaping_state: Box<ShapingState>,
    bytes: u64,
    sendings: u32,
}

/// Loops with the same limits, and downloads that go on for ever.
struct World {
    loops: Vec<Shaper>,
    downloads: Vec<Download>,
    now: Instant,
}

impl World {
    fn new(loops: usize, limits: &Limits, bandwidth: Bandwidth, mounts: &[u64]) -> Self {
        let shared = Arc::new(SharedRateLimits::new(limits, bandwidth, mounts.iter().copied(), START));
        let loops = (0..loops).map(|_| Shaper::new(Arc::clone(&shared), START)).collect();
        Self { loops, downloads: Vec::new(), now: START }
    }

    /// Starts a download of a client.
    fn start(&mut self, loop_index: usize, client: u8, mount: u16) {
        let shaping_state = self.loops[loop_index].enter(Some([192, 0, 2, client].into()), self.now).unwrap();
        let socket = SocketId::from_bits(self.downloads.len() as u64);
        let download = Download { loop_index, socket, mount, shaping_state, bytes: 0, sendings: 0 };
        self.downloads.push(download);
        self.go_on(self.downloads.len() - 1);
    }

    fn go_on(&mut self, index: usize) {
        let Download { loop_index, socket, mount, shaping_state, bytes, sendings } = &mut self.downloads[index];
        while let Some(sent) = self.loops[*loop_index].ask(shaping_state, *socket, *mount, u64::MAX, self.now) {
            *bytes += sent;
            *sendings += 1;
        }
    }

    /// Lets time pass, with wake-ups that are late now and then.
    fn run(&mut self, ns: u64) {
        let end = self.now.plus_ns(ns);
        let mut wakes = 0u64;
        while self.now < end {
            for loop_index in 0..self.loops.len() {
                while let Some((socket, scope)) = self.loops[loop_index].pop(self.now) {
                    let index = socket.index();
                    self.downloads[index].shaping_state.come_up(scope);
                    self.go_on(index);
                }
            }
            wakes += 1;
            let late_ns = if wakes.is_multiple_of(7) { 9_000_000 } else { 0 };
            let due = self.loops.iter().filter_map(|shaper| shaper.next_due(self.now)).min();
            self.now = due.unwrap_or(end).max(self.now.plus_ns(1)).plus_ns(late_ns).min(end);
        }
    }

    fn bytes(&self) -> Vec<u64> {
        self.downloads.iter().map(|download| download.bytes).collect()
    }
}

#[track_caller]
fn check_near(bytes: u64, expected: u64, percent: u64, context: &str) {
    assert!(bytes.abs_diff(expected) * 100 <= expected * percent, "{context}: {bytes} instead of {expected}");
}

#[test]
fn each_connection_has_its_rate() {
    for rate in [3600, 4200, 125_000, 125_000_000, 12_500_000_000] {
        for count in [1u64, 10, 3000] {
            let seconds = if rate > 1_000_000 { 1 } else { 300 };
            if rate * count > 200_000_000_000 {
                continue;
            }
            let bandwidth = Bandwidth { per_connection: rate, ..Bandwidth::default() };
            let mut world = World::new(1, &Limits::default(), bandwidth, &[]);
            (0..count).for_each(|_| world.start(0, 1, 0));
            world.run(seconds * SECOND_NS);
            for bytes in world.bytes() {
                let context = format!("{count} at {rate} B/s for {seconds} s");
                check_near(bytes, rate * seconds, 2, &context);
            }
        }
    }
}

#[test]
fn many_modems_are_sent_to_seldom_and_few_smoothly() {
    let bandwidth = Bandwidth { per_connection: 4200, ..Bandwidth::default() };
    for (count, sendings_per_s) in [(1u32, 3.0), (30_000, 0.34)] {
        let mut world = World::new(1, &Limits::default(), bandwidth, &[]);
        (0..count).for_each(|_| world.start(0, 1, 0));
        world.run(60 * SECOND_NS);
        let sendings: u32 = world.downloads.iter().map(|download| download.sendings).sum();
        let rate = f64::from(sendings) / f64::from(count) / 60.0;
        assert!((rate / sendings_per_s - 1.0).abs() < 0.15, "{count}: {rate} sendings a second each");
    }
}

#[test]
fn a_client_with_many_connections_gets_no_more_than_one_with_one() {
    for (loops, mounts) in [(1, &[][..]), (2, &[]), (1, &[1_000_000])] {
        let total = if mounts.is_empty() { 1_000_000 } else { 0 };
        let bandwidth = Bandwidth { total, ..Bandwidth::default() };
        let mut world = World::new(loops, &Limits::default(), bandwidth, mounts);
        world.start(0, 1, 0);
        (0..100).for_each(|number| world.start(number % loops, 2, 0));
        world.start(loops - 1, 3, 0);
        world.run(300 * SECOND_NS);
        let bytes = world.bytes();
        let many: u64 = bytes[1..101].iter().sum();
        for (client, bytes) in [(1, bytes[0]), (2, many), (3, bytes[101])] {
            check_near(bytes, 100_000_000, 5, &format!("client {client} on {loops} loops"));
        }
        check_near(bytes.iter().sum(), 300_000_000, 1, "all");
    }
}

#[test]
fn the_connections_of_a_client_share_its_rate() {
    for loops in [1, 2] {
        let bandwidth = Bandwidth { per_client: 100_000, ..Bandwidth::default() };
        let mut world = World::new(loops, &Limits::default(), bandwidth, &[]);
        (0..8).for_each(|number| world.start(number % loops, 1, 0));
        world.start(0, 2, 0);
        world.run(100 * SECOND_NS);
        let bytes = world.bytes();
        for bytes in &bytes[..8] {
            check_near(*bytes, 1_250_000, 5, &format!("on {loops} loops"));
        }
        check_near(bytes[8], 10_000_000, 2, "the other client");
    }
}

#[test]
fn the_slowest_of_all_rates_decides() {
    #[track_caller]
    fn check(total: u64, per_client: u64, per_connection: u64, mount: u64, expected: [u64; 3]) {
        let bandwidth = Bandwidth { total, per_client, per_connection };
        let mut world = World::new(1, &Limits::default(), bandwidth, &[mount, 0]);
        // Two of one client, one of them at the mount that has a rate; one of another there.
        world.start(0, 1, 0);
        world.start(0, 1, 1);
        world.start(0, 2, 0);
        world.run(100 * SECOND_NS);
        for (bytes, expected) in world.bytes().into_iter().zip(expected) {
            check_near(bytes, expected * 100, 4, &format!("{total} {per_client} {per_connection} {mount}"));
        }
    }
    check(0, 0, 10_000, 0, [10_000; 3]);
    check(0, 10_000, 8_000, 0, [5_000, 5_000, 8_000]);
    check(12_000, 0, 0, 0, [3_000, 3_000, 6_000]);
    check(0, 0, 50_000, 20_000, [10_000, 50_000, 10_000]);
    check(100_000, 0, 50_000, 20_000, [10_000, 50_000, 10_000]);
}

#[test]
fn a_client_that_has_left_delays_no_other() {
    let bandwidth = Bandwidth { total: 100_000, per_client: 50_000, per_connection: 40_000 };
    let mut world = World::new(1, &Limits::default(), bandwidth, &[]);
    (0..50).for_each(|client| world.start(0, client, 0));
    world.run(SECOND_NS);
    for index in 1..50 {
        let now = world.now;
        world.loops[0].leave(&world.downloads[index].shaping_state, now);
    }
    // Entries of closed connections reach the front of their queues and are skipped.
    let shaper = &mut world.loops[0];
    let end = world.now.plus_ns(10 * SECOND_NS);
    let mut bytes = 0;
    while world.now < end {
        while let Some((socket, scope)) = shaper.pop(world.now) {
            if socket.index() == 0 {
                let download = &mut world.downloads[0];
                download.shaping_state.come_up(scope);
                while let Some(sent) = shaper.ask(&mut download.shaping_state, socket, 0, u64::MAX, world.now) {
                    bytes += sent;
                }
            }
        }
        world.now = shaper.next_due(world.now).unwrap_or(end).max(world.now.plus_ns(1));
    }
    check_near(bytes, 400_000, 5, "the last one");
    assert!(shaper.waiting <= 1, "{} wait", shaper.waiting);
}

#[test]
fn a_waiting_queue_is_armed_once() {
    let bandwidth = Bandwidth { total: 1_000_000, per_client: 600_000, per_connection: 0 };
    let mut world = World::new(1, &Limits::default(), bandwidth, &[900_000]);
    (0..100).for_each(|number| world.start(0, number % 7, 0));
    world.run(60 * SECOND_NS);
    let shaper = &world.loops[0];
    let lines = 7 + 2;
    assert!(shaper.wheel.len() + shaper.open.len() <= lines, "{} {}", shaper.wheel.len(), shaper.open.len());
    assert_eq!(shaper.waiting, 100);
}

#[test]
fn stages_survive_the_trip_through_the_wheel() {
    let socket = SocketId::from_bits((1 << 56) - 1);
    for scope in
        [RateScope::Connection(socket), RateScope::Client(u32::MAX), RateScope::Mount(u16::MAX), RateScope::Total]
    {
        assert_eq!(RateScope::of(scope.to_bits()), scope);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Any rates, any connections of any clients on any loops: no rate is exceeded by more than its
    /// credit and what each connection may be given at once, and none lies idle.
    #[test]
    fn no_rate_is_exceeded_and_none_lies_idle(
        rates in prop::array::uniform4(prop_oneof![Just(0u64), 3600u64..1_000_000]),
        downloads in prop::collection::vec((0usize..2, 1u8..6, 0u16..2), 1..40),
    ) {
        const SECONDS: u64 = 60;
        let [total, per_client, per_connection, mount] = rates;
        prop_assume!(rates.iter().any(|&rate| rate > 0) && (total > 0 || per_client > 0 || per_connection > 0));
        let bandwidth = Bandwidth { total, per_client, per_connection };
        let mut world = World::new(2, &Limits::default(), bandwidth, &[mount, 0]);
        for &(loop_index, client, mount) in &downloads {
            world.start(loop_index, client, mount);
        }
        world.run(SECONDS * SECOND_NS);
        let bytes = world.bytes();
        let at_once = downloads.len() as u64 * (TURN_BYTES_MIN + 100_000);
        // The credit, and what each loop has reserved.
        let bound = |rate: u64| rate * SECONDS + rate * 65 / 100 + at_once;
        let sum = |is_in: &dyn Fn(&(usize, u8, u16)) -> bool| -> u64 {
            downloads.iter().zip(&bytes).filter(|(download, _)| is_in(download)).map(|(_, bytes)| bytes).sum()
        };
        if total > 0 {
            prop_assert!(sum(&|_| true) <= bound(total));
        }
        if mount > 0 {
            prop_assert!(sum(&|download| download.2 == 0) <= bound(mount));
        }
        for client in 1..6 {
            let sum = sum(&|download| download.1 == client);
            prop_assert!(per_client == 0 || sum <= bound(per_client));
        }
        for &bytes in &bytes {
            prop_assert!(per_connection == 0 || bytes <= per_connection * SECONDS + per_connection + TURN_BYTES_MIN);
        }
        // The whole of a rate is used if it is the only one.
        if total > 0 && per_client == 0 && per_connection == 0 && mount == 0 {
            prop_assert!(sum(&|_| true) >= total * SECONDS * 97 / 100);
        }
    }
}
