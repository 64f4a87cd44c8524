//! From a request's host and path to what holds there: the site, the mount, the settings.
//!
//! All of it is compiled once from the configuration. With one site, a request costs nothing here: hosts are only looked
//! up where there is a choice, and mounts and rules only when a file is loaded into the cache, whose entry keeps what
//! they came to. No file beneath a root is ever read for settings, which is what makes `.htaccess` slow.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::quality::RandomState;
use globset::GlobMatcher;
use thalweg_sys::file::Links;
use thalweg_sys::{File, Root, Wait};
use thalweg_wire::RequestHead;

use crate::config::{MountConfig, Rule, ServerConfig, Settings, SiteConfig, Symlinks, UnknownHost};
use crate::content::local::resolve::{self, Refusal};
use crate::content::policy::ResponsePolicy;
use crate::server::StartError;

/// Longest name of a host (RFC 1035, 2.3.4). A longer one is nobody's.
const HOST_BYTES_MAX: usize = 253;

/// All sites of a server, as one core has them open.
pub(crate) struct Sites {
    sites: Vec<Site>,
    /// In lower case; what stands for all names beneath one begins with a dot.
    hosts: HashMap<Box<[u8]>, usize, RandomState>,
    unknown_host: UnknownHost,
    /// Hosts make a difference.
    by_host: bool,
    /// The number of the first site's mount with the shortest path, on which is booked what leads to no other.
    pub(crate) topmost: u16,
}

/// A virtual host.
pub(crate) struct Site {
    /// Those with longer paths first.
    mounts: Vec<Mount>,
    rules: Vec<CompiledRule>,
    /// What rules came to: one for each combination that was met. There are no more than files of this site can be told
    /// apart by, which its operator has written down, not its clients.
    effective: Mutex<HashMap<Box<[bool]>, Effective, RandomState>>,
    error_pages: Vec<(u16, Vec<u8>)>,
}

/// What several rules come to.
#[derive(Clone)]
struct Effective {
    settings: Arc<Settings>,
    policy: Arc<ResponsePolicy>,
}

/// A tree and where it is served.
pub(crate) struct Mount {
    /// The path as canonical names begin with it: without the slash in front.
    prefix: Box<[u8]>,
    root: Root,
    /// The same for a first try, which does not wait for a disk.
    root_at_once: Root,
    dot_files: bool,
    /// Its place among the mounts of all sites, in the order of the configuration.
    pub(crate) number: u16,
}

struct CompiledRule {
    /// As canonical names begin.
    folder: Box<[u8]>,
    files: Option<GlobMatcher>,
    settings: Settings,
}

/// Where a canonical name leads.
pub(crate) enum Place<'s, 'n> {
    /// Into a tree: the mount, and the name relative to its root, which is empty for the root itself.
    Within(&'s Mount, &'n [u8]),
    /// To the path of a mount, without the slash at its end.
    MountPoint,
    /// Nowhere.
    Outside,
}

impl Sites {
    /// Opens all roots.
    pub(crate) fn open(config: &ServerConfig) -> Result<Self, StartError> {
        let mut hosts = HashMap::default();
        let mut sites = Vec::new();
        let mut mounts_before = 0;
        for (index, site) in config.sites.iter().enumerate() {
            for name in &site.names {
                // The first that claims a name has it.
                hosts.entry(host_key(name)).or_insert(index);
            }
            sites.push(Site::open(site, mounts_before)?);
            mounts_before += site.mounts.len();
        }
        let by_host = sites.len() > 1 || config.unknown_host == UnknownHost::Refuse;
        let topmost = sites.first().and_then(|site| site.mounts.last()).map_or(0, |mount| mount.number);
        Ok(Self { sites, hosts, unknown_host: config.unknown_host, by_host, topmost })
    }

    /// The site that a request is for. `None` if it is for a host that nobody here answers for.
    #[inline]
    pub(crate) fn of_request(&self, request: &RequestHead<'_>) -> Option<usize> {
        if self.by_host { self.of_host(request.host().unwrap_or_default()) } else { Some(0) }
    }

    /// The site for a host, which may have its port behind it. Those who name none get the first (RFC 9112, 3.3).
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

    /// The site of this number.
    pub(crate) fn site(&self, number: usize) -> &Site {
        &self.sites[number]
    }

    /// The number of the mount that a canonical name of a site leads to, or of the site's topmost one if it leads to none.
    pub(crate) fn mount_number(&self, site: usize, name: &[u8]) -> u16 {
        let site = &self.sites[site];
        site.mount_of(name).or(site.mounts.last()).map_or(0, |mount| mount.number)
    }

    /// Puts the number of a site behind a canonical name, which makes a name that is unique among all sites. With a single
    /// one there is nothing to tell apart.
    #[inline]
    pub(crate) fn mark(&self, name: &mut Vec<u8>, site: usize) {
        if self.sites.len() > 1 {
            name.extend_from_slice(&(site as u16).to_be_bytes());
        }
    }

    /// The canonical name without the mark.
    #[inline]
    pub(crate) fn unmarked<'n>(&self, marked: &'n [u8]) -> &'n [u8] {
        let mark_bytes = if self.sites.len() > 1 { size_of::<u16>() } else { 0 };
        &marked[..marked.len() - mark_bytes]
    }
}

impl Site {
    fn open(config: &SiteConfig, mounts_before: usize) -> Result<Self, StartError> {
        let mounts = config.mounts.iter().enumerate();
        let mounts = mounts.map(|(index, mount)| Mount::open(mount, mounts_before + index));
        let mut mounts = mounts.collect::<Result<Vec<_>, _>>()?;
        mounts.sort_by_key(|mount| std::cmp::Reverse(mount.prefix.len()));
        let rules = config.rules.iter().map(CompiledRule::new).collect::<Result<_, _>>()?;
        let error_pages = config.error_pages.iter();
        let error_pages = error_pages.map(|(status, page)| (*status, relative(page).to_vec())).collect();
        Ok(Self { mounts, rules, effective: Mutex::default(), error_pages })
    }

    /// Where a canonical name leads: the mount with the longest path that it begins with.
    pub(crate) fn place<'s, 'n>(&'s self, name: &'n [u8]) -> Place<'s, 'n> {
        let name = if name == b"/" { b"" } else { name };
        match self.mount_of(name) {
            Some(mount) => {
                name.strip_prefix(&*mount.prefix).map_or(Place::MountPoint, |within| Place::Within(mount, within))
            }
            None => Place::Outside,
        }
    }

    /// The mount that a name leads to, or into.
    fn mount_of(&self, name: &[u8]) -> Option<&Mount> {
        let leads = |mount: &&Mount| name.starts_with(&mount.prefix) || mount.prefix.strip_suffix(b"/") == Some(name);
        self.mounts.iter().find(leads)
    }

    /// The mounts that lie directly beneath a folder, by their names in it. The folder ends with a slash, or is empty for the topmost.
    pub(crate) fn mounts_in<'s>(&'s self, folder: &'s [u8]) -> impl Iterator<Item = (&'s [u8], &'s Mount)> {
        self.mounts.iter().filter_map(move |mount| {
            let name = mount.prefix.strip_prefix(folder)?.strip_suffix(b"/")?;
            (!name.is_empty() && !name.contains(&b'/')).then_some((name, mount))
        })
    }

    /// The settings of a file in a folder, or of the folder itself. The folder is a canonical name, which ends with a
    /// slash, or is empty for the topmost.
    pub(crate) fn settings(&self, folder: &[u8], file: Option<&[u8]>) -> Arc<Settings> {
        self.effective(folder, file).settings
    }

    /// How a file in a folder is presented.
    pub(crate) fn policy(&self, folder: &[u8], file: &[u8]) -> Arc<ResponsePolicy> {
        self.effective(folder, Some(file)).policy
    }

    fn effective(&self, folder: &[u8], file: Option<&[u8]>) -> Effective {
        let holds: Box<[bool]> = self.rules.iter().map(|rule| rule.holds(folder, file)).collect();
        let mut known = self.effective.lock().unwrap_or_else(PoisonError::into_inner);
        let effective = known.entry(holds).or_insert_with_key(|holds| {
            let mut settings = Settings::default();
            for (rule, _) in self.rules.iter().zip(holds).filter(|&(_, &holds)| holds) {
                settings.overlay(&rule.settings);
            }
            let policy = ResponsePolicy::of(&settings).expect("each rule was looked at when it was compiled");
            Effective { settings: Arc::new(settings), policy: Arc::new(policy) }
        });
        effective.clone()
    }

    /// The canonical name of the file that is the body of responses with this status.
    pub(crate) fn error_page(&self, status: u16) -> Option<&[u8]> {
        self.error_pages.iter().find(|(of, _)| *of == status).map(|(_, name)| name.as_slice())
    }
}

impl Mount {
    fn open(config: &MountConfig, number: usize) -> Result<Self, StartError> {
        let root = Root::open(&config.root).map_err(|error| StartError::Root { path: config.root.clone(), error })?;
        let links = match config.symlinks {
            Symlinks::Deny => Links::None,
            Symlinks::Beneath => Links::Beneath,
            Symlinks::OwnerMatch => Links::OfOwner,
        };
        let root = root.following(links);
        Ok(Self {
            prefix: relative(&config.path).into(),
            root_at_once: root.at_once(),
            root,
            dot_files: config.dot_files,
            number: number as u16,
        })
    }

    /// Opens what has this name, relative to the root. `room` is room to write in.
    pub(crate) fn open_file(&self, name: &[u8], wait: Wait, room: &mut Vec<u8>) -> Result<File, Refusal> {
        if self.hides(name) {
            return Err(Refusal::NotFound);
        }
        resolve::open_beneath(self.root(wait), name, room)
    }

    /// Opens a folder, whose name is empty for the root itself and else ends with a slash.
    pub(crate) fn open_folder(&self, name: &[u8], wait: Wait, room: &mut Vec<u8>) -> Result<File, Refusal> {
        if name.is_empty() {
            return resolve::open_beneath(self.root(wait), b".", room);
        }
        self.open_file(name, wait, room)
    }

    fn root(&self, wait: Wait) -> &Root {
        match wait {
            Wait::Allowed => &self.root,
            Wait::Never => &self.root_at_once,
        }
    }

    /// Whether a name is not served because of a dot at the beginning of one of its parts.
    pub(crate) fn hides(&self, name: &[u8]) -> bool {
        // RFC 8615: what stands there is meant for the world.
        let at_top = self.prefix.is_empty().then(|| name.strip_prefix(b".well-known")).flatten();
        let parts = at_top.filter(|rest| matches!(rest, [] | [b'/', ..])).unwrap_or(name);
        !self.dot_files && parts.split(|&byte| byte == b'/').any(|part| part.starts_with(b"."))
    }
}

impl CompiledRule {
    fn new(rule: &Rule) -> Result<Self, StartError> {
        let files = rule.files.as_deref().map(compile_pattern).transpose().map_err(StartError::Pattern)?;
        ResponsePolicy::of(&rule.settings).map_err(StartError::Header)?;
        for pattern in rule.settings.listing_style.iter().flat_map(|style| &style.hide) {
            compile_pattern(pattern).map_err(StartError::Pattern)?;
        }
        let folder = rule.folder.as_deref().map_or(&b""[..], relative);
        Ok(Self { folder: folder.into(), files, settings: rule.settings.clone() })
    }

    fn holds(&self, folder: &[u8], file: Option<&[u8]>) -> bool {
        let holds_for_file = match (&self.files, file) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(pattern), Some(file)) => pattern.is_match(Path::new(OsStr::from_bytes(file))),
        };
        folder.starts_with(&self.folder) && holds_for_file
    }
}

impl Settings {
    /// Puts the settings of a later rule over these.
    fn overlay(&mut self, over: &Self) {
        // Without a list of them, a setting that is added and forgotten here would never hold.
        let Self { headers, cache_control, content_type, index, listing, listing_style, precompressed, digests, etag } =
            over;
        let is_replaced = |name: &str| headers.iter().any(|(over, _)| over.eq_ignore_ascii_case(name));
        self.headers.retain(|(name, _)| !is_replaced(name));
        self.headers.extend_from_slice(headers);
        overlay(&mut self.cache_control, cache_control);
        overlay(&mut self.content_type, content_type);
        overlay(&mut self.index, index);
        overlay(&mut self.listing, listing);
        overlay(&mut self.listing_style, listing_style);
        overlay(&mut self.precompressed, precompressed);
        overlay(&mut self.digests, digests);
        overlay(&mut self.etag, etag);
    }
}

fn overlay<T: Clone>(setting: &mut Option<T>, over: &Option<T>) {
    if let Some(over) = over {
        *setting = Some(over.clone());
    }
}

/// A pattern for the names of files: `*`, `?`, `[a-z]`, `{a,b}`.
pub(crate) fn compile_pattern(pattern: &str) -> Result<GlobMatcher, globset::Error> {
    globset::Glob::new(pattern).map(|glob| glob.compile_matcher())
}

/// The key in the table of hosts: without a dot at the end, in lower case, and without the asterisk in front.
pub(crate) fn host_key(name: &str) -> Box<[u8]> {
    let name = name.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(name);
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase().into_bytes().into()
}

/// A host without its port. The colons of an address in brackets belong to it.
fn without_port(host: &[u8]) -> &[u8] {
    let brackets_end = if host.starts_with(b"[") { host.iter().position(|&byte| byte == b']') } else { None };
    let from = brackets_end.unwrap_or(0);
    let colon = host[from..].iter().position(|&byte| byte == b':');
    colon.map_or(host, |colon| &host[..from + colon])
}

/// A path of a site as canonical names begin with it.
fn relative(path: &str) -> &[u8] {
    path.strip_prefix('/').unwrap_or(path).as_bytes()
}
