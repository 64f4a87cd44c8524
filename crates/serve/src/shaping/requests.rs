//! Request rates: how many requests each client may make, by server, site and mount.
//!
//! Each limit is a token bucket in the form of the generic cell rate algorithm (ITU-T I.371): of a
//! client one time is kept, by which all its requests so far would be paid for. A request is let in
//! if that time is no farther ahead than the burst lasts. A request that is refused costs nothing.
//!
//! The times are in one table for all loops, of fixed size and without locks: a client has a place
//! in one set of a few, and takes that of the client whose time is the earliest. So a flood from
//! many addresses needs no more memory and no more time than a few clients do; it can have clients
//! forgotten that made requests lately, which then have their burst anew.

use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use foldhash::quality::RandomState;
use thalweg_sys::{Instant, SocketId};

use super::client::ClientKey;
use crate::config::{Limits, RequestLimit, ServerConfig};

/// Places in the table, in sets of so many: a set is on one or two cache lines.
const SETS: usize = 1 << 14;
const PLACES_PER_SET: usize = 8;

/// The requests that clients may make, and have made.
#[derive(Debug)]
pub(crate) struct RequestLimits {
    server: Option<Limit>,
    /// By the numbers of sites.
    sites: Box<[Option<Limit>]>,
    /// By the numbers of mounts.
    mounts: Box<[Option<Limit>]>,
    table: Box<[Set]>,
    hasher: RandomState,
}

/// A limit of each client.
#[derive(Clone, Copy, Debug)]
struct Limit {
    /// Time in which one request is paid for.
    request_ns: u64,
    /// The most that a client may be ahead of.
    burst_ns: u64,
}

#[derive(Default, Debug)]
#[repr(align(128))]
struct Set([Place; PLACES_PER_SET]);

/// A client's place under one limit.
#[derive(Default, Debug)]
struct Place {
    /// 0 until it is taken.
    key: AtomicU64,
    /// When all requests are paid for.
    paid_at: AtomicU64,
}

/// The client of a connection, as request limits know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RequestClient(u64);

/// A client has made too many requests; the time until it may make the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TooManyRequests {
    pub(crate) wait_ns: u64,
}

impl Limit {
    fn of(limit: &RequestLimit) -> Option<Self> {
        let (rate, burst) = limit.rate.zip(limit.burst_max())?;
        let request_ns = (rate.period.ns() / u64::from(rate.requests.get())).max(1);
        Some(Self { request_ns, burst_ns: request_ns.saturating_mul(burst.into()) })
    }
}

impl RequestLimits {
    /// The limits of a configuration; `None` if there are none.
    pub(crate) fn of(config: &ServerConfig) -> Option<Self> {
        let sites = config.sites.iter().map(|site| Limit::of(&site.request_limit)).collect();
        let mounts = config.sites.iter().flat_map(|site| &site.mounts);
        Self::new(&config.limits, sites, mounts.map(|mount| Limit::of(&mount.request_limit)).collect())
    }

    /// Those of the whole server alone.
    pub(crate) fn of_server(limits: &Limits) -> Option<Self> {
        Self::new(limits, Box::default(), Box::default())
    }

    fn new(limits: &Limits, sites: Box<[Option<Limit>]>, mounts: Box<[Option<Limit>]>) -> Option<Self> {
        let server = Limit::of(&limits.requests_per_client);
        let are_on = sites.iter().chain(&mounts).chain([&server]).any(Option::is_some);
        let table = || (0..SETS).map(|_| Set::default()).collect();
        are_on.then(|| Self { server, sites, mounts, table: table(), hasher: RandomState::default() })
    }

    /// The client at an address. One without an address is its connection.
    pub(crate) fn client(&self, address: Option<IpAddr>, socket: SocketId) -> RequestClient {
        RequestClient(match address.map(ClientKey::of) {
            Some(key) => self.hasher.hash_one(key),
            None => self.hasher.hash_one(socket.to_bits()),
        })
    }

    /// Counts a request for a site and its mount, if it is for one.
    ///
    /// # Errors
    /// One of the limits is reached. The narrowest is looked at first, so that requests which it
    /// refuses do not count for the others.
    pub(crate) fn take(
        &self,
        client: RequestClient,
        place: Option<(usize, Option<u16>)>,
        now: Instant,
    ) -> Result<(), TooManyRequests> {
        let (site, mount) = place.unzip();
        let mount = mount.flatten().map(usize::from);
        let of = |limits: &[Option<Limit>], number: Option<usize>| limits.get(number?).copied().flatten();
        let limits = [(of(&self.mounts, mount), mount), (of(&self.sites, site), site), (self.server, Some(0))];
        for (scope, (limit, number)) in limits.into_iter().enumerate() {
            if let (Some(limit), Some(number)) = (limit, number) {
                // There are at most 65,536 sites and mounts.
                self.take_of(limit, client.0 ^ self.hasher.hash_one((scope << 32) | number), now)?;
            }
        }
        Ok(())
    }

    fn take_of(&self, limit: Limit, key: u64, now: Instant) -> Result<(), TooManyRequests> {
        let place = self.place(key.max(1));
        let now = now.as_ns();
        let mut paid_at = place.paid_at.load(Relaxed);
        loop {
            let after = paid_at.max(now).saturating_add(limit.request_ns);
            let ahead_ns = after - now;
            if ahead_ns > limit.burst_ns {
                return Err(TooManyRequests { wait_ns: ahead_ns - limit.burst_ns });
            }
            // Only the number itself is shared, so no order with other memory is needed.
            match place.paid_at.compare_exchange_weak(paid_at, after, Relaxed, Relaxed) {
                Ok(_) => return Ok(()),
                Err(changed) => paid_at = changed,
            }
        }
    }

    /// The place of a key. Two loops that take one for different keys at the same time share it for
    /// that moment, which lets in no more requests than one of them may make.
    fn place(&self, key: u64) -> &Place {
        let Set(places) = &self.table[key as usize % SETS];
        if let Some(place) = places.iter().find(|place| place.key.load(Relaxed) == key) {
            return place;
        }
        let oldest = places.iter().min_by_key(|place| place.paid_at.load(Relaxed)).expect("a set has places");
        oldest.key.store(key, Relaxed);
        oldest.paid_at.store(0, Relaxed);
        oldest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ListenAddr, MountConfig};

    const SECOND_NS: u64 = 1_000_000_000;

    fn limit(rate: &str, burst: u32) -> RequestLimit {
        RequestLimit { rate: Some(rate.parse().unwrap()), burst }
    }

    fn of_server(rate: &str, burst: u32) -> RequestLimits {
        RequestLimits::of_server(&Limits { requests_per_client: limit(rate, burst), ..Limits::default() }).unwrap()
    }

    fn at(ms: u64) -> Instant {
        Instant::from_ns(1_000 * SECOND_NS + ms * 1_000_000)
    }

    fn client(limits: &RequestLimits, address: &str) -> RequestClient {
        limits.client(Some(address.parse().unwrap()), SocketId::from_bits(0))
    }

    #[test]
    fn a_client_has_its_burst_and_then_its_rate() {
        let limits = of_server("10/s", 3);
        let one = client(&limits, "192.0.2.1");
        // Milliseconds, and those to wait if it is refused.
        for (ms, wait_ms) in [
            (0, None),
            (0, None),
            (0, None),
            (0, Some(100)),
            (40, Some(60)),
            (100, None),
            (100, Some(100)),
            (350, None),
            (350, None),
            (350, Some(50)),
            (9000, None),
            (9000, None),
            (9000, None),
            (9000, Some(100)),
        ] {
            let expected = wait_ms.map_or(Ok(()), |ms: u64| Err(TooManyRequests { wait_ns: ms * 1_000_000 }));
            assert_eq!(limits.take(one, None, at(ms)), expected, "{ms} ms");
        }
        assert_eq!(limits.take(client(&limits, "192.0.2.2"), None, at(9000)), Ok(()), "another client");
    }

    #[test]
    fn over_an_hour_the_rate_is_exact() {
        for (rate, requests) in [("7/s", 7 * 3600), ("100/min", 6000), ("1000/h", 1000)] {
            let limits = of_server(rate, 2);
            let one = client(&limits, "192.0.2.1");
            let let_in = (0..3600 * 100).filter(|step| limits.take(one, None, at(step * 10)).is_ok()).count() as u64;
            assert!(let_in.abs_diff(requests) <= requests / 50 + 1, "{rate}: {let_in}");
            assert!(let_in <= requests + 2, "{rate}: {let_in}");
        }
    }

    #[test]
    fn clients_are_those_of_other_limits() {
        let limits = of_server("1/h", 1);
        let take = |address: &str| limits.take(client(&limits, address), None, at(0)).is_ok();
        assert!(take("2001:db8::1") && !take("2001:db8::ffff:1"), "one /64");
        assert!(take("2001:db8:0:1::1"));
        assert!(take("192.0.2.1") && !take("::ffff:192.0.2.1"));
        let local = |bits| limits.take(limits.client(None, SocketId::from_bits(bits)), None, at(0)).is_ok();
        assert!(local(1) && local(2) && !local(1), "each connection of a Unix socket is a client");
    }

    #[test]
    fn limits_of_mount_site_and_server_hold_together() {
        let mut config = ServerConfig::new("/", Vec::<ListenAddr>::new());
        config.limits.requests_per_client = limit("1/h", 6);
        config.sites[0].request_limit = limit("1/h", 4);
        config.sites[0].mounts.push(MountConfig { request_limit: limit("1/h", 2), ..MountConfig::new("/a/", "/") });
        config.sites.push(crate::config::SiteConfig::new("/"));
        let limits = RequestLimits::of(&config).unwrap();
        let one = client(&limits, "192.0.2.1");
        let let_in = |place| (0..10).filter(|_| limits.take(one, place, at(0)).is_ok()).count();
        assert_eq!(let_in(Some((0, Some(1)))), 2, "of the mount");
        assert_eq!(let_in(Some((0, Some(0)))), 2, "the rest of the site's");
        assert_eq!(let_in(Some((1, Some(2)))), 2, "the rest of the server's");
        assert_eq!(let_in(None), 0);
        assert!(RequestLimits::of(&ServerConfig::new("/", Vec::<ListenAddr>::new())).is_none());
    }

    #[test]
    fn a_flood_from_many_addresses_stays_in_the_table_and_stops_no_other_client() {
        let limits = of_server("10/s", 5);
        for number in 0..1_000_000u32 {
            let one = limits.client(Some(std::net::Ipv4Addr::from_bits(number).into()), SocketId::from_bits(0));
            assert_eq!(limits.take(one, None, at(u64::from(number) / 10_000)), Ok(()), "{number}");
        }
        assert_eq!(limits.table.len() * PLACES_PER_SET, 131_072);
    }

    #[test]
    fn loops_share_the_limit_of_a_client() {
        let limits = of_server("1/h", 1000);
        let one = client(&limits, "192.0.2.1");
        let of_loop = || (0..1000).filter(|_| limits.take(one, None, at(0)).is_ok()).count();
        // The client has its place before the loops meet.
        assert!(limits.take(one, None, at(0)).is_ok());
        let let_in: usize = std::thread::scope(|scope| {
            let loops: Vec<_> = (0..4).map(|_| scope.spawn(of_loop)).collect();
            loops.into_iter().map(|one| one.join().unwrap()).sum()
        });
        assert_eq!(let_in, 999);
    }
}
