//! Local ports: their number against connections that are open, and against those that are closed
//! and still hold a port (TIME_WAIT).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use thalweg_units::display::{self, count};

use crate::finding::{Finding, Level};
use crate::host::{Host, cpu_list};
use crate::load::PlannedLoad;
use crate::needs::{PORTS_COUNTED_ON, Sources, counted_on, quickly_found, spread};

/// How long a port stays taken after its connection's end (TCP_TIMEWAIT_LEN of the kernel).
const TIME_WAIT_S: f64 = 60.0;

/// Share of the ports up to which one that is free is found without a search.
const PORTS_FREE_FOUND: f64 = 0.5;

const ALL_PORTS: &str = "1024 65535";

/// The ports that the kernel gives out, without the reserved ones; and the range in words.
fn usual_ports(host: &Host) -> Option<(usize, String)> {
    let range = host.sysctl("net.ipv4.ip_local_port_range")?;
    let (first, last) = range.split_once(char::is_whitespace)?;
    let (first, last): (usize, usize) = (first.parse().ok()?, last.trim().parse().ok()?);
    let reserved = cpu_list(&host.sysctl("net.ipv4.ip_local_reserved_ports").unwrap_or_default());
    let taken = reserved.iter().filter(|port| (first..=last).contains(port)).count();
    let ports = (last + 1).checked_sub(first)?.saturating_sub(taken);
    let without = if taken > 0 { format!(", {} of them reserved", count(taken as u64)) } else { String::new() };
    Some((ports, format!("net.ipv4.ip_local_port_range is {first} to {last}{without}")))
}

/// A load from this host to TCP ports.
fn opens_ports(load: &PlannedLoad) -> bool {
    load.measures() && (load.target.is_some() || load.url.is_none())
}

/// The ports of the range against the connections that are open at once.
pub(super) fn range(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    let Some((ports, is)) = usual_ports(host).filter(|_| opens_ports(load)) else { return Vec::new() };
    let connections = usize::try_from(load.connections).unwrap_or(usize::MAX);
    // Any address that is not loopback stands for a server elsewhere.
    let elsewhere = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 80));
    let peer = load.target.unwrap_or(elsewhere);
    // The rule counts addresses; which ones they are does not matter to it.
    let asked = if load.sources > 1 { vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED); load.sources] } else { Vec::new() };
    let to = load.target.map_or_else(|| "a server on another host".to_owned(), |peer| peer.to_string());
    let needs = format!("{} connections to {to}", count(load.connections));
    let addresses = load.sources.max(1) as u64;
    vec![match spread(connections, peer, ports, asked) {
        Ok(Sources { addresses: own, ports: None }) if own.len() > load.sources => {
            Finding::ok(format!("{is}; {needs} come from {} addresses of 127.0.0.0/8", own.len()))
        }
        Ok(Sources { ports: None, .. }) if connections <= quickly_found(ports) * addresses as usize => {
            Finding::ok(format!("{is}, {} ports", count(ports as u64)))
        }
        Ok(Sources { ports: None, .. }) => {
            let share = load.connections as f64 / (ports as f64 * addresses as f64);
            let spoils = format!(
                "{needs} take {} of the ports; beyond about half of them the kernel searches up to 1 ms for each",
                display::percent(share)
            );
            Finding::of(Level::Hint, is, spoils).set("net.ipv4.ip_local_port_range", ALL_PORTS)
        }
        Ok(_) => {
            let spoils = format!(
                "{needs} need more than {} ports; thalweg binds to ports from 1024 on by itself, another program runs \
                 out",
                count(ports as u64 * addresses)
            );
            Finding::of(Level::Hint, is, spoils).set("net.ipv4.ip_local_port_range", ALL_PORTS)
        }
        Err(few) => {
            // Without a target, the load may be meant for loopback, where addresses are free.
            let level = if load.target.is_some() { Level::Error } else { Level::Warning };
            let spoils = format!(
                "{needs} need {} local addresses, because one has at most {} ports",
                few.wanted,
                count(few.ports as u64)
            );
            Finding::of(level, is, spoils)
                .mended_by("ip address add ADDRESS/PREFIX dev DEVICE, for each further address")
                .mended_by(format!("--from FIRST-LAST with {} addresses", few.wanted))
        }
    }]
}

/// How long a closed connection keeps its port from a new one to the same server, in seconds; and
/// the reason in words.
fn waits(host: &Host, load: &PlannedLoad) -> (f64, String) {
    let reuse = host.sysctl_number("net.ipv4.tcp_tw_reuse").unwrap_or(0);
    let timestamps = host.sysctl_number("net.ipv4.tcp_timestamps").unwrap_or(1) > 0;
    let applies = timestamps && (reuse == 1 || reuse == 2 && load.over_loopback());
    if !applies {
        return (
            TIME_WAIT_S,
            format!("net.ipv4.tcp_tw_reuse is {reuse}, so a closed connection keeps its port for 60 s"),
        );
    }
    let delay_ms = host.sysctl_number("net.ipv4.tcp_tw_reuse_delay").unwrap_or(1000);
    let time = display::time(delay_ms * 1_000_000);
    (
        delay_ms as f64 / 1000.0,
        format!("net.ipv4.tcp_tw_reuse is {reuse}, so a closed connection keeps its port for {time}"),
    )
}

/// The ports that closed connections keep, at the rate of the load.
pub(super) fn time_wait(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    if !opens_ports(load) || load.opened_per_s <= 0.0 {
        return Vec::new();
    }
    let Some((ports, _)) = usual_ports(host) else { return Vec::new() };
    let (waits_s, is) = waits(host, load);
    let spent_s = load.length.map_or(waits_s, |length| waits_s.min(length.as_secs_f64()));
    let waiting = load.opened_per_s * spent_s;
    let wanted = waiting + load.connections as f64;
    let available = ports as f64 * load.sources.max(1) as f64;
    let rate = display::rate(load.opened_per_s);
    let figures = format!(
        "{rate} that this end closes make {} ports wait, of {}",
        count(waiting as u64),
        count(available as u64)
    );
    if wanted <= available * PORTS_FREE_FOUND {
        return vec![Finding::ok(format!("{is}; {figures}"))];
    }
    let (level, effect) = if wanted > available * PORTS_COUNTED_ON {
        let left_s = (available - load.connections as f64).max(0.0) / load.opened_per_s;
        let left = display::time((left_s * 1e9) as u64);
        (Level::Warning, format!("after about {left} none is free, and connections end as `no address`"))
    } else {
        (Level::Hint, "the kernel searches ever longer for a free one, which shows as lag".to_owned())
    };
    let spoils = format!("{figures}; {effect}. A server that is asked to close, as thalweg does, spares them");
    let level = if load.asks_to_close { Level::Hint } else { level };
    let finding = Finding::of(level, is, spoils);
    vec![more_ports(finding, host, load, wanted)]
}

fn more_ports(finding: Finding, host: &Host, load: &PlannedLoad, wanted: f64) -> Finding {
    let reused = host.sysctl_number("net.ipv4.tcp_tw_reuse") == Some(1);
    let finding = if reused { finding } else { finding.set("net.ipv4.tcp_tw_reuse", 1) };
    let wide = usual_ports(host).is_some_and(|(ports, _)| ports > 60_000);
    let finding = if wide { finding } else { finding.set("net.ipv4.ip_local_port_range", ALL_PORTS) };
    let addresses = (wanted / counted_on(usual_ports(host).map_or(1, |(ports, _)| ports)) as f64).ceil();
    let finding = finding.mended_by(format!("--from FIRST-LAST with {addresses} addresses"));
    match load.calls {
        Some(1) => finding.mended_by("--calls 10: browsers send 5 to 20 requests on a connection"),
        _ => finding,
    }
}

/// The ports that wait at this time.
pub(super) fn time_wait_now(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    let (Some(waiting), Some((ports, _))) = (host.sockets("TCP", "tw"), usual_ports(host)) else { return Vec::new() };
    let mut findings = Vec::new();
    let is = format!("{} connections are in TIME_WAIT now", count(waiting));
    let all = ports as u64 * load.sources.max(1) as u64;
    let free = all.saturating_sub(waiting);
    let enough = |ports: u64| load.connections as f64 <= ports as f64 * PORTS_COUNTED_ON;
    // On loopback they give way after a second.
    if opens_ports(load) && !load.over_loopback() && enough(all) && !enough(free) {
        let spoils = format!(
            "if they are with the same server, {} of the ports are left for {} connections",
            count(free),
            count(load.connections)
        );
        findings
            .push(Finding::of(Level::Warning, is, spoils).mended_by("wait a minute").set("net.ipv4.tcp_tw_reuse", 1));
    } else {
        findings.push(Finding::ok(is));
    }
    let kept = load.opened_per_s * TIME_WAIT_S;
    if let Some(buckets) = host.sysctl_number("net.ipv4.tcp_max_tw_buckets").filter(|&buckets| kept > buckets as f64) {
        let is = format!("net.ipv4.tcp_max_tw_buckets is {}", count(buckets));
        let spoils = format!(
            "{} closed keep {} in TIME_WAIT; the kernel drops the others at once, which lets a late segment into a new \
             connection",
            display::rate(load.opened_per_s),
            count(kept as u64)
        );
        findings.push(Finding::of(Level::Hint, is, spoils).set("net.ipv4.tcp_max_tw_buckets", (kept * 1.5) as u64));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::FakeHost;

    const USUAL: &[(&str, &str)] = &[
        ("net.ipv4.ip_local_port_range", "32768\t60999"),
        ("net.ipv4.ip_local_reserved_ports", ""),
        ("net.ipv4.tcp_tw_reuse", "2"),
        ("net.ipv4.tcp_tw_reuse_delay", "1000"),
        ("net.ipv4.tcp_timestamps", "1"),
        ("net.ipv4.tcp_max_tw_buckets", "131072"),
    ];

    fn load(text: &str, target: Option<&str>) -> PlannedLoad {
        let target: Option<SocketAddr> = target.map(|target| target.parse().unwrap());
        let shared_host = target.is_some_and(|target| target.ip().is_loopback());
        PlannedLoad { target, shared_host, ..text.parse().unwrap() }
    }

    #[test]
    fn ports_are_held_against_open_connections() {
        let fake = FakeHost::with_sysctls(USUAL);
        for (text, target, level, part) in [
            ("hold 10000", Some("10.0.0.1:80"), Level::Ok, "28,232 ports"),
            ("hold 20000", Some("10.0.0.1:80"), Level::Hint, "70.8 %"),
            ("hold 50000", Some("10.0.0.1:80"), Level::Hint, "by itself"),
            ("hold 100000", Some("10.0.0.1:80"), Level::Error, "need 2 local addresses"),
            ("hold 100000", None, Level::Warning, "need 2 local addresses"),
            ("hold 100000", Some("127.0.0.1:80"), Level::Ok, "8 addresses of 127.0.0.0/8"),
            ("hold 100000", Some("[::1]:80"), Level::Error, "need 2"),
        ] {
            let finding = &range(&fake.host, &load(text, target))[0];
            assert!(finding.level == level && finding.sentence().contains(part), "{text} {target:?}: {finding:?}");
        }
        let from = PlannedLoad { sources: 2, ..load("hold 100000", Some("10.0.0.1:80")) };
        assert_eq!(range(&fake.host, &from)[0].level, Level::Hint, "--from adds ports");
        assert!(range(&fake.host, &load("serve", None)).is_empty(), "a server gives out no ports");
        fake.write("/proc/sys/net/ipv4/ip_local_reserved_ports", "32768-60000\n");
        let finding = &range(&fake.host, &load("hold 5000", Some("10.0.0.1:80")))[0];
        assert!(finding.is.contains("27,233 of them reserved") && finding.level == Level::Hint, "{finding:?}");
    }

    #[test]
    fn closed_connections_keep_their_ports_for_a_minute_unless_they_are_reused() {
        for (reuse, text, target, level, part) in [
            ("2", "conn-rate 200/s", "10.0.0.1:80", Level::Ok, "12,000 ports wait"),
            ("2", "conn-rate 400/s", "10.0.0.1:80", Level::Hint, "24,000 ports wait"),
            ("2", "conn-rate 2000/s", "10.0.0.1:80", Level::Warning, "after about 13.1 s"),
            ("1", "conn-rate 2000/s", "10.0.0.1:80", Level::Ok, "for 1.00 s"),
            ("2", "conn-rate 2000/s", "127.0.0.1:80", Level::Ok, "for 1.00 s"),
            ("0", "conn-rate 2000/s", "127.0.0.1:80", Level::Warning, "120,000 ports wait, of 28,232"),
        ] {
            let fake = FakeHost::with_sysctls(USUAL);
            fake.write("/proc/sys/net/ipv4/tcp_tw_reuse", reuse);
            let finding = &time_wait(&fake.host, &load(text, Some(target)))[0];
            assert!(
                finding.level == level && finding.sentence().contains(part),
                "{reuse} {text} {target}: {finding:?}"
            );
        }
        let fake = FakeHost::with_sysctls(USUAL);
        let short = PlannedLoad {
            length: Some(std::time::Duration::from_secs(2)),
            ..load("conn-rate 2000/s", Some("10.0.0.1:80"))
        };
        assert_eq!(time_wait(&fake.host, &short)[0].level, Level::Ok, "a short run does not come so far");
        let asking = PlannedLoad { asks_to_close: true, ..load("conn-rate 2000/s", Some("10.0.0.1:80")) };
        assert_eq!(time_wait(&fake.host, &asking)[0].level, Level::Hint, "the server's ends wait");
        let finding = &time_wait(&fake.host, &load("conn-rate 2000/s", Some("10.0.0.1:80")))[0];
        let changes: Vec<_> = finding.changes.iter().map(|change| &*change.value).collect();
        assert_eq!(changes, ["1", "1024 65535"]);
        assert!(finding.mend.iter().any(|line| line.contains("--from FIRST-LAST with 5 addresses")), "{finding:?}");
        assert!(finding.mend.iter().any(|line| line.contains("--calls 10")), "{finding:?}");
    }

    #[test]
    fn ports_that_wait_now_are_missing() {
        let fake = FakeHost::with_sysctls(USUAL);
        fake.write("/proc/net/sockstat", "TCP: inuse 1 orphan 0 tw 20000 alloc 1 mem 128\n");
        assert_eq!(time_wait_now(&fake.host, &load("hold 5000", Some("10.0.0.1:80")))[0].level, Level::Ok);
        assert_eq!(time_wait_now(&fake.host, &load("hold 8000", Some("10.0.0.1:80")))[0].level, Level::Warning);
        assert_eq!(time_wait_now(&fake.host, &load("hold 8000", Some("127.0.0.1:80")))[0].level, Level::Ok);
        let many = time_wait_now(&fake.host, &load("conn-rate 5000/s", Some("127.0.0.1:80")));
        assert!(many[1].spoils.contains("300,000 in TIME_WAIT"), "{many:?}");
    }
}
