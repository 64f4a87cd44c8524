//! The resources of this host that the connections of a run need: descriptors, file tables,
//! threads, local addresses and ports. They are checked and, where possible, arranged before a
//! socket opens; a failure names the missing resource. The rules are the doctor's
//! ([`thalweg_doctor::needs`]).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::sync::Once;

use thalweg_doctor::needs::{DESCRIPTORS_BESIDE, Sources, Threads, TooFewAddresses, share_out, spread};
use thalweg_lab::target::Target;
use thalweg_sys::resource_limits::{descriptors, ip_local_port_range, raise_descriptors};
use thalweg_sys::{PeerAddr, PortRange};

use crate::exit::{Failure, remark};

/// Arranges the descriptors for this many connections.
///
/// # Errors
/// Even the most threads with file tables of their own have too few.
pub(crate) fn threads(connections: usize, cpus: &[usize]) -> Result<Threads, Failure> {
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

/// Arranges local addresses and ports for this many connections to the target.
///
/// # Errors
/// The requested addresses are of the wrong family or not this host's, or there are too few of
/// them.
pub(crate) fn sources(connections: usize, target: &Target, asked: Vec<IpAddr>) -> Result<Sources, Failure> {
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
    spread(connections, peer, usual, asked).map_err(|TooFewAddresses { wanted, ports }| {
        Failure::unreachable(format!(
            "{connections} connections to {peer} need {wanted} local addresses, because one address has at most \
             {ports} ports; use --from FIRST-LAST (`ip address add ADDRESS dev DEVICE` adds an address)"
        ))
    })
}

/// Says that a proxy which the environment names is not used. A target on this host needs none.
pub(crate) fn remark_on_environment(target: &Target, has_proxy: bool) {
    static SAID: Once = Once::new();
    let names = ["http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];
    let set = names.iter().find(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    if let Some(name) = set.filter(|_| !has_proxy && !target.is_local()) {
        SAID.call_once(|| {
            remark(&format!("{name} is set, and not used: a load goes through a proxy only with --proxy URL"))
        });
    }
}

/// The local address that the kernel would connect from; any of the family if it does not say.
pub(crate) fn own_address(target: &Target) -> IpAddr {
    let PeerAddr::Tcp(peer) = target.address else { return Ipv4Addr::UNSPECIFIED.into() };
    let any: IpAddr = if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    // A datagram socket that is connected sends nothing.
    let chosen = UdpSocket::bind((any, 0)).and_then(|socket| socket.connect(peer).and_then(|()| socket.local_addr()));
    chosen.map_or(any, |local| local.ip())
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
