//! Consistent sets: objects that are of use only together, such as the signed metadata of a package
//! archive (`dists/sid/InRelease` and the indices that it names).
//!
//! The stored members of a set are validated together: as soon as one of them is stale, or a new
//! one shows that the origin has changed, all are, until in one pass none has changed. Requests for
//! members wait meanwhile. So no client is given a member from before an update after another one
//! from behind it. A client that began before the update can still meet it half-way; only names
//! that contain a version (`by-hash`) can spare it that.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::quality::RandomState;
use globset::{Glob, GlobMatcher};

/// Members that a set remembers. Others are validated one by one.
const MEMBERS_MAX: usize = 4096;

/// The rule by which objects of a mount belong to sets.
#[derive(Clone, Debug)]
pub struct ConsistentRule {
    matcher: GlobMatcher,
    /// The part of the pattern before its first wildcard, up to a slash.
    prefix: Box<str>,
    /// Whether each folder directly below the prefix is a set of its own.
    is_by_folder: bool,
}

impl ConsistentRule {
    /// Reads a glob such as `dists/**`, relative to the mount. With `**` behind a folder, each
    /// folder below that is a set; otherwise each folder with matching files is.
    pub fn parse(pattern: &str) -> Result<Self, globset::Error> {
        let matcher = Glob::new(pattern)?.compile_matcher();
        let literal = pattern.find(['*', '?', '[', '{']).unwrap_or(pattern.len());
        let prefix = &pattern[..pattern[..literal].rfind('/').map_or(0, |slash| slash + 1)];
        let is_by_folder = pattern[prefix.len()..].starts_with("**");
        Ok(Self { matcher, prefix: prefix.into(), is_by_folder })
    }

    /// The name of the set that a target belongs to.
    pub(crate) fn set_of<'t>(&self, target: &'t str) -> Option<&'t str> {
        let path = target.split('?').next().unwrap_or(target).trim_start_matches('/');
        if !self.matcher.is_match(path) {
            return None;
        }
        let folder = path.rfind('/').map_or(0, |slash| slash + 1);
        let end = match self.is_by_folder && !self.prefix.is_empty() {
            true => path[self.prefix.len()..].find('/').map_or(folder, |slash| self.prefix.len() + slash + 1),
            false => folder,
        };
        Some(&path[..end])
    }
}

/// The sets that requests were made for.
#[derive(Default)]
pub(crate) struct Sets(Mutex<HashMap<Box<str>, Arc<Set>, RandomState>>);

/// A set.
#[derive(Default)]
pub(crate) struct Set {
    /// Read by requests while they decide and fetch, written while the members are validated.
    pub(crate) in_use: tokio::sync::RwLock<()>,
    /// The second in which its members were validated last; 0 before the first time.
    validated_s: AtomicI64,
    noted: Mutex<Noted>,
}

#[derive(Default)]
struct Noted {
    /// The targets of members that are stored.
    members: BTreeSet<Box<str>>,
    /// A member shows that the origin has changed since the last validation.
    has_changed: bool,
}

impl Sets {
    pub(crate) fn enter(&self, mount: &str, name: &str) -> Arc<Set> {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(map.entry(format!("{mount}\0{name}").into()).or_default())
    }
}

impl Set {
    pub(crate) fn validated_s(&self) -> i64 {
        self.validated_s.load(Ordering::Acquire)
    }

    /// Notes a member that was stored. One that was modified after the last validation shows that
    /// the origin has changed.
    pub(crate) fn note(&self, target: &str, modified_s: Option<i64>) {
        let validated_s = self.validated_s();
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        noted.has_changed |= validated_s > 0 && modified_s.is_none_or(|second| second >= validated_s);
        if noted.members.len() < MEMBERS_MAX && !noted.members.contains(target) {
            noted.members.insert(target.into());
        }
    }

    pub(crate) fn has_changed(&self) -> bool {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).has_changed
    }

    /// The members that are to be validated now.
    pub(crate) fn begin_pass(&self, now: i64) -> Vec<Box<str>> {
        self.validated_s.store(now, Ordering::Release);
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        noted.has_changed = false;
        noted.members.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_targets() {
        let check = |pattern: &str, target: &str, expected: Option<&str>| {
            let rule = ConsistentRule::parse(pattern).unwrap();
            assert_eq!(rule.set_of(target), expected, "{pattern} {target}");
        };
        check("dists/**", "/dists/sid/InRelease", Some("dists/sid/"));
        check("dists/**", "/dists/sid/main/binary-amd64/Packages.xz", Some("dists/sid/"));
        check("dists/**", "/dists/InRelease", Some("dists/"));
        check("dists/**", "/pool/a.deb", None);
        check("**/repodata/*", "/9/BaseOS/repodata/repomd.xml?x", Some("9/BaseOS/repodata/"));
        check("**/repodata/*", "/9/BaseOS/Packages/a.rpm", None);
        check("{index,packages}.json", "/index.json", Some(""));
    }
}
