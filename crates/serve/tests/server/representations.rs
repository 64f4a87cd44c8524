//! Representations of a file: ranges, compressed companions, digests, and the fields that settings
//! add.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use thalweg_serve::{Rule, ServerConfig, Settings};

use crate::naive::{Response, multipart, take, take_all};
use crate::served::{Served, each_driver, large, letters};

const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const EMPTY_SHA256_FIELD: &str = "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:";

/// Neighbours and digests everywhere, fields on some files.
fn configure(config: &mut ServerConfig) {
    fill(&config.sites[0].mounts[0].root);
    let everywhere = Settings { precompressed: Some(true), digests: Some(true), ..Settings::default() };
    let headers = [("X-Mirror", "one"), ("Content-Language", "en")].map(|(name, value)| (name.into(), value.into()));
    let of_pages = Settings {
        headers: headers.into(),
        cache_control: Some("max-age=60".into()),
        content_type: Some("text/x-page".into()),
        ..Settings::default()
    };
    let rule = |files: Option<&str>, settings| Rule { files: files.map(str::to_owned), settings, ..Rule::default() };
    config.sites[0].rules = vec![rule(None, everywhere), rule(Some("*.page"), of_pages)];
}

fn fill(folder: &Path) {
    let write = |name: &str, content: &[u8], age_s: u64| {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        let modified = SystemTime::now() - Duration::from_secs(age_s);
        fs::File::open(path).unwrap().set_modified(modified).unwrap();
    };
    write("pre/a.page", &[b'a'; 100], 1000);
    write("pre/a.page.gz", &[b'g'; 30], 1000);
    write("pre/a.page.br", &[b'b'; 20], 10);
    write("pre/a.page.zst", &[b'z'; 40], 2000);
    write("pre/index.html", b"index", 1000);
    write("pre/index.html.gz", b"ix", 1000);
    write("pre/large", &large(), 1000);
    write("pre/large.gz", &large()[..200_000], 1000);
    write("pre/SHA256SUMS", format!("{EMPTY_SHA256}  a.page\n{EMPTY_SHA256} *a.page.gz\n").as_bytes(), 500);
    write("pre/large.sha512", "ab".repeat(64).as_bytes(), 500);
    write("pre/large.sha256", EMPTY_SHA256.as_bytes(), 5000);
}

fn exchange(served: &Served, method: &str, path: &str, fields: &str) -> Response {
    let request = format!("{method} {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
    let bytes = served.exchange(request.as_bytes());
    let mut rest = bytes.as_slice();
    let response = take(&mut rest, method).unwrap_or_else(|| panic!("half a response to {request:?}"));
    assert!(rest.is_empty(), "{request:?}");
    response
}

fn each_served(test: impl Fn(&Served)) {
    each_driver(|driver| {
        let Some(served) = Served::start(driver, configure) else { return };
        test(&served);
        served.stop();
    });
}

#[test]
fn the_neighbour_that_is_wanted_most_is_sent() {
    let cases: &[(&str, u16, Option<&str>, &[u8])] = &[
        ("", 200, None, &[b'a'; 100]),
        ("Accept-Encoding: gzip\r\n", 200, Some("gzip"), &[b'g'; 30]),
        ("Accept-Encoding: x-gzip;q=0.1\r\n", 200, Some("gzip"), &[b'g'; 30]),
        ("Accept-Encoding: gzip, br\r\n", 200, Some("br"), &[b'b'; 20]),
        ("Accept-Encoding: gzip, br;q=0.9\r\n", 200, Some("gzip"), &[b'g'; 30]),
        ("Accept-Encoding: *\r\n", 200, Some("br"), &[b'b'; 20]),
        ("Accept-Encoding: identity, gzip;q=0.5\r\n", 200, None, &[b'a'; 100]),
        ("Accept-Encoding: identity;q=0.5, gzip;q=0.5\r\n", 200, Some("gzip"), &[b'g'; 30]),
        // It is older than the file.
        ("Accept-Encoding: zstd\r\n", 200, None, &[b'a'; 100]),
        ("Accept-Encoding: deflate\r\n", 200, None, &[b'a'; 100]),
        ("Accept-Encoding: gzip;q=0, br;q=0\r\n", 200, None, &[b'a'; 100]),
        ("Accept-Encoding: br, identity;q=0\r\n", 200, Some("br"), &[b'b'; 20]),
        (
            "Accept-Encoding: zstd, *;q=0\r\n",
            406,
            None,
            b"<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\"><meta name=\"color-scheme\" content=\"light dark\">\n\
              <title>406 Not Acceptable</title>\n<h1>406 Not Acceptable</h1>\n",
        ),
    ];
    each_served(|served| {
        for (fields, status, coding, body) in cases {
            let response = exchange(served, "GET", "/pre/a.page", fields);
            assert_eq!(response.status, *status, "{fields}");
            assert_eq!(response.field("Content-Encoding"), *coding, "{fields}");
            assert_eq!(response.field("Vary"), Some("Accept-Encoding"), "{fields}");
            assert_eq!(response.body, *body, "{fields}");
            if *status == 200 {
                assert_eq!(response.field("Content-Type"), Some("text/x-page"), "{fields}");
            }
        }
        let index = exchange(served, "GET", "/pre/", "Accept-Encoding: gzip\r\n");
        assert_eq!(
            (index.body.as_slice(), index.field("Content-Type")),
            (&b"ix"[..], Some("text/html; charset=utf-8"))
        );
        let alone = exchange(served, "GET", "/letters", "Accept-Encoding: *;q=0\r\n");
        assert_eq!((alone.status, alone.field("Vary")), (200, None), "there is no choice");
    });
}

#[test]
fn each_coding_has_validators_and_ranges_of_its_own() {
    each_served(|served| {
        let tag = |fields| exchange(served, "GET", "/pre/a.page", fields).field("ETag").unwrap().to_owned();
        let (plain, gzip, br) = (tag(""), tag("Accept-Encoding: gzip\r\n"), tag("Accept-Encoding: br\r\n"));
        assert!(plain != gzip && gzip != br && plain != br);
        for (accept, known, status) in
            [("gzip", &gzip, 304), ("gzip", &plain, 200), ("br", &gzip, 200), ("", &plain, 304)]
        {
            let fields = format!("Accept-Encoding: {accept}\r\nIf-None-Match: {known}\r\n");
            let response = exchange(served, "GET", "/pre/a.page", &fields);
            assert_eq!(response.status, status, "{fields}");
            assert_eq!(response.field("Vary"), Some("Accept-Encoding"));
        }
        let part = |tag: &str| format!("Accept-Encoding: gzip\r\nRange: bytes=100000-100009\r\nIf-Range: {tag}\r\n");
        let tag = exchange(served, "GET", "/pre/large", "Accept-Encoding: gzip\r\n").field("ETag").unwrap().to_owned();
        let response = exchange(served, "GET", "/pre/large", &part(&tag));
        assert_eq!((response.status, response.field("Content-Range")), (206, Some("bytes 100000-100009/200000")));
        assert_eq!(response.body, large()[100_000..100_010]);
        assert_eq!(exchange(served, "GET", "/pre/large", &part("\"x\"")).status, 200);
        let several = exchange(served, "GET", "/pre/large", "Accept-Encoding: gzip\r\nRange: bytes=0-1,5-6\r\n");
        assert_eq!((several.status, several.body.len()), (200, 200_000), "no place to name the coding");
    });
}

#[test]
fn digests_are_told_to_those_who_want_them() {
    let sha512 = format!("sha-512=:{}:", "q6ur".repeat(21) + "qw==");
    let cases: &[(&str, &str, Option<&str>)] = &[
        ("/pre/a.page", "", None),
        ("/pre/a.page", "Want-Repr-Digest: sha-256=1\r\n", Some(EMPTY_SHA256_FIELD)),
        ("/pre/a.page", "Want-Repr-Digest: sha-512=9, sha-256=1\r\n", Some(EMPTY_SHA256_FIELD)),
        ("/pre/a.page", "Want-Repr-Digest: sha-256=0\r\n", None),
        ("/pre/a.page", "Want-Repr-Digest: sha-256\r\n", None),
        ("/pre/a.page", "Want-Repr-Digest: sha-256=1\r\nAccept-Encoding: gzip\r\n", Some(EMPTY_SHA256_FIELD)),
        ("/pre/a.page", "Want-Repr-Digest: sha-256=1\r\nAccept-Encoding: br\r\n", None),
        ("/pre/a.page", "Want-Repr-Digest: sha-256=1\r\nRange: bytes=1-2\r\n", Some(EMPTY_SHA256_FIELD)),
        ("/pre/a.page", "Want-Repr-Digest: sha-256=1\r\nRange: bytes=1-2,5-6\r\n", Some(EMPTY_SHA256_FIELD)),
        ("/pre/large", "Want-Repr-Digest: sha-512=1\r\n", Some(&sha512)),
        // Its list is older than the file.
        ("/pre/large", "Want-Repr-Digest: sha-256=1\r\n", None),
        ("/letters", "Want-Repr-Digest: sha-256=1\r\n", None),
    ];
    each_served(|served| {
        for (path, fields, expected) in cases {
            let response = exchange(served, "GET", path, fields);
            assert_eq!(response.field("Repr-Digest"), *expected, "{path} {fields}");
        }
    });
}

#[test]
fn a_neighbour_that_comes_goes_or_changes_is_seen() {
    each_driver(|driver| {
        let change = |config: &mut ServerConfig| {
            configure(config);
            config.cache.age = Duration::ZERO;
        };
        let Some(served) = Served::start(driver, change) else { return };
        let get =
            || exchange(&served, "GET", "/pre/a.page", "Accept-Encoding: gzip\r\nWant-Repr-Digest: sha-256=1\r\n");
        let path = |name: &str| served.path().join("pre").join(name);
        assert_eq!(get().body, [b'g'; 30]);
        fs::write(path("a.page.gz"), "changed").unwrap();
        assert_eq!(get().body, b"changed");
        assert_eq!(get().field("Repr-Digest"), None, "the list is of what was before");
        fs::remove_file(path("a.page.gz")).unwrap();
        assert_eq!(get().body, [b'a'; 100]);
        fs::write(path("a.page"), "new").unwrap();
        assert_eq!(get().body, b"new");
        assert_eq!(get().field("Vary"), None, "what is left is of what was before");
        fs::write(path("a.page.gz"), "again").unwrap();
        assert_eq!(get().body, b"again");
        served.stop();
    });
}

#[test]
fn settings_add_fields() {
    each_served(|served| {
        let tag = exchange(served, "GET", "/pre/a.page", "").field("ETag").unwrap().to_owned();
        let unmodified = format!("If-None-Match: {tag}\r\n");
        for (fields, status, language) in [
            ("", 200, Some("en")),
            ("Range: bytes=0-1\r\n", 206, Some("en")),
            ("Range: bytes=0-1,4-5\r\n", 206, Some("en")),
            // It describes a body that is not there.
            (&unmodified, 304, None),
        ] {
            let response = exchange(served, "GET", "/pre/a.page", fields);
            assert_eq!(response.status, status);
            assert_eq!(response.field("X-Mirror"), Some("one"), "{fields}");
            assert_eq!(response.field("Cache-Control"), Some("max-age=60"), "{fields}");
            assert_eq!(response.field("Content-Language"), language, "{fields}");
        }
        for (path, fields) in
            [("/pre/x.page", ""), ("/pre/a.page", "Range: bytes=500-\r\n"), ("/pre/a.page", "If-Match: \"x\"\r\n")]
        {
            assert_eq!(exchange(served, "GET", path, fields).field("X-Mirror"), None, "{path} {fields}");
        }
    });
}

/// A generator of numbers (Marsaglia's xorshift), so that a failure can be repeated from its seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// A range of something with this many bytes, and what it means: the first and the byte behind the
/// last one.
fn random_range(chance: &mut Chance, size: u64) -> (String, Option<(u64, u64)>) {
    let (some, more) = (chance.below(size + size / 4), chance.below(size / 2));
    match chance.below(4) {
        0 => (format!("-{more}"), (more > 0).then(|| (size.saturating_sub(more), size))),
        1 => (format!("{some}-"), (some < size).then_some((some, size))),
        _ => (format!("{some}-{}", some + more), (some < size).then(|| (some, size.min(some + more + 1)))),
    }
}

/// The ranges that have to be sent: each byte that is wanted once, in an order by where the first
/// that wanted it stood.
fn apart(wanted: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut apart: Vec<(u64, u64)> = Vec::new();
    for &range in wanted {
        apart.push(range);
        while let Some((one, other)) = (0..apart.len())
            .flat_map(|one| (one + 1..apart.len()).map(move |other| (one, other)))
            .find(|&(one, other)| apart[one].0 < apart[other].1 && apart[other].0 < apart[one].1)
        {
            let other = apart.remove(other);
            apart[one] = (apart[one].0.min(other.0), apart[one].1.max(other.1));
        }
    }
    apart
}

#[test]
fn any_set_of_ranges_brings_the_bytes_that_it_names() {
    each_driver(|driver| {
        let Some(served) = Served::start(driver, |_| {}) else { return };
        let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64 | 1;
        let mut chance = Chance(seed);
        for (path, file) in [("/letters", letters()), ("/large.bin", large())] {
            for _ in 0..100 {
                let count = 1 + chance.below(6);
                let size = file.len() as u64;
                let (texts, ranges): (Vec<_>, Vec<_>) = (0..count).map(|_| random_range(&mut chance, size)).unzip();
                let range = format!("bytes={}", texts.join(", "));
                let context = format!("{path} {range}, seed {seed}");
                let expected = apart(&ranges.into_iter().flatten().collect::<Vec<_>>());
                let response = exchange(&served, "GET", path, &format!("Range: {range}\r\n"));
                let bytes = |&(first, end): &(u64, u64)| file[first as usize..end as usize].to_vec();
                let name = |&(first, end): &(u64, u64)| format!("bytes {first}-{}/{size}", end - 1);
                match &expected[..] {
                    [] => assert_eq!(response.status, 416, "{context}"),
                    [only] => {
                        assert_eq!(response.field("Content-Range"), Some(name(only).as_str()), "{context}");
                        assert!(response.body == bytes(only), "{context}");
                    }
                    several => {
                        let parts = several.iter().map(|range| (name(range), bytes(range))).collect::<Vec<_>>();
                        assert!(multipart(&response) == parts, "{context}");
                    }
                }
            }
        }
        served.stop();
    });
}

#[test]
fn head_says_what_get_says_of_every_representation() {
    each_served(|served| {
        for path in ["/pre/a.page", "/pre/large", "/pre/", "/pre", "/pre/none", "/letters"] {
            for fields in [
                "",
                "Accept-Encoding: gzip, br\r\n",
                "Accept-Encoding: *;q=0\r\n",
                "Want-Repr-Digest: sha-256=1, sha-512=2\r\n",
                "If-None-Match: *\r\nAccept-Encoding: br\r\n",
                "If-Match: \"x\"\r\n",
                "If-Modified-Since: Sun, 06 Nov 2394 08:49:37 GMT\r\n",
                "Connection: close\r\nWant-Repr-Digest: sha-512=2\r\n",
            ] {
                let undated = |method| {
                    let request = format!("{method} {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
                    let mut response = take_all(&served.exchange(request.as_bytes()), &[method]).remove(0);
                    response.fields.retain(|(name, _)| name != "date");
                    response
                };
                let get = undated("GET");
                assert_eq!(undated("HEAD"), Response { body: Vec::new(), ..get }, "{path} {fields:?}");
            }
        }
    });
}
