//! The network between client and server, seen from this host: the path, its interface, and what
//! looks at packets on their way.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use thalweg_sys::host::{Offload, offload};
use thalweg_units::display::{self, bytes, count};

use crate::finding::{Finding, Level};
use crate::host::{Host, cpu_list};
use crate::load::PlannedLoad;

/// Share of a link's nominal rate that a web server's responses can have.
const LINK_SHARE: f64 = 0.9;

/// Seconds for which the kernel tracks a closed connection.
const TRACKED_CLOSED_S: f64 = 120.0;

/// Client and server on one host.
pub(super) fn path(_: &Host, load: &PlannedLoad) -> Vec<Finding> {
    if load.measures() && load.shared_host {
        let spoils = "they share CPUs and memory, and no network is between them: the figures hold for this pair, not for \
                      clients elsewhere";
        return vec![
            Finding::of(Level::Hint, "client and server share this host", spoils)
                .mended_by("run the client on another host"),
        ];
    }
    Vec::new()
}

/// The interfaces that the load uses: that of the route to the target, or all that are up.
fn interfaces(host: &Host, load: &PlannedLoad) -> Vec<String> {
    if load.measures() && load.shared_host {
        return Vec::new();
    }
    let routed = match load.target {
        Some(SocketAddr::V4(target)) => route(host, u32::from(*target.ip())),
        None if load.measures() => route(host, 0),
        _ => None,
    };
    if let Some(routed) = routed {
        return vec![routed];
    }
    let up = |name: &String| name != "lo" && host.text(&of(name, "operstate")).as_deref() == Some("up");
    host.names("/sys/class/net").into_iter().filter(up).collect()
}

fn of(interface: &str, file: &str) -> String {
    format!("/sys/class/net/{interface}/{file}")
}

/// The interface of the most specific route to an IPv4 address. The kernel writes addresses in the
/// order of their bytes in memory.
fn route(host: &Host, address: u32) -> Option<String> {
    let table = host.text("/proc/net/route")?;
    let fitting = table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = |place: usize| Some(u32::from_be(u32::from_str_radix(fields.get(place)?, 16).ok()?));
        let (network, mask) = (number(1)?, number(7)?);
        (address & mask == network).then(|| (mask.count_ones(), fields[0].to_owned()))
    });
    fitting.max_by_key(|(length, _)| *length).map(|(_, interface)| interface)
}

/// Speed, duplex mode, packet size and errors of the interface.
pub(super) fn link(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    interfaces(host, load).iter().map(|interface| one_link(host, load, interface)).collect()
}

fn one_link(host: &Host, load: &PlannedLoad, interface: &str) -> Finding {
    let speed = host.number(&of(interface, "speed")).filter(|&mbit| mbit > 0 && mbit < 10_000_000);
    let shown = speed
        .map_or_else(|| "of unknown speed".to_owned(), |mbit| format!("of {}", display::link_rate(mbit * 1_000_000)));
    let mtu = host.number(&of(interface, "mtu"));
    let is = format!(
        "{interface} is {shown}{}",
        mtu.map_or_else(String::new, |mtu| format!(", with packets of {mtu} bytes"))
    );
    if host.text(&of(interface, "duplex")).as_deref() == Some("half") {
        let spoils =
            "it is in half-duplex mode: requests and responses collide, and it carries about a third of its rate";
        return Finding::of(Level::Warning, is, spoils)
            .mended_by(format!("ethtool -s {interface} autoneg on, at both ends of the cable"));
    }
    let statistic = |name: &str| host.number(&of(interface, &format!("statistics/{name}"))).unwrap_or(0);
    let (errors, packets) =
        (statistic("rx_errors") + statistic("tx_errors"), statistic("rx_packets") + statistic("tx_packets"));
    if errors as f64 > packets as f64 * 1e-5 {
        let spoils = format!(
            "{} of {} packets had errors; each lost one delays its connection by a round trip or 200 ms",
            count(errors),
            count(packets)
        );
        return Finding::of(Level::Warning, is, spoils)
            .mended_by(format!("another cable or port (ip -s link show {interface})"));
    }
    let Some(mbit) = speed else { return Finding::ok(is) };
    let bits_per_s = mbit as f64 * 1e6 * LINK_SHARE;
    let room = match load.requests_per_s {
        Some(rate) => {
            let size = (bits_per_s / 8.0 / rate) as u64;
            format!("at {} it has room for responses of {}", display::rate(rate), bytes(size))
        }
        None => format!(
            "{} connections have {} each",
            count(load.connections),
            display::link_rate((bits_per_s / load.connections.max(1) as f64) as u64)
        ),
    };
    if mbit >= 1000 {
        return Finding::ok(format!("{is}; {room}"));
    }
    Finding::of(Level::Hint, is, format!("{room}; with larger ones the network is measured, not the server"))
        .mended_by("a faster link, or smaller responses")
}

/// Queues of the interface, and the CPUs that take care of them.
pub(super) fn queues(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    interfaces(host, load).iter().filter_map(|interface| one_queue(host, interface)).collect()
}

fn one_queue(host: &Host, interface: &str) -> Option<Finding> {
    let names = host.names(&of(interface, "queues"));
    let receiving: Vec<&String> = names.iter().filter(|name| name.starts_with("rx-")).collect();
    let cpus = host.cpus_online();
    if receiving.is_empty() || cpus < 2 {
        return None;
    }
    let steering = |queue: &&&String| {
        let mask = host.text(&of(interface, &format!("queues/{queue}/rps_cpus"))).unwrap_or_default();
        mask.bytes().any(|digit| digit != b'0' && digit != b',')
    };
    if receiving.iter().filter(steering).count() > 0 {
        return Some(Finding::ok(format!("packets of {interface} are spread over CPUs (RPS)")));
    }
    let interrupted = interrupted_cpus(host, interface);
    if receiving.len() > 1 && interrupted.len() != 1 {
        return Some(Finding::ok(format!("{interface} has {} receive queues", receiving.len())));
    }
    let is = match interrupted.first() {
        Some(cpu) if interrupted.len() == 1 => format!("all interrupts of {interface} go to CPU {cpu}, of {cpus}"),
        _ => format!("{interface} has one receive queue, for {cpus} CPUs"),
    };
    let spoils =
        "one CPU handles all packets, a few hundred thousand per second, and is full while the others are idle";
    let path = of(interface, &format!("queues/{}/rps_cpus", receiving[0]));
    Some(
        Finding::of(Level::Hint, is, spoils)
            .write(path, mask(cpus))
            .mended_by(format!("ethtool -L {interface} combined {cpus}, if the interface has more queues")),
    )
}

/// The CPUs that handle the interface's interrupts, where the kernel shows them.
fn interrupted_cpus(host: &Host, interface: &str) -> BTreeSet<usize> {
    let interrupts = host.names(&of(interface, "device/msi_irqs"));
    let cpus = interrupts.iter().filter_map(|number| host.text(&format!("/proc/irq/{number}/effective_affinity_list")));
    cpus.flat_map(|list| cpu_list(&list)).collect()
}

/// The first CPUs as the kernel's masks have them: hexadecimal, 32 CPUs to a group.
fn mask(cpus: usize) -> String {
    let groups = cpus.div_ceil(32);
    let group = |number: usize| {
        let bits = (cpus - number * 32).min(32);
        format!("{:x}", if bits == 32 { u32::MAX } else { (1 << bits) - 1 })
    };
    (0..groups).rev().map(group).collect::<Vec<_>>().join(",")
}

/// Work that the interface could take from the CPUs.
pub(super) fn offloads(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    if !host.is_this() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for interface in interfaces(host, load) {
        for (kind, name, short) in [
            (Offload::GenericReceive, "generic receive offload", "gro"),
            (Offload::TcpSegmentation, "TCP segmentation offload", "tso"),
        ] {
            match offload(&interface, kind) {
                Ok(true) => findings.push(Finding::ok(format!("{interface} has {name} on"))),
                Ok(false) => {
                    let spoils = "every packet of 1,500 bytes passes the network stack alone, which costs large responses CPU time";
                    let finding = Finding::of(Level::Hint, format!("{interface} has {name} off"), spoils);
                    findings.push(finding.mended_by(format!("ethtool -K {interface} {short} on")));
                }
                Err(_) => {}
            }
        }
    }
    findings
}

/// The table of tracked connections.
pub(super) fn connection_tracking(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    let name = "net.netfilter.nf_conntrack_max";
    let (Some(max), Some(now)) = (host.sysctl_number(name), host.sysctl_number("net.netfilter.nf_conntrack_count"))
    else {
        return Vec::new();
    };
    let is = format!("{name} is {}, and {} connections are tracked", count(max), count(now));
    let wanted = now as f64 + load.connections as f64 + load.opened_per_s * TRACKED_CLOSED_S;
    if wanted <= max as f64 {
        return vec![Finding::ok(is)];
    }
    let spoils = format!(
        "the load needs {} entries, with those of the last {TRACKED_CLOSED_S:.0} s; once the table is full, new connections are \
         dropped and time out",
        count(wanted as u64)
    );
    // Without a rule that asks for it, nothing is tracked, not even the connection to this shell.
    let level = if now > 0 { Level::Warning } else { Level::Hint };
    vec![
        Finding::of(level, is, spoils)
            .set(name, (wanted * 1.5) as u64)
            .mended_by("nft add rule inet raw prerouting tcp dport PORT notrack, for the ports of the load"),
    ]
}

/// Rules that every packet passes.
pub(super) fn firewall(host: &Host, _: &PlannedLoad) -> Vec<Finding> {
    let tables: Vec<String> = ["/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"]
        .iter()
        .filter_map(|path| host.text(path))
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let nft = host.number("/sys/module/nf_tables/refcnt").is_some_and(|users| users > 0);
    let is = match (tables.is_empty(), nft) {
        (true, false) => return vec![Finding::ok("no firewall rules are loaded, as far as it shows")],
        (false, _) => format!(
            "iptables has rules ({})",
            tables.iter().collect::<BTreeSet<_>>().into_iter().cloned().collect::<Vec<_>>().join(", ")
        ),
        (true, true) => "nftables is in use".to_owned(),
    };
    let spoils = "every packet passes the rules; a long list, or one with a limit or a log, costs CPU time and drops";
    vec![
        Finding::of(Level::Hint, is, spoils)
            .mended_by("nft list ruleset, or iptables-save -c, shows the rules and their counters"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::FakeHost;

    const ROUTES: &str = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
        eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
        eth1\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n";

    fn load(text: &str, target: &str) -> PlannedLoad {
        PlannedLoad { target: Some(target.parse().unwrap()), ..text.parse().unwrap() }
    }

    fn host() -> FakeHost {
        FakeHost::with(&[
            ("/proc/net/route", ROUTES),
            ("/sys/class/net/eth0/operstate", "up\n"),
            ("/sys/class/net/eth0/speed", "10000\n"),
            ("/sys/class/net/eth0/mtu", "1500\n"),
            ("/sys/class/net/eth1/operstate", "up\n"),
            ("/sys/class/net/eth1/speed", "100\n"),
            ("/sys/class/net/eth1/duplex", "full\n"),
            ("/sys/class/net/lo/operstate", "unknown\n"),
            ("/sys/devices/system/cpu/online", "0-3\n"),
        ])
    }

    #[test]
    fn the_interface_of_the_route_is_examined() {
        let fake = host();
        let fast = &link(&fake.host, &load("rate 50000/s", "192.0.2.1:80"))[0];
        assert!(fast.level == Level::Ok && fast.is.contains("eth0 is of 10.0 Gbit/s"), "{fast:?}");
        assert!(fast.is.contains("responses of 22.5 KB"), "{fast:?}");
        let slow = &link(&fake.host, &load("rate 50000/s", "10.1.2.3:80"))[0];
        assert!(slow.level == Level::Hint && slow.spoils.contains("responses of 225 B"), "{slow:?}");
        assert_eq!(link(&fake.host, &"serve".parse().unwrap()).len(), 2, "a server has all of them");
        fake.write("/sys/class/net/eth1/duplex", "half\n");
        assert_eq!(link(&fake.host, &load("hold 5", "10.1.2.3:80"))[0].level, Level::Warning);
        fake.write("/sys/class/net/eth0/statistics/rx_errors", "100\n");
        fake.write("/sys/class/net/eth0/statistics/rx_packets", "1000\n");
        assert_eq!(link(&fake.host, &load("hold 5", "192.0.2.1:80"))[0].level, Level::Warning);
        let local = PlannedLoad { shared_host: true, ..load("hold 5", "127.0.0.1:80") };
        assert!(link(&fake.host, &local).is_empty());
        assert_eq!(path(&fake.host, &local)[0].level, Level::Hint);
    }

    #[test]
    fn one_queue_for_many_cpus_is_a_bottleneck() {
        let fake = host();
        fake.write("/sys/class/net/eth0/queues/rx-0/rps_cpus", "0\n");
        let finding = &queues(&fake.host, &load("rate 5/s", "192.0.2.1:80"))[0];
        assert_eq!(finding.mend[0], "echo f > /sys/class/net/eth0/queues/rx-0/rps_cpus");
        fake.write("/sys/class/net/eth0/queues/rx-0/rps_cpus", "f\n");
        assert_eq!(queues(&fake.host, &load("rate 5/s", "192.0.2.1:80"))[0].level, Level::Ok);
        fake.write("/sys/class/net/eth0/queues/rx-0/rps_cpus", "0\n");
        fake.write("/sys/class/net/eth0/queues/rx-1/rps_cpus", "0\n");
        for number in ["40", "41"] {
            fake.write(&format!("/sys/class/net/eth0/device/msi_irqs/{number}"), "msix\n");
            fake.write(&format!("/proc/irq/{number}/effective_affinity_list"), "2\n");
        }
        assert!(queues(&fake.host, &load("rate 5/s", "192.0.2.1:80"))[0].is.contains("go to CPU 2, of 4"));
        fake.write("/proc/irq/41/effective_affinity_list", "3\n");
        assert_eq!(queues(&fake.host, &load("rate 5/s", "192.0.2.1:80"))[0].level, Level::Ok);
        assert_eq!([mask(1), mask(4), mask(32), mask(40)], ["1", "f", "ffffffff", "ff,ffffffff"]);
    }

    #[test]
    fn tracked_connections_fill_their_table() {
        let fake = FakeHost::with_sysctls(&[
            ("net.netfilter.nf_conntrack_max", "65536"),
            ("net.netfilter.nf_conntrack_count", "10"),
        ]);
        let check = |text: &str| connection_tracking(&fake.host, &text.parse().unwrap()).remove(0);
        assert_eq!(check("hold 50000").level, Level::Ok);
        let finding = check("conn-rate 2000/s");
        assert!(finding.level == Level::Warning && finding.spoils.contains("242,010 entries"), "{finding:?}");
        fake.write("/proc/sys/net/netfilter/nf_conntrack_count", "0\n");
        assert_eq!(check("hold 100000").level, Level::Hint, "nothing is tracked");
        assert_eq!(firewall(&fake.host, &"serve".parse().unwrap())[0].level, Level::Ok);
        fake.write("/proc/net/ip_tables_names", "nat\nfilter\n");
        assert!(firewall(&fake.host, &"serve".parse().unwrap())[0].is.contains("(filter, nat)"));
    }
}
