//! The hosts that requests to the status listener may name.
//!
//! The listener has no password, so only its address protects it: a browser on this host reaches
//! it, and so does any page in that browser. Such a page can have its own name resolve to this
//! address (DNS rebinding) and then read the responses as its own. It cannot change the Host that
//! the browser sends, which is the page's own name. IP addresses cannot be rebound and are always
//! accepted; names have to be configured.

use std::net::Ipv4Addr;

use thalweg_sys::proc::host_name;

/// The known names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KnownHosts(Vec<String>);

impl KnownHosts {
    /// `localhost`, the name of this host, and these, in any case; `*.example.org` stands for all
    /// names beneath `example.org`.
    pub(crate) fn of(allowed: &[String]) -> Self {
        let own = ["localhost".to_owned(), host_name()];
        Self(
            own.into_iter()
                .chain(allowed.iter().cloned())
                .map(|name| without_dot(&name).to_ascii_lowercase())
                .collect(),
        )
    }

    /// Whether a request for this host, which may have a port, is accepted. A request without a
    /// host does not come from a browser.
    pub(crate) fn has(&self, host: Option<&str>) -> bool {
        let host = host.unwrap_or_default();
        if host.is_empty() || host.starts_with('[') {
            return true;
        }
        let name = without_dot(host.split(':').next().unwrap_or_default()).to_ascii_lowercase();
        let is_known = |known: &String| match known.strip_prefix('*') {
            Some(tail) => name.len() > tail.len() && name.ends_with(tail),
            None => *known == name,
        };
        name.parse::<Ipv4Addr>().is_ok() || self.0.iter().any(is_known)
    }
}

fn without_dot(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_known_names_are_asked_for() {
        let hosts = KnownHosts::of(&["Status.Example.org".to_owned(), "*.internal".to_owned()]);
        let own = host_name();
        for known in [
            "",
            "127.0.0.1",
            "192.0.2.7:9180",
            "[::1]",
            "[2001:db8::1]:9180",
            "localhost",
            "LOCALHOST.:80",
            "status.example.org",
            "status.example.org.:9180",
            "a.b.internal",
            &own,
        ] {
            assert!(hosts.has(Some(known)), "{known}");
        }
        assert!(hosts.has(None));
        for unknown in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "example.org",
            "internal",
            ".internal",
            "1.2.3",
        ] {
            assert!(!hosts.has(Some(unknown)), "{unknown}");
        }
    }
}
