//! The cache tier of a server: its store, its origins, and the mounts that a configuration has of
//! them.
//!
//! The store comes from `volumes`, and is opened before the server confines itself. A reload brings
//! other origins and mounts, of which those that stay as they are go on with what they are
//! fetching; the volumes are those of the start.

use std::fs;
use std::io;
use std::num::NonZero;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use thalweg_cache::Key;
use thalweg_origin::{GroupConfig, Order, OriginGroup};
use thalweg_serve::{
    CacheTier, ErrorLog, Level, MountConfig, OriginConfig as OriginSettings, OriginPages, PurgeAnswered, Rule,
    ServerConfig, SiteConfig, TierFigures,
};
use thalweg_sys::clock;
use thalweg_tier::{Answered, Ask, Cluster, ConsistentRule, Log, Mount, Origins, Tier, TierConfig, Upstream};

use super::cluster::{self, Identity, Membership, OriginFiles};
use super::figures::{self, VolumePlace};
use super::objects::Objects;
use super::origins::{self, origin_of};
use super::purging::{self, Purging};
use super::volumes::OpenedStore;
use crate::configuration::ClusterConfig;
use crate::exit::{Failure, remark};

/// The name of this cache in Cache-Status.
const NAME: &str = "thalweg";

/// Threads that answer for all loops: one on one CPU, then two, and one for each four CPUs.
fn threads() -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
    (cpus / 4).clamp(cpus.min(2), 8)
}

/// The clock of the tier.
fn unix_seconds() -> i64 {
    i64::try_from(clock::unix_seconds()).unwrap_or(i64::MAX)
}

/// A log of the tier, which has no error log before the server reports to one.
fn log_to(error_log: &Arc<OnceLock<ErrorLog>>) -> Log {
    let error_log = Arc::clone(error_log);
    Box::new(move |topic, message| {
        if let Some(log) = error_log.get() {
            log.say_once_a_minute(Level::Warning, topic, || message);
        }
    })
}

/// The tier of a running server.
pub(super) struct RunningTier {
    tier: Arc<Tier>,
    files: Arc<[Arc<fs::File>]>,
    error_log: Arc<OnceLock<ErrorLog>>,
    /// The mounts that were made.
    mounts: Vec<AddedMount>,
    volumes: Arc<[VolumePlace]>,
    /// The list of the servers of the cluster.
    membership: Option<Membership>,
}

/// A mount that was made.
#[derive(Clone)]
struct AddedMount {
    settings: MountSettings,
    number: usize,
    origins: Arc<OriginGroup>,
    cluster: Option<Arc<Cluster>>,
}

/// All that a mount is made of.
#[derive(Clone, PartialEq)]
struct MountSettings {
    /// Its name in keys of the store.
    name: String,
    mount: MountConfig,
    origins: Vec<OriginSettings>,
    files: OriginFiles,
    /// The host that selects the mount's site, and the server's place in its cluster.
    host: Option<String>,
    cluster: Option<Identity>,
    /// The rules of its site, and the paths of the site's other mounts, by which folders are
    /// listed.
    rules: Vec<Rule>,
    others: Vec<String>,
    listing_bytes_max: usize,
}

/// The mounts of a configuration, as loops number them.
struct Mounts {
    tier: Arc<Tier>,
    files: Arc<[Arc<fs::File>]>,
    /// The tier's numbers.
    numbers: Vec<usize>,
    /// The names of the mounts, and their origins.
    origins: Vec<(String, Arc<OriginGroup>)>,
    volumes: Arc<[VolumePlace]>,
    purging: Option<Purging>,
    objects: Objects,
}

impl CacheTier for Mounts {
    fn ask(&self, ask: Ask, answered: Answered) {
        let mount = self.numbers.get(ask.mount).copied().unwrap_or(usize::MAX);
        self.tier.ask(Ask { mount, ..ask }, answered);
    }

    #[inline]
    fn generation(&self) -> u64 {
        self.tier.generation()
    }

    fn count_held_hits(&self, mount: usize, requests: u64, bytes: u64) {
        if let Some(number) = self.numbers.get(mount) {
            self.tier.count_held_hits(*number, requests, bytes);
        }
    }

    fn touch(&self, objects: &[Key]) {
        self.tier.touch(objects);
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.files.iter().map(|file| file.as_fd()).collect()
    }

    fn figures(&self) -> TierFigures {
        figures::of(&self.tier, &self.origins, &self.volumes)
    }

    fn allows_purge(&self, authorization: &[u8]) -> Option<bool> {
        self.purging.as_ref().map(|purging| purging.allows(authorization))
    }

    fn allows_reading(&self, authorization: &[u8]) -> Option<bool> {
        self.objects.allows(authorization)
    }

    fn list_objects(&self, query: &str, answered: PurgeAnswered) {
        self.objects.list(&self.tier, query, answered);
    }

    fn purge(&self, content_type: &str, body: &[u8], answered: PurgeAnswered) {
        if let Some(purging) = &self.purging {
            purging.carry_out(&self.tier, content_type, body, answered);
        }
    }
}

/// The files that origins name.
pub(super) fn named_files(config: &ServerConfig, cluster: Option<&ClusterConfig>) -> Vec<PathBuf> {
    let files = config.origins.iter().flat_map(|origin| {
        let credentials = origin.s3.as_ref().and_then(|s3| s3.credentials.as_deref());
        let fields = origin.request_headers.files.iter().map(|(_, path)| path.as_path());
        origin.ca.as_deref().into_iter().chain(credentials).chain(fields)
    });
    let files = files.chain(purging::token_file(config)).chain(purging::read_token_file(config)).map(Path::to_owned);
    files.chain(cluster.into_iter().flat_map(cluster::named_files)).collect()
}

/// Reads the files that origins and a cluster name.
///
/// # Errors
/// One cannot be read.
pub(super) fn read_files(
    config: &ServerConfig,
    cluster: Option<&ClusterConfig>,
    read: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
) -> Result<OriginFiles, Failure> {
    let mut files = OriginFiles::new();
    for path in named_files(config, cluster) {
        let bytes = read(&path).map_err(|error| {
            Failure::usage(format!(
                "cannot read {} of {}: {error}; use a file that this user may read",
                path.display(),
                if purging::token_file(config) == Some(&path) {
                    "status.purge_token"
                } else if purging::read_token_file(config) == Some(&path) {
                    "status.read_token"
                } else {
                    "an origin or a cluster"
                }
            ))
        })?;
        files.insert(path, bytes);
    }
    Ok(files)
}

/// Whether the origins, the cluster and the token of a configuration can be as they are set.
/// Nothing is asked of them.
///
/// # Errors
/// One cannot be.
pub(super) fn check(
    config: &ServerConfig,
    cluster: Option<&ClusterConfig>,
    files: &OriginFiles,
) -> Result<(), Failure> {
    let identity = cluster.map(|cluster| Identity::of(cluster, files)).transpose()?;
    cluster.map(|cluster| Membership::of(cluster, files)).transpose()?;
    for settings in MountSettings::of_all(config, identity.as_ref(), files) {
        settings.origins()?;
    }
    Ok(())
}

impl RunningTier {
    /// Starts the threads of the tier, over a store.
    ///
    /// # Errors
    /// The host cannot start threads.
    pub(super) fn start(store: OpenedStore) -> io::Result<Self> {
        let error_log: Arc<OnceLock<ErrorLog>> = Arc::default();
        let tier = Tier::start(TierConfig {
            cache: store.cache,
            threads: threads(),
            name: NAME.into(),
            clock: unix_seconds,
            log: log_to(&error_log),
        })?;
        let (files, volumes) = (store.files.into(), store.volumes.into());
        Ok(Self { tier: Arc::new(tier), files, error_log, mounts: Vec::new(), volumes, membership: None })
    }

    /// Reports to the operator from now on.
    pub(super) fn report_to(&self, error_log: &ErrorLog) {
        // It is one log for the life of the process.
        let _ = self.error_log.set(error_log.clone());
    }

    /// The mounts of a configuration. Those that are as they were go on.
    ///
    /// # Errors
    /// An origin or a cluster cannot be as it is set.
    pub(super) fn mount(
        &mut self,
        config: &ServerConfig,
        cluster: Option<&ClusterConfig>,
        files: &OriginFiles,
    ) -> Result<Arc<dyn CacheTier>, Failure> {
        let identity = cluster.map(|cluster| Identity::of(cluster, files)).transpose()?;
        let membership = cluster.map(|cluster| Membership::of(cluster, files)).transpose()?;
        let settings = MountSettings::of_all(config, identity.as_ref(), files);
        let names = settings.iter().map(|settings| settings.name.clone()).collect();
        let token = purging::token_file(config).and_then(|path| files.get(path));
        let purging = Purging::of(config, names, token.map(Vec::as_slice))?;
        let tokens = [("purge_token", purging::token_file(config)), ("read_token", purging::read_token_file(config))];
        let tokens = tokens.into_iter().filter_map(|(key, path)| {
            let path = path?;
            Some(purging::token_of(path, key, files.get(path).map_or(&[][..], Vec::as_slice)))
        });
        let objects = Objects::new(tokens.collect::<Result<_, _>>()?);
        let mut mounts = Vec::new();
        for settings in settings {
            let known = self.mounts.iter().find(|known| known.settings == settings).cloned();
            mounts.push(match known {
                Some(known) => known,
                None => self.add(settings)?,
            });
        }
        let numbers = mounts.iter().map(|mount| mount.number).collect();
        let origins = mounts.iter().map(|mount| (mount.settings.name.clone(), Arc::clone(&mount.origins))).collect();
        self.mounts = mounts;
        // A list that is looked up stays until the first look-up of the new one.
        let same = self.membership.take().filter(|known| membership.as_ref().is_some_and(|new| known.is_same(new)));
        self.membership = same.or(membership);
        self.set_peers();
        let (tier, files, volumes) = (Arc::clone(&self.tier), Arc::clone(&self.files), Arc::clone(&self.volumes));
        Ok(Arc::new(Mounts { tier, files, numbers, origins, volumes, purging, objects }))
    }

    /// Follows changes of the list of servers. Messages for the operator are returned.
    pub(super) fn follow_peers(&mut self, read: &dyn Fn(&Path) -> io::Result<Vec<u8>>) -> Option<(Level, String)> {
        let changed = self.membership.as_mut()?.look(read, self.tier.runtime())?;
        Some(match changed {
            Ok(servers) => {
                self.set_peers();
                (Level::Notice, format!("the servers of the cluster are now {servers}"))
            }
            Err(reason) => (Level::Warning, format!("{reason}; the servers of the cluster stay as they were")),
        })
    }

    /// Tells all mounts the servers of the cluster. Those that stay keep their connections.
    fn set_peers(&self) {
        let servers = self.membership.as_ref().map_or(&[][..], |membership| membership.servers());
        let _runtime = self.tier.runtime().enter();
        for AddedMount { settings, cluster, .. } in &self.mounts {
            let (Some(cluster), Some(identity)) = (cluster, &settings.cluster) else { continue };
            let known = cluster.peers();
            let peers = servers.iter().filter(|server| **server != identity.url).filter_map(|server| {
                let known = known.iter().find(|peer| peer.name() == server).cloned();
                known.or_else(|| identity.peer(server, &settings.mount.path, settings.host.as_deref()))
            });
            cluster.set_peers(peers.collect());
        }
    }

    fn add(&self, settings: MountSettings) -> Result<AddedMount, Failure> {
        let forwarding = &settings.mount.forwarding;
        let refuse = |reason: String| settings.refuse(&reason);
        let http = settings.origins.iter().map(|origin| origins::http_of(origin, &settings.mount.path));
        let http = http.collect::<Result<Vec<_>, _>>().map_err(refuse)?;
        let _runtime = self.tier.runtime().enter();
        let origins = Arc::new(settings.origins()?);
        let MountSettings { rules, others, listing_bytes_max, .. } = &settings;
        let pages = OriginPages::new(rules, &settings.mount, others, *listing_bytes_max);
        let pages = pages.map_err(|error| refuse(error.to_string()))?;
        let upstream: Arc<dyn Upstream> = Arc::new(Origins::new(Arc::clone(&origins), http, Arc::new(pages)));
        let cluster = settings.cluster.as_ref().map(|identity| {
            let log = log_to(&self.error_log);
            Arc::new(identity.cluster(&settings.name, unix_seconds, log, Arc::clone(&upstream)))
        });
        let consistent = forwarding.consistent.iter().map(|pattern| ConsistentRule::parse(pattern));
        let number = self.tier.add_mount(Mount {
            name: settings.name.as_str().into(),
            path: settings.mount.path.as_str().into(),
            policy: forwarding.policy(),
            consistent: consistent.collect::<Result<_, _>>().map_err(|error| refuse(error.to_string()))?,
            request_fields: origins::request_fields(forwarding, &settings.origins),
            upstream: cluster.clone().map_or(upstream, |cluster| cluster as Arc<dyn Upstream>),
        });
        Ok(AddedMount { settings, number, origins, cluster })
    }

    /// Ends all fetches, and makes a checkpoint of the store, with which the next start is quick.
    pub(super) fn end(self) {
        // Nobody else has it once all loops have ended.
        if let Ok(tier) = Arc::try_unwrap(self.tier)
            && let Err(error) = tier.end()
        {
            remark(&format!(
                "the state of the disk cache could not be written: {error}; the next start reads the volumes"
            ));
        }
    }
}

impl MountSettings {
    /// Those of all mounts with origins, in the order in which loops number them.
    fn of_all(config: &ServerConfig, cluster: Option<&Identity>, files: &OriginFiles) -> Vec<Self> {
        let of_origins = named_files(config, None);
        let files = files.iter().filter(|(path, _)| of_origins.contains(path));
        let files: OriginFiles = files.map(|(path, bytes)| (path.clone(), bytes.clone())).collect();
        let sites = config.sites.iter().flat_map(|site| {
            let host = site.names.first().map_or("", String::as_str);
            let mounts = site.mounts.iter().filter(|mount| !mount.forwarding.origins.is_empty());
            mounts.map(move |mount| (site, host, mount))
        });
        let settings = sites.map(|(site, host, mount)| {
            let named = mount.forwarding.origins.iter();
            let origins = named.filter_map(|named| config.origins.iter().find(|origin| origin.name == named.name));
            Self {
                name: format!("{host}{}", mount.path),
                mount: mount.clone(),
                origins: origins.cloned().collect(),
                files: files.clone(),
                // A name that the wildcard of the site matches selects it.
                host: Some(host.replace('*', "cluster")).filter(|host| !host.is_empty()),
                cluster: cluster.cloned(),
                rules: site.rules.clone(),
                others: others_of(site, mount),
                listing_bytes_max: config.cache.listing_bytes_max,
            }
        });
        settings.collect()
    }

    /// The group of its origins.
    fn origins(&self) -> Result<OriginGroup, Failure> {
        let forwarding = &self.mount.forwarding;
        let is_weighted = forwarding.origins.iter().any(|origin| origin.weight.is_some());
        let order = if is_weighted { Order::Weighted } else { Order::Failover };
        let origins = self.origins.iter().zip(&forwarding.origins);
        let origins = origins.map(|(origin, of_mount)| origin_of(origin, of_mount.weight.unwrap_or(1), &self.files));
        let origins = origins.collect::<Result<Vec<_>, _>>().map_err(|reason| self.refuse(&reason))?;
        let group = OriginGroup::new(origins, GroupConfig { order, ..GroupConfig::default() });
        group.map_err(|error| self.refuse(&error.to_string()))
    }

    fn refuse(&self, reason: &str) -> Failure {
        Failure::usage(format!("the origins of the mount {}: {reason}", self.name))
    }
}

/// The paths of the other mounts of a site that serve something, in an order of their own.
fn others_of(site: &SiteConfig, mount: &MountConfig) -> Vec<String> {
    let is_served = |other: &&MountConfig| other.has_root() || !other.forwarding.origins.is_empty();
    let others = site.mounts.iter().filter(|other| other.path != mount.path).filter(is_served);
    let mut paths: Vec<String> = others.map(|other| other.path.clone()).collect();
    paths.sort_unstable();
    paths
}

#[cfg(test)]
mod tests {
    use thalweg_serve::{ListenAddr, MountOrigin};

    use super::super::volumes;
    use super::*;

    #[test]
    fn mounts_that_stay_as_they_are_keep_their_numbers() {
        let mut config = ServerConfig::new("", Vec::<ListenAddr>::new());
        let origin =
            |name: &str| OriginSettings { url: Some("http://127.0.0.1:1/".to_owned()), ..OriginSettings::new(name) };
        config.origins = vec![origin("a"), origin("b")];
        config.sites[0].mounts[0].forwarding.origins = vec![MountOrigin::new("a")];
        let mut other = MountConfig::new("/b/", "");
        other.forwarding.origins = vec![MountOrigin::new("b")];
        config.sites[0].mounts.push(other);
        let mut tier = RunningTier::start(volumes::open_memory(64 << 20).unwrap()).unwrap();
        let numbers = |tier: &RunningTier| tier.mounts.iter().map(|mount| mount.number).collect::<Vec<_>>();
        tier.mount(&config, None, &OriginFiles::new()).unwrap();
        assert_eq!(numbers(&tier), [0, 1]);
        config.origins[1].head_time *= 2;
        config.sites[0].mounts.swap(0, 1);
        tier.mount(&config, None, &OriginFiles::new()).unwrap();
        assert_eq!(numbers(&tier), [2, 0]);
        config.origins[0].url = Some("not a URL".to_owned());
        assert!(tier.mount(&config, None, &OriginFiles::new()).is_err());
        assert_eq!(numbers(&tier), [2, 0], "nothing changes");
        tier.end();
    }
}
