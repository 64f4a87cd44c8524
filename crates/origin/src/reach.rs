//! The addresses that may be connected to, whatever name they were found by: a redirect must not
//! lead this server to its own host or network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The addresses that an origin may have.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Reach {
    /// All: an operator has named the origin.
    #[default]
    Anywhere,
    /// Addresses of the public internet, and of these networks.
    Public(Vec<Prefix>),
}

/// The addresses that begin with some bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prefix {
    /// An address that begins so.
    pub address: IpAddr,
    /// The number of the bits.
    pub bits: u8,
}

impl Reach {
    pub(crate) fn allows(&self, address: IpAddr) -> bool {
        match self {
            Self::Anywhere => true,
            Self::Public(others) => {
                let address = address.to_canonical();
                is_public(address) || others.iter().any(|prefix| prefix.contains(address))
            }
        }
    }
}

impl Prefix {
    fn contains(self, address: IpAddr) -> bool {
        let (own, other, length) = match (self.address.to_canonical(), address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => (u128::from(own.to_bits()), u128::from(other.to_bits()), 32),
            (IpAddr::V6(own), IpAddr::V6(other)) => (own.to_bits(), other.to_bits(), 128),
            _ => return false,
        };
        let shift = length - u32::from(self.bits).min(length);
        own.checked_shr(shift).unwrap_or(0) == other.checked_shr(shift).unwrap_or(0)
    }
}

/// Prefixes that lead nowhere or to the neighbourhood (RFC 6890 and the registries of IANA).
const NOT_PUBLIC_V4: [([u8; 4], u32); 15] = [
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
];

/// Within 2000::/3, beside which nothing is public.
const NOT_PUBLIC_V6: [([u16; 3], u32); 4] =
    [([0x2001, 0, 0], 23), ([0x2001, 0xdb8, 0], 32), ([0x3fff, 0, 0], 20), ([0x2620, 0x4f, 0x8000], 48)];

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let bits = address.to_bits();
    !NOT_PUBLIC_V4.iter().any(|(prefix, length)| (bits ^ Ipv4Addr::from(*prefix).to_bits()) >> (32 - length) == 0)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let embedded = |high: u16, low: u16| is_public_v4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    match segments {
        // Translators and tunnels lead to an address of IPv4.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => return embedded(high, low),
        [0x2002, high, low, ..] => return embedded(high, low),
        _ => {}
    }
    let bits = address.to_bits();
    let begins = |(prefix, length): &([u16; 3], u32)| {
        let [a, b, c] = *prefix;
        (bits ^ Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0).to_bits()) >> (128 - length) == 0
    };
    segments[0] & 0xe000 == 0x2000 && !NOT_PUBLIC_V6.iter().any(begins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_lead_to_public_addresses_however_they_are_written() {
        let reach = Reach::Public(Vec::new());
        for address in ["1.1.1.1", "172.32.0.1", "192.0.1.1", "100.128.0.1", "2606:4700::1111", "2a00::1"] {
            assert!(reach.allows(address.parse().unwrap()), "{address}");
        }
        for address in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.255.255",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.0.1",
            "198.19.0.1",
            "203.0.113.9",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:c0a8:1::1",
            "3fff::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            let address = address.parse().unwrap();
            assert!(!reach.allows(address) && Reach::Anywhere.allows(address), "{address}");
        }
        // These translators lead to public addresses.
        assert!(reach.allows("64:ff9b::101:101".parse().unwrap()) && reach.allows("2002:101:101::".parse().unwrap()));
    }

    #[test]
    fn an_operator_adds_networks() {
        let prefix = |address: &str, bits| Prefix { address: address.parse().unwrap(), bits };
        let reach = Reach::Public(vec![prefix("10.1.0.0", 16), prefix("fd00::", 8), prefix("127.0.0.1", 32)]);
        for (address, expected) in [
            ("10.1.2.3", true),
            ("10.2.0.1", false),
            ("::ffff:10.1.2.3", true),
            ("fd12::1", true),
            ("fc00::1", false),
            ("127.0.0.1", true),
            ("127.0.0.2", false),
        ] {
            assert_eq!(reach.allows(address.parse().unwrap()), expected, "{address}");
        }
        assert!(Reach::Public(vec![prefix("::", 0)]).allows("::1".parse().unwrap()));
        assert!(Reach::Public(vec![prefix("0.0.0.0", 0)]).allows("127.0.0.1".parse().unwrap()));
    }
}
