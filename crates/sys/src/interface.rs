//! Network interfaces: the one that leads to a peer, and its speed.

use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::ptr;

/// The interface over which packets to `peer` leave; `None` if it is unknown.
pub fn towards(peer: SocketAddr) -> Option<String> {
    let local = if peer.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    // A datagram socket chooses its route when it is connected, and sends nothing.
    let socket = UdpSocket::bind(local).ok()?;
    socket.connect(peer).ok()?;
    of_address(socket.local_addr().ok()?.ip())
}

/// The speed of an interface in bits per second, as its driver states it. Virtual interfaces state
/// one that bounds nothing; theirs is unknown.
pub fn speed(interface: &str) -> Option<u64> {
    let folder = format!("/sys/class/net/{interface}");
    fs::metadata(format!("{folder}/device")).ok()?;
    let megabits: i64 = fs::read_to_string(format!("{folder}/speed")).ok()?.trim().parse().ok()?;
    u64::try_from(megabits).ok().filter(|megabits| *megabits > 0).map(|megabits| megabits * 1_000_000)
}

fn of_address(wanted: IpAddr) -> Option<String> {
    let mut first: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: the pointer is to writable memory for one pointer; the list is freed below.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return None;
    }
    let mut found = None;
    let mut at = first;
    // SAFETY: the kernel's list is a chain of valid entries that ends with a null pointer, and
    // stays valid until it is freed.
    while let Some(entry) = unsafe { at.as_ref() } {
        if address(entry.ifa_addr) == Some(wanted) {
            // SAFETY: the name of an entry is a string that ends with a zero byte.
            let name = unsafe { std::ffi::CStr::from_ptr(entry.ifa_name) };
            found = Some(name.to_string_lossy().into_owned());
            break;
        }
        at = entry.ifa_next;
    }
    // SAFETY: `first` is the list that getifaddrs has returned, and nothing of it is used any more.
    unsafe { libc::freeifaddrs(first) };
    found
}

fn address(pointer: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: an address of the list is null, or valid for its family's length.
    let family = i32::from(unsafe { pointer.as_ref() }?.sa_family);
    match family {
        libc::AF_INET => {
            // SAFETY: an address of this family is a sockaddr_in; read unaligned in any case.
            let address = unsafe { pointer.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(IpAddr::from(address.sin_addr.s_addr.to_ne_bytes()))
        }
        libc::AF_INET6 => {
            // SAFETY: an address of this family is a sockaddr_in6; read unaligned in any case.
            let address = unsafe { pointer.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(IpAddr::from(address.sin6_addr.s6_addr))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_leads_to_this_host_and_has_no_speed() {
        assert_eq!(towards("127.0.0.1:80".parse().unwrap()).as_deref(), Some("lo"));
        assert_eq!(speed("lo"), None);
        assert_eq!(speed("no such interface"), None);
    }
}
