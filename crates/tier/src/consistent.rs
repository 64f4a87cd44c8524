//! Consistent sets: objects that are of use only together, such as the signed metadata of a package
//! archive (`dists/sid/InRelease` and the indices that it names).
//!
//! The stored members of a set are validated together: as soon as one of them is stale, or one came
//! new from the origin, all are, until in one pass none has changed. Requests for members wait
//! meanwhile, and a new member is served only after that: dates of files say nothing about when an
//! archive got them. So no client is given a member from before an update after another one from
//! behind it. A client that began before the update can still meet it half-way; only names that
//! are made of the content (`by-hash`) can spare it that, and those belong to no set.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::quality::RandomState;
use globset::{Glob, GlobMatcher};
use thalweg_caching::is_named_by_content;

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
        if !self.matcher.is_match(path) || is_named_by_content(path) {
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
pub(crate) struct Set {
    /// Read by requests while they decide and fetch, written while the members are validated.
    pub(crate) in_use: tokio::sync::RwLock<()>,
    /// The second in which its members were validated last, or in which the set came into use: what
    /// was stored before that may be older than an update.
    validated_s: AtomicI64,
    /// The second in which the last validation began, whether the origin has answered it or not.
    tried_s: AtomicI64,
    noted: Mutex<Noted>,
}

/// A pass over the members that are to be validated.
pub(crate) struct Pass {
    pub(crate) members: Vec<Box<str>>,
    validated_before_s: i64,
    has_changed_before: bool,
}

struct Noted {
    /// The targets of members that are stored.
    members: BTreeSet<Box<str>>,
    /// A member has come new from the origin since the last validation began.
    has_changed: bool,
}

impl Sets {
    pub(crate) fn enter(&self, mount: &str, name: &str, now: i64) -> Arc<Set> {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(map.entry(format!("{mount}\0{name}").into()).or_insert_with(|| Arc::new(Set::new(now))))
    }

    /// Forgets sets that nobody uses and that have no stored members.
    pub(crate) fn forget_old(&self) {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        map.retain(|_, set| Arc::strong_count(set) > 1 || !set.noted().members.is_empty());
    }
}

impl Set {
    fn new(now: i64) -> Self {
        Self {
            in_use: tokio::sync::RwLock::default(),
            validated_s: AtomicI64::new(now),
            tried_s: AtomicI64::new(now),
            noted: Mutex::new(Noted { members: BTreeSet::new(), has_changed: false }),
        }
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn validated_s(&self) -> i64 {
        self.validated_s.load(Ordering::Acquire)
    }

    /// Notes a member that is stored.
    pub(crate) fn join(&self, target: &str) {
        let mut noted = self.noted();
        if noted.members.len() < MEMBERS_MAX && !noted.members.contains(target) {
            noted.members.insert(target.into());
        }
    }

    /// Notes a member whose content came new from the origin, so that the others may be older.
    pub(crate) fn join_changed(&self, target: &str) {
        let mut noted = self.noted();
        noted.has_changed |= noted.members.iter().any(|member| **member != *target);
        drop(noted);
        self.join(target);
    }

    /// A member is stored no more.
    pub(crate) fn leave(&self, target: &str) {
        self.noted().members.remove(target);
    }

    pub(crate) fn has_changed(&self) -> bool {
        self.noted().has_changed
    }

    pub(crate) fn tried_s(&self) -> i64 {
        self.tried_s.load(Ordering::Acquire)
    }

    /// Begins to validate the members.
    pub(crate) fn begin_pass(&self, now: i64) -> Pass {
        let validated_before_s = self.validated_s.swap(now, Ordering::AcqRel);
        self.tried_s.store(now, Ordering::Release);
        let mut noted = self.noted();
        let has_changed_before = std::mem::take(&mut noted.has_changed);
        Pass { members: noted.members.iter().cloned().collect(), validated_before_s, has_changed_before }
    }

    /// Ends a pass of which the origin has answered nothing: if no member had come new before it,
    /// all of them are as old as they were, and those that are fresh stay in use.
    pub(crate) fn abandon_pass(&self, pass: &Pass) {
        if !pass.has_changed_before {
            self.validated_s.store(pass.validated_before_s, Ordering::Release);
        }
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
        check("dists/**", "/dists/sid/main/binary-amd64/by-hash/SHA256/0123", None);
        check("**/repodata/*", "/9/BaseOS/repodata/repomd.xml?x", Some("9/BaseOS/repodata/"));
        check("**/repodata/*", "/9/BaseOS/Packages/a.rpm", None);
        check("{index,packages}.json", "/index.json", Some(""));
    }

    #[test]
    fn a_new_member_beside_others_shows_a_change() {
        let set = Set::new(100);
        assert_eq!(set.validated_s(), 100);
        set.join_changed("/a");
        assert!(!set.has_changed(), "it is the only one");
        set.join_changed("/a");
        assert!(!set.has_changed());
        set.join_changed("/b");
        assert!(set.has_changed());
        assert_eq!(set.begin_pass(110).members, ["/a".into(), "/b".into()]);
        assert!(!set.has_changed() && set.validated_s() == 110);
        set.join("/c");
        assert!(!set.has_changed());
        set.leave("/a");
        assert_eq!(set.begin_pass(120).members, ["/b".into(), "/c".into()]);
    }

    #[test]
    fn sets_without_members_are_forgotten() {
        let sets = Sets::default();
        sets.enter("m", "used/", 1).join("/used/a");
        (0..1000).for_each(|number| drop(sets.enter("m", &format!("{number}/"), 1)));
        sets.forget_old();
        assert_eq!(sets.0.lock().unwrap().len(), 1);
    }
}
