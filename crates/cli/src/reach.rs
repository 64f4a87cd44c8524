//! The resources of this host that the connections of a run need: descriptors, file tables,
//! threads, local addresses and ports. They are checked and, where possible, arranged before a
//! socket opens; a failure names the missing resource.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use thalweg_lab::target::Target;
use thalweg_sys::resource_limits::{descriptors, ip_local_port_range, raise_descriptors};
use thalweg_sys::{PeerAddr, PortRange};

use crate::exit::Failure;

/// Descriptors that a file table needs beside its connections: rings, wakers, the report, what the
/// libraries open.
const DESCRIPTORS_BESIDE: u64 = 128;

/// Most load threads, each with a file table of its own.
const THREADS_MAX: u64 = 1024;

/// Share of an address's ports that a plan counts on: other programs use some, and some wait after
/// an end (TIME_WAIT).
const PORTS_COUNTED_ON: f64 = 0.9;

/// The share of an address's ports up to which a connect finds a free one quickly. The kernel tries
/// all even ones first, which costs up to a millisecond for each connection beyond their number.
const PORTS_QUICKLY_FOUND: f64 = 0.45;

/// The ports that a program may use without being root.
const UNPRIVILEGED: Option<PortRange> = PortRange::new(1024, u16::MAX);

/// The load threads and their file tables.
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

/// Arranges the descriptors for this many connections.
///
/// # Errors
/// Even the most threads with file tables of their own have too few.
pub fn threads(connections: usize, cpus: &[usize]) -> Result<Threads, Failure> {
    let wanted = connections as u64 + DESCRIPTORS_BESIDE;
    let per_table = raise_descriptors(wanted).unwrap_or(descriptors().soft);
    share_out(connections as u64, per_table, cpus).ok_or_else(|| {
        Failure::unreachable(format!(
            "{connections} connections need {wanted} file descriptors, but a file table of this process holds at \
             most {per_table}; use fewer connections (--connections, --hold, --workers), or raise the hard limit \
             (ulimit -Hn, LimitNOFILE= in a systemd unit)"
        ))
    })
}

fn share_out(connections: u64, per_table: u64, cpus: &[usize]) -> Option<Threads> {
    if connections + DESCRIPTORS_BESIDE <= per_table {
        return Some(Threads { cpus: cpus.to_vec(), own_tables: false });
    }
    let room = per_table.checked_sub(DESCRIPTORS_BESIDE).filter(|&room| room > 0)?;
    let tables = connections.div_ceil(room).max(cpus.len() as u64);
    // Each CPU has the same number of threads, so that all carry the same load.
    let threads = tables.div_ceil(cpus.len() as u64) * cpus.len() as u64;
    let cpus = cpus.iter().copied().cycle().take(usize::try_from(threads).ok()?).collect();
    (threads <= THREADS_MAX).then_some(Threads { cpus, own_tables: true })
}

/// Arranges local addresses and ports for this many connections to the target.
///
/// # Errors
/// The requested addresses are of the wrong family or not this host's, or there are too few of
/// them.
pub fn sources(connections: usize, target: &Target, asked: Vec<IpAddr>) -> Result<Sources, Failure> {
    let PeerAddr::Tcp(peer) = target.address else { return Ok(Sources::default()) };
    if let Some(source) = asked.iter().find(|source| source.is_ipv4() != peer.is_ipv4()) {
        let address = peer.ip();
        return Err(Failure::usage(format!(
            "--from {source}: the target's address {address} is of the other address \
            family"
        )));
    }
    for source in &asked {
        ensure_own(*source)?;
    }
    let usual = ip_local_port_range().map_or(28_232, PortRange::count);
    spread(connections, peer, usual, asked)
}

/// Checks that an address is one of this host's. Otherwise every connection would fail, one after
/// the other.
fn ensure_own(source: IpAddr) -> Result<(), Failure> {
    // A datagram socket has the same rules for its address and takes no port from the connections.
    let bound = UdpSocket::bind((source, 0)).map(drop);
    bound.map_err(|error| {
        Failure::unreachable(format!(
            "--from {source}: this host cannot connect from that address ({error}); use one of its addresses (`ip \
             address` lists them), or add it (`ip address add {source} dev DEVICE`)"
        ))
    })
}

fn spread(connections: usize, peer: SocketAddr, usual_ports: usize, asked: Vec<IpAddr>) -> Result<Sources, Failure> {
    let counted_on = |ports: usize| ((ports as f64 * PORTS_COUNTED_ON) as usize).max(1);
    let quickly_found = ((usual_ports as f64 * PORTS_QUICKLY_FOUND) as usize).max(1);
    let addresses = asked.len().max(1);
    if connections <= quickly_found * addresses {
        return Ok(Sources { addresses: asked, ports: None });
    }
    // All of 127.0.0.0/8 is this host's own.
    if let (true, SocketAddr::V4(peer)) = (asked.is_empty(), peer)
        && peer.ip().is_loopback()
    {
        let first = u32::from(Ipv4Addr::new(127, 0, 0, 2));
        let count = u32::try_from(connections.div_ceil(quickly_found)).unwrap_or(u32::MAX);
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
    let wanted = connections.div_ceil(counted_on(all));
    Err(Failure::unreachable(format!(
        "{connections} connections to {peer} need {wanted} local addresses, because one address has at most {all} \
         ports; use --from FIRST-LAST (`ip address add ADDRESS dev DEVICE` adds an address)"
    )))
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
