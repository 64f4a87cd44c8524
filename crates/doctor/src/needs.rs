//! The descriptors, local addresses and ports that connections need: the rules by which a run
//! arranges them, and by which the checks judge a host.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use thalweg_sys::PortRange;

/// Descriptors that a file table needs beside its connections: rings, wakers, the report, what the
/// libraries open.
pub const DESCRIPTORS_BESIDE: u64 = 128;

/// Most load threads, each with a file table of its own.
const THREADS_MAX: u64 = 1024;

/// Share of an address's ports that a plan counts on: other programs use some, and some wait after
/// an end (TIME_WAIT).
pub const PORTS_COUNTED_ON: f64 = 0.9;

/// The share of an address's ports up to which a connect finds a free one quickly. The kernel tries
/// all even ones first, which costs up to a millisecond for each connection beyond their number.
pub const PORTS_QUICKLY_FOUND: f64 = 0.45;

/// The ports that a program may use without being root.
pub const UNPRIVILEGED: Option<PortRange> = PortRange::new(1024, u16::MAX);

/// The threads and their file tables.
#[derive(Debug, PartialEq, Eq)]
pub struct Threads {
    /// The CPU of each; several may share one.
    pub cpus: Vec<usize>,
    /// Whether each has a file table of its own.
    pub own_tables: bool,
}

/// Local addresses and ports of the connections.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// Local addresses; none leaves them to the kernel.
    pub addresses: Vec<IpAddr>,
    /// Local ports; `None` leaves them to the kernel.
    pub ports: Option<PortRange>,
}

/// Too few local addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooFewAddresses {
    /// How many the connections need.
    pub wanted: usize,
    /// Ports of an address.
    pub ports: usize,
}

/// Divides connections between threads, each with a file table of its own if one table does not
/// hold them. `None` if even the most threads are too few.
pub fn share_out(connections: u64, per_table: u64, cpus: &[usize]) -> Option<Threads> {
    if connections.saturating_add(DESCRIPTORS_BESIDE) <= per_table {
        return Some(Threads { cpus: cpus.to_vec(), own_tables: false });
    }
    let room = per_table.checked_sub(DESCRIPTORS_BESIDE).filter(|&room| room > 0)?;
    let tables = connections.div_ceil(room).max(cpus.len() as u64);
    // Each CPU has the same number of threads, so that all carry the same load.
    let threads = tables.div_ceil(cpus.len() as u64) * cpus.len() as u64;
    if threads > THREADS_MAX {
        return None;
    }
    let cpus = cpus.iter().copied().cycle().take(usize::try_from(threads).ok()?).collect();
    Some(Threads { cpus, own_tables: true })
}

/// Divides connections to `peer` between local addresses: those that were `asked` for, or others
/// where the kernel has them anyway. `usual_ports` is the number of ports from which the kernel
/// chooses by itself.
///
/// # Errors
/// The addresses have too few ports.
pub fn spread(
    connections: usize,
    peer: SocketAddr,
    usual_ports: usize,
    asked: Vec<IpAddr>,
) -> Result<Sources, TooFewAddresses> {
    let addresses = asked.len().max(1);
    if connections <= quickly_found(usual_ports) * addresses {
        return Ok(Sources { addresses: asked, ports: None });
    }
    // All of 127.0.0.0/8 is this host's own.
    if let (true, SocketAddr::V4(peer)) = (asked.is_empty(), peer)
        && peer.ip().is_loopback()
    {
        let first = u32::from(Ipv4Addr::new(127, 0, 0, 2));
        let count = u32::try_from(connections.div_ceil(quickly_found(usual_ports))).unwrap_or(u32::MAX);
        let addresses = (0..count).map(|number| IpAddr::V4(Ipv4Addr::from(first + number))).collect();
        return Ok(Sources { addresses, ports: None });
    }
    if connections <= counted_on(usual_ports) * addresses {
        return Ok(Sources { addresses: asked, ports: None });
    }
    let all = UNPRIVILEGED.map_or(0, PortRange::count);
    if connections <= counted_on(all) * addresses {
        return Ok(Sources { addresses: asked, ports: UNPRIVILEGED });
    }
    Err(TooFewAddresses { wanted: connections.div_ceil(counted_on(all)), ports: all })
}

/// Ports of an address that a plan counts on.
pub fn counted_on(ports: usize) -> usize {
    ((ports as f64 * PORTS_COUNTED_ON) as usize).max(1)
}

/// Ports of an address among which a connect finds a free one quickly.
pub fn quickly_found(ports: usize) -> usize {
    ((ports as f64 * PORTS_QUICKLY_FOUND) as usize).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_added_where_one_is_too_small() {
        let threads =
            |connections, cpus: &[usize]| share_out(connections, 20_000, cpus).map(|t| (t.cpus, t.own_tables));
        assert_eq!(threads(19_000, &[1]), Some((vec![1], false)));
        assert_eq!(threads(19_900, &[1]), Some((vec![1, 1], true)));
        assert_eq!(threads(100_000, &[1]), Some((vec![1; 6], true)));
        assert_eq!(threads(100_000, &[0, 3, 4, 5]), Some((vec![0, 3, 4, 5, 0, 3, 4, 5], true)));
        assert_eq!(share_out(1000, 100, &[0]), None, "no room beside what the program itself needs");
        assert_eq!(threads(u64::from(u32::MAX), &[0]), None);
        assert_eq!(threads(u64::MAX, &[0]), None);
    }

    #[test]
    fn ports_and_addresses_are_spread_as_far_as_needed() {
        let sources = |connections, peer: &str, asked: &[&str]| {
            let asked = asked.iter().map(|text| text.parse().unwrap()).collect();
            spread(connections, peer.parse().unwrap(), 28_000, asked)
                .map(|s| (s.addresses.len(), s.ports.is_some()))
                .ok()
        };
        assert_eq!(sources(12_000, "127.0.0.1:80", &[]), Some((0, false)));
        assert_eq!(sources(100_000, "127.0.0.1:80", &[]), Some((8, false)));
        assert_eq!(sources(25_000, "10.0.0.1:80", &[]), Some((0, false)));
        assert_eq!(sources(50_000, "[::1]:80", &[]), Some((0, true)), "::1 is alone, so its ports have to do");
        assert_eq!(sources(100_000, "[::1]:80", &[]), None);
        assert_eq!(sources(50_000, "10.0.0.1:80", &["10.0.0.2", "10.0.0.3"]), Some((2, false)));
        assert_eq!(sources(100_000, "10.0.0.1:80", &["10.0.0.2", "10.0.0.3"]), Some((2, true)));
        assert_eq!(sources(1_000_000, "10.0.0.1:80", &["10.0.0.2"]), None);
    }
}
