//! The places that origins answer for, found by URLs as an operator names them: with a host, whose
//! site is that of a request for it, or as a path, which is meant on all hosts. A scheme does not
//! count.

use std::collections::HashMap;

use crate::catalog::forwarding::{ForwardingMount, has_keys};
use crate::catalog::host::{host_key, without_port};
use crate::catalog::rules::relative;
use crate::config::{ServerConfig, SiteConfig, UnknownHost};
use crate::content::name::canonical_name;

/// The places that origins answer for.
pub struct ForwardedPlaces {
    sites: Vec<Vec<Place>>,
    hosts: HashMap<Box<[u8]>, usize>,
    refuses_unknown: bool,
    /// The first site has names, so that others which lead to it are not its own.
    is_first_named: bool,
}

/// A mount.
struct Place {
    /// The path as canonical names begin with it.
    prefix: Box<[u8]>,
    /// `None` if it has no origins.
    forwarding: Option<ForwardingMount>,
}

/// Objects at a place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForwardedTarget {
    /// The number of the mount among those that have origins.
    pub mount: usize,
    /// The target that origins are asked for, or the beginning of targets; with a slash in front.
    pub target: String,
}

impl ForwardedPlaces {
    /// The places of a configuration.
    pub fn of(config: &ServerConfig) -> Self {
        let (mut hosts, mut count) = (HashMap::new(), 0);
        let mut places_of = |site: &SiteConfig| {
            let places = site.mounts.iter().map(|mount| {
                let forwarding = (!mount.forwarding.origins.is_empty()).then(|| {
                    count += 1;
                    ForwardingMount::of(mount, count - 1, has_keys(config, mount))
                });
                Place { prefix: relative(&mount.path).into(), forwarding }
            });
            let mut places: Vec<_> = places.collect();
            // The longest path that fits comes first.
            places.sort_by_key(|place| std::cmp::Reverse(place.prefix.len()));
            places
        };
        let sites = config.sites.iter().map(&mut places_of).collect();
        for (index, site) in config.sites.iter().enumerate() {
            for name in &site.names {
                // The first that claims a name has it.
                hosts.entry(host_key(name)).or_insert(index);
            }
        }
        let is_first_named = config.sites.first().is_some_and(|site| !site.names.is_empty());
        Self { sites, hosts, refuses_unknown: config.unknown_host == UnknownHost::Refuse, is_first_named }
    }

    /// The objects of a URL: one for each site that it may be meant for.
    pub fn objects(&self, url: &str) -> Vec<ForwardedTarget> {
        let (host, path) = host_and_path(url);
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        let sites = self.sites_of(host).iter();
        sites.filter_map(|site| target_at(site, path.as_bytes(), query.map(str::as_bytes))).collect()
    }

    /// The beginnings of targets below a prefix: within a mount, and of whole mounts.
    pub fn below(&self, prefix: &str) -> Vec<ForwardedTarget> {
        let (host, path) = host_and_path(prefix);
        let mut found = Vec::new();
        for site in self.sites_of(host) {
            found.extend(target_at(site, path.as_bytes(), None));
            let mut name = Vec::new();
            if canonical_name(path.as_bytes(), &mut name).is_err() {
                continue;
            }
            let name = if name == b"/" { &[][..] } else { &name };
            let inner = site.iter().filter(|place| place.prefix.len() > name.len() && place.prefix.starts_with(name));
            let inner = inner.filter_map(|place| place.forwarding.as_ref());
            found.extend(inner.map(|mount| ForwardedTarget { mount: mount.index, target: "/".to_owned() }));
        }
        found
    }

    /// The numbers of the mounts at a path. A host is that of a site: a mistyped one must not be
    /// taken for the first site, although a request for it would be answered by that.
    pub fn mounts(&self, place: &str) -> Vec<usize> {
        let (host, path) = host_and_path(place);
        if !host.is_empty() && self.is_first_named && self.site_named(host).is_none() {
            return Vec::new();
        }
        let wanted = relative(path);
        let is_it = |place: &&Place| trimmed(&place.prefix) == trimmed(wanted);
        let places = self.sites_of(host).iter().flat_map(|site| site.iter().filter(is_it));
        places.filter_map(|place| Some(place.forwarding.as_ref()?.index)).collect()
    }

    /// The sites of a host; all without one.
    fn sites_of(&self, host: &str) -> &[Vec<Place>] {
        if without_port(host.as_bytes()).is_empty() || self.sites.is_empty() {
            return &self.sites;
        }
        match self.site_named(host) {
            None if self.refuses_unknown => &[],
            found => std::slice::from_ref(&self.sites[found.unwrap_or(0)]),
        }
    }

    /// The site that has a host among its names.
    fn site_named(&self, host: &str) -> Option<usize> {
        let name = without_port(host.as_bytes()).to_ascii_lowercase();
        let name = name.strip_suffix(b".").unwrap_or(&name);
        let dots = name.iter().enumerate().filter(|&(_, &byte)| byte == b'.').map(|(at, _)| at);
        std::iter::once(0).chain(dots).find_map(|start| self.hosts.get(&name[start..]).copied())
    }
}

/// The host of a URL, which may be empty, and all behind it.
fn host_and_path(url: &str) -> (&str, &str) {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")).unwrap_or(url);
    rest.find(['/', '?']).map_or((rest, "/"), |at| rest.split_at(at))
}

fn trimmed(prefix: &[u8]) -> &[u8] {
    prefix.strip_suffix(b"/").unwrap_or(prefix)
}

/// The target of a path of a site, if origins answer for it.
fn target_at(site: &[Place], path: &[u8], query: Option<&[u8]>) -> Option<ForwardedTarget> {
    let mut name = Vec::new();
    canonical_name(path, &mut name).ok()?;
    let name = if name == b"/" { &[][..] } else { &name };
    let place = site.iter().find(|place| name.starts_with(&place.prefix))?;
    let mount = place.forwarding.as_ref()?;
    let mut target = Vec::new();
    mount.push_target(Some(path), name, query, &mut target);
    Some(ForwardedTarget { mount: mount.index, target: String::from_utf8(target).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ListenAddr, MountConfig, MountOrigin};

    fn places() -> ForwardedPlaces {
        let mut config = ServerConfig::new("/srv", Vec::<ListenAddr>::new());
        let forwarded = |path: &str| {
            let mut mount = MountConfig::new(path, "");
            mount.forwarding.origins = vec![MountOrigin::new("o")];
            mount
        };
        config.sites[0].names = vec!["a.example".to_owned(), "*.a.example".to_owned()];
        config.sites[0].mounts =
            vec![forwarded("/debian/"), MountConfig::new("/debian/local/", "/srv"), forwarded("/")];
        let mut other = config.sites[0].clone();
        other.names = vec!["b.example".to_owned()];
        other.mounts = vec![forwarded("/debian/")];
        config.sites.push(other);
        ForwardedPlaces::of(&config)
    }

    fn targets(found: Vec<ForwardedTarget>) -> Vec<(usize, String)> {
        found.into_iter().map(|found| (found.mount, found.target)).collect()
    }

    #[test]
    fn urls_are_objects_of_the_mounts_that_requests_for_them_reach() {
        let check = |url: &str, expected: &[(usize, &str)]| {
            let expected: Vec<_> = expected.iter().map(|(mount, target)| (*mount, (*target).to_owned())).collect();
            assert_eq!(targets(places().objects(url)), expected, "{url}");
        };
        check("https://a.example/debian/x%7Ey?q=1", &[(0, "/x~y?q=1")]);
        check("A.Example:8080/debian/x", &[(0, "/x")]);
        check("http://deep.a.example/x", &[(1, "/x")]);
        check("b.example/debian/pool/", &[(2, "/pool/")]);
        check("b.example/x", &[]);
        check("c.example/x", &[(1, "/x")]);
        check("/debian/a%2Bb", &[(0, "/a%2Bb"), (2, "/a%2Bb")]);
        check("a.example", &[(1, "/")]);
        check("a.example/debian/local/x", &[]);
        check("a.example/debian/../debian/x", &[(0, "/x")]);
        check("a.example/%zz", &[]);
    }

    #[test]
    fn prefixes_are_within_a_mount_and_have_mounts_below() {
        let check = |prefix: &str, expected: &[(usize, &str)]| {
            let expected: Vec<_> = expected.iter().map(|(mount, target)| (*mount, (*target).to_owned())).collect();
            assert_eq!(targets(places().below(prefix)), expected, "{prefix}");
        };
        check("a.example/debian/dists/si", &[(0, "/dists/si")]);
        check("/debian/dists/", &[(0, "/dists/"), (2, "/dists/")]);
        check("a.example/deb", &[(1, "/deb"), (0, "/")]);
        check("https://b.example/", &[(2, "/")]);
        check("a.example/debian/local/", &[]);
    }

    #[test]
    fn mounts_are_named_by_their_path_and_a_host() {
        for (place, expected) in [
            ("/debian/", &[0, 2][..]),
            ("/debian", &[0, 2]),
            ("a.example/debian/", &[0]),
            ("https://a.example/", &[1]),
            ("a.example", &[1]),
            ("b.example/", &[]),
            ("deep.a.example:8080/debian/", &[0]),
            // A request for it would be answered by the first site.
            ("a.exmaple/debian/", &[]),
            ("c.example/", &[]),
            ("/debian/local/", &[]),
        ] {
            assert_eq!(places().mounts(place), expected, "{place}");
        }
    }
}
