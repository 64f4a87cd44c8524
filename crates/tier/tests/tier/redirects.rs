//! Redirects of HTTP origins over real connections: those that are followed, and where they may not
//! lead.

use std::borrow::Cow;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use thalweg_caching::FieldLines;
use thalweg_origin::{GroupConfig, OriginConfig, OriginGroup, OriginKind, Prefix, Reach};
use thalweg_tier::{
    Answer, FolderListing, FolderPages, HttpOrigin, ListedFolder, OriginPlace, Origins, RedirectHost, Redirects,
};
use url::Url;

use crate::support::{Origin, Stage, bytes, cache_status, object};

/// No origin here has folders.
struct NoPages;

impl FolderPages for NoPages {
    fn index_names(&self, _: &str) -> Arc<[String]> {
        Arc::new([])
    }

    fn is_listed(&self, _: &str) -> bool {
        false
    }

    fn media_type(&self, _: &str) -> Cow<'static, str> {
        "text/plain".into()
    }

    fn folder(&self, _: &str, _: FolderListing) -> Arc<dyn ListedFolder> {
        unreachable!("nothing is listed")
    }

    fn bytes_max(&self) -> usize {
        0
    }
}

/// A server on loopback that answers by a function of the whole head, and the heads that it got.
struct Server {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(answer: impl Fn(&str) -> String + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, heads) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<String>>>::default());
        let seen = Arc::clone(&heads);
        // It ends with the process of the test.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let head: Vec<String> =
                    BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
                let head = head.join("\n").to_ascii_lowercase();
                let response = answer(&head);
                seen.lock().unwrap().push(head);
                let _ = (&stream).write_all(response.as_bytes());
            }
        });
        Self { address, heads }
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

fn response(status: &str, fields: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{fields}Connection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn redirect(to: &str) -> String {
    response("302 Found", &format!("Location: {to}\r\nCache-Control: no-store\r\n"), "")
}

/// A tier in front of a server whose redirects to another one are followed, three at a time, if its
/// address is among `networks`.
fn stage(first: &Server, other: SocketAddr, networks: Vec<Prefix>) -> Stage {
    let base: Url = format!("http://{}/pub/", first.address).parse().unwrap();
    let mut config = OriginConfig::new("first", OriginKind::Http { base: base.clone() });
    config.fields = vec![("Authorization".to_owned(), "Bearer own".to_owned())];
    let settings = OriginConfig {
        fields: Vec::new(),
        reach: Reach::Public(networks),
        ..OriginConfig::new("other", config.kind.clone())
    };
    let hosts = vec![RedirectHost::parse(&other.to_string()).unwrap()];
    let redirects = Some(Redirects::new(3, hosts, settings));
    let http = HttpOrigin { place: OriginPlace::new(&base, None, "/"), rewrites: true, redirects };
    let group = Arc::new(OriginGroup::new(vec![config], GroupConfig::default()).unwrap());
    let origins = Origins::new(group, vec![Some(http)], Arc::new(NoPages));
    Stage::before(Arc::new(origins), Arc::new(Origin::default()))
}

/// A tier in front of two servers, the second for the failures of the first, with redirects to a
/// third.
fn stage_of_two(servers: [&Server; 2], other: SocketAddr) -> Stage {
    let of = |name: &str, server: &Server| {
        let base: Url = format!("http://{}/", server.address).parse().unwrap();
        let config = OriginConfig::new(name, OriginKind::Http { base: base.clone() });
        let settings = OriginConfig { reach: Reach::Public(loopback()), ..config.clone() };
        let redirects = Some(Redirects::new(3, vec![RedirectHost::parse(&other.to_string()).unwrap()], settings));
        (config, Some(HttpOrigin { place: OriginPlace::new(&base, None, "/"), rewrites: true, redirects }))
    };
    let (configs, http) = [of("first", servers[0]), of("second", servers[1])].into_iter().unzip();
    let group = Arc::new(OriginGroup::new(configs, GroupConfig::default()).unwrap());
    Stage::before(Arc::new(Origins::new(group, http, Arc::new(NoPages))), Arc::new(Origin::default()))
}

#[test]
fn a_host_of_a_redirect_that_fails_has_the_next_origin_asked() {
    let refusing = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let failing = Server::start(|_| response("503 Service Unavailable", "Cache-Control: no-store\r\n", "busy"));
    for other in [refusing, failing.address] {
        let to = format!("http://{other}/k");
        let first = Server::start(move |_| redirect(&to));
        let second = Server::start(|_| response("200 OK", "Cache-Control: max-age=60\r\n", "content"));
        let stage = stage_of_two([&first, &second], other);
        assert_eq!(bytes(stage.get("/a")).unwrap(), b"content");
        assert_eq!((first.heads().len(), second.heads().len()), (1, 1));
    }
    // If the last one leads to it, too, its answer is that of the mount.
    let to = format!("http://{}/k", failing.address);
    let leading = || {
        let to = to.clone();
        Server::start(move |_| redirect(&to))
    };
    let stage = stage_of_two([&leading(), &leading()], failing.address);
    let Answer::Response(answer) = stage.get("/a") else { panic!("a response") };
    assert_eq!(answer.status, 503);
    let to = format!("http://{refusing}/k");
    let servers = [(); 2].map(|()| {
        let to = to.clone();
        Server::start(move |_| redirect(&to))
    });
    let stage = stage_of_two([&servers[0], &servers[1]], refusing);
    let Answer::Failed(failure) = stage.get("/a") else { panic!("a failure") };
    assert!(failure.status == 502 && failure.reason.contains("; "), "{failure:?}");
}

fn loopback() -> Vec<Prefix> {
    vec![Prefix { address: "127.0.0.0".parse().unwrap(), bits: 8 }]
}

#[test]
fn what_a_redirect_leads_to_is_stored_under_the_first_url() {
    let other = Server::start(|head| {
        let fresh = "Cache-Control: max-age=60\r\nETag: \"a\"\r\nContent-Location: /x\r\n";
        response("200 OK", fresh, if head.contains("range") { "part" } else { "content" })
    });
    let to = format!("http://{}/k?X-Amz-Signature=a#f", other.address);
    let first = Server::start(move |_| redirect(&to));
    let stage = stage(&first, other.address, loopback());
    let answer = stage.ask("GET", "/a", &[("Cookie", "c=1"), ("Accept", "b/c"), ("Referer", "d")]);
    assert_eq!(cache_status(&answer), "thalweg;fwd=uri-miss;stored");
    let found = object(answer);
    let location = format!("http://{}/x", other.address);
    assert_eq!(found.fields.first("content-location"), Some(location.as_bytes()), "of the second host");
    assert!(cache_status(&stage.get("/a")).starts_with("thalweg;hit"));
    assert_eq!(bytes(stage.get("/a")).unwrap(), b"content");
    let (asked, led) = (first.heads(), other.heads());
    assert_eq!((asked.len(), led.len()), (1, 1));
    assert!(asked[0].starts_with("get /pub/a ") && asked[0].contains("bearer own"), "{asked:?}");
    assert!(led[0].starts_with("get /k?x-amz-signature=a http") && led[0].contains("accept: b/c"), "{led:?}");
    for credentials in ["authorization", "cookie", "referer"] {
        assert!(!led[0].contains(&format!("\n{credentials}")), "{led:?}");
    }
    // A loop through the other host would be seen.
    assert!(led[0].contains("via: 1.1 thalweg-"), "{led:?}");
}

#[test]
fn a_redirect_does_not_lead_to_a_private_address() {
    let other = Server::start(|_| response("200 OK", "", "secret"));
    let to = format!("http://{}/latest/meta-data", other.address);
    let first = Server::start(move |_| redirect(&to));
    let Answer::Failed(failure) = stage(&first, other.address, Vec::new()).get("/a") else { panic!("it was followed") };
    assert_eq!(failure.status, 502);
    assert!(failure.reason.contains("is public, and redirects lead to no others"), "{}", failure.reason);
    assert!(other.heads().is_empty());
}

#[test]
fn redirects_without_an_end_and_to_other_hosts_are_not_followed() {
    let endless = Server::start(|head| redirect(&format!("/x{}", head.len())));
    let address = endless.address;
    let first = Server::start(move |head| match head.split(' ').nth(1).unwrap_or_default() {
        "/pub/endless" => redirect(&format!("http://{address}/")),
        "/pub/own" => redirect("/pub/content"),
        "/pub/folder" => response("301 Moved", "Location: /pub/folder/\r\n", ""),
        "/pub/content" => response("200 OK", "Cache-Control: max-age=60\r\n", "content"),
        _ => redirect("https://unknown.example/"),
    });
    let stage = stage(&first, address, loopback());
    let Answer::Failed(failure) = stage.get("/endless") else { panic!("it ends") };
    assert!(failure.status == 502 && failure.reason.contains("more than 3 redirects"), "{}", failure.reason);
    assert_eq!(endless.heads().len(), 3);
    // Within the folder, with the credentials of the origin.
    assert_eq!(bytes(stage.get("/own")).unwrap(), b"content");
    assert!(first.heads().iter().all(|head| head.contains("bearer own")));
    let location = |target: &str| {
        let Answer::Response(response) = stage.get(target) else { panic!("{target} was followed") };
        String::from_utf8_lossy(response.fields.first("location").unwrap()).into_owned()
    };
    assert_eq!((&*location("/folder"), &*location("/unknown")), ("/folder/", "https://unknown.example/"));
}

#[test]
fn parts_are_fetched_through_the_redirect_again() {
    let content: String = (0..3 << 20).map(|at| char::from(b'a' + (at / 1000 % 26) as u8)).collect();
    let whole = content.clone();
    let other = Server::start(move |head| {
        let range = head.lines().find_map(|line| line.strip_prefix("range: bytes="));
        let Some((first, last)) = range.and_then(|range| range.split_once('-')) else {
            return response("200 OK", "ETag: \"a\"\r\n", &content);
        };
        let first: usize = first.parse().unwrap();
        let last = last.parse().unwrap_or(usize::MAX).min(content.len() - 1);
        let fields = format!("ETag: \"a\"\r\nContent-Range: bytes {first}-{last}/{}\r\n", content.len());
        response("206 Partial Content", &fields, &content[first..=last])
    });
    let to = format!("http://{}/k", other.address);
    let first = Server::start(move |_| redirect(&to));
    let stage = stage(&first, other.address, loopback());
    let part = object(stage.ask("GET", "/a", &[("Range", "bytes=2097152-2097161")]));
    assert_eq!(part.length as usize, whole.len());
    assert!(bytes(Answer::Object(part)).unwrap() == whole.as_bytes());
    assert!(first.heads().len() >= 2 && first.heads().len() == other.heads().len(), "{:?}", first.heads());
}
