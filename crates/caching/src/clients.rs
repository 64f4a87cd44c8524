//! The fields of a request that tell an origin for whom it is.
//!
//! A client can write anything into them, and an origin that reads them believes it. So none of
//! them goes on but what a trusted proxy says, and this server adds whom it has the request from.

use std::net::IpAddr;

use thalweg_wire::forwarded::ClientField;

use crate::fields::{FieldLines, StoredFields};

/// The other end of the connection that a request has come by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PreviousHop {
    /// Its address, if it has one.
    pub address: Option<IpAddr>,
    /// It is a proxy whose fields are believed.
    pub is_trusted: bool,
    /// The field in which proxies are believed, and in which the origin is told.
    pub field: ClientField,
}

/// The name of a client whose address is not known (RFC 7239, 6.2).
const UNKNOWN: &str = "unknown";

/// The fields that name clients beside those with the [`PREFIX`].
const NAMES: [&str; 3] = ["forwarded", "x-real-ip", "true-client-ip"];
const PREFIX: &str = "x-forwarded-";

impl PreviousHop {
    /// Makes the fields of a request those that its origin gets. Of a trusted proxy the field that
    /// it is believed in goes on, with its own address behind; the other one may be its client's.
    /// Fields of anybody else are replaced.
    pub fn name_client(self, fields: &mut StoredFields) {
        let name = self.field.name();
        let mut chain: Vec<u8> = Vec::new();
        if self.is_trusted {
            for value in fields.all(name).filter(|value| !value.is_empty()) {
                chain.extend_from_slice(value);
                chain.extend_from_slice(b", ");
            }
            fields.remove(ClientField::Forwarded.name());
            fields.remove(ClientField::XForwardedFor.name());
        } else {
            fields.retain(|name| !names_client(name));
        }
        chain.extend_from_slice(self.node().as_bytes());
        fields.push(name, &chain);
    }

    fn node(self) -> String {
        match (self.field, self.address.map(|address| address.to_canonical())) {
            (ClientField::XForwardedFor, Some(address)) => address.to_string(),
            (ClientField::XForwardedFor, None) => UNKNOWN.to_owned(),
            (ClientField::Forwarded, Some(IpAddr::V4(address))) => format!("for={address}"),
            (ClientField::Forwarded, Some(IpAddr::V6(address))) => format!("for=\"[{address}]\""),
            (ClientField::Forwarded, None) => format!("for={UNKNOWN}"),
        }
    }
}

fn names_client(name: &str) -> bool {
    let is_prefixed = name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX));
    is_prefixed || NAMES.iter().any(|other| name.eq_ignore_ascii_case(other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::tests::{fields, shown};

    #[track_caller]
    fn check(field: ClientField, from: (&str, bool), lines: &[&str], expected: &[&str]) {
        let hop = PreviousHop { address: from.0.parse().ok(), is_trusted: from.1, field };
        let mut fields = fields(lines);
        hop.name_client(&mut fields);
        assert_eq!(shown(&fields), expected, "{lines:?} of {from:?}");
    }

    const SPOOFED: [&str; 8] = [
        "Accept: a",
        "X-Forwarded-For: 198.51.100.9",
        "x-forwarded-for: 10.0.0.9",
        "Forwarded: for=198.51.100.9",
        "X-Forwarded-Host: evil.example",
        "x-forwarded-proto: https",
        "X-Real-IP: 198.51.100.9",
        "X-Forward: b",
    ];

    #[test]
    fn what_a_client_says_of_itself_reaches_no_origin() {
        use ClientField::{Forwarded, XForwardedFor};
        let kept = |last| ["Accept: a", "X-Forward: b", last];
        check(XForwardedFor, ("192.0.2.1", false), &SPOOFED, &kept("X-Forwarded-For: 192.0.2.1"));
        check(XForwardedFor, ("2001:db8::1", false), &SPOOFED, &kept("X-Forwarded-For: 2001:db8::1"));
        check(XForwardedFor, ("unix", false), &SPOOFED, &kept("X-Forwarded-For: unknown"));
        check(Forwarded, ("192.0.2.1", false), &SPOOFED, &kept("Forwarded: for=192.0.2.1"));
        check(Forwarded, ("2001:db8::1", false), &SPOOFED, &kept("Forwarded: for=\"[2001:db8::1]\""));
        check(Forwarded, ("unix", false), &SPOOFED, &kept("Forwarded: for=unknown"));
    }

    #[test]
    fn what_a_trusted_proxy_says_goes_on_with_its_own_address() {
        let lines = ["X-Forwarded-For: 192.0.2.1", "X-Forwarded-Proto: https", "X-Forwarded-For: 10.0.0.2"];
        let chain = "X-Forwarded-For: 192.0.2.1, 10.0.0.2, 10.0.0.1";
        check(ClientField::XForwardedFor, ("10.0.0.1", true), &lines, &["X-Forwarded-Proto: https", chain]);
        check(ClientField::XForwardedFor, ("10.0.0.1", true), &[], &["X-Forwarded-For: 10.0.0.1"]);
        // It is not said that the proxy writes the other field.
        let other = ["Forwarded: for=198.51.100.9", "X-Forwarded-For: 192.0.2.1"];
        let chain = "X-Forwarded-For: 192.0.2.1, 10.0.0.1";
        check(ClientField::XForwardedFor, ("10.0.0.1", true), &other, &[chain]);
        let chain = "Forwarded: for=198.51.100.9, for=unknown";
        check(ClientField::Forwarded, ("unix", true), &other, &[chain]);
    }
}
