//! Sites: from a request's host and path to the mount that it leads to and the settings that hold
//! there.
//!
//! All of it is compiled once from the configuration. With one site, a request costs nothing here:
//! hosts are only looked up where there is a choice, and mounts and rules only when a file is
//! loaded into the cache, whose entry keeps what they came to. No file beneath a root is ever read
//! for settings, which is what makes `.htaccess` slow.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::quality::RandomState;
use thalweg_wire::RequestHead;
use thalweg_wire::encode::{EncodeError, FieldBlock};

use crate::catalog::access::{ClientAccess, Peer};
use crate::catalog::error::CatalogError;
use crate::catalog::forwarding::ForwardingMounts;
use crate::catalog::host::{host_key, without_port};
use crate::catalog::networks::NetworkAccess;
use crate::catalog::proxies::TrustedProxies;
use crate::catalog::routing::Routings;
use crate::catalog::rules::{Rules, relative};
use crate::config::{MountConfig, Rule, ServerConfig, Settings, SiteConfig, UnknownHost};
use crate::content::local::namespace::{Namespace, Place};
use crate::content::local::tree::Tree;
use crate::content::policy::ResponsePolicy;

/// Longest name of a host (RFC 1035, 2.3.4). A longer one is no site's.
const HOST_BYTES_MAX: usize = 253;

const HSTS: &str = "Strict-Transport-Security";

/// All sites of a server, as one loop has them open.
pub(crate) struct Sites {
    sites: Vec<Site>,
    /// In lower case; what stands for all names beneath one begins with a dot.
    hosts: HashMap<Box<[u8]>, usize, RandomState>,
    unknown_host: UnknownHost,
    /// The site depends on the host.
    by_host: bool,
    /// The number of the first site's mount with the shortest path, on which is booked what leads
    /// to no other.
    pub(crate) topmost: u16,
    /// There if any client needs a certificate.
    pub(crate) access: Option<ClientAccess>,
    /// There if any request is redirected or rewritten.
    pub(crate) routings: Option<Routings>,
    /// There if any client is not let in.
    pub(crate) networks: Option<NetworkAccess>,
    /// Set if any proxy is trusted.
    pub(crate) proxies: Option<Arc<TrustedProxies>>,
    /// There if origins answer for any mount.
    pub(crate) forwarding: Option<ForwardingMounts>,
}

/// A virtual host.
pub(crate) struct Site {
    /// Those with longer paths first.
    mounts: Vec<Mount>,
    rules: Rules,
    error_pages: Vec<(u16, Vec<u8>)>,
    /// The field that tells browsers to use TLS alone, as it holds at the top of the site.
    hsts: Option<FieldBlock>,
}

/// A tree and where it is served.
pub(crate) struct Mount {
    /// The path as canonical names begin with it: without the slash in front.
    prefix: Box<[u8]>,
    /// `None` if all requests are redirected, or origins answer.
    tree: Option<Tree>,
    has_origins: bool,
    /// Its place among the mounts of all sites, in the order of the configuration.
    pub(crate) number: u16,
}

impl Sites {
    /// Opens all roots.
    pub(crate) fn open(config: &ServerConfig) -> Result<Self, CatalogError> {
        let mut hosts = HashMap::default();
        let mut sites = Vec::new();
        let mut mounts_before = 0;
        let hsts = hsts(config);
        for (index, site) in config.sites.iter().enumerate() {
            for name in &site.names {
                // The first that claims a name has it.
                hosts.entry(host_key(name)).or_insert(index);
            }
            sites.push(Site::open(site, hsts.as_ref(), mounts_before)?);
            mounts_before += site.mounts.len();
        }
        let by_host = sites.len() > 1 || config.unknown_host == UnknownHost::Refuse;
        let topmost = sites.first().and_then(|site| site.mounts.last()).map_or(0, |mount| mount.number);
        let access = ClientAccess::of(config);
        let (routings, networks) = (Routings::compile(&config.sites)?, NetworkAccess::of(config));
        let proxies = TrustedProxies::of(config);
        let (unknown_host, forwarding) = (config.unknown_host, ForwardingMounts::of(config));
        Ok(Self { sites, hosts, unknown_host, by_host, topmost, access, routings, networks, proxies, forwarding })
    }

    /// The site that a request is for. `None` if its host is none of a site, and is refused.
    #[inline]
    pub(crate) fn of_request(&self, request: &RequestHead<'_>) -> Option<usize> {
        if self.by_host { self.of_host(request.host().unwrap_or_default()) } else { Some(0) }
    }

    /// The site for a host, which may have its port behind it. A request that names none is for the
    /// first (RFC 9112, 3.3).
    fn of_host(&self, host: &str) -> Option<usize> {
        let name = without_port(host.as_bytes());
        let name = name.strip_suffix(b".").unwrap_or(name);
        let mut lower = [0; HOST_BYTES_MAX];
        let found = lower.get_mut(..name.len()).and_then(|lower| {
            lower.copy_from_slice(name);
            lower.make_ascii_lowercase();
            let dots = lower.iter().enumerate().filter(|&(_, &byte)| byte == b'.').map(|(at, _)| at);
            // The name itself, then what is beneath ever shorter ones.
            std::iter::once(0).chain(dots).find_map(|start| self.hosts.get(&lower[start..]).copied())
        });
        match self.unknown_host {
            UnknownHost::Refuse if !name.is_empty() => found,
            UnknownHost::Refuse | UnknownHost::First => Some(found.unwrap_or(0)),
        }
    }

    /// The field that tells the client of a request to use TLS alone, if it does so now (RFC 6797,
    /// 7.2).
    pub(crate) fn hsts(&self, request: &RequestHead<'_>, peer: Peer) -> Option<&FieldBlock> {
        self.site(self.of_request(request).filter(|_| peer.is_secure())?).hsts()
    }

    /// The site of this number.
    pub(crate) fn site(&self, number: usize) -> &Site {
        &self.sites[number]
    }

    /// The number of the mount that a canonical name of a site leads to, or of the site's topmost
    /// one if it leads to none.
    pub(crate) fn mount_number(&self, site: usize, name: &[u8]) -> u16 {
        self.mount_number_in(site, name).unwrap_or(self.topmost)
    }

    /// The same; `None` if the site has no mount.
    pub(crate) fn mount_number_in(&self, site: usize, name: &[u8]) -> Option<u16> {
        let site = &self.sites[site];
        site.mount_of(name).or(site.mounts.last()).map(|mount| mount.number)
    }
}

impl Namespace for Sites {
    fn place<'s, 'n>(&'s self, site: usize, name: &'n [u8]) -> Place<'s, 'n> {
        self.sites[site].place(name)
    }

    fn has_mounts_beneath(&self, site: usize, folder: &[u8]) -> bool {
        let folder = folder.strip_suffix(b"/").unwrap_or(folder);
        let is_beneath = |prefix: &[u8]| match prefix.strip_prefix(folder) {
            Some(rest) if folder.is_empty() => !rest.is_empty(),
            Some(rest) => rest.len() > 1 && rest.starts_with(b"/"),
            None => false,
        };
        self.sites[site].mounts.iter().any(|mount| mount.is_served() && is_beneath(&mount.prefix))
    }

    fn policy(&self, site: usize, folder: &[u8], file: &[u8]) -> Arc<ResponsePolicy> {
        self.sites[site].rules.effective(folder, Some(file)).policy
    }

    fn index_names(&self, site: usize, folder: &[u8]) -> Arc<[String]> {
        self.sites[site].rules.effective(folder, None).index_names
    }

    /// Appends the number of the site. A single site needs no number.
    #[inline]
    fn mark(&self, name: &mut Vec<u8>, site: usize) {
        if self.sites.len() > 1 {
            name.extend_from_slice(&(site as u16).to_be_bytes());
        }
    }

    #[inline]
    fn unmarked<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        let mark_bytes = if self.sites.len() > 1 { size_of::<u16>() } else { 0 };
        &key[..key.len() - mark_bytes]
    }
}

impl Site {
    fn open(config: &SiteConfig, hsts: Option<&Rule>, mounts_before: usize) -> Result<Self, CatalogError> {
        let mounts = config.mounts.iter().enumerate();
        let mounts = mounts.map(|(index, mount)| Mount::open(mount, mounts_before + index));
        let mut mounts = mounts.collect::<Result<Vec<_>, _>>()?;
        mounts.sort_by_key(|mount| std::cmp::Reverse(mount.prefix.len()));
        let error_pages = config.error_pages.iter();
        let error_pages = error_pages.map(|(status, page)| (*status, relative(page).to_vec())).collect();
        // A rule of the site may say something else.
        let rules: Vec<_> = hsts.into_iter().chain(&config.rules).cloned().collect();
        let rules = Rules::compile(&rules)?;
        let hsts = hsts_field(&rules.effective(b"", None).settings).map_err(CatalogError::Header)?;
        Ok(Self { mounts, rules, error_pages, hsts })
    }

    /// The field that tells browsers to use TLS alone, for responses that are made of no object.
    pub(crate) fn hsts(&self) -> Option<&FieldBlock> {
        self.hsts.as_ref()
    }

    /// The place that a name leads to: in the mount with the longest path that it begins with.
    fn place<'s, 'n>(&'s self, name: &'n [u8]) -> Place<'s, 'n> {
        let name = if name == b"/" { b"" } else { name };
        match self.mount_of(name) {
            Some(Mount { prefix, tree: Some(tree), number, .. }) => match name.strip_prefix(&**prefix) {
                Some(name) => Place::Within { tree, mount: *number, name },
                None => Place::MountPoint,
            },
            Some(Mount { tree: None, .. }) | None => Place::Outside,
        }
    }

    /// The mount that a name leads to, or into.
    fn mount_of(&self, name: &[u8]) -> Option<&Mount> {
        let leads = |mount: &&Mount| name.starts_with(&mount.prefix) || mount.prefix.strip_suffix(b"/") == Some(name);
        self.mounts.iter().find(leads)
    }

    /// The mounts beneath a folder, by their paths in it, without the slash at the end, and with
    /// their trees; `None` for those of origins. The folder ends with a slash, or is empty for the
    /// topmost.
    pub(crate) fn mounts_beneath<'s>(&'s self, folder: &'s [u8]) -> impl Iterator<Item = (&'s [u8], Option<&'s Tree>)> {
        self.mounts.iter().filter(|mount| mount.is_served()).filter_map(move |mount| {
            let path = mount.prefix.strip_prefix(folder)?.strip_suffix(b"/")?;
            Some((path, mount.tree.as_ref())).filter(|(path, _)| !path.is_empty())
        })
    }

    /// The settings of a file in a folder, or of the folder itself. The folder is a canonical name,
    /// which ends with a slash, or is empty for the topmost.
    pub(crate) fn settings(&self, folder: &[u8], file: Option<&[u8]>) -> Arc<Settings> {
        self.rules.effective(folder, file).settings
    }

    /// Whether any rule has digests of files sent.
    pub(crate) fn knows_digests(&self) -> bool {
        self.rules.know_digests()
    }

    /// The canonical name of the file that is the body of responses with this status.
    pub(crate) fn error_page(&self, status: u16) -> Option<&[u8]> {
        self.error_pages.iter().find(|(of, _)| *of == status).map(|(_, name)| name.as_slice())
    }
}

impl Mount {
    fn open(config: &MountConfig, number: usize) -> Result<Self, CatalogError> {
        let MountConfig { path, root, symlinks, dot_files, .. } = config;
        let prefix = relative(path);
        let open = || Tree::open(root, *symlinks, *dot_files, prefix.is_empty());
        let tree = config.has_root().then(open).transpose();
        let tree = tree.map_err(|error| CatalogError::Root { path: root.clone(), error })?;
        let has_origins = !config.forwarding.origins.is_empty();
        Ok(Self { prefix: prefix.into(), tree, has_origins, number: number as u16 })
    }

    /// Whether it is more than a redirect.
    fn is_served(&self) -> bool {
        self.tree.is_some() || self.has_origins
    }
}

/// The field that tells browsers to use TLS alone, if settings have it.
fn hsts_field(settings: &Settings) -> Result<Option<FieldBlock>, EncodeError> {
    let mut headers = settings.headers.iter();
    let Some((name, value)) = headers.find(|(name, _)| name.eq_ignore_ascii_case(HSTS)) else { return Ok(None) };
    let mut block = FieldBlock::new();
    block.field(name, value.as_bytes())?;
    Ok(Some(block))
}

/// The rule that tells browsers to use TLS alone (RFC 6797, 6.1).
fn hsts(config: &ServerConfig) -> Option<Rule> {
    let time = config.tls.as_ref()?.hsts?;
    let field = (HSTS.to_owned(), format!("max-age={}", time.as_secs()));
    let settings = Settings { headers: vec![field], ..Settings::default() };
    Some(Rule { settings, ..Rule::default() })
}
