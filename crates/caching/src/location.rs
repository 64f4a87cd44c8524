//! The addresses in responses of an origin, as clients of a mount see them (Location and
//! Content-Location; RFC 9110, 8.7 and 10.2.2; Refresh), and the origin's redirects that are
//! followed.

use url::{Host, Url};

use crate::directives::FieldScope;
use crate::fields::{FieldLines, StoredFields};
use crate::policy::Policy;
use crate::signed::is_redirect;
use crate::targeted::response_directives;

/// An origin, and the path of a mount that its folder is seen at.
#[derive(Clone, Debug)]
pub struct OriginPlace {
    /// The folder, with a slash at the end of its path.
    base: Url,
    /// The host and port that it is asked for, if they are others than those of the URL.
    asked_for: Option<(Host, u16)>,
    /// The path of the mount without the slash at its end.
    mount: Box<str>,
}

impl OriginPlace {
    /// The place of a folder that is seen at the path of a mount. `host` is the authority that the
    /// origin is asked for.
    #[must_use]
    pub fn new(base: &Url, host: Option<&str>, mount: &str) -> Self {
        let mut base = base.clone();
        base.set_query(None);
        base.set_fragment(None);
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        let asked_for = host.and_then(|host| Url::parse(&format!("{}://{host}/", base.scheme())).ok());
        let asked_for = asked_for.and_then(|url| authority(&url));
        Self { base, asked_for, mount: mount.trim_end_matches('/').into() }
    }

    /// The URL of a target below the folder; a target begins with a slash.
    #[must_use]
    pub fn url(&self, target: &str) -> Option<Url> {
        let path = self.base.path().trim_end_matches('/');
        self.base.join(&format!("{path}{target}")).ok()
    }

    /// The target below the folder that a URL is of.
    #[must_use]
    pub fn target<'u>(&self, url: &'u Url) -> Option<&'u str> {
        let is_there = url.scheme() == self.base.scheme()
            && authority(url).is_some_and(|found| {
                Some(&found) == authority(&self.base).as_ref() || Some(&found) == self.asked_for.as_ref()
            });
        let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
        let below = target.strip_prefix(self.base.path()).filter(|_| is_there)?;
        Some(&target[target.len() - below.len() - 1..])
    }

    /// The host by its names, with their ports.
    #[must_use]
    pub fn hosts(&self) -> Vec<RedirectHost> {
        let names = authority(&self.base).into_iter().chain(self.asked_for.clone());
        let host = |(name, port): (Host, u16)| {
            let name = name.to_string().trim_end_matches('.').into();
            RedirectHost { name, is_wildcard: false, port: Some(port) }
        };
        names.map(host).collect()
    }

    /// Makes the addresses of a response to a request for a target those of the mount. An address
    /// outside of the folder stays as it is, and so does a relative one that leads to the same
    /// place from the mount.
    pub fn rewrite(&self, target: &str, fields: &mut StoredFields) {
        change_addresses(fields, |value| self.seen(target, value));
    }

    /// An address as a client of the mount has to have it; `None`: as it is.
    fn seen(&self, target: &str, value: &[u8]) -> Option<String> {
        let text = str::from_utf8(value).ok()?;
        let has_scheme = Url::parse(text).is_ok();
        // Others are relative to the target, which has the same place in the mount and the folder.
        if !has_scheme && !text.starts_with(['/', '\\']) {
            return None;
        }
        let url = self.url(target)?.join(text).ok()?;
        let below = self.target(&url)?;
        let fragment = &url[url::Position::AfterQuery..];
        // Two slashes in front would begin a host (RFC 3986, 4.2).
        let guard = if self.mount.is_empty() && below.starts_with("//") { "/." } else { "" };
        Some(format!("{guard}{}{below}{fragment}", self.mount))
    }
}

fn authority(url: &Url) -> Option<(Host, u16)> {
    Some((url.host()?.to_owned(), url.port_or_known_default()?))
}

/// A host that redirects may lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectHost {
    name: Box<str>,
    /// All below the name, and not the name itself.
    is_wildcard: bool,
    /// `None`: that of the scheme.
    port: Option<u16>,
}

impl RedirectHost {
    /// Reads `host`, `host:port` or `*.host`; `None` if it is none of them.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (is_wildcard, host) = text.strip_prefix("*.").map_or((false, text), |host| (true, host));
        let url = Url::parse(&format!("redirect://{host}")).ok()?;
        let is_authority = url.path().is_empty() && url.query().is_none() && url.fragment().is_none();
        let has_user = !url.username().is_empty() || url.password().is_some();
        let name = url.host_str().filter(|name| !name.is_empty() && !name.contains(['*', '%']))?;
        let name = name.trim_end_matches('.').to_ascii_lowercase().into();
        (is_authority && !has_user).then_some(Self { name, is_wildcard, port: url.port() })
    }

    fn is_of(&self, url: &Url) -> bool {
        let host = url.host_str().unwrap_or_default().trim_end_matches('.');
        let is_host = if self.is_wildcard {
            host.strip_suffix(&*self.name).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
        } else {
            host == &*self.name
        };
        let usual = if url.scheme() == "https" { 443 } else { 80 };
        is_host && url.port_or_known_default() == Some(self.port.unwrap_or(usual))
    }
}

/// The address that a redirect leads to from the URL of its request, if it may be followed: by GET
/// and HEAD, to a host of the list, and not from TLS to a connection without it.
#[must_use]
pub fn next_address(from: &Url, status: u16, fields: &impl FieldLines, hosts: &[RedirectHost]) -> Option<Url> {
    let mut locations = fields.all("location").filter(|_| is_redirect(status));
    let location = str::from_utf8(locations.next()?).ok()?;
    let mut to = from.join(location).ok().filter(|_| locations.next().is_none())?;
    to.set_fragment(None);
    let is_http = to.scheme() == "https" || (to.scheme() == "http" && from.scheme() == "http");
    let has_user = !to.username().is_empty() || to.password().is_some();
    (is_http && !has_user && hosts.iter().any(|host| host.is_of(&to))).then_some(to)
}

/// The fields of a request that go to the second host: without what was meant for the first alone.
#[must_use]
pub fn without_credentials(fields: &StoredFields) -> StoredFields {
    const CREDENTIALS: [&str; 5] = ["Authorization", "Cookie", "Proxy-Authorization", "Referer", "Thalweg-Peer"];
    let mut kept = fields.clone();
    CREDENTIALS.iter().for_each(|name| kept.remove(name));
    kept
}

/// Makes a response that a redirect led to one to the first request: who may share it, and what it
/// depends on, is what both say. How long the redirect holds does not matter, since it is followed
/// anew each time.
pub fn inherit(redirect: &impl FieldLines, status: u16, fields: &mut StoredFields) {
    let vary: Vec<_> = redirect.all("vary").map(<[u8]>::to_vec).collect();
    add_vary(status, fields, vary.iter().map(Vec::as_slice));
    let (directives, _) = response_directives(&Policy::default(), redirect);
    if directives.private == FieldScope::Whole {
        ["cache-control", "cdn-cache-control", "surrogate-control"].iter().for_each(|name| fields.remove(name));
        fields.push("Cache-Control", b"private");
    }
}

/// Makes a response depend on more request fields. A 304 that names none leaves those of the stored
/// response, which had these when it came.
pub fn add_vary<'a>(status: u16, fields: &mut StoredFields, names: impl Iterator<Item = &'a [u8]>) {
    if status != 304 || fields.has("vary") {
        names.for_each(|names| fields.push("Vary", names));
    }
}

/// Makes relative addresses of a response from this URL absolute, for clients that know another.
pub fn make_absolute(url: &Url, fields: &mut StoredFields) {
    change_addresses(fields, |value| Some(url.join(str::from_utf8(value).ok()?).ok()?.into()));
}

/// A change of a field's value; `None` if it stays as it is.
type AddressChange<'c> = dyn Fn(&[u8]) -> Option<String> + 'c;

/// Changes the addresses of a response, as far as there is one of a kind, and a change of it.
fn change_addresses(fields: &mut StoredFields, change: impl Fn(&[u8]) -> Option<String>) {
    let refreshed = |value: &[u8]| {
        let (before, url, behind) = refresh(value)?;
        Some(format!("{before}{}{behind}", change(url.as_bytes())?))
    };
    let (as_whole, as_refresh): (&AddressChange, &AddressChange) = (&change, &refreshed);
    for (name, change) in [("Location", as_whole), ("Content-Location", as_whole), ("Refresh", as_refresh)] {
        let changed = fields.first(name).filter(|_| fields.all(name).count() == 1).and_then(change);
        if let Some(changed) = changed {
            fields.remove(name);
            fields.push(name, changed.as_bytes());
        }
    }
}

/// The address in a value of Refresh, with the text before and behind it, as browsers read it
/// (HTML, "shared declarative refresh steps"): `5`, `5; url=/a` or `5, '/a'`. `None` without one.
fn refresh(value: &[u8]) -> Option<(&str, &str, &str)> {
    const SPACE: [char; 5] = [' ', '\t', '\n', '\r', '\x0c'];
    let text = str::from_utf8(value).ok()?;
    let time = text.trim_start_matches(SPACE);
    let behind_time = time.trim_start_matches(|digit: char| digit.is_ascii_digit() || digit == '.');
    let rest = behind_time.trim_start_matches(SPACE);
    let has_separator = rest.starts_with([';', ',']);
    if behind_time.len() == time.len() || !(has_separator || rest.len() < behind_time.len()) {
        return None;
    }
    let mut url = rest.strip_prefix([';', ',']).unwrap_or(rest).trim_start_matches(SPACE);
    if url.get(..3).is_some_and(|name| name.eq_ignore_ascii_case("url"))
        && let Some(behind) = url[3..].trim_start_matches(SPACE).strip_prefix('=')
    {
        url = behind.trim_start_matches(SPACE);
    }
    let quote = url.chars().next().filter(|first| ['"', '\''].contains(first));
    let url = quote.map_or(url, |_| &url[1..]);
    let end = quote.and_then(|quote| url.find(quote)).unwrap_or(url.len());
    let start = text.len() - url.len();
    let url = url[..end].trim_end_matches(SPACE);
    (!url.is_empty()).then(|| (&text[..start], url, &text[start + url.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::tests::{fields, shown};

    fn place(base: &str, host: Option<&str>, mount: &str) -> OriginPlace {
        OriginPlace::new(&base.parse().unwrap(), host, mount)
    }

    #[test]
    fn addresses_of_the_origin_become_those_of_the_mount() {
        #[track_caller]
        fn check(base: &str, mount: &str, location: &str, expected: &str) {
            let mut lines = fields(&[&format!("Location: {location}"), &format!("Content-Location: {location}")]);
            place(base, Some("Public.example"), mount).rewrite("/a/b?c", &mut lines);
            let expected = [format!("Location: {expected}"), format!("Content-Location: {expected}")];
            assert_eq!(shown(&lines), expected, "{base} {mount} {location}");
        }
        let same = |base: &str, mount: &str, location: &str| check(base, mount, location, location);
        let (o, m) = ("http://o.example:81/", "/m/");
        check(o, m, "http://o.example:81/dir/", "/m/dir/");
        check(o, m, "/rel/", "/m/rel/");
        check(o, m, "/x?y=%2f#z", "/m/x?y=%2f#z");
        check(o, m, "//o.example:81/x", "/m/x");
        check(o, m, "HTTP://O.EXAMPLE:81/x", "/m/x");
        check(o, m, "/", "/m/");
        check(o, m, "http://o.example:81", "/m/");
        // The name that the origin is asked for.
        check(o, m, "http://public.example/x", "/m/x");
        check("https://o.example/", m, "https://public.example/x", "/m/x");
        // Another host, port or scheme; from http to https it would lead to itself.
        for location in ["http://o.example/x", "http://p.example:81/x", "https://public.example/x", "mailto:a@b"] {
            same(o, m, location);
        }
        // Relative to the target.
        for location in ["x", "./x/", "../x", "?y", "#z", ""] {
            same(o, m, location);
        }
        // A folder of the origin.
        check("http://o.example/pub", m, "/pub/x", "/m/x");
        check("http://o.example/pub/", m, "http://o.example/pub/", "/m/");
        for location in ["/publish/x", "/x", "http://o.example/x", "/pub/../x", "/pub"] {
            same("http://o.example/pub/", m, location);
        }
        // A mount at the top: no host comes of it.
        check(o, "/", "http://o.example:81/dir/", "/dir/");
        check(o, "/", "http://o.example:81//evil.example/", "/.//evil.example/");
        check(o, "/", "http://o.example:81/\\evil.example/", "/.//evil.example/");
        check(o, m, "http://o.example:81//evil.example/", "/m//evil.example/");
        let mut twice = fields(&["Location: /x", "Location: /y"]);
        place(o, None, m).rewrite("/", &mut twice);
        assert_eq!(shown(&twice), ["Location: /x", "Location: /y"]);
    }

    #[test]
    fn refresh_does_not_lead_past_the_mount() {
        #[track_caller]
        fn check(refresh: &str, expected: &str) {
            let mut lines = fields(&[&format!("Refresh: {refresh}")]);
            place("http://o.example:81/pub/", None, "/m/").rewrite("/a/b?c", &mut lines);
            assert_eq!(shown(&lines), [format!("Refresh: {expected}")]);
        }
        check("5; url=http://o.example:81/pub/x", "5; url=/m/x");
        check("0;URL=/pub/x#f", "0;URL=/m/x#f");
        check("0; url = '/pub/x' ; y", "0; url = '/m/x' ; y");
        check("1.5, \"http://o.example:81/pub/x\"", "1.5, \"/m/x\"");
        check("5 /pub/x", "5 /m/x");
        check("5; /pub/x", "5; /m/x");
        check("5; url=/pub/x;y=1", "5; url=/m/x;y=1");
        for same in
            ["5", "5;", "5; url=", "5; url=x", "5; url=/x", "5; url=http://p.example/pub/x", "x; url=/pub/x", ""]
        {
            check(same, same);
        }
        let mut lines = fields(&["Refresh: 5; url=../x"]);
        make_absolute(&"http://o.example/a/b/c".parse().unwrap(), &mut lines);
        assert_eq!(shown(&lines), ["Refresh: 5; url=http://o.example/a/x"]);
    }

    #[test]
    fn urls_and_targets() {
        let place = place("https://o.example/pub", None, "/");
        let url = place.url("/a%20b?c").unwrap();
        assert_eq!((url.as_str(), place.target(&url)), ("https://o.example/pub/a%20b?c", Some("/a%20b?c")));
        for other in ["https://o.example/pub", "http://o.example/pub/x", "https://o.example:444/pub/x"] {
            assert_eq!(place.target(&other.parse().unwrap()), None, "{other}");
        }
    }

    #[test]
    fn redirects_lead_to_listed_hosts_alone() {
        let hosts: Vec<_> =
            ["a.example", "*.b.example", "c.example:8443"].map(|host| RedirectHost::parse(host).unwrap()).into();
        let check = |from: &str, location: &str, expected: Option<&str>| {
            let found = next_address(&from.parse().unwrap(), 302, &fields(&[&format!("Location: {location}")]), &hosts);
            assert_eq!(found.as_ref().map(Url::as_str), expected, "{from} {location}");
        };
        let from = "https://o.example/x";
        check(from, "https://a.example/k?s#f", Some("https://a.example/k?s"));
        check(from, "//A.example/k", Some("https://a.example/k"));
        check(from, "https://x.b.example/k", Some("https://x.b.example/k"));
        check(from, "https://y.x.b.example/k", Some("https://y.x.b.example/k"));
        check(from, "https://c.example:8443/", Some("https://c.example:8443/"));
        for location in [
            "https://b.example/",
            "https://xb.example/",
            "https://a.example.evil.example/",
            "https://evil.example/a.example",
            "https://a.example:444/",
            "https://c.example/",
            "https://user:password@a.example/",
            "https://a.example@evil.example/",
            "http://a.example/",
            "ftp://a.example/",
            "/elsewhere",
            "https://127.0.0.1/",
            "",
        ] {
            check(from, location, None);
        }
        check("http://o.example/x", "http://a.example/k", Some("http://a.example/k"));
        let lines = fields(&["Location: https://a.example/"]);
        for (status, is_followed) in [(301, true), (303, true), (307, true), (308, true), (300, false), (200, false)] {
            let found = next_address(&from.parse().unwrap(), status, &lines, &hosts);
            assert_eq!(found.is_some(), is_followed, "{status}");
        }
    }

    #[test]
    fn hosts_of_redirects_are_names_with_or_without_a_port() {
        for text in ["a.example", "*.a.example", "A.EXAMPLE:80", "192.0.2.1", "[2001:db8::1]:8080"] {
            assert!(RedirectHost::parse(text).is_some(), "{text}");
        }
        for text in ["", "*", "*.", "a.*.example", "https://a.example", "a.example/x", "u@a.example", "a b", "a?b"] {
            assert!(RedirectHost::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn the_second_host_gets_no_credentials() {
        let asked = ["Range: bytes=0-1", "authorization: a", "Cookie: b", "Referer: c", "Via: 1.1 d"];
        let kept = without_credentials(&fields(&asked));
        assert_eq!(shown(&kept), ["Range: bytes=0-1", "Via: 1.1 d"]);
    }

    #[test]
    fn what_a_redirect_says_of_sharing_holds_for_what_it_leads_to() {
        let check = |redirect: &[&str], expected: &[&str]| {
            let mut lines = fields(&["Cache-Control: max-age=9", "CDN-Cache-Control: max-age=8", "ETag: \"a\""]);
            inherit(&fields(redirect), 200, &mut lines);
            assert_eq!(shown(&lines), expected, "{redirect:?}");
        };
        let kept = ["Cache-Control: max-age=9", "CDN-Cache-Control: max-age=8", "ETag: \"a\""];
        check(&["Cache-Control: no-store, max-age=0"], &kept);
        check(&["Vary: Accept"], &[&kept[..], &["Vary: Accept"]].concat());
        check(&["Cache-Control: private"], &["ETag: \"a\"", "Cache-Control: private"]);
    }

    #[test]
    fn a_304_without_vary_leaves_that_of_the_stored_response() {
        let check = |status: u16, lines: &[&str], expected: &[&str]| {
            let mut lines = fields(lines);
            add_vary(status, &mut lines, [&b"Accept"[..]].into_iter());
            assert_eq!(shown(&lines), expected, "{status}");
        };
        check(200, &[], &["Vary: Accept"]);
        check(304, &["Vary: X"], &["Vary: X", "Vary: Accept"]);
        check(304, &["ETag: \"a\""], &["ETag: \"a\""]);
    }

    #[test]
    fn addresses_of_the_second_host_are_absolute() {
        let mut lines = fields(&["Location: /x", "Content-Location: y", "ETag: \"a\""]);
        make_absolute(&"https://b.example/k/l?m".parse().unwrap(), &mut lines);
        let expected = ["ETag: \"a\"", "Location: https://b.example/x", "Content-Location: https://b.example/k/y"];
        assert_eq!(shown(&lines), expected);
    }
}
