//! The networks whose clients are served: by the whole server, by a site, or by a mount.
//!
//! The lists of the server hold for all requests. Of a site's and a mount's lists, those of the
//! mount decide if it has any.

use std::net::IpAddr;

use crate::config::{DeniedClients, NetworkLists, ServerConfig};

/// The clients that are let in.
pub(crate) struct NetworkAccess {
    server: NetworkLists,
    /// By the numbers of sites.
    sites: Box<[NetworkLists]>,
    /// By the numbers of mounts.
    mounts: Box<[NetworkLists]>,
    closes: bool,
}

impl NetworkAccess {
    /// The access to the sites of a configuration; `None` if all clients have it.
    pub(crate) fn of(config: &ServerConfig) -> Option<Self> {
        let sites: Box<[_]> = config.sites.iter().map(|site| site.networks.clone()).collect();
        let mounts = config.sites.iter().flat_map(|site| &site.mounts);
        let mounts: Box<[_]> = mounts.map(|mount| mount.networks.clone()).collect();
        let is_open = sites.iter().chain(&mounts).chain([&config.networks]).all(NetworkLists::is_empty);
        let closes = config.denied_clients == DeniedClients::Close && !config.networks.is_empty();
        (!is_open).then(|| Self { server: config.networks.clone(), sites, mounts, closes })
    }

    /// Whether a client is let in to a site and, if the request is for one, to its mount; `None` is
    /// neither.
    pub(crate) fn let_in(&self, place: Option<(usize, Option<u16>)>, client: Option<IpAddr>) -> bool {
        let of_place = place.map(|(site, mount)| match mount.map(|mount| &self.mounts[usize::from(mount)]) {
            Some(lists) if !lists.is_empty() => lists,
            _ => &self.sites[site],
        });
        self.server.let_in(client) && of_place.is_none_or(|lists| lists.let_in(client))
    }

    /// Whether a connection is closed when it is accepted.
    pub(crate) fn closes(&self, client: Option<IpAddr>) -> bool {
        self.closes && !self.server.let_in(client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ListenAddr, MountConfig, SiteConfig};

    fn lists(allow: &[&str], deny: &[&str]) -> NetworkLists {
        let list = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        NetworkLists { allow: list(allow), deny: list(deny) }
    }

    fn config() -> ServerConfig {
        let mut config = ServerConfig::new("/", Vec::<ListenAddr>::new());
        config.networks = lists(&[], &["192.0.2.0/24"]);
        let site = &mut config.sites[0];
        site.networks = lists(&["10.0.0.0/8"], &[]);
        site.mounts.push(MountConfig { networks: lists(&[], &["10.1.0.0/16"]), ..MountConfig::new("/pub/", "/") });
        config.sites.push(SiteConfig { names: vec!["b.example".to_owned()], ..SiteConfig::new("/") });
        config
    }

    #[test]
    fn the_lists_of_a_mount_replace_those_of_its_site_and_not_those_of_the_server() {
        let access = NetworkAccess::of(&config()).unwrap();
        for (client, place, is_let_in) in [
            ("10.1.0.1", Some((0, Some(0))), true),
            ("203.0.113.1", Some((0, Some(0))), false),
            ("10.1.0.1", Some((0, Some(1))), false),
            ("203.0.113.1", Some((0, Some(1))), true),
            ("192.0.2.1", Some((0, Some(1))), false),
            ("203.0.113.1", Some((1, Some(2))), true),
            ("192.0.2.1", Some((1, Some(2))), false),
            ("203.0.113.1", Some((0, None)), false),
            ("203.0.113.1", Some((1, None)), true),
            ("192.0.2.1", None, false),
            ("203.0.113.1", None, true),
        ] {
            assert_eq!(access.let_in(place, Some(client.parse().unwrap())), is_let_in, "{client} {place:?}");
        }
        assert!(!access.closes(Some("192.0.2.1".parse().unwrap())), "its requests get a response");
    }

    #[test]
    fn connections_are_closed_by_the_lists_of_the_server_alone() {
        let access = NetworkAccess::of(&ServerConfig { denied_clients: DeniedClients::Close, ..config() }).unwrap();
        assert!(access.closes(Some("192.0.2.1".parse().unwrap())));
        assert!(!access.closes(Some("203.0.113.1".parse().unwrap())));
        assert!(!access.closes(None));
        let open = ServerConfig::new("/", Vec::<ListenAddr>::new());
        assert!(NetworkAccess::of(&ServerConfig { denied_clients: DeniedClients::Close, ..open }).is_none());
    }
}
