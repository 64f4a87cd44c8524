//! The queues between the network and a server: SYNs, handshakes, connections that wait to be
//! accepted, packets that wait for a CPU.

use thalweg_units::display::{self, count};

use crate::finding::{Finding, Level};
use crate::host::Host;
use crate::load::PlannedLoad;

/// The kernel's default since Linux 5.4.
const LISTEN_QUEUE_DEFAULT: u64 = 4096;

/// A pause of a busy server that is no rarity, in seconds.
const PAUSE_S: f64 = 0.05;

/// How long packets may wait for their CPU, in seconds.
const PACKET_PAUSE_S: f64 = 0.005;

/// Connections that a load thread has in the making at once, at most.
const OPENING_MAX: u64 = 128;

/// Connections that come at once, or within a pause of the server.
fn burst(load: &PlannedLoad) -> f64 {
    let opening = if load.measures() { OPENING_MAX * load.cpus.len().max(1) as u64 } else { u64::MAX };
    let at_once = if load.opened_per_s > 0.0 { 0 } else { load.connections.min(opening) };
    (at_once as f64).max(load.opened_per_s * PAUSE_S)
}

/// `net.core.somaxconn`: connections that wait to be accepted, per listening socket.
pub(super) fn listen_queue(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    let Some(queue) = host.sysctl_number("net.core.somaxconn").filter(|_| load.serves()) else { return Vec::new() };
    let is = format!("net.core.somaxconn is {}", count(queue));
    if queue >= LISTEN_QUEUE_DEFAULT || burst(load) <= queue as f64 {
        return vec![Finding::ok(is)];
    }
    let spoils = if load.opened_per_s > 0.0 {
        let pause = queue as f64 / load.opened_per_s;
        format!(
            "at {} new connections, a pause of {} fills the server's queue; the next clients wait 1 s until their SYN \
             is sent again",
            display::rate(load.opened_per_s),
            display::time((pause * 1e9) as u64)
        )
    } else {
        format!(
            "of {} connections that are opened at once, those beyond {} wait 1 s until their SYN is sent again",
            count(burst(load) as u64),
            count(queue)
        )
    };
    vec![Finding::of(Level::Warning, is, spoils).set("net.core.somaxconn", LISTEN_QUEUE_DEFAULT)]
}

/// `net.ipv4.tcp_max_syn_backlog`: handshakes in progress, per listening socket.
pub(super) fn syn_backlog(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    let Some(queue) = host.sysctl_number("net.ipv4.tcp_max_syn_backlog").filter(|_| load.serves()) else {
        return Vec::new();
    };
    let is = format!("net.ipv4.tcp_max_syn_backlog is {}", count(queue));
    // On loopback a handshake is complete before the next packet comes.
    if burst(load) <= queue as f64 || load.over_loopback() {
        return vec![Finding::ok(is)];
    }
    let cookies = host.sysctl_number("net.ipv4.tcp_syncookies").unwrap_or(1) > 0;
    let (level, effect) = if cookies {
        (Level::Hint, "further ones are answered with SYN cookies, and the kernel reports a flood")
    } else {
        (Level::Warning, "further SYNs are dropped, and sent again after 1 s")
    };
    let spoils = format!("{} clients at once exceed it: {effect}", count(burst(load) as u64));
    vec![
        Finding::of(level, is, spoils)
            .set("net.ipv4.tcp_max_syn_backlog", (burst(load) as u64).next_power_of_two().min(65_536)),
    ]
}

/// `net.ipv4.tcp_syncookies`.
pub(super) fn syn_cookies(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    let Some(cookies) = host.sysctl_number("net.ipv4.tcp_syncookies").filter(|_| load.serves()) else {
        return Vec::new();
    };
    let is = format!("net.ipv4.tcp_syncookies is {cookies}");
    let (level, spoils) = match cookies {
        1 => return vec![Finding::ok(is)],
        0 if load.measures() => return vec![Finding::ok(is)],
        0 => (Level::Warning, "a flood of SYNs from forged addresses locks out all new clients"),
        _ => (Level::Hint, "every connection goes without the handshake queue: a mode for tests, slower for clients"),
    };
    vec![Finding::of(level, is, spoils).set("net.ipv4.tcp_syncookies", 1)]
}

/// `net.core.netdev_max_backlog`: packets that wait for a CPU, on loopback and with RPS.
pub(super) fn packet_backlog(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    let Some(queue) = host.sysctl_number("net.core.netdev_max_backlog") else { return Vec::new() };
    let is = format!("net.core.netdev_max_backlog is {}", count(queue));
    let dropped = dropped_packets(host);
    let cpus = load.cpus.len().max(1) as f64;
    // A request and its response are a packet each way, at the least, and one acknowledges another.
    let packets_per_s = load.requests_per_s.unwrap_or(0.0) * 2.0 / cpus;
    if dropped > 0 {
        let spoils =
            format!("{} packets were dropped since the start of this host because the queue was full", count(dropped));
        return vec![Finding::of(Level::Hint, is, spoils).set("net.core.netdev_max_backlog", (queue * 4).max(4096))];
    }
    if load.over_loopback() && packets_per_s * PACKET_PAUSE_S > queue as f64 {
        let pause = display::time((queue as f64 / packets_per_s * 1e9) as u64);
        let spoils = format!(
            "at {} requests, packets are lost when a CPU is busy elsewhere for {pause}",
            display::rate(load.requests_per_s.unwrap_or(0.0))
        );
        return vec![Finding::of(Level::Hint, is, spoils).set("net.core.netdev_max_backlog", (queue * 4).max(4096))];
    }
    vec![Finding::ok(is)]
}

/// Packets dropped since the start because a CPU's queue was full: the second column, of all CPUs.
fn dropped_packets(host: &Host) -> u64 {
    let text = host.text("/proc/net/softnet_stat").unwrap_or_default();
    let column = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
    text.lines().filter_map(column).sum()
}

/// Listen queues that overflowed since the start.
pub(super) fn listen_overflows(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    let Some(overflows) = host.tcp_counter("ListenOverflows").filter(|_| load.serves()) else { return Vec::new() };
    let is = format!("listen queues have overflowed {} times since the start of this host", count(overflows));
    if overflows == 0 {
        return vec![Finding::ok(is)];
    }
    let spoils =
        "some server accepted too slowly, or with too short a queue (its own backlog, beside net.core.somaxconn)";
    vec![
        Finding::of(Level::Hint, is, spoils)
            .mended_by("ss -ltn shows each listener's queue (Recv-Q) and its bound (Send-Q)"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::FakeHost;

    #[test]
    fn short_queues_are_held_against_bursts() {
        for (queue, text, local, level, part) in [
            ("4096", "serve 100000", false, Level::Ok, "4,096"),
            ("128", "serve 100000", false, Level::Warning, "beyond 128 wait 1 s"),
            ("128", "conn-rate 5000/s", true, Level::Warning, "a pause of 25.6 ms"),
            ("128", "conn-rate 100/s", true, Level::Ok, "128"),
            ("128", "rate 100/s", true, Level::Ok, "128"),
            ("128", "hold 5000", true, Level::Ok, "128"),
            ("16", "hold 5000", true, Level::Warning, "of 128 connections"),
        ] {
            let fake = FakeHost::with_sysctls(&[("net.core.somaxconn", queue)]);
            let load = PlannedLoad { shared_host: local, ..text.parse().unwrap() };
            let finding = &listen_queue(&fake.host, &load)[0];
            assert!(finding.level == level && finding.sentence().contains(part), "{queue} {text}: {finding:?}");
        }
        let fake = FakeHost::with_sysctls(&[("net.core.somaxconn", "16")]);
        assert!(listen_queue(&fake.host, &"hold 5000".parse().unwrap()).is_empty(), "the server is elsewhere");
    }

    #[test]
    fn without_cookies_a_full_backlog_drops() {
        let serve: PlannedLoad = "serve 50000".parse().unwrap();
        for (cookies, backlog, of_backlog, of_cookies) in [
            ("1", "2048", Level::Hint, Level::Ok),
            ("0", "2048", Level::Warning, Level::Warning),
            ("2", "65536", Level::Ok, Level::Hint),
        ] {
            let fake = FakeHost::with_sysctls(&[
                ("net.ipv4.tcp_max_syn_backlog", backlog),
                ("net.ipv4.tcp_syncookies", cookies),
            ]);
            assert_eq!(syn_backlog(&fake.host, &serve)[0].level, of_backlog, "{cookies} {backlog}");
            assert_eq!(syn_cookies(&fake.host, &serve)[0].level, of_cookies, "{cookies}");
        }
    }

    #[test]
    fn dropped_packets_are_counted_over_all_cpus() {
        let fake = FakeHost::with(&[
            ("/proc/sys/net/core/netdev_max_backlog", "1000"),
            ("/proc/net/softnet_stat", "105b 00000000 00000037\n1162 0000000a 00000050\n"),
        ]);
        let finding = &packet_backlog(&fake.host, &"rate 100/s".parse().unwrap())[0];
        assert!(finding.level == Level::Hint && finding.spoils.starts_with("10 packets"), "{finding:?}");
        fake.write("/proc/net/softnet_stat", "105b 00000000 00000037\n");
        let fast = PlannedLoad { shared_host: true, .."rate 300000/s".parse().unwrap() };
        assert!(packet_backlog(&fake.host, &fast)[0].spoils.contains("for 1.67 ms"));
    }
}
