//! The addresses of one host name. They are looked up again after a time, when a connection needs
//! them; requests that come meanwhile wait for the same look-up.
//!
//! The time is set for all names: the system's resolver does not tell their times to live.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
use url::Host;

type Found = io::Result<Vec<SocketAddr>>;

/// Looks up the addresses of a name, and puts the port to them.
pub(super) type Lookup = Box<dyn Fn(String, u16) -> Pin<Box<dyn Future<Output = Found> + Send>> + Send + Sync>;

pub(super) struct Resolver {
    name: String,
    port: u16,
    fixed: Option<IpAddr>,
    lookup: Lookup,
    /// How long addresses are used.
    age: Duration,
    known: Mutex<Option<(Instant, Vec<SocketAddr>)>>,
}

impl Resolver {
    pub(super) fn new<S: AsRef<str>>(host: &Host<S>, port: u16, age: Duration) -> Self {
        Self::with_lookup(host, port, age, Box::new(|name, port| Box::pin(by_system(name, port))))
    }

    fn with_lookup<S: AsRef<str>>(host: &Host<S>, port: u16, age: Duration, lookup: Lookup) -> Self {
        let (name, fixed) = match host {
            Host::Domain(name) => (name.as_ref().to_owned(), None),
            Host::Ipv4(address) => (address.to_string(), Some(IpAddr::V4(*address))),
            Host::Ipv6(address) => (address.to_string(), Some(IpAddr::V6(*address))),
        };
        Self { name, port, fixed, lookup, age, known: Mutex::new(None) }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The addresses; at least one. Those of before are used on while the look-up fails.
    pub(super) async fn addresses(&self) -> Found {
        if let Some(address) = self.fixed {
            return Ok(vec![SocketAddr::new(address, self.port)]);
        }
        let mut known = self.known.lock().await;
        if let Some((found, addresses)) = &*known
            && found.elapsed() < self.age
        {
            return Ok(addresses.clone());
        }
        match ((self.lookup)(self.name.clone(), self.port).await, &mut *known) {
            (Ok(addresses), known) if !addresses.is_empty() => {
                *known = Some((Instant::now(), addresses.clone()));
                Ok(addresses)
            }
            (_, Some((found, addresses))) => {
                *found = Instant::now();
                Ok(addresses.clone())
            }
            (Ok(_), None) => Err(io::Error::other("the resolver found none")),
            (Err(error), None) => Err(error),
        }
    }
}

async fn by_system(name: String, port: u16) -> Found {
    Ok(tokio::net::lookup_host((name, port)).await?.collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU16, Ordering};

    use super::*;

    fn address(last: u16) -> SocketAddr {
        format!("127.0.0.{last}:80").parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn names_are_looked_up_again_after_their_time_and_outlive_a_failing_resolver() {
        let lookups = Arc::new(AtomicU16::new(0));
        let counted = Arc::clone(&lookups);
        let lookup: Lookup = Box::new(move |name, port| {
            assert_eq!((&*name, port), ("origin.example", 80));
            let number = counted.fetch_add(1, Ordering::Relaxed);
            Box::pin(async move { if number == 2 { Err(io::Error::other("away")) } else { Ok(vec![address(number)]) } })
        });
        let resolver = Resolver::with_lookup(&Host::Domain("origin.example"), 80, Duration::from_secs(30), lookup);
        for (advance_s, expected, lookups_so_far) in
            [(0, 0, 1), (29, 0, 1), (1, 1, 2), (30, 1, 3), (29, 1, 3), (1, 3, 4)]
        {
            tokio::time::advance(Duration::from_secs(advance_s)).await;
            assert_eq!(resolver.addresses().await.unwrap(), [address(expected)]);
            assert_eq!(lookups.load(Ordering::Relaxed), lookups_so_far);
        }
    }

    #[tokio::test]
    async fn an_address_is_not_looked_up() {
        let lookup: Lookup = Box::new(|_, _| panic!("it is an address"));
        let resolver = Resolver::with_lookup(&Host::<&str>::Ipv6("::1".parse().unwrap()), 443, Duration::ZERO, lookup);
        assert_eq!(resolver.addresses().await.unwrap(), ["[::1]:443".parse().unwrap()]);
    }
}
