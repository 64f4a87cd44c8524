//! Memory: of the connections, of the TCP stack, and how the host behaves when there is little.

use thalweg_sys::host::page_bytes;
use thalweg_units::display::{self, bytes, count};

use crate::finding::{Finding, Level};
use crate::host::Host;
use crate::load::PlannedLoad;

/// Memory of one end of an idle connection: about 4 KB in the kernel (socket, file, entry of epoll)
/// and 2 KB in the program.
const END_BYTES: u64 = 6 * 1024;

/// Memory that the connections of a load need on this host, at the least.
pub(super) fn needed_bytes(load: &PlannedLoad) -> u64 {
    load.ends().saturating_mul(END_BYTES)
}

/// The connections against the memory that is available.
pub(super) fn connections(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    let Some(available) = host.memory("MemAvailable") else { return Vec::new() };
    let (needed, is) = (needed_bytes(load), format!("{} of memory are available", bytes(available)));
    let ends = count(load.ends());
    if needed.saturating_mul(2) <= available {
        return vec![Finding::ok(format!("{is}; {ends} ends of idle connections need {}", bytes(needed)))];
    }
    let level = if needed > available { Level::Error } else { Level::Warning };
    let spoils = format!("{ends} ends of connections need at least {}, before any data", bytes(needed));
    vec![Finding::of(level, is, spoils).mended_by("fewer connections, or client and server on hosts of their own")]
}

/// `net.ipv4.tcp_mem`: pages of all sockets' buffers.
pub(super) fn tcp_memory(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    let Some([_, pressure, max]) = host.sysctl_three("net.ipv4.tcp_mem") else { return Vec::new() };
    let page = page_bytes();
    let is = format!(
        "net.ipv4.tcp_mem lets all sockets buffer {}, with pressure from {}",
        bytes(max * page),
        bytes(pressure * page)
    );
    let used = host.sockets("TCP", "mem").unwrap_or(0);
    if used > pressure {
        let spoils = format!("they have {} now, so windows are kept small and new data is refused", bytes(used * page));
        return vec![
            Finding::of(Level::Warning, is, spoils).mended_by("end the programs with many slow connections (ss -tm)"),
        ];
    }
    let least = |name: &str| host.sysctl_three(name).map_or(4096, |[min, ..]| min);
    let usual = |name: &str| host.sysctl_three(name).map_or(131_072, |[_, default, _]| default);
    let (receive, send) = ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem");
    // The client's end buffers what it has not read, the server's end what it has not sent.
    let of_ends = |client: u64, server: u64| {
        let each = u64::from(load.measures()) * client + u64::from(load.serves()) * server;
        load.connections.saturating_mul(each)
    };
    let (smallest, full) = (of_ends(least(receive), least(send)), of_ends(usual(receive), usual(send)));
    let (level, spoils) = if smallest > max * page {
        let spoils = format!(
            "even the smallest buffers of {} connections are {}: connections are reset",
            count(load.connections),
            bytes(smallest)
        );
        (Level::Warning, spoils)
    } else if full > pressure * page {
        let spoils = format!(
            "{} connections whose readers are slow buffer up to {}: under pressure the kernel shrinks their windows, and \
             fast ones slow down too",
            count(load.connections),
            bytes(full)
        );
        (Level::Hint, spoils)
    } else {
        return vec![Finding::ok(is)];
    };
    let half = host.memory("MemTotal").unwrap_or(0) / 2 / page;
    let wanted = (full / page).min(half).max(max);
    let finding = Finding::of(level, is, spoils);
    if wanted <= max {
        return vec![finding.mended_by("more memory: the present maximum is half of it already")];
    }
    vec![finding.set("net.ipv4.tcp_mem", format!("{} {} {wanted}", wanted / 2, wanted / 4 * 3))]
}

/// The greatest buffers of a connection, which bound its rate over a long path.
pub(super) fn buffers(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    /// Round trip of a far client, in seconds.
    const ROUND_TRIP_S: f64 = 0.1;
    /// The usual maximum of the kernel, which carries 320 Mbit/s over that path.
    const USUAL_MAX: u64 = 4 << 20;
    let mut findings = Vec::new();
    for (name, matters) in [("net.ipv4.tcp_wmem", load.serves()), ("net.ipv4.tcp_rmem", load.measures())] {
        let Some([min, default, max]) = host.sysctl_three(name).filter(|_| matters) else { continue };
        let rate = display::link_rate((max as f64 * 8.0 / ROUND_TRIP_S) as u64);
        let is = format!("{name} is at most {}", bytes(max));
        if max >= USUAL_MAX || load.over_loopback() {
            findings.push(Finding::ok(is));
            continue;
        }
        let spoils = format!("a connection with a round trip of 100 ms carries at most {rate}");
        findings.push(Finding::of(Level::Hint, is, spoils).set(name, format!("{min} {default} {USUAL_MAX}")));
    }
    for name in ["net.core.rmem_max", "net.core.wmem_max"] {
        let Some(max) = host.sysctl_number(name) else { continue };
        // Programs that leave the sizes to the kernel, as this one does, have the bounds above.
        findings.push(Finding::ok(format!("{name} is {}, for programs that set a size themselves", bytes(max))));
    }
    findings
}

/// `net.ipv4.tcp_max_orphans`: connections that no program holds any more.
pub(super) fn orphans(host: &Host, load: &PlannedLoad) -> Vec<Finding> {
    let Some(max) = host.sysctl_number("net.ipv4.tcp_max_orphans").filter(|_| load.serves()) else { return Vec::new() };
    let now = host.sockets("TCP", "orphan").unwrap_or(0);
    let is = format!("net.ipv4.tcp_max_orphans is {}, and there are {}", count(max), count(now));
    if load.connections + now <= max {
        return vec![Finding::ok(is)];
    }
    let spoils = format!(
        "if the server ends {} connections with unsent data, the kernel resets those beyond it: downloads are cut short",
        count(load.connections)
    );
    vec![
        Finding::of(Level::Hint, is, spoils)
            .set("net.ipv4.tcp_max_orphans", (load.connections * 2).next_power_of_two()),
    ]
}

/// Swap in use.
pub(super) fn swap(host: &Host, _: &PlannedLoad) -> Vec<Finding> {
    /// Pages that a host swaps out once and never needs again are no reason to speak.
    const USED_MIN: u64 = 64 << 20;
    let (Some(total), Some(free)) = (host.memory("SwapTotal"), host.memory("SwapFree")) else { return Vec::new() };
    let used = total.saturating_sub(free);
    if used < USED_MIN {
        return vec![Finding::ok(if total == 0 {
            "there is no swap".to_owned()
        } else {
            format!("{} of swap are in use", bytes(used))
        })];
    }
    let is = format!("{} of {} swap are in use", bytes(used), bytes(total));
    let spoils = "a page that comes back from the disk delays whatever needs it by milliseconds";
    vec![
        Finding::of(Level::Hint, is, spoils)
            .mended_by("swapoff -a && swapon -a, if `free -m` shows enough free memory"),
    ]
}

/// Transparent huge pages, where the kernel makes room for them while a program waits.
pub(super) fn huge_pages(host: &Host, _: &PlannedLoad) -> Vec<Finding> {
    let folder = "/sys/kernel/mm/transparent_hugepage";
    let chosen = |name: &str| {
        let text = host.text(&format!("{folder}/{name}"))?;
        Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
    };
    let (Some(enabled), Some(defrag)) = (chosen("enabled"), chosen("defrag")) else { return Vec::new() };
    let is = format!("transparent huge pages: enabled is {enabled}, defrag is {defrag}");
    if enabled != "always" || defrag != "always" {
        return vec![Finding::ok(is)];
    }
    let spoils = "a program that takes memory waits while the kernel moves pages, milliseconds at times";
    vec![Finding::of(Level::Hint, is, spoils).write(format!("{folder}/defrag"), "madvise")]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::FakeHost;

    fn load(text: &str, shared_host: bool) -> PlannedLoad {
        PlannedLoad { shared_host, ..text.parse().unwrap() }
    }

    #[test]
    fn connections_need_memory() {
        let fake = FakeHost::with(&[("/proc/meminfo", "MemAvailable: 1000000 kB\n")]);
        for (text, shared, level) in [
            ("hold 50000", false, Level::Ok),
            ("hold 50000", true, Level::Warning),
            ("serve 100000", false, Level::Warning),
            ("hold 200000", false, Level::Error),
        ] {
            assert_eq!(connections(&fake.host, &load(text, shared))[0].level, level, "{text}");
        }
    }

    #[test]
    fn buffers_are_held_against_the_pages_of_tcp() {
        let fake = FakeHost::with_sysctls(&[
            ("net.ipv4.tcp_mem", "10000 20000 30000"),
            ("net.ipv4.tcp_rmem", "4096 131072 6291456"),
            ("net.ipv4.tcp_wmem", "4096 16384 1048576"),
        ]);
        fake.write("/proc/meminfo", "MemTotal: 8000000 kB\n");
        let level = |text: &str, shared| tcp_memory(&fake.host, &load(text, shared))[0].level;
        assert_eq!(level("hold 500", false), Level::Ok);
        assert_eq!(level("hold 5000", false), Level::Hint);
        assert_eq!(level("serve 4000", false), Level::Ok);
        assert_eq!(level("hold 100000", false), Level::Warning);
        let findings = buffers(&fake.host, &load("serve", false));
        assert!(findings[0].spoils.contains("83.9 Mbit/s"), "{findings:?}");
        assert_eq!(findings[0].changes[0].value, "4096 16384 4194304");
        fake.write("/proc/net/sockstat", "TCP: inuse 1 orphan 5 tw 0 alloc 1 mem 25000\n");
        assert_eq!(level("hold 5", false), Level::Warning);
    }

    #[test]
    fn orphans_swap_and_huge_pages() {
        let fake = FakeHost::with_sysctls(&[("net.ipv4.tcp_max_orphans", "1000")]);
        fake.write("/proc/meminfo", "SwapTotal: 4000000 kB\nSwapFree: 3000000 kB\n");
        fake.write("/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n");
        fake.write("/sys/kernel/mm/transparent_hugepage/defrag", "always defer [madvise] never\n");
        let serve = load("serve 5000", false);
        assert_eq!(orphans(&fake.host, &serve)[0].changes[0].value, "16384");
        assert!(orphans(&fake.host, &load("hold 5000", false)).is_empty());
        assert_eq!(swap(&fake.host, &serve)[0].level, Level::Hint);
        assert_eq!(huge_pages(&fake.host, &serve)[0].level, Level::Ok);
        fake.write("/sys/kernel/mm/transparent_hugepage/defrag", "[always] defer madvise never\n");
        assert_eq!(
            huge_pages(&fake.host, &serve)[0].mend,
            ["echo madvise > /sys/kernel/mm/transparent_hugepage/defrag"]
        );
    }
}
