//! Mounts that origins answer for: their methods and bounds, and the targets that origins are asked
//! for.

use percent_encoding::percent_encode;

use crate::catalog::rules::relative;
use crate::config::{MountConfig, ServerConfig};
use crate::content::name::PATH_ESCAPED;

/// The mounts of all sites that have origins.
pub(crate) struct ForwardingMounts {
    /// At the index of the mount's number.
    mounts: Vec<Option<ForwardingMount>>,
}

/// A mount that origins answer for.
pub(crate) struct ForwardingMount {
    /// Its number among those that have origins, which the cache tier knows it by.
    pub(crate) index: usize,
    /// The path as canonical names begin with it.
    pub(crate) prefix: Box<[u8]>,
    /// The methods as Allow has them.
    pub(crate) allow: Box<str>,
    /// Most bytes of the content of a request.
    pub(crate) content_bytes_max: usize,
    /// All origins are buckets, in whose keys an encoded slash is a slash.
    is_of_keys: bool,
    methods: Box<[Box<str>]>,
}

impl ForwardingMounts {
    /// The mounts with origins of a configuration; `None` if there are none.
    pub(crate) fn of(config: &ServerConfig) -> Option<Self> {
        let mut count = 0;
        let mounts = config.sites.iter().flat_map(|site| &site.mounts).map(|mount| {
            let is_forwarding = !mount.forwarding.origins.is_empty();
            is_forwarding.then(|| {
                count += 1;
                ForwardingMount::of(mount, count - 1, has_keys(config, mount))
            })
        });
        let mounts: Vec<_> = mounts.collect();
        mounts.iter().any(Option::is_some).then_some(Self { mounts })
    }

    /// The mount of a number, if it has origins.
    #[inline]
    pub(crate) fn get(&self, number: u16) -> Option<&ForwardingMount> {
        self.mounts.get(usize::from(number))?.as_ref()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.mounts.iter().flatten().count()
    }
}

/// Whether the objects of a mount have keys: all origins are buckets.
pub(super) fn has_keys(config: &ServerConfig, mount: &MountConfig) -> bool {
    mount
        .forwarding
        .origins
        .iter()
        .all(|named| config.origins.iter().any(|origin| origin.name == named.name && origin.s3.is_some()))
}

impl ForwardingMount {
    pub(super) fn of(config: &MountConfig, index: usize, is_of_keys: bool) -> Self {
        let mut methods: Vec<Box<str>> = config.forwarding.methods.iter().map(|name| name.as_str().into()).collect();
        let has_others = methods.iter().any(|name| !matches!(&**name, "GET" | "HEAD" | "OPTIONS"));
        let forwards_options = methods.iter().any(|name| &**name == "OPTIONS");
        let allow = if forwards_options { methods.join(", ") } else { format!("{}, OPTIONS", methods.join(", ")) };
        // The origin tells what may be done with a resource, if that is more than to read it.
        if has_others && !forwards_options {
            methods.push("OPTIONS".into());
        }
        Self {
            index,
            prefix: relative(&config.path).into(),
            allow: allow.into(),
            content_bytes_max: config.forwarding.content_bytes_max,
            is_of_keys,
            methods: methods.into(),
        }
    }

    #[cold]
    fn push_resolved(&self, path: Option<&[u8]>, name: &[u8], out: &mut Vec<u8>) {
        if let Some(own) = path.and_then(|path| self.resolved(path)) {
            return out.extend_from_slice(&own);
        }
        let rest = name.strip_prefix(&*self.prefix).unwrap_or_default();
        let rest = percent_encode(rest.strip_prefix(b"/").unwrap_or(rest), PATH_ESCAPED);
        rest.for_each(|part| out.extend_from_slice(part.as_bytes()));
    }

    /// The path below the mount without dot segments and empty ones, as canonical names are made;
    /// `None` if the mount's own path is written in another way.
    fn resolved(&self, path: &[u8]) -> Option<Vec<u8>> {
        let mut segments: Vec<Vec<u8>> = Vec::new();
        let mut is_folder = false;
        for segment in path.strip_prefix(b"/")?.split(|&byte| byte == b'/') {
            let mut normal = Vec::with_capacity(segment.len());
            if !push_unescaped(segment, self.is_of_keys, &mut normal) {
                return None;
            }
            is_folder = matches!(&*normal, b"" | b"." | b"..");
            match &*normal {
                b"." => {}
                // It takes back an empty segment as well as another (RFC 3986, 5.2.4).
                b".." => drop(segments.pop()),
                _ => segments.push(normal),
            }
        }
        segments.retain(|segment| !segment.is_empty());
        let mut resolved = segments.join(&b'/');
        if is_folder && !resolved.is_empty() {
            resolved.push(b'/');
        }
        Some(resolved.strip_prefix(&*self.prefix)?.to_vec())
    }

    /// Whether requests by a method are forwarded.
    pub(crate) fn forwards(&self, method: &str) -> bool {
        self.methods.iter().any(|name| **name == *method)
    }

    /// Appends the target that origins are asked for: the path below the mount, and the query. The
    /// path is the client's own in normal form: without dot segments and empty ones, and without
    /// escapes of characters that need none, so that `%7E` is `~`, and a `%2B` stays one. So does
    /// an encoded slash, but for buckets. The path is made of the canonical name if that was
    /// rewritten, in which case `path` is `None`, or if the client has escaped the mount's own one.
    #[inline]
    pub(crate) fn push_target(&self, path: Option<&[u8]>, name: &[u8], query: Option<&[u8]>, out: &mut Vec<u8>) {
        let start = out.len();
        let own = path.and_then(|path| path.strip_prefix(b"/")?.strip_prefix(&*self.prefix));
        out.push(b'/');
        if !own.is_some_and(|own| push_normal(own, self.is_of_keys, out)) {
            out.truncate(start + 1);
            self.push_resolved(path, name, out);
        }
        if let Some(query) = query {
            out.push(b'?');
            out.extend_from_slice(query);
        }
    }
}

/// Appends a path with the escapes of unreserved characters undone and the others in capitals (RFC
/// 3986, 6.2.2). Returns whether it has none but normal segments.
fn push_normal(path: &[u8], is_of_keys: bool, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    push_unescaped(path, is_of_keys, out) && is_normal(&out[start..])
}

/// Appends a path with its escapes in normal form. Returns whether they are all well-formed.
fn push_unescaped(path: &[u8], is_of_keys: bool, out: &mut Vec<u8>) -> bool {
    let mut rest = path;
    while let Some(at) = memchr::memchr(b'%', rest) {
        out.extend_from_slice(&rest[..at]);
        let Some(byte) = rest.get(at + 1..at + 3).and_then(hex) else { return false };
        match byte {
            // One that would make an empty segment stays, as that would be taken out.
            b'/' if is_of_keys && is_inside_name(out, &rest[at + 3..]) => out.push(b'/'),
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte),
            _ => {
                out.push(b'%');
                out.extend(rest[at + 1..at + 3].iter().map(u8::to_ascii_uppercase));
            }
        }
        rest = &rest[at + 3..];
    }
    out.extend_from_slice(rest);
    true
}

/// Whether names are on both sides of a slash.
fn is_inside_name(before: &[u8], after: &[u8]) -> bool {
    let is_slash = after.get(..3).is_some_and(|escape| escape.eq_ignore_ascii_case(b"%2f"));
    before.last().is_some_and(|&byte| byte != b'/')
        && !before.ends_with(b"%2F")
        && !after.is_empty()
        && after[0] != b'/'
        && !is_slash
}

/// Whether a path without the slash in front has no dot segment and no empty one but the last.
#[inline]
fn is_normal(path: &[u8]) -> bool {
    let mut before = b'/';
    for (at, &byte) in path.iter().enumerate() {
        let ends = |from: usize| matches!(path.get(from), None | Some(b'/'));
        let is_abnormal = match byte {
            b'/' => before == b'/',
            b'.' if before == b'/' => ends(at + 1) || (path.get(at + 1) == Some(&b'.') && ends(at + 2)),
            _ => false,
        };
        if is_abnormal {
            return false;
        }
        before = byte;
    }
    true
}

fn hex(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some((digit(digits[0])? * 16 + digit(digits[1])?) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ListenAddr, MountOrigin};
    use crate::content::name::{canonical_name, name_with_slashes};

    fn mount(path: &str, methods: &[&str]) -> ForwardingMount {
        let mut config = MountConfig::new(path, "");
        config.forwarding.methods = methods.iter().map(|&name| name.to_owned()).collect();
        ForwardingMount::of(&config, 0, false)
    }

    #[test]
    fn targets_are_the_clients_own_in_normal_form() {
        #[track_caller]
        fn check(mount_path: &str, path: &str, query: Option<&str>, expected: &str) {
            let (mut name, mut target) = (Vec::new(), Vec::new());
            canonical_name(path.as_bytes(), &mut name).unwrap();
            let mount = mount(mount_path, &["GET"]);
            mount.push_target(Some(path.as_bytes()), &name, query.map(str::as_bytes), &mut target);
            assert_eq!(String::from_utf8(target).unwrap(), expected, "{mount_path} {path}");
        }
        check("/", "/", None, "/");
        check("/", "/a/b.iso", None, "/a/b.iso");
        check("/", "/a/", Some("x=%2f"), "/a/?x=%2f");
        check("/", "/a", Some(""), "/a?");
        check("/debian/", "/debian/a", None, "/a");
        check("/debian/", "/debian/", None, "/");
        check("/debian/", "/%64ebian/a%20b", None, "/a%20b");
        // Escapes keep their meaning.
        check("/", "/g%2b%2b", None, "/g%2B%2B");
        check("/", "/g++", None, "/g++");
        check("/", "/%7euser/%41", None, "/~user/A");
        check("/", "/a%c3%a4", None, "/a%C3%A4");
        // Segments that are none.
        for path in ["/a/../b", "/./b", "//b", "/a/%2e%2e/b", "/a/../a/../b"] {
            check("/", path, None, "/b");
        }
        check("/", "/b/.", None, "/b/");
        check("/", "/b//", None, "/b/");
        check("/", "/.well-known/x..y", None, "/.well-known/x..y");
    }

    #[test]
    fn an_encoded_slash_stays_but_in_keys() {
        #[track_caller]
        fn check(mount_path: &str, path: &str, http: &str, key: &str) {
            let mut name = Vec::new();
            name_with_slashes(path.as_bytes(), &mut name).unwrap();
            for (is_of_keys, expected) in [(false, http), (true, key)] {
                let mount = ForwardingMount { is_of_keys, ..mount(mount_path, &["GET"]) };
                let mut target = Vec::new();
                mount.push_target(Some(path.as_bytes()), &name, None, &mut target);
                assert_eq!(String::from_utf8(target).unwrap(), expected, "{mount_path} {path} {is_of_keys}");
            }
        }
        check("/", "/a%2Fb", "/a%2Fb", "/a/b");
        check("/", "/a%2fb%2Fc/%7ed", "/a%2Fb%2Fc/~d", "/a/b/c/~d");
        check("/", "/x//a%2fb", "/x/a%2Fb", "/x/a/b");
        // Keys may have empty segments, which only an encoded slash can name.
        check("/", "/a/%2Fb", "/a/%2Fb", "/a/%2Fb");
        check("/", "/a%2F%2fb", "/a%2F%2Fb", "/a%2F%2Fb");
        check("/", "/a%2F", "/a%2F", "/a%2F");
        check("/", "/%2Fa", "/%2Fa", "/%2Fa");
        check("/debian/", "/debian/a%2Fb", "/a%2Fb", "/a/b");
        // The mount's own path is written in another way.
        check("/debian/", "/debian%2Fa", "/a", "/a");
    }

    #[test]
    fn options_are_forwarded_where_more_than_reading_is() {
        #[track_caller]
        fn check(methods: &[&str], allow: &str, forwarded: &[&str]) {
            let mount = mount("/", methods);
            assert_eq!(&*mount.allow, allow);
            let all = ["GET", "HEAD", "OPTIONS", "POST", "PURGE"];
            let forwards: Vec<_> = all.into_iter().filter(|method| mount.forwards(method)).collect();
            assert_eq!(forwards, forwarded);
        }
        check(&["GET", "HEAD"], "GET, HEAD, OPTIONS", &["GET", "HEAD"]);
        check(&["GET", "HEAD", "POST"], "GET, HEAD, POST, OPTIONS", &["GET", "HEAD", "OPTIONS", "POST"]);
        check(&["GET", "HEAD", "OPTIONS"], "GET, HEAD, OPTIONS", &["GET", "HEAD", "OPTIONS"]);
    }

    #[test]
    fn mounts_are_numbered_among_those_with_origins() {
        let mut config = ServerConfig::new("/srv", Vec::<ListenAddr>::new());
        assert!(ForwardingMounts::of(&config).is_none());
        for path in ["/a/", "/b/"] {
            let mut mount = MountConfig::new(path, "");
            mount.forwarding.origins = vec![MountOrigin::new("o")];
            config.sites[0].mounts.push(mount);
        }
        let mounts = ForwardingMounts::of(&config).unwrap();
        let indices: Vec<_> = (0..4).map(|number| mounts.get(number).map(|mount| mount.index)).collect();
        assert_eq!((indices, mounts.len()), (vec![None, Some(0), Some(1), None], 2));
    }
}
